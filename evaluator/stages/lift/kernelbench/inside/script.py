"""What forward passes on, as lines of text, and PyTorch's element types and devices."""

import math
from typing import Any, Final, NoReturn


class UnrecordableError(BaseException):
    """What a solution does and cannot be written down. It is no Exception, so that no solution takes it for one."""

    def __init__(self, why: str, what: str) -> None:
        super().__init__(what)
        self.why = why
        """`operator`, `reads` or `other`."""
        self.what = what


def operator_called(name: str) -> NoReturn:
    """Refuse an operator, by its name."""
    raise UnrecordableError("operator", name)


class ElementType:
    """An element type."""

    def __init__(self, name: str, number: int, size: int, is_floating_point: bool) -> None:
        self.name, self.number, self.itemsize = name, number, size
        self.is_floating_point = is_floating_point

    def __repr__(self) -> str:
        return f"torch.{self.name}"


DTYPES: Final = {
    one.name: one
    for one in (
        ElementType("uint8", 0, 1, False),
        ElementType("int8", 1, 1, False),
        ElementType("int16", 2, 2, False),
        ElementType("int32", 3, 4, False),
        ElementType("int64", 4, 8, False),
        ElementType("float16", 5, 2, True),
        ElementType("float32", 6, 4, True),
        ElementType("float64", 7, 8, True),
        ElementType("bool", 11, 1, False),
        ElementType("bfloat16", 15, 2, True),
        ElementType("uint16", 27, 2, False),
        ElementType("uint32", 28, 4, False),
        ElementType("uint64", 29, 8, False),
    )
}


class Script:
    """The lines that were written so far."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, what: str, *numbers: int, text: str = "") -> int:
        """Write a line; the number of its value."""
        parts = (what, *([text] if text else []), len(numbers), *numbers)
        self.lines.append(" ".join(map(str, parts)))
        return len(self.lines) - 1


CURRENT: list[Script] = []
"""The script of the call that is under way, and none while a model is made."""


def script() -> Script:
    """Of the call that is under way."""
    if not CURRENT:
        raise UnrecordableError("other", "calls a function of its module before forward is called")
    return CURRENT[-1]


class Size(tuple[int, ...]):
    """The shape of a tensor."""

    def numel(self) -> int:
        return math.prod(self)


class NamedDevice:
    """A device, by its name."""

    def __init__(self, name: Any = "cuda", index: int | None = None) -> None:
        self.name = str(name)
        self.type = self.name.partition(":")[0]
        self.index = 0 if index is None else index

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return self.type == str(other).partition(":")[0]

    def __hash__(self) -> int:
        return hash(self.type)
