# attack: reads and writes the work folder of another job that runs at the same time
# layer: host_files
# open in: process-bare
import os
from pathlib import Path

from kit import broke, facts, tries

other = facts["other_job"]
tries("listed it", os.listdir, other)
for name in ("input", "output"):
    tries(f"read its {name}", lambda n=name: Path(other, n).read_bytes())
try:
    for name in os.listdir(facts["jobs"]):
        if Path(facts["jobs"], name, "input").exists():
            broke(f"found {name}")
except OSError:
    pass
