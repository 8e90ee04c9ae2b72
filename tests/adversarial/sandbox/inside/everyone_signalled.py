# attack: signals everybody at once (kill -1), itself excepted
# layer: other_processes
# not in: process-bare, where nothing would keep it from the whole machine
import contextlib
import os
import re
import signal
from pathlib import Path

status = Path("/proc/self/status").read_text()
# Only where it is known to be kept in: by the filter, or in a namespace of few processes.
assert "Seccomp:\t2" in status or int(re.search(r"NSpid:.*\t(\d+)$", status, re.MULTILINE)[1]) < 20
with contextlib.suppress(OSError):
    os.kill(-1, signal.SIGURG)  # harmless to whoever does not ask for it; the bystander does, and tells
