"""Why a file cannot be a problem, with the line that says so."""

import contextlib
import mmap
import traceback
from collections.abc import Iterator
from typing import Final

FILE: Final = "reference.py"
"""The name under which the file's code is compiled, by which its lines are found in a traceback."""
_MOST_CHARACTERS: Final = 500


STAGE_BYTES: Final = 64
STAGE: Final = mmap.mmap(-1, STAGE_BYTES)
"""What of the file is under way, shared with the process that forked this one: it says so of a file that is late."""


class RefusedError(Exception):
    """The file cannot be a problem."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


class NoOneAnswerError(RefusedError):
    """The file runs, and its answer is another each time: nothing can be compared with it."""


class TooLargeError(RefusedError):
    """The file's inputs, outputs or work are larger than can be judged here."""

    def __init__(
        self,
        found: int,
        most: int,
        line: int | None = None,
        what: str = "inputs and parameters",
        unit: str = "bytes",
        counted: bool = True,
    ) -> None:
        """`counted`: whether `found` is all that there is, and not where counting ended."""
        super().__init__(f"its {what} take {found:,} {unit}, and may take {most:,} here", line)
        self.found = found if counted else None
        """How much it is, in units of what `of` names."""
        self.of = f"{what} {line}"


class TooMuchMemoryError(TooLargeError):
    """What the file asks for while it is carried out is more than its process may have."""

    def __init__(self, reason: str, line: int | None) -> None:
        RefusedError.__init__(self, reason, line)
        self.found, self.of = None, "memory"


@contextlib.contextmanager
def refused_where_it_fails(deed: str) -> Iterator[None]:
    """Turn whatever the file's own code raises into a refusal that says `deed` and the line of the file."""
    before, STAGE[:] = STAGE[:], deed.encode()[:STAGE_BYTES].ljust(STAGE_BYTES, b"\0")
    try:
        yield
    except RefusedError:
        raise
    except SyntaxError as error:
        raise RefusedError(f"it is not Python: {error.msg}", error.lineno) from error
    except ModuleNotFoundError as error:
        module = str(error.name or error).partition(".")[0]
        raise RefusedError(
            f"{deed} fails: ModuleNotFoundError: it imports `{module}`, which is not installed beside Assay; a "
            "reference may import only what is",
            _line_of(error),
        ) from error
    except MemoryError as error:
        raise TooMuchMemoryError(f"{deed} takes more memory than it may", _line_of(error)) from error
    except BaseException as error:  # a file may raise SystemExit or a class of its own
        said = f"{type(error).__name__}: {error}"[:_MOST_CHARACTERS]
        if "can't allocate memory" in said:
            told = f"{deed} takes more memory than it may ({said})"
            raise TooMuchMemoryError(told, _line_of(error)) from error
        raise RefusedError(f"{deed} fails: {said.rstrip('. ')}{_why(error, said)}", _line_of(error)) from error
    finally:
        STAGE[:] = before


_NETWORK: Final = ("name resolution", "Network is unreachable", "Connection refused", "Name or service not known")
"""What is said where there is no network: not that there is none."""
_GPU: Final = (
    "not compiled with CUDA",
    "requires CUDA support",
    "accelerator device when none",
    "NVIDIA driver",
    "CUDA driver",
    "No CUDA GPU",
    "no NVIDIA GPU",
    "CUDA error",
)


def _why(error: BaseException, said: str) -> str:
    """What of the place where the file is carried out makes it fail, as a clause; empty where nothing of it may."""
    if any(one in said for one in _NETWORK):
        return "; a file of others has no network"
    if any(one in said for one in _GPU):
        return (
            "; a file of others is carried out on the CPU: 'cuda' and `.cuda()` are the CPU in it, and for what else "
            "needs a GPU ask torch.cuda.is_available() first"
        )
    if isinstance(error, FileNotFoundError | PermissionError) or "Read-only file system" in said:
        return "; a file of others sees no files of this machine but those that it writes itself"
    return ""


def _line_of(error: BaseException) -> int | None:
    """The last line of the file that a traceback went through."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE]
    return lines[-1] if lines else None


def current_line() -> int | None:
    """The line of the file that is being carried out."""
    lines = [frame.lineno for frame in traceback.extract_stack() if frame.filename == FILE]
    return lines[-1] if lines else None
