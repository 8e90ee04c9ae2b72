"""bitsandbytes without PyTorch's compiler.

peft imports bitsandbytes wherever that is installed, and so does verl with it. One function of it, which only
quantised weights on a CPU need, is given to `torch.compile` at once, which imports the compiler: more than a second
of each process of a run, and most of them quantise nothing.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch


def import_bitsandbytes() -> None:
    """Where it is installed: what is imported before peft leaves nothing for peft to import."""
    with _nothing_compiled(), contextlib.suppress(ImportError, OSError, RuntimeError):
        import bitsandbytes  # noqa: F401


@contextlib.contextmanager
def _nothing_compiled() -> Iterator[None]:
    compiler = torch.compile
    torch.compile = _as_it_is  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.compile = compiler


def _as_it_is(function: Callable[..., Any] | None = None, **_: Any) -> Callable[..., Any]:
    return function if function is not None else lambda given: given
