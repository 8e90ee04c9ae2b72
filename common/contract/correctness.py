"""What verification saw: trials, faults, and the worst wrong element."""

from typing import Literal

from pydantic import Field

from common.wire import Wire

Content = Literal["zeros", "ones", "ramp", "one", "scrambled", "drawn"]
"""What a tensor holds at its flat element i: 0; 1; (i mod 7 + 1) / 4, without the division in integers; 1 at element
0 and 0 elsewhere; a hash of i in [-1, 1), or in 0 to 255 for integers; what its problem's distribution draws."""


Verification = Literal["full", "quick"]
"""How much is verified: `quick` leaves out what lies above the published sizes."""


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
    """For example `out_of_bounds`, `misaligned`, `null`, `assert`, `trap`, `watchdog`, `deadlock`, `endless_wait`."""
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
    compared: int | None = None
    """How many elements of the outputs were held against the oracle; null: all. 0: none, and `left_out` says why."""
    blocks: str | None = None
    """Which share of the launch ran, `32 of 16,384`; null: all of it."""


class Smallest(Wire):
    """The smallest run that still shows what a verification found, each candidate judged by itself, from afresh."""

    sizes: dict[str, int]
    scalars: dict[str, float] = Field(default_factory=dict)
    """Where they have other values than the published ones."""
    inputs: dict[str, Content]
    """What each input holds."""
    distribution: str
    """Where the contents of `drawn` inputs come from."""
    seed: int
    """What they are drawn with: by numpy's `default_rng`."""
    message: str
    """What happens there."""
    fault: Fault | None = None
    mismatch: Mismatch | None = None
    tried: int
    """Candidates that were run."""
    finished: bool
    """False where the budget ended the search: something smaller may show it as well."""
    said: str
    """What the verdict's message says of it."""


class Generalisation(Wire):
    """How a kernel that is right at the sizes of its problem fares at others, which it need not serve."""

    passed: bool
    sizes: tuple[dict[str, int], ...]
    """Those where it was judged, up to the first where it is wrong."""
    message: str | None = None
    """What happens at the last of them, where it is wrong."""


class HazardWarning(Wire):
    """What no kernel may rely on, seen in a kernel whose answers were right all the same."""

    kind: str
    """For example `absent_lanes`, `array_overrun`, `harmless_race`; docs/verification.md has all."""
    message: str
    """Who did what, in words; `warnings` has the same text with the remedy behind it."""
    line: int | None = None
    """Line of the submission's source, from 1."""
    remedy: str = ""
    """What to do about it."""


class Correctness(Wire):
    """What verification saw."""

    passed: bool
    trials: tuple[Trial, ...]
    """Trials that ran, in order; verification stops after the first that fails."""
    planned_trials: int
    verification: Verification | None = None
    """What was to be verified; null in a verdict that is older than the choice."""
    worst_error: float | None = None
    """Largest error over the allowed error in all passed trials."""
    deterministic: bool | None = None
    """Whether two runs on the same input gave the same bits; null when not tried."""
    plan_source: Literal["json", "directives", "inferred", "recorded", "host"] | None = None
    """`recorded`: host code was recorded anew at each set of sizes (`Compilation.lifting`). `host`: there is none,
    host code ran (`Compilation.host`)."""
    binding: str | None = None
    """How parameters were bound to tensors and sizes, in words."""
    fault: Fault | None = None
    warnings: tuple[str, ...] = ()
    hazards: tuple[HazardWarning, ...] = ()
    """Those of the warnings that the default rewards charge for."""
    printed: str = ""
    """What the kernels printed, up to the limit."""
    watched: tuple[str, ...] = ()
    """What was watched for races and reads of undefined memory, size by size: `n=1000: 4 of 4 blocks`."""
    schedules: tuple[str, ...] = ()
    """How many drawn schedules of blocks and warps were run, size by size: `n=1000: 8`."""
    schedule: int | None = None
    """The draw of the schedule that was wrong, where one was: the same draw has the same order again."""
    left_out: tuple[str, ...] = ()
    """What a full verification did not judge, and why: `n=16777216: …`. It counts neither for the kernel nor against
    it."""
    smallest: Smallest | None = None
    """Where it failed, and something smaller was asked for (`shrink_s`) and looked for."""
    generalisation: Generalisation | None = None
    """Of a problem that someone else states at fixed sizes, and a kernel that passed; null where none were tried."""
