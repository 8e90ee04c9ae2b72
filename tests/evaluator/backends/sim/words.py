"""Words as bytes and halves, for the interpreter: video instructions, packed integers and floats of 8 bits.

Written from the PTX ISA 9.0 alone (9.7.17, 9.7.18, 9.7.9.21 and 9.7.1.11), names of its pseudocode included.
"""

import math
from collections.abc import Callable
from fractions import Fraction

import arithmetic
from arithmetic import F16, F32

from evaluator.backends.sim.ptx.model import Instruction, Part

WORD_TYPES = ("u32", "s32")
SCALAR = ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset", "vmad")
VIDEO = {*SCALAR, *(f"{op}{n}" for op in ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg", "vset") for n in "24")}


def _extend(bits: int, width: int, signed: bool) -> int:
    bits &= (1 << width) - 1
    return bits - (1 << width) if signed and bits >> (width - 1) else bits


def _clamp(value: int, width: int, signed: bool) -> int:
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    return max(low, min(high, value))


def _part_of(selector: str) -> tuple[int, int]:
    """Width and position of `b2`, `h1` or a whole word."""
    width = {"": 32, "b": 8, "h": 16}[selector[:1]]
    return width, width * int(selector[1:] or "0")


def _compare(operator: str, a: int, b: int) -> bool:
    return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[operator]


def _computed(i: Instruction, a: int, b: int) -> int:
    name = i.opcode.rstrip("24")
    if name == "vset":
        return int(_compare(next(m for m in i.modifiers if len(m) == 2), a, b))
    if name in ("vshl", "vshr"):
        b = min(b, 32) if "clamp" in i.modifiers else b & 31
        return a << b if name == "vshl" else a >> b
    half_up = 1 if a + b >= 0 else 0
    return {
        "vadd": a + b, "vsub": a - b, "vabsdiff": abs(a - b), "vmin": min(a, b), "vmax": max(a, b),
        "vavrg": a + b + half_up >> 1,
    }[name]  # fmt: skip


def video(i: Instruction, sources: list[int]) -> int:
    """Any video instruction, on the whole words that its operands hold."""
    parts = [operand if isinstance(operand, Part) else Part(operand) for operand in i.operands]
    kinds = [m for m in i.modifiers if m in WORD_TYPES]
    if i.opcode.startswith("vset"):
        kinds.insert(0, "u32")
    if i.opcode == "vmad":
        return _multiplied(i, parts, kinds, *sources)
    return (_scalar if i.opcode in SCALAR else _simd)(i, parts, kinds, sources)


def _scalar(i: Instruction, parts: list[Part], kinds: list[str], sources: list[int]) -> int:
    operands = []
    for part, kind, word in zip(parts[1:3], kinds[1:], sources[:2], strict=True):
        width, at = _part_of(part.selector)
        operands.append(_extend(word >> at, width, kind == "s32"))
    tmp = _extend(_computed(i, *operands), 34, True)  # "to produce a signed 34-bit result"
    width, at = _part_of(parts[0].selector)
    signed = kinds[0] == "s32"
    if "sat" in i.modifiers:
        tmp = _clamp(tmp, width, signed)
    if parts[0].selector:
        field = (1 << width) - 1 << at
        return (tmp << at & field) | (sources[2] & ~field)
    if len(sources) == 3:
        c = _extend(sources[2], 32, signed)
        return tmp + c if "add" in i.modifiers else min(tmp, c) if "min" in i.modifiers else max(tmp, c)
    return tmp


def _multiplied(i: Instruction, parts: list[Part], kinds: list[str], a: int, b: int, c: int) -> int:
    ta, tb = (
        _extend(word >> _part_of(part.selector)[1], _part_of(part.selector)[0], kind == "s32")
        for part, kind, word in zip(parts[1:3], kinds[1:], (a, b), strict=True)
    )
    negated = parts[1].negative != parts[2].negative
    signed = "s32" in kinds[1:] or negated or parts[3].negative
    tmp, lsb = ta * tb, 0
    if "po" in i.modifiers:
        lsb = 1
    elif negated:
        tmp, lsb = ~tmp, 1
    elif parts[3].negative:
        c, lsb = ~c & 0xFFFFFFFF, 1
    tmp += _extend(c, 32, signed) + lsb
    result = tmp >> next((int(m[3:]) for m in i.modifiers if m.startswith("shr")), 0)
    return _clamp(result, 32, signed) if "sat" in i.modifiers else result


def _simd(i: Instruction, parts: list[Part], kinds: list[str], sources: list[int]) -> int:
    count = int(i.opcode[-1])
    width = 32 // count
    both = sources[0] | sources[1] << 32
    default = ("h10", "h32") if count == 2 else ("b3210", "b7654")
    taken = []
    for part, other, kind in zip(parts[1:3], default, kinds[1:], strict=True):
        places = [int(digit) for digit in reversed((part.selector or other)[1:])]
        taken.append([_extend(both >> width * place, width, kind == "s32") for place in places])
    mask = [int(digit) for digit in parts[0].selector[1:]] if parts[0].selector else range(count)
    total, merged = sources[2], 0
    for n, (a, b) in enumerate(zip(*taken, strict=True)):
        t = _computed(i, a, b)
        t = _clamp(t, width, kinds[0] == "s32") if "sat" in i.modifiers else t
        total += t if n in mask else 0
        merged |= ((t if n in mask else sources[2] >> width * n) & (1 << width) - 1) << width * n
    return total if "add" in i.modifiers else merged


# Other instructions on parts of words

MODES = {
    "f4e": ("3210", "4321", "5432", "6543"), "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"), "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"), "rc16": ("1010", "3232", "1010", "3232"),
}  # fmt: skip


