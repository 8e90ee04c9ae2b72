# attack: opens ever more files
# layer: process_limit
# limits: open_files=64
import os

from kit import broke

opened = 0
try:
    for _ in range(1000):
        os.open("/dev/null", os.O_RDONLY)
        opened += 1
except OSError:
    pass
if opened > 64:
    broke(f"{opened} open files")
