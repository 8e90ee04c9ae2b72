"""What the inputs of forms hold: special values, patterns of random bits and small numbers.

They depend on the form's name alone, by a hash, so that they are the same in every version of Python and NumPy.
"""

import hashlib
import struct
from functools import cache

import numpy as np
from conformance.forms import WIDTHS, Field, Form

Words = np.ndarray
"""Unsigned 64-bit words, one for each thread."""
_ALIKE = {"f16", "bf16", "f32", "f64", "b16", "b32", "b64", "u16", "s16", "u32", "s32", "u64", "s64"}
_FORMATS = {"f16": (16, 10), "bf16": (16, 7), "f32": (32, 23), "f64": (64, 52)}


def operands(form: Form) -> Words:
    """The inputs: a row for each thread, a column for each input."""
    columns: list[Words] = []
    for number, field in enumerate(form.inputs):
        drawn = _drawn(form, field, columns)
        columns.append(drawn & np.uint64((1 << field.bits) - 1))
        if number and field.content == form.inputs[0].content and field.content in _ALIKE:
            columns[-1] = _like_the_first(form, field, columns)
    return np.stack(columns, axis=1) if columns else np.zeros((form.launch.threads, 0), np.uint64)


def _like_the_first(form: Form, field: Field, columns: list[Words]) -> Words:
    """Now and then the same as the first operand, its opposite or next to it, which is rare among drawn ones."""
    near = _stream(form, f"{field.letter} near", 2)
    top = (near[:, 1] & np.uint64(1)) << np.uint64(field.bits - 1)
    return np.where(
        near[:, 0] % np.uint64(10) == 0, columns[0] ^ top ^ near[:, 1] >> np.uint64(1) & np.uint64(1), columns[-1]
    )


def _stream(form: Form, label: str, words: int) -> Words:
    """Random words for each thread."""
    seed = f"{form.name}\0{label}".encode()
    data = hashlib.shake_256(seed).digest(8 * words * form.launch.threads)
    return np.frombuffer(data, "<u8").reshape(form.launch.threads, words).astype(np.uint64)


def _drawn(form: Form, field: Field, columns: list[Words]) -> Words:
    content = field.content
    if content in ("members", "member", "parts", "present"):
        return _masks(form, content)
    words = _stream(form, field.letter, 4)
    if content in ("warp", "uniform"):
        lanes = np.arange(form.launch.threads) % form.launch.block_threads // 32
        blocks = np.arange(form.launch.threads) // form.launch.block_threads
        first = (blocks * form.launch.block_threads + lanes * 32).astype(np.int64)
        odd = (words[:, 3] % np.uint64(97) == 0) & (content == "warp")  # now and then one lane differs
        return np.where(odd, words[:, 0], words[first, 1])
    if content == "few":
        return np.array([0, 1, 0x80000001, 0xDEADBEEF12345678], np.uint64)[(words[:, 0] % np.uint64(4)).astype(int)]
    if content == "one":
        return np.ones(form.launch.threads, np.uint64)
    if content == "lane":
        return np.where(words[:, 0] % np.uint64(8) == 0, words[:, 1], words[:, 1] % np.uint64(32)) & np.uint64(
            0xFFFFFFFF
        )
    if content == "clamp":
        table = np.array([0x1F, 0x1F, 0, 0x1F1F, 0x181F, 0x1C1F, 0x1C03, 0x1010, 0x0F], np.uint64)
        return table[(words[:, 0] % np.uint64(len(table))).astype(int)]
    if content == "size16":
        return words[:, 0] % np.uint64(17)
    if content.startswith("tile_"):
        return _tile(form, field, content)
    if content == "angle":
        return _float_words(_FORMATS["f32"], _uniform(words[:, 0], -330.0, 330.0))
    if content == "small":
        return _float_words(_FORMATS["f32"], _uniform(words[:, 0], -600.0, 600.0))
    if content.startswith(("whole_", "normal_")):
        values, _, kind = content.partition("_")
        return _matrix_words(kind, values, words)
    if content in ("balance", "over", "least", "large", "edge"):
        return _at_the_edge(field, content, columns, words)
    if content == "normal":
        return _float_words(_FORMATS[field.kind], _normal(words[:, 0], words[:, 1]))
    return _of_type(content, words)


