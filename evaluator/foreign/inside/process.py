"""What the sandbox starts: a zygote. It imports PyTorch once, and forks a clean process for each file.

A message from the referee is the lengths of a JSON text and of what follows it (8 bytes each, little-endian), then
both. `{"order": "begin", …}` brings a file; what comes after it is passed on to the process of that file, which
answers on stdout itself; `{"order": "end"}` brings secret bytes, which are sent back once that process and all that
it started are gone and nothing of it is left. Where anything is, this process ends; where the file's ended by itself,
it ends in the same way.

A message with `late_s`, a time of the clock CLOCK_MONOTONIC, and a `tag` is one that should be answered by then. At
that time this process writes to stderr what of the file is under way (`STAGE`): a line with the tag in front.

The file's process cannot get at the secret: it reads from a pipe of its own, and this process, which has the
descriptor of stdin, is not dumpable, so that nobody but root may look into it. So who sends it back is this process.
"""

import contextlib
import ctypes
import gc
import json
import math
import os
import select
import signal
import struct
import sys
import time
import traceback
from types import ModuleType
from typing import Any, Final, NoReturn

from evaluator.foreign.inside.refusals import STAGE

_SPARED: Final = "torch._meta_registrations"
"""Operators on tensors without contents, written in Python: a third of the time of `import torch`."""
_PR_SET_DUMPABLE: Final = 4
_PR_SET_CHILD_SUBREAPER: Final = 36
_PIECE_BYTES: Final = 1 << 20
_FILE: Final = "reference.py"
_SAID: Final = "said"
"""The file that holds what a file's process prints, which the next one's callers are not to see."""
_LAST_WORDS_BYTES: Final = 1 << 12
_LEAVE_MS: Final = 2000
"""How long a file's process may take to end once it is asked nothing more."""
_SHARED_FOLDERS: Final = (".", "/tmp", "/dev/shm")


def _import_torch() -> None:
    sys.modules[_SPARED] = ModuleType(_SPARED)
    try:
        import torch
    finally:
        del sys.modules[_SPARED]  # who imports it later has it whole
    with contextlib.suppress(ImportError):
        # Some versions set the type of generators there, and without it make none.
        import torch._prims.rng_prims  # noqa: F401


class _Zygote:
    """Serves one file after another, each by a process of its own."""

    def __init__(self, processors: int, most_bytes: int, most_output_bytes: int) -> None:
        self._processors, self._most_bytes, self._most_output_bytes = processors, most_bytes, most_output_bytes
        self._libc = ctypes.CDLL(None)
        self._libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # Of a folder that others use too nothing can be said.
        self._own_folders = [folder for folder in _SHARED_FOLDERS if _entries(folder) == []]
        self._child = self._ended = self._to_child = self._said = -1
        self._late_s, self._tag = math.inf, ""

    def serve(self) -> None:
        """Until stdin ends."""
        while lengths := self._next_lengths():
            length, size = struct.unpack("<QQ", lengths)
            encoded = _read(length)
            message = json.loads(encoded)
            if message.get("order") == "begin":
                self._begin(message["form"], _read(size))
            elif message.get("order") == "end":
                self._end(_read(size))
            else:
                self._late_s, self._tag = message.get("late_s", math.inf), message.get("tag", "")
                self._pass_on(lengths + encoded, size)

    def _next_lengths(self) -> bytes:
        poller = select.poll()
        poller.register(0, select.POLLIN)
        if self._ended >= 0:
            poller.register(self._ended, select.POLLIN)
        ready: list[tuple[int, int]] = []
        while not ready:
            left_s = self._late_s - time.monotonic()
            ready = poller.poll(None if left_s == math.inf else max(0.0, left_s) * 1000)
            if not ready and time.monotonic() >= self._late_s:
                self._say_what_is_under_way()
        self._late_s = math.inf
        if any(descriptor == self._ended for descriptor, _ in ready):
            self._end_as_the_child()
        return _read(16)

    def _say_what_is_under_way(self) -> None:
        """Once of each message. It may be answered already: nobody asks for the line then."""
        self._late_s = math.inf
        stage = bytes(byte for byte in STAGE[:] if byte >= 0x20)
        _write(2, f"{self._tag} ".encode() + stage + b"\n")

    def _begin(self, form: str, text: bytes) -> None:
        exclusive = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(_FILE, os.O_WRONLY | exclusive, 0o600), "wb") as file:
            file.write(text)
        self._said = os.open(_SAID, os.O_RDWR | exclusive, 0o600)
        STAGE[:] = bytes(len(STAGE))
        reading, self._to_child = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            try:
                self._be_the_child(form, text, reading)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(1)
        os.close(reading)
        self._ended = os.pidfd_open(self._child)

    def _be_the_child(self, form: str, text: bytes, reading: int) -> None:
        """The file's own prints go where nobody else sees them, and it finds nothing on stdin."""
        os.close(self._to_child)
        sink = os.dup(1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(self._said, 1)
        os.dup2(self._said, 2)
        os.close(self._said)
        self._libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # so that the sandbox can count what it holds
        import torch

        from evaluator.foreign.inside.server import serve_reference

        torch.set_num_threads(self._processors)
        with os.fdopen(reading, "rb") as source, os.fdopen(sink, "wb") as answers:
            serve_reference(source, answers, text.decode(), self._most_bytes, self._most_output_bytes, form)

    def _pass_on(self, head: bytes, size: int) -> None:
        try:
            _write(self._to_child, head)
            while size:
                piece = _read(min(size, _PIECE_BYTES))
                _write(self._to_child, piece)
                size -= len(piece)
        except BrokenPipeError:
            self._end_as_the_child()

    def _end(self, secret: bytes) -> None:
        os.close(self._to_child)
        poller = select.poll()
        poller.register(self._ended, select.POLLIN)
        if not poller.poll(_LEAVE_MS) or os.waitpid(self._child, 0)[1] != 0:
            os._exit(0)
        with contextlib.suppress(ChildProcessError):
            while True:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:  # it left a process that still runs
                    os._exit(0)
        os.close(self._ended)
        os.close(self._said)
        self._child = self._ended = self._to_child = self._said = -1
        for name in (_FILE, _SAID):
            os.unlink(name)
        if any(_entries(folder) for folder in self._own_folders):
            os._exit(0)
        _write(1, secret)

    def _end_as_the_child(self) -> NoReturn:
        _, status = os.waitpid(self._child, 0)
        size = os.fstat(self._said).st_size
        _write(2, os.pread(self._said, _LAST_WORDS_BYTES, max(0, size - _LAST_WORDS_BYTES)))
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            with contextlib.suppress(OSError):  # SIGKILL has its default already
                signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(max(0, code))


def _entries(folder: str) -> list[str] | None:
    try:
        return os.listdir(folder)
    except OSError:
        return None


def _read(size: int) -> bytes:
    """So many bytes of stdin, fewer where it ends."""
    read = bytearray()
    while len(read) < size and (piece := os.read(0, min(size - len(read), _PIECE_BYTES))):
        read += piece
    return bytes(read)


def _write(descriptor: int, data: bytes) -> None:
    rest: Any = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def main() -> None:
    """Import what every file needs, then serve."""
    _import_torch()
    import evaluator.foreign.inside.server  # noqa: F401

    gc.collect()
    gc.freeze()  # or a collection in each child would copy all of it
    processors, most_bytes, most_output_bytes = map(int, sys.argv[1:4])
    _Zygote(processors, most_bytes, most_output_bytes).serve()


if __name__ == "__main__":
    main()
