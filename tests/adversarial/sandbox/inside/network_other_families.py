# attack: opens sockets of families that reach the kernel or the hypervisor: netlink, packet, vsock, alg, bluetooth
# layer: kernel_calls
# open in: process-bare
import socket

from kit import tries

for family, number, kind in (("netlink", 16, 3), ("packet", 17, 3), ("vsock", 40, 1), ("alg", 38, 5), ("can", 29, 3)):
    tries(f"opened a {family} socket", socket.socket, number, kind, 0)
