"""Contents of large inputs: a piece that repeats, drawn anew for each trial, and the whole tensor as a view of it.

A piece is some 260 to 380 pages of memory, a prime number of them: so no power of two, no multiple of a tile and no
row length of the usual kind leads from an element to an equal one, and an index that wraps reads other values.
"""

import ctypes
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evaluator.backends.session import Buffer
from evaluator.problems.arrays import Rng, to_numpy
from evaluator.problems.problem import Distribution, Sizes
from evaluator.stages.launch.checked_plan import BufferFacts

_PAGE_BYTES: Final = 4096
"""What the simulator maps a piece by."""
_PERIODS: Final = (257, 263, 269, 271, 277, 281, 283, 293, 307, 311, 313, 317, 331, 337, 347, 349, 353, 359, 367, 373)
"""In pages: about 1 MiB, which a processor's cache holds and takes milliseconds to draw."""
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
    """What an input holds: `content`, 1-D, again and again up to the end of `shape`."""

    content: NDArray[Any]
    shape: tuple[int, ...]

    @property
    def repeats(self) -> bool:
        """Whether there is more of the tensor than the content."""
        return self.content.size < prod(self.shape)

    def tensor(self) -> NDArray[Any]:
        """The whole of it, read only, in no more memory than the content. Raises OSError where memory has no room."""
        if not self.repeats:
            return self.content.reshape(self.shape)
        return np.asarray(_Repetitions(self.content, self.shape))

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
            sampled=self.repeats,
        )


def draw_pieces(
    inputs: tuple[BufferFacts, ...], distribution: Distribution, rng: Rng, drawn_at: Sizes
) -> Mapping[str, Piece]:
    """Contents for these inputs, put together of draws at `drawn_at`, which are smaller sizes of the problem."""
    wanted: dict[str, int] = {}
    for facts in inputs:
        period = _PERIODS[int(to_numpy(rng.integers(0, len(_PERIODS) - 1, (1,)))[0])] * _PAGE_BYTES
        wanted[facts.name] = min(prod(facts.shape), period // facts.dtype.size_bytes)
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in wanted}
    for _ in range(_MOST_DRAWS):
        for name, content in distribution.draw(rng, drawn_at).items():
            parts[name].append(to_numpy(content).reshape(-1))
        if all(sum(part.size for part in parts[name]) >= count for name, count in wanted.items()):
            break
    return {
        facts.name: Piece(np.resize(np.concatenate(parts[facts.name]), wanted[facts.name]), facts.shape)
        for facts in inputs
    }


class _Repetitions:
    """The same pages mapped one after another, for numpy to look at; they go when nobody looks any more."""

    def __init__(self, content: NDArray[Any], shape: tuple[int, ...]) -> None:
        self._bytes = prod(shape) * content.dtype.itemsize
        self._address: int | None = None
        piece = content.tobytes()
        descriptor = os.memfd_create("piece")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(piece)
            private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            low = self._address = _mapped(None, self._bytes, 0, private, -1)
            for offset in range(0, self._bytes, len(piece)):
                some = min(len(piece), self._bytes - offset)
                _mapped(low + offset, some, mmap.PROT_READ, mmap.MAP_SHARED | _MAP_FIXED, descriptor)
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


def _mapped(address: int | None, size_bytes: int, protection: int, flags: int, descriptor: int) -> int:
    found = _LIBC.mmap(address, size_bytes, protection, flags, descriptor, 0)
    if found is None or found == _FAILED:
        raise OSError(ctypes.get_errno(), "mmap")
    return int(found)
