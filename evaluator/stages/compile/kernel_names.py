"""Kernels by name: which compiled entry a plan means. Names are compared after demangling, part by part.

`ns::scale<float, 4>(float const*, int)` has the components `ns`, `scale`, the template arguments `float`, `4` and the
parameters. A plan may leave out the template arguments, the parameters, and all components but the last, as long as
one entry only fits. Types are compared in one spelling: `const float*` is `float const*`, `unsigned` is
`unsigned int`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from evaluator.backends.session import Entry

_TOKEN = re.compile(r"::|[A-Za-z_$][\w$]*|[0-9]+[uUlL]*|\S")
_CAST = re.compile(r"\(\s*(?:(?:unsigned|signed|int|long|short|char)\s*)+\)\s*(?=-?[0-9])")
_BOOL_CAST = re.compile(r"\(\s*bool\s*\)\s*([01])")
_DECORATION = ("const", "volatile", "struct", "class", "enum", "union", "typename", "__restrict__", "restrict")
_BUILTIN = frozenset(("unsigned", "signed", "int", "long", "short", "char", "double"))

_SAME_TYPE = {
    "size_t": "unsigned long",
    "uint64_t": "unsigned long",
    "int64_t": "long",
    "ptrdiff_t": "long",
    "uint32_t": "unsigned int",
    "uint": "unsigned int",
    "int32_t": "int",
    "uint16_t": "unsigned short",
    "int16_t": "short",
    "uint8_t": "unsigned char",
    "int8_t": "signed char",
    "half": "__half",
    "half2": "__half2",
    "nv_bfloat16": "__nv_bfloat16",
    "nv_bfloat162": "__nv_bfloat162",
}
"""Names that are one type on Linux on x86-64 and arm64, by the way c++filt and the CUDA headers spell it."""


@dataclass(frozen=True)
class _Name:
    components: tuple[str, ...]
    template: tuple[str, ...] | None
    parameters: tuple[str, ...] | None


def matching(wanted: str, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries that `wanted` can mean: one when the name is good, none, or several when it is ambiguous.

    The qualified name comes before the last component alone, so `k` is the global one where `ns::k` exists too.
    """
    by_symbol = tuple(entry for entry in entries if entry.symbol == wanted)
    if by_symbol:
        return by_symbol
    name = _parse(wanted)
    fitting = [(entry, parsed) for entry in entries if _fits(name, parsed := _parse_entry(entry))]
    qualified = tuple(entry for entry, parsed in fitting if parsed.components == name.components)
    if qualified or len(name.components) != 1:
        return qualified
    return tuple(entry for entry, parsed in fitting if parsed.components[-1:] == name.components)


def shortest(entry: Entry, entries: Sequence[Entry]) -> str:
    """The shortest name that means `entry` and no other of `entries`."""
    parsed = _parse_entry(entry)
    template = f"<{', '.join(parsed.template)}>" if parsed.template is not None else ""
    last, qualified = parsed.components[-1], "::".join(parsed.components)
    signature = f"{qualified}{template}({', '.join(parsed.parameters or ())})"
    for candidate in (last, last + template, qualified, qualified + template, signature):
        if matching(candidate, entries) == (entry,):
            return candidate
    return entry.symbol


def spelling(entry: Entry) -> tuple[str, tuple[str, ...]]:
    """How C++ calls `entry`, with its template arguments, and the types of its parameters, as far as names tell."""
    parsed = _parse_entry(entry)
    template = f"<{', '.join(parsed.template)}>" if parsed.template is not None else ""
    return "::".join(parsed.components) + template, parsed.parameters or ()


def nearest(wanted: str, entries: Sequence[Entry]) -> tuple[str, ...]:
    """Names of up to three entries that look like `wanted`."""
    last = _parse(wanted).components[-1]
    names = [_parse_entry(entry).components[-1] for entry in entries]
    close = get_close_matches(last, dict.fromkeys(names), n=3, cutoff=0.5)
    alike = [entry for entry, name in zip(entries, names, strict=True) if name in close]
    return tuple(shortest(entry, entries) for entry in alike[:3])


def listed(entries: Sequence[Entry], most: int = 8) -> str:
    """The names of the first few, and how many more there are."""
    shown = ", ".join(shortest(entry, entries) for entry in entries[:most])
    return shown + (f" and {len(entries) - most} more" if len(entries) > most else "")


def canonical_type(text: str) -> str:
    """The one spelling of a parameter's type, without a `const` or `volatile` of the value's own."""
    return _type(_tokens(text), is_parameter=True)


