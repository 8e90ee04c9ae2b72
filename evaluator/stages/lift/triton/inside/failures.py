"""What ended a call of the submission, as data: of which kind it is, in which line, and what it says."""

import traceback
from pathlib import Path
from typing import Any, Final

from evaluator.backends.model_binding import MisfitError
from evaluator.stages.lift.triton.inside.memory import NotRecordedError, ReadsDataError

_MOST: Final = 600


class WrongResultError(Exception):
    """The entry function returned something else than the outputs."""


def failure_of(error: BaseException, source: str) -> dict[str, Any]:
    """`{"kind", "line", "said"}`; `source` is the submission's file."""
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import OutOfResources

    text = Path(source).read_text()
    line = _line_of(error, source)
    chain = list(_chain(error))
    for one in chain:
        if isinstance(one, ReadsDataError):
            return _failure("reads_data", line, str(one))
        if isinstance(one, NotRecordedError):
            return _failure("not_recorded", line, str(one))
    if isinstance(error, CompilationError):
        return _of_compiler(chain, text)
    if isinstance(error, OutOfResources):
        return _failure("resources", line, str(error))
    if isinstance(error, SyntaxError):
        return _failure("syntax", error.lineno, error.msg)
    if isinstance(error, ModuleNotFoundError | ImportError):
        return _failure("no_module", line, str(error))
    if isinstance(error, MemoryError):
        return _failure("memory", line, str(error))
    if isinstance(error, MisfitError):
        return _failure("misfit", None, str(error))
    if isinstance(error, WrongResultError):
        return _failure("result", None, str(error))
    if isinstance(error, SystemExit):
        return _failure("exit", line, str(error.code))
    return _failure("exception", line, f"{type(error).__name__}: {error}")


def _failure(kind: str, line: int | None, said: str) -> dict[str, Any]:
    return {"kind": kind, "line": line, "said": said[:_MOST]}


def _chain(error: BaseException | None) -> Any:
    while error is not None:
        yield error
        error = error.__cause__


def _line_of(error: BaseException, source: str) -> int | None:
    """The deepest line of the submission in the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((one.lineno for one in reversed(frames) if Path(one.filename).name == source), None)


def _of_compiler(chain: list[BaseException], text: str) -> dict[str, Any]:
    """A kernel that Triton does not compile: the deepest place in the submission, and the deepest reason."""
    line = None
    for one in chain:
        node, part = getattr(one, "node", None), getattr(one, "src", None)
        at = text.find(part.rstrip()) if isinstance(part, str) and part.strip() else -1
        if at >= 0 and node is not None:
            line = text.count("\n", 0, at) + int(node.lineno)
    last = chain[-1]
    said = getattr(last, "error_message", None) or (str(last) if not hasattr(last, "src") else "")
    kind = type(last).__name__
    return _failure("compile", line, said or f"Triton does not compile it ({kind})")
