"""Processes that have imported PyTorch, at hand for the next file: the referee's side of `inside/process.py`.

Each serves one file at a time, by a process that it forks for it and that ends with it. One is kept for each sandbox
while nobody needs it: not for long, nor for many files.
"""

import contextlib
import json
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from evaluator.cancellation import CancelToken
from evaluator.errors import InfrastructureError
from evaluator.python_command import own_python
from evaluator.sandbox.cancellable import CancellableSandbox
from evaluator.sandbox.sandbox import Job, Limits, Sandbox, SandboxSession, SessionEndedError

MEMORY_BYTES: Final = 8 << 30
_SESSION_S: Final = 3600.0
_OLDEST_S: Final = 1800.0
"""One that is older takes no other file: the session must have time for all that is asked for one."""
_MOST_FILES: Final = 64
_IDLE_S: Final = 300.0
_RETURN_S: Final = 5.0
"""For the end of a file's process and all that it started."""
_SECRET_BYTES: Final = 32
_UNCOMPILED: Final = {"TORCHDYNAMO_DISABLE": "1", "TORCHINDUCTOR_CACHE_DIR": "."}
"""What a file has compiled is carried out operator by operator, or nobody could see its operators; and the compiler,
which makes its folder when it is imported, finds one that is there."""
_PACKAGES: Final = ("torch", "numpy", "sympy", "triton")
"""By which the folders of packages are known among all from which this process imports."""


@dataclass(frozen=True)
class ReferenceRoom:
    """What one file may take."""

    input_bytes: int
    """Of all inputs and parameters."""
    output_bytes: int
    memory_bytes: int
    """Of its process and all that it starts."""
    work: int
    """Operations of one call of `forward`, where they can be known beforehand."""


class Zygote:
    """One such process, in a sandbox of its own. For one thread at a time."""

    def __init__(self, sandbox: Sandbox, room: ReferenceRoom) -> None:
        """Start it, without waiting until it is ready. Raises SandboxError, StorageError."""
        self.room = room
        self.files = 0
        self._ending = CancelToken()
        self._forget: Callable[[], None] = lambda: None
        self._begun_s = time.monotonic()
        processors = max(1, min(8, len(os.sched_getaffinity(0))))
        arguments = map(str, (processors, room.input_bytes, room.output_bytes))
        # Threads that spin for work cost more than they bring beside a compiler.
        environment = {"OMP_NUM_THREADS": str(processors), "OMP_WAIT_POLICY": "PASSIVE"} | _UNCOMPILED
        self.session: SandboxSession = sandbox.start(
            Job(
                argv=tuple(own_python("evaluator.foreign.inside.process", *arguments)),
                readable=readable_packages(),
                environment={**environment, **gpu_environment("")},
                limits=Limits(
                    wall_s=_SESSION_S,
                    cpu_s=_SESSION_S,
                    memory_bytes=room.memory_bytes,
                    processes=256,
                    output_bytes=64 << 20,
                ),
                cancel_token=self._ending,
            )
        )

    @property
    def may_serve(self) -> bool:
        """Whether it may take another file."""
        return self.files < _MOST_FILES and time.monotonic() - self._begun_s < _OLDEST_S

    def begin(self, text: bytes, form: str, cancel_token: CancelToken) -> None:
        """Have it fork a process for a file; cancelling ends both. Raises SessionEndedError."""
        self.files += 1
        self._forget = cancel_token.call_on_cancel(self._ending.cancel)
        encoded = json.dumps({"order": "begin", "form": form}).encode()
        self.session.send(*message(encoded, len(text)), text)

    def left_clean(self) -> bool:
        """End the file's process; whether nothing at all is left of it, so that another file may come."""
        secret = secrets.token_bytes(_SECRET_BYTES)
        try:
            self.session.allow(_RETURN_S)
            self.session.send(*message(b'{"order": "end"}', len(secret)), secret)
            clean = secrets.compare_digest(bytes(self.session.receive(len(secret))), secret)
        except (SessionEndedError, InfrastructureError):
            clean = False
        self._forget()
        return clean and not self._ending.cancelled

    def finish(self) -> None:
        """End it, and all that it started."""
        self._forget()
        with contextlib.suppress(InfrastructureError):
            self.session.finish()


def message(encoded: bytes, size_bytes: int) -> tuple[bytes, bytes]:
    """The beginning of a message: its lengths and a JSON text, after which so many bytes are to follow."""
    return len(encoded).to_bytes(8, "little") + size_bytes.to_bytes(8, "little"), encoded


class _Kept:
    """At most one idle zygote for each sandbox. Safe to use from many threads."""

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._idle: WeakKeyDictionary[Sandbox, Zygote] = WeakKeyDictionary()

    @property
    def idle(self) -> int:
        """How many wait for a file."""
        with self._lock:
            return len(self._idle)

    def take(self, sandbox: Sandbox, room: ReferenceRoom) -> Zygote:
        whole = _whole(sandbox)
        with self._lock:
            idle = self._idle.pop(whole, None)
        if idle is not None:
            if idle.may_serve and idle.room == room:
                return idle
            idle.finish()
        return Zygote(whole, room)

    def give_back(self, sandbox: Sandbox, zygote: Zygote) -> None:
        if not (zygote.may_serve and zygote.left_clean()):
            zygote.finish()
            return
        whole = _whole(sandbox)
        with self._lock:
            before = self._idle.get(whole)
            if before is None:
                self._idle[whole] = zygote
        if before is not None:
            zygote.finish()
            return
        served = zygote.files
        ends = threading.Timer(_IDLE_S, lambda: self._end(whole, zygote, served))
        ends.daemon = True
        ends.start()

    def end_all(self) -> None:
        """End those that are idle."""
        with self._lock:
            idle = list(self._idle.values())
            self._idle.clear()
        for zygote in idle:
            zygote.finish()

    def _end(self, whole: Sandbox, zygote: Zygote, served: int) -> None:
        with self._lock:
            if self._idle.get(whole) is not zygote or zygote.files != served:
                return
            del self._idle[whole]
        zygote.finish()


def _whole(sandbox: Sandbox) -> Sandbox:
    """The one that outlasts a single piece of work."""
    return sandbox.unbound if isinstance(sandbox, CancellableSandbox) else sandbox


def readable_packages() -> tuple[Path, ...]:
    """The interpreter with its packages, wherever it finds them, and this one."""
    own = Path(__file__).parents[1]
    places = (Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parents[1])
    others = (Path(path) for path in sys.path if os.path.isabs(path))
    packages = (path for path in others if any((path / name).is_dir() for name in _PACKAGES))
    found = dict.fromkeys((*places, *packages, own))
    return tuple(path for path in found if path.is_dir() and path != Path("/"))


def python_path() -> dict[str, str]:
    """The variable by which a process of ours finds the packages that this one does."""
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if os.path.isabs(path))}


def gpu_environment(gpu: str) -> dict[str, str]:
    """Variables of a process that sees this one GPU, or none."""
    found = {**python_path(), "CUDA_VISIBLE_DEVICES": gpu}
    if gpu and "LD_LIBRARY_PATH" in os.environ:
        found["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return found


def gpu_devices() -> tuple[Path, ...]:
    """The device nodes that CUDA opens."""
    return tuple(sorted(path for path in Path("/dev").glob("nvidia*") if path.is_char_device()))


KEPT: Final = _Kept()
