"""Formats of numbers: the sets of types that entries name, and what the values of each need around an operation."""

from evaluator.backends.sim.codegen.context import Context
from evaluator.backends.sim.ptx.model import TYPE_BYTES, Instruction, Operand

FLOATS = {"f32", "f64"}
HALVES = {"f16": "F16", "f16x2": "F16", "bf16": "BF16", "bf16x2": "BF16"}
INTEGER_PAIRS = {"u16x2", "s16x2"}
INTEGERS = {"u16", "s16", "u32", "s32", "u64", "s64"}
BITS = {"b16", "b32", "b64"}
NUMBERS = INTEGERS | FLOATS | HALVES.keys()
ROUND = {"rn", "rz", "rm", "rp"}
ROUND_TO_INTEGER = {"rni", "rzi", "rmi", "rpi"}
COMPARISONS = {
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu",
    "num", "nan",
}  # fmt: skip
_ROUNDINGS = {
    "rn": "NEAREST", "rz": "TO_ZERO", "rm": "DOWN", "rp": "UP",
    "rni": "NEAREST", "rzi": "TO_ZERO", "rmi": "DOWN", "rpi": "UP",
}  # fmt: skip


def bits_of(kind: str) -> int:
    """The width of a type."""
    return TYPE_BYTES[kind] * 8


def sign_extended(text: str, kind: str) -> str:
    """A narrow U32 expression, extended as its type says."""
    return {"s8": f"extend_s8({text})", "s16": f"extend_s16({text})"}.get(kind, text)


def float_flags(i: Instruction) -> tuple[str, bool, bool]:
    """Rounding, whether subnormals are flushed, and whether the result is kept between 0 and 1."""
    rounding = next((_ROUNDINGS[m] for m in i.modifiers if m in _ROUNDINGS), "NEAREST")
    return rounding, "ftz" in i.modifiers, "sat" in i.modifiers


def f32_operand(c: Context, operand: Operand, ftz: bool) -> str:
    """An operand of type f32."""
    text = c.b32(operand)
    return f"flush_f32({text})" if ftz else text


def f32_result(text: str, ftz: bool, saturate: bool) -> str:
    """A result of type f32."""
    text = f"flush_f32({text})" if ftz else text
    return f"saturate_f32({text})" if saturate else text


def half_operation(c: Context, i: Instruction, operation: str, kept: str = "") -> str:
    """An operation on 16-bit floats, or on both of packed ones. `kept`: the bits of its operands that it sees."""
    kind = i.type
    function = "half2_operation" if kind.endswith("x2") else "half_operation"
    values = [c.b32(operand) for operand in i.operands[1:]]
    if kept:
        values = [f"and_b32({value}, {kept})" for value in values]
    if "ftz" in i.modifiers:
        values = [by_half(kind, "half_flush", value) for value in values]
        operation += "_FTZ" if operation in ("H_MUL", "H_FMA") else ""
    text = f"{function}({HALVES[kind]}, {operation}, {', '.join([*values, *['all32(0)'] * (3 - len(values))])})"
    if "NaN" in i.modifiers:
        text = by_half(kind, "half_or_nan", text, *values)
    if "ftz" in i.modifiers and not operation.endswith("_FTZ"):
        text = by_half(kind, "half_flush", text)
    for limit in ("relu", "sat"):
        if limit in i.modifiers:
            text = by_half(kind, f"half_{limit}", text)
    return text


def by_half(kind: str, function: str, *values: str) -> str:
    """`function(format, …)` of 16-bit values, or of both halves of packed ones."""
    form = HALVES[kind]
    if not kind.endswith("x2"):
        return f"{function}({form}, {', '.join(values)})"
    halves = (f"{function}({form}, {', '.join(f'{side}({v})' for v in values)})" for side in ("low16", "high16"))
    return f"pair16({', '.join(halves)})"


def pair_operation(c: Context, i: Instruction, name: str) -> str:
    """An operation on both of two packed 16-bit integers, extended as their type says."""
    a, b = (c.b32(operand) for operand in i.operands[1:3])
    kind = i.type.removesuffix("x2")
    halves = (
        f"{name}({sign_extended(f'{side}({a})', kind)}, {sign_extended(f'{side}({b})', kind)})"
        for side in ("low16", "high16")
    )
    return f"pair16({', '.join(halves)})"


def integer_operation(c: Context, i: Instruction, name: str) -> str:
    """A two-operand operation that is the same for signed and unsigned, cut to its width."""
    bits = bits_of(i.type)
    a, b = (c.any(operand, bits) for operand in i.operands[1:3])
    if bits == 64:
        return f"{name}_b64({a}, {b})"
    text = f"{name}_b32({a}, {b})"
    return f"low16({text})" if bits == 16 else text
