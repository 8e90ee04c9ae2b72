"""How a command speaks (errors in plain words, exit codes, standard output that may go away) and uses its memory."""

import contextlib
import gc
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from evaluator.errors import AssayError

EXIT_PASSED, EXIT_OTHER, EXIT_USAGE, EXIT_INTERNAL = 0, 1, 2, 3
EXIT_INTERRUPTED = 130
_MAX_ERROR_CHARS = 2000
_M_TRIM_THRESHOLD: Final = -1
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3
"""mallopt's numbers for them, in glibc's malloc.h."""
_HEAP_BLOCK_BYTES: Final = 32 << 20
"""The most that glibc lets be a block of its heap. The tensors of a trial that travels have up to 6 MiB together,
twice that in float64."""
_KEPT_BYTES: Final = 256 << 20
"""An oracle holds a dozen of such arrays of float64."""
_STEP_BYTES: Final = 16 << 20
"""By which the heap grows: more than the largest array of a trial."""


@contextmanager
def importing() -> Iterator[None]:
    """Imports without the garbage collector, which leaves alone afterwards what is there: modules stay.

    It would go through them again and again, for a tenth of what they take.
    """
    collecting, before = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > before:
            gc.freeze()
        if collecting:
            gc.enable()


def keep_freed_memory() -> None:
    """Let this process use again what it freed, up to 256 MiB of it.

    glibc gives each large array back to the system at once, and the kernel then has to clear the next one page by
    page: a fifth of the processor time of a grading of some seconds. A process that lasts had better give it back.
    """
    import ctypes

    with contextlib.suppress(AttributeError, OSError):  # another C library has no mallopt
        set_option = ctypes.CDLL(None).mallopt
        set_option(_M_MMAP_THRESHOLD, _HEAP_BLOCK_BYTES)
        set_option(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        set_option(_M_TOP_PAD, _STEP_BYTES)


class CommandError(click.ClickException):
    """An error that is shown as one or two lines, never as a traceback."""

    exit_code = EXIT_USAGE

    def show(self, file: object = None) -> None:
        # File names and problem ids come from outside: no terminal escape, and not more than a screen.
        from evaluator.report.terminal import printable

        shown = printable(self.message)
        if len(shown) > _MAX_ERROR_CHARS:
            shown = shown[:_MAX_ERROR_CHARS] + " ..."
        with contextlib.suppress(OSError):  # where nothing can be printed, the exit code remains
            click.echo(f"assay: {shown}", err=True)


class InternalCommandError(CommandError):
    """Our own fault."""

    exit_code = EXIT_INTERNAL


class InterruptedCommandError(CommandError):
    """Ctrl-C."""

    exit_code = EXIT_INTERRUPTED


@contextmanager
def plain_errors() -> Iterator[None]:
    """Whatever goes wrong, as text with its remedy: a traceback would end with the exit code of a bad submission."""
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except KeyboardInterrupt as error:
        raise InterruptedCommandError("interrupted; everything that ran was ended.") from error
    except Exception as error:
        # Here, since `--help` needs none of it.
        from evaluator.errors import AssayError, UsageError

        if isinstance(error, UsageError):
            raise CommandError(_with_remedy(error)) from error
        if isinstance(error, AssayError):
            raise InternalCommandError(_with_remedy(error)) from error
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise InternalCommandError(
            f"This is a mistake in Assay itself: {type(error).__name__}: {error} "
            f"({Path(where.filename).name}:{where.lineno}).\n       Please report it, with the file if you can."
        ) from error


@contextmanager
def printing() -> Iterator[None]:
    """What is printed to standard output here is flushed too; a reader that left does not change the exit code."""
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        # Python flushes once more at its end, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise InternalCommandError(f"Standard output cannot be written: {error.strerror}.") from error


def _with_remedy(error: "AssayError") -> str:
    return f"{error}\n       {error.remedy}" if error.remedy else str(error)
