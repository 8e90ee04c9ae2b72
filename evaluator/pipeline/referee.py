"""Who judges a program that compiled, what such a referee is asked, and what it answers."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, Protocol, TypeAlias

from common.contract import Settings, Timing
from common.contract.counters import Evidence
from common.wire import BYTES_AS_BASE64, Json
from evaluator.backends.prebuilt import BuiltLibrary, ExtensionCall
from evaluator.backends.session import Program
from evaluator.errors import Ruling
from evaluator.pipeline.progress import ProgressCallback
from evaluator.problems.catalogue import ProblemById
from evaluator.stages.launch.checked_plan import CheckedPlan
from evaluator.stages.profile.profiler_result import Counted
from evaluator.stages.time.measurement import TimingRound
from evaluator.stages.verify.verified import Verified


@dataclass(frozen=True)
class JudgeRequest:
    """What a referee needs to know: plain values, which travel between processes."""

    program: Program
    checked_plan: CheckedPlan
    settings: Settings
    local_memory: bool
    """Whether its kernels keep anything in local memory, which outlives them in a context."""
    secret: bytes
    """The seed; it never reaches a runner."""
    unrehearsed: bool = False
    """Whether the simulator could not rehearse it for want of a feature: then other tools look."""
    lined_cubin: bytes = b""
    """The program's cubin with its lines, for those tools; empty where they do not look."""
    __pydantic_config__: ClassVar = BYTES_AS_BASE64

    def to_json(self) -> bytes:
        """As it travels."""
        return _requests.dump(self)

    @staticmethod
    def from_json(text: bytes) -> "JudgeRequest":
        """Raises ValueError for anything else."""
        return _requests.load(text)


@dataclass(frozen=True)
class JudgeResult:
    """What a referee found."""

    verified: Verified
    look: TimingRound | None = None
    second_look: TimingRound | None = None
    """At a larger size, where the first was faster than any right answer can be."""
    phases_s: Mapping[str, float] = field(default_factory=dict)
    """Where the referee's time went."""
    counted: Counted | None = None
    """What the GPU's profiler gave, where it was asked for and the submission passed."""
    evidence: Evidence | None = None
    """What the simulator counted, of a submission that it found right."""
    sampled: Evidence | None = None
    """Counts for an estimate of time, where there is no GPU to measure it and the submission passed."""

    def to_json(self) -> bytes:
        return _results.dump(self)

    @staticmethod
    def from_json(text: bytes) -> "JudgeResult":
        return _results.load(text)


HostForm: TypeAlias = Literal["kernelbench", "triton", "torch-extension"]
"""The dialects whose host code can run."""


@dataclass(frozen=True)
class HostRequest:
    """What a referee needs to know of a submission whose host code is to run: plain values, which travel."""

    problem: ProblemById
    form: HostForm
    text: str
    """Its source, as cleaned."""
    arch: str
    settings: Settings
    secret: bytes
    libraries: tuple[BuiltLibrary, ...] = ()
    """What its `load_inline` finds."""
    call: ExtensionCall | None = None
    """Of an extension: what is called of it."""
    __pydantic_config__: ClassVar = BYTES_AS_BASE64

    def to_json(self) -> bytes:
        """As it travels."""
        return _host_requests.dump(self)

    @staticmethod
    def from_json(text: bytes) -> "HostRequest":
        """Raises ValueError for anything else."""
        return _host_requests.load(text)


@dataclass(frozen=True)
class HostResult:
    """What a referee found of host code that ran."""

    verified: Verified
    ruling: Ruling | None
    """What ended it, in whichever phase; None where all passed."""
    entry: str
    """What was called, in words."""
    timing: Timing | None = None
    coverage: float | None = None
    """The share of a profiled call's time that the submission's own kernels took, as its own process says."""
    libraries: tuple[str, ...] = ()
    phases_s: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """As it travels."""
        return _host_results.dump(self)

    @staticmethod
    def from_json(text: bytes) -> "HostResult":
        """Raises ValueError for anything else."""
        return _host_results.load(text)


class Stopwatch:
    """Wall-clock time by phase."""

    def __init__(self) -> None:
        self.laps_s: dict[str, float] = {}
        self._since_s = time.monotonic()

    def lap(self, phase: str) -> None:
        """Count the time since the last lap for `phase`."""
        now_s = time.monotonic()
        self.laps_s[phase] = round(self.laps_s.get(phase, 0.0) + now_s - self._since_s, 5)
        self._since_s = now_s


class Target(Protocol):
    """Where programs are judged, as far as a verdict and a compiler need to know."""

    @property
    def name(self) -> Literal["gpu", "sim"]:
        """The backend."""

    @property
    def device(self) -> str:
        """The device, in words, for the receipt."""

    @property
    def arch(self) -> str:
        """What programs are compiled for unless the caller says otherwise, for example `sm_90a`."""


@dataclass(frozen=True)
class RemoteTarget:
    """A target that other processes have: programs can be compiled for it here, and judged there."""

    name: Literal["gpu", "sim"]
    device: str
    arch: str


class Referee(Target, Protocol):
    """Who judges: the simulator's in this process, or the one that owns a GPU."""

    def judge(self, request: JudgeRequest, progress: ProgressCallback) -> JudgeResult:
        """Raises UnsupportedError, UsageError, InfrastructureError."""

    def judge_host(self, request: HostRequest, progress: ProgressCallback) -> HostResult:
        """Run host code and judge it. Raises as `judge` does."""


_host_requests: Final = Json(HostRequest)
_host_results: Final = Json(HostResult)
_requests: Final = Json(JudgeRequest)
_results: Final = Json(JudgeResult)
