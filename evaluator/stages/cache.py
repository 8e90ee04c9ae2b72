"""Content-addressed cache on disk, written by trusted code only, and the canonical form of PTX.

An entry is a mapping of names to bytes in one file: a header with lengths and a checksum, then the contents. It
appears by an atomic rename, so a reader sees all of it or none. One maker at a time for each key, across threads and
processes, by `flock` on a lock file: the kernel drops the lock of a process that dies, however it dies.

The cache is never needed: where its folder cannot be written, work is done again each time and `warning` says why.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

FORMAT: Final = 1
"""Version of what is stored: part of every key, so that an old cache is never misread."""

_MAGIC: Final = b"assay-cache-1\n"
_ABANDONED_S: Final = 600.0
_SHARE_KEPT: Final = 0.9
"""Eviction goes on to this share of the capacity, so that it is not needed again at once."""


def key_of(*parts: str | bytes) -> str:
    """The key for `parts`: SHA-256 over them and their lengths, and over FORMAT."""
    digest = hashlib.sha256(f"{FORMAT}\n".encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


class Cache:
    """Entries under `root`, least recently used dropped beyond `capacity_bytes`. Processes may share it."""

    def __init__(self, root: Path, capacity_bytes: int) -> None:
        self.root = root
        self.capacity_bytes = capacity_bytes
        self.warning: str | None = None
        """Why results are not being stored, in words; None while all is well."""
        self._size_bytes: int | None = None
        self._counting = threading.Lock()

    def get_or_make(self, key: str, make: Callable[[], Mapping[str, bytes]]) -> tuple[Mapping[str, bytes], bool]:
        """The entry for `key` and whether it was there; `make` makes it if not. What `make` raises is not stored.

        Of several callers that want the same key at once, in any process, one makes it and the others wait for it.
        `make` must not ask this cache for another key: locks are shared by keys.
        """
        if (entry := self._read(key)) is not None:
            return entry, True
        with self._exclusive(key):
            if (entry := self._read(key)) is not None:
                return entry, True
            made = make()
            self._write(key, made)
            return made, False

    def update(
        self, key: str, change: Callable[[Mapping[str, bytes] | None], Mapping[str, bytes]]
    ) -> Mapping[str, bytes]:
        """Replace the entry for `key` by what `change` makes of it (None: there is none); no update is lost."""
        with self._exclusive(key):
            made = change(self._read(key))
            self._write(key, made)
            return made

    def _path(self, key: str) -> Path:
        if not re.fullmatch(r"[0-9a-f]{8,128}", key):
            raise ValueError(f"a cache key is lower-case hexadecimal, not {key!r}")
        return self.root / key[:2] / key

    def _read(self, key: str) -> dict[str, bytes] | None:
        """The entry, or None where there is none or it is not whole; one that is not whole is removed."""
        path = self._path(key)
        try:
            with path.open("rb") as file:
                data = file.read()
                entry = _unpack(data)
                if entry is None:
                    self._discard(path, os.fstat(file.fileno()))
                else:
                    with contextlib.suppress(OSError):
                        os.utime(path)
        except OSError:
            return None
        return entry

    def _discard(self, path: Path, seen: os.stat_result) -> None:
        """Remove a damaged file, unless another process has replaced it already."""
        with contextlib.suppress(OSError):
            if path.stat().st_ino == seen.st_ino:
                path.unlink()

    @contextlib.contextmanager
    def _exclusive(self, key: str) -> Iterator[None]:
        """Hold the key's lock, or nothing where no lock file can be made.

        Lock files are never removed: a removed one would let a second maker in. There are 4096 of them, shared by
        keys, so that they cannot pile up; the price is that two keys may now and then wait for each other.
        """
        path = self.root / "locks" / key[:3]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("ab")
        except OSError as error:
            self._complain(error)
            yield
            return
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _write(self, key: str, entry: Mapping[str, bytes]) -> None:
        path = self._path(key)
        data = _pack(entry)
        if len(data) > self.capacity_bytes:
            return
        temporary: str | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.root, prefix="new-", delete=False) as file:
                temporary = file.name
                file.write(data)
            os.replace(temporary, path)
        except OSError as error:
            self._complain(error)
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                self._evict(self.capacity_bytes // 2)
            return
        self.warning = None
        self._account(len(data))

    def _complain(self, error: OSError) -> None:
        self.warning = f"the cache in {self.root} cannot be written ({error.strerror or error}): work is not reused"

    def _account(self, added_bytes: int) -> None:
        """Count what this process stored; look at the whole folder only at the start and when it may be full."""
        with self._counting:
            if self._size_bytes is not None:
                # Twice, because other processes store as well: so the folder is looked at in time.
                self._size_bytes += 2 * added_bytes
            if self._size_bytes is None or self._size_bytes > self.capacity_bytes:
                self._size_bytes = self._evict(self.capacity_bytes)

    def _evict(self, capacity_bytes: int) -> int:
        """Remove entries, least recently used first, until they fit well; bytes that remain. Readers lose nothing:
        a file that is open stays readable, and one that is gone is a miss.
        """
        files: list[tuple[float, int, Path]] = []
        for path in self.root.glob("new-*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED_S:
                    path.unlink()
        for path in self.root.glob("[0-9a-f][0-9a-f]/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in files)
        if total <= capacity_bytes:
            return total
        for _, size, path in sorted(files, key=lambda file: file[0]):
            if total <= capacity_bytes * _SHARE_KEPT:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size
        return total


def _pack(entry: Mapping[str, bytes]) -> bytes:
    body = b"".join(entry.values())
    lengths = json.dumps({name: len(data) for name, data in entry.items()}).encode()
    checksum = hashlib.sha256(lengths + b"\n" + body).hexdigest().encode()
    return _MAGIC + checksum + b"\n" + lengths + b"\n" + body


def _unpack(data: bytes) -> dict[str, bytes] | None:
    """The entry in `data`, or None where it is truncated, altered or of another format."""
    checksum, separator, rest = data[len(_MAGIC) :].partition(b"\n")
    if not data.startswith(_MAGIC) or not separator:
        return None
    if hashlib.sha256(rest).hexdigest().encode() != checksum:
        return None
    lengths, _, body = rest.partition(b"\n")
    entry: dict[str, bytes] = {}
    position = 0
    for name, length in json.loads(lengths).items():
        entry[name] = body[position : position + length]
        position += length
    return entry


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


def canonical(ptx: str) -> str:
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
