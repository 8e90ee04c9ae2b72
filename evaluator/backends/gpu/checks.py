"""What a run's memory begins with and what is left of it, by a few kernels of our own (`checks.cu`) and one wait.

As array code it takes some forty small operations and half a dozen waits, each of which costs more than the kernel
that is judged. Here it is three launches, and one block of results that is read once. Nothing is decided: these are
facts, and where one of them is not as it should be, array code looks again and says what and where.

    memory     fills and copies, or compares, many stretches of memory at once
    compare    the largest error of an output over the allowed one
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeAlias, TypeVar

from evaluator.problems.problem import Expected, Tolerance

Key = TypeVar("Key")
Tensor: TypeAlias = Any
"""A torch tensor on the referee's device."""

SOURCE: Final = Path(__file__).with_name("checks.cu")
MEMORY: Final = "assay_memory"
COMPARE: Final = "assay_compare"
THREADS: Final = 256
"""Of a block, as the kernels are written for."""
MOST_STRETCHES: Final = 64
"""Of one launch: their places are among its parameters, of which there may be 4 KiB."""
MOST_ASKED: Final = THREADS
"""Of one look, in several launches; each thread of a block reads one answer of `unless`."""
MOST_COMPARISONS: Final = 32
RESULT_BYTES: Final = 4 * MOST_ASKED + 8 * MOST_COMPARISONS
_MOST_AXES: Final = 4
_BLOCK_BYTES: Final = 1 << 14
"""What a block of the memory kernel takes: four vectors of each of its threads."""
_MOST_BLOCKS: Final = 528
"""Four of 256 threads for each multiprocessor of an H100: more do not read faster."""
_BLOCK_ELEMENTS: Final = 1024
_HEAD: Final = struct.Struct("<QQQ")
_UNLESS_AT: Final = struct.calcsize("<Q")
_STRETCH: Final = struct.Struct("<QQQQII")
_ARRAYS: Final = "QQQQ4q4q"
_TERM: Final = "Qd4q"
_COMPARISON: Final = struct.Struct(f"<{_ARRAYS}{4 * _TERM}ddII")
KERNELS: Final = {MEMORY: _HEAD.size + MOST_STRETCHES * _STRETCH.size, COMPARE: _COMPARISON.size}
"""Each with the bytes of its parameters."""
_WORST_AT: Final = struct.calcsize("<QQ")
_TERMS_AT: Final = struct.calcsize(f"<{_ARRAYS}")
_TERM_BYTES: Final = struct.calcsize(f"<{_TERM}")
_FILL, _COPY, _HOLDS, _SAME, _POISON = range(5)
_TYPES: Final = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8")
_KINDS: Final = {f"torch.{name}": kind for kind, name in enumerate(_TYPES)}
"""In the order in which the kernel numbers them."""
_FIRST_WHOLE: Final = _KINDS["torch.int64"]


@dataclass(frozen=True)
class Stretch:
    """A piece of memory, and what to do with it or to ask of it."""

    deed: int
    at: Tensor
    other: Tensor | None = None
    word: int = 0
    item_bytes: int = 1

    @classmethod
    def fill(cls, at: Tensor, word: int) -> Self:
        """Eight bytes again and again, by the address: the byte at a multiple of eight is the word's lowest one."""
        return cls(_FILL, at, word=word)

    @classmethod
    def copy(cls, at: Tensor, source: Tensor) -> Self:
        """As many bytes of `source`."""
        return cls(_COPY, at, source)

    @classmethod
    def holds(cls, at: Tensor, word: int) -> Self:
        """Found where it is not what `fill` leaves."""
        return cls(_HOLDS, at, word=word)

    @classmethod
    def same(cls, at: Tensor, other: Tensor) -> Self:
        """Found where a bit differs from `other`."""
        return cls(_SAME, at, other)

    @classmethod
    def poisoned(cls, at: Tensor, poison: int, item_bytes: int) -> Self:
        """Found where an element consists of the byte `poison` alone."""
        return cls(_POISON, at, word=poison, item_bytes=item_bytes)


