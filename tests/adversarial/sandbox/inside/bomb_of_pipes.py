# attack: fills as many pipes as it can open, each as large as it can be made
# layer: memory_limit
# limits: open_files=128
import contextlib
import fcntl
import os

from kit import broke

filled_bytes = 0
with contextlib.suppress(OSError):
    while True:
        _reading, writing = os.pipe2(os.O_NONBLOCK)
        with contextlib.suppress(OSError):
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 1 << 20)
        with contextlib.suppress(BlockingIOError):
            filled_bytes += os.write(writing, bytes(1 << 20))
if filled_bytes > 128 << 20:
    broke(f"holds {filled_bytes} bytes in pipes")
