"""The parameters of a program's kernels from its source, where all of them are written plainly.

Most kernels are: `__global__ void name(const float* x, int n) {`, of types that everyone knows. Reading them here
saves the second run of the compiler, half of what compiling costs. Whatever else there is (a template, a macro, a
type of its own, a declaration beside the definition) is the compiler's to describe, and so is a source in which one
kernel is so: nothing here guesses.
"""

import re
from typing import Final

from evaluator.stages.compile.parameter_types import C_TYPES, HALVES, Declaration, Described, Kind
from evaluator.stages.screen.lexer import SourceText

_SIZES: Final = {
    **dict.fromkeys(("char", "signed char", "unsigned char", "bool"), 1),
    **dict.fromkeys(("short", "unsigned short"), 2),
    **dict.fromkeys(("int", "unsigned int", "float"), 4),
    **dict.fromkeys(("long", "unsigned long", "long long", "unsigned long long", "double"), 8),
}
_WORDS: Final = frozenset(["char", "short", "int", "long", "float", "double", "bool", "signed", "unsigned"])
_SAME_AS: Final = {
    "size_t": "unsigned long",
    "uint": "unsigned int",
    **{f"int{bits}_t": name for bits, name in ((8, "signed char"), (16, "short"), (32, "int"), (64, "long"))},
    **{f"uint{bits}_t": f"unsigned {name}" for bits, name in ((8, "char"), (16, "short"), (32, "int"), (64, "long"))},
}
"""Of the names that the headers give to types on Linux on x86-64 and arm64, those that DWARF keeps as they are."""
_STRUCTS: Final = {
    f"{name}{count}": size * count
    for name, size in (("char", 1), ("uchar", 1), ("short", 2), ("int", 4), ("uint", 4), ("float", 4), ("double", 8))
    for count in (2, 3, 4)
}
_HALVES: Final = {"half": "__half", "__half": "__half", "__nv_bfloat16": "__nv_bfloat16"}

_TYPES: Final = "|".join((*_SAME_AS, *_STRUCTS, *_HALVES))
_MACRO: Final = re.compile(r"^[^\S\n]*#[^\S\n]*(?:define|undef)[^\S\n]+([A-Za-z_]\w*)", re.MULTILINE)
_OWN_TYPE: Final = re.compile(rf"\b(?:struct|class|union|enum|using|namespace)\s+({_TYPES})\b")
_OWN_ALIAS: Final = re.compile(rf"\b({_TYPES})\s*;")
_BALANCED: Final = r"\((?:[^()]|\([^()]*\))*\)"
_BOUNDS: Final = rf"(?:__launch_bounds__\s*{_BALANCED}\s*)?"
_KERNEL: Final = re.compile(
    rf"__global__\s+{_BOUNDS}void\s+{_BOUNDS}(?P<name>[A-Za-z_]\w*)\s*\((?P<parameters>[^(){{}};]*)\)\s*\{{"
)
_PARAMETER: Final = re.compile(
    r"\s*(?:(?P<before>const|volatile)\s+)?(?P<type>[A-Za-z_]\w*(?:\s+[a-z]+)*?)(?:\s+(?P<after>const|volatile))?"
    r"(?:\s*(?P<pointer>\*)\s*(?P<itself>(?:(?:const|__restrict__|__restrict)\b\s*)*)|\s+)(?P<name>[A-Za-z_]\w*)\s*"
)
_DIRECTIVES: Final = frozenset(
    ["include", "define", "undef", "if", "ifdef", "ifndef", "else", "elif", "endif", "pragma", "error", "warning"],
)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")


def signatures(source: str) -> dict[str, Declaration] | None:
    """What each kernel of the source declares, by its name; None unless all of them are written plainly."""
    # Trigraphs, digraphs and splices are rare enough to leave them to the compiler.
    if "??" in source or "%:" in source or "\\\n" in source or "__global__" not in source:
        return None
    text = SourceText.read(source)
    code = text.code
    directives = [match[1] for match in re.finditer(r"^[^\S\n]*#[^\S\n]*(\w*)([^\n]*)", code, re.MULTILINE)]
    if not _DIRECTIVES.issuperset(directives):
        return None
    kernels = list(_KERNEL.finditer(code))
    if len(kernels) != len(re.findall(r"\b__global__\b", code)):
        return None
    redefined = _redefined(code)
    found: dict[str, Declaration] = {}
    for kernel in kernels:
        parameters = _parameters(kernel["parameters"])
        if parameters is None or kernel["name"] in found:
            return None
        words = {"__global__", "__launch_bounds__", "void", kernel["name"], *_NAME.findall(kernel["parameters"])}
        if not redefined.isdisjoint(words):
            return None
        found[kernel["name"]] = Declaration(text.line(kernel.start("name")), parameters)
    return found


def _redefined(code: str) -> frozenset[str]:
    """The words to which the source gives a meaning of its own, of those that a signature may hold.

    All in one look, however many words there are.
    """
    return frozenset((*_MACRO.findall(code), *_OWN_TYPE.findall(code), *_OWN_ALIAS.findall(code)))


def _parameters(text: str) -> tuple[Described, ...] | None:
    if not text.strip():
        return ()
    found = [_parameter(part) for part in text.split(",")]
    return None if None in found else tuple(one for one in found if one is not None)


def _parameter(text: str) -> Described | None:
    match = _PARAMETER.fullmatch(text)
    if match is None or (match["before"] and match["after"]) or match["name"] in _WORDS | {"const", "volatile"}:
        return None
    if (type_ := _type(match["type"])) is None:
        return None
    spelled, plain, kind, size_bytes = type_
    if plain in HALVES and not match["pointer"]:
        return Described(match["name"], plain, kind, size_bytes, None)
    if qualifier := match["before"] or match["after"]:
        spelled = f"{qualifier} {spelled}"
    if not match["pointer"]:
        return Described(match["name"], spelled, kind, size_bytes, None)
    itself = " const" if "const" in match["itself"].split() else ""
    return Described(match["name"], f"{spelled}*{itself}", "pointer", 8, plain)


def _type(text: str) -> tuple[str, str, Kind, int] | None:
    """The type as DWARF names it, the plain C type, its kind and its bytes."""
    words = text.split()
    if not _WORDS.issuperset(words):
        name = text.strip()
        if name in _STRUCTS:
            return name, name, "struct", _STRUCTS[name]
        if name in _HALVES:
            return name, _HALVES[name], "float", 2
        plain = _SAME_AS.get(name)
        return (name, plain, C_TYPES[plain], _SIZES[plain]) if plain else None
    plain = _spelled_out(words)
    return (plain, plain, C_TYPES[plain], _SIZES[plain]) if plain in _SIZES else None


def _spelled_out(words: list[str]) -> str:
    """`long unsigned` as `unsigned long`; what is no type stays none that anyone knows."""
    left = list(words)
    sign = [left.pop(left.index(word)) for word in ("unsigned", "signed") if word in left]
    if ("int" in left and len(left) > 1) or (sign and not left):
        left = [word for word in left if word != "int"] or ["int"]
    if sign == ["signed"] and left != ["char"]:
        sign = []
    return " ".join(sign + left)
