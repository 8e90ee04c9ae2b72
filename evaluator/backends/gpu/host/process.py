"""The referee's hold on a process in which host code runs: a submission's has one program, and then it is ended."""

import contextlib
import math
import os
import select
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from common.contract import Fault
from evaluator.backends.gpu.host.inside.form import Form
from evaluator.backends.gpu.host.inside.handshake import Handshake
from evaluator.backends.gpu.runner import launcher
from evaluator.backends.gpu.runner.channel import Channel, ChannelClosedError, ChannelTimeoutError
from evaluator.backends.gpu.shared_memory import Memory
from evaluator.backends.prebuilt import BuiltLibrary, ExtensionCall
from evaluator.errors import GpuError, InfrastructureError
from evaluator.python_command import last_words, own_python
from evaluator.sandbox.sandbox import FIRST_DESCRIPTOR, Job, Limits, Sandbox

CUDA_DEVICE: Final = "evaluator.backends.gpu.host.inside.cuda:HostCudaDevice"
TASKS: Final = 256
"""Processes and threads of one: PyTorch starts a thread for each core, twice, and compilers some processes."""
_READY_S: Final = 120.0
"""To import PyTorch and make a context, on a machine that is busy."""
_MAP_S: Final = 30.0
_LONG_S: Final = 1800.0
"""Its whole life: longer than any evaluation, and each order has a time of its own."""
_WAITS_S: Final = 3600.0
"""How long one that was started ahead may wait for its program."""
_KINDS: Final = ("misfit", "no_compiler", "no_process", "out_of_memory")
"""Of faults that a process may name beside an exception."""
_MAX_LINE: Final = 1 << 31
"""Above the number of lines of any text that is accepted, and within what a column of a database takes."""


@dataclass(frozen=True)
class RunnableText:
    """One program for a process for host code."""

    form: Form
    text: str
    libraries: tuple[BuiltLibrary, ...] = ()
    call: ExtensionCall | None = None
    """Of an extension alone."""


