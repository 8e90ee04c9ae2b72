"""Moves, address spaces and conversions of PTX as C++ (PTX ISA 9.0, section 9.7.9)."""

from collections.abc import Iterator
from dataclasses import replace

from evaluator.backends.sim.codegen.context import Context
from evaluator.backends.sim.codegen.lowering.formats import (
    BITS,
    FLOATS,
    HALVES,
    INTEGERS,
    ROUND,
    ROUND_TO_INTEGER,
    bits_of,
    by_half,
    f32_operand,
    f32_result,
    float_flags,
)
from evaluator.backends.sim.codegen.table import lowers
from evaluator.backends.sim.ptx.model import TYPE_BYTES, Instruction, Operand, Vector

_CONVERTED = INTEGERS | FLOATS | HALVES.keys() | {"u8", "s8", "tf32"}
_SPACES = {"global", "shared", "shared::cta", "local", "const", "param", "param::entry"}


@lowers("mov", types=BITS | INTEGERS | FLOATS | {"pred"}, operand_count=2, result="last", counted="move")
def _mov(c: Context, i: Instruction) -> str | Iterator[str]:
    destination, source = i.operands
    if isinstance(destination, Vector):
        return _taken_apart(c, i, destination)
    if i.type == "pred":
        return c.predicate(source)
    bits = c.width(destination)
    if isinstance(source, Vector):
        return _packed(c, source, bits)
    return c.any(source, bits)


def _taken_apart(c: Context, i: Instruction, destination: Vector) -> Iterator[str]:
    parts = destination.parts
    values = _unpacked(c, i.operands[1], len(parts), bits_of(i.type))
    kept = [f"t{n}" for n in range(len(parts))]
    yield "{ " + " ".join(f"U32 {t} = {value};" for t, value in zip(kept, values, strict=True))
    yield " ".join(c.set(part, t) for part, t in zip(parts, kept, strict=True)) + " }"


def _packed(c: Context, source: Vector, bits: int) -> str:
    part = bits // len(source.parts)
    if part not in (16, 32):
        raise c.unsupported()
    values = [c.b32(operand) for operand in source.parts]
    pairs = values if part == 32 else [f"pair16({a}, {b})" for a, b in zip(values[::2], values[1::2], strict=True)]
    return pairs[0] if bits == 32 else f"pack64({pairs[0]}, {pairs[1]})"


def _unpacked(c: Context, source: Operand, count: int, bits: int) -> list[str]:
    """`mov {a, b}, r`: the parts of a register of `bits` bits."""
    part = bits // count
    if bits == 64:
        text = c.b64(source)
        words = [f"narrow({text})", f"high32({text})"]
    else:
        words = [c.b32(source)]
    if part == 32:
        return words
    if part != 16:
        raise c.unsupported()
    return [half for word in words for half in (f"low16({word})", f"high16({word})")]


@lowers("cvta", modifiers=_SPACES | {"to"}, types={"", "u64"}, operand_count=2, result="last", counted="move")
def _cvta(c: Context, i: Instruction) -> str:
    text = c.b64(i.operands[1])
    if {"shared", "shared::cta"}.isdisjoint(i.modifiers):
        return text
    return f"{'sub' if 'to' in i.modifiers else 'add'}_b64({text}, all64(slot_address(SHARED_SLOT)))"


@lowers("isspacep", modifiers=_SPACES - {"const"}, types={""}, operand_count=2, result="pred", counted="move")
def _isspacep(c: Context, i: Instruction) -> str:
    a = c.b64(i.operands[1])
    slots = {"shared": "SHARED_SLOT", "local": "LOCAL_SLOT", "param": "PARAMETER_SLOT"}
    space = i.modifiers[0].partition("::")[0]
    if space in slots:
        return f"in_slot({a}, {slots[space]})"
    if space == "global":
        return f"~(in_slot({a}, SHARED_SLOT) | in_slot({a}, LOCAL_SLOT) | in_slot({a}, PARAMETER_SLOT))"
    raise c.unsupported()


@lowers(
    "createpolicy",
    modifiers={
        "fractional",
        "range",
        "cvt",
        "global",
        "L2",
        "L2::evict_last",
        "L2::evict_normal",
        "L2::evict_first",
        "L2::evict_unchanged",
    },
    types={"b64"},
    result="last",
)
def _createpolicy(c: Context, i: Instruction) -> str:
    return "all64(0)"  # a hint for the L2 cache, which is not simulated


