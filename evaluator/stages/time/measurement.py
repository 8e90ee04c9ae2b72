"""Measuring: timed launches on contents never seen before, in turns with the baseline; some verified in secret.

The referee's side of timing. It only collects: what the numbers say is decided in `timing`.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Final, Protocol, TypeAlias

from common.contract import BaselineTime, DeviceState, Fault, Phase, Settings, Trial
from evaluator.backends.session import PlanRun, RunOutcome, Session
from evaluator.errors import InfrastructureError, Ruling
from evaluator.problems.arrays import Rng
from evaluator.problems.problem import Arrays, Problem, Sizes
from evaluator.stages.launch.checked_plan import CheckedPlan, SizedPlan
from evaluator.stages.time.statistics import Clocks, Measurement, clocks_agree
from evaluator.stages.time.stopping import FEWEST_LAUNCHES, StoppingRule
from evaluator.stages.verify.examination import POISON, Examination
from evaluator.stages.verify.trials import PlannedTrial

_WARM_UPS: Final = 3
_LONG_US: Final = 20_000.0
"""A launch that takes so long needs no second warm-up: what the first one of a program has to itself (its code, the
pages of its buffers, clocks that rise) is a millisecond or two."""
_KEPT_FROM: Final = 3
"""With so many launches timing ends with what it has when its time is up: two have a spread, the third says whether
one of them was disturbed. Before, it goes on: four launches, each of the time of one run, take all of it once."""
_HANGS_BEYOND: Final = 4.0
"""A launch that was ended after more than so many times what the longest before it took hangs; one of a slow kernel
is ended because it met a busy machine."""
_BASELINE_MOST: Final = 8
"""Runs of the baseline beside one launch that takes long: its median is known with few launches then. Eight make its
interval narrower by 2.8; more of the same moment would say little more."""
_BASELINE_RUN_US: Final = 500.0
"""What a run of the baseline takes beside its own time: flushing the L2, waiting until all is queued, the events."""
_EMPTY_PLANS: Final = 5
_EMPTY_PLAN_EVERY: Final = 4
_PATIENCE: Final = 60
"""How many launches are made before clocks that disagree are held against a submission: a machine may be busy."""
_LOOK_EVERY: Final = 5
_GAP: Final = 6
"""At first every third or fourth launch is verified: a forger, who must lie in half of all, is seen in any ten with
five chances of six, in 50 launches with 99.8 %."""
_CHECKS_S: Final = 0.5
"""Each time that the oracle has taken so long in all, gaps become longer by their first length."""


Reading: TypeAlias = Callable[[], float]
"""Waits for a run of the baseline and gives its time in µs."""


@dataclass(frozen=True)
class GivenBaseline:
    """A baseline that was timed by itself, not in turns with the submission."""

    samples_us: tuple[float, ...]
    """Empty where none could be had."""
    compared_with: str
    baselines: tuple[BaselineTime, ...]
    """All that were timed, this one among them."""
    notes: tuple[str, ...] = ()
    """What is to be said of those that were not."""


class Baseline(Protocol):
    """The baseline and the device that both run on."""

    def compared_with(self, problem: Problem) -> str:
        """What the baseline is, in words."""

    def timer(self, problem: Problem, inputs: Arrays, sizes: Sizes) -> "Callable[[], Reading]":
        """A call that starts the baseline once on these inputs, as they are then; before the next call it is read."""

    def given(self, problem: Problem) -> GivenBaseline | None:
        """Its times, where it is timed by itself; None where `timer` has it run in turns with the submission."""

    def transfer_us(self, to_device_bytes: int, to_host_bytes: int) -> float | None:
        """What moving the inputs there and the outputs back would cost."""

    def state(self) -> DeviceState:
        """The device and how it is now."""


@dataclass(frozen=True)
class TimingRound:
    """What one round of timed launches gave: a measurement, or why there is none."""

    measurement: Measurement | None
    ruling: Ruling | None = None
    trials: tuple[Trial, ...] = ()
    """Launches whose output was compared with the oracle."""
    fault: Fault | None = None
    printed: bool = False
    """Whether timed launches printed: that takes host time which events do not see."""


def measure(
    checked_plan: CheckedPlan,
    session: Session,
    sizes: Sizes,
    settings: Settings,
    rng: Rng,
    baseline: Baseline,
    progress: Callable[[int], None] = lambda launches: None,
    given: GivenBaseline | None = None,
) -> TimingRound:
    """Launch until the interval is narrow enough. `given`: the baseline's times, where it has been timed already.

    Raises InfrastructureError, UsageError.
    """
    sized_plan = checked_plan.at(sizes, settings.memory_bytes)
    if isinstance(sized_plan, Ruling):
        return TimingRound(None, replace(sized_plan, phase=Phase.LAUNCH))
    harness = _TimingHarness(checked_plan, session, sizes, settings, rng, baseline, sized_plan, given)
    while not harness.enough():
        ruling = harness.launch()
        if ruling is not None:
            return TimingRound(None, replace(ruling, phase=Phase.TIME), harness.checked(), harness.examination.fault)
        progress(len(harness.times))
    ruling = harness.last_look()
    if ruling is not None:
        return TimingRound(None, replace(ruling, phase=Phase.TIME), harness.checked(), harness.examination.fault)
    return TimingRound(harness.measurement(), trials=harness.checked(), printed=harness.printed)


class _TimingHarness:
    """One plan at one size beside its baseline."""

    def __init__(
        self,
        checked_plan: CheckedPlan,
        session: Session,
        sizes: Sizes,
        settings: Settings,
        rng: Rng,
        baseline: Baseline,
        sized_plan: SizedPlan,
        given: GivenBaseline | None,
    ) -> None:
        self.given = given
        self.rule = StoppingRule.of(settings)
        self.problem, self.session, self.sizes, self.settings = checked_plan.problem, session, sizes, settings
        self.rng, self.baseline, self.sized_plan = rng, baseline, sized_plan
        self.examination = Examination(checked_plan, session, settings, rng, 0)
        self.trial = PlannedTrial(sizes, self.problem.distributions[0], self.problem.tolerance, False)
        self.times: list[tuple[float, float, float]] = []
        self.baseline_us: list[float] = list(given.samples_us) if given else []
        self.baseline_timer: Callable[[], Reading] | None = None
        self.unread: Reading | None = None
        """A counted run of the baseline that may still be going on: the next contents are drawn behind it."""
        self.baseline_run_us = 0.0
        self.warm_ups = 0
        self.next_check = 0
        self.printed = False
        self.long = False
        """Whether a launch takes so long that looking at each one costs little beside it."""
        self.looked_last = False
        self.left_s = settings.run_timeout_s
        """Of the time of all launches; each of them has the time of one run."""
        self.longest_s = 0.0
        self.cut_off = False
        """Whether the last launch was ended, and the runner with it, when enough were there to say what they say."""
        self.checks = 0
        self.checks_s = 0.0
        self.empty = [self._times(session.run(_EMPTY)) for _ in range(_EMPTY_PLANS)]

    def enough(self) -> bool:
        """Whether more launches would say nothing new, or the time is up."""
        if self.cut_off:
            return True
        # One more launch, and the last look where this one was not looked at.
        wanted_s = self.longest_s * (1 if self.looked_last else 2)
        if self.left_s < wanted_s and len(self.times) >= _KEPT_FROM:
            return True
        launches, most = len(self.times), self.settings.max_launches
        if launches % _LOOK_EVERY and launches not in (FEWEST_LAUNCHES, most):
            return False
        self._read()
        if not self.rule.met([event_us for event_us, _, _ in self.times], self.baseline_us):
            return False
        return launches >= min(_PATIENCE, most) or clocks_agree(self._clocks()) is None

    def launch(self) -> Ruling | None:
        """One launch of the plan on fresh inputs and the baseline beside it; the first few are not counted."""
        # Which launches are verified is secret, because a kernel could tell the timed ones by their size.
        checked = self.next_check == 0 or (self.baseline_timer is None and self.given is None)
        inputs = self.trial.distribution.draw(self.rng, self.sizes)
        outcome = self._executed(inputs, checked)
        self._read()
        if self._is_cut_off(outcome):
            self.cut_off = True
            return None
        ruling = self.examination.fault_ruling(outcome, self.trial)
        if ruling is None and checked:
            ruling = self.examination.intact(outcome, self.trial, inputs) or self._check(inputs, outcome)
        if ruling is not None:
            return ruling
        times = self._times(outcome)
        self.looked_last = checked
        self.long = self.long or times[0] >= _LONG_US
        self.next_check = self._gap() if self.next_check == 0 else self.next_check - 1
        self.printed = self.printed or bool(outcome.printed)
        reading = None if self.given else self._baseline_started(outcome)
        if self.warm_ups < _WARM_UPS:
            self.warm_ups = _WARM_UPS if self.long else self.warm_ups + 1
            if reading is not None:
                self.baseline_run_us = reading()
        else:
            self.times.append(times)
            self.unread = reading
            self._repeat_baseline(times[0])
            if len(self.times) % _EMPTY_PLAN_EVERY == 0:
                self.empty.append(self._times(self.session.run(_EMPTY)))
        return None

    def _executed(self, inputs: Arrays, look: bool) -> RunOutcome:
        """One run of the plan, with nothing else on the device; a sketch looks at its answer by itself."""
        trial = self.trial if look and self.problem.sketch is None else None
        self.examination.left_s = self.examination.limit_s
        began_s = time.monotonic()
        outcome = self.examination.execute(self.sized_plan, inputs, POISON, look=look, wanted_by=trial, quiet=True)
        if outcome.looked is not None and outcome.times_us is not None:
            self.checks_s += time.monotonic() - began_s - outcome.times_us[2] / 1e6
        took_s = self.examination.limit_s - self.examination.left_s
        self.left_s -= took_s
        if outcome.fault is None:
            self.longest_s = max(self.longest_s, took_s)
        return outcome

    def _is_cut_off(self, outcome: RunOutcome) -> bool:
        """Whether a launch was ended that would have ended by itself, and there are enough without it."""
        if outcome.fault is None or outcome.fault.kind != "watchdog" or len(self.times) < _KEPT_FROM:
            return False
        return self.longest_s * _HANGS_BEYOND >= self.examination.run_limit_s

    def _baseline_started(self, outcome: RunOutcome) -> Reading:
        if self.baseline_timer is None:
            # The baseline reads the very memory that the submission read; it is the same in every run.
            there = self.sized_plan.tensors(outcome.contents, "input")
            self.baseline_timer = self.baseline.timer(self.problem, there, self.sizes)
        return self.baseline_timer()

    def _repeat_baseline(self, launch_us: float) -> None:
        """Run the baseline again beside a launch that takes long: as often as that costs no more than the launch."""
        if self.baseline_timer is None or self.given is not None:
            return
        runs = min(_BASELINE_MOST, int(launch_us / (self.baseline_run_us + _BASELINE_RUN_US)))
        for _ in range(runs - 1):
            self._read()
            self.unread = self.baseline_timer()

    def last_look(self) -> Ruling | None:
        """One more launch, verified and not counted: it also shows what the others wrote outside of their buffers.

        None where the last one was looked at in any case, or was ended: then there is nothing to look at any more.
        """
        self._read()
        if self.looked_last or self.cut_off:
            return None
        inputs = self.trial.distribution.draw(self.rng, self.sizes)
        outcome = self._executed(inputs, True)
        if self._is_cut_off(outcome):
            return None
        return self.examination.intact(outcome, self.trial, inputs) or self._check(inputs, outcome)

    def checked(self) -> tuple[Trial, ...]:
        return tuple(self.examination.trials)

    def measurement(self) -> Measurement:
        clocks = self._clocks()
        sizes = {buffer.name: buffer.size_bytes for buffer in self.sized_plan.buffers}
        return Measurement(
            sizes=dict(self.sizes),
            event_us=tuple(clocks.event_us),
            host_us=tuple(clocks.host_us),
            referee_us=tuple(clocks.referee_us),
            baseline_us=tuple(self.baseline_us),
            gap_us=clocks.gap_us,
            referee_gap_us=clocks.referee_gap_us,
            compared_with=self.given.compared_with if self.given else self.baseline.compared_with(self.problem),
            baselines=self.given.baselines if self.given else (),
            notes=self.given.notes if self.given else (),
            device=self.baseline.state(),
            checked_launches=self.checks,
            transfer_us=self.baseline.transfer_us(
                sum(sizes[tensor.name] for tensor in self.problem.inputs),
                sum(sizes[tensor.name] for tensor in self.problem.outputs),
            ),
        )

    def _clocks(self) -> Clocks:
        event_us, host_us, referee_us = zip(*self.times, strict=True)
        return Clocks(
            event_us,
            host_us,
            referee_us,
            gap_us=median(host - event for event, host, _ in self.empty),
            referee_gap_us=median(referee - host for _, host, referee in self.empty),
        )

    def _read(self) -> None:
        if self.unread is not None:
            self.baseline_us.append(self.unread())
            self.unread = None

    def _gap(self) -> int:
        """How many launches to leave unverified now: few at first, and later so many that the second half of all of
        them, which a median could be made of, still has some that are verified. Where an answer takes long to
        compute, as by a reference on the processor, ever fewer are verified.
        """
        if self.long and self.checks_s < _CHECKS_S:
            return 0
        dear = 1.0 + self.checks_s / _CHECKS_S
        return secrets.randbelow(max(_GAP, int(max(_GAP, len(self.times) // 2) * dear)))

    def _check(self, inputs: Arrays, outcome: RunOutcome) -> Ruling | None:
        self.checks += 1
        began_s = time.monotonic()
        try:
            return self._compared(inputs, outcome)
        finally:
            self.checks_s += time.monotonic() - began_s

    def _compared(self, inputs: Arrays, outcome: RunOutcome) -> Ruling | None:
        outputs = self.sized_plan.tensors(outcome.contents)
        if self.problem.sketch is None:
            return self.examination.judge(self.trial, inputs, outputs, outcome)
        found = self.problem.sketch(self.rng, inputs, outputs, self.sizes, self.problem.tolerance)
        # What the sketch finds is looked at element by element, so that the verdict can say where it is wrong.
        return None if found.passed else self.examination.judge(self.trial, inputs, outputs)

    @staticmethod
    def _times(outcome: RunOutcome) -> tuple[float, float, float]:
        if outcome.times_us is None:
            raise InfrastructureError("A launch came back without its times.", "Please report it.")
        return outcome.times_us


_EMPTY: Final = PlanRun((), (), POISON, 5.0, look=False)
