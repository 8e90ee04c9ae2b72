"""The parameters of a program's kernels from its DWARF.

The same source compiled with `-G` carries it as text, in `.section` blocks of the PTX, which is put together to bytes
here and read with pyelftools.
"""

import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any, Final

from elftools.common.exceptions import DWARFError, ELFError
from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo

from evaluator.stages.compile.parameter_types import HALVES, Declaration, Described, Kind

_LABEL = re.compile(r"([\w$]+):$")
_DATA = re.compile(r"\.b(8|16|32|64)\s+(.+)$")
_MAX_DEPTH: Final = 32
_MAX_NAME: Final = 8192
_MAX_STRUCT_BYTES: Final = 1 << 15
"""More than all parameters of a kernel take together."""
_PLUS_UCONST: Final = 0x23


def declarations(debug_ptx: str) -> dict[str, Declaration]:
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


def same_in_every_folder(symbol: str) -> str:
    """`symbol` without the hash of the source's path that names in anonymous namespaces carry."""
    return re.sub(r"(_GLOBAL__N__|_INTERNAL_)[0-9a-f]{8}_", r"\g<1>00000000_", symbol)


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


def _functions(dwarf: Any, symbols: dict[int, str]) -> Iterator[tuple[str, Declaration]]:
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
                    same_in_every_folder(name or ""),
                    Declaration(
                        line.value if line and line.value < 1 << 31 else None,
                        tuple(_parameter(child, symbols) for child in children),
                    ),
                )


def _parameter(die: Any, symbols: dict[int, str]) -> Described:
    kind, size, pointee = _nature(_type_of(die))
    declared = _named(_type_of(die))
    resolved = _resolved(_type_of(die))
    if resolved is not None and _text(resolved, "DW_AT_name") in HALVES:
        kind, declared = "float", _text(resolved, "DW_AT_name") or declared
    location = die.attributes.get("DW_AT_location")
    symbol = None
    # DW_OP_addr and nothing after it: the parameter lives in this symbol (its address follows length and operation).
    # A number instead of operations stands for a list of places, as for `var` of `__shfl_xor_sync(…, double var, …)`.
    operations = [] if location is None or isinstance(location.value, int) else location.value
    if len(operations) == 9 and operations[0] == 3:
        symbol = symbols.get(location.offset + 2)
    padding = _padding(resolved, size) if kind == "struct" and resolved is not None else ()
    return Described(_text(die, "DW_AT_name"), declared, kind, size, pointee, symbol, padding)


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


def _padding(die: Any, size: int) -> tuple[tuple[int, int], ...]:
    """Stretches of a struct that belong to none of its members; none where its layout is not known."""
    if not 0 < size <= _MAX_STRUCT_BYTES:
        return ()
    held = bytearray(size)
    try:
        _mark(die, 0, held)
    except (KeyError, ValueError):
        return ()
    # Sought from each end of a stretch to the next change.
    edges = [at for at in range(size + 1) if (held[at - 1 : at] or b"\1") != (held[at : at + 1] or b"\1")]
    return tuple(zip(edges[::2], edges[1::2], strict=True))


def _mark(die: Any, start: int, held: bytearray, depth: int = 0) -> None:
    """Mark the bytes that a value of a type has at `start`; of a union, or what is not known, all."""
    die = _resolved(die)
    if die is None or depth > _MAX_DEPTH:
        raise ValueError("a member without a type, or too deep")
    if die.tag == "DW_TAG_array_type":
        inner, count = _type_of(die), _count(die)
        if count * _size(inner) > len(held):
            raise ValueError("an array that is larger than what holds it")
        for index in range(count):
            _mark(inner, start + index * _size(inner), held, depth + 1)
        return
    if die.tag not in ("DW_TAG_structure_type", "DW_TAG_class_type"):
        size = _size(die)
        held[start : start + size] = b"\1" * size
        return
    for child in die.iter_children():
        if child.tag not in ("DW_TAG_member", "DW_TAG_inheritance") or "DW_AT_data_member_location" not in (
            child.attributes
        ):
            continue  # a function, a type, or a static member
        at = start + _location(child.attributes["DW_AT_data_member_location"].value)
        if "DW_AT_bit_size" in child.attributes:
            size = child.attributes["DW_AT_byte_size"].value if "DW_AT_byte_size" in child.attributes else 8
            end = min(len(held), at + size)
            held[at:end] = b"\1" * (end - at)
        else:
            _mark(_type_of(child), at, held, depth + 1)


def _location(value: Any) -> int:
    """Where a member begins: a number, or DW_OP_plus_uconst with one in LEB128."""
    if isinstance(value, int):
        return value
    if not value or value[0] != _PLUS_UCONST:
        raise ValueError("a member somewhere else")
    return int(sum((byte & 0x7F) << 7 * number for number, byte in enumerate(value[1:])))


def _count(array: Any) -> int:
    total = 1
    for child in array.iter_children():
        if "DW_AT_count" not in child.attributes:
            raise ValueError("an array without an end")
        total *= child.attributes["DW_AT_count"].value
    return total


def _size(die: Any) -> int:
    die = _resolved(die)
    if die is None:
        raise ValueError("void has no size")
    if die.tag in _POINTERS or die.tag == "DW_TAG_ptr_to_member_type":
        return 8
    if die.tag == "DW_TAG_array_type":
        return _count(die) * _size(_type_of(die))
    return int(die.attributes["DW_AT_byte_size"].value)


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
