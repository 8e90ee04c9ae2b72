"""A verdict and its parts: status, compilation, profile, reward and receipt; and the evaluation that ends in one."""

from enum import StrEnum
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from common.contract.correctness import Correctness
from common.contract.counters import Estimate, Evidence, Pitfall
from common.contract.submission import Dialect, RewardName, Settings, Submission
from common.contract.timing import Timing
from common.wire import Wire


class Status(StrEnum):
    """How an evaluation ended. A closed list."""

    PASSED = "passed"
    INCORRECT = "incorrect"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    INVALID_SUBMISSION = "invalid_submission"
    REJECTED = "rejected"
    UNSUPPORTED = "unsupported"
    CANCELLED = "cancelled"
    INTERNAL_ERROR = "internal_error"

    @property
    def carries_reward(self) -> bool:
        """False where the submission itself was not judged: no reward, rather than a reward of 0."""
        return self not in (Status.UNSUPPORTED, Status.CANCELLED, Status.INTERNAL_ERROR)


class Phase(StrEnum):
    """The part of the pipeline that decided a verdict, in the order in which they run."""

    PROBLEM = "problem"
    """What stands for a problem of someone else is read; a refusal of it says nothing about a kernel."""
    SCREEN = "screen"
    LIFT = "lift"
    COMPILE = "compile"
    LAUNCH = "launch"
    VERIFY = "verify"
    TIME = "time"
    PROFILE = "profile"


class Severity(StrEnum):
    """How much a finding or a diagnostic matters."""

    NOTE = "note"
    WARNING = "warning"
    ERROR = "error"


class Finding(Wire):
    """Something that the static look at the source noticed."""

    rule: str
    """Short name of the rule, for example `inline-assembly`."""
    severity: Severity
    line: int = Field(ge=1)
    """Line in the cleaned source, from 1."""
    text: str
    """What was found."""
    why: str
    """Why it matters."""


class Screening(Wire):
    """The static look at the source."""

    changes: tuple[str, ...] = ()
    """What cleaning did to the text (code fences, prose, invisible characters), one sentence each."""
    findings: tuple[Finding, ...] = ()
    risk: float = Field(default=0.0, ge=0, le=1)
    """Risk score: 0 for nothing noticed, 1 for certain abuse."""


class Diagnostic(Wire):
    """One message of the compiler, with the paths of the grading machine removed."""

    file: str | None
    """File, as the submission would name it (`kernel.cu`), or a toolkit header's short name."""
    line: int | None
    column: int | None
    severity: Severity
    code: str | None
    """The compiler's own number or flag, for example `#20014-D`."""
    text: str


class KernelResources(Wire):
    """What one compiled kernel needs, from ptxas."""

    kernel: str
    """Demangled name."""
    registers: int
    """Registers per thread."""
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    """Stack frame per thread, bytes."""
    shared_bytes: int
    """Static shared memory per block, bytes."""
    constant_bytes: int
    """Constant memory in all banks, bytes."""
    barriers: int


class Lifting(Wire):
    """What host code was recorded to do, in the place of a launch plan. Counts are of the problem's typical sizes."""

    entry: str
    """The function that was called: `solve` or `solution`."""
    binding: str
    """What its parameters got, in words."""
    launches: int
    fills: int
    """Memsets, and data that the host code copied to the device."""
    copies: int
    """Copies on the device."""
    temporaries: int
    """Allocations that launches, fills or copies use."""
    duration_s: float
    """What compiling the host code took, seconds; 0 where it was compiled before."""
    times_include: str = "launches, fills and copies, one after another; not the host code's own time"
    """What a measured or estimated time is of."""

    @property
    def text(self) -> str:
        """In words: `solve(x, y, n) bound by name: 2 launches, 1 temporary`."""
        counts = {"launch": self.launches, "fill": self.fills, "copy": self.copies, "temporary": self.temporaries}
        plurals = {"launch": "launches", "fill": "fills", "copy": "copies", "temporary": "temporaries"}
        said = ", ".join(f"{many} {word if many == 1 else plurals[word]}" for word, many in counts.items() if many)
        return f"{self.binding}: {said}"


class HostRun(Wire):
    """What was run of a submission whose host code ran: the host tier."""

    entry: str
    """What was called, in words: `ModelNew.forward(x)`."""
    why: str
    """Why its host code was run and not recorded."""
    times_include: str = (
        "all between the word to go and the answer: host code, launches, library calls and the copy of the outputs "
        "to where the referee takes them, less what the grader's own null submission takes for the same"
    )
    """What a measured time is of."""
    libraries: tuple[str, ...] = ()
    """Library calls that a profiled run made, the one that took longest first; empty where nothing was profiled."""


