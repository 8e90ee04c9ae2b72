# attack: fills the disk with files, each within the limit
# layer: work_limit
# limits: work_bytes=16777216 file_bytes=4194304
# ends: work, refused
from kit import broke

for number in range(30):
    with open(f"file{number}", "wb") as file:
        file.write(bytes(4 << 20))
broke("120 MiB of 16")