@lowers("activemask", types={"b32"}, operand_count=1, result="last", counted="shuffle")
def _activemask(c: Context, i: Instruction) -> str:
    asked = str(not c.instruction.from_header).lower()
    return f"all32(active_lanes(w, {c.mask}, {asked}, {c.place()}))"


@lowers(
    "cvt",
    modifiers=ROUND | ROUND_TO_INTEGER | {"rna", "ftz", "sat", "relu", "satfinite"},
    types=_CONVERTED - {"f16x2", "bf16x2"},
    first_types=_CONVERTED,
    result="converted",
    counted="conversion",
)
def _cvt(c: Context, i: Instruction) -> str:
    types = [m for m in i.modifiers if m in TYPE_BYTES]
    if len(types) != 2:
        raise c.unsupported()
    target, source = types
    for limit in ("relu", "satfinite"):
        if limit in i.modifiers:
            if (target not in HALVES and target != "tf32") or source != "f32":
                raise c.unsupported()
            plain = _cvt(c, replace(i, modifiers=tuple(m for m in i.modifiers if m != limit)))
            return f"tf32_{limit}({plain})" if target == "tf32" else by_half(target, f"half_{limit}", plain)
    rounding, ftz, saturate = float_flags(i)
    if target in ("f16x2", "bf16x2"):
        high, low = (f"narrow_float({HALVES[target]}, {rounding}, {c.b32(o)})" for o in i.operands[1:3])
        return f"pair16({low}, {high})"
    if target == "tf32":
        if rounding == "TO_ZERO":
            return f"tf32_towards_zero({c.b32(i.operands[1])})"
        return f"to_tf32({c.b32(i.operands[1])}, {'true' if 'rna' in i.modifiers else 'false'})"
    if source in ("f32", "f64", "f16", "bf16"):
        return _from_float(c, i, target, source, rounding, ftz, saturate)
    return _from_integer(c, i, target, source, rounding, saturate)


@lowers("cvt.e4m3x2", "cvt.e5m2x2", modifiers={"rn", "relu", "satfinite"}, types={"f32", "f16x2"})
def _cvt_f8(c: Context, i: Instruction) -> str:
    """`cvt.rn.satfinite.e4m3x2.f32 d, a, b`, and from and to packed float16; `a` is the upper half."""
    kind = next(m for m in i.modifiers if m in ("e4m3x2", "e5m2x2"))
    form, destination = kind[:4].upper(), i.operands[0]
    relu = "relu" in i.modifiers
    if "rn" not in i.modifiers or i.modifiers[-1] not in (kind, i.type):
        raise c.unsupported()
    widening = i.modifiers[-1] == kind
    if c.width(destination) not in (0, 32 if widening else 16) or len(i.operands) != (3 if i.type == "f32" else 2):
        raise c.unsupported("with other operands")
    if widening:
        if i.type != "f16x2" or "satfinite" in i.modifiers:
            raise c.unsupported()
        a = c.b32(i.operands[1])
        text = f"pair16(widen_f8({form}, low8({a})), widen_f8({form}, low8(shr_u32({a}, all32(8)))))"
        return by_half("f16x2", "half_relu", text) if relu else text
    if "satfinite" not in i.modifiers:
        raise c.unsupported()
    if i.type == "f32":
        high, low = (c.b32(operand) for operand in i.operands[1:])
    else:
        high, low = (f"widen_float(F16, {side}({c.b32(i.operands[1])}))" for side in ("high16", "low16"))
    high, low = (f"narrow_f8({form}, {str(relu).lower()}, {value})" for value in (high, low))
    return f"or_b32({low}, shl_b32({high}, all32(8)))"


_PACKED_BITS = {"u16": 16, "s16": 16, "u8": 8, "s8": 8, "u4": 4, "s4": 4, "u2": 2, "s2": 2}


@lowers("cvt.pack", modifiers={"sat", "u4", "s4", "u2", "s2"}, types={"s32", "b32"})
def _cvt_pack(c: Context, i: Instruction) -> str:
    """`cvt.pack.sat.u8.s32.b32 d, a, b, c`: both within the small type's range, and what fits of `c` above them."""
    _, saturated, small, *wide = (*i.modifiers, "")
    third = [] if _PACKED_BITS.get(small) == 16 else ["b32"]
    if saturated != "sat" or small not in _PACKED_BITS or wide != ["s32", *third, ""]:
        raise c.unsupported()
    if len(i.operands) != 3 + len(third) or c.width(i.operands[0]) not in (0, 32):
        raise c.unsupported("with other operands")
    a, b, above = (*(c.b32(operand) for operand in i.operands[1:]), "all32(0)")[:3]
    return f"packed({_PACKED_BITS[small]}, {str(small[0] == 's').lower()}, {a}, {b}, {above})"


