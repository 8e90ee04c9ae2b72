"""What each PTX instruction computes, on unsigned Python integers (PTX ISA 9.0, sections 9.7.1 to 9.7.13)."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import arithmetic
import tensors
import words
from arithmetic import F32, F64, FORMATS, Format

from evaluator.backends.sim.ptx.model import TYPE_BYTES, Instruction

MODES = ("rn", "rz", "rm", "rp")


def mode_of(i: Instruction) -> str:
    return next((m for m in i.modifiers if m in MODES), "rn")


def bits_of(kind: str) -> int:
    return 8 * TYPE_BYTES[kind]


def number(kind: str, bits: int) -> int:
    """A pattern as the signed or unsigned number that it stands for."""
    width = bits_of(kind)
    bits &= (1 << width) - 1
    return bits - (1 << width) if kind[0] == "s" and bits >> (width - 1) else bits


def source_bits(i: Instruction, count: int) -> list[int]:
    """Widths at which an instruction reads its operands."""
    wide = bits_of(i.type) if i.type else 32
    if i.opcode in ("shl", "shr"):
        return [wide, 32]
    if i.opcode in ("bfe",):
        return [wide, 32, 32]
    if i.opcode == "bfi":
        return [wide, wide, 32, 32]
    if i.opcode == "selp":
        return [wide, wide, 1]
    if i.opcode == "set":
        return [wide, wide, 1][:count]
    if i.opcode == "slct":
        return [bits_of(next(m for m in i.modifiers if m in TYPE_BYTES))] * 2 + [32]
    if i.opcode in ("mad", "mul") and "wide" in i.modifiers:
        return [wide, wide, 2 * wide][:count]
    if i.opcode == "cvt":
        return [wide] * count
    if i.type == "pred":
        return [1] * count
    return [wide] * count


def _floating(name: str) -> Callable[..., int]:
    operation = getattr(arithmetic, name)

    def compute(i: Instruction, *sources: int) -> int:
        if i.type.endswith("x2"):
            halves = [saturated(i, *(s >> at & 0xFFFF for s in sources)) for at in (0, 16)]
            return halves[0] | halves[1] << 16
        return saturated(i, *sources)

    def saturated(i: Instruction, *sources: int) -> int:
        result = one(i, *sources)
        return arithmetic.saturate(FORMATS[i.type], result) if "sat" in i.modifiers else result

    def one(i: Instruction, *sources: int) -> int:
        form = FORMATS[i.type]
        if "ftz" not in i.modifiers:
            return operation(form, *sources, mode_of(i))
        sources = tuple(arithmetic.flush(form, s) for s in sources)
        result = arithmetic.flush(form, operation(form, *sources, mode_of(i)))
        approximate = {"approx", "full"} & set(i.modifiers)
        tiny = not approximate and result & ~form.sign == 1 << form.mantissa and _is_tiny(name, i, sources)
        return result & form.sign if tiny else result

    return compute


def _is_tiny(name: str, i: Instruction, sources: tuple[int, ...]) -> bool:
    """Whether a result would be subnormal if its exponent had no bounds: what flushing goes by (measured)."""
    form = FORMATS[i.type]
    x, *others = (Fraction(arithmetic.decode(form, bits)) for bits in sources)
    exact = {
        "add": lambda y: x + y, "sub": lambda y: x - y, "mul": lambda y: x * y, "div": lambda y: x / y,
        "fma": lambda y, z: x * y + z, "sqrt": lambda: Fraction(1),
    }[name](*others)  # fmt: skip
    unbounded = Format(form.mantissa + 17, form.mantissa)
    size, smallest = (
        arithmetic.encode(unbounded, number, mode_of(i)) for number in (exact, Fraction(2) ** form.lowest)
    )
    return size & ~unbounded.sign < smallest


def _either(name: str, integer: Callable[..., int]) -> Callable[..., int]:
    """Floating-point by name, or an operation on integers."""
    floating = _floating(name)
    return lambda i, *sources: (floating if i.type in FORMATS else integer)(i, *sources)


def _product(i: Instruction, a: int, b: int) -> int:
    exact = number(i.type, a) * number(i.type, b)
    return exact >> bits_of(i.type) if "hi" in i.modifiers else exact


def _multiply_add(i: Instruction, a: int, b: int, c: int) -> int:
    return _floating("fma")(i, a, b, c) if i.type in FORMATS else _sum(i, _product(i, a, b), c)


def _sum(i: Instruction, a: int, b: int) -> int:
    if i.type in ("u16x2", "s16x2"):
        return words.each_half(int.__add__)(i, a, b)
    return _kept(number("s32", a) + number("s32", b)) if "sat" in i.modifiers else a + b


def _difference(i: Instruction, a: int, b: int) -> int:
    return _kept(number("s32", a) - number("s32", b)) if "sat" in i.modifiers else a - b


def _kept(value: int) -> int:
    """Within the range of s32: what `.sat` does to integers."""
    return max(-(1 << 31), min((1 << 31) - 1, value))


BY_ZERO = 0xCDCD_CDCD_CDCD_CDCD
"""The ISA leaves it open, of a remainder too: what undefined memory is made of in the tests."""


def _quotient(i: Instruction, a: int, b: int) -> int:
    x, y = number(i.type, a), number(i.type, b)
    if y == 0:
        return BY_ZERO
    size = abs(x) // abs(y)
    return size if (x < 0) == (y < 0) else -size


def _divided(i: Instruction, a: int, b: int) -> int:
    if "approx" in i.modifiers and 2.0**126 < abs(arithmetic.decode(F32, b)) < math.inf:
        x = arithmetic.decode(F32, a)
        return F32.nan if not math.isfinite(x) else (a ^ b) & F32.sign
    return _either("div", _quotient)(i, a, b)


def _remainder(i: Instruction, a: int, b: int) -> int:
    x, y = number(i.type, a), number(i.type, b)
    return BY_ZERO if y == 0 else x - _quotient(i, a, b) * y


def _extreme(largest: bool) -> Callable[..., int]:
    def compute(i: Instruction, a: int, b: int) -> int:
        choose = max if largest else min
        if i.type not in FORMATS:
            rule = (lambda x, y: max(choose(x, y), 0)) if "relu" in i.modifiers else choose
            if i.type.endswith("x2"):
                return words.each_half(rule)(i, a, b)
            return rule(number(i.type, a), number(i.type, b))
        if i.type.endswith("x2"):
            return one(i, a & 0xFFFF, b & 0xFFFF) | one(i, a >> 16, b >> 16) << 16
        return one(i, a, b)

    def one(i: Instruction, a: int, b: int) -> int:
        form = FORMATS[i.type]
        if "ftz" in i.modifiers:
            a, b = arithmetic.flush(form, a), arithmetic.flush(form, b)
        if "NaN" in i.modifiers and any(math.isnan(arithmetic.decode(form, x)) for x in (a, b)):
            return form.nan
        if "xorsign" in i.modifiers:
            sign = (a ^ b) & form.sign
            return arithmetic.extreme(form, a & ~form.sign, b & ~form.sign, largest) | sign
        return arithmetic.extreme(form, a, b, largest)

    return compute


def _limited(compute: Callable[..., int]) -> Callable[..., int]:
    """What `.relu` and, of halves, `.sat` do to a result."""

    def limit(i: Instruction, bits: int) -> int:
        form = F32 if "tf32" in i.modifiers else FORMATS[next(m for m in i.modifiers if m in FORMATS)]
        value = arithmetic.decode(form, bits)
        if "relu" in i.modifiers:
            return form.nan if math.isnan(value) else bits if value > 0 else 0
        return arithmetic.saturate(form, bits)

    def whole(i: Instruction, *sources: int) -> int:
        result = compute(i, *sources)
        if {"e4m3x2", "e5m2x2", "pack"} & set(i.modifiers):
            return result
        kind = next((m for m in i.modifiers if m in FORMATS), "")
        if kind.endswith("x2") and {"relu", "sat"} & set(i.modifiers):
            return limit(i, result & 0xFFFF) | limit(i, result >> 16) << 16
        return limit(i, result) if "relu" in i.modifiers else result

    return whole


def _mask(i: Instruction, a: int, b: int) -> int:
    if "wrap" in i.modifiers:
        a, b = a & 31, b & 31
    return (1 << min(b, 32)) - 1 << min(a, 32)


def _nth_set(i: Instruction, mask: int, base: int, n: int) -> int:
    n = number("s32", n)
    if n == 0:
        return base if mask >> base & 1 else -1
    places = range(base, 32) if n > 0 else range(base, -1, -1)
    found = [place for place in places if mask >> place & 1]
    return found[abs(n) - 1] if len(found) >= abs(n) else -1


def _signs(i: Instruction) -> int:
    return {"f16x2": 0x80008000, "bf16x2": 0x80008000}.get(i.type, 1 << (bits_of(i.type) - 1))


def _flushed(i: Instruction, a: int) -> int:
    """An operand without subnormals, where `.ftz` says so."""
    if "ftz" not in i.modifiers:
        return a
    form = FORMATS[i.type]
    if i.type.endswith("x2"):
        return arithmetic.flush(form, a & 0xFFFF) | arithmetic.flush(form, a >> 16) << 16
    return arithmetic.flush(form, a)


def _negated(i: Instruction, a: int) -> int:
    return _flushed(i, a) ^ _signs(i) if i.type in FORMATS else -a


def _absolute(i: Instruction, a: int) -> int:
    return _flushed(i, a) & ~_signs(i) if i.type in FORMATS else abs(number(i.type, a))


def _root(i: Instruction, a: int) -> int:
    return _floating("sqrt")(i, a)


def _gross(a: int, function: Callable[[float], float]) -> int:
    """A double's upper word alone, read and written (1.11.20), without denormals: the `.approx.ftz.f64` forms."""
    a = arithmetic.flush(F64, a >> 32 << 32)
    x = arithmetic.decode(F64, a)
    if math.isnan(x) or math.isnan(value := math.copysign(math.inf, x) if x == 0 else function(x)):
        return 0x7FFFFFFF << 32
    return arithmetic.flush(F64, arithmetic.encode(F64, value)) >> 32 << 32


