"""What a file takes, from shapes alone, before it is carried out: on PyTorch's device meta."""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from evaluator.foreign.inside.arithmetic import BoundedWork, CallRoom, NumbersRead
from evaluator.foreign.inside.kernelbench import ReferenceFile, call, state_of
from evaluator.foreign.inside.operators import seed_torch
from evaluator.foreign.inside.refusals import TooLargeError, refused_where_it_fails

_OPERATORS: Final = "torch._meta_registrations"
"""Operators on tensors without contents that are written in Python: with them comes the compiler, in a second. What
a zygote imports leaves them out."""
_SMALL: Final = 1 << 18
"""Elements of inputs, parameters and buffers together: as many as a problem has that was made small enough. What is
recurrent is not small: how much it computes is known from shapes alone."""


@dataclass(frozen=True)
class ByShapes:
    """What one call takes."""

    operations: int = 0
    failed: str = ""
    """Why it is not known: it hangs on contents, or the file fails at these shapes."""
    is_small: bool = False
    """Whether it fails with so little that carrying it out takes no longer than finding out why."""


def known_by_shapes(read: Callable[[], ReferenceFile], room: CallRoom, seed: int) -> ByShapes:
    """On PyTorch's device meta, whose tensors have no contents: in tenths of a second. Raises TooLargeError."""
    known = _known(read, room, seed)
    if known.failed and not known.is_small and _OPERATORS not in sys.modules:
        importlib.import_module(_OPERATORS)
        known = _known(read, room, seed)
    return known


def _known(read: Callable[[], ReferenceFile], room: CallRoom, seed: int) -> ByShapes:
    numbers = NumbersRead()
    counted = BoundedWork(room)
    is_small = False
    try:
        with torch.device("meta"), _WithoutContents(), numbers:
            file = read()
            model, arguments = file.made(seed)
            state = state_of(model)
            given = (*arguments.tensors.values(), *state.values())
            recurrent = any(isinstance(one, torch.nn.RNNBase) for one in model.modules())
            is_small = sum(one.numel() for one in given) <= _SMALL and not recurrent
            seed_torch(seed)
            with refused_where_it_fails("forward"), counted:
                found = call(model, state, arguments, arguments.tensors)
        given_bytes, found_bytes = (sum(one.nbytes for one in tensors) for tensors in (given, found))
    except TooLargeError:
        raise
    except BaseException as failed:  # a file may raise what it likes; then it is carried out in earnest
        return ByShapes(failed=str(failed) or type(failed).__name__, is_small=is_small)
    if given_bytes > room.input_bytes:
        raise TooLargeError(given_bytes, room.input_bytes)
    if found_bytes > room.output_bytes:
        raise TooLargeError(found_bytes, room.output_bytes, what="outputs")
    if counted.flops > room.work:
        raise TooLargeError(counted.flops, room.work, what="sums and products", unit="operations")
    return ByShapes(counted.flops)


class _WithoutContents(TorchFunctionMode):
    """What names the CPU as the place of a tensor, as files that were written for a GPU do here, has no contents."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.cpu:
            return args[0]
        # A generator is one of the CPU, and nothing is drawn.
        kwargs = {name: _meta(value) for name, value in (kwargs or {}).items() if name != "generator"}
        return func(*map(_meta, args), **kwargs)


def _meta(value: Any) -> Any:
    named = value if isinstance(value, str) else value.type if isinstance(value, torch.device) else ""
    return torch.device("meta") if named == "cpu" or named.startswith("cpu:") else value
