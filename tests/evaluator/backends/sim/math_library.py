"""Functions of CUDA's math library, the errors documented for them, and their exact values.

Errors: CUDA C++ Programming Guide 13, "Mathematical Functions" (standard and non-standard functions, intrinsics). The
maximum there is the difference between the returned value and the correctly rounded one, in units of the last place.
Values: mpmath, at PRECISION bits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from scipy import special

# A double's 53 bits and what 1 - x, the remainders and the sums here lose.
PRECISION = 160
PI = float(np.pi)
SINGLE, DOUBLE = np.float32, np.float64


@dataclass(frozen=True)
class Range:
    """Operands from `low` to `high`; even in their logarithm where both have one sign and `even` is false."""

    low: float
    high: float
    even: bool = True

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        if self.even:
            return rng.uniform(self.low, self.high, count)
        sign = np.sign(self.low)
        return sign * np.exp(rng.uniform(*sorted(np.log(np.abs([self.low, self.high]))), count))


@dataclass(frozen=True)
class Function:
    """`code` computes the result from a, b, c and d. `error(operands, exact)` is the documented absolute maximum."""

    name: str
    code: str
    exact: Callable[..., Any]
    ranges: tuple[Range, ...]
    ulp: float | None = None
    absolute: float | None = None
    ulp_of: Callable[..., float] | None = None
    """The documented error in ulp, where it depends on the operands."""
    slow: bool = False
    """mpmath takes milliseconds for a value."""
    exactly: tuple[tuple[tuple[float, ...], float], ...] = ()
    """Operands with a result that has no error."""


def positive(low: float, high: float) -> Range:
    return Range(low, high, even=False)


def erfinv_of(x: Any) -> Any:
    """By Halley's method from scipy's value, on erfc, which keeps its digits next to 1 (mpmath's own loses them)."""
    sign, a = mpmath.sign(x), abs(x)
    y = mpmath.mpf(float(special.erfinv(float(a)) if a < 0.5 else special.erfcinv(float(1 - a))))
    for _ in range(3):
        step = (mpmath.erfc(y) - (1 - a)) * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(y * y)
        y += step / (1 - y * step)
    return sign * y


def erfcx_of(x: Any) -> Any:
    return mpmath.exp(x * x) * mpmath.erfc(x)


def norm_of(*xs: Any) -> Any:
    return mpmath.sqrt(sum(x * x for x in xs))


def remainder_of(x: Any, y: Any) -> Any:
    return x - y * mpmath.nint(x / y)


def fmod_of(x: Any, y: Any) -> Any:
    return mpmath.sign(x) * (abs(x) % abs(y))


def log_gamma_of(x: Any) -> Any:
    return mpmath.log(abs(mpmath.gamma(x)))


ALL, WIDE, UNIT = Range(-20, 20), positive(1e-30, 1e30), Range(-1, 1)
ONE = (((1.0,), 1.0),)


def standard(single: bool) -> list[Function]:
    """The functions of both precisions, with the errors of one. Operands are within float32's range."""
    found: list[Function] = []
    tail = "f" if single else ""
    top = 88 if single else 700

    def add(
        name: str,
        errors: tuple[float, float],
        exact: Callable[..., Any],
        *ranges: Range,
        code: str = "",
        exactly: Sequence[tuple[tuple[float, ...], float]] = (),
    ) -> None:
        arguments = "abcd"[: len(ranges)] if len(ranges) > 1 else "a"
        text = code or f"{name}{tail}({', '.join(arguments)})"
        kinds = (ranges,) if len(ranges) > 1 else tuple((r,) for r in ranges)
        for one in kinds:
            found.append(Function(name + tail, text, exact, one, ulp=errors[not single], exactly=tuple(exactly)))

    zero, unit = ((0.0,), 0.0), ((0.0,), 1.0)
    squares = [((float(n * n),), float(n)) for n in range(40)]
    powers = [((float(n),), 2.0**n) for n in range(-120, 121)]
    add("sqrt", (0, 0), mpmath.sqrt, WIDE, exactly=squares)
    add("rsqrt", (2, 1), lambda x: 1 / mpmath.sqrt(x), WIDE, exactly=[((4.0**n,), 2.0**-n) for n in range(-60, 61)])
    add("cbrt", (1, 1), mpmath.cbrt, WIDE, exactly=(zero, *ONE))
    add("rcbrt", (1, 1), lambda x: 1 / mpmath.cbrt(x), WIDE, exactly=ONE)
    add("exp", (2, 1), mpmath.exp, Range(-top, top), exactly=[unit])
    add("exp", (2, 1), mpmath.exp, UNIT, exactly=[unit])
    add("exp2", (2, 1), lambda x: mpmath.mpf(2) ** x, Range(-120, 120), exactly=powers)
    add("exp2", (2, 1), lambda x: mpmath.mpf(2) ** x, UNIT)
    add("exp10", (2, 1), lambda x: mpmath.mpf(10) ** x, Range(-36, 36), exactly=[unit])
    add("expm1", (1, 1), mpmath.expm1, Range(-20, top), exactly=[zero])
    add("expm1", (1, 1), mpmath.expm1, positive(1e-10, 1), exactly=[zero])
    add("log", (1, 1), mpmath.log, WIDE, exactly=[((1.0,), 0.0)])
    add("log", (1, 1), mpmath.log, Range(0.5, 2))
    add("log2", (1, 1), lambda x: mpmath.log(x, 2), WIDE, exactly=[((1.0,), 0.0)])
    add("log2", (1, 1), lambda x: mpmath.log(x, 2), Range(0.5, 2))
    add("log10", (2, 1), mpmath.log10, WIDE, exactly=[((1.0,), 0.0)])
    add("log10", (2, 1), mpmath.log10, Range(0.5, 2))
    add("log1p", (1, 1), mpmath.log1p, positive(1e-12, 1e12), exactly=[zero])
    add("log1p", (1, 1), mpmath.log1p, Range(-0.999, 2), exactly=[zero])
    for angles in (Range(-10, 10), Range(-1e5, 1e5), positive(1e-12, 1)):
        add("sin", (2, 2), mpmath.sin, angles, exactly=[zero])
        add("cos", (2, 2), mpmath.cos, angles, exactly=[unit])
        add("tan", (4, 2), mpmath.tan, angles, exactly=[zero])
    for place, name in enumerate(("sin", "cos")):
        text = f"({{ T s, c; sincos{tail}(a, &s, &c); {'sc'[place]}; }})"
        add(f"sincos {name}", (2, 2), getattr(mpmath, name), Range(-100, 100), code=text)
        text = f"({{ T s, c; sincospi{tail}(a, &s, &c); {'sc'[place]}; }})"
        add(f"sincospi {name}", (1, 2), getattr(mpmath, f"{name}pi"), Range(-10, 10), code=text)
    add("sinpi", (1, 2), mpmath.sinpi, Range(-10, 10), exactly=[zero])
    add("cospi", (1, 2), mpmath.cospi, Range(-10, 10), exactly=[unit])
    add("asin", (2, 2), mpmath.asin, UNIT, exactly=[zero])
    add("acos", (2, 2), mpmath.acos, UNIT, exactly=[((1.0,), 0.0)])
    add("atan", (2, 2), mpmath.atan, ALL, exactly=[zero])
    add("atan", (2, 2), mpmath.atan, WIDE)
    add("atan2", (3, 2), mpmath.atan2, ALL, ALL)
    add("sinh", (3, 2), mpmath.sinh, Range(-top, top), exactly=[zero])
    add("sinh", (3, 2), mpmath.sinh, UNIT)
    add("cosh", (2, 1), mpmath.cosh, Range(-top, top), exactly=[unit])
    add("tanh", (2, 1), mpmath.tanh, Range(-10, 10), exactly=[zero])
    add("tanh", (2, 1), mpmath.tanh, UNIT)
    add("asinh", (3, 3), mpmath.asinh, ALL, exactly=[zero])
    add("asinh", (3, 3), mpmath.asinh, WIDE)
    add("acosh", (4, 3), mpmath.acosh, Range(1, 3), exactly=[((1.0,), 0.0)])
    add("acosh", (4, 3), mpmath.acosh, positive(1, 1e30))
    add("atanh", (3, 2), mpmath.atanh, Range(-0.9999, 0.9999), exactly=[zero])
    add("pow", (4, 2), lambda x, y: x**y, positive(0.01, 100), Range(-15, 15), exactly=[((2.0, 10.0), 1024.0)])
    add("hypot", (3, 2), norm_of, WIDE, WIDE)
    add("rhypot", (2, 1), lambda *x: 1 / norm_of(*x), ALL, ALL)
    add("norm3d", (3, 2), norm_of, ALL, ALL, ALL)
    add("rnorm3d", (2, 1), lambda *x: 1 / norm_of(*x), ALL, ALL, ALL)
    add("norm4d", (3, 2), norm_of, ALL, ALL, ALL, ALL)
    add("rnorm4d", (2, 1), lambda *x: 1 / norm_of(*x), ALL, ALL, ALL, ALL)
    add("erf", (2, 2), mpmath.erf, Range(-6, 6), exactly=[zero])
    add("erfc", (4, 5), mpmath.erfc, Range(-6, 9), exactly=[unit])
    add("erfinv", (2, 5), erfinv_of, Range(-0.9999, 0.9999), exactly=[zero])
    add("erfcinv", (4, 6), lambda x: erfinv_of(1 - x), positive(1e-20, 1.9))
    add("erfcx", (4, 4), erfcx_of, Range(-8, 10), exactly=[unit])
    add("erfcx", (4, 4), erfcx_of, positive(1, 1e6))
    add("normcdf", (5, 5), mpmath.ncdf, Range(-10, 8), exactly=[((0.0,), 0.5)])
    add("normcdfinv", (5, 8), lambda p: -mpmath.sqrt(2) * erfinv_of(1 - 2 * p), positive(1e-20, 0.999))
    add("lgamma", (6, 4), log_gamma_of, positive(0.01, 1e6))
    add("lgamma", (6, 4), log_gamma_of, Range(-2.2, -0.01))
    add("tgamma", (5, 10), mpmath.gamma, Range(0.01, 33))
    add("tgamma", (5, 10), mpmath.gamma, Range(-8.9, -0.1))
    add("cyl_bessel_i0", (6, 6), lambda x: mpmath.besseli(0, x), Range(-60, 60), exactly=[unit])
    add("cyl_bessel_i1", (6, 6), lambda x: mpmath.besseli(1, x), Range(-60, 60), exactly=[zero])
    add("fma", (0, 0), lambda x, y, z: x * y + z, ALL, ALL, ALL)
    add("fmod", (0, 0), fmod_of, positive(0.01, 1e6), positive(0.01, 100))
    add("remainder", (0, 0), remainder_of, positive(0.01, 1e6), positive(0.01, 100))
    text = f"({{ int q; remquo{tail}(a, b, &q); }})"
    add("remquo", (0, 0), remainder_of, positive(0.01, 1e6), positive(0.01, 100), code=text)
    add("division", (0, 0), lambda x, y: x / y, WIDE, ALL, code="a / b")
    add(
        "reciprocal",
        (0, 0),
        lambda x: 1 / x,
        WIDE,
        code="1 / a",
        exactly=[((2.0**n,), 2.0**-n) for n in range(-120, 120)],
    )
    found += bessel(single, tail)
    if single:
        add("fdivide", (0, 0), lambda x, y: x / y, WIDE, ALL)
        add("__frcp_rn", (0, 0), lambda x: 1 / x, WIDE, code="__frcp_rn(a)")
        add("__fsqrt_rn", (0, 0), mpmath.sqrt, WIDE, code="__fsqrt_rn(a)")
        add("__frsqrt_rn", (0, 0), lambda x: 1 / mpmath.sqrt(x), WIDE, code="__frsqrt_rn(a)")
        add("__fdiv_rn", (0, 0), lambda x, y: x / y, WIDE, ALL, code="__fdiv_rn(a, b)")
    return found


def bessel(single: bool, tail: str) -> list[Function]:
    """J and Y: in ulp below 8, absolutely from there on."""
    near, far = (9.0, 2.2e-6) if single else (7.0, 5e-12)
    found = []
    for kind, function in (("j", mpmath.besselj), ("y", mpmath.bessely)):
        for n in (0, 1):

            def exact(x: Any, n: int = n, function: Callable[..., Any] = function) -> Any:
                return function(n, x)

            name = f"{kind}{n}{tail}"
            found.append(Function(name, f"{name}(a)", exact, (Range(0.01, 7.99),), ulp=near, slow=True))
            found.append(Function(name, f"{name}(a)", exact, (Range(8, 200),), absolute=far, slow=True))
    found.append(
        Function(f"jn{tail}", f"jn{tail}(128, a)", lambda x: mpmath.besselj(128, x), (Range(8, 200),), absolute=far)
    )

    def second(x: Any) -> Any:
        return mpmath.bessely(4, x)

    yn = f"yn{tail}(4, a)"
    if single:
        found.append(Function(f"yn{tail}", yn, second, (Range(0.5, 3.99),), ulp=np.ceil(2 + 2.5 * 4), slow=True))
    found.append(Function(f"yn{tail}", yn, second, (Range(6.01, 100),), absolute=far, slow=True))
    return found


def intrinsics() -> list[Function]:
    """What --use_fast_math makes of functions of single precision, by their documented errors."""
    near_one, angles = Range(0.5, 2), Range(-PI, PI)
    below, above = positive(1e-30, 0.499), positive(2.001, 1e30)
    two, ten = mpmath.mpf(2), mpmath.mpf(10)
    found = []

    def add(name: str, exact: Callable[..., Any], *ranges: Range, **bound: Any) -> None:
        code = bound.pop("code", f"{name}({', '.join('abcd'[: len(ranges)])})")
        found.append(Function(name, code, exact, ranges, **bound))

    add("__fdividef", lambda x, y: x / y, positive(1e-15, 1e15), ALL, ulp=2)
    unit = (((0.0,), 1.0),)
    add("__expf", mpmath.exp, Range(-87, 88), ulp_of=lambda x: 2 + np.floor(abs(1.173 * x)), exactly=unit)
    add("__exp10f", lambda x: ten**x, Range(-37, 38), ulp_of=lambda x: 2 + np.floor(abs(2.97 * x)), exactly=unit)
    add(
        "exp2f",
        lambda x: two**x,
        Range(-125, 126),
        ulp=2,
        exactly=tuple(((float(n),), 2.0**n) for n in range(-126, 127)),
    )
    for name, exact, bound, ulp in (
        ("__logf", mpmath.log, 2**-21.41, 3),
        ("__log2f", lambda x: mpmath.log(x, 2), 2**-22, 2),
        ("__log10f", mpmath.log10, 2**-24, 3),
    ):
        add(name, exact, near_one, absolute=bound, exactly=(((1.0,), 0.0),))
        add(name, exact, below, ulp=ulp)
        add(name, exact, above, ulp=ulp)
    add("__sinf", mpmath.sin, angles, absolute=2**-21.41, exactly=(((0.0,), 0.0),))
    add("__cosf", mpmath.cos, angles, absolute=2**-21.19, exactly=(((0.0,), 1.0),))
    for place, (name, bound) in enumerate((("sin", 2**-21.41), ("cos", 2**-21.19))):
        text = f"({{ T s, c; __sincosf(a, &s, &c); {'sc'[place]}; }})"
        add(f"__sincosf {name}", getattr(mpmath, name), angles, absolute=bound, code=text)
    # __sinf(x) * (1 / __cosf(x)): where the cosine is large, twice the sine's error and a little.
    add("__tanf", mpmath.tan, Range(-PI / 4, PI / 4), absolute=2**-19.5)
    # exp2f(y * __log2f(x)): y times the logarithm's error, and two roundings of a product of at most 40.
    add("__powf", lambda x, y: x**y, Range(0.5, 2), Range(-8, 8), ulp=100, exactly=(((1.0, 3.0), 1.0),))
    add("tanhf", mpmath.tanh, Range(-10, 10), ulp_of=lambda x: 2.0**13, exactly=(((0.0,), 0.0),))
    add("sqrtf", mpmath.sqrt, WIDE, ulp=1, exactly=tuple(((float(n * n),), float(n)) for n in range(40)))
    add("rsqrtf", lambda x: 1 / mpmath.sqrt(x), WIDE, ulp=2)
    return found


def source(codes: Sequence[str], kind: type) -> str:
    """One kernel for each piece of code: out[i] of a[i], b[i], c[i] and d[i]."""
    kernels = [
        f'extern "C" __global__ void f{n}(const T* A, const T* B, const T* C, const T* D, T* out) {{\n'
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"  T a = A[i], b = B[i], c = C[i], d = D[i];\n  out[i] = {code};\n}}\n"
        for n, code in enumerate(codes)
    ]
    return f"typedef {'float' if kind is SINGLE else 'double'} T;\n" + "".join(kernels)


def rounded(value: Any, kind: type) -> float:
    """To nearest, once: mpmath rounds to a double, and a float needs another place to stop at."""
    if kind is DOUBLE:
        return float(value)
    with mpmath.workprec(24):
        near = +mpmath.mpf(value)
    return float(np.float32(float(near)))
