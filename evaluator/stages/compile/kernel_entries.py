"""The kernels of a compiled program with their parameters' names and types.

Layout (order, size, offset) comes from the PTX that will run. Names and types come from the compiler too: the same
source compiled with `-G` carries DWARF, as text in `.section` blocks, which is put together to bytes here and read
with pyelftools. Where DWARF says nothing about a kernel, types come from its mangled name and names are arg0, arg1, …
"""

import functools
import math
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final, Literal, TypeAlias

import cxxfilt
from elftools.common.exceptions import DWARFError, ELFError
from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo

from evaluator.backends.session import Entry, Parameter
from evaluator.errors import InfrastructureError
from evaluator.sandbox.retry import run_program

Kind: TypeAlias = Literal["pointer", "int", "uint", "float", "struct"]

UNNAMED: Final = "arg"
"""A parameter without a known name is called arg0, arg1, … by its position."""

_ENTRY = re.compile(r"^[^\S\n]*(?:\.(?:visible|weak)\s+)?\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?", re.MULTILINE)
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>[bsuf]\d+|pred)"
    r"(?:\s+\.ptr(?:\s+\.\w+)*?(?:\s+\.align\s+\d+)?)?\s+(?P<name>[\w$]+)\s*(?:\[(?P<count>\d+)\])?"
)
_BOUNDS: Final = re.compile(r"[^{;]*?\.(?:maxntid|reqntid)\s+(\d+(?:\s*,\s*\d+){0,2})")
"""Between an entry's parameters and its body."""
_LABEL = re.compile(r"([\w$]+):$")
_DATA = re.compile(r"\.b(8|16|32|64)\s+(.+)$")
_HALVES: Final = ("__half", "__nv_bfloat16")
_MAX_DEPTH: Final = 32
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


@dataclass(frozen=True)
class _Described:
    """One parameter as DWARF describes it."""

    name: str | None
    type: str
    kind: Kind
    size_bytes: int
    pointee: str | None
    symbol: str | None
    """The PTX parameter that it lives in, where DWARF says so."""


def entries(ptx: str, debug_ptx: str | None) -> tuple[Entry, ...]:
    """The kernels of `ptx` in the order of the text; `debug_ptx` is the same source compiled with `-G`."""
    described = _described(debug_ptx) if debug_ptx and len(debug_ptx) <= _MAX_DEBUG_TEXT else {}
    found: list[Entry] = []
    for match in _ENTRY.finditer(ptx):
        symbol, slots = match[1], tuple(_slots(match[2] or ""))
        line, parameters = described.get(_same_in_every_folder(symbol), (None, ()))
        found.append(Entry(symbol, demangled(symbol), _merged(symbol, slots, parameters), line))
    return tuple(found)


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


def _same_in_every_folder(symbol: str) -> str:
    """`symbol` without the hash of the source's path that names in anonymous namespaces carry."""
    return re.sub(r"(_GLOBAL__N__|_INTERNAL_)[0-9a-f]{8}_", r"\g<1>00000000_", symbol)


