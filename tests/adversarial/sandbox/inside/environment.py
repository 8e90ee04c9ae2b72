# attack: reads secrets from the environment, its own and that of every process in /proc
# layer: environment
# open in: process-bare
import os
from pathlib import Path

from kit import broke, facts

if any(facts["token"] in value for value in os.environ.values()):
    broke("in its own environment")
for pid in {"self", "1", str(os.getppid()), str(facts["bystander"]), str(facts["grader"])}:
    try:
        if facts["token"].encode() in Path(f"/proc/{pid}/environ").read_bytes():
            broke(f"in the environment of {pid}")
    except OSError:
        pass
