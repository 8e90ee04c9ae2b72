"""The submission's own process: it carries out what the referee orders, in the sandbox and with the GPU.

    python -m evaluator.backends.gpu.host.inside.process DESCRIPTOR PAGE MODULE:CLASS

    (start)                                      -> done {facts}
    load {form, libraries, call} + text and libraries, as files -> done {}
    memory {bytes} + descriptor                  -> done {}
    prepare {sizes, scalars, tensors, reference, changed} -> done {entry}
    arm {number}                                 -> done {number}, and then `handshake.Handshake`
    profile {}                                   -> done {spent: [[name, kind, us]]}
    (what the submission raises)                 -> fault {kind, message, line}

Each names its program: a process of the grader's own holds several, a submission's has one. The submission shares all
of this process, so nothing that it sends is believed: the referee looks at the answer itself, and at its own clock.
"""

import importlib
import os
import select
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final, Protocol

import torch

from evaluator.backends.gpu.host.inside.extensions import NoCompilerError, PrebuiltModules
from evaluator.backends.gpu.host.inside.handshake import Handshake
from evaluator.backends.gpu.host.inside.solution import (
    LoadedText,
    Tensors,
    forbid_building,
    line_of_text,
)
from evaluator.backends.gpu.runner.channel import Channel, ChannelClosedError
from evaluator.backends.model_binding import MisfitError

_MESSAGE_CHARACTERS: Final = 500


class HostDevice(Protocol):
    """Where the submission computes."""

    device: torch.device
    facts: dict[str, Any]

    def map(self, descriptor: int, size_bytes: int) -> torch.Tensor:
        """Memory of the referee's, uint8[size_bytes]; closes the descriptor."""

    def synchronize(self) -> None:
        """Wait for all that was queued on the device, on whichever stream. Raises RuntimeError where it failed."""

    def spent(self, call: Callable[[], Any]) -> list[tuple[str, str, float]]:
        """What took the time of a call: name, `kernel`, `copy` or `operator`, µs."""


class _Server:
    def __init__(self, channel: Channel, device: HostDevice, handshake: Handshake) -> None:
        self._channel, self._device, self._handshake = channel, device, handshake
        self._solutions: dict[str, LoadedText] = {}
        self._memory: dict[str, torch.Tensor] = {}

    def load(self, order: dict[str, Any]) -> dict[str, Any]:
        text, held = (_read(self._channel.take_descriptor()) for _ in range(2))
        libraries, at = {}, 0
        for key, name, size_bytes in order["libraries"]:
            libraries[key] = name, held[at : at + size_bytes]
            at += size_bytes
        modules = PrebuiltModules(libraries)
        if libraries:
            modules.install()
        given = text.decode(), self._device.device, modules, order["call"]
        self._solutions[order["program"]] = LoadedText(order["form"], *given)
        return {}

    def memory(self, order: dict[str, Any]) -> dict[str, Any]:
        self._memory[order["program"]] = self._device.map(self._channel.take_descriptor(), order["bytes"])
        return {}

    def prepare(self, order: dict[str, Any]) -> dict[str, Any]:
        memory = self._memory[order["program"]]
        found: dict[str, dict[str, torch.Tensor]] = {"input": {}, "output": {}}
        for name, role, dtype, shape, offset, size_bytes in order["tensors"]:
            piece = memory[offset : offset + size_bytes].view(getattr(torch, dtype)).view(shape)
            found[role][name] = piece
        tensors = Tensors(found["input"], found["output"])
        numbers = order["sizes"], order["scalars"]
        entry = self._solutions[order["program"]].prepare(tensors, *numbers, order["reference"], order["changed"])
        self._device.synchronize()
        return {"entry": entry}

    def arm(self, order: dict[str, Any]) -> None:
        """Call the program once at the referee's word. Raises what the submission raises."""
        solution, number = self._solutions[order["program"]], order["number"]
        self._channel.send({"done": {"number": number}})
        if not self._handshake.await_go(number, self._referee_gone):
            return
        try:
            solution.deliver(solution.call())
            self._device.synchronize()
        except BaseException:
            self._handshake.failed()
            raise
        self._handshake.done(number)

    def _referee_gone(self) -> bool:
        """Whether it hung up, or says something else."""
        return bool(select.select([self._channel], [], [], 0)[0])

    def profile(self, order: dict[str, Any]) -> dict[str, Any]:
        return {"spent": self._device.spent(self._solutions[order["program"]].call)}


def serve(channel: Channel, device: HostDevice, handshake: Handshake) -> None:
    """Carry out orders until the referee is gone."""
    server = _Server(channel, device, handshake)
    orders: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
        "load": server.load,
        "memory": server.memory,
        "prepare": server.prepare,
        "arm": server.arm,
        "profile": server.profile,
    }
    channel.send({"done": device.facts})
    while True:
        order = channel.receive()
        try:
            done = orders[order["order"]](order)
        except ChannelClosedError:
            raise
        except BaseException as error:
            channel.send({"fault": _fault(error)})
        else:
            if done is not None:
                channel.send({"done": done})


def _fault(error: BaseException) -> dict[str, Any]:
    kind = "misfit" if isinstance(error, MisfitError) else "exception"
    if isinstance(error, NoCompilerError):
        kind = "no_compiler"
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        kind = "out_of_memory"
    if _of_tritons_compiler(error) and not _may_start_processes():
        kind = "no_process"
    said = str(error) if kind in ("misfit", "no_compiler") else f"{type(error).__name__}: {error}"
    return {"kind": kind, "message": said[:_MESSAGE_CHARACTERS], "line": line_of_text(error)}


def _of_tritons_compiler(error: BaseException) -> bool:
    """Whether Triton was refused something: its compiler starts processes."""
    frames = traceback.walk_tb(error.__traceback__)
    return isinstance(error, PermissionError) and any(
        str(frame.f_globals.get("__name__", "")).startswith("triton.") for frame, _ in frames
    )


def _may_start_processes() -> bool:
    """Whether the sandbox lets this process start any: without a pids control group it may start threads alone."""
    try:
        child = os.fork()
    except PermissionError:
        return False
    except OSError:  # too many
        return True
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return True


def _read(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        file.seek(0)
        return file.read()


def main() -> None:
    """The process: serve until the referee hangs up."""
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    page = int(sys.argv[2])
    handshake = Handshake(page)
    os.close(page)
    module, _, name = sys.argv[3].partition(":")
    forbid_building()
    device: HostDevice = getattr(importlib.import_module(module), name)()
    # What the submission prints is nobody's: nothing reads it, so it must not fill a pipe.
    nowhere = os.open("/dev/null", os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
    try:
        serve(channel, device, handshake)
    except ChannelClosedError:
        os._exit(0)


if __name__ == "__main__":
    main()
