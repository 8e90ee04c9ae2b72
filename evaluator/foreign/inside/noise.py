"""Random moves of a rounding, as Monte Carlo arithmetic asks for, and how far they move results in the mean square.

Of tensors with millions of elements both are most of what an answer takes. So each is done in one pass over blocks
that stay in a core's cache, in memory that is there, by as many threads as PyTorch has.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

ROUNDING: Final = 2.0**-24
"""Largest relative error of one float32 rounding to nearest."""
_MOST_MOVED: Final = math.sqrt(3.0) * ROUNDING
_BLOCK: Final = 1 << 15
"""Elements: with a factor for each they take half a MiB, which the second cache of a core holds."""
_PIECE: Final = 1 << 20
"""Elements of which one thread has some milliseconds of work; fewer are not worth waking another one."""

_Flat: TypeAlias = NDArray[Any]


class Noise:
    """Moves values by `ROUNDING` of themselves, up or down at random, in the mean square.

    Each by any size up to its root of 3: of two terms that cancel, moves of one size would cancel too in every second
    run, and in one of 256 elements in all eight. The same from the same seed, however many threads there are.
    """

    def __init__(self, seed: int) -> None:
        self._draws = np.random.Generator(np.random.SFC64(seed))

    def move(self, values: torch.Tensor) -> None:
        """Move each element of a float64 tensor, in place."""
        plain = values.layout is torch.strided and values.device.type == "cpu"
        if plain and values.is_contiguous() and not values.is_neg():
            flat = values.detach().reshape(-1).numpy()
            self._multiply(flat, flat)
        else:
            values.mul_(self.factors(values.shape))

    def moved(self, values: torch.Tensor) -> torch.Tensor:
        """The same elements in float64, moved."""
        source = values if values.dtype in (torch.float32, torch.float64) else values.double()
        made = torch.empty(source.shape, dtype=torch.float64)
        self._multiply(_flat(source), _flat(made))
        return made

    def factors(self, shape: torch.Size) -> torch.Tensor:
        """1, moved, for each element."""
        factors = torch.empty(shape, dtype=torch.float64)
        flat = _flat(factors)
        self._in_pieces(flat.size, lambda draws, start, stop: _draw(draws, flat[start:stop]))
        return factors

    def _multiply(self, source: _Flat, target: _Flat) -> None:
        def multiply(draws: np.random.Generator, start: int, stop: int) -> None:
            factors = np.empty(min(_BLOCK, stop - start))
            for at in range(start, stop, _BLOCK):
                end = min(at + _BLOCK, stop)
                some = factors[: end - at]
                _draw(draws, some)
                np.multiply(source[at:end], some, out=target[at:end])

        self._in_pieces(source.size, multiply)

    def _in_pieces(self, count: int, work: Callable[[np.random.Generator, int, int], None]) -> None:
        starts = range(0, count, _PIECE)
        if len(starts) == 1:
            draws = [self._draws]
        else:
            seeds = self._draws.integers(1 << 62, size=len(starts)).tolist()
            draws = [np.random.Generator(np.random.SFC64(seed)) for seed in seeds]
        _over(count, lambda start, stop: work(draws[start // _PIECE], start, stop))


def _draw(draws: np.random.Generator, factors: _Flat) -> None:
    """24 random bits for each: a move is a thousandth of a thousandth of a rounding more or less then."""
    for at in range(0, factors.size, _BLOCK):
        some = factors[at : at + _BLOCK]
        np.multiply(draws.random(some.size, dtype=np.float32), 2.0 * _MOST_MOVED, out=some, dtype=np.float64)
        some += 1.0 - _MOST_MOVED


class MeanSquare:
    """How far several results are from an exact one, element by element: the mean of the squares."""

    def __init__(self, exact: torch.Tensor, results: int) -> None:
        """`results`: how many there will be."""
        self._exact, self._weight = _flat(exact.double()), 1.0 / results
        self._squares = torch.zeros(exact.shape, dtype=torch.float64)

    def add(self, result: torch.Tensor) -> None:
        """Take account of one."""
        sums, exact, found = _flat(self._squares), self._exact, _flat(result.double())

        def add(start: int, stop: int) -> None:
            for at in range(start, stop, _BLOCK):
                here = slice(at, min(at + _BLOCK, stop))
                moved = found[here] - exact[here]
                moved[found[here] == exact[here]] = 0.0  # of infinities too
                moved *= moved
                moved *= self._weight
                sums[here] += moved

        _over(sums.size, add)

    def scale(self) -> torch.Tensor:
        """The exact result, and beside it how many roundings it was moved by: the 2-norm of both.

        The object is used up by it.
        """
        sums, exact = _flat(self._squares), self._exact

        def scale(start: int, stop: int) -> None:
            for at in range(start, stop, _BLOCK):
                here = slice(at, min(at + _BLOCK, stop))
                np.hypot(exact[here], np.sqrt(sums[here]) / ROUNDING, out=sums[here])

        _over(sums.size, scale)
        return self._squares


def _flat(values: torch.Tensor) -> _Flat:
    """All elements in one row: where they are, if they lie so."""
    flat: _Flat = values.detach().resolve_neg().contiguous().reshape(-1).numpy()
    return flat


def _over(count: int, work: Callable[[int, int], None]) -> None:
    """`work` on 0 to `count`, from one number to another: more than a piece by several threads."""

    def piece(start: int) -> None:
        with np.errstate(all="ignore"):  # of what is not finite the caller speaks; each thread has its own
            work(start, min(start + _PIECE, count))

    if count > _PIECE:
        list(_threads().map(piece, range(0, count, _PIECE)))
    elif count:
        piece(0)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(torch.get_num_threads(), "noise")
