"""Compares what the simulator and the GPU leave of a form, operand by operand."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from conformance.accuracy import within
from conformance.forms import Field, Form
from conformance.operands import operands
from conformance.undefined import undefined

_FORMATS = {"f16": (16, 10), "bf16": (16, 7), "f32": (32, 23), "f64": (64, 52)}


class Verdict(StrEnum):
    """How one thread's results compare."""

    EQUAL = "equal"
    NAN = "another NaN"
    WITHIN = "within the documented error"
    UNDEFINED = "undefined"
    DIFFERENT = "not equal"


@dataclass(frozen=True)
class Comparison:
    """One form's results on both."""

    form: Form
    gpu: np.ndarray
    simulated: np.ndarray

    def verdicts(self) -> list[Verdict]:
        """One for each thread."""
        given = operands(self.form)
        equal, nan = self._equal(), self._nan()
        close = within(self.form, given, self.gpu, self.simulated)
        open_ = undefined(self.form, given)
        return [self._verdict(*row) for row in zip(equal, nan, close, open_, strict=True)]

    @staticmethod
    def _verdict(equal: bool, nan: bool, close: bool, open_: bool) -> Verdict:
        if equal:
            return Verdict.EQUAL
        if open_:
            return Verdict.UNDEFINED
        return Verdict.NAN if nan else Verdict.WITHIN if close else Verdict.DIFFERENT

    def _equal(self) -> np.ndarray:
        return np.all(self.gpu == self.simulated, axis=1)

    def _nan(self) -> np.ndarray:
        """Equal but for payloads and signs of NaN, which the PTX ISA leaves open but for what it calls canonical."""
        columns = [
            _equal_or_nan(field, mine, theirs)
            for field, mine, theirs in zip(self.form.results, self.simulated.T, self.gpu.T, strict=True)
        ]
        return np.all(columns, axis=0)

    def differences(self) -> Iterator[str]:
        """Each thread whose results are not equal, in words."""
        given = operands(self.form)
        for thread, verdict in enumerate(self.verdicts()):
            if verdict is Verdict.DIFFERENT:
                taken = ", ".join(f"{f.letter} {x:#x}" for f, x in zip(self.form.inputs, given[thread], strict=True))
                mine, theirs = (" ".join(f"{x:#x}" for x in row[thread]) for row in (self.simulated, self.gpu))
                yield f"thread {thread} ({taken}): simulator {mine}, GPU {theirs}"


def _equal_or_nan(field: Field, mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    content = field.content.removeprefix("tile_").removeprefix("low_")
    bits, mantissa = _FORMATS.get(content.removesuffix("x2"), (0, 0))
    if not bits:
        return mine == theirs
    found = np.ones(len(mine), bool)
    for at in range(0, field.bits, bits):
        x, y = (words >> np.uint64(at) & np.uint64((1 << bits) - 1) for words in (mine, theirs))
        found &= (x == y) | (_is_nan(x, bits, mantissa) & _is_nan(y, bits, mantissa))
    return found


def _is_nan(words: np.ndarray, bits: int, mantissa: int) -> np.ndarray:
    infinity = (1 << (bits - 1)) - (1 << mantissa)
    return (words & np.uint64((1 << (bits - 1)) - 1)) > np.uint64(infinity)