def _reciprocal(i: Instruction, a: int) -> int:
    if i.type == "f64" and "approx" in i.modifiers:
        return _gross(a, lambda x: 1 / x)
    return _floating("div")(i, arithmetic.encode(FORMATS[i.type], 1.0), a)


def _single(name: str) -> Callable[..., int]:
    """An approximate function: the simulator computes those with the C library's, and so does this."""

    def compute(i: Instruction, a: int) -> int:
        ftz = "ftz" in i.modifiers
        result = arithmetic.function(name, arithmetic.flush(F32, a) if ftz else a)
        return arithmetic.flush(F32, result) if ftz else result

    return compute


def _inverse_root(i: Instruction, a: int) -> int:
    form = FORMATS[i.type]
    if form is F64 and "ftz" in i.modifiers:
        return _gross(a, lambda x: 1 / math.sqrt(x) if x > 0 else math.nan)
    a = arithmetic.flush(form, a) if "ftz" in i.modifiers else a
    x = arithmetic.decode(form, a)
    if math.isnan(x) or x < 0:
        return form.nan
    value = math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x)
    result = arithmetic.encode(form, value)
    return arithmetic.flush(form, result) if "ftz" in i.modifiers else result


def _left(i: Instruction, a: int, b: int) -> int:
    return a << min(b, bits_of(i.type))


