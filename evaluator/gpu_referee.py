"""The grader's side of a GPU's referee: starts it where none runs, hands it jobs, and takes what it found.

A referee outlives the grader that started it, so that the next grading finds torch imported and contexts ready; it
ends by itself when nobody has come for a while.
"""

import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, Final, Literal

from evaluator.backends.backend import Unsupported
from evaluator.backends.gpu.channel import Channel, ChannelClosed, ChannelSilent
from evaluator.backends.gpu.health import Gpu
from evaluator.errors import GpuFault, UsageError
from evaluator.judging import Judged, Order, Progress
from evaluator.sandbox.interest import Interest
from evaluator.settings import MachineSettings

_START_S: Final = 120.0
_JOB_S: Final = 900.0
"""Longer than any job with all those before it; a referee that says nothing for so long is broken."""


class GpuReferee:
    """The referee of one GPU, in a process of its own. Safe to use from several threads and processes."""

    name: Literal["gpu", "sim"] = "gpu"

    def __init__(self, gpu: Gpu, settings: MachineSettings, interest: Interest | None = None) -> None:
        """When `interest` is withdrawn, jobs are let go at once."""
        self._gpu = gpu
        self._settings = settings
        self._interest = interest or Interest()
        # A socket's path has 107 bytes at most.
        folder = settings.data_dir / "referees"
        self._socket = folder / f"{gpu.uuid}.sock"
        self._log = folder / f"{gpu.uuid}.log"

    def bound_to(self, interest: Interest) -> "GpuReferee":
        """The same referee, for one piece of work."""
        return GpuReferee(self._gpu, self._settings, interest)

    @property
    def device(self) -> str:
        return f"{self._gpu.name} ({self._gpu.uuid}), driver {self._gpu.driver_version}"

    @property
    def arch(self) -> str:
        # From 9.0 on a GPU has instructions that only programs made for it alone may use (PTX ISA, section 11.1.2).
        return self._gpu.arch + ("a" if int(self._gpu.arch.removeprefix("sm_")) >= 90 else "")

    def judge(self, order: Order, progress: Progress) -> Judged:
        self._interest.check()
        with (
            self._connected() as channel,
            _as_file(order.to_json()) as descriptor,
            self._interest.on_withdrawal(channel.hang_up),
        ):
            try:
                channel.send({"order": "judge"}, [descriptor])
                while True:
                    answer = channel.receive(_JOB_S)
                    if "progress" in answer:
                        progress(str(answer["progress"]))
                        continue
                    return _found(answer)
            except ChannelSilent as silent:
                raise GpuFault(
                    f"The referee of {self._gpu.name} has said nothing for {_JOB_S:g} s.", self._remedy()
                ) from silent
            except ChannelClosed as closed:
                self._interest.check()
                raise GpuFault(
                    f"The referee of {self._gpu.name} ended in the middle of a job ({closed}): {self._last_words()}",
                    self._remedy(),
                ) from closed

    def facts(self) -> dict[str, Any]:
        """What the referee says of itself; starts it where none runs. Raises GpuFault."""
        with self._connected() as channel:
            channel.send({"order": "facts"})
            facts: dict[str, Any] = channel.receive(_START_S)["facts"]
            return facts

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Channel]:
        connection = self._reach() or self._start()
        channel = Channel(connection)
        try:
            yield channel
        finally:
            channel.close()

    def _reach(self) -> socket.socket | None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(str(self._socket))
            return connection
        except OSError:
            connection.close()
            return None

    def _start(self) -> socket.socket:
        self._socket.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(self._socket.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            connection = self._reach()  # someone else may have started it meanwhile
            if connection is not None:
                return connection
            with open(self._log, "wb") as log:
                process = subprocess.Popen(
                    self._command(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    # It signs nothing, and starts those that run what is not trusted.
                    env={name: value for name, value in os.environ.items() if name != "ASSAY_SIGNING_KEY"},
                    start_new_session=True,
                )
            until_s = time.monotonic() + _START_S
            while time.monotonic() < until_s:
                connection = self._reach()
                if connection is not None:
                    return connection
                if process.poll() is not None:
                    raise GpuFault(
                        f"The referee of {self._gpu.name} could not be started: {self._last_words()}", self._remedy()
                    )
                time.sleep(0.02)
            process.kill()
            raise GpuFault(
                f"The referee of {self._gpu.name} was not ready within {_START_S:g} s: {self._last_words()}",
                self._remedy(),
            )

    def _command(self) -> list[str]:
        settings = self._settings
        return [
            *(sys.executable, "-m", "evaluator.referee", self._gpu.uuid, str(self._socket)),
            *("--data-dir", str(settings.data_dir), "--sandbox", settings.sandbox),
            *("--idle-s", str(settings.referee_idle_s), "--jobs-per-runner", str(settings.jobs_per_runner)),
            *("--ahead", str(settings.runners_ahead)),
        ]

    def _last_words(self) -> str:
        try:
            return self._log.read_text(errors="replace").strip()[-500:] or "it left no message"
        except OSError:
            return "it left no message"

    def _remedy(self) -> str:
        return f"Run `assay doctor`; the referee's log is {self._log}."


def _found(answer: dict[str, Any]) -> Judged:
    if "judged" in answer:
        return Judged.from_json(answer["judged"].encode())
    if "unsupported" in answer:
        raise Unsupported(answer["unsupported"]["feature"], answer["unsupported"]["line"])
    if "usage" in answer:
        raise UsageError(answer["usage"]["message"], answer["usage"]["remedy"])
    fault = answer.get("fault", {})
    raise GpuFault(str(fault.get("message", answer)), fault.get("remedy"))


@contextlib.contextmanager
def _as_file(text: bytes) -> Iterator[int]:
    descriptor = os.memfd_create("order")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(text)
        yield descriptor
    finally:
        os.close(descriptor)