class Compilation(Wire):
    """What compiling gave."""

    succeeded: bool | None
    """Null when the submission was refused before it was compiled."""
    screening: Screening
    toolchain: str | None = None
    """Compiler and its version, for example `nvcc 13.0.88`."""
    arch: str | None = None
    flags: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    kernels: tuple[KernelResources, ...] = ()
    cached: bool = False
    """True when nothing had to be compiled for this evaluation."""
    duration_s: float | None = None
    """Wall-clock time of this evaluation's compile phase, seconds."""
    dialect: Dialect = "cuda"
    """What the source was taken for."""
    tier: Literal["device", "host"] = "device"
    """How much of the submission runs untouched: `device`, its kernels alone; `host`, its host code too."""
    lifting: Lifting | None = None
    """Null where no host code was recorded."""
    host: HostRun | None = None
    """Null in the device tier."""

    @property
    def times_include(self) -> str:
        """What a measured or estimated time is of, in words."""
        if self.host is not None:
            return self.host.times_include
        return self.lifting.times_include if self.lifting is not None else _STEPS_OF_A_PLAN


_STEPS_OF_A_PLAN: Final = "the steps of the launch plan, one after another"


class Occupancy(Wire):
    """Theoretical occupancy of one launch: warps that fit on a multiprocessor over the most it can hold."""

    kernel: str
    block_threads: int
    registers: int
    shared_bytes: int
    """Static and dynamic shared memory per block."""
    active_warps: int
    max_warps: int
    occupancy: float = Field(ge=0, le=1)
    limited_by: Literal["registers", "shared memory", "threads", "blocks"]


class Profile(Wire):
    """Resources and what limits them. Null where this backend or this run cannot measure it."""

    occupancy: tuple[Occupancy, ...] = ()
    thread_instructions: int | None = None
    """Thread-instructions that the simulator executed, all trials."""
    memory_efficiency: float | None = Field(default=None, ge=0, le=1)
    """Useful bytes over bytes of the sectors moved."""
    bank_conflict_ways: float | None = Field(default=None, ge=1)
    lane_efficiency: float | None = Field(default=None, ge=0, le=1)
    """Active lanes over all lanes of the warps that ran (Nsight's warp execution efficiency)."""
    bandwidth_share: float | None = Field(default=None, ge=0, le=1)
    """Memory bandwidth reached over the device's peak."""
    coverage: float | None = Field(default=None, ge=0, le=1)
    """Share of the measured time that was spent in the submission's own kernels."""
    warp_shuffles: bool | None = None
    """Whether a warp shuffle was executed."""
    estimated_speedup: float | None = Field(default=None, gt=0)
    """The simulator's estimate; never a measurement."""
    evidence: Evidence | None = None
    """Exact counts by launch and by line."""
    gpu_evidence: Evidence | None = None
    """The counts of the GPU's own profiler, where they were asked for."""
    achieved_occupancy: float | None = Field(default=None, ge=0, le=1)
    """Reached on the GPU, where `occupancy` is what could be; all launches, weighted by their time."""
    sm_share: float | None = Field(default=None, ge=0, le=1)
    """Throughput of the multiprocessors over their peak, as the profiler read it; weighted likewise."""
    dram_share: float | None = Field(default=None, ge=0, le=1)
    """Throughput of the device's memory over its peak, as the profiler read it; weighted likewise."""
    not_measured: tuple[str, ...] = ()
    """What was asked for and could not be measured, and why; never held against the submission."""
    estimate: Estimate | None = None
    pitfalls: tuple[Pitfall, ...] = ()
    """What costs time, the most expensive first."""


class RewardTerm(Wire):
    """One term of a reward."""

    name: str
    value: float | None
    """Null where nobody could measure it on this backend or in this run: then it is left out."""
    weight: float
    """Weight after rescaling; negative for a penalty."""
    contribution: float
    explanation: str


class Reward(Wire):
    """A reward and where it comes from."""

    name: RewardName
    version: int
    value: float | None
    """Null where nobody could measure any term in this run: that is no failure, and not 0."""
    maximum: float
    """The largest value that this reward can take in this run; 0 where nothing of it can be measured."""
    terms: tuple[RewardTerm, ...]
    reason: str | None = None
    """Why there is no value; null where there is one."""
    reward_stderr: float | None = None

    @model_validator(mode="after")
    def _value_or_reason(self) -> Self:
        if (self.value is None) != (self.reason is not None):
            raise ValueError("a reward has either a value or a reason why it has none")
        if self.value is None and any(term.value is not None for term in self.terms):
            raise ValueError("a reward of which a term was measured has a value")
        return self


class Signature(Wire):
    """The grader's word for a whole verdict, all but this member; `common.signature` says over which text."""

    algorithm: Literal["ed25519"] = "ed25519"
    form: Literal["assay-verdict-1"] = "assay-verdict-1"
    """How the text is made that was signed."""
    key_id: str = Field(pattern=r"^[0-9a-f]{16}$")
    """Short name of the key: the first 16 digits of the SHA-256 of its 32 bytes."""
    public_key: str = Field(pattern=r"^[0-9a-f]{64}$")
    """The key to check with. Whose it is has to be known from elsewhere: anyone can make one."""
    value: str = Field(pattern=r"^[0-9a-f]{128}$")


