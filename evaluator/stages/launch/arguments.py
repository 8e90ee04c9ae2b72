"""Kernel arguments: which element types a pointer may show, and numbers as the bytes that a parameter wants."""

import struct
from typing import Final

from common.wire import DType
from evaluator.backends.session import Parameter
from evaluator.stages.compile.kernel_names import canonical_type


class ArgumentError(ValueError):
    """A value that its parameter or its buffer cannot take; the text is the reason."""


_RAW: Final = ("void", "char", "signed char", "unsigned char", "std::byte", "")
_INTEGER_BYTES: Final = {
    "bool": 1,
    "short": 2,
    "unsigned short": 2,
    "int": 4,
    "unsigned int": 4,
    "long": 8,
    "unsigned long": 8,
    "long long": 8,
    "unsigned long long": 8,
}
_FLOATS: Final = {
    "float": DType.FLOAT32,
    "double": DType.FLOAT64,
    "__half": DType.FLOAT16,
    "__nv_bfloat16": DType.BFLOAT16,
}
_HALF_VECTORS: Final = {"__half2": DType.FLOAT16, "__nv_bfloat162": DType.BFLOAT16}
_FLOAT_VECTORS: Final = {f"{kind}{lanes}": kind for kind in ("float", "double") for lanes in range(1, 5)}
"""`int4` and the like are not listed: integer vectors carry raw bits, as any unknown type may."""


def pointer_misfit(pointee: str | None, dtype: DType) -> str | None:
    """Why a pointer to the C type `pointee` cannot show a tensor of `dtype`; None when it can.

    Bytes show anything; integers of the same size and integer vectors show the raw bits of anything; a vector of
    floats shows floats of at most its own element size (a `float4` carries eight float16). A type that is not known
    here, such as a struct of the submission's own, is taken at its word.
    """
    name = canonical_type(pointee or "")
    if name in _RAW:
        return None
    if name.endswith("*"):
        return f"a pointer to pointers (`{name}*`) cannot take a tensor"
    if name in _INTEGER_BYTES:
        if _INTEGER_BYTES[name] == dtype.size_bytes:
            return None
        return f"`{name}` has {_INTEGER_BYTES[name]} bytes and an element of {dtype} has {dtype.size_bytes}"
    if name in _FLOATS or name in _HALF_VECTORS:
        shown = _FLOATS.get(name) or _HALF_VECTORS[name]
        return None if shown is dtype else f"`{name}` is not the type of a {dtype} tensor"
    if name in _FLOAT_VECTORS:
        element = _FLOATS[_FLOAT_VECTORS[name]]
        if dtype.is_float and dtype.size_bytes <= element.size_bytes:
            return None
        return f"`{name}` cannot carry elements of {dtype}"
    return None


def takes_number(parameter: Parameter) -> DType | None:
    """The type of number that `parameter` takes by value; None for pointers and structs."""
    if parameter.kind in ("int", "uint"):
        return DType(f"{parameter.kind}{8 * parameter.size_bytes}") if parameter.size_bytes in (1, 2, 4, 8) else None
    # The 16-bit floats are classes in the CUDA headers, so the compiler may report them as structs.
    name = canonical_type(parameter.type)
    if name in _FLOATS and _FLOATS[name].size_bytes == parameter.size_bytes:
        return _FLOATS[name]
    if parameter.kind == "float":
        return {2: DType.FLOAT16, 4: DType.FLOAT32, 8: DType.FLOAT64}.get(parameter.size_bytes)
    return None


def pack(value: float, dtype: DType) -> bytes:
    """`value` as one little-endian element of `dtype`. Raises ArgumentError when it has no place there.

    Floats are rounded to nearest even. An integer type takes integers only.
    """
    if not dtype.is_float:
        return _pack_integer(value, dtype)
    try:
        if dtype is not DType.BFLOAT16:
            return struct.pack({2: "<e", 4: "<f", 8: "<d"}[dtype.size_bytes], float(value))
        (bits,) = struct.unpack("<I", struct.pack("<f", float(value)))
    except OverflowError:
        raise ArgumentError(f"{_short(value)} is too large for {dtype}") from None
    upper = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    if upper & 0x7F80 == 0x7F80:
        raise ArgumentError(f"{_short(value)} is too large for {dtype}")
    return struct.pack("<H", upper)


def _pack_integer(value: float, dtype: DType) -> bytes:
    if not isinstance(value, int):
        raise ArgumentError(f"{value!r} is not an integer, and {dtype} takes integers only")
    signed = not dtype.value.startswith("u")
    try:
        return value.to_bytes(dtype.size_bytes, "little", signed=signed)
    except OverflowError:
        bits = 8 * dtype.size_bytes - signed
        low = f"-2^{bits}" if signed else "0"
        raise ArgumentError(f"{_short(value)} does not fit in {dtype} ({low} to 2^{bits} - 1)") from None


def _short(value: float) -> str:
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    return repr(value)
