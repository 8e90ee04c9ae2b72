"""Comparison and selection of PTX as C++ (PTX ISA 9.0, sections 9.7.3.5, 9.7.6 and 9.7.7)."""

from collections.abc import Iterator

from evaluator.backends.sim.codegen.context import Context, pair
from evaluator.backends.sim.codegen.lowering.formats import (
    BITS,
    COMPARISONS,
    FLOATS,
    HALVES,
    INTEGERS,
    bits_of,
    f32_operand,
    sign_extended,
)
from evaluator.backends.sim.codegen.table import lowers
from evaluator.backends.sim.ptx.model import TYPE_BYTES, Instruction, Operand

_COMBINED = {"and": "&", "or": "|", "xor": "^"}
_COMPARED = BITS | INTEGERS | FLOATS | HALVES.keys()


@lowers("setp", modifiers=COMPARISONS | _COMBINED.keys() | {"ftz"}, types=_COMPARED)
def _setp(c: Context, i: Instruction) -> Iterator[str]:
    first, second = pair(i.operands[0])
    boolean = next((m for m in i.modifiers[1:] if m in _COMBINED), None)
    if i.type in ("f16x2", "bf16x2"):
        # Of packed halves the second predicate is the high half's, not the first one's opposite.
        value, opposite = _halves_compared(c, i)
    else:
        value = _comparison(c, i, [m for m in i.modifiers if m not in _COMBINED])
        opposite = f"~({value})"
    if boolean is None:
        yield f"{{ u32 t = {value}, u = {opposite};"
        yield c.set(first, "t")
        if second is not None:
            yield c.set(second, "u")
        yield "}"
        return
    operator = _COMBINED[boolean]
    other = c.predicate(i.operands[3])
    yield f"{{ u32 t = {value}, u = {opposite}, o = {other};"
    yield c.set(first, f"(t {operator} o)")
    if second is not None:
        yield c.set(second, f"(u {operator} o)")
    yield "}"


def _comparison(c: Context, i: Instruction, words: list[str]) -> str:
    """The u32 of a `setp` or `set`, before it is combined with another predicate."""
    operator, kind = words[0], words[-1]
    bits = bits_of(kind)
    a, b = i.operands[1:3]
    if kind in FLOATS or kind in ("f16", "bf16"):
        return _float_comparison(c, i, operator, kind, a, b)
    if kind in HALVES:
        raise c.unsupported("of packed halves")
    wide = max(bits, 32)
    x, y = (sign_extended(c.any(operand, bits), kind) for operand in (a, b))
    sign = "s" if kind[0] == "s" else "u"
    table = {
        "eq": f"eq_b{wide}({x}, {y})", "ne": f"ne_b{wide}({x}, {y})",
        "lt": f"lt_{sign}{wide}({x}, {y})", "le": f"le_{sign}{wide}({x}, {y})",
        "gt": f"lt_{sign}{wide}({y}, {x})", "ge": f"le_{sign}{wide}({y}, {x})",
        "lo": f"lt_u{wide}({x}, {y})", "ls": f"le_u{wide}({x}, {y})",
        "hi": f"lt_u{wide}({y}, {x})", "hs": f"le_u{wide}({y}, {x})",
    }  # fmt: skip
    if operator not in table:
        raise c.unsupported()
    return table[operator]


def _float_comparison(c: Context, i: Instruction, operator: str, kind: str, a: Operand, b: Operand) -> str:
    if kind in ("f16", "bf16"):
        x, y = (_widened(c, i, kind, c.b32(operand)) for operand in (a, b))
        kind = "f32"
    elif kind == "f32":
        x, y = (f32_operand(c, operand, "ftz" in i.modifiers) for operand in (a, b))
    else:
        x, y = c.b64(a), c.b64(b)
    return _float_relation(c, operator, kind, x, y)


def _halves_compared(c: Context, i: Instruction) -> tuple[str, str]:
    """The two u32 of a comparison of packed halves, low and high."""
    sides = []
    for side in ("low16", "high16"):
        x, y = (_widened(c, i, i.type, f"{side}({c.b32(operand)})") for operand in i.operands[1:3])
        sides.append(_float_relation(c, i.modifiers[0], "f32", x, y))
    return sides[0], sides[1]


def _widened(c: Context, i: Instruction, kind: str, text: str) -> str:
    text = f"half_flush({HALVES[kind]}, {text})" if "ftz" in i.modifiers else text
    return f"widen_float({HALVES[kind]}, {text})"


