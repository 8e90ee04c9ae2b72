"""What is known of a submission after each stage: a value for each, which holds the one before it."""

from dataclasses import dataclass
from typing import TypeAlias

from common.contract import Dialect, Lifting, Screening, Settings, Timing
from common.launch_plan import LaunchPlan
from evaluator.backends.session import Program
from evaluator.errors import Ruling
from evaluator.pipeline.referee import HostResult, JudgeResult
from evaluator.problems.problem import Problem
from evaluator.stages.compile.nvcc import Compiled
from evaluator.stages.launch.checked_plan import CheckedPlan


@dataclass(frozen=True)
class SubmittedSource:
    """What is to be built, as it came in."""

    problem: Problem
    raw: bytes
    plan: LaunchPlan | None
    """The launch plan beside the source; None where the source has directives, or the plan is inferred."""
    settings: Settings
    arch: str
    """What it is compiled for, for example `sm_90a`."""
    dialect: Dialect | None = None
    """What the caller says that the source is; None leaves it to the text."""


@dataclass(frozen=True)
class ScreenedSource:
    """A source that was cleaned and screened."""

    submitted: SubmittedSource
    source: str
    """As cleaned."""
    screening: Screening
    dialect: Dialect = "cuda"


@dataclass(frozen=True)
class CompiledSource:
    """What the compiler made of a source, or said about it."""

    screened: ScreenedSource
    compiled: Compiled


@dataclass(frozen=True)
class PlannedProgram:
    """A program that compiled, with a launch plan that fits it."""

    compiled_source: CompiledSource
    program: Program
    checked_plan: CheckedPlan
    lifting: Lifting | None = None

    @property
    def compiled(self) -> Compiled:
        return self.compiled_source.compiled


@dataclass(frozen=True)
class JudgedProgram:
    """A program on which a referee has said what it is worth."""

    planned: PlannedProgram
    result: JudgeResult


@dataclass(frozen=True)
class TimedProgram:
    """A right program with its measured time."""

    judged: JudgedProgram
    timing: Timing


@dataclass(frozen=True)
class JudgedHostCode:
    """A source whose host code ran, and on which a referee has said what it is worth."""

    screened: ScreenedSource
    result: HostResult
    why: str
    """Why it was run and not recorded."""


Reached: TypeAlias = (
    SubmittedSource | ScreenedSource | CompiledSource | PlannedProgram | JudgedProgram | TimedProgram | JudgedHostCode
)


@dataclass(frozen=True)
class Ending:
    """Where an evaluation ended: what it had reached, and the ruling that ended it; None where all stages passed."""

    reached: Reached
    ruling: Ruling | None
