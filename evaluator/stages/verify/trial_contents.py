"""Inputs of trials and what their outputs should be; what undefined memory holds in one run after another; and
what a session has seen of outputs by itself.

A session that looks by itself asks for the answer while the program runs. That is when the inputs of the next trial
are drawn too: in the same order as without, so that a seed gives the same contents either way. It is also told of the
run that comes next, or of those that are launched together then, whose contents it writes by the same wait as it
looks at the one before.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

import numpy as np

from evaluator.backends.session import PlanRun, RunOutcome, Session, Wanted
from evaluator.problems.arrays import Array, Rng, to_numpy
from evaluator.problems.linter import HARDLY, telling_share
from evaluator.problems.problem import Arrays, Expected, Problem, Sizes, Tolerance
from evaluator.stages.launch.checked_plan import SizedPlan
from evaluator.stages.verify.comparison import SURELY_RIGHT, Comparison, compare_output, is_poison
from evaluator.stages.verify.findings.undefined_memory import PoisonTurns
from evaluator.stages.verify.trials import PlannedTrial, tensor_bytes, work_at

_SMALL_BYTES: Final = 1 << 18
"""Of all tensors. An operation on so much takes a processor some 10 us, as long as it takes to ask a GPU for one."""
_SMALL_WORK: Final = 2_000_000
"""Operations and words of memory: a product takes a processor a tenth of a millisecond then."""
TWICE_MOST: Final = 5
"""Trials that are run again on other undefined memory."""
_LOOKED_AT: Final = 16
"""Elements of each output, before all are: with other values than a trial's it is seldom right."""
_HOST_COPIES: Final = 48
"""Of how many small trials the copies on the host are kept: of more than are drawn before the first is judged."""

NextTrial: TypeAlias = tuple[PlannedTrial, SizedPlan]
"""A trial that comes next, and its plan."""


