# attack: gains capabilities: becomes root, sets its own, starts programs with the setuid bit
# layer: capabilities
import contextlib
import os
from pathlib import Path

from kit import broke, call

with contextlib.suppress(OSError):
    os.setuid(0)
header, wanted = b"\x22\x05\x08\x20" + bytes(4), b"\xff" * 24  # LINUX_CAPABILITY_VERSION_3, itself
if call(126, 91, header, wanted)[0] == 0:
    broke("set its capabilities")
status = Path("/proc/self/status").read_text()
for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
    if int(status.split(f"{name}:")[1].split()[0], 16):
        broke(f"has {name}")
for program in ("/usr/bin/su", "/usr/bin/mount", "/usr/bin/passwd", "/usr/bin/newgrp", "/usr/bin/chsh"):
    # With no new privileges the bit is ignored: the kernel says so here, before any such program is run.
    if os.path.exists(program) and "NoNewPrivs:\t1" not in status:
        broke(f"could run {program} as root")
