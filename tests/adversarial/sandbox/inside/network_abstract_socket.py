# attack: connects to an abstract unix socket of the host, which no file permission guards
# layer: network
# open in: process-bare
import socket

from kit import facts, tries

tries("connected", lambda: socket.socket(socket.AF_UNIX).connect("\0" + facts["abstract"]))
