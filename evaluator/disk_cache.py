"""Content-addressed cache on disk, written by trusted code only.

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
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from common.file_replacement import ASIDE, replace_file

FORMAT: Final = 1
"""Version of what is stored: part of every key, so that an old cache is never misread."""

SPARED_S: Final = "spared_s"
"""In an entry of a `CallersCache` that was made for others: how long that took, seconds in decimal."""
_TOOK_S: Final = "took_s"
_MAGIC: Final = b"assay-cache-1\n"
_ABANDONED_S: Final = 600.0
_FOLDERS: Final = "headers"
_SHARE_OF_FOLDERS: Final = 0.5
"""Of the capacity, the most that folders take: they are large, and few. The rest is for entries."""
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

    def of_caller(self, caller: str) -> "CallersCache":
        """The same cache for one of several callers, who are not to learn of each other."""
        return CallersCache(self, caller)

    @property
    def folders(self) -> Path:
        """Where folders lie that others keep beside the entries, one for each key. They count to the capacity."""
        return self.root / _FOLDERS

    @property
    def room_for_folders_bytes(self) -> int:
        """What all of them together may take."""
        return int(self.capacity_bytes * _SHARE_OF_FOLDERS)

    def trim_folders(self) -> None:
        """Remove those that were used least recently (by their time of modification), until the others have room."""
        held = sorted(self._held_folders(), reverse=True)
        left = self.room_for_folders_bytes
        for _, size, folder in held:
            left -= size
            if left < 0:
                shutil.rmtree(folder, ignore_errors=True)

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

    def _held_folders(self) -> list[tuple[float, int, Path]]:
        """When each was used last, and its bytes."""
        found: list[tuple[float, int, Path]] = []
        for folder in self.folders.glob("[0-9a-f]*"):
            with contextlib.suppress(OSError):
                if folder.is_dir():
                    size = sum(one.stat().st_size for one in folder.iterdir())
                    found.append((folder.stat().st_mtime, size, folder))
        return found

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
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, data, aside=self.root)
        except OSError as error:
            self._complain(error)
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
        """Remove entries, least recently used first, until all fits well; bytes that remain. Readers lose nothing:
        a file that is open stays readable, and one that is gone is a miss.
        """
        files: list[tuple[float, int, Path]] = []
        for path in self.root.glob(f"{ASIDE}*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED_S:
                    path.unlink()
        for path in self.root.glob("[0-9a-f][0-9a-f]/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                files.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in (*files, *self._held_folders()))
        if total <= capacity_bytes:
            return total
        for _, size, path in sorted(files, key=lambda file: file[0]):
            if total <= capacity_bytes * _SHARE_KEPT:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                total -= size
        return total


class CallersCache(Cache):
    """A cache of which one caller sees what it has asked for itself; what others had made spares the work alone."""

    def __init__(self, whole: Cache, caller: str) -> None:
        super().__init__(whole.root, whole.capacity_bytes)
        self._whole, self._caller = whole, caller

    def get_or_make(self, key: str, make: Callable[[], Mapping[str, bytes]]) -> tuple[Mapping[str, bytes], bool]:
        """As a cache's; what had been made for others alone counts as made now, and SPARED_S says how long that took.

        What a caller has asked for is remembered in the cache, and evicted from it like everything.
        """

        def timed() -> Mapping[str, bytes]:
            since_s = time.monotonic()
            made = make()
            return {**made, _TOOK_S: repr(time.monotonic() - since_s).encode()}

        made, hit = self._whole.get_or_make(key, timed)
        asked = key_of("asked for", self._caller, key)
        if self._whole._read(asked) is not None:
            return made, hit
        self._whole._write(asked, {})
        return ({**made, SPARED_S: made.get(_TOOK_S, b"0")} if hit else made), False


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
