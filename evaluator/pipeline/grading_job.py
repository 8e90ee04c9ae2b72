"""One evaluation before anything is known of it: what is asked, for which target, and with which tools."""

import time
from dataclasses import dataclass, field
from typing import Final

from common.contract import Submission
from evaluator.pipeline.referee import Stopwatch, Target
from evaluator.pipeline.stage_values import SubmittedSource
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.problem import Problem
from evaluator.seed import Seed


@dataclass(frozen=True)
class Preparation:
    """What it cost another worker to build the program before, which is in the cache since."""

    compiled_s: float | None = None
    """How long compiling took, seconds; None where nothing had to be compiled."""
    worked_s: float = 0.0
    """How long all of it took, seconds."""


UNPREPARED: Final = Preparation()


@dataclass(frozen=True)
class GradingJob:
    """What an evaluation works on and with, from its start to its verdict."""

    submission: Submission
    problem: Problem
    toolbox: Toolbox
    target: Target
    raw: bytes
    """The source's own bytes."""
    preparation: Preparation = UNPREPARED
    seed: Seed = field(default_factory=Seed.fresh)
    replayed: bool = False
    """Whether this is a repeat of an evaluation with its seed: then its times are no new ones to remember."""
    started_s: float = field(default_factory=time.monotonic)
    stopwatch: Stopwatch = field(default_factory=Stopwatch)

    @property
    def submitted(self) -> SubmittedSource:
        """Where its stages begin."""
        settings = self.submission.settings
        arch = settings.arch or self.target.arch
        return SubmittedSource(self.problem, self.raw, self.submission.plan, settings, arch, self.submission.dialect)


def source_bytes(submission: Submission) -> bytes:
    """The source as bytes, where there is no file with bytes of its own."""
    return submission.source.encode(errors="surrogatepass")
