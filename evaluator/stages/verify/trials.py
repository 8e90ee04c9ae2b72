"""Which trials a submission is put to: sizes, distributions, tolerances and scalars, before anything runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from common.contract import Correctness, Settings, Trial
from evaluator.errors import UsageError
from evaluator.problems.problem import Distribution, Problem, Sizes, Tolerance

_MAX_ASKED_BYTES: Final = 1 << 30
"""The float64 oracle and the comparison take about ten times as much on the host."""
_REHEARSED_WORK: Final = 4_000_000
_REHEARSED_MOST: Final = 4


@dataclass(frozen=True)
class PlannedTrial:
    """One trial, before it runs."""

    sizes: Sizes
    distribution: Distribution
    tolerance: Tolerance
    hidden: bool
    scalars: Mapping[str, float] = field(default_factory=dict)
    """Empty where they have their published values."""

    @property
    def place(self) -> str:
        """`n=1000, alpha=-3.25`."""
        return ", ".join((at(self.sizes), *(f"{name}={value:g}" for name, value in self.scalars.items())))


def plan_trials(
    problem: Problem, settings: Settings, generator: np.random.Generator, timed_too: bool = False
) -> tuple[PlannedTrial, ...]:
    """Which trials to run: the published sizes, hidden ones with every distribution in turn, then the probes.

    Of the distributions with structure a few are drawn, in the place of the typical one.

    `timed_too` adds the size that a GPU is timed at, which is much work for a simulator.
    """
    typical, *hostile = (one for one in problem.distributions if not one.structured)
    published = (*problem.example_sizes, *((problem.timing_sizes,) if timed_too and settings.sizes is None else ()))
    trials = [PlannedTrial(sizes, typical, problem.tolerance, False) for sizes in published]
    if settings.sizes is not None:
        trials.append(PlannedTrial(asked_sizes(problem, settings.sizes), typical, problem.tolerance, False))
    hidden = problem.hidden_sizes(generator)
    everyday = _everyday(problem, len(hidden), generator)
    turns = max(len(hidden), len(hostile))
    for turn in range(turns):
        sizes = hidden[turn % len(hidden)]
        kinds = [everyday[turn]] if turn < len(hidden) else []
        kinds += [hostile[turn % len(hostile)]] if hostile else []
        trials += [PlannedTrial(sizes, kind, problem.tolerance, True) for kind in kinds]
    trials += [PlannedTrial(p.sizes, p.distribution, p.tolerance, True) for p in problem.probes]
    return tuple(
        replace(trial, scalars=problem.scalars_of_turn(turn))
        if trial.hidden and not trial.distribution.as_published
        else trial
        for turn, trial in enumerate(trials, -len([trial for trial in trials if not trial.hidden]))
    )


def _everyday(problem: Problem, count: int, generator: np.random.Generator) -> tuple[Distribution, ...]:
    """For each hidden size the typical distribution or, at every second one, one with structure, none twice."""
    structured = [one for one in problem.distributions if one.structured]
    drawn = generator.permutation(len(structured))
    return tuple(
        structured[drawn[turn // 2]] if turn % 2 and turn // 2 < len(drawn) else problem.distributions[0]
        for turn in range(count)
    )


def asked_sizes(problem: Problem, sizes: Mapping[str, int]) -> Sizes:
    """The problem's typical sizes, but for those that the caller asks for. Raises UsageError for what cannot be."""
    unknown = sorted(set(sizes) - set(problem.sizes))
    if unknown:
        raise UsageError(
            f"{problem.id} has no size named {', '.join(unknown)}.", f"Its sizes are {', '.join(problem.sizes)}."
        )
    asked = {**problem.example_sizes[0], **sizes}
    for name, size in asked.items():
        if not 1 <= size < 1 << 31:
            raise UsageError(f"The size {name}={size} is out of range.", "A size is at least 1 and below 2^31.")
    tensors = (*problem.inputs, *problem.outputs)
    needed = sum(math.prod(tensor.shape_at(asked)) * tensor.dtype.size_bytes for tensor in tensors)
    if needed > _MAX_ASKED_BYTES:
        raise UsageError(
            f"At {at(asked)} the tensors of {problem.id} take {needed / (1 << 30):.3g} GiB.",
            f"A size that is asked for may take up to {_MAX_ASKED_BYTES >> 30} GiB.",
        )
    return asked


def rehearsal(problem: Problem, trials: Sequence[PlannedTrial]) -> tuple[PlannedTrial, ...]:
    """The few of `trials` that a simulator does in a moment: it sees races and bad reads, as no GPU does."""

    def cost(trial: PlannedTrial) -> float:
        work = problem.work(trial.sizes)
        return work.flops + (work.read_bytes + work.written_bytes) / 4

    cheap = sorted((trial for trial in trials if cost(trial) <= _REHEARSED_WORK), key=cost)
    return tuple(cheap if len(cheap) <= _REHEARSED_MOST else (cheap[0], *cheap[1 - _REHEARSED_MOST :]))


def at(sizes: Sizes) -> str:
    """`m=64, n=3`."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def unlike(
    correctness: Correctness, planned: Sequence[PlannedTrial], afterwards: Sequence[PlannedTrial]
) -> str | None:
    """Why the trials that a verdict shows cannot be those of `planned`, in words; None where they can.

    `afterwards`: which may come after all planned ones, in a verdict that did not pass.
    """
    trials = correctness.trials
    if correctness.planned_trials != len(planned):
        return f"it says that {correctness.planned_trials} were planned, and should say {len(planned)}"
    if correctness.passed and len(trials) != len(planned):
        return f"it passed with {len(trials)} of {len(planned)} trials"
    if correctness.passed and not all(trial.passed for trial in trials):
        return "it passed with a trial that did not"
    expected = [_described(one) for one in planned]
    for index, trial in enumerate(trials):
        allowed = expected[index : index + 1] or [_described(one) for one in afterwards]
        if index and not trials[index - 1].passed:  # a failure that two looks at the same run have found
            allowed = [*allowed, _described(trials[index - 1])]
        if _described(trial) not in allowed:
            return f"trial {index + 1} is {_described(trial)}, and should be {allowed[0] if allowed else 'none'}"
    return None


def _described(trial: PlannedTrial | Trial) -> str:
    name = trial.distribution if isinstance(trial, Trial) else trial.distribution.name
    # By name: the members of a JSON object come in any order.
    sizes = [f"{one}={size}" for one, size in sorted(trial.sizes.items())]
    values = ", ".join(sizes + [f"{one}={float(value)!r}" for one, value in sorted(trial.scalars.items())])
    return f"{values} with {name} inputs{' (hidden)' if trial.hidden else ''}"
