# attack: leaves links, hard and soft, where a file was to be collected
# layer: host_files
# collects: one two three four five
import contextlib
import os

from kit import facts

secret = facts["secrets"][0]
for name, target in (("one", secret), ("two", "/etc/passwd"), ("three", "/proc/self/environ")):
    os.symlink(target, name)
with contextlib.suppress(OSError):
    os.link(secret, "four")
# A second name of its own file looks the same from outside as one of somebody else's: neither comes back.
with open("own", "w") as own:
    own.write(facts["token"])
os.link("own", "five")
