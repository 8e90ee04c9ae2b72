"""Which elements of an output are compared, where all would take too long.

Chosen after the run, so that nothing could prepare for them: where kernels err (corners, around powers of two and the
multiples of blocks and grids), what was never written, and random ones from equal parts of the whole.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from evaluator.backends.session import BufferCopy, BufferFill, KernelLaunch

_MOST_UNWRITTEN: Final = 64
"""Of the elements that were never written: one is enough, the others make the message better."""
_GRID_LIMITS: Final = (65_535, 65_536)
"""Blocks in y and z, and block indices of 16 bits."""

Elements = NDArray[np.int64]


def spread_elements(
    shape: Sequence[int],
    strides: Sequence[int],
    most: int,
    generator: np.random.Generator,
    unwritten: NDArray[np.bool_] | None = None,
) -> Elements:
    """At most about `most` flat indices of an output, sorted, each once; all of them where there are no more.

    `strides`: element distances at which the plan's blocks and grids begin anew.
    """
    count = prod(shape)
    if count <= most:
        return np.arange(count, dtype=np.int64)
    likely = _each_once(np.fromiter(_likely(shape, strides, generator), np.int64))
    likely = likely[(likely >= 0) & (likely < count)]
    if likely.size > most // 2:
        likely = generator.choice(likely, most // 2, replace=False)
    edges = np.linspace(0, count, max(1, most - likely.size) + 1).astype(np.int64)
    spread = generator.integers(edges[:-1], edges[1:])
    return _each_once(np.concatenate((likely, spread, _of_unwritten(unwritten, generator))))


def written_elements(
    unwritten: NDArray[np.bool_] | None, count: int, most: int, generator: np.random.Generator
) -> Elements:
    """At most `most` random ones of the elements that were written, sorted."""
    if unwritten is None:
        return _each_once(generator.integers(0, count, most))
    there = np.flatnonzero(~unwritten)
    return there if there.size <= most else np.sort(generator.choice(there, most, replace=False))


def _each_once(elements: Elements) -> Elements:
    """Sorted, as by `np.unique`, which imports numpy's masked arrays: that takes as long as a few trials."""
    ordered = np.sort(elements)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if ordered.size else ordered


def strides_of(steps: Sequence[KernelLaunch | BufferFill | BufferCopy]) -> tuple[int, ...]:
    """Distances, in threads, at which the blocks and grids of a plan begin anew."""
    found: set[int] = set()
    for step in steps:
        if isinstance(step, KernelLaunch):
            threads = prod(step.block)
            found |= {*step.block, threads, *(threads * limit for limit in _GRID_LIMITS)}
            found |= {threads * prod(step.grid[:axes]) for axes in (1, 2, 3)}
    return tuple(sorted(found - {1}))


def _likely(shape: Sequence[int], strides: Sequence[int], generator: np.random.Generator) -> Iterator[int]:
    count = prod(shape)
    for corner in product(*({0, extent // 2, extent - 1} for extent in shape)):
        yield int(np.ravel_multi_index(corner, tuple(shape)))
    for step in (*_powers_below(count), *strides):
        times = int(generator.integers(1, max(1, count // step), endpoint=True))
        yield from (step * k + off for k in (1, times) for off in (-1, 0, 1))
    inner = 1
    for extent in reversed(shape):  # the same along each axis, at random places of the others
        for edge in _powers_below(extent):
            for off in (-1, 0, 1):
                rest = int(generator.integers(0, count))
                place = rest // inner % extent
                yield rest + (min(edge + off, extent - 1) - place) * inner
        inner *= extent


def _powers_below(count: int) -> Iterator[int]:
    return (1 << power for power in range(5, max(5, count.bit_length())))


def _of_unwritten(unwritten: NDArray[np.bool_] | None, generator: np.random.Generator) -> Elements:
    if unwritten is None:
        return np.empty(0, np.int64)
    places = np.flatnonzero(unwritten)
    some = generator.integers(0, places.size, _MOST_UNWRITTEN - 2)
    return places[np.concatenate(([0, places.size - 1], some))]
