"""The grader's side of a GPU's referee: starts it where none runs, hands it jobs, and takes what it found.

A referee outlives the grader that started it, so that the next grading finds torch imported and contexts ready; it
ends by itself when nobody has come for a while. Where one cannot be started, all graders of the machine know why, and
the next start waits: each costs seconds of a processor. How one ended is known from its supervisor.
"""

import contextlib
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from common.contract import Phase
from common.file_replacement import replace_file
from evaluator.backends.gpu.device.health import Gpu
from evaluator.backends.gpu.runner.channel import Channel, ChannelClosedError, ChannelTimeoutError, socket_address
from evaluator.backends.session import UnsupportedError
from evaluator.cancellation import CancelToken
from evaluator.errors import GpuError, JobKilledError, UsageError
from evaluator.foreign.reference import ReferenceRefusedError
from evaluator.pipeline.gpu.referee_supervisor import forget_endings, how_it_ended
from evaluator.pipeline.progress import Progress, ProgressCallback
from evaluator.pipeline.referee import HostRequest, HostResult, JudgeRequest, JudgeResult
from evaluator.python_command import last_words, own_python
from evaluator.sandbox.retry import MAX_TRIES, OWN_FAULTS
from evaluator.settings import MachineSettings

_START_S: Final = 120.0
_JOB_S: Final = 900.0
"""Longer than any job with all those before it; a referee that says nothing for so long is broken."""
_LOST_AT_MOST: Final = 2
"""Of the referees that end of themselves in the middle of a job: after the second it is taken to be its doing."""
_REFEREES_TRIED: Final = 20
"""With those that ended before they came to the job: each end is some job's doing, of which two are allowed."""
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
"""As long as a driver or a mount that comes late may be missed; a start takes a tenth of it."""
_LASTING_FAILURES: Final = 4
"""With the pauses between them some 20 s: what fixes itself, such as a driver that is being loaded, has done so."""
_REMEMBERED_S: Final = 600.0
"""How long a failed start says something about the next one."""
_PEER: Final = struct.Struct("3i")
"""What the kernel says of who listens at the other end of a socket: process, user, group (unix(7))."""
_READ_BYTES: Final = 1 << 16
"""Of the end of its log: more than any traceback."""


@dataclass(frozen=True)
class StartFailure:
    """Why the referee could not be started, the last time that anyone on this machine tried."""

    reason: str
    remedy: str | None
    failures: int
    """In a row."""
    at_s: float
    """When, by the clock that all processes of a machine share since its start (CLOCK_MONOTONIC)."""
    killed: bool = False
    """Whether someone outside ended it, which counts against no job that wanted it."""

    @property
    def due_s(self) -> float:
        """When the next start may be tried, by the same clock."""
        return self.at_s + min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self.failures, 10))

    @property
    def lasting(self) -> bool:
        """Whether it failed so often that nobody should wait for it to fix itself."""
        return self.failures >= _LASTING_FAILURES

    @property
    def soon_again(self) -> bool:
        """Whether the next start may be tried at once: a kill or two say nothing of the next one."""
        return self.killed and not self.lasting

    @property
    def fault(self) -> GpuError:
        return (RefereeKilledError if self.killed else GpuUnfitError)(self.reason, self.remedy)


class GpuUnfitError(GpuError):
    """The GPU did not pass its check, or its referee could not be started, before the job had begun: it can go on to
    another GPU.
    """


class RefereeKilledError(GpuError, JobKilledError):
    """Someone outside ended the referee, or a runner of it, while it had this job, or was started for it."""


class _RefereeLostError(Exception):
    """A referee ended before it had answered; `begun` where the job had been begun."""

    def __init__(self, begun: bool, fault: GpuError) -> None:
        super().__init__(str(fault))
        self.begun = begun
        self.fault = fault


