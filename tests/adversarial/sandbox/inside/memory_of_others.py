# attack: reads and writes the memory of other processes: /proc/PID/mem, process_vm_readv, pidfd_getfd
# layer: other_processes
# open in: process-bare
import os
from pathlib import Path

from kit import facts, must_be_refused, tries

others = [facts["bystander"], facts["grader"]]
if facts["kind"].startswith("process"):
    others.append(os.getppid())  # elsewhere its own first process, which is as much in there as it is
for pid in others:
    tries(f"opened the memory of {pid}", os.open, f"/proc/{pid}/mem", os.O_RDWR)
    tries(f"read the map of {pid}", Path(f"/proc/{pid}/maps").read_text)
must_be_refused("process_vm_readv", 310, 270, facts["bystander"], 0, 1, 0, 1, 0)
must_be_refused("pidfd_getfd", 438, 438, -1, 0, 0)
must_be_refused("kcmp", 312, 272, os.getpid(), facts["grader"], 99, 0, 0)
