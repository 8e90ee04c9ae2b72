# attack: opens the machine's devices (disks, memory, the kernel's log, terminals) and makes one of its own
# layer: host_files
# open in: process-bare
import glob
import os
import stat

from kit import tries

for pattern in ("/dev/sd*", "/dev/vd*", "/dev/nvme*", "/dev/mem", "/dev/kmsg", "/dev/tty0", "/dev/fuse", "/dev/kvm"):
    for path in glob.glob(pattern):
        tries(f"opened {path}", os.open, path, os.O_RDONLY | os.O_NONBLOCK)
for path in ("/dev/kmsg", "/dev/tty", "/dev/console"):
    tries(f"opened {path}", os.open, path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
tries("made a device", os.mknod, "disk", stat.S_IFBLK | 0o666, os.makedev(8, 0))
