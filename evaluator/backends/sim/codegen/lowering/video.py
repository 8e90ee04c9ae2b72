"""Video instructions, which compute with the bytes and halves of words, as C++ (PTX ISA 9.0, 9.7.17 and 9.7.18)."""

import re
from collections.abc import Iterator

from evaluator.backends.sim.codegen.context import Context
from evaluator.backends.sim.codegen.table import lowers
from evaluator.backends.sim.ptx.model import Instruction, Operand, Part, Register

_WORDS = {"u32", "s32"}
_OPERATIONS = ("vadd", "vsub", "vabsdiff", "vmin", "vmax")
_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
_ENDS = {"add": "V_PLUS", "min": "V_LEAST", "max": "V_MOST"}
_SHIFTS = {"shr7": 7, "shr15": 15}
_ELEMENT_BITS = {"2": 16, "4": 8}


def _part(operand: Operand) -> Part:
    return operand if isinstance(operand, Part) else Part(operand)


def _into(c: Context, destination: Part, text: str) -> Iterator[str]:
    """Write the whole destination: what its selector spares comes from the third operand."""
    if isinstance(destination.operand, Register) and c.width(destination.operand) != 32:
        raise c.unsupported("into a register of another width")
    yield c.set(destination.operand, text)


def _types(i: Instruction) -> list[str]:
    return [m for m in i.modifiers if m in _WORDS]


def _field(c: Context, selector: str, kind: str) -> str:
    """`Field{…}` of one byte, one half or the whole word."""
    bits = {"": 32, "b": 8, "h": 16}[selector[:1]]
    place = int(selector[1:] or 0)
    if place >= 32 // bits:
        raise c.unsupported(f"with a selector .{selector}")
    return f"Field{{{bits}, {place * bits}, {_truth(kind == 's32')}}}"


def _truth(value: bool) -> str:
    return str(value).lower()


@lowers(*_OPERATIONS, modifiers=_ENDS.keys() | {"sat"}, types=_WORDS)
def _scalar(c: Context, i: Instruction) -> Iterator[str]:
    """`vadd.s32.u32.s32.sat d.b1, a.b0, b.h0, c;`."""
    kinds = _types(i)
    return _of_words(c, i, f"V_{i.opcode[1:].upper()}", kinds, c.b32(_part(i.operands[2]).operand))


@lowers("vshl", "vshr", modifiers=_ENDS.keys() | {"sat", "clamp", "wrap"}, types={"u32"})
def _shift(c: Context, i: Instruction) -> Iterator[str]:
    kinds = _types(i)
    amount = _part(i.operands[2])
    bits = {"": 32, "b": 8, "h": 16}[amount.selector[:1]]
    if {"clamp", "wrap"} <= set(i.modifiers) or not {"clamp", "wrap"} & set(i.modifiers) or kinds[2:] != ["u32"]:
        raise c.unsupported()
    place = int(amount.selector[1:] or 0) * bits
    text = f"and_b32(shr_u32({c.b32(amount.operand)}, all32({place})), all32({(1 << bits) - 1}u))"
    text = f"min_u32({text}, all32(32))" if "clamp" in i.modifiers else f"and_b32({text}, all32(31))"
    whole = Instruction(i.opcode, i.modifiers, (*i.operands[:2], amount.operand, *i.operands[3:]), i.line)
    _field(c, amount.selector, "u32")
    return _of_words(c, whole, f"V_{i.opcode[1:].upper()}", kinds, text)


@lowers("vset", modifiers=_ENDS.keys() | _COMPARISONS, types=_WORDS)
def _set(c: Context, i: Instruction) -> Iterator[str]:
    return _of_words(c, i, _comparison(c, i), ["u32", *_types(i)], c.b32(_part(i.operands[2]).operand))


def _comparison(c: Context, i: Instruction) -> str:
    found = [m for m in i.modifiers if m in _COMPARISONS]
    if len(found) != 1:
        raise c.unsupported()
    return f"V_{found[0].upper()}"


def _of_words(c: Context, i: Instruction, operation: str, kinds: list[str], b: str) -> Iterator[str]:
    """What all scalar ones but `vmad` have in common: saturation, and a second operation or a merge with `c`."""
    destination, x, y, *more = map(_part, i.operands)
    second = [m for m in i.modifiers if m in _ENDS]
    if len(kinds) != 3 or len(second) > 1 or destination.negative or x.negative or y.negative:
        raise c.unsupported()
    end = "V_MERGED" if destination.selector else _ENDS[second[0]] if second else "V_PLAIN"
    if (
        (destination.selector and second)
        or len(more) != (end != "V_PLAIN")
        or any(m != Part(m.operand) for m in more)
    ):
        raise c.unsupported()
    to = _field(c, destination.selector, kinds[0])
    fields = f"{_field(c, x.selector, kinds[1])}, {_field(c, y.selector, kinds[2])}, {to}"
    third = c.b32(more[0].operand) if more else "all32(0)"
    saturated = _truth("sat" in i.modifiers)
    text = f"video_word({operation}, {fields}, {saturated}, {end}, {c.b32(x.operand)}, {b}, {third})"
    yield from _into(c, destination, text)