def permuted(i: Instruction, a: int, b: int, c: int) -> int:
    """prmt, in all its modes."""
    data = (b << 32 | a).to_bytes(8, "little")
    mode = next((m for m in i.modifiers if m in MODES), None)
    if mode:
        return int.from_bytes(bytes(data[int(place)] for place in MODES[mode][c & 3]), "big")
    chosen = []
    for n in range(4):
        control = c >> 4 * n & 15
        byte = data[control & 7]
        chosen.append((0xFF if byte & 0x80 else 0) if control & 8 else byte)
    return int.from_bytes(bytes(chosen), "little")


def extended(i: Instruction, a: int, b: int) -> int:
    """szext."""
    if b >= 32 and "clamp" in i.modifiers:
        return a
    b &= 31
    return _extend(a, b, i.type == "s32") if b else 0


def each_half(rule: Callable[..., int]) -> Callable[..., int]:
    """An operation on both halves of words, as numbers of the instruction's type."""

    def compute(i: Instruction, *sources: int) -> int:
        signed = i.type == "s16x2"
        low, high = (rule(*(_extend(s >> at, 16, signed) for s in sources)) & 0xFFFF for at in (0, 16))
        return low | high << 16

    return compute


def packed(i: Instruction, a: int, b: int, c: int = 0) -> int:
    """cvt.pack."""
    small = i.modifiers[2]
    width = int(small[1:])
    high, low = (_clamp(_extend(x, 32, True), width, small[0] == "s") & (1 << width) - 1 for x in (a, b))
    return low | high << width | c << 2 * width


def _small_values(kind: str) -> list[Fraction]:
    """The finite numbers of a float of 8 bits that are not negative, by their codes."""
    exponent_bits, mantissa_bits = int(kind[1]), int(kind[3])
    bias = (1 << (exponent_bits - 1)) - 1
    found = []
    for code in range(0x7F if kind == "e4m3" else 0x7C):
        exponent, mantissa = divmod(code, 1 << mantissa_bits)
        fraction = Fraction(mantissa, 1 << mantissa_bits) + (1 if exponent else 0)
        found.append(fraction * Fraction(2) ** (max(exponent, 1) - bias))
    return found


SMALL = {kind: _small_values(kind) for kind in ("e4m3", "e5m2")}


def to_small(kind: str, value: float, relu: bool) -> int:
    """The nearest code, of two equally near ones the even one, and the largest for all above."""
    if math.isnan(value):
        return 0x7F
    values = SMALL[kind]
    negative = math.copysign(1, value) < 0
    if relu and negative:
        return 0
    size = min(abs(Fraction(value)), values[-1]) if math.isfinite(value) else values[-1]
    code = min(range(len(values)), key=lambda n: (abs(values[n] - size), n & 1))
    return code | (0x80 if negative else 0)


def from_small(kind: str, code: int) -> int:
    """As float16."""
    size, sign = code & 0x7F, code & 0x80
    if size < len(SMALL[kind]):
        return arithmetic.encode(F16, SMALL[kind][size]) | sign << 8
    return F16.infinity | sign << 8 if kind == "e5m2" and size == 0x7C else F16.nan


def converted(i: Instruction, *sources: int) -> int:
    """cvt to and from packed floats of 8 bits."""
    kind = next(m for m in i.modifiers if m in ("e4m3x2", "e5m2x2"))
    relu = "relu" in i.modifiers
    if i.modifiers[-1] == kind:
        halves = [from_small(kind[:4], sources[0] >> at & 0xFF) for at in (0, 8)]
        if relu:
            halves = [F16.nan if h & 0x7FFF > F16.infinity else 0 if h & F16.sign else h for h in halves]
        return halves[0] | halves[1] << 16
    if i.type == "f32":
        high, low = (arithmetic.decode(F32, source) for source in sources)
    else:
        high, low = (arithmetic.decode(F16, sources[0] >> at & 0xFFFF) for at in (16, 0))
    return to_small(kind[:4], high, relu) << 8 | to_small(kind[:4], low, relu)
