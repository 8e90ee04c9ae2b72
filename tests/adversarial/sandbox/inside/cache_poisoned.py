# attack: writes a forged entry into the compile cache, replaces one, cuts one short, appends to the database
# layer: write_outside
# open in: process-bare
import os
from pathlib import Path

from kit import facts, tries

cache, database = facts["cache"], facts["database"]


def replace():
    with open("forged", "wb") as file:
        file.write(b"forged")
    os.rename("forged", os.path.join(cache, "entry"))


def link():
    with open("linked", "wb") as file:
        file.write(b"forged")
    os.link("linked", os.path.join(cache, "linked"))


tries("wrote a new entry", Path(cache, "new").write_bytes, b"forged")
tries("replaced an entry", replace)
tries("linked an entry in", link)
tries("cut an entry short", os.truncate, os.path.join(cache, "entry"), 0)
tries("removed an entry", os.unlink, os.path.join(cache, "entry"))
tries("wrote into the database", os.truncate, database, 3)
