"""The canonical form of PTX: equal for programs that differ in comments, layout, debug lines and names only."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from evaluator.stages.compile.diagnostics import SOURCE_NAME, short_name

# --- canonical PTX -----------------------------------------------------------------------------------------------

_NAME = r"[A-Za-z_$%][\w$]*"
_TOKEN = re.compile(
    rf"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<name>{_NAME}(?:\.[\w$]+|::[\w$]+)*)|(?P<directive>\.[A-Za-z_][\w$]*(?:::[\w$]+)*)
    |(?P<number>\d[\w.]*)|(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_SPECIAL = re.compile(
    r"%(?:n?tid|n?ctaid|laneid|n?warpid|n?smid|gridid|lanemask_\w+|clock\w*|pm\d+\w*|envreg\d+|globaltimer\w*|"
    r"(?:is_explicit_|n?cluster)\w*|\w+_smem_size|reserved_smem\w*|current_graph_exec)"
)
_AMBIGUOUS = re.compile(r"/\*|\r|\\\n")
"""Nothing that the compiler writes by itself: what makes it unclear where a comment ends."""
_SECTION = re.compile(r"\.section\s+\.debug_\w+")
_LOCATION = re.compile(
    r"\.loc\s+\d+\s+\d+\s+\d+(?:,\s*function_name\s+[\w$]+(?:\s*\+\s*\d+)?,\s*inlined_at\s+\d+\s+\d+\s+\d+)?|"
    r"\.file\s+\d+\s+\"[^\"\n]*\"(?:,\s*\d+,\s*\d+)?"
)
_MAX_CANONICAL: Final = 8 << 20
_SPACES: Final = frozenset((".reg", ".param", ".local", ".shared", ".global", ".const"))


def without_debug(ptx: str) -> tuple[str, list[int]]:
    """`ptx` without comments, blank lines and what is for debuggers (`.loc`, `.file`, `.section`); all names stay.

    Also the number in `ptx` of each line that is left. Only lines of exactly the shape that the compiler writes are
    left out, so that no text from inline assembly can hide code in them.

    ptxas makes the same code of it, so it is what cubins are made from and shared by: kernels keep their names, hence
    a cubin loads under the names of every submission that shares it. (The wholly canonical text is not: its cubin
    would need a map of names beside it wherever it goes, to save one short run of ptxas.)
    """
    lines = ptx.split("\n")
    ambiguous = bool(_AMBIGUOUS.search(ptx))
    kept: list[str] = []
    numbers: list[int] = []
    end = 0
    for number, line in enumerate(lines, 1):
        if number <= end:
            continue
        text = line.strip()
        if ambiguous:
            droppable = False
        elif _SECTION.fullmatch(text):
            end = _section_end(lines, number)
            droppable = end > 0
        else:
            droppable = not text or text.startswith("//") or bool(_LOCATION.fullmatch(text))
        if not droppable:
            kept.append(text)
            numbers.append(number)
    return "\n".join(kept) + "\n", numbers


def _section_end(lines: list[str], number: int) -> int:
    """The line of the `}` that ends the debug section after line `number`; 0 if it holds anything but data."""
    for position in range(number + 1, len(lines) + 1):
        text = lines[position - 1].strip()
        if position == number + 1:
            if text != "{":
                return 0
        elif text == "}":
            return position
        elif text and not re.fullmatch(r"\.b(?:8|16|32|64)\s[\w$.,+\- ]*|[\w$]+:", text):
            return 0
    return 0


def canonical_ptx(ptx: str) -> str:
    """A text that is equal for PTX that differs in comments, layout, debug information and declared names only.

    Names are replaced one for one by the order in which they appear, the same way all through the module, so two
    texts with one canonical form are the same program up to names. In doubt a name is kept: names of `.extern`
    symbols, special registers, opcodes, and any that more than one kind of declaration could mean; text with `/*`
    or `#` outside a comment, or above 8 MiB, stays as it is. The result is not PTX (`#0` is no name there): it is for
    hashing.
    """
    plain_text = without_debug(ptx)[0]
    if len(plain_text) > _MAX_CANONICAL or _AMBIGUOUS.search(plain_text):
        return plain_text
    tokens = [
        (match.lastgroup or "", match[0]) for match in _TOKEN.finditer(plain_text) if match.lastgroup != "space"
    ]
    if ("mark", "#") in tokens:
        return plain_text
    plain, ranged = _declared(tokens)
    numbers: dict[str, str] = {}
    words: list[str] = []
    lines: list[str] = []
    for index, (kind, text) in enumerate(tokens):
        if kind == "name" and not _is_opcode(tokens, index):
            text = _renamed(text, plain, ranged, numbers)
        words.append(text)
        if text in (";", "{", "}"):
            lines.append(" ".join(words))
            words = []
    return "\n".join([*lines, " ".join(words)]).rstrip() + "\n"


def _renamed(text: str, plain: set[str], ranged: dict[str, int], numbers: dict[str, str]) -> str:
    base, dot, rest = text.partition(".")
    if base in plain and base in ranged:
        return text
    if base in plain or base in ranged:
        return numbers.setdefault(base, f"#{len(numbers)}") + dot + rest
    member = re.fullmatch(r"(.*?\D)(0|[1-9]\d*)", base)
    if member and int(member[2]) < ranged.get(member[1], 0):
        return numbers.setdefault(member[1], f"#{len(numbers)}") + f"<{member[2]}>" + dot + rest
    return text


def _declared(tokens: list[tuple[str, str]]) -> tuple[set[str], dict[str, int]]:
    """Names that the text declares and may be renamed, and register families (`%r<14>`) with their largest size."""
    plain: set[str] = set()
    kept: set[str] = set()
    ranged: dict[str, int] = {}
    for index, (kind, text) in enumerate(tokens):
        following = tokens[index + 1][1] if index + 1 < len(tokens) else ""
        if kind == "name" and following == ":":
            plain.add(text)
        if kind != "directive" or text not in (*_SPACES, ".entry", ".func"):
            continue
        external = index > 0 and tokens[index - 1][1] == ".extern"
        names, families = _names_after(tokens, index + 1, text)
        # Dynamic shared memory is `.extern` by syntax, and nobody outside knows its name.
        (kept if external and text != ".shared" else plain).update(names)
        for name, size in families.items():
            ranged[name] = max(size, ranged.get(name, 0))
    members = {
        name
        for name in plain
        for base, number in [_split(name)]
        if number is not None and number < ranged.get(base, 0)
    }
    usable = {name for name in plain - kept - members if not _SPECIAL.fullmatch(name)}
    if members:
        # A name that could be a register of a family: leave the whole family alone.
        ranged = {base: size for base, size in ranged.items() if base not in {_split(name)[0] for name in members}}
    return usable, {
        base: size for base, size in ranged.items() if base not in kept and not _SPECIAL.match(base + "0")
    }


def _split(name: str) -> tuple[str, int | None]:
    match = re.fullmatch(r"(.*?\D)(0|[1-9]\d*)", name)
    return (match[1], int(match[2])) if match else (name, None)


def _names_after(tokens: list[tuple[str, str]], index: int, directive: str) -> tuple[list[str], dict[str, int]]:
    """The names that one declaration declares: `.reg .b32 %r<5>, x`, `.param .u64 p`, `.entry k`, `.func (…) f`."""
    names: list[str] = []
    families: dict[str, int] = {}
    depth = 0
    while index < len(tokens):
        kind, text = tokens[index]
        if directive == ".func" and not names and text in "()":
            depth += {"(": 1, ")": -1}[text]
        elif kind == "name" and depth == 0:
            if index + 2 < len(tokens) and tokens[index + 1][1] == "<" and tokens[index + 2][0] == "number":
                families[text] = int(tokens[index + 2][1], 0)
                index += 3
            else:
                names.append(text)
            if directive != ".reg" or index + 1 >= len(tokens) or tokens[index + 1][1] != ",":
                break
        elif text in ";{}=" and depth == 0:
            break
        index += 1
    return names, families


def _is_opcode(tokens: list[tuple[str, str]], index: int) -> bool:
    """Whether the name at `index` begins an instruction, and so is none of the text's own."""
    if index + 1 < len(tokens) and tokens[index + 1][1] == ":":
        return False
    before = tokens[index - 1][1] if index else ";"
    if before in (";", "{", "}", ":"):
        return not _in_braces_of_operands(tokens, index)
    # `@%p1 bra` and `@!%p1 bra`
    return index >= 2 and (
        tokens[index - 2][1] == "@" or (tokens[index - 2][1] == "!" and tokens[index - 3][1] == "@")
    )


