"""Arithmetic of PTX as C++ (PTX ISA 9.0, sections 9.7.1 and 9.7.3 to 9.7.5)."""

from evaluator.backends.sim.codegen.context import Context
from evaluator.backends.sim.codegen.lowering.formats import (
    FLOATS,
    HALVES,
    INTEGER_PAIRS,
    INTEGERS,
    NUMBERS,
    ROUND,
    bits_of,
    by_half,
    f32_operand,
    f32_result,
    float_flags,
    half_operation,
    integer_operation,
    pair_operation,
    sign_extended,
)
from evaluator.backends.sim.codegen.table import lowers
from evaluator.backends.sim.ptx.model import Immediate, Instruction, Operand


@lowers(
    "add", modifiers=ROUND | {"ftz", "sat"}, types=NUMBERS | INTEGER_PAIRS, operand_count=3, result="last", flops=1
)
def _add(c: Context, i: Instruction) -> str:
    if i.type in FLOATS:
        return _float_operation(c, i, "add")
    if i.type in HALVES:
        return half_operation(c, i, "H_ADD")
    if "sat" in i.modifiers:
        if i.type != "s32":
            raise c.unsupported()
        return f"add_saturated_s32({c.b32(i.operands[1])}, {c.b32(i.operands[2])})"
    if i.type in INTEGER_PAIRS:
        return pair_operation(c, i, "add_b32")
    return integer_operation(c, i, "add")


@lowers("sub", modifiers=ROUND | {"ftz", "sat"}, types=NUMBERS, operand_count=3, result="last", flops=1)
def _sub(c: Context, i: Instruction) -> str:
    if i.type in FLOATS:
        return _float_operation(c, i, "sub")
    if i.type in HALVES:
        return half_operation(c, i, "H_SUB")
    if "sat" in i.modifiers:
        if i.type != "s32":
            raise c.unsupported()
        return f"sub_saturated_s32({c.b32(i.operands[1])}, {c.b32(i.operands[2])})"
    return integer_operation(c, i, "sub")


@lowers(
    "mul",
    modifiers=ROUND | {"ftz", "sat", "lo", "hi", "wide"},
    types=NUMBERS,
    operand_count=3,
    result="last",
    flops=1,
)
def _mul(c: Context, i: Instruction) -> str:
    if i.type in FLOATS:
        return _float_operation(c, i, "mul")
    if i.type in HALVES:
        return half_operation(c, i, "H_MUL")
    return _product(c, i)


def _float_operation(c: Context, i: Instruction, name: str) -> str:
    """add, sub, mul and div of floats."""
    rounding, ftz, saturate = float_flags(i)
    if i.type == "f32" and ftz and name in ("mul", "div"):
        a, b = (c.b32(operand) for operand in i.operands[1:3])
        return f32_result(f"ftz_f32({name.upper()}, {rounding}, {a}, {b})", False, saturate)
    if i.type == "f32":
        a, b = (f32_operand(c, operand, ftz) for operand in i.operands[1:3])
        text = f"{name}_f32({a}, {b})"
        if rounding != "NEAREST":
            text = f"rounded_f32({name.upper()}, {rounding}, {a}, {b})"
        return f32_result(text, ftz, saturate)
    a, b = (c.b64(operand) for operand in i.operands[1:3])
    if rounding != "NEAREST":
        return f"rounded_f64({name.upper()}, {rounding}, {a}, {b})"
    return f"{name}_f64({a}, {b})"


def _product(c: Context, i: Instruction) -> str:
    kind, bits = i.type, bits_of(i.type)
    sign = kind[0] if kind[0] == "s" else "u"
    a, b = i.operands[1:3]
    if "wide" in i.modifiers:
        if bits == 32:
            return _wide(c, a, b, sign)
        if bits == 16:
            x, y = (sign_extended(c.any(operand, 16), kind) for operand in (a, b))
            return f"mul_b32({x}, {y})"
        raise c.unsupported()
    if "hi" in i.modifiers:
        if bits == 16:
            x, y = (sign_extended(c.any(operand, 16), kind) for operand in (a, b))
            return f"low16(shr_u32(mul_b32({x}, {y}), all32(16)))"
        return f"mul_hi_{sign}{bits}({c.any(a, bits)}, {c.any(b, bits)})"
    return integer_operation(c, i, "mul")


