"""Runners, ready ahead: the referee's hold on the zygote and on the runners that it forks.

A runner that faulted, hung, or leaves any doubt is ended, and its end is waited for before its memory is used again.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from evaluator.backends.gpu.contexts import ContextFile
from evaluator.backends.gpu.runner import launcher
from evaluator.backends.gpu.runner.channel import Channel, ChannelClosedError, ChannelTimeoutError
from evaluator.errors import GpuError
from evaluator.python_command import last_words, own_python
from evaluator.sandbox.retry import OWN_FAULTS
from evaluator.sandbox.sandbox import FIRST_DESCRIPTOR, Job, Limits, Sandbox

REAL_DEVICE: Final = "evaluator.backends.gpu.runner.cuda_device:CudaDevice"
_READY_S: Final = 60.0
_END_S: Final = 20.0
_ORDER_S: Final = 20.0
_ENDING_S: Final = 2.0
_LONG_S: Final = 10 * 365 * 86400.0


class RunnerError(Exception):
    """The device said no, or broke, under this runner. `error` is the driver's name for it, or empty."""

    def __init__(self, error: str, message: str, printed: str = "") -> None:
        super().__init__(message)
        self.error = error
        self.printed = printed


class RunnerHungError(Exception):
    """No answer in time."""


class RunnerDiedError(GpuError):
    """A runner's process ended in the middle of an order."""

    def __init__(self, message: str, remedy: str, code: int | None) -> None:
        """`code`: its exit code, or the negative number of a signal; None where that is not known."""
        super().__init__(message, remedy)
        self.killed_from_outside = code is None or (code < 0 and -code not in OWN_FAULTS)
        """Whether that says nothing about the program that it had loaded."""


