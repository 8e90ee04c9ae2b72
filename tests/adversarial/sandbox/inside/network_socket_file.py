# attack: connects to a unix socket by its path, as a Docker daemon's, also from one end of a datagram pair
# layer: network
# open in: process-bare
import socket

from kit import facts, tries

tries("connected to the stream", lambda: socket.socket(socket.AF_UNIX).connect(facts["stream_socket"]))


def by_pair():
    one, _other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"hello", facts["datagram_socket"])


tries("sent to the datagram socket", by_pair)
