"""The process that a tool watches: it loads a program and runs plans from files, without a referee beside it.

    python -m evaluator.backends.gpu.runner.tool_target MODULE:CLASS

Its folder holds `order.json`, `image` (the cubin) and a file for each input; it writes `told.json`: where each buffer
was, how many runs have ended, and the device's fault, if there was one. It is single-use, holds no seed and no
answer, and judges nothing; what it tells is trusted for nothing but the names of addresses.

    order.json  {attributes, poison, runs: [{buffers: [{bytes, file}], steps: […]}]}
    told.json   {addresses: [[…], …], ended, fault: {error, message} | null}

In a step, `pointers`, `offset` and `source` hold the number of a buffer, times 2^40, where a runner's order has the
buffer's offset.
"""

import contextlib
import importlib
import json
import mmap
import os
import sys
from collections.abc import Iterator
from typing import Any, Final, Protocol

from evaluator.backends.gpu.runner.runner import DeviceError

ORDER: Final = "order.json"
IMAGE: Final = "image"
TOLD: Final = "told.json"
OFFSET_BITS: Final = 40
"""Below the number of a buffer there is room for an offset in it."""
REAL_DEVICE: Final = "evaluator.backends.gpu.runner.cuda_device:LoneCudaDevice"


class LoneDevice(Protocol):
    """What this process needs of a device. `cuda_device.LoneCudaDevice` is the real one."""

    def load(self, image: bytes, attributes: bool) -> None:
        """Load a program. `attributes`: its launches are cooperative or in clusters."""

    def allocate(self, size_bytes: int, content: bytes | memoryview | None, poison: int | None) -> int:
        """The address of a new buffer with this content, or poison, or nothing defined in it."""

    def launch(self, steps: list[dict[str, Any]]) -> None:
        """Do the steps, whose offsets are addresses, and wait."""

    def close(self) -> None:
        """End the context."""


def main() -> None:
    """Do what `order.json` says; exit code 1 after a fault of the device."""
    module, _, name = sys.argv[1].partition(":")
    with open(ORDER, encoding="utf-8") as file:
        order = json.load(file)
    told: dict[str, Any] = {"addresses": [], "ended": 0, "fault": None}
    try:
        device: LoneDevice = getattr(importlib.import_module(module), name)()
        with open(IMAGE, "rb") as file:
            device.load(file.read(), order["attributes"])
        for run in order["runs"]:
            addresses = [_allocated(device, buffer, order["poison"]) for buffer in run["buffers"]]
            told["addresses"].append(addresses)
            _tell(told)  # before the launch, which may be the end of this process
            device.launch([placed(step, addresses) for step in run["steps"]])
            told["ended"] += 1
        _tell(told)
        device.close()
    except DeviceError as fault:
        told["fault"] = {"error": fault.error, "message": str(fault)}
        _tell(told)
        raise SystemExit(1) from fault


def _allocated(device: LoneDevice, buffer: dict[str, Any], poison: int | None) -> int:
    if buffer["file"] is None:
        return device.allocate(buffer["bytes"], None, poison)
    with _content(buffer["file"]) as content:
        return device.allocate(buffer["bytes"], content, None)


@contextlib.contextmanager
def _content(name: str) -> Iterator[bytes]:
    with open(name, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        yield mapped[:]


def placed(step: dict[str, Any], addresses: list[int]) -> dict[str, Any]:
    """The step with addresses for the numbers of buffers."""

    def address(number: int) -> int:
        return addresses[number >> OFFSET_BITS] + number % (1 << OFFSET_BITS)

    if step["step"] == "launch":
        return {**step, "pointers": [(place, address(number)) for place, number in step["pointers"]]}
    named: dict[str, Any] = {"source": address(step["source"])} if "source" in step else {}
    if step["variable"] is None:
        named["offset"] = address(step["offset"])
    return {**step, **named}


def _tell(told: dict[str, Any]) -> None:
    with open(f"{TOLD}.new", "w", encoding="utf-8") as file:
        json.dump(told, file)
    os.replace(f"{TOLD}.new", TOLD)


if __name__ == "__main__":
    main()
