"""From easy problems to hard ones: tiers, gates on a window, demotion, and sampling that keeps old tiers alive.

A curriculum is a value: observing an outcome makes a new one, and its state is plain JSON for the checkpoint. Two are
ready: `critique` (C7: the problems' own tiers 0 to 3, on at a compile rate above 0.9 and a pass rate above 0.75) and
`status` (T5: easy, medium and hard, on at no less than their thresholds for compiling, success, mean speedup and
episodes).

The rates of a tier are those of its newest `window` conversations, so they are of the policy as it is now. A tier is
left once its window is full of conversations since it was entered. It is given back where what was learned before it
is lost: where the tier before it, as it is rehearsed, falls far below its own gate. That a new tier is hard is no
reason to leave it.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Final

from trainer.config.schema import CurriculumSection as CurriculumSection
from trainer.conversation.conversation import Conversation
from trainer.data.tasks import Task
from trainer.errors import CheckpointError, ConfigurationError


@dataclass(frozen=True)
class Outcome:
    """What counts of one conversation."""

    compiled: bool
    """Whether any of its kernels compiled."""
    passed: bool
    """Whether any was right."""
    speedup: float | None = None
    """The highest; None where it is not known."""


@dataclass(frozen=True)
class Gate:
    """What a tier asks before it lets pass on, on a whole window."""

    compile_rate: float = 0.9
    pass_rate: float = 0.75
    speedup: float | None = None
    """The mean speedup of the conversations that passed; None asks for none."""
    episodes: int = 0
    """Fewest conversations since the tier was entered, if more than the window."""
    reached: bool = False
    """Whether a rate that is just these figures will do; otherwise it must lie above them."""

    def met(self, rates: "Rates") -> bool:
        """Whether the rates of a window are what is asked; what is not known is not."""

        def enough(rate: float | None, asked: float) -> bool:
            return rate is not None and (rate >= asked if self.reached else rate > asked)

        fast = self.speedup is None or enough(rates.mean_speedup, self.speedup)
        return fast and enough(rates.compile_rate, self.compile_rate) and enough(rates.pass_rate, self.pass_rate)


@dataclass(frozen=True)
class Tier:
    """One step of a curriculum."""

    name: str
    problem_tiers: frozenset[int]
    """Tiers of the problems that it is about."""
    gate: Gate
    problems: frozenset[str] = frozenset()
    """Problems of other tiers that this step is about as well: they belong to no other step."""


CRITIQUE: Final = tuple(
    Tier(name, frozenset({number}), Gate())
    for number, name in enumerate(("basic", "intermediate", "complex", "advanced"))
)
"""Critique, section 6 A and "Concrete Starter Settings" (C7)."""
STATUS: Final = (
    Tier("easy", frozenset({0}), Gate(0.8, 0.6, speedup=1.2, episodes=100, reached=True)),
    Tier(
        "medium",
        frozenset({1}),
        Gate(0.75, 0.5, speedup=1.8, episodes=200, reached=True),
        problems=frozenset({"matvec"}),
    ),
    Tier("hard", frozenset({2, 3}), Gate(0.7, 0.4, speedup=2.5, episodes=300, reached=True)),
)
"""Status document, section 8 (T5): "Tier Requirements" of the curriculum manager, and "Operation Categories" of the
loader, which count matrix-vector operations among the medium ones. The gate of the last says when all is learned.
"""
_OFF: Final = (Tier("all", frozenset(range(4)), Gate()),)
PLANS: Final[Mapping[str, tuple[Tier, ...]]] = {"critique": CRITIQUE, "status": STATUS, "off": _OFF}


@dataclass(frozen=True)
class Rates:
    """A window, summed up. None for no conversations."""

    episodes: int
    compile_rate: float | None
    pass_rate: float | None
    mean_speedup: float | None
    """Of those that passed and whose speedup is known."""


@dataclass(frozen=True)
class Curriculum:
    """Where a run stands. Raises ValueError for settings that make no sense."""

    plan: tuple[Tier, ...] = CRITIQUE
    window: int = 100
    """Newest conversations of a tier that count."""
    rehearsal_share: float = 0.2
    """Share of the tasks that comes from tiers below."""
    demotion: bool = True
    demotion_margin: float = 0.2
    """A tier is given back where a rate of the tier before it, as it is rehearsed, lies this far below its gate."""
    level: int = 0
    """The tier that is worked on, from 0."""
    entered: int = 0
    """Conversations of this tier since it was entered."""
    windows: tuple[tuple[Outcome, ...], ...] = ()
    """The newest outcomes of each tier, oldest first."""

    def __post_init__(self) -> None:
        if not (self.plan and self.window >= 1 and 0 <= self.rehearsal_share < 1 and 0 < self.demotion_margin < 1):
            raise ValueError("a curriculum needs tiers, a window of 1 at least, and shares below 1")
        if not 0 <= self.level < len(self.plan):
            raise ValueError(f"level {self.level} is not among the {len(self.plan)} tiers")
        if not self.windows:
            object.__setattr__(self, "windows", ((),) * len(self.plan))

    @property
    def tier(self) -> Tier:
        """The tier that is worked on."""
        return self.plan[self.level]

    def rates(self, level: int | None = None) -> Rates:
        """Of the window of a tier, by default of the one that is worked on."""
        seen = self.windows[self.level if level is None else level]
        speedups = [one.speedup for one in seen if one.passed and one.speedup is not None]
        return Rates(
            len(seen),
            sum(one.compiled for one in seen) / len(seen) if seen else None,
            sum(one.passed for one in seen) / len(seen) if seen else None,
            fmean(speedups) if speedups else None,
        )

    @property
    def complete(self) -> bool:
        """Whether the gate of the last tier is met as well: there is nothing left to go on to."""
        return self.level == len(self.plan) - 1 and self._gate_is_met()

    def level_of(self, problem_tier: int, problem: str = "") -> int | None:
        """The step that a problem belongs to; None where it belongs to none."""
        named = (i for i, tier in enumerate(self.plan) if problem in tier.problems)
        by_tier = (i for i, tier in enumerate(self.plan) if problem_tier in tier.problem_tiers)
        return next(named, next(by_tier, None))

    def observe(self, problem_tier: int, outcome: Outcome, problem: str = "") -> "Curriculum":
        """The curriculum after one conversation more. One about a problem of no tier here changes nothing."""
        level = self.level_of(problem_tier, problem)
        if level is None:
            return self
        window = (*self.windows[level], outcome)[-self.window :]
        windows = (*self.windows[:level], window, *self.windows[level + 1 :])
        return replace(self, windows=windows, entered=self.entered + (level == self.level))._moved()

    def _moved(self) -> "Curriculum":
        """On, back, or as it is."""
        before = self.level - 1
        if self.level + 1 < len(self.plan) and self._gate_is_met():
            return self._enter(self.level + 1)
        lost = self.level and len(self.windows[before]) >= self.window
        if self.demotion and lost and _below(self.rates(before), self.plan[before].gate, self.demotion_margin):
            return self._enter(before)
        return self

    def _gate_is_met(self) -> bool:
        gate = self.tier.gate
        full = min(self.entered, len(self.windows[self.level])) >= self.window
        return full and self.entered >= gate.episodes and gate.met(self.rates())

    def _enter(self, level: int) -> "Curriculum":
        """A tier is entered with an empty window: what counts is what happens from now on."""
        windows = (*self.windows[:level], (), *self.windows[level + 1 :])
        return replace(self, level=level, entered=0, windows=windows)

    def sample(self, tasks: Sequence[Task], count: int, seed: int) -> tuple[Task, ...]:
        """`count` tasks for one step, the same for the same seed: most from the tier that is worked on, and
        `rehearsal_share` of them, one at least where there is room for two, from those below.

        Tasks come again only once all of their tier have been drawn. Held-out tasks are never drawn. Raises
        ConfigurationError where no task can be drawn.
        """
        rng = random.Random(f"curriculum {seed}")
        levels = [(self.level_of(task.tier, task.problem), task) for task in tasks if not task.held_out]
        old = [task for level, task in levels if level is not None and level < self.level]
        new = [task for level, task in levels if level == self.level]
        if not new and not old:
            raise ConfigurationError(
                f"No task belongs to tier {self.tier.name} or to one below it.",
                "Name problems of that tier in tasks.problems, or set curriculum.name to off.",
            )
        rehearsed = _rehearsed(count, self.rehearsal_share) if old and new else count if old else 0
        drawn = [*_drawn(old, rehearsed, rng), *_drawn(new, count - rehearsed, rng)]
        rng.shuffle(drawn)
        return tuple(drawn)

    def skipping(self, tasks: Sequence[Task]) -> "Curriculum":
        """The curriculum at the first tier from here on that has tasks to train on, as it is where none has."""
        levels = {self.level_of(task.tier, task.problem) for task in tasks if not task.held_out}
        for level in range(self.level, len(self.plan)):
            if level in levels:
                return self if level == self.level else self._enter(level)
        return self

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, as plain JSON."""
        return {
            "tiers": [tier.name for tier in self.plan],
            "level": self.level,
            "entered": self.entered,
            "windows": [[[one.compiled, one.passed, one.speedup] for one in window] for window in self.windows],
        }

    def restored(self, state: Mapping[str, Any]) -> "Curriculum":
        """A curriculum with these settings at the place that `state` names. Raises CheckpointError for another's."""
        try:
            names = [tier.name for tier in self.plan]
            if list(state["tiers"]) != names:
                raise ValueError(
                    f"it is about the tiers {', '.join(state['tiers'])}, this run about {', '.join(names)}"
                )
            windows = tuple(tuple(_outcome(kept) for kept in window)[-self.window :] for window in state["windows"])
            if len(windows) != len(self.plan):
                raise ValueError(f"it has {len(windows)} windows for {len(self.plan)} tiers")
            return replace(self, level=int(state["level"]), entered=int(state["entered"]), windows=windows)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"The checkpoint's curriculum cannot be gone on with: {error}.",
                "Go on with the curriculum that the run began with, or begin a new run.",
            ) from error


