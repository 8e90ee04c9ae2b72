"""A submission in Python that does not parse: told as what any compiler refuses, with the line."""

import platform
from typing import Final

from common.contract import Status
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
