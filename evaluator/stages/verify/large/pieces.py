"""Contents of large inputs: a piece drawn anew for each trial, and the whole tensor as a view of it.

Behind the piece come stretches of it, of drawn lengths from drawn places: so no distance leads from an element to an
equal one everywhere, an index that wraps reads other values, and an input does not show that it was drawn in pieces.
Stretches are whole pages of memory and, where that is possible, whole rows: a row is what its distribution makes it.
"""

import ctypes
import math
import mmap
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evaluator.backends.session import Buffer
from evaluator.problems.arrays import Rng, rng_seed, to_numpy
from evaluator.problems.mixtures import TILE
from evaluator.problems.problem import Distribution, Problem, Sizes
from evaluator.stages.launch.checked_plan import BufferFacts

_PAGE_BYTES: Final = 4096
"""What the simulator maps a piece by."""
_PIECE_BYTES: Final = 1 << 20
"""Which a processor's cache holds, and takes milliseconds to draw."""
_MOST_PIECE_BYTES: Final = 6 << 20
"""Where rows lie in tiles: 24 tiles of 16 rows of 4,096 floats hold two of each distribution or more."""
_LEAST_UNITS: Final = 24
_MOST_STRETCHES: Final = 1000
"""Of one tensor: a microsecond for each, and a process has some 65 thousand mappings."""
_MOST_DRAWS: Final = 64
"""Of a piece's parts; what is then still missing repeats them. Problems need up to some twenty."""
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
)
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_MAP_FIXED: Final = 0x10
"""Of <sys/mman.h>; the same for all processors that Linux has a simulator for."""
_FAILED: Final = ctypes.c_void_p(-1).value


@dataclass(frozen=True)
class Piece:
    """What an input holds: `content`, 1-D, and stretches of it behind, up to the end of `shape`."""

    content: NDArray[Any]
    shape: tuple[int, ...]
    stretches: NDArray[np.int64] | None = None
    """[many, 2]: the first page of each in the content and its pages; None: the content again and again."""

    @property
    def repeats(self) -> bool:
        """Whether there is more of the tensor than the content."""
        return self.content.size < prod(self.shape)

    def tensor(self) -> NDArray[Any]:
        """The whole of it, read only, in no more memory than the content. Raises OSError where memory has no room."""
        if not self.repeats:
            return self.content.reshape(self.shape)
        return np.asarray(_Repetitions(self.content, self.shape, self.stretches))

    def buffer(self, facts: BufferFacts) -> Buffer:
        """As a run's input."""
        item_bytes = facts.dtype.size_bytes
        return Buffer(
            facts.name,
            "input",
            facts.size_bytes,
            item_bytes,
            self.content,
            repeats=self.repeats,
            stretches=self.stretches if self.repeats else None,
            sampled=self.repeats,
        )


def draw_pieces(
    inputs: tuple[BufferFacts, ...], distribution: Distribution, rng: Rng, problem: Problem, sizes: Sizes
) -> Mapping[str, Piece]:
    """Contents for these inputs, put together of draws at smaller sizes of the problem."""
    units = {facts.name: _unit_bytes(facts) for facts in inputs}
    wanted = {
        facts.name: min(prod(facts.shape), _piece_bytes(units[facts.name]) // facts.dtype.size_bytes)
        for facts in inputs
    }
    drawn_at = _smaller(problem, sizes, wanted)
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in wanted}
    for _ in range(_MOST_DRAWS):
        for name, content in distribution.draw(rng, drawn_at).items():
            parts[name].append(to_numpy(content).reshape(-1))
        missing = {name: count - sum(part.size for part in parts[name]) for name, count in wanted.items()}
        missing = {name: count for name, count in missing.items() if count > 0}
        if not missing:
            break
        drawn_at = _smaller(problem, _without_others(problem, sizes, missing), missing)
    pieces: dict[str, Piece] = {}
    for facts in inputs:
        content = np.resize(np.concatenate(parts[facts.name]), wanted[facts.name])
        stretches = _stretches(facts.size_bytes, content.nbytes, units[facts.name], rng)
        pieces[facts.name] = Piece(content, facts.shape, stretches)
    return pieces