class HostFaultError(Exception):
    """The submission failed, in its own process. `fault.kind`: `exception`, `misfit`, `no_compiler`, `no_process`,
    `out_of_memory`, `watchdog`, `ended`, `forged` or `limit`.
    """

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class HostProcess:
    """One such process. Not for several threads at once."""

    def __init__(self, sandbox: Sandbox, gpu: str, device: str = CUDA_DEVICE, memory_bytes: int = 16 << 30) -> None:
        """Start it, without waiting until it is ready. `gpu`: the UUID of the one that it sees.

        `memory_bytes`: of the host. Raises SandboxError, StorageError.
        """
        self._channel, theirs = Channel.pair()
        self._begun_s = time.monotonic()
        self._ready = False
        self._numbers = 0
        self.alive = True
        page = Handshake.page()
        with contextlib.ExitStack() as unstarted:
            unstarted.callback(self._channel.close)
            try:
                self._handshake = Handshake(page)
                unstarted.callback(self._handshake.close)
                with theirs:
                    self._session = sandbox.start(_job(gpu, device, (theirs.fileno(), page), memory_bytes))
            finally:
                os.close(page)
            unstarted.pop_all()

    @property
    def usable(self) -> bool:
        """Whether it may still be given a program."""
        return self.alive and time.monotonic() - self._begun_s < _WAITS_S

    def await_ready(self) -> None:
        """Wait until PyTorch is imported and the context made. Raises GpuError."""
        if self._ready:
            return
        try:
            self._channel.receive(_READY_S)
            self._ready = True
        except (ChannelClosedError, ChannelTimeoutError) as error:
            said = self._end()
            raise GpuError(
                f"A process for host code did not start: {said or error}.", "Run `assay doctor`."
            ) from error

    def load(self, name: str, program: RunnableText, time_s: float) -> None:
        """Carry out a text, which is called so from then on. Raises HostFaultError, GpuError."""
        self.await_ready()
        held = b"".join(one.content for one in program.libraries)
        order = {
            "order": "load",
            "program": name,
            "form": program.form,
            "libraries": [(one.key, one.name, len(one.content)) for one in program.libraries],
            "call": []
            if program.call is None
            else [program.call.function, program.call.arguments, program.call.keywords],
        }
        texts = program.text.encode(), held
        with contextlib.ExitStack() as files:
            self._ask(order, time_s, [files.enter_context(_file(one)) for one in texts])

    def share(self, name: str, memory: Memory) -> None:
        """Let a program have this memory. Raises HostFaultError, GpuError."""
        descriptor = memory.descriptor()
        try:
            self._ask({"order": "memory", "program": name, "bytes": memory.size_bytes}, _MAP_S, (descriptor,))
        finally:
            os.close(descriptor)

    def prepare(self, name: str, order: dict[str, Any], time_s: float) -> str:
        """Make the program for a set of sizes; what is then called. Raises HostFaultError, GpuError."""
        return _one_line(self._ask({"order": "prepare", "program": name, **order}, time_s).get("entry", ""), 200)

    def arm(self, name: str, time_s: float) -> None:
        """Have it wait for the word to go. Raises HostFaultError, GpuError."""
        self._numbers += 1
        if (
            self._ask({"order": "arm", "program": name, "number": self._numbers}, time_s).get("number")
            != self._numbers
        ):
            raise self._forged()

    def go(self, time_s: float) -> None:
        """One call of what is armed; whether it gave the right answer is for the caller to see.

        Raises HostFaultError, GpuError.
        """
        until_s = time.monotonic() + time_s

        def ended() -> bool:
            return time.monotonic() > until_s or bool(select.select([self._channel], [], [], 0)[0])

        self._handshake.go(self._numbers)
        if not self._handshake.await_done(self._numbers, ended):
            self._answer(max(0.0, until_s - time.monotonic()), time_s)
            # Nothing but a fault comes so.
            raise self._forged()

    def spent(self, name: str, time_s: float) -> list[tuple[str, str, float]]:
        """What a call spends its time on, as the process itself says: name, kind, µs. Raises HostFaultError."""
        told = self._ask({"order": "profile", "program": name}, time_s).get("spent")
        try:
            spent = [(_one_line(name, 300), _one_line(kind, 20), float(us)) for name, kind, us in told or ()]
        except (TypeError, ValueError, OverflowError):
            raise self._forged() from None
        if not all(math.isfinite(us) for _, _, us in spent):
            raise self._forged()
        return [(name, kind, max(0.0, us)) for name, kind, us in spent]

    def close(self) -> None:
        """End it and all that it started, and wait for that."""
        if self.alive:
            self._end()

    def _ask(self, order: dict[str, Any], time_s: float, descriptors: Sequence[int] = ()) -> dict[str, Any]:
        try:
            self._channel.send(order, descriptors)
        except ChannelClosedError as closed:
            raise self._ended(str(closed)) from closed
        return self._answer(time_s, time_s)

    def _answer(self, left_s: float, time_s: float) -> dict[str, Any]:
        """What it says in the time that is left of `time_s`. Raises HostFaultError, GpuError."""
        try:
            answer = self._channel.receive(left_s)
        except ChannelTimeoutError:
            self._end()
            message = f"was still running when its time was up, after {time_s:.3g} s"
            raise HostFaultError(Fault(kind="watchdog", message=message)) from None
        except ChannelClosedError as closed:
            raise self._ended(str(closed)) from closed
        if isinstance(answer.get("done"), dict):
            return dict(answer["done"])
        fault = answer.get("fault")
        if not isinstance(fault, dict):
            raise self._forged()
        kind = fault.get("kind") if fault.get("kind") in _KINDS else "exception"
        line = fault.get("line")
        said = _one_line(fault.get("message", ""), 500)
        in_text = isinstance(line, int) and 0 < line < _MAX_LINE
        raise HostFaultError(Fault(kind=str(kind), message=said, line=line if in_text else None))

    def _forged(self) -> HostFaultError:
        self._end()
        message = "its process sent what ours does not: the submission has written to the grader's channel"
        return HostFaultError(Fault(kind="forged", message=message))

    def _ended(self, closed: str) -> HostFaultError:
        """Why the process is gone, as a fact about its program; raises InfrastructureError where it is ours."""
        self._let_go()
        result = self._session.finish()
        if result.memory_exceeded:
            message = "its process took more memory of the host than it may have"
            return HostFaultError(Fault(kind="out_of_memory", message=message))
        if result.limit_hit:
            return HostFaultError(Fault(kind="limit", message=f"its process {result.limit_hit}"))
        if result.signal is not None and result.memory_taken:
            raise GpuError("A process for host code ended for want of the machine's memory.", "Evaluate again.")
        how = f"signal {result.signal}" if result.signal is not None else f"exit code {result.exit_code}"
        if closed.startswith(("not a message", "a message of", "a descriptor")):
            return self._forged()
        return HostFaultError(Fault(kind="ended", message=f"its process ended in the middle of a call ({how})"))

    def _let_go(self) -> None:
        self.alive = False
        self._channel.close()
        self._handshake.close()

    def _end(self) -> str:
        """End it; what it said last."""
        self._let_go()
        with contextlib.suppress(InfrastructureError):
            self._session.allow(0.0)
            return last_words(self._session.finish().stderr.decode(errors="replace"))
        return ""


def _one_line(said: Any, most: int) -> str:
    """What a process says, as text that every encoding, database and terminal takes: it may say anything."""
    return " ".join("".join(one if one.isprintable() else " " for one in str(said)[: 8 * most]).split())[:most]


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[int]:
    descriptor = os.memfd_create("text")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        yield descriptor
    finally:
        os.close(descriptor)


def _job(gpu: str, device: str, descriptors: tuple[int, int], memory_bytes: int) -> Job:
    numbers = [str(FIRST_DESCRIPTOR + number) for number in range(len(descriptors))]
    environment = launcher.runner_environment(gpu)
    # A submission may use several streams, and one thread of the host is all that a launch needs.
    del environment["CUDA_DEVICE_MAX_CONNECTIONS"]
    environment |= {"OMP_NUM_THREADS": "1", "CUDA_MODULE_LOADING": "LAZY", "TORCHINDUCTOR_CACHE_DIR": "inductor"}
    return Job(
        tuple(own_python("evaluator.backends.gpu.host.inside.process", *numbers, device)),
        readable=launcher.readable(),
        environment=environment,
        devices=launcher.devices() if gpu else (),
        descriptors=descriptors,
        bounded_tasks=True,
        limits=Limits(
            wall_s=_LONG_S + _WAITS_S,
            cpu_s=_LONG_S,
            memory_bytes=memory_bytes,
            address_space=False,
            processes=TASKS,
            open_files=1024,
        ),
    )