class TellingTrials:
    """Looks at the answers of one evaluation until each output has had one that tells: mostly the first does."""

    def __init__(self) -> None:
        self._best: dict[str, float] = {}
        """The most telling share so far of each output that hardly tells."""
        self._telling: set[str] = set()

    def look(self, expected: Mapping[str, Expected], tolerance: Tolerance) -> None:
        """Take account of one trial's answer."""
        for name in expected.keys() - self._telling:
            # Of the least that may be allowed too much would tell; a trial before this one had all of it.
            share = telling_share(expected[name], tolerance) if expected[name].whole is None else None
            if share is None:
                continue
            self._best[name] = max(share, self._best.get(name, 0.0))
            if share >= HARDLY:
                self._telling.add(name)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One for each output of which no answer told much."""
        return tuple(self._said())

    def _said(self) -> Iterator[str]:
        for name, share in sorted(self._best.items()):
            if name not in self._telling:
                yield (
                    f"no trial tells much about '{name}': in each at least {100 * (1 - share):.4g} % of its elements "
                    "should be one and the same number, so a wrong kernel can be right there"
                )


class TrialContents:
    """What trials hold, and what is wanted of them."""

    def __init__(self, problem: Problem, rng: Rng, poison: int) -> None:
        self._problem, self._rng, self._poison = problem, rng, poison
        self.telling = TellingTrials()
        self._following: tuple[PlannedTrial, ...] = ()
        self._drawn: list[tuple[PlannedTrial, Arrays]] = []
        """Those whose turn has not come."""
        self._on_host: deque[tuple[Arrays, Arrays]] = deque(maxlen=_HOST_COPIES)
        """The inputs of small trials, and what they are copies of."""

    def inputs(self, trial: PlannedTrial, following: Sequence[PlannedTrial] = ()) -> Arrays:
        """A trial's inputs, drawn now unless they were before; `following` come next."""
        self._following = tuple(following)
        inputs = self.drawn_ahead(trial)
        if inputs is None:
            return self._draw([trial])[0]
        self._drawn = [one for one in self._drawn if one[0] is not trial]
        return inputs

    def drawn_ahead(self, trial: PlannedTrial) -> Arrays | None:
        """The inputs of a trial that comes next, once they are there."""
        return next((inputs for one, inputs in self._drawn if one is trial), None)

    def put_back(self, trials: Sequence[PlannedTrial], inputs: Sequence[Arrays]) -> None:
        """Have these trials come once more, with the same inputs."""
        self._drawn = [*zip(trials, inputs, strict=True), *self._drawn]

    def wanted(self, trial: PlannedTrial, sized_plan: SizedPlan, inputs: Arrays) -> Wanted:
        """What the outputs should be; the inputs of the trials that follow are drawn as well."""
        return self.wanted_together([(trial, sized_plan)], [inputs])[0]

    def wanted_together(self, trials: Sequence[NextTrial], inputs: Sequence[Arrays]) -> list[Wanted]:
        """The same of several trials with these inputs."""
        expected = self._expected([trial for trial, _ in trials], inputs)
        following, self._following = self._following, ()
        following = tuple(trial for trial in following if self.drawn_ahead(trial) is None)
        self._drawn += zip(following, self._draw(following), strict=True)
        return [
            Wanted(each, trial.tolerance, {b.name: (b.dtype, b.shape) for b in plan.buffers if b.role == "output"})
            for each, (trial, plan) in zip(expected, trials, strict=True)
        ]

    def _draw(self, trials: Sequence[PlannedTrial]) -> list[Arrays]:
        """On the host, and moved, where that is sooner done: two trials in three, each of a hundred operations."""
        drawn: list[Arrays] = []
        small = []
        for trial in trials:
            if self._is_small(trial):
                small.append(len(drawn))
                drawn.append(trial.distribution.draw(self._rng.nearby(), trial.sizes))
            else:
                drawn.append(trial.distribution.draw(self._rng, trial.sizes))
        arrays = [array for number in small for array in drawn[number].values()]
        moved = iter(self._rng.taken(*arrays) if arrays else ())
        for number in small:
            host = drawn[number]
            drawn[number] = {name: next(moved) for name in host}
            self._on_host.append((drawn[number], host))
        return drawn

    def _is_small(self, trial: PlannedTrial) -> bool:
        problem, sizes = self._problem, trial.sizes
        return tensor_bytes(problem, sizes) <= _SMALL_BYTES and work_at(problem, sizes) <= _SMALL_WORK

    def _expected(self, trials: Sequence[PlannedTrial], inputs: Sequence[Arrays]) -> list[dict[str, Expected]]:
        """What the oracle says, computed where the inputs were drawn."""
        found: list[dict[str, Expected]] = []
        near = []
        for trial, given in zip(trials, inputs, strict=True):
            host = next((copied for moved, copied in self._on_host if moved is given), None)
            if host is not None:
                near.append(len(found))
            found.append(self.answer(trial, given if host is None else host))
        parts = [(e.value, e.scale, e.relative, e.longer, e.beyond) for n in near for e in found[n].values()]
        arrays = [part for each in parts for part in each if not isinstance(part, float | int)]
        moved = iter(self._rng.taken(*arrays) if arrays else ())
        each_moved = (
            Expected(*(part if isinstance(part, float | int) else next(moved) for part in each)) for each in parts
        )
        for number in near:
            found[number] = {name: next(each_moved) for name in found[number]}
        return found

    def answer(self, trial: PlannedTrial, inputs: Arrays) -> dict[str, Expected]:
        """What the oracle says."""
        found = self._problem.oracle(inputs, trial.sizes, **trial.scalars)
        self.telling.look(found, trial.tolerance)
        return found

    def right(self, trial: PlannedTrial, inputs: Arrays, outputs: Mapping[str, Array]) -> bool:
        """Whether these are what the oracle gives."""
        expected = self._problem.oracle(inputs, trial.sizes, **trial.scalars)
        compared = (compare_output(n, a, expected[n], trial.tolerance, self._poison) for n, a in outputs.items())
        return all(comparison.mismatch is None for comparison in compared)

    def right_with(
        self, trial: PlannedTrial, inputs: Arrays, outputs: Mapping[str, Array]
    ) -> Callable[[Mapping[str, float]], bool]:
        """Whether these would be right with other values of scalars."""

        def right(scalars: Mapping[str, float]) -> bool:
            other = replace(trial, scalars=scalars)
            return self._some_right(other, inputs, outputs) and self.right(other, inputs, outputs)

        return right

    def _some_right(self, trial: PlannedTrial, inputs: Arrays, outputs: Mapping[str, Array]) -> bool:
        """Whether a few elements are: on the host, where that takes much less than to look at all of them."""
        if self._problem.sampler is None or not all(isinstance(array, np.ndarray) for array in outputs.values()):
            return True
        places = {n: np.unique(np.linspace(0, a.size - 1, _LOOKED_AT).astype(np.int64)) for n, a in outputs.items()}
        expected = self._problem.oracle_at(inputs, trial.sizes, places, **trial.scalars)
        some = {name: to_numpy(array).reshape(-1)[places[name]] for name, array in outputs.items()}
        compared = (compare_output(n, a, expected[n], trial.tolerance, self._poison) for n, a in some.items())
        return all(comparison.mismatch is None for comparison in compared)


