"""Shrinking: the smallest sizes and the simplest inputs at which a failed verification still fails in the same way.

Every candidate is run from afresh and judged by the verification itself. First all sizes go together through a ladder
of small numbers (1, 2, 3, … around the powers of 2), then each by itself, with bisection between the last rung that
did not show it and the first that did; then the scalars get their published values and the inputs plain ones.
Simplifying by trying again is delta debugging (A. Zeller and R. Hildebrandt, IEEE TSE 28(2), 2002).
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from common.contract import Mismatch, Settings, Smallest, Status, Trial
from common.contract.correctness import Content
from evaluator.backends.session import Program, UnsupportedError
from evaluator.backends.sim.backend import Simulator
from evaluator.errors import InfrastructureError
from evaluator.problems.arrays import NumpyRng, Rng
from evaluator.problems.plain import IN_WORDS, SIMPLEST_FIRST, contents
from evaluator.problems.problem import Arrays, Distribution, Problem, Sizes, Tolerance
from evaluator.stages.launch.checked_plan import CheckedPlan
from evaluator.stages.verify.large.large_trials import SampledTrials
from evaluator.stages.verify.trials import PlannedTrial
from evaluator.stages.verify.verification import verify
from evaluator.stages.verify.verified import Verified

_LADDER: Final = (*range(1, 7), *((1 << power) + off for power in range(3, 31) for off in (-1, 0, 1)))
_WITHOUT_END: Final = frozenset({"instruction_limit", "endless_wait", "no_room"})
_DRAWS: Final = 10
"""How often the failed trial is drawn anew, before it counts as right by itself: its fault may need a rare value."""
_CANDIDATE_S: Final = 2.0
_STILL_RUNNING_S: Final = 1.0
_CLEARLY: Final = 4.0
"""How far beyond the allowed error a wrong element must be where the inputs are not those of the problem's own."""
_MAX_ROUNDS: Final = 3


@dataclass(frozen=True)
class _Symptom:
    """What kind of fault a verification found."""

    status: Status
    kind: str
    kernel: str | None = None


@dataclass(frozen=True)
class Candidate:
    """One run that may show the fault."""

    sizes: Sizes
    scalars: Mapping[str, float]
    inputs: Mapping[str, Content]
    distribution: Distribution
    seed: int

    def draw(self, problem: Problem) -> Arrays:
        """The contents of all inputs."""
        drawn: Arrays = {}
        if "drawn" in self.inputs.values():
            drawn = self.distribution.draw(NumpyRng(np.random.default_rng(self.seed)), self.sizes)
        return {
            t.name: drawn[t.name] if self.inputs[t.name] == "drawn" else contents(t, self.sizes, self.inputs[t.name])
            for t in problem.inputs
        }

    @property
    def key(self) -> tuple[object, ...]:
        return (*self.sizes.items(), *self.scalars.items(), *self.inputs.items(), self.seed)


def candidate_of(problem: Problem, smallest: Smallest) -> Candidate:
    """The run that a verdict tells of. Raises ValueError where the problem has no such distribution."""
    found = _distribution(problem, smallest.distribution)
    if found is None:
        raise ValueError(f"{problem.id} has no distribution named {smallest.distribution}")
    return Candidate(smallest.sizes, smallest.scalars, smallest.inputs, found, smallest.seed)


def tolerance_of(problem: Problem, candidate: Candidate) -> Tolerance:
    """A probe's own tolerance holds for its own inputs alone."""
    for probe in (*problem.probes, *problem.edge_probes):
        if probe.distribution is candidate.distribution and set(candidate.inputs.values()) == {"drawn"}:
            return probe.tolerance
    return problem.tolerance


def shrink(
    checked_plan: CheckedPlan,
    program: Program,
    simulator: Simulator,
    settings: Settings,
    verified: Verified,
    seed: int,
) -> Verified:
    """`verified`, which failed, and the smallest run that shows the same, as far as `settings.shrink_s` allows.

    Where there is none, or our own means fail, a warning says so: the verdict stands either way. `seed` draws
    contents, and what of them is watched.
    """
    correctness, ruling = verified.correctness, verified.ruling
    symptom, trial = _symptom(verified), _failed(verified)
    if correctness is None or ruling is None or symptom is None or trial is None:
        return verified
    search = _Search(checked_plan, program, simulator, settings, symptom, seed)
    try:
        smallest = search.smallest(trial)
    except UnsupportedError as missing:
        why = f"not shrunk: the simulator cannot run {missing.feature}"
    except InfrastructureError as fault:
        why = f"not shrunk: {fault}"
    else:
        if smallest is not None:
            told = correctness.model_copy(update={"smallest": smallest})
            return replace(
                verified,
                correctness=told,
                ruling=replace(ruling, message=f"{ruling.message} {smallest.said}"),
            )
        why = search.why_not()
    return verified.warned((why,))


