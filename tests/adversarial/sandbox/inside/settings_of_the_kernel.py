# attack: opens the kernel's settings and control groups for writing
# layer: write_outside
# open in: process-bare
import os

from kit import tries

for path in ("sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/vm/drop_caches", "sysrq-trigger"):
    tries(f"opened /proc/{path}", os.open, f"/proc/{path}", os.O_WRONLY)


def make_group(path):
    os.mkdir(path)
    os.rmdir(path)


for parent in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/pids"):
    if os.path.isdir(parent):
        tries(f"made a control group in {parent}", make_group, f"{parent}/assay-attack")
