"""The kernels of a compiled program with their parameters' names and types.

Layout (order, size, offset) comes from the PTX that will run. Names and types come from the source where all its
kernels are written plainly, else from the compiler: the same source compiled with `-G` carries DWARF. Where neither
says anything about a kernel, types come from its mangled name and names are arg0, arg1, …
"""

import functools
import math
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from evaluator.backends.session import Entry, Parameter
from evaluator.errors import InfrastructureError
from evaluator.sandbox.retry import run_program
from evaluator.stages.compile.parameter_types import C_TYPES, Declaration, Described

UNNAMED: Final = "arg"
"""A parameter without a known name is called arg0, arg1, … by its position."""

_ENTRY = re.compile(r"^[^\S\n]*(?:\.(?:visible|weak)\s+)?\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?", re.MULTILINE)
_VARIABLE = re.compile(
    r"^(?:\.(?:visible|extern|weak|common)\s+)*\.(?:global|const)\s+(?:\.attribute\([^)]*\)\s+)?(?:\.align\s+\d+\s+)?"
    r"\.[busf](?P<bits>\d+)\s+(?P<name>[\w$]+)(?:\[(?P<count>\d+)\])?\s*[;=]",
    re.MULTILINE,
)
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>[bsuf]\d+|pred)"
    r"(?:\s+\.ptr(?:\s+\.\w+)*?(?:\s+\.align\s+\d+)?)?\s+(?P<name>[\w$]+)\s*(?:\[(?P<count>\d+)\])?"
)
_BOUNDS: Final = re.compile(r"[^{;]*?\.(?:maxntid|reqntid)\s+(\d+(?:\s*,\s*\d+){0,2})")
"""Between an entry's parameters and its body."""
_MAX_NAME: Final = 8192
_MAX_DEBUG_TEXT: Final = 32 << 20


@dataclass(frozen=True)
class _Slot:
    """One parameter as the PTX lays it out."""

    symbol: str
    size_bytes: int
    offset: int
    opaque: bool
    """True for an array of bytes: a struct passed by value."""


def entries(ptx: str, debug_ptx: str | None) -> tuple[Entry, ...]:
    """The kernels of `ptx` in the order of the text; `debug_ptx` is the same source compiled with `-G`."""
    # Slow to import, and seldom needed: most sources say it themselves.
    from evaluator.stages.compile import dwarf

    declared = dwarf.declarations(debug_ptx) if debug_ptx and len(debug_ptx) <= _MAX_DEBUG_TEXT else {}
    nothing = Declaration(None, ())
    return tuple(
        _entry(symbol, slots, declared.get(dwarf.same_in_every_folder(symbol), nothing))
        for symbol, slots in _layouts(ptx)
    )


def entries_as_written(ptx: str, declared: Mapping[str, Declaration]) -> tuple[Entry, ...] | None:
    """The kernels of `ptx` by what `source_signatures` read; None where one of them is not there, or does not fit."""
    found: list[Entry] = []
    for symbol, slots in _layouts(ptx):
        # The name is unique in the source, so its namespaces tell nothing more.
        one = declared.get(symbol) or declared.get(
            demangled(symbol).replace("(anonymous namespace)", "").partition("(")[0].rpartition("::")[2]
        )
        if one is None and not slots:
            # There is nothing to describe: the headers of CUB bring such a kernel with them.
            one = Declaration(None, ())
        if one is None or [each.size_bytes for each in one.parameters] != [slot.size_bytes for slot in slots]:
            return None
        found.append(_entry(symbol, slots, one))
    return tuple(found)


def _layouts(ptx: str) -> Iterator[tuple[str, tuple[_Slot, ...]]]:
    for match in _ENTRY.finditer(ptx):
        yield match[1], tuple(_slots(match[2] or ""))


def _entry(symbol: str, slots: tuple[_Slot, ...], declared: Declaration) -> Entry:
    return Entry(symbol, demangled(symbol), _merged(symbol, slots, declared.parameters), declared.line)


