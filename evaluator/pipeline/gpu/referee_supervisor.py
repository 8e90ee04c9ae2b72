"""The parent of a referee's process: it waits for its end, and writes down how that came.

    python -m evaluator.pipeline.gpu.referee_supervisor FOLDER COMMAND …

A referee outlives the grader that started it, and only the parent of a process is told how it ended. Graders want to
know: a program may bring down the referee that judges it (an error in the driver: a crash, or an exit), which counts
against it, and someone outside may kill it, which counts against nobody. That the kernel ended it for want of memory
cannot be told from the latter (both are SIGKILL): so a kill is held against a job once that was tried alone.

It imports nothing that takes long and touches no GPU, so nothing that a program does ends it; when it is ended, its
referee ends with it.
"""

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Final

from common.file_replacement import replace_file

_PR_SET_PDEATHSIG: Final = 1
_WRITTEN_WITHIN_S: Final = 2.0
"""How long after the end of a referee it may take to write that down."""
_GONE_WITHIN_S: Final = 0.5
"""How long a process lives that has closed its sockets at its end."""
_KEPT_S: Final = 600.0


def how_it_ended(folder: Path, pid: int) -> int | None:
    """The exit code of the referee `pid` that has hung up, or the negative number of the signal that ended it.

    None where its supervisor was ended with it, so that nobody has written it down. 0 where it still lives.
    """
    asked_s = time.monotonic()
    while (waited_s := time.monotonic() - asked_s) < _WRITTEN_WITHIN_S:
        with contextlib.suppress(OSError, ValueError):
            return int((folder / str(pid)).read_text(encoding="ascii"))
        if waited_s > _GONE_WITHIN_S and _lives(pid):
            return 0
        time.sleep(0.02)
    return None


def forget_endings(folder: Path) -> None:
    """Remove what nobody will ask for any more."""
    with contextlib.suppress(OSError):
        for file in folder.iterdir():
            if time.time() - file.stat().st_mtime > _KEPT_S:
                file.unlink()


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state not in "ZX"


def main() -> None:
    """Run the command, pass signals on to it, write down how it ended, and end likewise."""
    folder, command = Path(sys.argv[1]), sys.argv[2:]
    own_pid = os.getpid()
    libc = ctypes.CDLL(None)

    def end_with_parent() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != own_pid:
            os.kill(os.getpid(), signal.SIGKILL)

    referee = subprocess.Popen(command, preexec_fn=end_with_parent)

    def pass_on(number: int, frame: FrameType | None) -> None:
        referee.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, pass_on)
    code = referee.wait()
    _write_down(folder, referee.pid, code)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(own_pid, -code)
    raise SystemExit(code)


def _write_down(folder: Path, pid: int, code: int) -> None:
    with contextlib.suppress(OSError):  # a full disk: then it counts as any end that nobody knows
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(folder / str(pid), str(code))


if __name__ == "__main__":
    main()
