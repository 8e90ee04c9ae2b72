"""Trials whose tensors are too large to travel to the simulator and back: the large edges and the size of the timing.

Inputs are stretches of drawn pieces. Outputs stay in the process; what comes back is which elements nobody has
written, and the elements that are compared, chosen after the run. Where all blocks together take too long, a few of
them are run and what they wrote is compared; a launch whose blocks write too little for that is run whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evaluator.backends.session import Buffer, BufferCopy, BufferFill, KernelLaunch, PieceSession, PlanRun, RunOutcome
from evaluator.errors import Ruling
from evaluator.problems.arrays import dtype_in, namespace, rng_seed
from evaluator.problems.problem import Problem, sizes_in_words
from evaluator.stages.launch.checked_plan import BufferFacts, SizedPlan
from evaluator.stages.verify.comparison import Comparison, compare_elements, compare_output
from evaluator.stages.verify.examination import POISON, Examination
from evaluator.stages.verify.findings.input_check import input_changed
from evaluator.stages.verify.instruction_limit import instruction_limit
from evaluator.stages.verify.large.growth import where_it_breaks_off
from evaluator.stages.verify.large.pieces import Piece, draw_pieces
from evaluator.stages.verify.large.spread_elements import spread_elements, strides_of, written_elements
from evaluator.stages.verify.trials import PlannedTrial, tensor_bytes, trial_of, work_at

_LARGE_BYTES: Final = 6 << 20
"""Of all tensors: below, drawing, sending and comparing everything takes a few tens of milliseconds."""
_LARGE_WORK: Final = 150_000_000
"""Operations, and words that move: below, the oracle of all elements takes some tenths of a second. Attention of
4,096 keys has few bytes, and 17 million scores."""
_WHOLE_INSTRUCTIONS: Final = 2_500_000_000
"""Thread-instructions of a run that is made whole: about half a second on two cores. It admits every edge of all
problems' own kernels but one, and the size of the timing of all whose work is in proportion to their memory."""
_WHOLE_S: Final = 8.0
"""For such a run; the prediction is only as good as the problem's work is proportional to the kernel's."""
_SAMPLED_INSTRUCTIONS: Final = 200_000_000
"""Of the blocks that are run where the whole takes more: a few tenths of a second."""
_LEAST_BLOCKS: Final = 4
_MOST_BLOCKS: Final = 256
_WRITTEN_SHARES: Final = (0.8, 0.9)
"""Of the outputs that the sampled blocks would write, were there as many as the launch has: of fewer than 16 blocks,
and of more. Edge blocks write less, and blocks are few; where they store less than that, the launch is run whole."""
_FEW_BLOCKS: Final = 16
_TERMS: Final = 8_000_000
"""Of the oracle, for the elements of one comparison: some tens of milliseconds."""
_LEAST_ELEMENTS: Final = 1600
"""What is wrong in 0.3 % of all elements is missed once in a hundred times at most: 0.997^1600 = 0.008."""
_MOST_ELEMENTS: Final = 4096
_LEAST_LIMIT: Final = 4 * _WHOLE_INSTRUCTIONS
"""Instructions that any such run may execute. At the edges a right kernel may take hundreds of times what the naive
one does (a block of 256 threads for a row of three elements), and it was foretold to stay below a quarter of this."""
_HAS_NO_END: Final = frozenset({"watchdog", "instruction_limit", "no_room", "not_held"})


@dataclass(frozen=True)
class LargeTrial:
    """One large trial with its contents."""

    planned: PlannedTrial
    sized_plan: SizedPlan
    pieces: Mapping[str, Piece]

    def buffers(self) -> tuple[Buffer, ...]:
        """All buffers of a run; large outputs stay where they are."""
        return tuple(self._buffer(facts) for facts in self.sized_plan.buffers)

    def _buffer(self, facts: BufferFacts) -> Buffer:
        if facts.role == "input":
            return self.pieces[facts.name].buffer(facts)
        sampled = facts.role == "output"
        return Buffer(facts.name, facts.role, facts.size_bytes, facts.dtype.size_bytes, None, sampled=sampled)

    @property
    def outputs(self) -> tuple[BufferFacts, ...]:
        return tuple(facts for facts in self.sized_plan.buffers if facts.role == "output")


