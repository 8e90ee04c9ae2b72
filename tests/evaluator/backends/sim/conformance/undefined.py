"""Operands whose results the PTX ISA leaves open, and those with which the GPU's tools do not do what it says.

Where both sides agree all the same, that counts as equal.
"""

import re
from collections.abc import Callable

import numpy as np
from conformance.forms import Form

_Rule = Callable[[Form, dict[str, np.ndarray]], np.ndarray]


def _zero_divisor(form: Form, given: dict[str, np.ndarray]) -> np.ndarray:
    return given["b"] == 0 if "b" in given else np.zeros(form.launch.threads, bool)


def _beyond_a_byte(form: Form, given: dict[str, np.ndarray]) -> np.ndarray:
    places = [given[letter] > 255 for letter in ("bc" if "bfe" in form.text else "ce") if letter in given]
    return np.any(places, axis=0) if places else np.zeros(form.launch.threads, bool)


def _beyond_a_hundred_pi(form: Form, given: dict[str, np.ndarray]) -> np.ndarray:
    return np.abs(given["a"].astype(np.uint32).view(np.float32)) > np.float32(100 * np.pi)


def _absent_source(form: Form, given: dict[str, np.ndarray]) -> np.ndarray:
    """The lane that a shuffle reads from does not take part in it."""
    mode = next(mode for mode in ("up", "down", "bfly", "idx") if f".{mode}." in form.text)
    size = form.launch.block_threads
    immediate = re.search(r"\}, (\d+), (\w+), \{m", form.text)
    found = np.zeros(form.launch.threads, bool)
    for thread in range(form.launch.threads):
        lane, start = thread % size % 32, thread // size * size + thread % size // 32 * 32
        b = int(immediate[1]) if immediate else int(given["b"][thread])
        c = int(immediate[2], 0) if immediate else int(given["c"][thread])
        members = int(given["m"][thread]) & (1 << min(32, thread // size * size + size - start)) - 1
        b, clamp, segment = b & 31, c & 31, c >> 8 & 31
        highest, lowest = lane & segment | clamp & ~segment & 31, lane & segment
        source = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": lowest | b & ~segment & 31}[mode]
        inside = source >= highest if mode == "up" else source <= highest
        found[thread] = inside and not members >> source & 1
    return found


def _not_executed(form: Form, given: dict[str, np.ndarray]) -> np.ndarray:
    return given["g"] == int("@!" in form.text)


def _anything(form: Form, given: dict[str, np.ndarray]) -> np.ndarray:
    return np.ones(form.launch.threads, bool)


_SCALAR_VIDEO = r"\bv(add|sub|absdiff|min|max|shl|shr|set)\."
_OPEN: list[tuple[str, str, _Rule]] = [
    (r"\b(div|rem)\.[us]", "PTX ISA 9.7.1: division by zero yields an unspecified value", _zero_divisor),
    (r"\b(bfe\.[us]64|bfi\.b64)\b", "PTX ISA 9.7.1: a position and a length are from 0 to 255", _beyond_a_byte),
    (r"\b(sin|cos)\.approx", "PTX ISA 9.7.3: errors are bounded up to 100 pi", _beyond_a_hundred_pi),
    (r"\bshfl\.sync", "PTX ISA 9.7.9: the value of a lane that does not take part is undefined", _absent_source),
    (
        r"; @!?\{g:pred\} (testp\.\w+\.\w+|set\.\w+(\.ftz)?(\.(f32|f16|bf16)\.\w+|\.[us]32\.[us]16)) ",
        "PTX ISA 9.3: nothing is done where the guard is false; ptxas 13.0 tests or converts there, with -O0 too",
        _not_executed,
    ),
    (
        rf"{_SCALAR_VIDEO}\S*\.(sat\b|(min|max) )|{_SCALAR_VIDEO}\S+ \{{d:\w+\}}\.h1|\bvmad\.\S+\.(sat|shr7|shr15)\b",
        "PTX ISA 9.7.17: ptxas 13.0, which emulates these, saturates, scales and merges 32 bits of what may have "
        "more, as signed, and merges the upper half into `.h1`",
        _anything,
    ),
]


def reason_of(form: Form) -> str:
    """Why nobody says what some of a form's results are."""
    return next(reason for pattern, reason, _ in _OPEN if re.search(pattern, form.text))


def undefined(form: Form, given: np.ndarray) -> np.ndarray:
    """For which threads nobody says what the form's results are."""
    named = {field.letter: column for field, column in zip(form.inputs, given.T, strict=True)}
    found = np.zeros(form.launch.threads, bool)
    for pattern, _, rule in _OPEN:
        if re.search(pattern, form.text):
            found |= rule(form, named)
    return found
