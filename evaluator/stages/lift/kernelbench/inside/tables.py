"""Tensors that a model makes of numbers when it is made, as masks and tables: of them only the shape is known.

As a parameter or a buffer each is the problem's of that name; nothing else may be done with it.
"""

import math
from collections.abc import Callable
from typing import Any, Final

from evaluator.backends.model_binding import BY_NAME_ALONE

ALIKE: Final = ("cos", "sin", "exp", "log", "sqrt", "rsqrt", "abs", "reciprocal")
"""Functions whose result has the shape of what they are given."""


def tables_of(make: Callable[..., Any], refuse: Callable[[str], Any], is_made: Callable[[], bool]) -> dict[str, Any]:
    """`torch.tensor`, `torch.arange` and such. `make(*shape, dtype=…)`: of unknown contents; `is_made`: whether the
    model is, so that each is an operator of PyTorch's.
    """

    def while_made(name: str, shape_of: Callable[..., tuple[int, ...]]) -> Any:
        def called(*args: Any, **kwargs: Any) -> Any:
            if is_made():
                refuse(f"torch.{name}")
            try:
                shape = shape_of(*args, **{key: one for key, one in kwargs.items() if key not in _OF_TENSORS})
            except (TypeError, ValueError, AttributeError, ZeroDivisionError):
                refuse(f"torch.{name}")
            made = make(shape, dtype=kwargs.get("dtype"))
            made.__dict__[BY_NAME_ALONE] = True  # but as a parameter, whose contents are the first of many
            return made

        return called

    def alike(one: Any, *_: Any, **__: Any) -> tuple[int, ...]:
        return tuple(one.shape)

    return {
        "tensor": while_made("tensor", _nested),
        "arange": while_made("arange", _arange),
        "eye": while_made("eye", lambda n, m=None: (n, n if m is None else m)),
        "linspace": while_made("linspace", lambda start, end, steps: (steps,)),
        "outer": while_made("outer", lambda one, other: (*one.shape, *other.shape)),
        **{name: while_made(name, alike) for name in ("tril", "triu", *ALIKE)},
    }


_OF_TENSORS: Final = ("dtype", "device", "requires_grad", "pin_memory", "layout", "out")


def _nested(data: Any) -> tuple[int, ...]:
    if isinstance(data, list | tuple):
        return (len(data), *(_nested(data[0]) if data else ()))
    if not isinstance(data, bool | int | float):
        raise TypeError
    return ()


def _arange(start: float, end: float | None = None, step: float = 1) -> tuple[int, ...]:
    first, last = (0, start) if end is None else (start, end)
    return (max(0, math.ceil((last - first) / step)),)