def _in_braces_of_operands(tokens: list[tuple[str, str]], index: int) -> bool:
    """Whether `{` before `index` opens a vector operand (`{%f1, %f2}`) and not a block."""
    if tokens[index - 1][1] != "{" or index < 2:
        return False
    opener, text = tokens[index - 2]
    return text in (",", "=") or (opener == "name" and text not in ("ret", "exit", "trap"))


def placeless(ptx: bytes, headers: Iterable[Path]) -> str:
    """The PTX without what differs from one work folder to another: paths, and the hash of a path in the names of
    anonymous namespaces. `headers`: folders of the toolchain, whose files keep their names in them.
    """
    folders = tuple(map(str, headers))
    text = re.sub(
        r'^([^\S\n]*\.file[^\S\n]+\d+[^\S\n]+)"([^"\n]*)"',
        lambda match: f'{match[1]}"{short_name(match[2], folders) or Path(match[2]).name}"',
        ptx.decode(errors="replace"),
        flags=re.MULTILINE,
    )
    in_names = re.compile(rf"(_GLOBAL__N__|_INTERNAL_)([0-9a-f]{{8}})(_\d+_{SOURCE_NAME.replace('.', '_')})")
    if len({match[2] for match in in_names.finditer(text)}) == 1:
        text = in_names.sub(r"\g<1>00000000\g<3>", text)
    return text