def _wide(c: Context, a: Operand, b: Operand, sign: str) -> str:
    # A product with a power of two is the usual address arithmetic: a shift is far cheaper.
    if isinstance(b, Immediate) and 0 < b.bits < 1 << 31 and b.bits & (b.bits - 1) == 0:
        return f"shl_b64(widen_{sign}({c.b32(a)}), all64({b.bits.bit_length() - 1}))"
    return f"mul_wide_{sign}32({c.b32(a)}, {c.b32(b)})"


@lowers(
    "mad",
    modifiers=ROUND | {"ftz", "sat", "lo", "hi", "wide"},
    types=INTEGERS | FLOATS,
    operand_count=4,
    result="last",
    flops=2,
)
def _mad(c: Context, i: Instruction) -> str:
    if i.type in FLOATS:
        return _fma(c, i)
    if "sat" in i.modifiers:
        if i.type != "s32" or "hi" not in i.modifiers:
            raise c.unsupported()
        return f"add_saturated_s32({_product(c, i)}, {c.b32(i.operands[3])})"
    bits = bits_of(i.type)
    wide = "wide" in i.modifiers
    total = bits * 2 if wide else bits
    product, addend = _product(c, i), c.any(i.operands[3], total)
    text = f"add_b64({product}, {addend})" if total == 64 else f"add_b32({product}, {addend})"
    return f"low16({text})" if total == 16 else text


@lowers("mul24", modifiers={"lo", "hi"}, types={"u32", "s32"}, operand_count=3, result="last")
def _mul24(c: Context, i: Instruction) -> str:
    """`hi` are the upper 32 of the product's 48 bits."""
    a, b = (_low24(c, operand, i.type == "s32") for operand in i.operands[1:3])
    if "hi" in i.modifiers:
        return f"narrow(shr_u64(mul_wide_{i.type}({a}, {b}), all64(16)))"
    return f"mul_b32({a}, {b})"


def _low24(c: Context, operand: Operand, signed: bool) -> str:
    text = c.b32(operand)
    return f"shr_s32(shl_b32({text}, all32(8)), all32(8))" if signed else f"and_b32({text}, all32(0xffffff))"


@lowers("mad24", modifiers={"lo", "hi", "sat"}, types={"u32", "s32"}, operand_count=4, result="last")
def _mad24(c: Context, i: Instruction) -> str:
    if "sat" in i.modifiers:
        if i.type != "s32" or "hi" not in i.modifiers:
            raise c.unsupported()
        return f"add_saturated_s32({_mul24(c, i)}, {c.b32(i.operands[3])})"
    return f"add_b32({_mul24(c, i)}, {c.b32(i.operands[3])})"


@lowers("sad", types=INTEGERS, operand_count=4, result="last")
def _sad(c: Context, i: Instruction) -> str:
    bits, sign = bits_of(i.type), i.type[0]
    x, y, z = (sign_extended(c.any(operand, bits), i.type) for operand in i.operands[1:4])
    if bits == 64:
        return f"add_b64({z}, sub_b64(max_{sign}64({x}, {y}), min_{sign}64({x}, {y})))"
    if bits == 16:
        return f"low16(add_b32({z}, sub_b32(max_{sign}32({x}, {y}), min_{sign}32({x}, {y}))))"
    return f"add_b32({z}, sub_b32(max_{sign}32({x}, {y}), min_{sign}32({x}, {y})))"


@lowers(
    "fma",
    modifiers=ROUND | {"ftz", "sat", "relu"},
    types=FLOATS | HALVES.keys(),
    operand_count=4,
    result="last",
    flops=2,
)
def _fma(c: Context, i: Instruction) -> str:
    if i.type in HALVES:
        return half_operation(c, i, "H_FMA")
    rounding, ftz, saturate = float_flags(i)
    if i.type == "f32":
        values = ", ".join(c.b32(operand) for operand in i.operands[1:4])
        text = f"fma_f32({values})" if rounding == "NEAREST" else f"rounded_fma_f32({rounding}, {values})"
        return f32_result(f"ftz_fma_f32({rounding}, {values})" if ftz else text, False, saturate)
    values = ", ".join(c.b64(operand) for operand in i.operands[1:4])
    return f"fma_f64({values})" if rounding == "NEAREST" else f"rounded_fma_f64({rounding}, {values})"


