"""PTX as values: a module of functions of typed instructions (PTX ISA 9.0, sections 4 to 6)."""

from collections.abc import Iterator
from dataclasses import dataclass, field

TYPE_BYTES = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4, "u16x2": 4, "s16x2": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}  # fmt: skip


@dataclass(frozen=True)
class Register:
    """A virtual register; `name` is unique within its function."""

    name: str


@dataclass(frozen=True)
class Special:
    """A special register such as `%tid.x`."""

    name: str


@dataclass(frozen=True)
class Immediate:
    """A constant. `bits` is its 64-bit two's complement; `float_bytes` is 4 or 8 for 0f and 0d literals, else 0."""

    bits: int
    float_bytes: int = 0


@dataclass(frozen=True)
class Symbol:
    """A variable, parameter, function or label."""

    name: str


@dataclass(frozen=True)
class Address:
    """`[base + offset]`."""

    base: "Register | Symbol | Immediate"
    offset: int


@dataclass(frozen=True)
class Vector:
    """`{a, b, …}`."""

    parts: "tuple[Operand, ...]"


@dataclass(frozen=True)
class Pair:
    """`d|p`: a destination and its predicate."""

    first: "Operand"
    second: "Operand"


@dataclass(frozen=True)
class Negated:
    """`!p`."""

    register: Register


@dataclass(frozen=True)
class Part:
    """`a.h1` or `-a.b3`: bytes or halves of a word, or its negative, as the video instructions take them."""

    operand: "Operand"
    selector: str = ""
    negative: bool = False


Operand = Register | Special | Immediate | Symbol | Address | Vector | Pair | Negated | Part


def registers_in(operand: Operand) -> Iterator[str]:
    """Names of all registers that an operand mentions."""
    match operand:
        case Register(name):
            yield name
        case Negated(register):
            yield register.name
        case Part(whole):
            yield from registers_in(whole)
        case Address(base, _):
            if isinstance(base, Register):
                yield base.name
        case Vector(parts):
            for part in parts:
                yield from registers_in(part)
        case Pair(first, second):
            yield from registers_in(first)
            yield from registers_in(second)


@dataclass(frozen=True)
class Instruction:
    """One instruction; `opcode` is the first word, `modifiers` the others without their dots."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    line: int
    """Line of the submission's source, 0 when unknown."""
    guard: Register | None = None
    guard_negated: bool = False
    from_header: bool = False
    """Whether it comes from a file that the submission includes."""

    @property
    def text(self) -> str:
        """The full name, for example `ld.global.nc.f32`."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def type(self) -> str:
        """The last type among the modifiers: what the operation works in."""
        for modifier in reversed(self.modifiers):
            if modifier in TYPE_BYTES:
                return modifier
        return ""


@dataclass(frozen=True)
class Label:
    """A place in a function's body."""

    name: str


@dataclass(frozen=True)
class Relocation:
    """An initial value that is an address: of a variable or a function, plus an offset; or one byte of that."""

    name: str
    offset: int = 0
    byte: int | None = None


@dataclass(frozen=True)
class Variable:
    """A variable, or a parameter of a function. `size_bytes` is 0 for dynamic shared memory."""

    name: str
    space: str
    type: str
    size_bytes: int
    align: int
    initial: "tuple[int | Symbol | Relocation, ...]" = ()
    external: bool = False


@dataclass(frozen=True)
class Prototype:
    """What all functions have in common that one call through a register may reach."""

    returns: tuple[Variable, ...]
    parameters: tuple[Variable, ...]


@dataclass
class Function:
    """One `.entry` or `.func`."""

    name: str
    is_entry: bool
    parameters: list[Variable]
    returns: list[Variable]
    registers: dict[str, str] = field(default_factory=dict)
    """Register name to PTX type."""
    variables: dict[str, Variable] = field(default_factory=dict)
    """Shared, local and call-parameter variables declared inside, by unique name."""
    body: list[Instruction | Label] = field(default_factory=list)
    branch_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    prototypes: dict[str, Prototype] = field(default_factory=dict)
    call_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By label: the functions that a call through a register may reach."""
    defined: bool = False


@dataclass
class Module:
    """A whole PTX text."""

    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