def _slots(text: str) -> Iterator[_Slot]:
    offset = 0
    for match in _PARAM.finditer(text):
        item = 1 if match["type"] == "pred" else int(match["type"][1:]) // 8
        size = item * int(match["count"] or 1)
        align = int(match["align"] or item)
        offset = -(-offset // align) * align
        yield _Slot(match["name"], size, offset, match["count"] is not None)
        offset += size


def _merged(symbol: str, slots: tuple[_Slot, ...], described: tuple[_Described, ...]) -> tuple[Parameter, ...]:
    """DWARF's names and types on the PTX's layout, one by one; what does not fit is left to the symbol."""
    by_symbol = {one.symbol: one for one in described if one.symbol}
    by_order = described if len(described) == len(slots) else (None,) * len(slots)
    signature = _signature(symbol, len(slots))
    parameters = []
    for index, slot in enumerate(slots):
        one = by_order[index] or by_symbol.get(slot.symbol)
        if one is None or one.size_bytes != slot.size_bytes:
            one = _guessed(slot, signature[index])
        name = one.name or f"{UNNAMED}{index}"
        parameters.append(Parameter(name, one.type, one.kind, slot.size_bytes, slot.offset, one.pointee))
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


_C_TYPES: Final[dict[str, Kind]] = {
    **dict.fromkeys(("char", "signed char", "short", "int", "long", "long long", "__int128"), "int"),
    **dict.fromkeys(("unsigned char", "unsigned short", "unsigned int", "unsigned long", "bool"), "uint"),
    **dict.fromkeys(("unsigned long long", "unsigned __int128"), "uint"),
    **dict.fromkeys(("float", "double", *_HALVES), "float"),
}


def _guessed(slot: _Slot, declared: str | None) -> _Described:
    """Type and kind from the demangled signature, else from the size alone."""
    if declared and re.search(r"\([^()]*\*\)", declared):
        return _Described(None, declared, "pointer", slot.size_bytes, "void", None)
    if declared and declared[-1] in "*&":
        behind = _without_const(declared.rstrip("&").removesuffix("*") if declared[-1] == "*" else declared[:-1])
        return _Described(None, _const_first(declared), "pointer", slot.size_bytes, behind or "void", None)
    if declared and declared in _C_TYPES:
        return _Described(None, declared, _C_TYPES[declared], slot.size_bytes, None, None)
    if slot.opaque:
        return _Described(
            None, declared or f"struct of {slot.size_bytes} bytes", "struct", slot.size_bytes, None, None
        )
    unknown = f"{slot.size_bytes * 8}-bit value"
    return _Described(None, declared or unknown, "uint", slot.size_bytes, None, None)


def _without_const(name: str) -> str:
    return re.sub(r"\s+(?=[*&])", "", re.sub(r"\b(const|volatile)\b", "", name)).strip()


def _const_first(declared: str) -> str:
    """`float const*` as people write it: `const float*`."""
    return re.sub(r"^((?:\w|::|<[^*&]*>| )+?) const(?=[*&])", r"const \1", declared)


# --- from DWARF ----------------------------------------------------------------------------------------------------


def _described(debug_ptx: str) -> dict[str, tuple[int | None, tuple[_Described, ...]]]:
    """For each function with debug information: its line and parameters. Empty where the DWARF cannot be read."""
    sections = _sections(debug_ptx)
    if "debug_info" not in sections or "debug_abbrev" not in sections:
        return {}
    try:
        labels: dict[str, int] = {}
        data: dict[str, bytes] = {}
        # Strings first: the others refer to labels in them.
        for name in ("debug_str", "debug_abbrev", "debug_info"):
            data[name], symbols = _assembled(sections.get(name, []), labels)
        return dict(_functions(_dwarf(data), symbols))
    except (DWARFError, ELFError, KeyError, ValueError, IndexError, AttributeError, RecursionError, TypeError):
        # The text is shaped by the submission: what cannot be read is the same as not there.
        return {}


def _sections(text: str) -> dict[str, list[str]]:
    """The lines of each debug section: `.section .debug_info`, `{`, data, `}`."""
    sections: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in map(str.strip, text.split("\n")):
        if line.startswith(".section"):
            current = sections.setdefault(line.removeprefix(".section").strip(" \t.{"), [])
        elif line == "}":
            current = None
        elif current is not None:
            current.append(line)
    return sections


def _assembled(lines: list[str], labels: dict[str, int]) -> tuple[bytes, dict[int, str]]:
    """The bytes of a section, and the symbol at each offset that holds an address. Adds the section's `labels`."""
    position = 0
    for line in lines:
        if label := _LABEL.match(line):
            labels[label[1]] = position
        elif data := _DATA.match(line):
            position += int(data[1]) // 8 * (data[2].count(",") + 1)
    content = bytearray()
    symbols: dict[int, str] = {}
    for data in filter(None, map(_DATA.match, lines)):
        size = int(data[1]) // 8
        for value in map(str.strip, data[2].split(",")):
            number = re.fullmatch(r"-?\d{1,20}", value)
            if number is None and size == 8:
                symbols[len(content)] = value
            amount = int(value) if number else labels.get(value, 0)
            content += (amount % (1 << 8 * size)).to_bytes(size, "little")
    return bytes(content), symbols


def _dwarf(data: dict[str, bytes]) -> Any:
    def section(name: str) -> DebugSectionDescriptor:
        return DebugSectionDescriptor(BytesIO(data[name]), f".{name}", 0, len(data[name]), 0)

    given = {f"{name}_sec": section(name) for name in data}
    absent = (
        *("debug_aranges_sec", "debug_frame_sec", "eh_frame_sec", "debug_loc_sec", "debug_ranges_sec"),
        *("debug_line_sec", "debug_pubtypes_sec", "debug_pubnames_sec", "debug_addr_sec", "debug_str_offsets_sec"),
        *("debug_line_str_sec", "debug_loclists_sec", "debug_rnglists_sec", "debug_sup_sec", "gnu_debugaltlink_sec"),
        "debug_types_sec",
    )
    return DWARFInfo(DwarfConfig(True, "x64", 8), **given, **dict.fromkeys(absent))


def _functions(
    dwarf: Any, symbols: dict[int, str]
) -> Iterator[tuple[str, tuple[int | None, tuple[_Described, ...]]]]:
    for unit in dwarf.iter_CUs():
        for die in unit.get_top_DIE().iter_children():
            if die.tag == "DW_TAG_subprogram":
                name = (
                    _text(die, "DW_AT_MIPS_linkage_name")
                    or _text(die, "DW_AT_linkage_name")
                    or _text(die, "DW_AT_name")
                )
                line = die.attributes.get("DW_AT_decl_line")
                children = (child for child in die.iter_children() if child.tag == "DW_TAG_formal_parameter")
                yield (
                    _same_in_every_folder(name or ""),
                    (
                        line.value if line and line.value < 1 << 31 else None,
                        tuple(_parameter(child, symbols) for child in children),
                    ),
                )


def _parameter(die: Any, symbols: dict[int, str]) -> _Described:
    kind, size, pointee = _nature(_type_of(die))
    declared = _named(_type_of(die))
    resolved = _resolved(_type_of(die))
    if resolved is not None and _text(resolved, "DW_AT_name") in _HALVES:
        kind, declared = "float", _text(resolved, "DW_AT_name") or declared
    location = die.attributes.get("DW_AT_location")
    symbol = None
    # DW_OP_addr and nothing after it: the parameter lives in this symbol (its address follows length and operation).
    # A number instead of operations stands for a list of places, as for `var` of `__shfl_xor_sync(…, double var, …)`.
    operations = [] if location is None or isinstance(location.value, int) else location.value
    if len(operations) == 9 and operations[0] == 3:
        symbol = symbols.get(location.offset + 2)
    return _Described(_text(die, "DW_AT_name"), declared, kind, size, pointee, symbol)


def _text(die: Any, attribute: str) -> str | None:
    value = die.attributes.get(attribute)
    return (
        value.value[:_MAX_NAME].decode(errors="replace")
        if value is not None and isinstance(value.value, bytes)
        else None
    )


def _type_of(die: Any) -> Any:
    return die.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in die.attributes else None


_QUALIFIERS: Final = {"DW_TAG_const_type": "const ", "DW_TAG_volatile_type": "volatile ", "DW_TAG_restrict_type": ""}
_POINTERS: Final = {"DW_TAG_pointer_type": "*", "DW_TAG_reference_type": "&", "DW_TAG_rvalue_reference_type": "&&"}


def _resolved(die: Any) -> Any:
    """The type behind typedefs and qualifiers; None for void."""
    for _ in range(_MAX_DEPTH):
        if die is None or (die.tag != "DW_TAG_typedef" and die.tag not in _QUALIFIERS):
            return die
        die = _type_of(die)
    raise ValueError("types nested too deeply")


def _named(die: Any, depth: int = 0) -> str:
    """The type as the source writes it, const first: `const float*`, `size_t`, `const float* const`."""
    if die is None or die.tag == "DW_TAG_unspecified_type" or depth > _MAX_DEPTH:
        return "void"
    inner = _type_of(die)
    if die.tag in _POINTERS:
        if inner is not None and inner.tag in ("DW_TAG_array_type", "DW_TAG_subroutine_type"):
            bounds = "()" if inner.tag == "DW_TAG_subroutine_type" else _bounds(inner)
            return f"{_named(_type_of(inner), depth + 1)} ({_POINTERS[die.tag]}){bounds}"
        return _named(inner, depth + 1) + _POINTERS[die.tag]
    if die.tag in _QUALIFIERS:
        after = inner is not None and inner.tag in _POINTERS
        word, name = _QUALIFIERS[die.tag].strip(), _named(inner, depth + 1)
        return f"{name} {word}".strip() if after else f"{word} {name}".strip()
    if die.tag == "DW_TAG_array_type":
        return _named(inner, depth + 1) + _bounds(die)
    return _text(die, "DW_AT_name") or {"DW_TAG_union_type": "union", "DW_TAG_enumeration_type": "enum"}.get(
        die.tag, "struct"
    )


def _bounds(array: Any) -> str:
    counts = (child.attributes.get("DW_AT_count") for child in array.iter_children())
    return "".join(f"[{count.value}]" if count else "[]" for count in counts)


def _nature(die: Any) -> tuple[Kind, int, str | None]:
    """Kind, size in bytes, and for a pointer the plain type behind it."""
    die = _resolved(die)
    if die is None:
        raise ValueError("a parameter cannot be void")
    if die.tag in _POINTERS:
        return "pointer", 8, _pointee(_type_of(die))
    size = die.attributes["DW_AT_byte_size"].value if "DW_AT_byte_size" in die.attributes else 0
    if die.tag == "DW_TAG_base_type":
        encoding = die.attributes["DW_AT_encoding"].value
        # DW_ATE: 2 boolean, 4 float, 5 signed, 6 signed char, 7 unsigned, 8 unsigned char, 16 UTF
        kinds: dict[int, Kind] = {2: "uint", 4: "float", 5: "int", 6: "int", 7: "uint", 8: "uint", 16: "uint"}
        # A long double is a double in device code; DWARF keeps the host's size.
        return kinds.get(encoding, "struct"), 8 if encoding == 4 and size == 16 else size, None
    if die.tag == "DW_TAG_enumeration_type":
        return "int", size, None
    return "struct", size, None


def _pointee(die: Any) -> str:
    """The C type behind a pointer, typedefs resolved, without qualifiers."""
    die = _resolved(die)
    if die is None or die.tag in ("DW_TAG_unspecified_type", "DW_TAG_subroutine_type"):
        return "void"
    if die.tag == "DW_TAG_array_type":
        return _pointee(_type_of(die))
    if die.tag in _POINTERS:
        return _pointee(_type_of(die)) + "*"
    return _text(die, "DW_AT_name") or "struct"