@lowers(
    "div",
    modifiers=ROUND | {"ftz", "approx", "full"},
    types=INTEGERS | FLOATS,
    operand_count=3,
    result="last",
    special=True,
)
def _div(c: Context, i: Instruction) -> str:
    if i.type == "f32" and not {"approx", "full"}.isdisjoint(i.modifiers):
        _, ftz, saturate = float_flags(i)
        a, b = (f32_operand(c, operand, ftz) for operand in i.operands[1:3])
        full = "true" if "full" in i.modifiers else "false"
        return f32_result(f"approximate_div_f32({a}, {b}, {full})", ftz, saturate)
    if i.type in FLOATS:
        return _float_operation(c, i, "div")
    return _divided(c, i)


@lowers("rem", types=INTEGERS, operand_count=3, result="last")
def _divided(c: Context, i: Instruction) -> str:
    return _by_width(c, i, i.type[0])


def _by_width(c: Context, i: Instruction, sign: str) -> str:
    """An operation of f64 or of integers, whose 16 bits are computed in 32. `sign`: `s`, `u`, or `b` for both."""
    kind, bits = i.type, bits_of(i.type)
    values = ", ".join(sign_extended(c.any(operand, bits), kind) for operand in i.operands[1:])
    if kind == "f64":
        return f"{i.opcode}_f64({values})"
    text = f"{i.opcode}_{sign}{max(bits, 32)}({values})"
    return f"low16({text})" if bits == 16 else text


@lowers("neg", modifiers={"ftz"}, types=NUMBERS, operand_count=2, result="last")
def _neg(c: Context, i: Instruction) -> str:
    return _sign_operation(c, i, "xor_b32", 0x8000, 0x80008000)


@lowers("abs", modifiers={"ftz"}, types=NUMBERS, operand_count=2, result="last")
def _abs(c: Context, i: Instruction) -> str:
    return _sign_operation(c, i, "and_b32", 0x7FFF, 0x7FFF7FFF)


def _sign_operation(c: Context, i: Instruction, narrow: str, half: int, pair: int) -> str:
    kind = i.type
    if kind in HALVES:
        a = c.any(i.operands[1], bits_of(kind))
        a = by_half(kind, "half_flush", a) if "ftz" in i.modifiers else a
        return f"{narrow}({a}, all32({pair if kind.endswith('x2') else half}u))"
    if kind == "f32":
        _, ftz, _ = float_flags(i)
        return f32_result(f"{i.opcode}_f32({c.b32(i.operands[1])})", ftz, False)
    return _by_width(c, i, "b")


@lowers(
    "min",
    "max",
    modifiers={"ftz", "NaN", "xorsign", "abs", "relu"},
    types=NUMBERS | INTEGER_PAIRS,
    operand_count=3,
    result="last",
)
def _extreme(c: Context, i: Instruction) -> str:
    name, kind = i.opcode, i.type
    signs = {"xorsign", "abs"} & set(i.modifiers)
    if signs and (len(signs) == 1 or (kind != "f32" and kind not in HALVES)):
        raise c.unsupported()
    if "relu" in i.modifiers and kind not in ("s32", "s16x2"):
        raise c.unsupported()
    if kind in HALVES:
        return _half_extreme(c, i, bool(signs))
    if kind in INTEGER_PAIRS:
        text = pair_operation(c, i, f"{name}_{kind[0]}32")
        return f"positive_halves({text})" if "relu" in i.modifiers else text
    if "NaN" in i.modifiers and kind != "f32":
        raise c.unsupported()
    if kind == "f32":
        _, ftz, _ = float_flags(i)
        a, b = (f32_operand(c, operand, ftz) for operand in i.operands[1:3])
        x, y = (f"abs_f32({a})", f"abs_f32({b})") if "xorsign" in i.modifiers else (a, b)
        text = f"{name}_f32({x}, {y})"
        if "xorsign" in i.modifiers:
            text = f"or_b32({text}, and_b32(xor_b32({a}, {b}), all32(0x80000000u)))"
        return f"pick(unordered_f32({a}, {b}), all32(0x7fffffff), {text})" if "NaN" in i.modifiers else text
    text = _by_width(c, i, kind[0])
    return f"max_s32({text}, all32(0))" if "relu" in i.modifiers else text


