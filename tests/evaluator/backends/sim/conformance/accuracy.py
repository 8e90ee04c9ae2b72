"""Which results are within the error that is documented for approximate instructions and for products of matrices.

The bounds are those of the PTX ISA 9.0 (sections 9.7.3 and 9.7.4); where it names none, what an H200 showed over all
operands (`approximate_h200.csv`). Units in the last place count from the correctly rounded result, which is up to
half a unit from the exact one. The float32 sum of a product of matrices has at least single precision and any order
(9.7.14): each term may be cut off some bits below the largest, and the sum once more.
"""

import re
from collections.abc import Callable

import numpy as np
from conformance.forms import Form

_Values = np.ndarray
_APPROXIMATE = re.compile(r"\b(rcp|sqrt|rsqrt|ex2|lg2|sin|cos|tanh|div)\.(?:approx|full)(\.ftz)?\.(\w+)")
_PRODUCT = re.compile(r"mma\S*\.m(\d+)n(\d+)k(\d+)")
_EXACT: dict[str, Callable[..., _Values]] = {
    "rcp": lambda x: 1 / x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "div": lambda x, y: x / y,
}
_SMALLEST_STEP = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-149, "f64": 5e-324}
_MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}


def within(form: Form, given: np.ndarray, gpu: np.ndarray, simulated: np.ndarray) -> np.ndarray:
    """For which threads both results are within the documented error; False where none is documented."""
    if (match := _APPROXIMATE.search(form.text)) is not None:
        return _approximate(form, match, given, gpu, simulated)
    if (match := _PRODUCT.search(form.text)) is not None and "normal" in form.text:
        return _products(form, int(match[3]), gpu, simulated)
    return np.zeros(len(gpu), bool)


def _approximate(
    form: Form, match: re.Match[str], given: np.ndarray, gpu: np.ndarray, simulated: np.ndarray
) -> np.ndarray:
    function, kind = match[1], match[3]
    element = kind.removesuffix("x2")
    columns = [given[:, n] for n, field in enumerate(form.inputs) if field.letter in ("a", "b")]
    if kind == "f64" and match[2]:
        columns = [column & ~np.uint64(0xFFFFFFFF) for column in columns]
    found = np.ones(len(gpu), bool)
    mask = np.uint64((1 << {"f16": 16, "bf16": 16, "f32": 32}.get(element, 64)) - 1)
    for at in (0, 16) if kind.endswith("x2") else (0,):
        with np.errstate(all="ignore"):
            x = [_flushed(_floats(element, column, at), element, bool(match[2])) for column in columns]
            wide = [value.astype(np.longdouble) for value in x]
            exact = _EXACT[function](*wide)
            allowed = _allowed(function, element, bool(match[2]), wide[0], exact)
            for results in (gpu, simulated):
                value = _floats(element, results[:, 0], at).astype(np.longdouble)
                both = (gpu[:, 0] ^ simulated[:, 0]) >> np.uint64(at) & mask == 0
                found &= both | (np.isfinite(value) & (np.abs(value - exact) <= allowed))
    return found


def _allowed(function: str, kind: str, ftz: bool, x: _Values, exact: _Values) -> _Values:
    size = np.abs(exact)
    last_place = np.maximum(np.exp2(np.floor(np.log2(size)) - _MANTISSA[kind]), _SMALLEST_STEP[kind])
    # A result without subnormals may be zero below the smallest normal number, and by the error next to it.
    lost = np.where(size < 2.0**-126 * (1 + 2.0**-21), size, 0) if ftz and kind == "f32" else 0
    if kind in ("f16", "bf16"):
        # Documented as absolute for tanh and as relative for ex2; then cut off to the format.
        bound = {"tanhf16": 2.0**-10.987, "tanhbf16": 2.0**-8}.get(function + kind)
        return last_place + (bound if bound else size * {"f16": 2.0**-9.9, "bf16": 2.0**-7}[kind])
    if kind == "f64":
        return size * 9.3e-7 if ftz else 2 * last_place
    if function in ("sin", "cos"):
        return np.where(np.abs(x) <= 2 * np.pi, 2.0**-20.5, 2.0**-14.7)
    if function == "lg2":
        near = (x > 0.5) & (x < 2)
        return np.where(near, 2.0**-22, size * 2.0**-22)
    if function == "tanh":
        return size * 2.0**-11
    if function in ("sqrt", "rsqrt"):
        return size * {"sqrt": 2.0**-23, "rsqrt": 2.0**-22.9}[function] + last_place / 2
    units = {"rcp": 1, "ex2": 2, "div": 2}[function]
    return (units + 0.5) * last_place + lost


def _products(form: Form, depth: int, gpu: np.ndarray, simulated: np.ndarray) -> np.ndarray:
    found = np.ones(len(gpu), bool)
    for n, field in enumerate(form.results):
        content = field.content.removeprefix("tile_")
        element = content.removesuffix("x2")
        if element not in ("f16", "f32"):
            found &= gpu[:, n] == simulated[:, n]
            continue
        bits = 16 if element == "f16" else 32
        for at in range(0, field.bits, bits):
            mine, theirs = (_floats(element, words[:, n], at).astype(np.float64) for words in (simulated, gpu))
            rounding = np.abs(mine) * (2.0**-10 if element == "f16" else 2.0**-22)
            # The terms are at most 4, the operands at most 2.
            found &= np.abs(mine - theirs) <= (depth + 1) * 2.0**-21 + rounding
    return found


def _flushed(values: _Values, kind: str, ftz: bool) -> _Values:
    return np.where(np.abs(values) < 2.0**-126, values * 0, values) if ftz and kind in ("f32", "bf16") else values


def _floats(kind: str, words: np.ndarray, at: int) -> _Values:
    if kind == "f64":
        return np.ascontiguousarray(words).view(np.float64)
    if kind == "f32":
        return (words >> np.uint64(at)).astype(np.uint32).view(np.float32)
    half = (words >> np.uint64(at)).astype(np.uint16)
    return half.view(np.float16) if kind == "f16" else (half.astype(np.uint32) << np.uint32(16)).view(np.float32)
