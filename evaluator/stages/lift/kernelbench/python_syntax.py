"""A submission in Python that does not parse: told as what any compiler refuses, with the line."""

import platform
from typing import Annotated, Final

from pydantic import Field, StrictInt, ValidationError

from common.contract import Status
from common.wire import Wire
from evaluator.foreign.zygote import readable_packages
from evaluator.python_command import this_python
from evaluator.sandbox.sandbox import Job, Limits, Sandbox
from evaluator.stages.lift.binding import LiftRefusedError

SOURCE: Final = "kernel.py"
"""What messages call the text, as `triton/inside/record.py` does: the user's own name is not graded."""
COMPILER: Final = f"python {platform.python_version()}"


class NotPythonError(LiftRefusedError):
    """A text whose `line` Python does not parse, at whatever sizes it is called; `said` are Python's own words."""

    def __init__(self, line: int, said: str) -> None:
        version = ".".join(platform.python_version_tuple()[:2])
        super().__init__(
            Status.COMPILE_ERROR,
            f"{SOURCE}:{line}: {said}",
            f"This line is not Python {version}: look there, and in the line above, for a missing colon, bracket or "
            "quote, and for indentation that does not fit.",
        )


def check_syntax(source: str, sandbox: Sandbox) -> None:
    """Raises NotPythonError where Python does not parse a text, InfrastructureError where it could not be asked.

    In a sandbox: the parser is C code that a text can crash. One that does so, or is too large, has no error here.
    """
    limits = Limits(wall_s=10.0, cpu_s=5.0, memory_bytes=1 << 30, file_bytes=1 << 20, output_bytes=1 << 16)
    command = tuple(this_python("-c", _PARSES))
    run = sandbox.run(Job(command, files={SOURCE: source.encode()}, readable=readable_packages(), limits=limits))
    if not run.stdout.strip():
        return
    try:
        found = _Found.model_validate_json(run.stdout)
    except ValidationError:
        return
    raise NotPythonError(found.line, found.said)


_PARSES: Final = f"""
import json
try:
    compile(open({SOURCE!r}, encoding="utf-8").read(), {SOURCE!r}, "exec", dont_inherit=True)
except SyntaxError as error:
    print(json.dumps({{"line": error.lineno or 1, "said": error.msg[:300]}}))
"""


class _Found(Wire):
    line: StrictInt
    said: Annotated[str, Field(max_length=300)]
