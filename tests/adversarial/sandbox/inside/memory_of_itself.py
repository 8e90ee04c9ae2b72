# attack: rewrites its own code through /proc/self/mem, as a way around read-only pages
# layer: other_processes
import contextlib
import ctypes
import os

word = ctypes.create_string_buffer(b"before")
with contextlib.suppress(OSError):
    memory = os.open("/proc/self/mem", os.O_RDWR)
    os.pwrite(memory, b"after", ctypes.addressof(word))
# Its own memory is its own: whatever it made of it, the next job and the grader must not notice.