@dataclass(frozen=True)
class Compared:
    """One output beside what is expected of it, all on the device."""

    actual: Tensor
    expected: Expected
    tolerance: Tolerance


class ChecksLauncher(Protocol):
    """What launches the kernels."""

    def launch(
        self, kernel: str, grid: tuple[int, int], parameters: bytearray, pointers: Sequence[tuple[int, Tensor]]
    ) -> None:
        """Queue a launch; each of `pointers` is the place of an address among the parameters, and what lies there."""

    def results(self) -> Tensor:
        """uint8[RESULT_BYTES] of zeros, once what was queued before is done."""

    def read(self) -> bytes:
        """Wait for all that was queued; what the results hold."""


class DeviceChecks:
    """Memory and outputs of runs, on one device. Not for several threads at once."""

    def __init__(self, device: ChecksLauncher) -> None:
        self._device = device

    def works(self, memory: Tensor, values: Tensor) -> bool:
        """Whether the device does as this code says: tried at the start, on 4 KiB of memory and some float64 values.

        A driver or a compiler that errs here would err in every verdict.
        """
        word = 0x0123456789ABCDEF
        self.write([Stretch.fill(memory[:1000], word), Stretch.copy(memory[1000:2000], memory[2000:3000])])
        exact = Compared(values, Expected(values, values), Tolerance(1.0, 0.0, ""))
        off = Compared(values, Expected(values + 0.5 * values.abs(), values.abs()), Tolerance(1.0, 0.0, ""))
        right = [Stretch.holds(memory[:1000], word), Stretch.same(memory[1000:2000], memory[2000:3000])]
        wrong = [Stretch.holds(memory[1:1001], word), Stretch.same(memory[:1000], memory[1000:2000])]
        written, kept = memory[3000:3500], memory[3500:4000]
        found, worst = self.look([*right, *wrong], {"exact": exact, "off": off}, [Stretch.fill(written, word)], 2)
        if found != [False, False, True, True] or worst is None or worst["exact"] != 0 or not 0 < worst["off"] < 1:
            return False
        last = [Stretch.holds(written, word), Stretch.holds(kept, word)]
        return all(self.look(last, {}, [Stretch.fill(kept, word)], 2)[0] == [False, True] for _ in range(2))

    def write(self, stretches: Sequence[Stretch]) -> None:
        """Queue fills and copies, which may not overlap."""
        for first in range(0, len(stretches), MOST_STRETCHES):
            self._launch(stretches[first : first + MOST_STRETCHES])

    def can_look(self, stretches: int, outputs: int) -> bool:
        """Whether so much fits into one look."""
        return stretches <= MOST_ASKED and outputs <= MOST_COMPARISONS

    def look(
        self,
        stretches: Sequence[Stretch],
        compared: Mapping[Key, Compared],
        then: Sequence[Stretch] = (),
        unless: int = 0,
    ) -> tuple[list[bool], dict[Key, float] | None]:
        """For each stretch whether it was found, and of each output the largest error over the allowed one.

        NaN where one is. None where an array is of a kind that the kernel does not know. Waits once.

        `then`: fills and copies that follow, done by the same wait; the device leaves them out where one of the first
        `unless` stretches was found.
        """
        results = self._device.results()
        for first in range(0, len(stretches), MOST_STRETCHES):
            self._launch(stretches[first : first + MOST_STRETCHES], found=results[4 * first :])
        blocks = [_packed(one) for one in compared.values()]
        known = [block for block in blocks if block is not None]
        if len(known) == len(blocks):
            for number, (parameters, pointers, count) in enumerate(known):
                at = 4 * MOST_ASKED + 8 * number
                grid = min(_MOST_BLOCKS, -(-count // _BLOCK_ELEMENTS)), 1
                self._device.launch(COMPARE, grid, parameters, [*pointers, (_WORST_AT, results[at : at + 8])])
        for first in range(0, len(then), MOST_STRETCHES):
            self._launch(then[first : first + MOST_STRETCHES], earlier=results, unless=unless)
        found = self._device.read()
        flags = struct.unpack_from(f"<{len(stretches)}I", found)
        if len(known) < len(blocks):
            return [bool(flag) for flag in flags], None
        worst = struct.unpack_from(f"<{len(known)}d", found, 4 * MOST_ASKED)
        return [bool(flag) for flag in flags], dict(zip(compared, worst, strict=True))

    def _launch(
        self,
        stretches: Sequence[Stretch],
        found: Tensor | None = None,
        earlier: Tensor | None = None,
        unless: int = 0,
    ) -> None:
        """`found` takes the results; nothing is done where one of the first `unless` in `earlier` was found."""
        if not stretches:
            return
        parameters = bytearray(KERNELS[MEMORY])
        pointers = [] if found is None else [(0, found)]
        if earlier is not None:
            _HEAD.pack_into(parameters, 0, 0, 0, unless)
            pointers.append((_UNLESS_AT, earlier))
        place, longest = _HEAD.size, 1
        for one in stretches:
            size_bytes = one.at.numel() * one.at.itemsize
            longest = max(longest, size_bytes)
            _STRETCH.pack_into(parameters, place, 0, 0, size_bytes, one.word, one.deed, one.item_bytes)
            pointers.append((place, one.at))
            if one.other is not None:
                pointers.append((place + 8, one.other))
            place += _STRETCH.size
        self._device.launch(
            MEMORY, (min(_MOST_BLOCKS, -(-longest // _BLOCK_BYTES)), len(stretches)), parameters, pointers
        )


def _packed(one: Compared) -> tuple[bytearray, list[tuple[int, Tensor]], int] | None:
    """The parameters of the compare kernel, the addresses among them, and how many elements there are."""
    actual, expected, tolerance = one.actual, one.expected, one.tolerance
    shape, value = tuple(actual.shape), expected.value
    kind = _KINDS.get(str(actual.dtype))
    if kind is None or not actual.is_contiguous() or actual.numel() == 0:
        return None
    if str(value.dtype) != ("torch.int64" if kind >= _FIRST_WHOLE else "torch.float64"):
        return None
    longer = 1.0 if tolerance.any_length else expected.longer
    scale = expected.scale
    limits = tolerance.relative * longer, expected.relative
    if str(scale.dtype) == "torch.int64" and all(map(_is_number, limits)) and min(limits) == 0:
        scale = 0.0  # whole numbers are no terms of the kernel's, and no share of any of them is 0
    terms = (expected.relative, longer, scale, expected.beyond)
    arrays = [value, *(term for term in terms if not _is_number(term))]
    if any(str(array.dtype) != "torch.float64" for array in arrays[1:]):
        return None
    flat = all(tuple(array.shape) == shape and array.is_contiguous() for array in arrays)
    if not flat and len(shape) > _MOST_AXES:
        return None
    lead = (0,) * max(0, _MOST_AXES - len(shape))

    def strides(array: Tensor) -> tuple[int, ...]:
        return (0,) * _MOST_AXES if flat else (*lead, *array.expand(shape).stride())

    extents = (1,) * _MOST_AXES if flat else (*(1 for _ in lead), *shape)
    packed: list[float] = []
    pointers = [(0, actual), (8, value)]
    for number, term in enumerate(terms):
        if _is_number(term):
            packed += [0, float(term), 0, 0, 0, 0]
        else:
            packed += [0, 0.0, *strides(term)]
            pointers.append((_TERMS_AT + _TERM_BYTES * number, term))
    parameters = bytearray(KERNELS[COMPARE])
    count = actual.numel()
    _COMPARISON.pack_into(
        parameters,
        0,
        *(0, 0, 0, count, *extents, *strides(value), *packed, tolerance.relative, tolerance.absolute, kind, flat),
    )
    return parameters, pointers, count


def _is_number(term: Any) -> bool:
    return isinstance(term, float | int)