def _right(i: Instruction, a: int, b: int) -> int:
    return number(i.type, a) >> min(b, bits_of(i.type))


def _funnel(i: Instruction, a: int, b: int, c: int) -> int:
    shift = min(c, 32) if "clamp" in i.modifiers else c & 31
    both = b << 32 | a
    return both << shift >> 32 if "l" in i.modifiers else both >> shift


def _field(i: Instruction, a: int, b: int, c: int) -> int:
    position, length, msb = b & 255, c & 255, bits_of(i.type) - 1
    sign = a >> min(position + length - 1, msb) & 1 if i.type[0] == "s" and length else 0
    bits = [a >> (position + n) & 1 if n < length and position + n <= msb else sign for n in range(msb + 1)]
    return sum(bit << n for n, bit in enumerate(bits))


def _inserted(i: Instruction, a: int, b: int, c: int, d: int) -> int:
    position, length, msb = c & 255, d & 255, bits_of(i.type) - 1
    for n in range(length):
        if position + n <= msb:
            b = b & ~(1 << (position + n)) | (a >> n & 1) << (position + n)
    return b


def _most_significant(i: Instruction, a: int) -> int:
    value = number(i.type, a)
    length = (~value if value < 0 else value).bit_length()
    if not length:
        return -1
    return bits_of(i.type) - length if "shiftamt" in i.modifiers else length - 1


