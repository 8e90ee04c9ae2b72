"""A time of day that jumps, for all processes of a set-up.

libfaketime would do, but changes pauses and steady clocks too: they fail when its time goes back.
"""

import os
import shutil
import struct
import subprocess
from pathlib import Path

JUMPS_S = (-86400, 3600, -30, 90000, 0)


def c_compiler():
    """The C compiler of this machine; None where there is none."""
    return shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")


class Jumping:
    """The clock of one set-up. `jump` sets it wrong by another amount each time, as an operator or NTP would."""

    def __init__(self, folder):
        self._file = Path(folder, "clock")
        self._file.write_bytes(struct.pack("l", 0))
        library = Path(folder, "clock.so")
        source = Path(__file__).with_name("clock.c")
        subprocess.run([c_compiler(), "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        self.environment = {"LD_PRELOAD": str(library), "SOAK_CLOCK": str(self._file)}
        self._turn = 0

    def jump(self, chance):
        descriptor = os.open(self._file, os.O_WRONLY)
        os.pwrite(descriptor, struct.pack("l", JUMPS_S[self._turn % len(JUMPS_S)]), 0)
        os.close(descriptor)
        self._turn += 1