class GpuReferee:
    """A referee of one GPU, in a process of its own. Safe to use from several threads and processes."""

    name: Literal["gpu", "sim"] = "gpu"
    count = 1
    """GPUs."""

    def __init__(
        self, gpu: Gpu, settings: MachineSettings, cancel_token: CancelToken | None = None, number: int = 0
    ) -> None:
        """When `cancel_token` is cancelled, jobs are let go at once. `number`: which of the GPU's referees it is."""
        self._gpu, self._number = gpu, number
        self.key = f"{gpu.uuid}.{number}" if number else gpu.uuid
        """Its name, and that of its files."""
        self._settings = settings
        self._cancel_token = cancel_token or CancelToken()
        folder = settings.data_dir / "referees"
        self._socket = folder / f"{self.key}.sock"
        self._log = folder / f"{self.key}.log"
        self._endings = folder / f"{self.key}.ended"
        self._turns = folder / f"{gpu.uuid}.turns"
        self._troubles = _StartFailures(folder / f"{self.key}.trouble")

    def bound_to(self, cancel_token: CancelToken) -> "GpuReferee":
        """The same referee, for one piece of work."""
        bound = GpuReferee(self._gpu, self._settings, cancel_token, self._number)
        bound._troubles = self._troubles
        return bound

    @property
    def uuid(self) -> str:
        """The GPU's."""
        return self._gpu.uuid

    @property
    def trouble(self) -> StartFailure | None:
        """Why it could not be started the last time; None where it could, or nobody has tried lately."""
        return self._troubles.last()

    def start(self) -> StartFailure | None:
        """Start it where none runs, also before the next start is due; why it cannot be started, or None."""
        try:
            (self._reach() or self._start(at_once=True)).close()
        except GpuError:
            return self.trouble
        self._troubles.clear()
        return None

    @property
    def log(self) -> Path:
        """Where it writes what it says."""
        return self._log

    @property
    def device(self) -> str:
        return f"{self._gpu.name} ({self._gpu.uuid}), driver {self._gpu.driver_version}"

    @property
    def arch(self) -> str:
        # From 9.0 on a GPU has instructions that only programs made for it alone may use (PTX ISA, section 11.1.2).
        return self._gpu.arch + ("a" if int(self._gpu.arch.removeprefix("sm_")) >= 90 else "")

    def judge(self, request: JudgeRequest, progress: ProgressCallback) -> JudgeResult:
        origin = request.checked_plan.problem.origin
        return JudgeResult.from_json(self._answered({"order": "judge"}, request.to_json(), origin, progress))

    def judge_host(self, request: HostRequest, progress: ProgressCallback) -> HostResult:
        order = {"order": "judge", "host": True}
        return HostResult.from_json(self._answered(order, request.to_json(), request.problem.origin, progress))

    def _answered(self, order: dict[str, Any], request: bytes, origin: bytes, progress: ProgressCallback) -> bytes:
        """What a referee answers, whichever of those that are started one after another."""
        lost = killed = 0
        for _ in range(_REFEREES_TRIED):
            try:
                return self._judged(order, request, origin, progress)
            except _RefereeLostError as error:
                fault = error.fault
                if isinstance(fault, RefereeKilledError):
                    killed += error.begun
                else:
                    lost += error.begun
                if lost == _LOST_AT_MOST or killed == MAX_TRIES:
                    break
        raise fault

    def _judged(self, order: dict[str, Any], request: bytes, origin: bytes, progress: ProgressCallback) -> bytes:
        """What one referee finds. Raises _RefereeLostError where it ends before it has answered."""
        self._cancel_token.check()
        begun = False
        with (
            self._connected() as channel,
            _as_file(request) as descriptor,
            _as_file(origin) as stated,
            self._cancel_token.on_cancel(channel.hang_up),
        ):
            try:
                channel.send(order, [descriptor, stated])
                while True:
                    answer = channel.receive(_JOB_S)
                    if "begun" in answer:
                        begun = True
                    elif "progress" in answer:
                        told = answer["progress"]
                        progress(Progress(Phase(told["phase"]), told["detail"]))
                    else:
                        return _found(answer)
            except ChannelTimeoutError as silent:
                raise GpuError(
                    f"The referee of {self._gpu.name} has not answered for {_JOB_S:g} s.", self._remedy()
                ) from silent
            except ChannelClosedError as closed:
                self._cancel_token.check()
                raise _RefereeLostError(begun, self._loss(channel, closed)) from closed

    def _loss(self, channel: Channel, closed: ChannelClosedError) -> GpuError:
        """What it means that the referee at this channel is gone."""
        pid = _PEER.unpack(channel.option(socket.SO_PEERCRED, _PEER.size))[0]
        code = how_it_ended(self._endings, pid)
        if code is None or _from_outside(code):
            how = "its supervisor too" if code is None else _ending(code)
            return RefereeKilledError(
                f"The referee of {self._gpu.name} was killed from outside in the middle of a job ({how}).",
                "Find out who sends signals to the processes of this machine, or whether it has too little memory.",
            )
        how = _ending(code) if code else str(closed)
        reason = f"ended in the middle of a job ({how}): {self._last_words()}"
        return GpuError(f"The referee of {self._gpu.name} {reason}", self._remedy())

    def facts(self) -> dict[str, Any]:
        """What the referee says of itself; starts it where none runs, at once. Raises GpuError."""
        with self._connected(at_once=True) as channel:
            try:
                channel.send({"order": "facts"})
                facts: dict[str, Any] = channel.receive(_START_S)["facts"]
            except (ChannelTimeoutError, ChannelClosedError) as error:
                why = (
                    f"it did not answer for {_START_S:g} s"
                    if isinstance(error, ChannelTimeoutError)
                    else f"it ended ({error})"
                )
                raise GpuError(
                    f"The referee of {self._gpu.name} does not answer: {why}. {self._last_words()}", self._remedy()
                ) from error
            return facts

    @contextlib.contextmanager
    def _connected(self, at_once: bool = False) -> Iterator[Channel]:
        connection = self._reach() or self._start(at_once)
        channel = Channel(connection)
        try:
            yield channel
        finally:
            channel.close()

    def _reach(self) -> socket.socket | None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with socket_address(self._socket) as address:
                connection.connect(address)
            return connection
        except OSError:
            connection.close()
            return None

    def _start(self, at_once: bool) -> socket.socket:
        """Start the process, unless that failed while this waited for its turn, or lately and not `at_once`."""
        asked_s = time.monotonic()
        try:
            self._socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self._socket.with_name(f"{self.key}.lock"), "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                connection = self._reach()  # someone else may have started it meanwhile
                if connection is not None:
                    return connection
                trouble = self._troubles.last()
                if trouble and not trouble.soon_again:
                    known = trouble.at_s >= asked_s
                    if known or not (at_once or time.monotonic() >= trouble.due_s):
                        raise trouble.fault
                connection = self._started_in_tries()
                self._troubles.clear()
                return connection
        except OSError as error:
            place = error.filename or self._socket.parent
            reason = f"The referee of {self._gpu.name} could not be started: {place}: {error.strerror or error}."
            remedy = "Make the data folder writable, with some room on its disk; or set ASSAY_DATA_DIR to another."
            self._troubles.add(reason, remedy)
            raise GpuError(reason, remedy) from error

    def _started_in_tries(self) -> socket.socket:
        """Again where someone outside ends it at its start, as long as that does not look as if it went on."""
        for _ in range(_LASTING_FAILURES - 1):
            self._cancel_token.check()
            try:
                return self._started()
            except RefereeKilledError:
                trouble = self._troubles.last()
                if trouble is None or not trouble.soon_again:
                    raise
        return self._started()

    def _started(self) -> socket.socket:
        forget_endings(self._endings)
        with open(self._log, "wb") as log:
            process = subprocess.Popen(
                own_python("evaluator.pipeline.gpu.referee_supervisor", str(self._endings), *self._command()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # It signs nothing, and starts those that run what is not trusted.
                env={name: value for name, value in os.environ.items() if name != "ASSAY_SIGNING_KEY"},
                # It outlives this process, whose own folder may be removed, or be none that it may enter.
                cwd="/",
                start_new_session=True,
            )
        until_s = time.monotonic() + _START_S
        while (connection := self._reach()) is None:
            code = process.poll()
            if code is None and time.monotonic() < until_s:
                time.sleep(0.02)
                continue
            if code is None:
                process.kill()
                process.wait()
                ended = f"was not ready within {_START_S:g} s"
            else:
                ended = f"could not be started ({_ending(code)})"
            reason = f"The referee of {self._gpu.name} {ended}: {self._last_words()}"
            raise self._troubles.add(reason, self._remedy(), code is not None and _from_outside(code)).fault
        return connection

    def _command(self) -> list[str]:
        settings = self._settings
        return [
            *own_python("evaluator.pipeline.gpu.server", self._gpu.uuid, str(self._socket)),
            *("--data-dir", str(settings.data_dir), "--sandbox", settings.sandbox),
            *("--idle-s", str(settings.referee_idle_s), "--jobs-per-runner", str(settings.jobs_per_runner)),
            *("--ahead", str(settings.runners_ahead), "--cache-bytes", str(settings.cache_bytes)),
            *("--together", str(settings.trials_together)),
            *(("--turns", str(self._turns)) if settings.referees_per_gpu > 1 else ()),
        ]

    def _last_words(self) -> str:
        try:
            with open(self._log, "rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - _READ_BYTES))
                said = log.read().decode(errors="replace")
        except OSError:
            said = ""
        return last_words(said) or "it left no message"

    def _remedy(self) -> str:
        return f"Run `assay doctor`; the referee's log is {self._log}."


def _from_outside(code: int) -> bool:
    return code < 0 and -code not in OWN_FAULTS


class _StartFailures:
    """The last failed start, in a file for all processes of this machine, and in memory where no file can be kept."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._own: StartFailure | None = None

    def last(self) -> StartFailure | None:
        last = self._own
        with contextlib.suppress(OSError, ValueError, TypeError):
            told = StartFailure(**json.loads(self._file.read_bytes()))
            # One that could not be written, as on a full disk, is newer than the file.
            last = max(told, self._own or told, key=lambda one: one.at_s)
        # The file of an earlier start of the machine speaks of another clock.
        return last if last and 0 <= time.monotonic() - last.at_s < _REMEMBERED_S else None

    def add(self, reason: str, remedy: str, killed: bool = False) -> StartFailure:
        before = self.last()
        now = StartFailure(reason, remedy, before.failures + 1 if before else 1, time.monotonic(), killed)
        try:
            replace_file(self._file, json.dumps(asdict(now)))
            self._own = None
        except OSError:
            self._own = now
        return now

    def clear(self) -> None:
        self._own = None
        with contextlib.suppress(OSError):
            self._file.unlink()


def _ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    known = {one.value for one in signal.Signals}
    return f"ended by {signal.Signals(-code).name if -code in known else f'signal {-code}'}"


def _found(answer: dict[str, Any]) -> bytes:
    if "judged" in answer:
        return str(answer["judged"]).encode()
    if "unsupported" in answer:
        raise UnsupportedError(answer["unsupported"]["feature"], answer["unsupported"]["line"])
    if "refused" in answer:
        raise ReferenceRefusedError(answer["refused"]["message"], answer["refused"]["remedy"])
    if "usage" in answer:
        raise UsageError(answer["usage"]["message"], answer["usage"]["remedy"])
    fault = answer.get("fault", {})
    kind = RefereeKilledError if fault.get("killed") else GpuUnfitError if fault.get("unfit") else GpuError
    raise kind(str(fault.get("message", answer)), fault.get("remedy"))


@contextlib.contextmanager
def _as_file(text: bytes) -> Iterator[int]:
    descriptor = os.memfd_create("request")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(text)
        yield descriptor
    finally:
        os.close(descriptor)
