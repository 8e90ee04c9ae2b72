"""IEEE 754 arithmetic on bit patterns, exact in all four rounding modes: what the interpreter computes with.

Every value of the four formats is a Python float, every exact sum and product of those is a Fraction, and `encode`
rounds a Fraction once. Where Python or the C library round to nearest by themselves, that is used.
"""

import ctypes
import math
import struct
from dataclasses import dataclass
from fractions import Fraction

LIBM = ctypes.CDLL("libm.so.6")
for _name in ("sqrt", "sin", "cos", "log2", "exp2", "tanh"):
    getattr(LIBM, _name + "f").restype = ctypes.c_float
    getattr(LIBM, _name + "f").argtypes = [ctypes.c_float]
LIBM.fmaf.restype, LIBM.fmaf.argtypes = ctypes.c_float, [ctypes.c_float] * 3
LIBM.fma.restype, LIBM.fma.argtypes = ctypes.c_double, [ctypes.c_double] * 3


@dataclass(frozen=True)
class Format:
    bits: int
    mantissa: int

    @property
    def sign(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def infinity(self) -> int:
        return self.sign - (1 << self.mantissa)

    @property
    def nan(self) -> int:
        """The canonical NaN."""
        return self.sign - 1

    @property
    def lowest(self) -> int:
        """Exponent of the smallest normal number."""
        return 2 - (1 << (self.bits - self.mantissa - 2))


F16, BF16, F32, F64 = Format(16, 10), Format(16, 7), Format(32, 23), Format(64, 52)
FORMATS = {"f16": F16, "f16x2": F16, "bf16": BF16, "bf16x2": BF16, "f32": F32, "f64": F64}


def decode(form: Format, bits: int) -> float:
    if form is F64:
        return struct.unpack("<d", struct.pack("<Q", bits))[0]
    if form is F16:
        return struct.unpack("<e", struct.pack("<H", bits))[0]
    return struct.unpack("<f", struct.pack("<I", bits << 16 if form is BF16 else bits))[0]


def encode(form: Format, value: "Fraction | float", mode: str = "rn", zero: float = 0.0) -> int:
    """Round to the format. `zero` has the sign that an exact zero takes."""
    if isinstance(value, float):
        if math.isnan(value):
            return form.nan
        if math.isinf(value):
            return form.infinity | (form.sign if value < 0 else 0)
        if value == 0:
            return form.sign if math.copysign(1, value) < 0 else 0
        value = Fraction(value)
    if value == 0:
        return form.sign if math.copysign(1, zero) < 0 else 0
    negative, size = value < 0, abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    exponent = max(exponent, form.lowest)
    steps = size / Fraction(2) ** (exponent - form.mantissa)
    whole, rest = divmod(steps, 1)
    if mode == "rn":
        whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    elif mode == "rna":
        whole += rest >= Fraction(1, 2)
    elif mode == ("rm" if negative else "rp"):
        whole += rest > 0
    # A normal number's leading bit adds one to the exponent field; a carry out of the mantissa does so by itself.
    bits = int(whole) + (exponent - form.lowest << form.mantissa)
    if bits >= form.infinity:
        outward = mode in ("rn", "rna") or mode == ("rm" if negative else "rp")
        bits = form.infinity if outward else form.infinity - 1
    return bits | (form.sign if negative else 0)


def _near(form: Format, value: float) -> "int | None":
    """Nearest by the machine, where one more rounding from double does no harm."""
    try:
        if form is F64:
            return struct.unpack("<Q", struct.pack("<d", value))[0]
        if form is F32:
            return struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        return form.infinity | (form.sign if value < 0 else 0)
    return None


def add(form: Format, a: int, b: int, mode: str = "rn") -> int:
    x, y = decode(form, a), decode(form, b)
    if not (math.isfinite(x) and math.isfinite(y)):
        return encode(form, x + y)
    if mode == "rn" and (near := _near(form, x + y)) is not None:
        return near
    zero = x if x == y == 0 and math.copysign(1, x) == math.copysign(1, y) else -0.0 if mode == "rm" else 0.0
    return encode(form, Fraction(x) + Fraction(y), mode, zero)


def sub(form: Format, a: int, b: int, mode: str = "rn") -> int:
    return add(form, a, b ^ form.sign, mode)


def mul(form: Format, a: int, b: int, mode: str = "rn") -> int:
    x, y = decode(form, a), decode(form, b)
    if not (math.isfinite(x) and math.isfinite(y)):
        return encode(form, x * y)
    if mode == "rn" and (near := _near(form, x * y)) is not None:
        return near
    return encode(form, Fraction(x) * Fraction(y), mode, math.copysign(1, x) * math.copysign(1, y) * 0.0)


def div(form: Format, a: int, b: int, mode: str = "rn") -> int:
    x, y = decode(form, a), decode(form, b)
    sign = math.copysign(1, x) * math.copysign(1, y)
    if math.isnan(x) or math.isnan(y) or (x == 0 and y == 0) or (math.isinf(x) and math.isinf(y)):
        return form.nan
    if y == 0 or math.isinf(x):
        return encode(form, sign * math.inf)
    if math.isinf(y):
        return encode(form, sign * 0.0)
    return encode(form, Fraction(x) / Fraction(y), mode, sign * 0.0)


def fma(form: Format, a: int, b: int, c: int, mode: str = "rn") -> int:
    x, y, z = (decode(form, bits) for bits in (a, b, c))
    if not all(map(math.isfinite, (x, y, z))):
        # A product of finite numbers never makes the result infinite beside an infinite or NaN addend.
        product = x * y if not (math.isfinite(x) and math.isfinite(y)) else 0.0
        return encode(form, product + z)
    if mode == "rn" and form is F32:
        return struct.unpack("<I", struct.pack("<f", LIBM.fmaf(x, y, z)))[0]
    if mode == "rn" and form is F64:
        return struct.unpack("<Q", struct.pack("<d", LIBM.fma(x, y, z)))[0]
    product = Fraction(x) * Fraction(y)
    sign = math.copysign(1, x) * math.copysign(1, y)
    same = product == 0 and z == 0 and sign == math.copysign(1, z)
    zero = z if same else -0.0 if mode == "rm" else 0.0
    return encode(form, product + Fraction(z), mode, zero)


def sqrt(form: Format, a: int, mode: str = "rn") -> int:
    x = decode(form, a)
    if math.isnan(x) or x < 0:
        return form.nan
    if x == 0 or math.isinf(x):
        return a
    value = Fraction(x)
    # An integer root with far more bits than the format, plus a last bit that says that it is not exact.
    shift = 400 + (value.denominator.bit_length() // 2) * 2
    scaled = (value.numerator << 2 * shift) // value.denominator
    root = math.isqrt(scaled)
    exact = root * root == scaled and (value.numerator << 2 * shift) % value.denominator == 0
    return encode(form, Fraction(2 * root + (not exact), 2 << shift), mode)


def extreme(form: Format, a: int, b: int, largest: bool) -> int:
    """min and max: a number beats NaN, and -0 is less than +0."""
    x, y = decode(form, a), decode(form, b)
    if math.isnan(x) and math.isnan(y):
        return form.nan
    if math.isnan(x) or math.isnan(y):
        return b if math.isnan(x) else a
    first = (x, math.copysign(1, x)) >= (y, math.copysign(1, y))
    return a if first == largest else b


def integral(value: float, mode: str) -> "Fraction | float":
    """Round to an integer by `rni`, `rzi`, `rmi` or `rpi`; a zero keeps its sign as a float."""
    if not math.isfinite(value):
        return value
    exact = Fraction(value)
    whole = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[mode](exact)
    return Fraction(whole) if whole else math.copysign(0.0, value)


def flush(form: Format, bits: int) -> int:
    """A denormal becomes a zero of its sign."""
    return bits if bits & form.infinity else bits & form.sign


def saturate(form: Format, bits: int) -> int:
    """Into [0, 1], with NaN as 0."""
    value = decode(form, bits)
    return 0 if not value > 0 else encode(form, 1.0) if value > 1 else bits


def function(name: str, bits: int) -> int:
    """A function of the C library in single precision."""
    return encode(F32, float(getattr(LIBM, name + "f")(decode(F32, bits))))