def _at_the_edge(field: Field, content: str, columns: list[Words], words: Words) -> Words:
    """The operand beside others with which a result is next to the smallest normal number."""
    form = _FORMATS[field.kind]
    beside = (words[:, 0] % np.uint64(5)).astype(np.int64) - 2
    if content == "large":
        return np.uint64(0x7E800000) + words[:, 0] % np.uint64(64) ^ (words[:, 1] & np.uint64(1)) << np.uint64(31)
    if content == "edge":
        sign = np.where(words[:, 1] & np.uint64(1), -1.0, 1.0)
        return _float_words(form, sign * 2.0**-126 * (1 + beside * 2.0**-26))
    if content == "least":
        sign = (words[:, 1] & np.uint64(1)) << np.uint64(form[0] - 1)
        return words[:, 0] % np.uint64(3) | sign
    first = (
        columns[0].astype(np.uint16).view(np.float16)
        if field.kind == "f16"
        else columns[0].astype(np.uint32).view(np.float32)
    )
    smallest = 2.0**-14 if field.kind == "f16" else 2.0**-126
    with np.errstate(all="ignore"):
        wanted = smallest / first.astype(np.float64) if content == "balance" else first.astype(np.float64) / smallest
    return (_float_words(form, wanted).astype(np.int64) + beside).astype(np.uint64)


def _of_type(kind: str, words: Words) -> Words:
    if kind == "pred":
        return words[:, 0] & np.uint64(1)
    if kind in ("f16x2", "bf16x2", "u16x2", "s16x2"):
        half = kind.removesuffix("x2")
        low, high = (_of_type(half, np.roll(words, by, axis=1) ^ np.uint64(by)) for by in (0, 1))
        return low | high << np.uint64(16)
    if kind.endswith("quad"):
        pair = kind.removesuffix("quad") + "x2"
        return _of_type(pair, words) | _of_type(pair, words[:, ::-1]) << np.uint64(32)
    special = _special(kind)
    chosen = special[(words[:, 1] % np.uint64(len(special))).astype(int)]
    share = words[:, 0] % np.uint64(8)
    small = words[:, 2] % np.uint64(70)
    form = _FORMATS.get(kind)
    if form is not None:
        small = np.where(
            words[:, 2] & np.uint64(1), _tie(form, words), _float_words(form, _normal(words[:, 2], words[:, 3]))
        )
    mask = np.uint64((1 << WIDTHS[kind]) - 1)
    return np.where(share < 4, chosen, np.where(share < 6, words[:, 3], small)) & mask


def _tie(form: tuple[int, int], words: Words) -> Words:
    """A float halfway between two of a shorter format, or just beside."""
    bits, mantissa = form
    cut = np.uint64(1) + words[:, 1] % np.uint64(max(mantissa - 2, 1))
    beside = np.array([-1, 0, 0, 1], np.int64)[(words[:, 0] >> np.uint64(8) & np.uint64(3)).astype(int)]
    pattern = words[:, 3] & ~((np.uint64(1) << cut) - np.uint64(1)) | np.uint64(1) << (cut - np.uint64(1))
    kept = pattern & np.uint64((1 << mantissa) - 1)
    exponent = (words[:, 2] >> np.uint64(8)) % np.uint64(28 if bits == 16 else 70)
    bias = (1 << (bits - mantissa - 2)) - 1
    field = (
        (np.int64(bias) + exponent.astype(np.int64) - (14 if bits == 16 else 30)).clip(0, 2 * bias).astype(np.uint64)
    )
    sign = (words[:, 2] >> np.uint64(40) & np.uint64(1)) << np.uint64(bits - 1)
    return (sign | field << np.uint64(mantissa) | kept) + beside.astype(np.uint64)