class _Search:
    """The search for one submission's smallest failing run."""

    def __init__(
        self,
        checked_plan: CheckedPlan,
        program: Program,
        simulator: Simulator,
        settings: Settings,
        symptom: _Symptom,
        seed: int,
    ) -> None:
        self.checked_plan, self.program, self.simulator = checked_plan, program, simulator
        self.problem = checked_plan.problem
        candidate_s = _STILL_RUNNING_S if symptom.kind == "watchdog" else _CANDIDATE_S
        limit_s = min(settings.run_timeout_s, candidate_s)
        self.settings = settings.model_copy(update={"run_timeout_s": limit_s})
        self.symptom, self.seed = symptom, seed
        self.until_s = time.monotonic() + settings.shrink_s
        self.judged: dict[tuple[object, ...], Verified] = {}
        self.in_time = True
        self.otherwise: str | None = None
        """How the failed trial ended when it was run again, where that was another end."""

    def smallest(self, trial: Trial) -> Smallest | None:
        """None where the trial by itself, from afresh, does not fail in the same way."""
        start = self._start(trial)
        if start is None:
            return None
        found = self._smaller_sizes(start)
        if found == start and not self._shows(start):
            return None
        return self._told(self._simpler(found), start)

    def why_not(self) -> str:
        if not self.in_time:
            return "not shrunk: the time for it was up before the failed trial had been run again"
        if self.otherwise is not None:
            return f"not shrunk: run by itself, from afresh, the failed trial ends otherwise: {self.otherwise}"
        return (
            "not shrunk: the failed trial is right when it is run by itself, from afresh, so the fault depends on "
            "the runs before it (module variables keep their values) or on rare values"
        )

    def _start(self, trial: Trial) -> Candidate | None:
        distribution = _distribution(self.problem, trial.distribution)
        if distribution is None:
            return None
        for draw in range(_DRAWS):
            everything: dict[str, Content] = {tensor.name: "drawn" for tensor in self.problem.inputs}
            one = Candidate(dict(trial.sizes), dict(trial.scalars), everything, distribution, self.seed + draw)
            if self._shows(one):
                return one
            ruling = self.judged[one.key].ruling if one.key in self.judged else None
            if ruling is not None:
                # It may be too much for the simulator at these sizes, and something smaller not.
                self.otherwise = ruling.message
                return one
        return None

    def _shows(self, candidate: Candidate) -> bool:
        """Whether the candidate fails in the same way; False too where the time is up."""
        verified = self.judged.get(candidate.key)
        if verified is None:
            if time.monotonic() >= self.until_s:
                self.in_time = False
                return False
            verified = self.judged[candidate.key] = self._verify(candidate)
        if _symptom(verified) != self.symptom:
            return False
        mismatch = _mismatch(verified)
        own = set(candidate.inputs.values()) == {"drawn"}
        return own or mismatch is None or mismatch.error is None or mismatch.error >= _CLEARLY

    def _verify(self, candidate: Candidate) -> Verified:
        tolerance = tolerance_of(self.problem, candidate)

        plain = set(candidate.inputs.values()) != {"drawn"}

        def draw(rng: Rng, sizes: Sizes) -> dict[str, object]:
            piece = not plain and sizes != candidate.sizes  # of contents that are too large to be drawn whole
            return dict(candidate.distribution.draw(rng, sizes) if piece else candidate.draw(self.problem))

        # Whatever the verification runs beside the trial, it is to run on this candidate's contents and scalars.
        same = replace(candidate.distribution, name="plain" if plain else candidate.distribution.name, draw=draw)
        given = candidate.scalars
        problem = replace(
            self.problem,
            distributions=(same,),
            tolerance=tolerance,
            scalars=tuple(replace(one, value=given.get(one.name, one.value)) for one in self.problem.scalars),
            oracle=partial(self.problem.oracle, **given),
        )
        trial = PlannedTrial(
            candidate.sizes,
            same,
            tolerance,
            True,
            given,
            "usual" if plain else "edge",
            published=problem.published_scalars,
        )
        rng = NumpyRng(np.random.default_rng(candidate.seed))
        with self.simulator.prepare(self.program, self.settings) as session:
            checked_plan = replace(self.checked_plan, problem=problem)
            beyond = SampledTrials(session, patient=False)
            return verify(checked_plan, session, self.settings, rng, [trial], seed=self.seed, beyond=beyond)

    # --- sizes -----------------------------------------------------------------------------------------------------

    def _smaller_sizes(self, found: Candidate) -> Candidate:
        for rung in _LADDER:
            if rung >= max(found.sizes.values()):
                break
            together = replace(found, sizes={name: min(size, rung) for name, size in found.sizes.items()})
            if self._shows(together):
                found = together
                break
        for _ in range(_MAX_ROUNDS):
            before = found
            for name in found.sizes:
                found = self._smaller(found, name)
            if found == before:
                break
        return found

    def _smaller(self, found: Candidate, name: str) -> Candidate:
        """The least size of this name, as far as rungs and bisection show it."""

        def at(size: int) -> Candidate:
            return replace(found, sizes={**found.sizes, name: size})

        right, wrong = 0, found.sizes[name]
        for rung in _LADDER:
            if rung >= found.sizes[name]:
                break
            if self._shows(at(rung)):
                wrong = rung
                break
            right = rung
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if self._shows(at(middle)):
                wrong = middle
            else:
                right = middle
        return at(wrong)

    # --- scalars and inputs ----------------------------------------------------------------------------------------

    def _simpler(self, found: Candidate) -> Candidate:
        if found.scalars and self._shows(usual := replace(found, scalars={})):
            found = usual
        for content in SIMPLEST_FIRST:
            plain = replace(found, inputs=dict.fromkeys(found.inputs, content))
            if self._shows(plain):
                return plain
        for name in found.inputs:
            for content in SIMPLEST_FIRST:
                partly = replace(found, inputs={**found.inputs, name: content})
                if self._shows(partly):
                    found = partly
                    break
        return found

    def _told(self, found: Candidate, start: Candidate) -> Smallest:
        verified = self.judged[found.key]
        assert verified.ruling is not None
        assert verified.correctness is not None
        published, tolerance = self.problem.published_scalars, self.problem.tolerance
        place = PlannedTrial(
            found.sizes, found.distribution, tolerance, True, found.scalars, published=published
        ).place
        if found.sizes == start.sizes:
            said = f"Nothing smaller than {place} shows it"
        else:
            wrong = self.symptom.status is Status.INCORRECT
            said = f"{'Already wrong' if wrong else 'It happens already'} at {place}"
        said += _with(found.inputs)
        if not self.in_time:
            said += " (the time to look for less was up)"
        return Smallest(
            sizes=dict(found.sizes),
            scalars=dict(found.scalars),
            inputs=dict(found.inputs),
            distribution=found.distribution.name,
            seed=found.seed,
            message=verified.ruling.message,
            fault=verified.correctness.fault,
            mismatch=_mismatch(verified),
            tried=len(self.judged),
            finished=self.in_time,
            said=f"{said}.",
        )


