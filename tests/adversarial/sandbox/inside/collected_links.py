# attack: leaves links, hard and soft, where a file was to be collected
# layer: host_files
# collects: one two three four
import contextlib
import os

from kit import facts

secret = facts["secrets"][0]
for name, target in (("one", secret), ("two", "/etc/passwd"), ("three", "/proc/self/environ")):
    os.symlink(target, name)
with contextlib.suppress(OSError):
    os.link(secret, "four")
