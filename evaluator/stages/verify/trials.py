"""Which trials a submission is put to: sizes, distributions, tolerances and scalars, before anything runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, TypeAlias

import numpy as np

from common.contract import Correctness, Settings, Trial
from evaluator.errors import UsageError
from evaluator.problems.problem import Distribution, DistributionRole, Problem, Sizes, Tolerance, sizes_in_words
from evaluator.problems.round_sizes import round_sizes
from evaluator.stages.verify.comparison import Comparison

_REHEARSED_WORK: Final = 4_000_000
"""Operations and words of memory: what a simulator does in some milliseconds."""
_REHEARSED_ONCE_WORK: Final = 32_000_000
"""Where nothing smaller is to be tried, a single trial may be so much: some tenths of a second."""
_REHEARSED_MOST: Final = 4
_HOSTILE_BYTES: Final = 6 << 20
"""Up to this size of all tensors an edge is tried with a hostile distribution too, where its work is small."""

_PROBED_WORK: Final = 100_000_000
"""Up to this work its precision is probed there: attention of 1,024 keys, which has few elements, is within it."""
_HOSTILE_EVERY: Final = 3
"""Of the sizes at round numbers: so many hostile trials more, at no cost."""

TrialKind: TypeAlias = Literal["usual", "round", "edge", "timed"]
"""`round`: a small hidden size at a round number. `edge`: a hidden size above every published one. `timed`: the size
of the timing. A quick verification has the usual ones alone."""


@dataclass(frozen=True)
class PlannedTrial:
    """One trial, before it runs."""

    sizes: Sizes
    distribution: Distribution
    tolerance: Tolerance
    hidden: bool
    scalars: Mapping[str, float] = field(default_factory=dict)
    """Empty where they have their published values."""
    kind: TrialKind = "usual"
    published: Mapping[str, float] = field(default_factory=dict)
    """The problem's own values of its scalars."""

    @property
    def values(self) -> dict[str, float]:
        """What each scalar of the problem is in this trial."""
        return {**self.published, **self.scalars}

    @property
    def beyond(self) -> bool:
        """Whether its size is none of the small ones, so that it may be too large for all of it to be judged."""
        return self.kind in ("edge", "timed")

    @property
    def place(self) -> str:
        """`n=1000, alpha=-3.25`."""
        return ", ".join((sizes_in_words(self.sizes), *(f"{name}={value:g}" for name, value in self.values.items())))


def plan_trials(
    problem: Problem, settings: Settings, generator: np.random.Generator, timed_too: bool = False
) -> tuple[PlannedTrial, ...]:
    """Which trials to run: the published sizes, hidden ones with every distribution in turn, then the probes; and in
    a full verification small sizes at round numbers, the edges, the smallest first, and last of all the size of the
    timing.

    Of the distributions with structure a few are drawn, in the place of the typical one; of the partial ones, at
    the largest hidden size, a full verification has all and a quick one has one.

    `timed_too` has the size of the timing among the published ones, where it is no more work than any other.
    """
    return trials_and_left_out(problem, settings, generator, timed_too)[0]


def trials_and_left_out(
    problem: Problem, settings: Settings, generator: np.random.Generator, timed_too: bool = False
) -> tuple[tuple[PlannedTrial, ...], tuple[str, ...]]:
    """The trials of `plan_trials`; and the sizes that a full verification would have, and leaves out for want of
    memory, in words. To plan takes milliseconds, so both come of one plan.
    """
    wanted = _wanted_trials(problem, settings, generator, timed_too)
    beyond = [trial.sizes for trial in wanted if trial.beyond]
    if timed_too and settings.sizes is None and settings.verification == "full":
        published = sum(not trial.beyond and trial.sizes == problem.timing_sizes for trial in wanted)
        beyond += [problem.timing_sizes] * (published == 1)  # for the timing's sake alone
    left_out = (
        f"{sizes_in_words(sizes)}: its tensors take {tensor_bytes(problem, sizes) / (1 << 20):.4g} MiB, more than "
        "half of the memory limit"
        for sizes in beyond
        if not fits(problem, sizes, settings)
    )
    room = (trial for trial in wanted if not trial.beyond or fits(problem, trial.sizes, settings))
    trials = tuple(replace(trial, published=problem.published_scalars) for trial in room)
    return trials, tuple(dict.fromkeys(left_out))


