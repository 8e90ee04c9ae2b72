"""What the host tier's clock says, from times alone."""

import numpy as np
import pytest

from common.contract import DeviceState, Settings
from evaluator.backends.peaks import DevicePeaks
from evaluator.problems.catalogue import find_problem
from evaluator.stages.host import clock
from evaluator.stages.host.clock import HostTimes, host_timing
from evaluator.stages.time.roofline import Roofline, precision_of
from evaluator.stages.time.statistics import recomputed
from evaluator.stages.time.stopping import StoppingRule


def times(
    submission_us,
    null_us=160.0,
    baseline_us=400.0,
    null_after_us=160.0,
    baseline_after_us=None,
    noise_us=1.0,
    **further,
):
    draw = np.random.default_rng(5)

    def around(value_us, count=40):
        return tuple(float(value_us + draw.normal(0, noise_us)) for _ in range(count))

    return HostTimes(
        sizes={"n": 1024},
        submission_us=around(submission_us),
        null_us=around(null_us),
        baseline_us=around(baseline_us),
        null_after_us=around(null_after_us, 15),
        baseline_after_us=around(baseline_us if baseline_after_us is None else baseline_after_us, 15),
        compared_with="PyTorch eager: relu(x)",
        device=DeviceState(name="stand-in"),
        **{name: around(value_us, count) for name, (value_us, count) in further.items()},
    )


def test_what_the_null_submission_takes_is_subtracted_from_both():
    timing = host_timing(times(280.0))
    assert timing.clock == "referee"
    assert timing.latency_us == pytest.approx(120, abs=2)
    assert timing.baseline_us == pytest.approx(240, abs=2)
    assert timing.speedup == pytest.approx(2, abs=0.05)
    assert timing.referee_us == pytest.approx(280, abs=2)
    assert timing.speedup_low < 2 < timing.speedup_high
    assert timing.null_us == pytest.approx(160, abs=2)


def test_a_receipt_gives_the_same_statistics_again():
    timing = host_timing(times(280.0))
    assert recomputed(timing) == timing


@pytest.mark.parametrize(
    ("submission_us", "baseline_us", "who"), [(160.5, 400.0, "submission"), (300, 160, "baseline")]
)
def test_a_time_below_the_resolution_gives_no_speedup(submission_us, baseline_us, who):
    assert f"the {who} takes" in host_timing(times(submission_us, baseline_us=baseline_us, noise_us=5.0))


@pytest.mark.parametrize(("submission_us", "enough"), [(400.0, True), (160.0, False)])
def test_a_time_below_the_resolution_is_measured_on(submission_us, enough):
    draw = np.random.default_rng(7)
    turns = [clock._Turn(submission_us, 160.0 + draw.normal(0, 20), 400.0, None) for _ in range(20)]
    rule = StoppingRule.of(Settings())
    assert clock._known(turns, rule) is enough


def test_nobody_gains_by_slowing_the_others_down():
    honest = host_timing(times(280.0))
    slowed = host_timing(times(280.0, null_us=240.0, baseline_us=2000.0, baseline_after_us=400.0))
    # What the null submission's medians differ in is the clock's resolution then: no time here is beyond it.
    assert slowed.null_us == pytest.approx(160, abs=2)
    assert slowed.speedup == pytest.approx(honest.speedup, rel=0.05)
    assert slowed.speedup_low < honest.speedup_low
    assert any("Beside the submission's process the baseline took" in note for note in slowed.notes)


def test_outputs_that_are_not_returned_are_not_subtracted():
    given = host_timing(
        times(240.0, 120.0, 400.0, 120.0, baseline_null_us=(160.0, 40), baseline_null_after_us=(160.0, 15))
    )
    assert given.latency_us == pytest.approx(120, abs=2)
    assert given.baseline_us == pytest.approx(240, abs=2)


def test_nothing_is_said_of_a_time_that_no_right_answer_can_have():
    problem = find_problem("relu")
    peaks = DevicePeaks("a data sheet", 1.0, *(1.0 for _ in range(6)))
    roofline = Roofline(problem.work({"n": 1_000_000}), precision_of(problem), peaks)
    assert "which no right answer can" in host_timing(times(280.0), roofline)