def module_variables(ptx: str) -> dict[str, int]:
    """Bytes of each variable in global or constant memory that the program has, by its name in the PTX."""
    return {match["name"]: int(match["bits"]) // 8 * int(match["count"] or 1) for match in _VARIABLE.finditer(ptx)}


def launch_bounds(ptx: str) -> dict[str, int]:
    """The most threads that a block of each kernel may have, by symbol, where `__launch_bounds__` says it.

    PTX ISA 9.0, section 11.4, `.maxntid`: a launch of larger blocks fails.
    """
    found: dict[str, int] = {}
    for match in _ENTRY.finditer(ptx):
        if bounds := _BOUNDS.match(ptx, match.end()):
            found[match[1]] = math.prod(map(int, bounds[1].split(",")))
    return found


def count_entries(ptx: str) -> int:
    """How many kernels `ptx` has."""
    return sum(1 for _ in _ENTRY.finditer(ptx))


@functools.lru_cache(maxsize=4096)
def demangled(symbol: str) -> str:
    """The name as a reader of C++ knows it; an `extern "C"` name and one that is not C++ stay as they are.

    So do names that are too long to read. A short mangled name can stand for gigabytes (each back reference can
    double it) or for very deep nesting, so one that might is taken apart in a child process with limits.
    """
    if not symbol.startswith("_Z"):
        return symbol
    import cxxfilt  # which asks `ldconfig` where the libraries are

    risky = len(symbol) > 512 or len(re.findall(r"S[0-9A-Z]*_", symbol)) > 16
    try:
        name = _demangled_apart(symbol) if risky else str(cxxfilt.demangle(symbol))
    except cxxfilt.Error:
        return symbol
    # Instantiations of templates have their return type in the mangled name; a kernel's is always void.
    return name.removeprefix("void ") if 0 < len(name) <= _MAX_NAME else symbol


_DEMANGLE: Final = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))
resource.setrlimit(resource.RLIMIT_CPU, (2, 3))  # at the second of them it would be a SIGKILL, as anyone sends
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import cxxfilt
name = cxxfilt.demangle(sys.stdin.read())
sys.stdout.write(name if len(name) <= {_MAX_NAME} else "")
"""


def _demangled_apart(symbol: str) -> str:
    """The demangled name, or nothing where that takes too much."""
    try:
        child = run_program(
            [sys.executable, "-I", "-c", _DEMANGLE],
            input=symbol,
            capture_output=True,
            text=True,
            timeout=30,
            own_signals=(signal.SIGXCPU,),
        )
    except subprocess.TimeoutExpired as late:
        # It has two seconds of a processor: what it got is not for the name to answer, and the name is kept.
        raise InfrastructureError("This machine is too busy: the name of a kernel could not be read.") from late
    except OSError as error:
        raise InfrastructureError(f"The name of a kernel could not be read: {error}.") from error
    return child.stdout if child.returncode == 0 else ""


def _slots(text: str) -> Iterator[_Slot]:
    offset = 0
    for match in _PARAM.finditer(text):
        item = 1 if match["type"] == "pred" else int(match["type"][1:]) // 8
        size = item * int(match["count"] or 1)
        align = int(match["align"] or item)
        offset = -(-offset // align) * align
        yield _Slot(match["name"], size, offset, match["count"] is not None)
        offset += size


def _merged(symbol: str, slots: tuple[_Slot, ...], described: tuple[Described, ...]) -> tuple[Parameter, ...]:
    """Declared names and types on the PTX's layout, one by one; what does not fit is left to the symbol."""
    by_symbol = {one.symbol: one for one in described if one.symbol}
    by_order = described if len(described) == len(slots) else (None,) * len(slots)
    signature = _signature(symbol, len(slots))
    parameters = []
    for index, slot in enumerate(slots):
        one = by_order[index] or by_symbol.get(slot.symbol)
        if one is None or one.size_bytes != slot.size_bytes:
            one = _guessed(slot, signature[index])
        name = one.name or f"{UNNAMED}{index}"
        parameters.append(Parameter(name, one.type, one.kind, slot.size_bytes, slot.offset, one.pointee, one.padding))
    return tuple(parameters)


# --- from the mangled name -----------------------------------------------------------------------------------------


def _signature(symbol: str, count: int) -> tuple[str | None, ...]:
    """The parameter types in a mangled name, or None for each where they are not there."""
    name = demangled(symbol)
    if name == symbol or not name.endswith(")") or len(name) > _MAX_NAME:
        return (None,) * count
    depth = 0
    parts: list[str] = [""]
    for character in reversed(name[:-1]):
        depth += (character in ")>]}") - (character in "(<[{")
        if depth < 0:
            break
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] = character + parts[-1]
    types = [part.strip() for part in reversed(parts)]
    return tuple(types) if len(types) == count else (None,) * count


def _guessed(slot: _Slot, declared: str | None) -> Described:
    """Type and kind from the demangled signature, else from the size alone."""
    if declared and re.search(r"\([^()]*\*\)", declared):
        return Described(None, declared, "pointer", slot.size_bytes, "void", None)
    if declared and declared[-1] in "*&":
        behind = _without_const(declared.rstrip("&").removesuffix("*") if declared[-1] == "*" else declared[:-1])
        return Described(None, _const_first(declared), "pointer", slot.size_bytes, behind or "void", None)
    if declared and declared in C_TYPES:
        return Described(None, declared, C_TYPES[declared], slot.size_bytes, None, None)
    if slot.opaque:
        return Described(
            None, declared or f"struct of {slot.size_bytes} bytes", "struct", slot.size_bytes, None, None
        )
    unknown = f"{slot.size_bytes * 8}-bit value"
    return Described(None, declared or unknown, "uint", slot.size_bytes, None, None)


def _without_const(name: str) -> str:
    return re.sub(r"\s+(?=[*&])", "", re.sub(r"\b(const|volatile)\b", "", name)).strip()


def _const_first(declared: str) -> str:
    """`float const*` as people write it: `const float*`."""
    return re.sub(r"^((?:\w|::|<[^*&]*>| )+?) const(?=[*&])", r"const \1", declared)
