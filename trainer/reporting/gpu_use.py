"""How busy this machine's GPUs are while a step runs, and how much of their memory is taken.

`nvidia-smi`, which comes with the driver, is asked to print a line a second for each GPU; a thread keeps what it says
until a step is over. Of a run on several machines these are the GPUs of the one that the run was started on.
"""

import contextlib
import math
import subprocess
import threading
from types import TracebackType
from typing import Final

_COMMAND: Final = (
    "nvidia-smi",
    "--query-gpu=utilization.gpu,memory.used",
    "--format=csv,noheader,nounits",
    # Its own counters are means over a sixth of a second to a second: more often says nothing more.
    "--loop=1",
)
_MIB_PER_GIB: Final = 1024
_END_S: Final = 5.0
"""nvidia-smi ends at once when it is told to; a driver that hangs does not hold up the end of a run."""


class GpuUse:
    """A context in which GPUs are watched; without `nvidia-smi` nothing is, and there are no measures."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy: list[float] = []
        self._memory_mib: list[float] = []
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "GpuUse":
        with contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                _COMMAND, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            threading.Thread(target=self._read, args=(self._process,), name="gpu-use", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None:
            return
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)

    def taken(self) -> dict[str, float]:
        """The measures since the last call: the mean share of the time in which a GPU was busy, over all GPUs, and
        the most memory (GiB) taken on any of them. Without a sample there are none.
        """
        with self._lock:
            busy, memory_mib = self._busy, self._memory_mib
            self._busy, self._memory_mib = [], []
        found: dict[str, float] = {}
        if busy:
            found["gpu/busy_share"] = math.fsum(busy) / len(busy) / 100
        if memory_mib:
            found["gpu/memory_gib"] = max(memory_mib) / _MIB_PER_GIB
        return found

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            busy, _, memory_mib = line.partition(",")
            with self._lock:
                # A GPU that cannot tell one of them says "[N/A]" there.
                with contextlib.suppress(ValueError):
                    self._busy.append(float(busy))
                with contextlib.suppress(ValueError):
                    self._memory_mib.append(float(memory_mib))