class Receipt(Wire):
    """What is needed to reproduce a verdict and to trust it."""

    contract_version: str
    grader_version: str
    problem_version: str
    source_sha256: str
    plan_sha256: str | None = None
    ptx_sha256: str | None = None
    canonical_ptx_sha256: str | None = None
    """Hash of the PTX without debug lines and with canonical names: equal where only comments or names differ."""
    cubin_sha256: str | None = None
    toolchain: str | None = None
    arch: str | None = None
    device: str
    sandbox: str
    """The isolation that untrusted work ran in: docker, bubblewrap or process."""
    sandbox_image: str | None = None
    """Digest of the image that untrusted work ran in; null where the sandbox has none."""
    settings: Settings
    seed_commitment: str
    """SHA-256 of the seed, fixed before the first run."""
    seed: str | None = None
    """The seed, revealed after the last run."""
    duration_s: float
    """Seconds of work on the whole evaluation by the clock on the wall: in the compile stage and in the judge stage,
    where two workers had it one after the other, with waiting for the GPU's turn, without waiting in a queue."""
    phases_s: dict[str, float] = Field(default_factory=dict)
    """Where the time went: phases of the evaluation, as `referee.…` those in the process that owns the GPU, and as
    `prepare` all of the compile stage where another worker had it before."""
    graded_at: str | None = None
    """When the verdict was given, by the grader's clock: ISO 8601, UTC."""
    signature: Signature | None = None
    """Null where the grader had no key: then nobody answers for this verdict."""


class Verdict(Wire):
    """The outcome of an evaluation."""

    status: Status
    phase: Phase
    message: str
    """What happened and where, in words that a model can learn from."""
    hint: str | None
    """What to do about it; null when there is nothing to do."""
    backend: Literal["gpu", "sim"]
    problem: str
    compile: Compilation | None
    correctness: Correctness | None
    timing: Timing | None
    profile: Profile | None
    reward: Reward | None
    receipt: Receipt | None

    @model_validator(mode="after")
    def _status_fits_fields(self) -> Self:
        """Tie each status to the fields that it allows."""
        problems = list(_misfits(self))
        if problems:
            raise ValueError(f"a verdict with status {self.status} " + "; ".join(problems))
        return self


_PHASES: dict[Status, tuple[Phase, ...]] = {
    Status.PASSED: (Phase.VERIFY, Phase.TIME, Phase.PROFILE),
    Status.INCORRECT: (Phase.VERIFY, Phase.TIME),
    Status.COMPILE_ERROR: (Phase.COMPILE, Phase.LIFT),
    Status.RUNTIME_ERROR: (Phase.LIFT, Phase.LAUNCH, Phase.VERIFY, Phase.TIME),
    Status.INVALID_SUBMISSION: (Phase.SCREEN, Phase.LIFT, Phase.COMPILE, Phase.LAUNCH),
}


def _misfits(verdict: Verdict) -> list[str]:
    found: list[str] = []
    if verdict.phase not in _PHASES.get(verdict.status, tuple(Phase)):
        found.append(f"cannot be decided in phase {verdict.phase}")
    compiled = verdict.compile is not None and verdict.compile.succeeded
    correct = verdict.correctness is not None and verdict.correctness.passed
    if verdict.status is Status.PASSED and not (compiled and correct):
        found.append("needs a compilation that succeeded and a verification that passed")
    if verdict.status is Status.INCORRECT and (verdict.correctness is None or correct):
        found.append("needs a verification that failed")
    if verdict.status is Status.COMPILE_ERROR and (verdict.compile is None or compiled):
        found.append("needs a compilation that failed")
    if verdict.status is Status.COMPILE_ERROR and verdict.correctness is not None:
        found.append("cannot carry correctness")
    if verdict.phase in (Phase.SCREEN, Phase.LIFT, Phase.COMPILE) and verdict.correctness is not None:
        found.append(f"cannot carry correctness from phase {verdict.phase}")
    if verdict.phase is Phase.PROBLEM and verdict.status.carries_reward:
        found.append("cannot be decided in phase problem")
    if verdict.timing is not None and verdict.status not in (Status.PASSED, Status.REJECTED):
        found.append("cannot carry timing")
    if verdict.timing is not None and verdict.backend != "gpu":
        found.append("cannot carry timing from the simulator")
    if verdict.compile is not None and (verdict.compile.tier == "host") != (verdict.compile.host is not None):
        found.append("says what of its host code ran exactly where it is of the host tier")
    if verdict.reward is not None and not verdict.status.carries_reward:
        found.append("cannot carry a reward")
    if verdict.reward is None and verdict.status.carries_reward:
        found.append("needs a reward")
    return found


class Evaluation(Wire):
    """One submission's way through the evaluator."""

    id: str
    state: Literal["queued", "running", "done"]
    submission: Submission
    created_at: str
    """ISO 8601, UTC."""
    progress: str | None = None
    verdict: Verdict | None = None
    links: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _done_means_verdict(self) -> Self:
        if (self.state == "done") != (self.verdict is not None):
            raise ValueError("an evaluation has a verdict exactly when it is done")
        return self
