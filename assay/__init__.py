'''Grade CUDA kernels from Python: here in this process, or at a service.

    >>> from assay import grade
    >>> kernel = """
    ... __global__ void relu(const float* x, float* y, int n)
    ... {
    ...     int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...     y[i] = fmaxf(x[i], 0.0f);
    ... }
    ... """
    >>> verdict = grade(kernel, "relu", backend="sim")
    >>> verdict.status
    <Status.RUNTIME_ERROR: 'runtime_error'>
    >>> print(verdict.message)
    At n=1000: relu: thread 232 of block 3 read x[1000], one past the end, line 5.

A verdict about a kernel is a value, whatever it says. Its reward explains itself term by term:

    >>> for term in verdict.reward.terms:
    ...     if term.contribution:
    ...         print(f"{term.name} {term.contribution:+.1f}: {term.explanation}")
    compiled +0.1: It compiles.

`Client` and `AsyncClient` send a `Submission` to a service (`assay serve`) and wait for the same verdict:

    >>> from assay import Client, Submission
    >>> guarded = kernel.replace("y[i] =", "if (i < n) y[i] =")
    >>> with Client("http://127.0.0.1:8000") as client:
    ...     [each.status.value for each in client.evaluate_many(
    ...         Submission(problem="relu", source=source) for source in (kernel, guarded))]
    ['runtime_error', 'passed']

What keeps a kernel from being judged at all is an exception, never a low reward:

    UsageError               `grade` was asked for what cannot be
    └── UnknownProblemError  no problem has this id; `remedy` names the nearest ones
    NoVerdictError           of a client, and its last kind of `grade` too
    ├── RequestRefusedError  the service will not do this, now or later: a wrong key, an unknown problem
    └── ServiceError         the service or the way to it failed; the submission can be sent again
        └── EvaluatorError   the evaluator itself failed, here or there: `verdict` is `internal_error`

Each has a `remedy`: what to do, or None. Arguments of a wrong type or out of range are a ValueError; those
of `grade` are a UsageError too.

Nothing is loaded before it is used: `import assay` takes milliseconds, `Client` no evaluator, and `grade` no
service.
'''

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assay.grading import grade
    from common.client import (
        AsyncClient,
        Client,
        EvaluatorError,
        Finished,
        NoVerdictError,
        RequestRefusedError,
        ServiceError,
    )
    from common.contract import (
        Evaluation,
        ProblemFace,
        Reference,
        Reward,
        RewardName,
        Settings,
        Status,
        Submission,
        Verdict,
    )
    from common.launch_plan import LaunchPlan
    from evaluator import __version__
    from evaluator.errors import UnknownProblemError, UsageError

__all__ = [
    "AsyncClient",
    "Client",
    "Evaluation",
    "EvaluatorError",
    "Finished",
    "LaunchPlan",
    "NoVerdictError",
    "ProblemFace",
    "Reference",
    "RequestRefusedError",
    "Reward",
    "RewardName",
    "ServiceError",
    "Settings",
    "Status",
    "Submission",
    "UnknownProblemError",
    "UsageError",
    "Verdict",
    "__version__",
    "grade",
]

_HOMES = {
    "assay.grading": ("grade",),
    "common.client": (
        "AsyncClient",
        "Client",
        "EvaluatorError",
        "Finished",
        "NoVerdictError",
        "RequestRefusedError",
        "ServiceError",
    ),
    "common.contract": (
        "Evaluation",
        "ProblemFace",
        "Reference",
        "Reward",
        "RewardName",
        "Settings",
        "Status",
        "Submission",
        "Verdict",
    ),
    "common.launch_plan": ("LaunchPlan",),
    "evaluator": ("__version__",),
    "evaluator.errors": ("UnknownProblemError", "UsageError"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Load a name from its module when it is first asked for, and keep it."""
    if name not in _HOME:
        raise AttributeError(f"module 'assay' has no attribute {name!r}")
    found: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
