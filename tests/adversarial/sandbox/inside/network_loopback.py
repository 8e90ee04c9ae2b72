# attack: connects to a server on the host's loopback, by IPv4 and IPv6
# layer: network
# open in: process-bare
import socket

from kit import facts, tries

for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    tries(f"connected to {address}", lambda f=family, a=address: socket.socket(f).connect((a, facts["tcp_port"])))
