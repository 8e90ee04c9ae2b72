"""PyTorch's element types, of which nothing is needed but name, size and bytes of a value."""

import struct
from typing import Any, Final


class dtype:  # noqa: N801 - as PyTorch calls it
    """An element type."""

    def __init__(self, name: str, itemsize: int, form: str, is_floating_point: bool) -> None:
        self.name, self.itemsize, self.form, self.is_floating_point = name, itemsize, form, is_floating_point
        self.is_signed = form not in ("?", "B", "H", "I", "Q")
        self.is_complex = False

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name

    def packed(self, value: Any) -> bytes:
        """The bytes of one element."""
        if self.form == "bf16":
            return bfloat16(float(value))
        number = float(value) if self.is_floating_point else bool(value) if self.form == "?" else int(value)
        return struct.pack(f"<{self.form}", number)


def bfloat16(value: float) -> bytes:
    """The nearest bfloat16, ties to even."""
    bits = int.from_bytes(struct.pack("<f", value), "little")
    if value == value:
        bits += 0x7FFF + (bits >> 16 & 1)
    return (bits >> 16 & 0xFFFF).to_bytes(2, "little")


DTYPES: Final = {
    name: dtype(name, size, form, floating)
    for name, size, form, floating in (
        ("float64", 8, "d", True),
        ("float32", 4, "f", True),
        ("float16", 2, "e", True),
        ("bfloat16", 2, "bf16", True),
        ("int64", 8, "q", False),
        ("int32", 4, "i", False),
        ("int16", 2, "h", False),
        ("int8", 1, "b", False),
        ("uint64", 8, "Q", False),
        ("uint32", 4, "I", False),
        ("uint16", 2, "H", False),
        ("uint8", 1, "B", False),
        ("bool", 1, "?", False),
    )
}
ALIASES: Final = {
    "double": "float64", "float": "float32", "half": "float16", "long": "int64", "int": "int32", "short": "int16",
}  # fmt: skip