class RunOrder:
    """The runs of one evaluation's trials: patterns are drawn in the same order whether they are asked for ahead."""

    def __init__(self, session: Session, contents: TrialContents, poison: int, seed: int) -> None:
        """`poison` is what outputs hold before each first run; `seed` draws all other patterns."""
        self._contents, self._poison = contents, poison
        # Where instructions are counted, their number decides whether a trial is run again.
        self._repeats_known = not session.counts_instructions
        self._turns = PoisonTurns(seed)
        self.twice = 0
        """Trials that were run again so far."""
        self._last_sizes: Sizes = {}  # one of the same sizes begins with what the trial before left
        self._pairs: list[tuple[int, int]] = []
        """Both patterns of each run that repeats a trial, where they were drawn before its turn."""
        self._next: tuple[NextTrial, ...] = ()
        """The trial that comes next, or those that are run together then, where nothing else is run before."""
        self._next_elsewhere: int | None = None
        """Its pattern of all but outputs, where that was drawn before its turn."""

    def begin(self, trial: PlannedTrial, sized_plan: SizedPlan, following: Sequence[NextTrial]) -> tuple[bool, int]:
        """Of the trial whose turn it is: whether it finds undefined memory as the run before left it, and the pattern
        of all but outputs. `following` come next.
        """
        keeps, elsewhere = trial.sizes == self._last_sizes, self._next_elsewhere
        if elsewhere is None or not self._next or self._next[0][0] is not trial:
            elsewhere = self._poison if keeps else self.poison_elsewhere()
        self._last_sizes, self._next_elsewhere = trial.sizes, None
        # Other orders and later calls come before the next trial, and find memory as this one left it.
        self._next = () if sized_plan.orders or sized_plan.prepared else tuple(following)
        return keeps, elsewhere

    def begin_together(
        self, trials: Sequence[NextTrial], inputs: Sequence[Arrays], following: Sequence[NextTrial]
    ) -> tuple[PlanRun, ...]:
        """Their runs, without time limits: right behind that of a trial the one that repeats it, where one does. They
        have no temporaries, so nothing is kept for them.
        """
        self._last_sizes, self._next_elsewhere, self._next = trials[-1][0].sizes, None, tuple(following)
        runs = self._together(trials, inputs)
        again = sum(run.same_as_before for run in runs)
        self.twice += again
        del self._pairs[:again]
        return runs

    def _together(self, trials: Sequence[NextTrial], inputs: Sequence[Arrays]) -> tuple[PlanRun, ...]:
        runs: list[PlanRun] = []
        for number, ((_, sized_plan), given) in enumerate(zip(trials, inputs, strict=True)):
            run = PlanRun(sized_plan.buffers_with(given), sized_plan.steps, self._poison, 0.0)
            runs.append(run)
            if number < TWICE_MOST - self.twice:
                poison, elsewhere = self._pair(number)
                runs.append(replace(run, poison=poison, poison_elsewhere=elsewhere, same_as_before=True))
        return tuple(runs)

    def _pair(self, number: int) -> tuple[int, int]:
        """Of the repeating run that comes behind so many others."""
        while len(self._pairs) <= number:
            self._pairs.append(next(self._turns.both))
        return self._pairs[number]

    @property
    def repeats_cheap(self) -> bool:
        """Whether a trial that costs little is run again."""
        return self.twice < TWICE_MOST

    def poison_elsewhere(self) -> int:
        """Of the next run of a trial; NaN while trials are run twice, so that what is made of it can be told."""
        return self._poison if self.repeats_cheap else next(self._turns.elsewhere)

    def repeats(self) -> tuple[int, int]:
        """The patterns of outputs and of all else in the run that repeats a trial."""
        pair = self._pair(0)
        del self._pairs[0]
        return pair

    def after_first(self, sized_plan: SizedPlan, inputs: Arrays) -> Callable[[], tuple[PlanRun, ...]]:
        """What comes behind the first run of a trial, if all is well."""
        repeated = self._repeats_known and self.repeats_cheap
        return partial(self._repeated, sized_plan, inputs) if repeated else self.after_trial

    def _repeated(self, sized_plan: SizedPlan, inputs: Arrays) -> tuple[PlanRun, ...]:
        poison, elsewhere = self._pair(0)
        buffers = sized_plan.buffers_with(inputs)
        return (PlanRun(buffers, sized_plan.steps, poison, 0.0, poison_elsewhere=elsewhere),)

    def after_trial(self) -> tuple[PlanRun, ...]:
        """What comes behind the last run of a trial, if all is well: the first of the next one, or those of several
        that are run together, once their inputs are drawn.

        A run that is only announced needs no time limit.
        """
        ahead = [self._contents.drawn_ahead(trial) for trial, _ in self._next]
        inputs = [given for given in ahead if given is not None]
        if not inputs or len(inputs) < len(ahead):
            return ()
        if len(inputs) > 1:
            return self._together(self._next, inputs)
        (trial, sized_plan) = self._next[0]
        keeps = trial.sizes == self._last_sizes
        if self._next_elsewhere is None:
            self._next_elsewhere = self._poison if keeps else self.poison_elsewhere()
        buffers = sized_plan.buffers_with(inputs[0])
        return (
            PlanRun(buffers, sized_plan.steps, self._poison, 0.0, poison_elsewhere=self._next_elsewhere, keeps=keeps),
        )


def poisoned(outcome: RunOutcome, outputs: Mapping[str, Array], poison: int) -> bool:
    """Whether an element of an output still consists of poison."""
    if outcome.looked is not None:
        return outcome.looked.poisoned
    return any(bool(is_poison(array, poison).any()) for array in outputs.values())


def surely_right(outcome: RunOutcome, outputs: Mapping[str, Array]) -> Comparison | None:
    """The comparison of outputs all of which the session has seen to be right; None where others have to look."""
    worst = outcome.looked.worst if outcome.looked is not None else None
    # A NaN is not below it.
    if worst and set(worst) == set(outputs) and all(error < SURELY_RIGHT for error in worst.values()):
        return Comparison(max(worst.values()), None)
    return None