def curriculum_of(section: CurriculumSection) -> Curriculum:
    """As a configuration says. Raises ConfigurationError for a first tier that there is not."""
    plan = PLANS[section.name]
    if section.start_tier >= len(plan):
        raise ConfigurationError(
            f"curriculum.start_tier is {section.start_tier}, and {section.name} has the tiers 0 to {len(plan) - 1}.",
            "Count from 0.",
        )
    return Curriculum(
        plan=plan,
        window=section.window,
        rehearsal_share=section.rehearsal_share,
        demotion=section.demotion,
        demotion_margin=section.demotion_margin,
        level=section.start_tier,
    )


def outcome_of(conversation: Conversation) -> Outcome | None:
    """What a conversation that is over counts for; None where nothing of it could be judged."""
    judged = [attempt for attempt in conversation.attempts if attempt.reward is not None]
    if not judged:
        return None
    compiled = any(result is not None and result.succeeded is True for result in conversation.compile_results)
    return Outcome(compiled, any(attempt.passed for attempt in judged), conversation.best_speedup)


def _outcome(kept: Sequence[Any]) -> Outcome:
    compiled, passed, speedup = kept
    return Outcome(bool(compiled), bool(passed), None if speedup is None else float(speedup))


def _below(rates: Rates, gate: Gate, margin: float) -> bool:
    return (rates.compile_rate or 0) < gate.compile_rate - margin or (rates.pass_rate or 0) < gate.pass_rate - margin


def _rehearsed(count: int, share: float) -> int:
    if share == 0 or count < 2:
        return 0
    return min(max(round(count * share), 1), count - 1)


def _drawn(tasks: Sequence[Task], count: int, rng: random.Random) -> list[Task]:
    """As many rounds through all tasks, in random order, as it takes."""
    rounds = math.ceil(count / len(tasks)) if tasks and count else 0
    return [task for _ in range(rounds) for task in rng.sample(list(tasks), len(tasks))][:count]
