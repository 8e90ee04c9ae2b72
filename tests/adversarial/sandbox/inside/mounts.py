# attack: mounts, unmounts, moves its root: the old calls and the new
# layer: kernel_calls
# open in: process-bare
from kit import must_be_refused

# A file system that does not exist and descriptors that are none: what gets that far was not refused.
must_be_refused("fsopen", 430, 430, -1, -1)
must_be_refused("open_tree", 428, 428, -1, b"\0", 0xFFFF0000)
must_be_refused("mount_setattr", 442, 442, -1, b"\0", 0xFFFF, 0, 0)
must_be_refused("mount", 165, 40, 0, 0, 0, 0, 0)
must_be_refused("umount2", 166, 39, b"/nowhere\0", 0xFFFF)
must_be_refused("pivot_root", 155, 41, 0, 0)
must_be_refused("chroot", 161, 51, b"/nowhere\0")