def _unit_bytes(facts: BufferFacts) -> int:
    """What a stretch is made of: pages that hold whole tiles, rows or, where those are too long, nothing whole."""
    row_bytes = facts.dtype.size_bytes * prod(facts.shape[1:])
    for rows in (TILE, 1):
        unit = math.lcm(_PAGE_BYTES, rows * row_bytes)
        if len(facts.shape) > 1 and unit * _LEAST_UNITS <= _MOST_PIECE_BYTES:
            return unit
    return _PAGE_BYTES


def _piece_bytes(unit: int) -> int:
    return unit * max(_LEAST_UNITS, _PIECE_BYTES // unit)


def _smaller(problem: Problem, sizes: Sizes, wanted: Mapping[str, int]) -> Sizes:
    """Sizes at which no input has more elements than are `wanted` of it, to a row; rows are as long as they are."""
    rows = problem.inputs[0].shape[1:]
    kept = {name for name in sizes if any(name in extent for extent in rows)}
    drawn_at = dict(sizes)
    for tensor in problem.inputs:
        most = wanted.get(tensor.name, math.inf)
        while (count := prod(tensor.shape_at(drawn_at))) > most:
            free = [name for name in sizes if any(name in extent for extent in tensor.shape) and name not in kept]
            free = [name for name in free if drawn_at[name] > 1]
            if not free:
                break
            widest = max(free, key=lambda name: drawn_at[name])
            size = drawn_at[widest]
            drawn_at[widest] = max(-(-size // 2), math.ceil(size * most / count))
            if drawn_at[widest] == size:
                break
    return drawn_at


def _without_others(problem: Problem, sizes: Sizes, missing: Iterable[str]) -> Sizes:
    """`sizes`, at which the inputs that are not `missing` have hardly an element: what they need was drawn."""
    extents = [extent for tensor in problem.inputs if tensor.name in missing for extent in tensor.shape]
    return {name: size if any(name in extent for extent in extents) else 1 for name, size in sizes.items()}


def _stretches(size_bytes: int, piece_bytes: int, unit: int, rng: Rng) -> NDArray[np.int64]:
    """Stretches of a piece that fill what lies behind it, in pages."""
    generator = np.random.default_rng(rng_seed(rng))
    units, missing = piece_bytes // unit, -(-(size_bytes - piece_bytes) // unit)
    if missing <= 0 or units == 0:
        return np.empty((0, 2), np.int64)
    most = min(units, max(4, 2 * missing // _MOST_STRETCHES))
    lengths = generator.integers(1, most, max(1, missing), endpoint=True)
    lengths = lengths[: int(np.searchsorted(np.cumsum(lengths), missing)) + 1]
    first = generator.integers(0, units - lengths, endpoint=True)
    return np.stack((first, lengths), axis=1) * (unit // _PAGE_BYTES)


class _Repetitions:
    """The same pages mapped one after another, for numpy to look at; they go when nobody looks any more."""

    def __init__(
        self, content: NDArray[Any], shape: tuple[int, ...], stretches: NDArray[np.int64] | None = None
    ) -> None:
        self._bytes = prod(shape) * content.dtype.itemsize
        self._address: int | None = None
        piece = content.tobytes()
        if stretches is None:
            again = -(-self._bytes // len(piece)) - 1
            stretches = np.array([[0, len(piece) // _PAGE_BYTES]] * again, np.int64)
        descriptor = os.memfd_create("piece")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(piece)
            private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            low = self._address = _mapped(None, self._bytes, 0, private, -1)
            at = 0
            for first, pages in ((0, len(piece) // _PAGE_BYTES), *stretches.tolist()):
                some = min(pages * _PAGE_BYTES, self._bytes - at)
                flags = mmap.MAP_SHARED | _MAP_FIXED
                _mapped(low + at, some, mmap.PROT_READ, flags, descriptor, first * _PAGE_BYTES)
                at += some
        finally:
            os.close(descriptor)
        self.__array_interface__ = {
            "shape": shape,
            "typestr": content.dtype.str,
            "data": (low, True),
            "version": 3,
        }

    def __del__(self) -> None:
        if self._address is not None:
            _LIBC.munmap(self._address, self._bytes)


def _mapped(
    address: int | None, size_bytes: int, protection: int, flags: int, descriptor: int, offset: int = 0
) -> int:
    found = _LIBC.mmap(address, size_bytes, protection, flags, descriptor, offset)
    if found is None or found == _FAILED:
        raise OSError(ctypes.get_errno(), "mmap")
    return int(found)