def _wanted_trials(
    problem: Problem, settings: Settings, generator: np.random.Generator, timed_too: bool
) -> tuple[PlannedTrial, ...]:
    """All of `plan_trials`, were there room for them."""
    usual = _usual_trials(problem, settings, generator, timed_too)
    if settings.verification == "quick":
        return usual
    wanted = (*usual, *_round_trials(problem, generator), *_edge_trials(problem, generator))
    if any(trial.sizes == problem.timing_sizes for trial in usual):
        return wanted
    contents = problem.mixture or problem.distributions[0]
    timed = PlannedTrial(problem.timing_sizes, contents, problem.tolerance, False, kind="timed")
    return (*wanted, timed)


def _round_trials(problem: Problem, generator: np.random.Generator) -> tuple[PlannedTrial, ...]:
    """The typical distribution at each round size, at every third one a hostile one in its turn."""
    typical, hostile = problem.distributions[0], _of_role(problem, "hostile")
    first = int(generator.integers(_HOSTILE_EVERY * max(1, len(hostile))))
    trials: list[PlannedTrial] = []
    for turn, sizes in enumerate(round_sizes(problem, generator), first):
        kind = typical if turn % _HOSTILE_EVERY or not hostile else hostile[turn // _HOSTILE_EVERY % len(hostile)]
        scalars = {} if kind.as_published else problem.scalars_of_turn(turn)
        trials.append(PlannedTrial(sizes, kind, problem.tolerance, True, scalars, "round"))
    return tuple(trials)


def _edge_trials(problem: Problem, generator: np.random.Generator) -> tuple[PlannedTrial, ...]:
    """The mixture of all distributions at every edge, the typical one where there is none.

    Where that is cheap, also the probes of precision, and without a mixture a hostile one, each in its turn; none of
    another role: long stretches of it bias the roundings of one accumulator. Counts have no roundings, so the
    largest edge has the first hostile one in place of the typical one: a counter may be too narrow for one bin that
    takes all.
    """
    typical, hostile = problem.distributions[0], _of_role(problem, "hostile")
    counts = not any(tensor.dtype.is_float for tensor in problem.outputs)
    trials: list[PlannedTrial] = []
    edges = sorted(problem.edge_sizes(generator), key=lambda sizes: tensor_bytes(problem, sizes))
    for turn, sizes in enumerate(edges):
        kinds = [(problem.mixture or typical, problem.tolerance)]
        small, work = tensor_bytes(problem, sizes) <= _HOSTILE_BYTES, work_at(problem, sizes)
        if small and work <= _REHEARSED_WORK:
            # Two at the smallest: a histogram's are many equal values and nothing else, which one bin takes all of.
            own = (2 if turn == 0 else 1) if hostile and problem.mixture is None else 0
            kinds += [(hostile[(turn + more) % len(hostile)], problem.tolerance) for more in range(own)]
        if small and work <= _PROBED_WORK:
            kinds += [(probe.distribution, probe.tolerance) for probe in problem.edge_probes]
        if hostile and counts and turn == len(edges) - 1:
            kinds = [(hostile[0], problem.tolerance)]
        for kind, tolerance in kinds:
            scalars = {} if kind.as_published else problem.scalars_of_turn(turn)
            trials.append(PlannedTrial(sizes, kind, tolerance, True, scalars, "edge"))
    return tuple(trials)


def _of_role(problem: Problem, role: DistributionRole) -> tuple[Distribution, ...]:
    """All but the typical one that have this role."""
    return tuple(one for one in problem.distributions[1:] if one.role == role)


def tensor_bytes(problem: Problem, sizes: Sizes) -> int:
    """All inputs and outputs together, in bytes."""
    tensors = (*problem.inputs, *problem.outputs)
    return sum(math.prod(tensor.shape_at(sizes)) * tensor.dtype.size_bytes for tensor in tensors)


def fits(problem: Problem, sizes: Sizes, settings: Settings) -> bool:
    """Whether the problem's own tensors leave half of the memory limit to a submission's temporaries.

    What does not fit is our choice of a size, and no fault of the submission.
    """
    return 2 * tensor_bytes(problem, sizes) <= settings.memory_bytes


def _usual_trials(
    problem: Problem, settings: Settings, generator: np.random.Generator, timed_too: bool
) -> tuple[PlannedTrial, ...]:
    typical, hostile = problem.distributions[0], _of_role(problem, "hostile")
    published = (*problem.example_sizes, *((problem.timing_sizes,) if timed_too and settings.sizes is None else ()))
    trials = [PlannedTrial(sizes, typical, problem.tolerance, False) for sizes in published]
    if settings.sizes is not None:
        trials.append(PlannedTrial(asked_sizes(problem, settings.sizes), typical, problem.tolerance, False))
    hidden = problem.hidden_sizes(generator)
    everyday = _everyday(problem, hidden, settings, generator)
    turns = max(len(hidden), len(hostile))
    for turn in range(turns):
        sizes = hidden[turn % len(hidden)]
        kinds = [*everyday[turn]] if turn < len(hidden) else []
        kinds += [hostile[turn % len(hostile)]] if hostile else []
        trials += [PlannedTrial(sizes, kind, problem.tolerance, True) for kind in kinds]
    trials += [PlannedTrial(p.sizes, p.distribution, p.tolerance, True) for p in problem.probes]
    return tuple(
        replace(trial, scalars=problem.scalars_of_turn(turn))
        if trial.hidden and not trial.distribution.as_published
        else trial
        for turn, trial in enumerate(trials, -len([trial for trial in trials if not trial.hidden]))
    )


def _everyday(
    problem: Problem, hidden: Sequence[Sizes], settings: Settings, generator: np.random.Generator
) -> list[tuple[Distribution, ...]]:
    """For each hidden size the typical distribution or, at every second one, one with structure, none twice.

    At the largest one all that are partial are in its place, in a quick verification one of them.
    """
    structured, partial = _of_role(problem, "structured"), _of_role(problem, "partial")
    drawn = generator.permutation(len(structured))
    chosen: list[tuple[Distribution, ...]] = [
        (structured[drawn[turn // 2]] if turn % 2 and turn // 2 < len(drawn) else problem.distributions[0],)
        for turn in range(len(hidden))
    ]
    if partial:
        one = partial[int(generator.integers(len(partial)))]
        largest = max(range(len(hidden)), key=lambda turn: tensor_bytes(problem, hidden[turn]))
        chosen[largest] = (one,) if settings.verification == "quick" else partial
    return chosen


def asked_sizes(problem: Problem, sizes: Mapping[str, int]) -> Sizes:
    """The problem's typical sizes, but for those that the caller asks for.

    Raises UsageError for what cannot be, and for what is outside of the range that a kernel must serve: a kernel that
    fails there is not wrong. That range also bounds what one evaluation takes: below half a GiB of tensors.
    """
    unknown = sorted(set(sizes) - set(problem.sizes))
    if unknown:
        raise UsageError(
            f"{problem.id} has no size named {', '.join(unknown)}.", f"Its sizes are {', '.join(problem.sizes)}."
        )
    asked = {**problem.example_sizes[0], **sizes}
    for name, size in asked.items():
        if not 1 <= size <= problem.serves.most[name]:
            raise UsageError(
                f"The size {name}={size} is out of range.", f"{problem.id} is graded with {problem.serves.text}."
            )
    if not problem.serves.admits(asked):
        others = ", ".join(f"{name}={size}" for name, size in asked.items() if name not in sizes)
        raise UsageError(
            f"The sizes {sizes_in_words(asked)} are out of range together"
            f"{f' ({others} by default)' if others else ''}.",
            f"{problem.id} is graded with {problem.serves.text}.",
        )
    return asked


def rehearsal(problem: Problem, trials: Sequence[PlannedTrial]) -> tuple[PlannedTrial, ...]:
    """The few of `trials` that a simulator does in a moment: it sees races and bad reads, as no GPU does."""

    def cost(trial: PlannedTrial) -> float:
        return work_at(problem, trial.sizes)

    usual = sorted((trial for trial in trials if trial.kind == "usual"), key=cost)
    cheap = [trial for trial in usual if cost(trial) <= _REHEARSED_WORK]
    if not cheap:  # a problem that states its own sizes may have none that take a moment
        return tuple(trial for trial in usual[:1] if cost(trial) <= _REHEARSED_ONCE_WORK)
    return tuple(cheap if len(cheap) <= _REHEARSED_MOST else (cheap[0], *cheap[1 - _REHEARSED_MOST :]))


def work_at(problem: Problem, sizes: Sizes) -> float:
    """The problem's least work at `sizes`: operations, and words of memory that move."""
    work = problem.work(sizes)
    return work.flops + (work.read_bytes + work.written_bytes) / 4


def unlike(
    correctness: Correctness, planned: Sequence[PlannedTrial], afterwards: Sequence[PlannedTrial]
) -> str | None:
    """Why the trials that a verdict shows cannot be those of `planned`, in words; None where they can.

    `afterwards`: which may come after all planned ones, in a verdict that did not pass.
    """
    trials = correctness.trials
    unjudged = [trial for trial in trials if trial.compared == 0]
    if any(dict(trial.sizes) not in [dict(one.sizes) for one in planned if one.beyond] for trial in unjudged):
        return "it has a trial that compared nothing, at a size where all is compared"
    if correctness.planned_trials != len(planned):
        return f"it says that {correctness.planned_trials} were planned, and should say {len(planned)}"
    if correctness.passed and len(trials) != len(planned):
        return f"it passed with {len(trials)} of {len(planned)} trials"
    if correctness.passed and not all(trial.passed for trial in trials):
        return "it passed with a trial that did not"
    published = planned[0].published if planned else {}
    described = partial(_described, published=published)
    expected = [described(one) for one in planned]
    usual = sum(not one.beyond for one in planned)
    for index, trial in enumerate(trials):
        allowed = expected[index : index + 1] or [described(one) for one in afterwards]
        if index >= usual and not trial.passed:  # large trials come after what a simulator does last
            allowed = [*allowed, *(described(one) for one in afterwards)]
        if index and not trials[index - 1].passed:  # a failure that two looks at the same run have found
            allowed = [*allowed, described(trials[index - 1])]
        if described(trial) not in allowed:
            return f"trial {index + 1} is {described(trial)}, and should be {allowed[0] if allowed else 'none'}"
    return None


def _described(trial: PlannedTrial | Trial, published: Mapping[str, float]) -> str:
    # Some verdicts name scalars only where they are not as published.
    name = trial.distribution if isinstance(trial, Trial) else trial.distribution.name
    # By name: the members of a JSON object come in any order.
    sizes = [f"{one}={size}" for one, size in sorted(trial.sizes.items())]
    values = ", ".join(
        sizes + [f"{one}={float(value)!r}" for one, value in sorted({**published, **trial.scalars}.items())]
    )
    return f"{values} with {name} inputs{' (hidden)' if trial.hidden else ''}"


def trial_of(
    planned: PlannedTrial,
    passed: bool,
    comparison: Comparison | None = None,
    compared: int | None = None,
    blocks: str | None = None,
) -> Trial:
    """A trial that ran, as the verdict shows it."""
    return Trial(
        sizes=dict(planned.sizes),
        scalars=planned.values,
        distribution=planned.distribution.name,
        hidden=planned.hidden,
        passed=passed,
        worst_error=comparison.worst_error if comparison else None,
        mismatch=comparison.mismatch if comparison else None,
        compared=compared,
        blocks=blocks,
    )
