"""How the contents of tensors are drawn, as far as that can be seen from the calls that make them."""

import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import torch
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakIdKeyDictionary

from evaluator.foreign.inside.operators import SeenOperators, operator_name
from evaluator.foreign.inside.refusals import TooLargeError, current_line

Draw: TypeAlias = dict[str, Any]
"""`kind`, and what it needs: uniform {low, high}, normal {mean, std}, integers {low, high} (both included),
permutation, or called: only the file itself can make it."""

CALLED: Final[Draw] = {"kind": "called"}
_SAME: Final = {"clone", "view", "_unsafe_view", "contiguous", "t", "transpose", "permute", "unsqueeze", "squeeze"}
_SAME_TOO: Final = {"detach", "alias", "_to_copy", "reshape", "lift_fresh"}
_MADE_OF_EXTENTS: Final = {"rand", "randn", "randint", "empty", "zeros", "ones", "full"}
_EVEN_RANGE_IN_STD: Final = 3.4641
"""A uniform distribution spans 2 * sqrt(3) standard deviations."""
_NEAR: Final = 0.15
_ENOUGH: Final = 64
"""Elements from which a range can be told."""


class WatchedDraws(SeenOperators):
    """While it is active, remembers how each tensor is drawn, through scaling, shifting, casting and reshaping."""

    def __init__(self, most_bytes: int) -> None:
        """`most_bytes`: a tensor that is made of more ends in TooLargeError, before it is made."""
        super().__init__()
        self._most_bytes = most_bytes
        self._known: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self._roots: WeakIdKeyDictionary = WeakIdKeyDictionary()
        """For each tensor the draws that it is made of, by their numbers."""
        self._read: frozenset[int] = frozenset()
        """The draws out of which a number was read, which may be in all that is made since."""
        self._count = 0

    def of(self, tensors: Mapping[str, torch.Tensor]) -> dict[str, Draw]:
        """How their contents came to be; of what another is made of, as lengths with a mask, that only the file can
        make both.
        """
        draws = {name: self._known.get(one, CALLED) for name, one in tensors.items()}
        roots = {name: self._roots.get(one, frozenset()) for name, one in tensors.items()}
        made = frozenset[int]()
        while True:
            called = (roots[name] for name, draw in draws.items() if draw["kind"] == "called")
            if made == (made := made.union(*called)):
                return draws
            draws = {name: CALLED if roots[name] & made else draw for name, draw in draws.items()}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = operator_name(func)
        before = self._known.get(args[0], CALLED) if args and isinstance(args[0], torch.Tensor) else CALLED
        extents = next((one for one in args if isinstance(one, list | tuple)), ())
        if name in _MADE_OF_EXTENTS and all(type(extent) is int for extent in extents):
            wanted_bytes = math.prod(extents) * (kwargs.get("dtype") or torch.get_default_dtype()).itemsize
            if wanted_bytes > self._most_bytes:
                raise TooLargeError(wanted_bytes, self._most_bytes, current_line())
        made = func(*args, **kwargs)
        if isinstance(made, torch.Tensor):
            draw = _drawn(name, before, args, kwargs)
            if (
                draw["kind"] != "called"
                and not made.dtype.is_floating_point
                and draw["kind"] in ("uniform", "normal")
            ):
                draw = CALLED  # rounded to whole numbers
            self._known[made] = draw
            self._follow(made, name, draw, func, args, kwargs)
        elif isinstance(made, tuple | list):
            for one in made:
                self._follow(one, name, CALLED, func, args, kwargs)
        elif name == "_local_scalar_dense":
            self._read |= self._roots.get(args[0], frozenset())
        return made

    def _follow(self, made: torch.Tensor, name: str, draw: Draw, func: Any, args: Any, kwargs: Any) -> None:
        """Remember what draws `made` is made of."""
        given = [one for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        if torch.Tag.nondeterministic_seeded in func.tags:
            self._count += 1
            self._roots[made] = frozenset([self._count])
            # Of a probability for each element it hangs on these.
            given = given if draw["kind"] == "called" else []
        elif draw["kind"] == "called":
            self._roots[made] = self._read
        for one in given:
            self._roots[made] = self._roots.get(made, frozenset()) | self._roots.get(one, frozenset())
        base = made._base if func._schema.is_mutable else None
        if base is not None:  # written into a part of it
            self._known[base] = CALLED
            self._roots[base] = self._roots.get(base, frozenset()) | self._roots[made]


def _drawn(name: str, before: Draw, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Draw:
    if name in ("rand", "rand_like"):
        return {"kind": "uniform", "low": 0.0, "high": 1.0}
    if name in ("randn", "randn_like"):
        return {"kind": "normal", "mean": 0.0, "std": 1.0}
    if name == "randint":
        low, high = (args[0], args[1]) if len(args) > 2 else (0, args[0])
        return {"kind": "integers", "low": int(low), "high": int(high) - 1}
    if name == "randperm":
        return {"kind": "permutation"}
    if name in ("uniform_", "normal_"):
        first, second = _two(args[1:], kwargs, ("from", "to") if name == "uniform_" else ("mean", "std"))
        if name == "uniform_":
            return {"kind": "uniform", "low": first, "high": second}
        return {"kind": "normal", "mean": first, "std": second}
    if name in _SAME or name in _SAME_TOO:
        return before
    number = args[1] if len(args) > 1 and isinstance(args[1], int | float) else None
    if isinstance(number, int | float) and kwargs.get("alpha", 1) == 1 and len(args) == 2:
        return _moved(name.removesuffix("_"), before, float(number))
    if name == "neg":
        return _moved("mul", before, -1.0)
    return CALLED


def _two(given: tuple[Any, ...], kwargs: Mapping[str, Any], names: tuple[str, str]) -> tuple[float, float]:
    values = [0.0, 1.0]
    values[: len(given)] = given[:2]
    return float(kwargs.get(names[0], values[0])), float(kwargs.get(names[1], values[1]))


def _moved(name: str, draw: Draw, number: float) -> Draw:
    factor, shift = {
        "mul": (number, 0.0),
        "div": (1.0 / number if number else 0.0, 0.0),
        "add": (1.0, number),
        "sub": (1.0, -number),
        "rsub": (-1.0, number),
    }.get(name, (0.0, 0.0))
    if factor == 0.0:
        return CALLED
    if draw["kind"] == "uniform":
        ends = sorted((draw["low"] * factor + shift, draw["high"] * factor + shift))
        return {"kind": "uniform", "low": ends[0], "high": ends[1]}
    if draw["kind"] == "normal":
        return {"kind": "normal", "mean": draw["mean"] * factor + shift, "std": abs(draw["std"] * factor)}
    return CALLED


def draw_of_parameter(values: torch.Tensor) -> Draw:
    """How to draw a parameter like this one: its range, or for one value everywhere a range around it."""
    if not values.dtype.is_floating_point or not bool(torch.isfinite(values).all()):
        return CALLED
    low, high = float(values.min()), float(values.max())
    if low == high:
        # One value everywhere would let a kernel leave it out.
        return {"kind": "uniform", "low": 0.5 * low, "high": 1.5 * low} if low > 0 else _around(low)
    std = float(values.double().std()) if values.numel() > 1 else 0.0
    if values.numel() < _ENOUGH or abs((high - low) / (std * _EVEN_RANGE_IN_STD) - 1.0) < _NEAR:
        return {"kind": "uniform", "low": low, "high": high}
    return {"kind": "normal", "mean": float(values.double().mean()), "std": std}


def draw_of_buffer(values: torch.Tensor) -> Draw:
    """How to draw a buffer like this one: as the file makes it, since it may be a mask or a table; but one that holds
    a single value everywhere, as the statistics of a new batch norm do, as a parameter.
    """
    alike = values.dtype.is_floating_point and values.numel() > 1 and bool((values == values.flatten()[0]).all())
    return draw_of_parameter(values) if alike else CALLED


def _around(value: float) -> Draw:
    reach = 0.5 * abs(value) or 0.5
    return {"kind": "uniform", "low": value - reach, "high": value + reach}
