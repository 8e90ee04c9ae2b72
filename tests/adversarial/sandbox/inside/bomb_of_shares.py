# attack: takes memory in several processes, each within its limit
# layer: memory_limit
# limits: memory_bytes=134217728
# ends: memory, refused
import os
import time

from kit import broke

for _ in range(3):
    if os.fork() == 0:
        block = b"x" * (70 << 20)
        time.sleep(3)
        os._exit(0)
time.sleep(2)
broke("three processes took 70 MiB each of 128")
