# attack: changes mode, owner, times and attributes of files outside its folder
# layer: write_outside
# open in: process-bare
import os

from kit import facts, tries

entry = os.path.join(facts["cache"], "entry")
tries("changed the mode", os.chmod, entry, 0o644)
tries("changed the owner", os.chown, entry, os.getuid(), os.getgid())
tries("changed the times", os.utime, entry)
tries("set an attribute", os.setxattr, entry, "user.attack", b"x")
tries("locked the data folder", os.chmod, facts["cache"], 0o700)
