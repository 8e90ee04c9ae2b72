"""A time of day that jumps, for all processes of a set-up: libfaketime, told by a file while they run."""

from pathlib import Path

LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib*/faketime/libfaketimeMT.so.1")
JUMPS_S = (-86400, 3600, -30, 90000, 0)


def faketime():
    """The library; None where it is not installed."""
    return next((found for pattern in LIBRARIES for found in Path("/").glob(pattern[1:])), None)


class Jumping:
    """The clock of one set-up. `victim` sets it wrong by another amount each time, as an operator or NTP would."""

    def __init__(self, folder):
        self._file = Path(folder, "clock")
        self._turn = 0
        self._tell(0)

    @property
    def environment(self):
        # The steady clock stays as it is, as on a real machine: only the time of day is ever set.
        return {
            "LD_PRELOAD": str(faketime()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def _tell(self, ahead_s):
        aside = self._file.with_suffix(".new")
        aside.write_text(f"{ahead_s:+d}\n")
        aside.replace(self._file)

    def jump(self, chance):
        self._tell(JUMPS_S[self._turn % len(JUMPS_S)])
        self._turn += 1
