# attack: leaves files that resist removal: no permissions, deep, links to elsewhere, odd names
# layer: no_leftovers
# ends: itself, work
import contextlib
import os

os.mkdir("locked")
for name in ("-rf", "a\nb", "\udcff", "*", "x" * 255):
    with contextlib.suppress(OSError), open(os.path.join("locked", name), "w") as file:
        file.write("x")
with contextlib.suppress(OSError):
    os.chmod("locked", 0)
os.symlink("/", "root")
os.symlink("/etc", "etc")
for _ in range(200):
    os.mkdir("d")
    os.chdir("d")