def _fits(wanted: _Name, entry: _Name) -> bool:
    template_fits = wanted.template is None or wanted.template == entry.template
    return template_fits and (wanted.parameters is None or wanted.parameters == entry.parameters)


def _parse_entry(entry: Entry) -> _Name:
    name = _parse(entry.name)
    if name.parameters is not None:
        return name
    # An extern "C" kernel has no types in its name; the compiler's debug records have them.
    types = tuple(canonical_type(parameter.type) for parameter in entry.parameters)
    return _Name(name.components, name.template, types)


@lru_cache(maxsize=1024)
def _parse(text: str) -> _Name:
    tokens = _tokens(text)
    while len(tokens) > 1 and tokens[0] in ("__global__", "void", "static", "::"):
        tokens = tokens[1:]
    parameters: tuple[str, ...] | None = None
    if tokens and tokens[-1] == ")":
        opening = _opening(tokens, "(", ")")
        types = [_type(part, is_parameter=True) for part in _parts(tokens[opening + 1 : -1])]
        parameters = () if types in ([], ["void"]) else tuple(types)
        tokens = tokens[:opening]
    template: tuple[str, ...] | None = None
    if tokens and tokens[-1] == ">":
        opening = _opening(tokens, "<", ">")
        template = tuple(_type(part, is_parameter=False) for part in _parts(tokens[opening + 1 : -1]))
        tokens = tokens[:opening]
    return _Name(tuple("".join(tokens).split("::")), template, parameters)


def _tokens(text: str) -> list[str]:
    plain = text.replace("(anonymous namespace)::", "")
    plain = _BOOL_CAST.sub(lambda match: " true " if match[1] == "1" else " false ", plain)
    return [token.rstrip("uUlL") if token[0].isdigit() else token for token in _TOKEN.findall(_CAST.sub(" ", plain))]


def _opening(tokens: list[str], left: str, right: str) -> int:
    """Index of the bracket that the last token closes; 0 when there is none."""
    depth = 0
    for index in range(len(tokens) - 1, -1, -1):
        depth += (tokens[index] == right) - (tokens[index] == left)
        if depth == 0:
            return index
    return 0


def _parts(tokens: list[str]) -> list[list[str]]:
    """Split at the commas outside all brackets; nothing gives no parts."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token in "(<[") - (token in ")>]")
        if token == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts if parts != [[]] else []


def _type(tokens: list[str], is_parameter: bool) -> str:
    """One spelling for one type (or one template argument that is a value: `&(f(float))`, a function, is `f`)."""
    if not is_parameter and tokens[:2] == ["&", "("] and tokens[-1] == ")":
        tokens = tokens[2:-1]  # demangled as `&(f(float))`
        if tokens[-1:] == [")"]:
            tokens = tokens[: _opening(tokens, "(", ")")]
    elif not is_parameter and tokens[:1] == ["&"]:
        tokens = tokens[1:]
    depth = 0
    end = len(tokens)
    for index, token in enumerate(tokens):
        if depth == 0 and token in ("*", "&", "("):
            end = index
            break
        depth += (token == "<") - (token == ">")
    base, derived = tokens[:end], [token for token in tokens[end:] if token not in ("__restrict__", "restrict")]
    if is_parameter and derived and derived[-1] == "const":
        derived = derived[:-1]
    qualifiers = sorted({token for token in base if token in ("const", "volatile")})
    if is_parameter and not derived:
        # A value's own const is no part of a signature: f(const int) is f(int).
        qualifiers = []
    return " ".join([_base_type(base), *qualifiers]) + "".join(f" {t}" if t.isalpha() else t for t in derived)


def _base_type(tokens: list[str]) -> str:
    if "<" in tokens and tokens[-1] == ">":
        opening = tokens.index("<")
        inner = ", ".join(_type(part, is_parameter=False) for part in _parts(tokens[opening + 1 : -1]))
        return f"{_base_type(tokens[:opening])}<{inner}>"
    words = [token for token in tokens if token not in _DECORATION]
    if words[:2] == ["std", "::"] and "".join(words[2:]) in _SAME_TYPE:
        words = words[2:]
    if words and _BUILTIN.issuperset(words):
        return _builtin(words)
    name = "".join(words)
    return _SAME_TYPE.get(name, name)


def _builtin(words: list[str]) -> str:
    sign = "unsigned " if "unsigned" in words else ""
    if "char" in words:
        return "signed char" if "signed" in words else f"{sign}char"
    if "double" in words:
        return " ".join(words)
    size = "short" if "short" in words else " ".join(["long"] * words.count("long")) or "int"
    return sign + size
