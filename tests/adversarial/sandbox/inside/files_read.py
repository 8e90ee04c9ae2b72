# attack: reads the host's password file, home folders, the data folder, its database, cache and secrets
# layer: host_files
# open in: process-bare
import contextlib
import hashlib
from pathlib import Path

from kit import broke, facts

for path in facts["secrets"]:
    with contextlib.suppress(OSError):
        broke(f"read {path}: {Path(path).read_bytes()[:40]!r}")
for path, digest in facts["system_files"].items():
    with contextlib.suppress(OSError):
        if hashlib.sha256(Path(path).read_bytes()).hexdigest() == digest:
            broke(f"read {path}")