def _float_relation(c: Context, operator: str, kind: str, x: str, y: str) -> str:
    unordered = f"unordered_{kind}({x}, {y})"
    ordered = {
        "eq": f"eq_{kind}({x}, {y})", "lt": f"lt_{kind}({x}, {y})", "le": f"le_{kind}({x}, {y})",
        "gt": f"lt_{kind}({y}, {x})", "ge": f"le_{kind}({y}, {x})",
        "ne": f"~(eq_{kind}({x}, {y}) | {unordered})",
    }  # fmt: skip
    if operator in ordered:
        return ordered[operator]
    if operator == "nan":
        return unordered
    if operator == "num":
        return f"~{unordered}"
    if operator.endswith("u") and operator[:-1] in ordered:
        return f"({ordered[operator[:-1]]} | {unordered})"
    raise c.unsupported()


@lowers(
    "set",
    modifiers=COMPARISONS | _COMBINED.keys() | {"ftz"},
    types=_COMPARED,
    first_types={"u16", "s16", "u32", "s32", "f32"} | HALVES.keys(),
    result="first",
)
def _set(c: Context, i: Instruction) -> str:
    boolean = next((m for m in i.modifiers[1:] if m in _COMBINED), None)
    if len(i.operands) != (3 if boolean is None else 4):
        raise c.unsupported("with a wrong number of operands")

    def combined(test: str) -> str:
        return test if boolean is None else f"({test} {_COMBINED[boolean]} {c.predicate(i.operands[3])})"

    types = [m for m in i.modifiers if m in TYPE_BYTES]
    ones = {"f32": "0x3f800000u", "f16": "0x3c00", "bf16": "0x3f80", "f16x2": "0x3c00", "bf16x2": "0x3f80"}
    if i.type in HALVES and i.type.endswith("x2"):
        yes = "0xffff" if types[0] in ("u32", "s32") else ones[types[0]]
        low, high = (f"pick({combined(side)}, all32({yes}), all32(0))" for side in _halves_compared(c, i))
        return f"pair16({low}, {high})"
    if types[0].endswith("x2") or (types[0] in ("u16", "s16") and i.type not in HALVES):
        raise c.unsupported()
    yes = ones.get(types[0], "0xffff" if TYPE_BYTES[types[0]] == 2 else "0xffffffffu")
    return f"pick({combined(_comparison(c, i, list(i.modifiers)))}, all32({yes}), all32(0))"


@lowers("selp", types=BITS | INTEGERS | FLOATS, operand_count=4, result="last", counted="move")
def _selp(c: Context, i: Instruction) -> str:
    bits = bits_of(i.type)
    a, b = (c.any(operand, bits) for operand in i.operands[1:3])
    return f"pick({c.predicate(i.operands[3])}, {a}, {b})"


@lowers("slct", modifiers={"ftz"}, types={"s32", "f32"}, operand_count=4, result="first", counted="move")
def _slct(c: Context, i: Instruction) -> str:
    types = [m for m in i.modifiers if m in TYPE_BYTES]
    bits = bits_of(types[0])
    a, b = (c.any(operand, bits) for operand in i.operands[1:3])
    chooser = c.b32(i.operands[3])
    if "ftz" in i.modifiers:
        if types[1] != "f32":
            raise c.unsupported()
        chooser = f"flush_f32({chooser})"
    test = f"le_f32(all32(0), {chooser})" if types[1] == "f32" else f"le_s32(all32(0), {chooser})"
    return f"pick({test}, {a}, {b})"


@lowers(
    "testp",
    modifiers={"finite", "infinite", "number", "notanumber", "normal", "subnormal"},
    types=FLOATS,
    operand_count=2,
    result="pred",
)
def _testp(c: Context, i: Instruction) -> str:
    operator, kind = i.modifiers[0], i.type
    bits = bits_of(kind)
    a = c.any(i.operands[1], bits)
    infinity = "all32(0x7f800000)" if bits == 32 else "all64(0x7ff0000000000000ull)"
    smallest = "all32(0x00800000)" if bits == 32 else "all64(0x0010000000000000ull)"
    magnitude = f"abs_{kind}({a})"
    finite = f"lt_u{bits}({magnitude}, {infinity})"
    table = {
        "finite": finite,
        "infinite": f"eq_b{bits}({magnitude}, {infinity})",
        "number": f"le_u{bits}({magnitude}, {infinity})",
        "notanumber": f"lt_u{bits}({infinity}, {magnitude})",
        "normal": f"({finite} & (le_u{bits}({smallest}, {magnitude}) | eq_b{bits}({magnitude}, all{bits}(0))))",
        "subnormal": f"(lt_u{bits}({magnitude}, {smallest}) & ne_b{bits}({magnitude}, all{bits}(0)))",
    }
    if operator not in table:
        raise c.unsupported()
    return table[operator]
