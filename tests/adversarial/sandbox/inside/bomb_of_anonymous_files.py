# attack: hides memory in anonymous files (memfd), which belong to no process
# layer: memory_limit
# limits: work_bytes=67108864 file_bytes=33554432
# ends: itself, work, memory
import os
import time

from kit import broke

try:
    kept = [os.memfd_create(f"bomb{number}") for number in range(6)]
except OSError:
    kept = []
for fd in kept:
    os.write(fd, bytes(30 << 20))
if kept:
    time.sleep(1)
    broke("six anonymous files of 30 MiB")
