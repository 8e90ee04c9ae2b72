"""Calls the entry function of a shared library with memory of the GPU, in a process of its own.

    python benchmarks/_support/call_solve.py FOLDER

`FOLDER/task.json` says what is called and with what; inputs are the files `CALL.TENSOR.in` beside it, and what the
outputs then hold becomes `CALL.TENSOR.out`. `result.json` names the inputs that a call changed. It needs nothing but
PyTorch, so that it starts soon.
"""

import ctypes
import faulthandler
import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

# Before the library: one that brings a C++ library along ends a later import of PyTorch.
import torch

_TYPES: Final[dict[tuple[str, int], Any]] = {
    ("f", 4): ctypes.c_float,
    ("f", 8): ctypes.c_double,
    ("b", 1): ctypes.c_bool,
    **{("i", size): kind for size, kind in ((1, ctypes.c_int8), (2, ctypes.c_int16), (4, ctypes.c_int32))},
    **{("u", size): kind for size, kind in ((1, ctypes.c_uint8), (2, ctypes.c_uint16), (4, ctypes.c_uint32))},
    ("c", 1): ctypes.c_char,
    ("i", 8): ctypes.c_int64,
    ("u", 8): ctypes.c_uint64,
}
UNWRITTEN: Final = 0xFF
"""The byte that outputs hold before a call."""


def entry_of(library: str, name: str) -> Callable[..., None]:
    """The function `name` of a shared library."""
    function: Any = getattr(ctypes.CDLL(library), name)
    function.restype = None
    return function  # type: ignore[no-any-return]


def c_argument(value: str, kind: str, size_bytes: int, addresses: list[int]) -> Any:
    """What is passed for a value as `call_values` writes it, to a parameter of this kind and size."""
    of, _, said = value.partition(" ")
    if of == "p":
        return ctypes.c_void_p(addresses[int(said)])
    return _TYPES[kind, size_bytes](float(said) if of == "f" else int(said))


def main() -> None:
    faulthandler.enable()
    folder = Path(sys.argv[1])
    task = json.loads((folder / "task.json").read_text())
    signal.alarm(task["limit_s"])
    function = entry_of(task["library"], task["entry"])
    changed: list[int] = []
    for number, call in enumerate(task["calls"]):
        tensors, kept = [], {}
        for at, size_bytes in enumerate(call["bytes"]):
            tensor = torch.full((max(1, size_bytes),), UNWRITTEN, dtype=torch.uint8, device="cuda")
            if at < task["inputs"]:
                tensor[:size_bytes] = torch.from_numpy(np.fromfile(folder / f"{number}.{at}.in", np.uint8)).cuda()
                kept[at] = tensor.clone()
            tensors.append(tensor)
        for source, target in task["initial"]:
            tensors[target][:] = 0 if source is None else tensors[source]
        addresses = [tensor.data_ptr() for tensor in tensors]
        values, arrays = list(call["values"]), []
        for at, (of, _, said) in enumerate(value.partition(" ") for value in values):
            if of == "a":
                arrays.append(torch.frombuffer(bytearray.fromhex(said), dtype=torch.uint8).cuda())
                values[at] = f"p {len(addresses)}"
                addresses.append(arrays[-1].data_ptr())
        parameters = zip(values, task["parameters"], strict=True)
        arguments = [c_argument(value, kind, size, addresses) for value, (kind, size) in parameters]
        torch.cuda.synchronize()
        function(*arguments)
        torch.cuda.synchronize()
        changed += [at for at, before in kept.items() if not torch.equal(before, tensors[at])]
        for at in range(task["inputs"], len(tensors)):
            tensors[at].cpu().numpy()[: call["bytes"][at]].tofile(folder / f"{number}.{at}.out")
    (folder / "result.json").write_text(json.dumps({"changed": sorted(set(changed))}))


if __name__ == "__main__":
    main()