def _reversed(i: Instruction, a: int) -> int:
    return int(format(a, f"0{bits_of(i.type)}b")[::-1], 2)


def _looked_up(i: Instruction, a: int, b: int, c: int, table: int) -> int:
    return sum((table >> ((a >> n & 1) * 4 + (b >> n & 1) * 2 + (c >> n & 1)) & 1) << n for n in range(32))


def _dot(i: Instruction, a: int, b: int, c: int) -> int:
    kinds = ["s8" if m == "s32" else "u8" for m in i.modifiers if m in ("s32", "u32")]
    if i.opcode == "dp4a":
        return c + sum(number(kinds[0], a >> 8 * n) * number(kinds[1], b >> 8 * n) for n in range(4))
    upper = 16 if "hi" in i.modifiers else 0
    first = kinds[0].replace("8", "16")
    return c + sum(number(first, a >> 16 * n) * number(kinds[1], b >> (8 * n + upper)) for n in range(2))


def _low24(i: Instruction, a: int) -> int:
    a &= 0xFFFFFF
    return a - (1 << 24) if i.type == "s32" and a >> 23 else a


def _product24(i: Instruction, a: int, b: int) -> int:
    exact = _low24(i, a) * _low24(i, b)
    return exact >> 16 if "hi" in i.modifiers else exact


def _distance(i: Instruction, a: int, b: int, c: int) -> int:
    return c + abs(number(i.type, a) - number(i.type, b))


def _selected(i: Instruction, a: int, b: int, c: int) -> int:
    kind = i.type
    c = arithmetic.flush(F32, c) if "ftz" in i.modifiers else c
    if i.opcode == "selp":
        return a if c else b
    at_least_zero = arithmetic.decode(F32, c) >= 0 if kind == "f32" else number("s32", c) >= 0
    return a if at_least_zero else b


def _set(i: Instruction, a: int, b: int, c: int = 0) -> int:
    target = next(m for m in i.modifiers if m in TYPE_BYTES)
    boolean = next((m for m in i.modifiers[1:] if m in ("and", "or", "xor")), None)

    def tested(x: int, y: int) -> int:
        t = int(compared(i, x, y))
        return {"and": t & c, "or": t | c, "xor": t ^ c, None: t}[boolean]

    if i.type in ("f16x2", "bf16x2"):
        yes = arithmetic.encode(FORMATS[target], 1.0) if target in FORMATS else 0xFFFF
        low, high = (yes if tested(a >> at & 0xFFFF, b >> at & 0xFFFF) else 0 for at in (0, 16))
        return low | high << 16
    return (arithmetic.encode(FORMATS[target], 1.0) if target in FORMATS else -1) if tested(a, b) else 0