def _half_extreme(c: Context, i: Instruction, of_magnitudes: bool) -> str:
    """`xorsign.abs`: the smaller or larger magnitude, with the product's sign; a NaN has none."""
    text = half_operation(c, i, f"H_{i.opcode.upper()}")
    if not of_magnitudes:
        return text
    a, b = (c.b32(operand) for operand in i.operands[1:3])
    sign, size = ("0x80008000u", "0x7fff7fffu") if i.type.endswith("x2") else ("0x8000u", "0x7fffu")
    magnitudes = half_operation(c, i, f"H_{i.opcode.upper()}", f"all32({size})")
    return f"or_b32({magnitudes}, and_b32(xor_b32({a}, {b}), all32({sign})))"


@lowers(
    "sqrt", "rcp", modifiers=ROUND | {"ftz", "approx"}, types=FLOATS, operand_count=2, result="last", special=True
)
@lowers("rsqrt", modifiers={"ftz", "approx"}, types=FLOATS, operand_count=2, result="last", special=True)
@lowers("sin", "cos", "lg2", modifiers={"ftz", "approx"}, types={"f32"}, operand_count=2, result="last", special=True)
@lowers(
    "ex2",
    modifiers={"ftz", "approx"},
    types={"f32"} | HALVES.keys(),
    operand_count=2,
    result="last",
    special=True,
)
@lowers("tanh", modifiers={"approx"}, types={"f32"} | HALVES.keys(), operand_count=2, result="last", special=True)
def _function(c: Context, i: Instruction) -> str:
    name = i.opcode.upper()
    rounding, ftz, _ = float_flags(i)
    if i.type == "f32":
        kind = "approximate" if "approx" in i.modifiers else "unary"
        text = f"{kind}_f32({name}, {f32_operand(c, i.operands[1], ftz)})"
        if rounding != "NEAREST" and name == "SQRT":
            text = f"rounded_sqrt_f32({rounding}, {f32_operand(c, i.operands[1], ftz)})"
        elif name == "RCP" and kind == "unary" and ftz:
            text = f"ftz_f32(DIV, {rounding}, all32(0x3f800000), {c.b32(i.operands[1])})"
        elif rounding != "NEAREST" and name == "RCP":
            text = f"rounded_f32(DIV, {rounding}, all32(0x3f800000), {f32_operand(c, i.operands[1], ftz)})"
        elif name == "RCP" and kind == "unary":
            text = f"div_f32(all32(0x3f800000), {f32_operand(c, i.operands[1], ftz)})"
        return f32_result(text, ftz, False)
    if i.type in HALVES:
        return half_operation(c, i, f"H_{name}")
    if rounding != "NEAREST" and name == "SQRT":
        return f"rounded_sqrt_f64({rounding}, {c.b64(i.operands[1])})"
    if rounding != "NEAREST":
        return f"rounded_f64(DIV, {rounding}, all64(0x3ff0000000000000ull), {c.b64(i.operands[1])})"
    if "approx" not in i.modifiers:
        return f"unary_f64({name}, {c.b64(i.operands[1])})"
    if name != "SQRT" and "ftz" in i.modifiers:
        return f"gross_f64({name}, {c.b64(i.operands[1])})"
    if name == "RSQRT":
        return f"approximate_rsqrt_f64({c.b64(i.operands[1])})"
    raise c.unsupported()


@lowers("copysign", types=FLOATS, operand_count=3, result="last")
def _copysign(c: Context, i: Instruction) -> str:
    bits = bits_of(i.type)
    a, b = (c.any(operand, bits) for operand in i.operands[1:3])
    top = f"all{bits}({1 << (bits - 1)}ull)"
    return f"or_b{bits}(and_b{bits}({a}, {top}), abs_f{bits}({b}))"
