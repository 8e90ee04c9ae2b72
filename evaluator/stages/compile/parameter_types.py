"""What a parameter of a kernel is, by whoever tells it: DWARF, the source as it is written, or a mangled name."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["pointer", "int", "uint", "float", "struct"]

HALVES: Final = ("__half", "__nv_bfloat16")

C_TYPES: Final[dict[str, Kind]] = {
    **dict.fromkeys(("char", "signed char", "short", "int", "long", "long long", "__int128"), "int"),
    **dict.fromkeys(("unsigned char", "unsigned short", "unsigned int", "unsigned long", "bool"), "uint"),
    **dict.fromkeys(("unsigned long long", "unsigned __int128"), "uint"),
    **dict.fromkeys(("float", "double", *HALVES), "float"),
}


@dataclass(frozen=True)
class Described:
    """One parameter as it was declared."""

    name: str | None
    type: str
    kind: Kind
    size_bytes: int
    pointee: str | None
    symbol: str | None = None
    """The PTX parameter that it lives in, where DWARF says so."""
    padding: tuple[tuple[int, int], ...] = ()
    """Stretches of bytes of a struct, by their start and end, that belong to none of its members."""


@dataclass(frozen=True)
class Declaration:
    """One kernel as it was declared."""

    line: int | None
    parameters: tuple[Described, ...]