def _from_float(
    c: Context, i: Instruction, target: str, source: str, rounding: str, ftz: bool, saturate: bool
) -> str:
    operand = i.operands[1]
    integral = bool(ROUND_TO_INTEGER & set(i.modifiers))
    if source in ("f16", "bf16"):
        single, double = f"widen_float({HALVES[source]}, {c.b32(operand)})", ""
    elif source == "f32":
        # Of float32 to float16 the hardware's compiler passes `.ftz` over (measured).
        single, double = f32_operand(c, operand, ftz and target != "f16"), ""
    else:
        single, double = "", c.b64(operand)
    if target[0] in "su":
        bits = bits_of(target)
        wide = double or f"f64_from_f32({single})"
        signed = str(target[0] == "s").lower()
        text = f"float_to_int({wide}, {rounding}, {bits}, {signed}, {str(source == 'f64').lower()})"
        return _sized(c, i, text if bits == 64 else f"narrow({text})", target)
    if integral:
        single = f"round_f32({rounding}, {single})" if single else single
        double = f"round_f64({rounding}, {double})" if double else double
    if target == "f64":
        text = double or f"f64_from_f32({single})"
        return f"saturate_f64({text})" if saturate else text
    if target == "f32":
        text = single or f"f32_from_f64({rounding}, {double})"
        return f32_result(text, ftz, saturate)
    if saturate:
        single, double = (f"saturate_f32({single})", "") if single else ("", f"saturate_f64({double})")
    if single:
        return f"narrow_float({HALVES[target]}, {rounding}, {single})"
    return f"narrow_double({HALVES[target]}, {rounding}, {double})"


def _from_integer(c: Context, i: Instruction, target: str, source: str, rounding: str, saturate: bool) -> str:
    source_bits, target_bits = bits_of(source), bits_of(target)
    signed = source[0] == "s"
    operand = i.operands[1]
    if source_bits == 64:
        narrow, wide = "", c.b64(operand)
    else:
        narrow = c.b32(operand)
        if source_bits == 8:
            narrow = f"extend_s8({narrow})" if signed else f"low8({narrow})"
        elif source_bits == 16:
            narrow = f"extend_s16({narrow})" if signed else f"low16({narrow})"
        wide = f"widen_{'s' if signed else 'u'}({narrow})"
    if target == "f64":
        text = f"f64_from_int({rounding}, {wide}, {str(signed).lower()})"
        return f"saturate_f64({text})" if saturate else text
    if target == "f32":
        text = f"f32_from_int({rounding}, {wide}, {str(signed).lower()})"
        if narrow and rounding == "NEAREST":
            text = f"f32_from_{'s' if signed else 'u'}32({narrow})"
        return f32_result(text, False, saturate)
    if target in HALVES:
        text = f"narrow_integer({HALVES[target]}, {rounding}, {wide}, {str(signed).lower()})"
        return by_half(target, "half_sat", text) if saturate else text
    if saturate:
        wide = _clamped(wide, signed, target)
        return _sized(c, i, wide if target_bits == 64 else f"narrow({wide})", target)
    if target_bits == 64:
        return wide
    return _sized(c, i, narrow or f"narrow({wide})", target)


def _clamped(wide: str, signed: bool, target: str) -> str:
    bits = bits_of(target)
    top = (1 << (bits - 1)) - 1 if target[0] == "s" else (1 << bits) - 1
    if not signed:
        return f"min_u64({wide}, all64({top}ull))"
    bottom = -(1 << (bits - 1)) if target[0] == "s" else 0
    top = min(top, (1 << 63) - 1)
    return f"max_s64(min_s64({wide}, all64({top}ull)), all64({bottom & (1 << 64) - 1}ull))"


def _sized(c: Context, i: Instruction, text: str, target: str) -> str:
    """Cut a U32 to the target type and extend it to the register, which may be wider than the type."""
    bits = bits_of(target)
    register = c.width(i.operands[0])
    if bits == 64:
        return text
    if bits == 8:
        text = f"extend_s8({text})" if target[0] == "s" else f"low8({text})"
    elif bits == 16:
        text = f"extend_s16({text})" if target[0] == "s" else f"low16({text})"
    if register == 64:
        return f"widen_{'s' if target[0] == 's' else 'u'}({text})"
    return f"low16({text})" if register == 16 else text
