"""Where a referee's thread spends its time: its stack, looked at a few hundred times a second from another thread.

Off unless `ASSAY_REFEREE_PROFILE` names a folder; then `PID.json` in it says how often each stack was seen, renewed
every few seconds and at the end. It costs the referee about one percent.
"""

import contextlib
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from common.file_replacement import replace_file

VARIABLE: Final = "ASSAY_REFEREE_PROFILE"
_EVERY_S: Final = 0.004
_WRITE_EVERY: Final = 500
"""Samples: about every two seconds, since who reads does not wait for the end."""
_OWN: Final = str(Path(__file__).parents[3]) + os.sep


@contextlib.contextmanager
def sampled(folder: str | None = None) -> Iterator[None]:
    """Sample the calling thread while the block runs, if `folder` (else the variable) names where to write."""
    folder = folder if folder is not None else os.environ.get(VARIABLE, "")
    if not folder:
        yield
        return
    sampler = _Sampler(Path(folder, f"{os.getpid()}.json"), threading.get_ident())
    # A thread that computes in Python gives way after this time: at the usual 5 ms it would be seen mostly at waits.
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    sampler.start()
    try:
        yield
    finally:
        sampler.stop()
        sys.setswitchinterval(before_s)


class _Sampler(threading.Thread):
    def __init__(self, file: Path, watched: int) -> None:
        super().__init__(name="stack samples", daemon=True)
        self._file, self._watched = file, watched
        self._over = threading.Event()
        self._stacks: Counter[str] = Counter()

    def run(self) -> None:
        seen = 0
        while not self._over.wait(_EVERY_S):
            frame = sys._current_frames().get(self._watched)
            if frame is not None:
                self._stacks[_stack(frame)] += 1
            seen += 1
            if seen % _WRITE_EVERY == 0:
                self._write()

    def stop(self) -> None:
        self._over.set()
        self.join()
        self._write()

    def _write(self) -> None:
        # A disk without room costs the profile, and no job.
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._file, json.dumps(self._stacks))


def _stack(frame: FrameType) -> str:
    """From the outermost call to the innermost, `file:function:line` with `;` between them."""
    calls = []
    at: FrameType | None = frame
    while at is not None:
        code = at.f_code
        calls.append(f"{code.co_filename.removeprefix(_OWN)}:{code.co_name}:{at.f_lineno}")
        at = at.f_back
    return ";".join(reversed(calls))
