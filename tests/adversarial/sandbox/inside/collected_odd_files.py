# attack: leaves a FIFO, a socket, a device, a folder and a sparse file of a terabyte where files were to be collected
# layer: work_limit
# collects: one two three four five
# limits: file_bytes=1048576
# ends: itself
import contextlib
import os
import resource
import signal
import socket
import stat

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
os.mkfifo("one")
with contextlib.suppress(OSError):
    socket.socket(socket.AF_UNIX).bind("two")
with contextlib.suppress(OSError):
    os.mknod("three", stat.S_IFCHR | 0o666, os.makedev(1, 5))
os.mkdir("four")
with contextlib.suppress(OSError):
    os.truncate(os.open("five", os.O_CREAT | os.O_RDWR), 1 << 40)
    print("BROKE: a file of a terabyte", resource.getrlimit(resource.RLIMIT_FSIZE))
