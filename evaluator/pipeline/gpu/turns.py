"""Turns of the referees of one GPU: several verify at the same time, and one that times has the GPU for itself.

A queue of files in a folder that all of them know: who comes takes the next number, as a file that it holds locked,
and waits for the files of all that came before and that it cannot go together with. So nobody is overtaken, and the
kernel lets the lock of a process that dies go, however it dies and wherever in the queue it was.
"""

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from evaluator.backends.gpu.contexts import ContextFile
from evaluator.errors import GpuError

_TICKET: Final = re.compile(r"\d{12}-(?:together|alone)")
_NUMBERS: Final = "numbers"
_CONTEXTS: Final = "contexts.lock"


class GpuTurns:
    """The queue of one GPU. Safe to use from several processes, and from several threads of each."""

    def __init__(self, folder: Path | None) -> None:
        """`folder`: the GPU's; None where one referee has it to itself, which waits for nobody."""
        self._folder = folder
        self.contexts = ContextFile(None if folder is None else folder / _CONTEXTS)
        """What keeps contexts from being made and ended beside a timing; also that of one referee alone."""

    @contextlib.contextmanager
    def job(self) -> Iterator["GpuTurn"]:
        """A turn together with others, while the block runs. Raises GpuError where the folder cannot be used."""
        turn = GpuTurn(self._folder, self.contexts)
        try:
            turn.together()
            yield turn
        finally:
            turn.leave()


class GpuTurn:
    """The turn of one job."""

    def __init__(self, folder: Path | None, contexts: ContextFile | None = None) -> None:
        self._folder, self._contexts = folder, contexts
        self._ticket: BinaryIO | None = None

    def together(self) -> None:
        """Give back what is held, and wait until nobody who came before has the GPU for itself, or wants it."""
        self._take("together")

    def alone(self) -> None:
        """Give back what is held, and wait until all who came before have left."""
        self._take("alone")

    @contextlib.contextmanager
    def exclusive(self, no_new_contexts: bool = False) -> Iterator[None]:
        """Alone while the block runs, and together with others after it; still alone where that raises.

        `no_new_contexts`: as in `without_new_contexts`, from when the turn is had until the block ends or raises.
        """
        self.alone()
        with self.without_new_contexts() if no_new_contexts else contextlib.nullcontext():
            yield
        self.together()

    def without_new_contexts(self) -> contextlib.AbstractContextManager[None]:
        """While the block runs no runner of the GPU makes or ends a context (`contexts.ContextFile.without_new`)."""
        return contextlib.nullcontext() if self._contexts is None else self._contexts.without_new()

    def give_way(self) -> None:
        """Let those go first who wait to have the GPU for themselves, if there are any: held together, between steps
        that nobody else is to be in the middle of.
        """
        if self._folder is None or self._ticket is None:
            return
        if any(file.name.endswith("alone") for file in _tickets(self._folder)):
            self.together()

    def leave(self) -> None:
        """Give back what is held; more than once is as once."""
        ticket, self._ticket = self._ticket, None
        if ticket is not None:
            with contextlib.suppress(OSError):
                os.unlink(ticket.name)
            ticket.close()

    def _take(self, kind: str) -> None:
        self.leave()
        if self._folder is None:
            return
        try:
            self._ticket, before = _drawn(self._folder, kind)
            for file in before:
                if kind == "alone" or file.name.endswith("alone"):
                    _await_end(file)
        except OSError as error:
            self.leave()
            raise GpuError(
                f"The referees of one GPU cannot take turns: {self._folder}: {error.strerror or error}.",
                "Make the data folder writable, with some room on its disk; or set ASSAY_REFEREES_PER_GPU to 1.",
            ) from error


def _drawn(folder: Path, kind: str) -> tuple[BinaryIO, list[Path]]:
    """The next number, and the files of those before, in their order. Raises OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(folder / _NUMBERS, "a+b") as numbers:
        fcntl.flock(numbers, fcntl.LOCK_EX)
        before = _tickets(folder)
        # Of those that are there: once all have left, numbers begin again.
        number = int(before[-1].name.partition("-")[0]) + 1 if before else 0
        ticket = open(folder / f"{number:012d}-{kind}", "xb")  # noqa: SIM115
        fcntl.flock(ticket, fcntl.LOCK_EX)
    return ticket, before


def _tickets(folder: Path) -> list[Path]:
    return sorted(folder / name for name in os.listdir(folder) if _TICKET.fullmatch(name))


def _await_end(file: Path) -> None:
    """Wait until nobody holds it, and remove what a process left that has died. Raises OSError.

    Its number is given to nobody else as long as the one who waits has a higher one.
    """
    with contextlib.suppress(FileNotFoundError), file.open("rb") as ticket:
        fcntl.flock(ticket, fcntl.LOCK_SH)
        file.unlink()