class Runner:
    """The referee's end of one runner."""

    def __init__(self, pid: int, channel: Channel, how_it_ended: Callable[[int], tuple[str, int | None]]) -> None:
        self.pid = pid
        self._how_it_ended = how_it_ended
        self.jobs = 0
        self.facts: dict[str, Any] = {}
        self.arena: object | None = None
        """What the runner has mapped; the session sets it."""
        self._channel = channel

    def ask(
        self, order: dict[str, Any], timeout_s: float = _ORDER_S, descriptors: Sequence[int] = ()
    ) -> dict[str, Any]:
        """Send an order and wait for its answer. Raises RunnerError, RunnerHungError, GpuError."""
        self.tell(order, descriptors)
        return self.answer(order["order"], timeout_s)

    def tell(self, order: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send an order, whose `answer` is then to be waited for. Raises GpuError."""
        try:
            self._channel.send(order, descriptors)
        except ChannelClosedError as closed:
            raise self._died(order["order"]) from closed

    def tell_all(self, orders: Sequence[dict[str, Any]]) -> None:
        """Send orders of one name at once, each of which has an `answer`, in their order. Raises GpuError."""
        try:
            self._channel.send_all(orders)
        except ChannelClosedError as closed:
            raise self._died(orders[0]["order"]) from closed

    def answer(self, order: str, timeout_s: float = _ORDER_S) -> dict[str, Any]:
        """The answer to the order of this name. Raises RunnerError, RunnerHungError, GpuError."""
        try:
            return self._answer(timeout_s)
        except ChannelClosedError as closed:
            raise self._died(order) from closed

    def _died(self, order: str) -> RunnerDiedError:
        how, code = self._how_it_ended(self.pid)
        return RunnerDiedError(f"A runner ended at the order {order}: {how}.", "Try again.", code)

    def await_ready(self) -> None:
        """Wait until the context is made. Raises RunnerError, RunnerHungError, GpuError."""
        if not self.facts:
            try:
                self.facts = self._answer(_READY_S)
            except ChannelClosedError as closed:
                raise GpuError(f"A runner ended before it was ready ({closed}).", "See `assay doctor`.") from closed

    def close(self) -> None:
        """Let it end by itself."""
        self._channel.close()

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        try:
            answer = self._channel.receive(timeout_s)
        except ChannelTimeoutError:
            raise RunnerHungError from None
        if "done" in answer and isinstance(answer["done"], dict):
            return answer["done"]
        fault = answer.get("fault") or {}
        raise RunnerError(str(fault.get("error")), str(fault.get("message")), str(fault.get("printed", "")))


class RunnerPool:
    """Runners of one GPU. Not for several threads at once."""

    def __init__(
        self,
        sandbox: Sandbox,
        gpu: str,
        ahead: int = 2,
        device: str = REAL_DEVICE,
        contexts: ContextFile | None = None,
    ) -> None:
        """`gpu` is the UUID of the one device that runners see; `ahead`: how many are kept ready; `contexts`: what
        keeps the making and ending of theirs away from timings, where anything does.

        Raises SandboxError, StorageError, GpuError.
        """
        self._ahead = ahead
        self._contexts = contexts
        self._ended: dict[int, int] = {}
        self._forked: deque[Runner] = deque()
        self._asked = 0
        self.gone = False
        """Whether what makes runners has ended: then there are no more."""
        self._channel, theirs = Channel.pair()
        with theirs:
            self._session = sandbox.start(_job(gpu, device, theirs.fileno()))
        try:
            self._channel.receive(_READY_S)
        except (ChannelClosedError, ChannelTimeoutError) as error:
            said = last_words(self._session.finish().stderr.decode(errors="replace"))
            raise GpuError(
                f"The process that makes runners did not start: {said or error}.", "Run `assay doctor`."
            ) from error
        self._prepare()

    def take(self) -> Runner:
        """A runner whose context is ready. Raises GpuError."""
        self._prepare()
        until_s = time.monotonic() + _READY_S
        while not self._forked:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise self._is_gone(f"no answer for {_READY_S:g} s")
            self._listen(left_s)
        runner = self._forked.popleft()
        self._asked -= 1
        self._prepare()
        try:
            runner.await_ready()
        except (RunnerError, RunnerHungError, GpuError) as error:
            self.end(runner)
            raise gpu_fault("A context could not be made", error) from error
        return runner

    def release(self, runner: Runner) -> None:
        """Let a runner that is in good order end by itself; `has_ended` tells when."""
        runner.close()

    def end(self, runner: Runner) -> None:
        """Kill a runner and wait for its end. Raises GpuError where the driver does not let go of it."""
        self._send({"order": "kill", "pid": runner.pid})
        runner.close()
        self.await_end(runner.pid)

    def has_ended(self, pid: int) -> bool:
        """Whether nothing is left of the runner with this number."""
        self._listen(0.0)
        return pid in self._ended

    def await_end(self, pid: int) -> None:
        """Wait for the end of a runner. Raises GpuError."""
        until_s = time.monotonic() + _END_S
        while pid not in self._ended:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise GpuError(
                    f"A runner could not be ended within {_END_S:g} s: the driver holds on to its context.",
                    "The GPU needs a restart of the machine, or of its driver.",
                )
            self._listen(left_s)

    def _ending(self, pid: int) -> tuple[str, int | None]:
        self._listen(_ENDING_S, pid)
        code = self._ended.get(pid)
        if code is None:
            return "its process still runs", None
        return f"signal {-code}" if code < 0 else f"exit code {code}", code

    def close(self) -> None:
        """End all runners and the zygote."""
        self._channel.close()
        for runner in self._forked:
            runner.close()
        self._session.finish()

    def _prepare(self) -> None:
        while self._asked < self._ahead:
            # One for each: a lock belongs to an open file.
            lock = self._contexts.opened() if self._contexts is not None else None
            try:
                self._send({"order": "fork", "lock": lock is not None}, () if lock is None else (lock,))
            finally:
                if lock is not None:
                    os.close(lock)
            self._asked += 1

    def _send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        try:
            self._channel.send(message, descriptors)
        except ChannelClosedError as closed:
            raise self._is_gone(closed) from closed

    def _is_gone(self, how: object) -> GpuError:
        self.gone = True
        return GpuError(f"The process that makes runners is gone ({how}).", "The job can be tried again.")

    def _listen(self, timeout_s: float, until_ended: int | None = None) -> None:
        """Take in what the zygote says, waiting for the first message (or the end of a pid) at most `timeout_s`."""
        while until_ended is None or until_ended not in self._ended:
            try:
                message = self._channel.receive(timeout_s)
            except ChannelTimeoutError:
                return
            except ChannelClosedError as closed:
                raise self._is_gone(closed) from closed
            if "forked" in message:
                self._ended.pop(int(message["forked"]), None)  # numbers come again in time
                connection = Channel.of_descriptor(self._channel.take_descriptor())
                self._forked.append(Runner(int(message["forked"]), connection, self._ending))
            elif "ended" in message:
                self._ended[int(message["ended"])] = int(message["code"])
            if until_ended is None:
                timeout_s = 0.0


def gpu_fault(what: str, error: Exception) -> GpuError:
    """A fault of ours from what a runner said."""
    if isinstance(error, GpuError):
        return error
    said = "it does not answer" if isinstance(error, RunnerHungError) else str(error)
    remedy = "Run `assay doctor`."
    if isinstance(error, RunnerError) and "OUT_OF_MEMORY" in f"{error.error} {error}".upper().replace(" ", "_"):
        remedy = "Other processes hold the GPU's memory: see `nvidia-smi`, and end what is not needed."
    return GpuError(f"{what}: {said}.", remedy)


def _job(gpu: str, device: str, descriptor: int) -> Job:
    return Job(
        tuple(own_python("evaluator.backends.gpu.runner.zygote", str(FIRST_DESCRIPTOR), device)),
        readable=launcher.readable(),
        environment=launcher.runner_environment(gpu),
        devices=launcher.devices(),
        descriptors=(descriptor,),
        limits=Limits(
            wall_s=_LONG_S, cpu_s=_LONG_S, memory_bytes=32 << 30, address_space=False, processes=1024, open_files=1024
        ),
    )
