# attack: asks a name server on the host by UDP, and the machine's own resolver
# layer: network
# open in: process-bare
import socket

from kit import broke, facts, tries

query = bytes.fromhex("abcd01000001000000000000") + b"\x07example\x03com\0\0\x01\0\x01"


def ask():
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asking.settimeout(0.3)
    asking.sendto(query, ("127.0.0.1", facts["udp_port"]))
    if asking.recv(512) != query[::-1]:
        raise OSError


tries("a name server of the host answered", ask)
try:
    socket.getaddrinfo("name-server-says-hello.invalid", 53)
    broke("a name was resolved")
except OSError:
    pass