class SampledTrials:
    """Judges large trials on a session that can sample."""

    def __init__(self, session: PieceSession, patient: bool = True) -> None:
        """`patient`: a run that comes to no end is left out, and not held against the submission."""
        self._session = session
        self._forgiven = _HAS_NO_END if patient else frozenset[str]()
        self._too_slow: float | None = None
        """The least work at which a run did not come to its end in time."""

    def judge(self, examination: Examination, trial: PlannedTrial, sized_plan: SizedPlan) -> Ruling | None:
        """Run it as far as it can be afforded, and compare elements. Raises UnsupportedError, InfrastructureError."""
        problem, work = examination.problem, work_at(examination.problem, trial.sizes)
        if self._too_slow is not None and work >= self._too_slow:
            return self._left_out(examination, trial, "a smaller run took too long")
        cost = predicted(examination.costs, work, sized_plan.threads)
        small = tensor_bytes(problem, trial.sizes) <= _LARGE_BYTES and work <= _LARGE_WORK
        if cost <= _WHOLE_INSTRUCTIONS and small:
            return self._usual(examination, trial, sized_plan)
        inputs = tuple(facts for facts in sized_plan.buffers if facts.role == "input")
        pieces = draw_pieces(inputs, trial.distribution, examination.rng, problem, trial.sizes)
        large = LargeTrial(trial, sized_plan, pieces)
        if cost <= _WHOLE_INSTRUCTIONS:
            return self._whole(examination, large, min(_WHOLE_S, examination.left_s))
        launch = _the_launch(sized_plan)
        if launch is None:
            return self._left_out(
                examination,
                trial,
                f"all of it takes too long (about {cost:.2g} thread-instructions), and blocks by themselves say "
                "nothing where a plan has several launches, fills an output, or launches cooperatively",
            )
        blocks = prod(launch.grid)
        few = max(_LEAST_BLOCKS, min(_MOST_BLOCKS, int(_SAMPLED_INSTRUCTIONS / cost * blocks)))
        return self._blocks(examination, large, few, blocks)

    def _usual(self, examination: Examination, trial: PlannedTrial, sized_plan: SizedPlan) -> Ruling | None:
        """As every trial, but that a run without an end is not held against the submission."""
        left_s, allowed_s = examination.left_s, min(_WHOLE_S, examination.left_s)
        examination.left_s = allowed_s
        before = examination.fault
        ruling = examination.run(trial, sized_plan, _LEAST_LIMIT)
        examination.left_s += left_s - allowed_s
        if ruling is None or examination.fault is None or examination.fault.kind not in self._forgiven:
            return ruling
        examination.trials.pop()
        examination.fault = before
        return self._without_end(examination, trial, allowed_s)

    def _without_end(self, examination: Examination, trial: PlannedTrial, limit_s: float) -> Ruling | None:
        self._too_slow = work_at(examination.problem, trial.sizes)
        if (ruling := where_it_breaks_off(examination, trial)) is not None:
            return ruling
        return self._left_out(
            examination, trial, f"it did not end within {limit_s:.3g} s and {_LEAST_LIMIT:.0e} instructions"
        )

    def _whole(self, examination: Examination, large: LargeTrial, limit_s: float) -> Ruling | None:
        outcome = self._run(examination, large, limit_s)
        if outcome.fault is not None and outcome.fault.kind in self._forgiven:
            return self._without_end(examination, large.planned, limit_s)
        ruling = examination.fault_ruling(outcome, large.planned) or self._changed(outcome, large)
        if ruling is not None:
            examination.trials.append(trial_of(large.planned, False))
            return ruling
        chosen: dict[str, NDArray[np.int64]] = {}
        dice = np.random.default_rng(rng_seed(examination.rng))
        for facts in large.outputs:
            most, unwritten = _most_elements(examination.problem, large, facts), outcome.samples[facts.name].unwritten
            chosen[facts.name] = spread_elements(
                facts.shape, strides_of(large.sized_plan.steps), most, dice, unwritten
            )
        lacking = {name: sample.unwritten for name, sample in outcome.samples.items() if sample.unwritten is not None}
        return self._compared(examination, large, chosen, {name: int(of.sum()) for name, of in lacking.items()})

    def _blocks(self, examination: Examination, large: LargeTrial, few: int, blocks: int) -> Ruling | None:
        dice = np.random.default_rng(rng_seed(examination.rng))
        seed = int(dice.integers(1 << 62))
        outcome = self._run(examination, large, min(_WHOLE_S, examination.left_s), few, seed)
        try:
            ruling, judged = self._judged_blocks(examination, large, outcome, few, blocks, dice)
        finally:
            self._session.renew()  # what a few blocks leave in module variables is no state that a launch ends in
        # Blocks by themselves do not come to an end, fault, write little, or are wrong where they work with others:
        # it may be that they need those.
        return ruling if judged else self._whole(examination, large, examination.left_s)

    def _judged_blocks(
        self,
        examination: Examination,
        large: LargeTrial,
        outcome: RunOutcome,
        few: int,
        blocks: int,
        dice: np.random.Generator,
    ) -> tuple[Ruling | None, bool]:
        """What a few blocks show, and whether that is enough."""
        if outcome.fault is None:
            if (ruling := self._changed(outcome, large)) is not None:
                examination.trials.append(trial_of(large.planned, False))
                return ruling, True
            count = {facts.name: prod(facts.shape) for facts in large.outputs}
            gaps = {name: outcome.samples[name].unwritten for name in count}
            done = {name: count[name] if gap is None else int((~gap).sum()) for name, gap in gaps.items()}
            share = _WRITTEN_SHARES[few >= _FEW_BLOCKS]
            if all(done[name] * blocks >= share * count[name] * few for name in count):
                chosen = {
                    facts.name: written_elements(
                        gaps[facts.name],
                        count[facts.name],
                        _most_elements(examination.problem, large, facts),
                        dice,
                    )
                    for facts in large.outputs
                }
                ruling = self._compared(examination, large, chosen, {}, f"{few:,} of {blocks:,}")
                if ruling is None or not examination.session.shares_memory:
                    return ruling, True
                examination.trials.pop()  # what several blocks make together may lack the last one's part
        return None, False

    def _run(
        self, examination: Examination, large: LargeTrial, limit_s: float, blocks: int = 0, seed: int = 0
    ) -> RunOutcome:
        run = PlanRun(
            large.buffers(),
            large.sized_plan.steps,
            POISON,
            limit_s,
            sample_blocks=blocks,
            sample_seed=seed,
            jitter=examination.jitter,
            registers=examination.registers.draw(),
            instruction_limit=max(instruction_limit(examination.problem, large.planned.sizes), _LEAST_LIMIT),
            poison_elsewhere=examination.order.poison_elsewhere(),
        )
        return examination.carry_out(run)

    @staticmethod
    def _changed(outcome: RunOutcome, large: LargeTrial) -> Ruling | None:
        where = f"in a run at {large.planned.place}"
        for name, piece in large.pieces.items():
            if piece.repeats:
                changed = outcome.samples[name].changed is not None
            else:
                changed = bool((outcome.contents[name] != piece.content.view(np.uint8)).any())
            if changed:
                return input_changed(name, where)
        return None

    def _compared(
        self,
        examination: Examination,
        large: LargeTrial,
        chosen: Mapping[str, NDArray[np.int64]],
        unwritten: Mapping[str, int],
        blocks: str | None = None,
    ) -> Ruling | None:
        trial = large.planned
        inputs = {name: piece.tensor() for name, piece in large.pieces.items()}
        expected = examination.problem.oracle_at(inputs, trial.sizes, chosen, **trial.scalars)
        compared = sum(places.size for places in chosen.values())
        worst: Comparison | None = None
        for facts in large.outputs:
            places = chosen[facts.name]
            memory = self._session.elements(facts.name, places)
            actual: NDArray[Any] = memory.reshape(-1).view(dtype_in(namespace(memory), facts.dtype))
            if places.size == prod(facts.shape):
                whole = expected[facts.name].shaped(facts.shape)
                found = compare_output(facts.name, actual.reshape(facts.shape), whole, trial.tolerance, POISON)
            else:
                found = compare_elements(
                    facts.name,
                    facts.shape,
                    places,
                    actual,
                    expected[facts.name],
                    trial.tolerance,
                    POISON,
                    unwritten.get(facts.name, 0),
                )
            if found.mismatch is not None:
                examination.trials.append(trial_of(trial, False, found, compared, blocks))
                return examination.incorrect(trial, found)
            worst = max(worst or found, found, key=lambda one: one.worst_error or 0.0)
        examination.trials.append(trial_of(trial, True, worst, compared, blocks))
        return None

    @staticmethod
    def _left_out(examination: Examination, trial: PlannedTrial, why: str) -> Ruling | None:
        examination.left_out.append(f"{sizes_in_words(trial.sizes)}: {why}")
        examination.trials.append(trial_of(trial, True, compared=0))
        return None


