# attack: fills the disk with files that it unlinks while they are open
# layer: work_limit
# limits: work_bytes=16777216 file_bytes=4194304
# ends: work, refused
import os
import time

from kit import broke

kept = []
for number in range(30):
    fd = os.open(f"file{number}", os.O_CREAT | os.O_WRONLY)
    os.unlink(f"file{number}")
    os.write(fd, bytes(4 << 20))
    kept.append(fd)
    time.sleep(0.02)
broke("120 MiB of 16, nameless")
