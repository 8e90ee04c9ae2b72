# attack: looks for other processes and their command lines
# layer: other_processes
# open in: process-bare
from pathlib import Path

from kit import broke, facts

try:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if facts["mark"].encode() in (entry / "cmdline").read_bytes() and int(entry.name) != 0:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    if b"bystander" in words:
                        broke(f"sees {words[-3:]}")
            except OSError:
                pass
except OSError:
    pass