def predicted(costs: Sequence[tuple[float, int, int]], work: float, threads: int) -> float:
    """Thread-instructions to expect of a run with so much work and so many threads, after what others took.

    `costs`: work, threads and thread-instructions of each. Least squares of the relative error, no term negative.
    """
    if not costs:
        return 0.0
    terms = np.array([(one, many) for one, many, _ in costs], np.float64)
    terms /= np.maximum([[took] for _, _, took in costs], 1.0)
    ones = np.ones(len(costs))
    factors = np.linalg.lstsq(terms, ones, rcond=None)[0]
    if (factors < 0).any():
        kept = int(np.argmax(factors))
        factors = np.zeros(2)
        factors[kept] = terms[:, kept].sum() / max(float((terms[:, kept] ** 2).sum()), 1e-300)
    return float(factors @ (work, threads))


def _the_launch(sized_plan: SizedPlan) -> KernelLaunch | None:
    """The launch whose blocks can be judged by themselves: the only one, and nothing else writes to an output."""
    launches = [step for step in sized_plan.steps if isinstance(step, KernelLaunch)]
    outputs = {facts.name for facts in sized_plan.buffers if facts.role == "output"}
    for step in sized_plan.steps:
        if isinstance(step, BufferFill) and step.buffer in outputs:
            return None
        if isinstance(step, BufferCopy) and step.target in outputs:
            return None
    return launches[0] if len(launches) == 1 and not launches[0].cooperative else None


def _most_elements(problem: Problem, large: LargeTrial, facts: BufferFacts) -> int:
    """How many elements of an output are compared: as many as the oracle has time for."""
    work, count = problem.work(large.planned.sizes), prod(facts.shape)
    row = facts.shape[-1] if len(facts.shape) > 1 else 1
    terms = max(work.flops / count, work.read_bytes / 4 / count, row)
    return min(_MOST_ELEMENTS, max(_LEAST_ELEMENTS, int(_TERMS / terms)))
