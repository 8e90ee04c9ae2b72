# attack: makes ever more names in its work folder: folders, and links to one empty file, which take no bytes
# layer: work_limit
# limits: wall_s=30
# ends: work, refused
import os
import time

from kit import broke

os.close(os.open("empty", os.O_CREAT | os.O_WRONLY))
for folder in range(60):
    os.mkdir(f"folder{folder}")
    for number in range(1000):
        os.link("empty", f"folder{folder}/{number}")
time.sleep(10)
broke("60000 names")
