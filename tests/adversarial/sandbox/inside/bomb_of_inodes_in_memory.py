# attack: makes ever more empty files in /tmp, which is in memory and counts bytes only
# layer: work_limit
# limits: wall_s=20
# ends: work, itself
# not in: process-bare, where it would fill the machine's own /tmp
import os
import time

from kit import broke

made = 0
try:
    os.mkdir("/tmp/many")
    for _ in range(60_000):
        os.close(os.open(f"/tmp/many/{made}", os.O_CREAT | os.O_WRONLY))
        made += 1
    time.sleep(0.5)
except OSError:
    pass
if made > 50_000:
    broke(f"{made} files")
