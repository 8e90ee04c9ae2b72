# attack: types into the terminal of the person who started the grader (TIOCSTI, TIOCLINUX)
# layer: kernel_calls
# open in: process-bare
import fcntl

from kit import broke

for name, request in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C)):
    try:
        fcntl.ioctl(0, request, b"x")
        broke(name)
    except PermissionError:
        pass
    except OSError as error:
        broke(f"{name} was looked into: {error.strerror}")
