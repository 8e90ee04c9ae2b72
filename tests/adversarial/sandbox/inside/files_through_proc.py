# attack: reaches the host's files through /proc: other processes' root, cwd and open descriptors, its own root
# layer: host_files
# open in: process-bare
import os
from pathlib import Path

from kit import facts, tries

secret = facts["secrets"][0]
for pid in ("self", "1", str(os.getppid()), str(facts["bystander"]), str(facts["grader"])):
    tries(f"read through the root of {pid}", Path(f"/proc/{pid}/root{secret}").read_text)
for pid in (os.getppid(), facts["bystander"], facts["grader"]):
    tries(f"read a descriptor of {pid}", Path(f"/proc/{pid}/fd/{facts['open_secret']}").read_text)
