"""What verification saw: trials, faults, and the worst wrong element."""

from typing import Literal

from pydantic import Field

from common.wire import Wire


class OtherThread(Wire):
    """The second thread of a race, and what it did."""

    thread: tuple[int, int, int]
    block: tuple[int, int, int]
    line: int | None = None
    act: Literal["read", "write", "atomic", "wait"]
    """`wait`: at a barrier."""


class Fault(Wire):
    """An illegal act of a running kernel, pinned to its thread and line where the backend can tell."""

    kind: str
    """For example `out_of_bounds`, `misaligned`, `null`, `assert`, `trap`, `watchdog`, `deadlock`."""
    message: str
    kernel: str | None = None
    line: int | None = None
    """Line of the submission's source, from 1."""
    thread: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    buffer: str | None = None
    """Name of the tensor or temporary that was nearest to the address."""
    element: int | None = None
    """Flat element index into `buffer`; may lie outside it."""
    other: OtherThread | None = None
    """Whom a race was with; null for everything else."""


class Mismatch(Wire):
    """The worst wrong element of one output."""

    output: str
    index: tuple[int, ...]
    expected: str
    actual: str
    """Values as text with enough digits, so that nan and inf survive JSON."""
    error: float | None
    """Absolute error over the allowed error at that element; above 1 is wrong; null where no number can say it."""
    wrong_count: int
    """How many elements of the output are wrong."""
    count: int
    """How many elements the output has."""
    pattern: str
    """Where the wrong elements lie, in words: for example `only the last 31 of 1055 elements`."""
    heat: tuple[tuple[float, ...], ...] = ()
    """Share of wrong elements over the output's shape, as a grid of at most 48 x 48 cells, rows first."""
    shape: tuple[int, ...] = ()
    """Shape of the output; empty when not recorded. It labels the axes of `heat`."""


class Trial(Wire):
    """One run of the submission on one input."""

    sizes: dict[str, int]
    scalars: dict[str, float] = Field(default_factory=dict)
    """Values of the problem's scalars; hidden trials vary them."""
    distribution: str
    """Name of the input distribution or probe."""
    hidden: bool
    """True when the sizes are not among those that the problem publishes."""
    passed: bool
    worst_error: float | None = None
    """Largest error over the allowed error, all outputs; null where not measured or not finite."""
    mismatch: Mismatch | None = None


class Correctness(Wire):
    """What verification saw."""

    passed: bool
    trials: tuple[Trial, ...]
    """Trials that ran, in order; verification stops after the first that fails."""
    planned_trials: int
    worst_error: float | None = None
    """Largest error over the allowed error in all passed trials."""
    deterministic: bool | None = None
    """Whether two runs on the same input gave the same bits; null when not tried."""
    plan_source: Literal["json", "directives", "inferred"] | None = None
    binding: str | None = None
    """How parameters were bound to tensors and sizes, in words."""
    fault: Fault | None = None
    warnings: tuple[str, ...] = ()
    printed: str = ""
    """What the kernels printed, up to the limit."""
    watched: tuple[str, ...] = ()
    """What was watched for races and reads of undefined memory, size by size: `n=1000: 4 of 4 blocks`."""