def compared(i: Instruction, a: int, b: int) -> bool:
    """The comparison of `set` and `setp`."""
    operator, kind = i.modifiers[0], i.modifiers[-1]
    if kind in FORMATS:
        form = FORMATS[kind]
        if "ftz" in i.modifiers:
            a, b = arithmetic.flush(form, a), arithmetic.flush(form, b)
        x, y = arithmetic.decode(form, a), arithmetic.decode(form, b)
        unordered = math.isnan(x) or math.isnan(y)
        if operator in ("num", "nan"):
            return unordered == (operator == "nan")
        if unordered:
            return len(operator) == 3
        operator = operator[:2]
    else:
        x, y = number(kind, a), number(kind, b)
        operator = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(operator, operator)
    return {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[operator]


def _tested(i: Instruction, a: int) -> int:
    form = FORMATS[i.type]
    size, smallest = a & ~form.sign, 1 << form.mantissa
    return int({
        "finite": size < form.infinity, "infinite": size == form.infinity, "number": size <= form.infinity,
        "notanumber": size > form.infinity, "normal": size == 0 or smallest <= size < form.infinity,
        "subnormal": 0 < size < smallest,
    }[i.modifiers[0]])  # fmt: skip


def _copied_sign(i: Instruction, a: int, b: int) -> int:
    return a & _signs(i) | b & ~_signs(i)


def _converted(i: Instruction, *sources: int) -> int:
    if {"e4m3x2", "e5m2x2"} & set(i.modifiers):
        return words.converted(i, *sources)
    if "pack" in i.modifiers:
        return words.packed(i, *sources)
    target, source = (m for m in i.modifiers if m in TYPE_BYTES)
    if "satfinite" in i.modifiers:
        return _finite(replace(i, modifiers=tuple(m for m in i.modifiers if m != "satfinite")), target, *sources)
    mode = next((m for m in i.modifiers if m in (*MODES, "rna")), "rn")
    integer_mode = next((m for m in i.modifiers if m in ("rni", "rzi", "rmi", "rpi")), None)
    ftz = "ftz" in i.modifiers
    if target in ("f16x2", "bf16x2"):
        high, low = (arithmetic.encode(FORMATS[target], arithmetic.decode(F32, s), mode) for s in sources)
        return high << 16 | low
    a = sources[0]
    if target == "tf32":
        value = arithmetic.decode(F32, a)
        if math.isnan(value):  # `.rna` keeps its upper bits (measured)
            return a & 0xFFFFE000 if mode == "rna" else 0x7FFFE000
        return arithmetic.encode(Format(19, 10), value, mode) << 13
    if source not in FORMATS:
        value = number(source, a)
        if target in FORMATS:
            result = arithmetic.encode(FORMATS[target], Fraction(value), mode)
            return arithmetic.saturate(FORMATS[target], result) if "sat" in i.modifiers else result
        width = bits_of(target)
        if "sat" in i.modifiers:
            low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if target[0] == "s" else (0, (1 << width) - 1)
            value = max(low, min(high, value))
        return _extended(i, target, value)
    form = FORMATS[source]
    # Of float32 to float16 the hardware's compiler passes `.ftz` over (measured).
    flushes = ftz and source == "f32" and target != "f16"
    value = arithmetic.decode(form, arithmetic.flush(form, a) if flushes else a)
    if target not in FORMATS:
        return _to_integer(i, target, source, arithmetic.integral(value, integer_mode or "rni"))
    exact: Fraction | float = arithmetic.integral(value, integer_mode) if integer_mode else value
    result = arithmetic.encode(FORMATS[target], exact, mode)
    if ftz and target == "f32":
        result = arithmetic.flush(F32, result)
    return arithmetic.saturate(FORMATS[target], result) if "sat" in i.modifiers else result


def _finite(i: Instruction, target: str, *sources: int) -> int:
    """What `.satfinite` makes of infinities: the largest number of the format."""
    bits = _converted(i, *sources)
    form, width = (F32, 32) if target == "tf32" else (FORMATS[target], FORMATS[target].bits)
    largest = 0x7F7FE000 if target == "tf32" else form.infinity - 1
    found = 0
    for at in range(0, bits_of(target), width):
        each = bits >> at & (1 << width) - 1
        found |= (each & form.sign | largest if each & ~form.sign == form.infinity else each) << at
    return found


def _extended(i: Instruction, target: str, value: int) -> int:
    """A result narrower than its register is extended as its type says."""
    return number(target, value)


def _to_integer(i: Instruction, target: str, source: str, value: "Fraction | float") -> int:
    width = bits_of(target)
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if target[0] == "s" else (0, (1 << width) - 1)
    if isinstance(value, float) and math.isnan(value):
        return number(target, 1 << (width - 1)) if source == "f64" or width == 64 else 0
    if isinstance(value, float) and math.isinf(value):
        return high if value > 0 else low
    return max(low, min(high, int(value)))


def carrying(i: Instruction, sources: list[int], carry: int) -> tuple[int, int]:
    """add.cc, addc, sub.cc, subc, mad.cc, madc: the result and the carry, 1 where nothing is borrowed."""
    width = bits_of(i.type)
    mask = (1 << width) - 1
    if i.opcode in ("sub", "subc"):
        borrow = 1 - carry if i.opcode == "subc" else 0
        exact = sources[0] - sources[1] - borrow
        return exact & mask, int(exact >= 0)
    carry = carry if i.opcode.endswith("c") else 0
    a, b = (_product(i, *sources[:2]) & mask, sources[2]) if i.opcode in ("mad", "madc") else sources
    return (a + b + carry) & mask, int(a + b + carry > mask)


OPERATIONS: dict[str, Callable[..., int]] = {
    "add": _limited(_either("add", _sum)),
    "sub": _either("sub", _difference),
    "mul": _either("mul", _product),
    "mad": _multiply_add,
    "fma": _limited(_floating("fma")),
    "bmsk": _mask,
    "fns": _nth_set,
    "div": _divided,
    "rem": _remainder,
    "mul24": _product24,
    "mad24": lambda i, a, b, c: _sum(i, _product24(i, a, b), c),
    "sad": _distance,
    "szext": words.extended,
    "min": _extreme(False),
    "max": _extreme(True),
    "neg": _negated,
    "abs": _absolute,
    "sqrt": _root,
    "rcp": _reciprocal,
    "rsqrt": _inverse_root,
    "sin": _single("sin"),
    "cos": _single("cos"),
    "lg2": _single("log2"),
    "ex2": _single("exp2"),
    "tanh": _single("tanh"),
    "and": lambda i, a, b: a & b,
    "or": lambda i, a, b: a | b,
    "xor": lambda i, a, b: a ^ b,
    "not": lambda i, a: ~a,
    "cnot": lambda i, a: int(a == 0),
    "shl": _left,
    "shr": _right,
    "shf": _funnel,
    "prmt": words.permuted,
    "bfe": _field,
    "bfi": _inserted,
    "bfind": _most_significant,
    "brev": _reversed,
    "popc": lambda i, a: a.bit_count(),
    "clz": lambda i, a: bits_of(i.type) - a.bit_length(),
    "lop3": _looked_up,
    "dp4a": _dot,
    "dp2a": _dot,
    "selp": _selected,
    "slct": _selected,
    "set": _set,
    "testp": _tested,
    "copysign": _copied_sign,
    "cvt": _limited(_converted),
}


# Operations of a whole warp, and what others see

ATOMICS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")


def together(machine: Any, group: list[Any]) -> list[Any]:
    """Resolve one instruction for the threads of a warp that have come to it; a result for each."""
    i = group[0].stop.instruction
    if i.opcode in ("bar", "ld", "st", "mbarrier"):
        return [0] * len(group)
    if i.opcode in tensors.MATRICES:
        return tensors.together(machine, group)
    if i.opcode in ("atom", "red"):
        return [_atomic(machine, thread, i) for thread in group]
    present = {thread.lane: thread for thread in group}
    if i.opcode == "activemask":
        return [sum(1 << lane for lane in present)] * len(group)
    sources = {lane: thread.stop.operands[2] for lane, thread in present.items()}
    rule = {"shfl": _shuffled, "vote": _voted, "match": _matched, "redux": _reduced, "elect": _elected}[i.opcode]
    return [rule(i, thread.lane, sources) for thread in group]


def _atomic(machine: Any, thread: Any, i: Instruction) -> int:
    _, address, numbers = thread.stop.operands
    kind, size = i.type, TYPE_BYTES[i.type]
    old = int.from_bytes(machine.read(address, size, thread.local), "little")
    operation = next(m for m in i.modifiers if m in ATOMICS)
    b = numbers[0]
    if kind in FORMATS:
        # Only sums of float32 in global memory have no subnormals.
        flushing = ("ftz",) if kind == "f32" and not machine.is_shared(address) else ()
        new = _floating("add")(Instruction("add", (*flushing, kind), (), 0), old, b)
    else:
        new = {
            "add": old + b, "and": old & b, "or": old | b, "xor": old ^ b, "exch": b,
            "min": min(old, b, key=lambda bits: number(kind, bits)),
            "max": max(old, b, key=lambda bits: number(kind, bits)),
            "inc": 0 if old >= b else old + 1, "dec": b if old == 0 or old > b else old - 1,
            "cas": numbers[-1] if old == b else old,
        }[operation]  # fmt: skip
    machine.write(address, (new & (1 << 8 * size) - 1).to_bytes(size, "little"), thread.local)
    return old


def _shuffled(i: Instruction, lane: int, sources: dict[int, tuple]) -> tuple[int, int]:
    mode = i.modifiers[1]
    _, b, c, _ = sources[lane]
    b, clamp, segment = b & 31, c & 31, c >> 8 & 31
    highest, lowest = (lane & segment) | (clamp & ~segment), lane & segment
    if mode == "up":
        source, inside = lane - b, lane - b >= highest
    elif mode == "idx":
        source = lowest | (b & ~segment)
        inside = source <= highest
    else:
        source = lane + b if mode == "down" else lane ^ b
        inside = source <= highest
    source = source if inside else lane
    return sources.get(source, (0,))[0], int(inside)


def _voted(i: Instruction, lane: int, sources: dict[int, tuple]) -> int:
    members = sources[lane][1]
    votes = {other: vote for other, (vote, _) in sources.items() if members >> other & 1}
    return {
        "all": int(all(votes.values())), "any": int(any(votes.values())), "uni": int(len(set(votes.values())) <= 1),
        "ballot": sum(vote << other for other, vote in votes.items()),
    }[i.modifiers[1]]  # fmt: skip


def _matched(i: Instruction, lane: int, sources: dict[int, tuple]) -> "int | tuple[int, int]":
    value, members = sources[lane]
    same = sum(1 << other for other, (theirs, _) in sources.items() if theirs == value and members >> other & 1)
    if "any" in i.modifiers:
        return same
    alive = sum(1 << other for other in sources if members >> other & 1)
    return (alive, 1) if same == alive else (0, 0)


def _elected(i: Instruction, lane: int, sources: dict[int, tuple]) -> tuple[int, int]:
    leader = min(other for other in sources if sources[lane][0] >> other & 1)
    return leader, int(leader == lane)


def _reduced(i: Instruction, lane: int, sources: dict[int, tuple]) -> int:
    members = sources[lane][1]
    found = [number(i.type, value) for other, (value, _) in sources.items() if members >> other & 1]
    operation = i.modifiers[1]
    if operation in ("min", "max"):
        return (min if operation == "min" else max)(found)
    result = found[0]
    for value in found[1:]:
        combined = {"add": result + value, "and": result & value, "or": result | value, "xor": result ^ value}
        result = combined[operation]
    return result