def _uniform(words: Words, low: float, high: float) -> np.ndarray:
    return low + (high - low) * ((words >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def _normal(words: Words, more: Words) -> np.ndarray:
    """Numbers of a few orders of magnitude, of both signs, with all bits of a double."""
    scale = np.exp2((more % np.uint64(20)).astype(np.float64) - 10)
    return _uniform(words, -2.0, 2.0) * scale


def _float_words(form: tuple[int, int], values: np.ndarray) -> Words:
    with np.errstate(over="ignore"):
        if form == _FORMATS["f64"]:
            return values.astype(np.float64).view(np.uint64)
        if form == _FORMATS["f16"]:
            return values.astype(np.float16).view(np.uint16).astype(np.uint64)
        single = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        return single >> np.uint64(16) if form == _FORMATS["bf16"] else single


def _matrix_words(kind: str, values: str, words: Words) -> Words:
    """Elements of matrices: whole numbers from -8 to 8, or any of one order of magnitude."""
    element = kind.removesuffix("x2")
    parts = []
    for n in range(2 if kind.endswith("x2") else 1):
        numbers = (words[:, n] % np.uint64(17)).astype(np.float64) - 8
        if values == "normal":
            numbers = _uniform(words[:, n], -2.0, 2.0)
        parts.append(_float_words(_FORMATS["f32" if element == "tf32" else element], numbers) << np.uint64(16 * n))
    return parts[0] | parts[1] if len(parts) == 2 else parts[0]


def _tile(form: Form, field: Field, content: str) -> Words:
    """A 64-bit word of a warp's tile: A, then B, then C, one behind the other."""
    _, values, kind, out, _, c_at = content.split("_")
    words = _stream(form, field.letter, 4)
    at = np.arange(form.launch.threads) % 32 * 128 + 8 * int(field.letter[1:])
    return np.where(at < int(c_at), _packed(kind, values, words), _packed(out, values, np.roll(words, 1, axis=1)))


def _packed(kind: str, values: str, words: Words) -> Words:
    if kind in ("s8", "u8", "s32"):
        return words[:, 0]
    if kind == "f64":
        return _matrix_words("f64", values, words)
    pair = {"f16": "f16x2", "bf16": "bf16x2"}.get(kind, "f32")
    return _matrix_words(pair, values, words) | _matrix_words(pair, values, np.roll(words, 2, axis=1)) << np.uint64(
        32
    )


def _masks(form: Form, content: str) -> Words:
    """Member masks: of the warp's lanes that there are, of some of them, of each part of them, or who is in one."""
    threads, size = form.launch.threads, form.launch.block_threads
    found = np.zeros(threads, np.uint64)
    for first in range(0, threads, size):
        for warp in range(first, first + size, 32):
            count = min(32, first + size - warp)
            lanes = np.arange(count, dtype=np.uint64)
            present = (1 << count) - 1
            digest = hashlib.shake_256(f"{form.name}\0masks\0{warp}".encode()).digest(9)
            drawn = int.from_bytes(digest[:4], "little") & int.from_bytes(
                digest[4:8], "little" if digest[8] % 3 else "big"
            )
            mask = [drawn | 1, drawn | 1 << count - 1, 0xFFFF, 0x55555555, 1, 0xFFFFFFFE][
                digest[8] % 6
            ] & present or present
            inside = np.uint64(mask) >> lanes & np.uint64(1)
            row = {
                "present": np.full(count, 0xFFFFFFFF if digest[8] % 2 else present, np.uint64),
                "members": np.full(count, mask, np.uint64),
                "member": inside,
                "parts": np.where(inside, np.uint64(mask), np.uint64(present & ~mask)),
            }[content]
            found[warp : warp + count] = row
    return found


@cache
def _special(kind: str) -> Words:
    bits = WIDTHS[kind]
    numbers: set[int] = set()
    if kind[0] in "usb" and kind != "bf16":
        for power in range(bits + 1):
            numbers |= (
                {(1 << power) - 1, 1 << power, (1 << power) + 1}
                if power in (0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 23, 24, 31, 32, 33, 53, bits - 1, bits)
                else set()
            )
        numbers |= {-number for number in numbers} | {0x0F0F0F0F0F0F0F0F, 0x5555555555555555, 0x8000000080000000}
    if kind[0] == "b" or kind in _FORMATS:
        for name, form in _FORMATS.items():
            if kind == name or (kind[0] == "b" and kind not in _FORMATS and form[0] == bits):
                numbers |= _special_floats(form)
    if kind in ("b32",):
        numbers |= {x << 16 | y for x in _special_floats((16, 10)) for y in (0x3C00, x)}
    return np.array(sorted({number & (1 << bits) - 1 for number in numbers}), np.uint64)


def _special_floats(form: tuple[int, int]) -> set[int]:
    bits, mantissa = form
    one = ((1 << (bits - mantissa - 2)) - 1) << mantissa
    infinity, step = (1 << (bits - 1)) - (1 << mantissa), 1 << mantissa
    magnitudes = {0, 1, 2, step // 2, step - 1, step, step + 1, infinity - 1, infinity - step, infinity}
    magnitudes |= {infinity + 1, infinity + step // 2, infinity + step // 2 + 5, infinity + step - 1}
    magnitudes |= {
        one - 1,
        one,
        one + 1,
        one + step // 2,
        one - step,
        one - step // 2,
        one + step,
        one + step + step // 4,
    }
    for number in (
        2.5,
        3.5,
        127.5,
        128.0,
        255.5,
        256.0,
        448.0,
        464.0,
        480.0,
        32767.5,
        65504.0,
        65520.0,
        1e-3,
        6e-8,
        3.1415926535,
    ):
        magnitudes.add(int(_float_words(form, np.array([number]))[0]))
    if bits >= 32:
        for power in (31, 32, 63, 64, -14, -24, -25, -30, 15, 16, 126, 127, -126, -127):
            packed = (
                struct.unpack("<Q", struct.pack("<d", 2.0**power))[0]
                if bits == 64
                else int(_float_words(form, np.array([2.0**power]))[0])
            )
            magnitudes |= {packed - 1, packed, packed + 1}
    return {magnitude | sign for magnitude in magnitudes for sign in (0, 1 << (bits - 1))}
