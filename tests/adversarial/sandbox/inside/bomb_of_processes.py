# attack: forks ever more processes
# layer: process_limit
# limits: processes=16
# ends: processes, refused
import os
import time

from kit import broke

for _ in range(7):  # 128 processes, and no more even where nothing holds them
    os.fork()
time.sleep(2)
broke("had 128 processes at a time")