def _with(inputs: Mapping[str, Content]) -> str:
    """`, with zeros in x and y`; nothing where all is drawn."""
    by_content: dict[Content, list[str]] = {}
    for name, content in inputs.items():
        if content != "drawn":
            by_content.setdefault(content, []).append(name)
    if not by_content:
        return ""
    return ", with " + " and ".join(f"{IN_WORDS[c]} in {' and '.join(names)}" for c, names in by_content.items())


def _distribution(problem: Problem, name: str) -> Distribution | None:
    return next((one for one in problem.every_distribution if one.name == name), None)


def _failed(verified: Verified) -> Trial | None:
    trials = verified.correctness.trials if verified.correctness else ()
    return next((trial for trial in reversed(trials) if not trial.passed), None)


def _mismatch(verified: Verified) -> Mismatch | None:
    trial = _failed(verified)
    return trial.mismatch if trial else None


def _symptom(verified: Verified) -> _Symptom | None:
    """None where nothing failed while it ran."""
    ruling, correctness = verified.ruling, verified.correctness
    if ruling is None or correctness is None:
        return None
    fault = correctness.fault
    if fault is not None and fault.kind != "undefined_read":
        # Whether time or instructions end it first depends on the size, and so does whether it is seen to wait.
        kind = "watchdog" if fault.kind in _WITHOUT_END else fault.kind
        return _Symptom(ruling.status, kind, fault.kernel)
    if ruling.status is Status.REJECTED:
        return _Symptom(ruling.status, "changed input")
    undefined = (
        fault is not None
        or _mismatch(verified) is None
        or "never written" in ruling.message
        or "undefined memory" in ruling.message
    )
    return _Symptom(ruling.status, "undefined" if undefined else "wrong")
