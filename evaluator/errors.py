"""Every error of the evaluator.

    AssayError
    ├── UsageError              the caller asked for something that cannot be: exit code 2
    │   ├── UnknownProblemError
    │   └── WrongArgumentError  an argument of the Python interface, which is a ValueError too
    └── InfrastructureError     ours: the verdict is internal_error, retryable, without a reward
        ├── ToolchainMissingError    no compiler, or one that does not work
        ├── SandboxError        the isolation could not be set up
        │   └── JobKilledError       someone outside ended a job: another try may go well
        ├── StorageError        disk full, no write permission
        ├── GpuError            the GPU is missing, lost, or quarantined
        └── InternalError          a mistake in Assay's own code

A bad submission is never an error: stages return a `Ruling`, which becomes a verdict.
"""

import traceback
from dataclasses import dataclass
from pathlib import Path

from common.contract import Phase, Status


class AssayError(Exception):
    """What happened, where, and (in `remedy`) what to do about it."""

    def __init__(self, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.remedy = remedy


class UsageError(AssayError):
    """The caller asked for something that cannot be."""


class UnknownProblemError(UsageError):
    """No problem has this id; `remedy` names the nearest ones."""


class WrongArgumentError(UsageError, ValueError):
    """An argument of the Python interface is of a wrong type or out of range."""


class InfrastructureError(AssayError):
    """Our own failure: never held against a submission."""

    def ruling(self, phase: Phase = Phase.SCREEN) -> "Ruling":
        """How it ends an evaluation in `phase`."""
        return Ruling(Status.INTERNAL_ERROR, phase, str(self), self.remedy)


class ToolchainMissingError(InfrastructureError):
    """No compiler was found, or the one found does not work."""


class SandboxError(InfrastructureError):
    """The isolation that untrusted work needs could not be set up."""


class JobKilledError(SandboxError):
    """Someone outside ended a job, or one of its programs: what it would have shown is not known."""


class StorageError(InfrastructureError):
    """A folder of ours cannot be written, or its disk is full."""


class GpuError(InfrastructureError):
    """The GPU is missing, lost, or quarantined."""


class InternalError(InfrastructureError):
    """An unexpected error."""

    def __init__(self, error: Exception) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        super().__init__(
            f"This is a mistake in Assay itself: {type(error).__name__}: {str(error)[:1000]}{where}.",
            "Please report it, with the file if you can.",
        )


@dataclass(frozen=True)
class Ruling:
    """A stage's decision that ends an evaluation: the heart of a verdict."""

    status: Status
    phase: Phase
    message: str
    hint: str | None = None