@lowers("vmad", modifiers={"sat", "po"} | _SHIFTS.keys(), types=_WORDS, operand_count=4)
def _vmad(c: Context, i: Instruction) -> Iterator[str]:
    """`vmad.s32.s32.u32.sat d, -a.h0, b.h1, c;`."""
    destination, x, y, z = map(_part, i.operands)
    kinds = _types(i)
    scales = [_SHIFTS[m] for m in i.modifiers if m in _SHIFTS]
    minus, one_more = x.negative != y.negative, "po" in i.modifiers
    negations = minus + z.negative
    if len(kinds) != 3 or len(scales) > 1 or destination.selector or destination.negative or z.selector:
        raise c.unsupported()
    if negations > 1 or (one_more and (x.negative or y.negative or z.negative)):
        raise c.unsupported("with these negations")
    how = ", ".join([*map(_truth, (minus, z.negative, one_more, "sat" in i.modifiers)), str(sum(scales))])
    fields = f"{_field(c, x.selector, kinds[1])}, {_field(c, y.selector, kinds[2])}"
    words = ", ".join(c.b32(o.operand) for o in (x, y, z))
    yield from _into(c, destination, f"video_mad({fields}, Product128{{{how}}}, {words})")


@lowers(
    *(f"{name}{count}" for count in _ELEMENT_BITS for name in (*_OPERATIONS, "vavrg")),
    modifiers={"sat", "add"},
    types=_WORDS,
    operand_count=4,
)
def _simd(c: Context, i: Instruction) -> Iterator[str]:
    """`vadd4.s32.u32.s32.sat d.b3210, a.b3210, b.b7654, c;`."""
    kinds = _types(i)
    return _of_elements(c, i, f"V_{i.opcode[1:-1].upper()}", kinds)


@lowers("vset2", "vset4", modifiers=_COMPARISONS | {"add"}, types=_WORDS, operand_count=4)
def _simd_set(c: Context, i: Instruction) -> Iterator[str]:
    return _of_elements(c, i, _comparison(c, i), ["u32", *_types(i)])


def _of_elements(c: Context, i: Instruction, operation: str, kinds: list[str]) -> Iterator[str]:
    destination, x, y, z = map(_part, i.operands)
    accumulate, saturate = "add" in i.modifiers, "sat" in i.modifiers
    if len(kinds) != 3 or (accumulate and saturate) or any(o.negative for o in (destination, x, y, z)) or z.selector:
        raise c.unsupported()
    bits = _ELEMENT_BITS[i.opcode[-1]]
    count, letter = 32 // bits, "h" if bits == 16 else "b"
    places = [
        _places(c, o.selector or default, letter, count) for o, default in zip((x, y), _defaults(letter), strict=True)
    ]
    mask = _mask(c, destination.selector, letter, count)
    signs = ", ".join(_truth(kind == "s32") for kind in kinds[1:])
    of = f"Elements{{{bits}, {places[0]}, {places[1]}, {mask}, {signs}}}"
    flags = ", ".join(map(_truth, (kinds[0] == "s32", saturate, accumulate)))
    words = ", ".join(c.b32(o.operand) for o in (x, y, z))
    yield from _into(c, destination, f"video_elements({operation}, {of}, {flags}, {words})")


def _defaults(letter: str) -> tuple[str, str]:
    return ("h10", "h32") if letter == "h" else ("b3210", "b7654")


def _places(c: Context, selector: str, letter: str, count: int) -> str:
    """`.b7654`: where each element comes from, the last digit the lowest element's."""
    if not re.fullmatch(f"{letter}[0-{2 * count - 1}]{{{count}}}", selector):
        raise c.unsupported(f"with a selector .{selector}")
    return f"0x{selector[1:]}"


def _mask(c: Context, selector: str, letter: str, count: int) -> int:
    """`.b20`: the elements that are computed; the others are those of `c`."""
    if not selector:
        return (1 << count) - 1
    places = [int(digit) for digit in selector[1:]]
    if selector[0] != letter or max(places) >= count or places != sorted(set(places), reverse=True):
        raise c.unsupported(f"with a mask .{selector}")
    return sum(1 << place for place in places)
