import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.contract import DeviceState, Phase, Status
from common.wire import DType
from evaluator.backends.peaks import peaks_of
from evaluator.problems.problem import Work
from evaluator.stages.time.roofline import Roofline
from evaluator.stages.time.statistics import (
    Measurement,
    Pooled,
    below_floor,
    clocks_agree,
    sol_score,
    summarise,
    too_fast,
)
from evaluator.stages.time.stopping import StoppingRule

H200 = DeviceState(name="NVIDIA H200")


def measured(event, baseline=(20.0,) * 10, *, host=None, referee=None, **changes):
    """A measurement with host and referee as an honest machine has them: 9 and 240 microseconds above."""
    fields = {
        "sizes": {"n": 1 << 24},
        "event_us": tuple(event),
        "host_us": tuple(host) if host is not None else tuple(time_us + 9 for time_us in event),
        "referee_us": tuple(referee) if referee is not None else tuple(time_us + 249 for time_us in event),
        "baseline_us": tuple(baseline),
        "gap_us": 8.5,
        "compared_with": "PyTorch 2.11.0 eager: torch.relu(x)",
        "device": H200,
        **changes,
    }
    return Measurement(**fields)


def lognormal(width):
    return lambda generator, count: generator.lognormal(0, width, count)


def bimodal(generator, count):
    """Two states of the clock, six parts in ten in the faster."""
    return np.where(generator.random(count) < 0.6, 1.0, 1.08) * generator.lognormal(0, 0.003, count)


NOISES = {"quiet": lognormal(0.005), "noisy": lognormal(0.03), "wild": lognormal(0.3), "two modes": bimodal}


# --- the interval ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("count", [12, 60])
def test_the_interval_covers_the_true_speedup(noise, count):
    covered = 0
    for seed in range(150):
        generator = np.random.default_rng(seed)
        timing = summarise(measured(10 * noise(generator, count), 25 * noise(generator, count)))
        covered += timing.speedup_low <= 2.5 <= timing.speedup_high
        assert timing.speedup_low <= timing.speedup <= timing.speedup_high
    # Nominal is 95 %. Below 90 % in 150 trials at a true 95 % has a chance of under 1 %.
    assert covered >= 0.9 * 150


def test_stopping_when_it_is_enough_does_not_spoil_the_interval():
    covered = 0
    for seed in range(150):
        generator = np.random.default_rng(seed)
        event, baseline = [], []
        while not StoppingRule().met(event, baseline):
            event.append(10 * generator.lognormal(0, 0.01))
            baseline.append(25 * generator.lognormal(0, 0.01))
        timing = summarise(measured(event, baseline))
        covered += timing.speedup_low <= 2.5 <= timing.speedup_high
    assert covered >= 0.9 * 150


def test_the_standard_error_shrinks_with_the_root_of_the_launches():
    def error(count):
        errors = []
        for seed in range(40):
            generator = np.random.default_rng(seed)
            noise = lognormal(0.02)
            errors.append(
                summarise(measured(10 * noise(generator, count), 25 * noise(generator, count))).speedup_stderr
            )
        return np.median(errors)

    # The median of n samples has a standard error of sqrt(pi / 2n) of theirs; the ratio has two of them.
    assert error(200) == pytest.approx(2.5 * 0.02 * math.sqrt(2 * math.pi / 2 / 200), rel=0.15)
    assert error(50) / error(200) == pytest.approx(2, rel=0.15)


def test_a_coarse_clock_does_not_pretend_to_be_exact():
    covered = 0
    for seed in range(100):
        generator = np.random.default_rng(seed)
        # The truth lies between two steps of a clock that shows 0.5 us at a time.
        truth, steady = generator.uniform(5, 6), generator.uniform(19, 21)
        event = np.round(np.full(30, truth) * 2) / 2
        baseline = np.round(np.full(30, steady) * 2) / 2
        timing = summarise(measured(event, baseline))
        assert timing.speedup_high > timing.speedup > timing.speedup_low
        assert timing.speedup_stderr > 0
        covered += timing.speedup_low <= steady / truth <= timing.speedup_high
    assert covered == 100
    assert any("The clock's steps are" in note for note in timing.notes)


def test_steps_are_read_off_the_samples():
    fine = [10 + 0.032 * step for step in range(10)] * 3
    exact, coarse = summarise(measured(fine, fine)), summarise(measured([10.0] * 30, [10.0] * 30))
    assert coarse.speedup_high == pytest.approx(1 + 0.5 / 10)
    assert exact.speedup_high < 1.03
    # Events arrive as float32 milliseconds: noise in the last digits is no step.
    rounded = [float(np.float32(time_us / 1000)) * 1000 for time_us in [10.0, 10.032] * 15]
    assert summarise(measured(rounded, rounded)).speedup_high == pytest.approx(1 + 0.032 / 10, rel=0.005)


def test_few_launches_give_their_whole_range_and_more():
    timing = summarise(measured([9.0, 10.0, 12.0], [20.0, 21.0, 24.0]))
    assert timing.speedup == pytest.approx(2.1)
    assert timing.speedup_low < 20 / 12 < 24 / 9 < timing.speedup_high
    assert any("Only 3 launches" in note for note in timing.notes)
    alone = summarise(measured([9.0], [18.0]))
    assert alone.speedup_low < 2 < alone.speedup_high


times = st.lists(st.floats(1e-2, 1e7), min_size=1, max_size=60)


@given(times, times, st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_the_same_samples_give_the_same_numbers_and_medians_in_any_order(event, baseline, random):
    once = summarise(measured(event, baseline))
    assert summarise(measured(event, baseline)) == once
    random.shuffle(event)
    random.shuffle(baseline)
    again = summarise(measured(event, baseline))
    numbers = ("latency_us", "baseline_us", "speedup")
    assert [getattr(once, name) for name in numbers] == [getattr(again, name) for name in numbers]
    assert 0 < once.speedup_low < once.speedup < once.speedup_high
    assert min(event) - 5e-5 <= once.latency_us <= max(event) + 5e-5  # samples are kept to a tenth of a nanosecond


def test_a_summary_is_of_all_pooled_samples_and_shows_its_own():
    own, others = [10.0, 10.1] * 10, [12.0, 12.1] * 40
    timing = summarise(measured(own, [20.0, 20.1] * 10), pooled=Pooled((*own, *others), (20.0, 20.1) * 10, 5))
    assert timing.latency_us == pytest.approx(12.0)
    assert timing.samples_us == tuple(own)
    assert (timing.launches, timing.pooled_evaluations) == (20, 5)


def test_drift_throttling_and_noise_are_named_and_nothing_is_left_out():
    generator = np.random.default_rng(3)
    warming = np.linspace(13, 10, 60) * generator.lognormal(0, 0.002, 60)
    device = H200.model_copy(update={"throttle_reasons": ("power cap", "thermal slowdown")})
    notes = summarise(measured(warming, [20.0, 20.1] * 30, device=device, notes=("of the referee",))).notes
    assert notes[0] == "of the referee"
    # Medians of the thirds: near 12.5 and 10.5.
    assert any("the submission became 16" in note and "faster" in note for note in notes)
    assert any("power cap, thermal slowdown" in note for note in notes)
    assert any("noisy" in note for note in notes)
    assert len(summarise(measured(warming)).samples_us) == 60
    assert summarise(measured([10.0, 10.01, 10.02] * 20, [20.0, 20.01, 20.02] * 20)).notes == ()


# --- three clocks ------------------------------------------------------------------------------------------------


@given(st.floats(2, 20_000), st.integers(10, 60), st.integers(0, 2**32))
@settings(max_examples=60)
def test_honest_clocks_agree_whatever_their_outliers(latency, count, seed):
    generator = np.random.default_rng(seed)
    event = latency * generator.lognormal(0, 0.01, count)
    host = event + 8.5 + generator.exponential(2, count)
    referee = host + 160 + generator.exponential(20, count)
    # Interrupts of ours: up to four launches in ten wait for milliseconds.
    struck = generator.permutation(count)[: int(count * 0.4)]
    host[struck] += 5000
    referee[struck] += 8000
    assert clocks_agree(measured(event, host=host, referee=referee, referee_gap_us=170).clocks) is None


@pytest.mark.parametrize(
    ("event", "host", "referee", "said"),
    [
        # The events saw a tenth of the work; the rest ran where they do not look.
        ([10.0] * 20, [109.0] * 20, [350.0] * 20, "the host waited 90.5 us longer"),
        ([1000.0] * 20, [1150.0] * 20, [1400.0] * 20, "the host waited 141.5 us longer"),
        # Most launches lie, though some are left honest.
        ([10.0] * 12 + [100.0] * 8, [109.0] * 20, [350.0] * 20, "something ran that the events did not see"),
        # Both clocks of the launching process lie; the referee's does not.
        ([10.0] * 20, [19.0] * 20, [1900.0] * 20, "later than after an empty plan"),
        ([100.0] * 20, [50.0] * 20, [350.0] * 20, "The clock of the events showed 50 us more than the host's"),
        ([100.0] * 20, [300.0 + 8.5 - 190] * 20, [90.0] * 20, "The clock of the host showed"),
        ([0.0] * 20, [9.0] * 20, [250.0] * 20, "A clock showed 0 us"),
        ([-5.0] + [10.0] * 19, [19.0] * 20, [250.0] * 20, "A clock showed -5 us"),
        ([math.nan] * 20, [19.0] * 20, [250.0] * 20, "A clock showed nan us"),
        ([10.0] * 20, [math.inf] * 20, [250.0] * 20, "A clock showed inf us"),
    ],
)
def test_a_forged_clock_is_rejected_with_evidence(event, host, referee, said):
    ruling = clocks_agree(measured(event, host=host, referee=referee, referee_gap_us=200).clocks)
    assert (ruling.status, ruling.phase) == (Status.REJECTED, Phase.TIME)
    assert said in ruling.message
    assert ruling.hint


def test_slack_is_for_short_and_for_long_kernels():
    def hidden(latency, more):
        return clocks_agree(
            measured([latency] * 20, host=[latency + 8.5 + more] * 20, referee=[latency + 500] * 20).clocks
        )

    assert hidden(10, 24) is None
    assert hidden(10, 26)
    assert hidden(1000, 99) is None
    assert hidden(1000, 101)


def test_a_measurement_with_missing_times_is_our_mistake():
    with pytest.raises(ValueError, match="three times"):
        measured([1.0, 2.0], host=[1.0])
    with pytest.raises(ValueError, match="at least one launch"):
        measured([])


# --- the floor ---------------------------------------------------------------------------------------------------

COPY = Roofline(Work(4 << 24, 4 << 24, 1 << 24), DType.FLOAT32, peaks_of(H200))
"""relu of 16,777,216 float32: 67,108,864 bytes in, as many out, at 4,800 GB/s."""


def test_below_the_floor_by_hand():
    # 67,108,864 bytes / 4.8e12 bytes a second = 13.98 us.
    assert COPY.floor_us == pytest.approx(13.981, abs=0.001)
    assert below_floor(measured([13.0, 13.1] * 10), COPY)
    assert not below_floor(measured([14.0, 14.1] * 10), COPY)
    # Within one step of the clock nothing is proved.
    assert not below_floor(measured([13.5] * 20), COPY)


def test_the_second_look_decides():
    assert too_fast(measured([14.0, 14.1] * 10), COPY) is None
    ruling = too_fast(measured([2.0, 2.1] * 10), COPY)
    assert (ruling.status, ruling.phase) == (Status.REJECTED, Phase.TIME)
    for said in (
        "2.05 us",
        "n = 16,777,216",
        "67,108,864 bytes of input",
        "4,800 GB/s",
        "13.98 us",
        "data sheet of H200",
    ):
        assert said in ruling.message


def test_the_summary_tells_how_near_the_speed_of_light_is():
    timing = summarise(measured([35.0, 35.1] * 10, [50.0, 50.1] * 10), COPY)
    assert timing.floor_us == pytest.approx(13.981, abs=0.001)
    assert timing.sol_us == pytest.approx(27.962, abs=0.001)
    assert timing.sol_share == pytest.approx(27.962 / 35.05, abs=1e-4)
    assert timing.bandwidth_share == pytest.approx(timing.sol_share)
    assert timing.sol_score == pytest.approx(1 / (1 + (35.05 - 27.962) / (50.05 - 27.962)), abs=1e-4)
    unknown = summarise(measured([35.0] * 10))
    assert (unknown.floor_us, unknown.sol_us, unknown.sol_share, unknown.sol_score) == (None,) * 4
    cached = summarise(measured([20.0, 20.1] * 10, [50.0, 50.1] * 10), COPY)
    assert (cached.sol_share, cached.sol_score, cached.bandwidth_share) == (1, 1, 1)
    assert any("still in the L2 cache" in note for note in cached.notes)


@given(st.floats(0.1, 1e4), st.floats(0.1, 1e4), st.floats(0.1, 1e4))
def test_the_sol_score_is_half_at_the_baseline_and_grows_with_speed(latency, baseline, sol):
    score = sol_score(latency, baseline, sol)
    if baseline <= sol:
        assert score is None
        return
    assert 0 < score <= 1
    assert sol_score(baseline, baseline, sol) == 0.5
    assert sol_score(sol, baseline, sol) == 1
    assert sol_score(latency * 1.1, baseline, sol) <= score


def test_a_measurement_is_a_value():
    with pytest.raises(dataclasses.FrozenInstanceError):
        measured([1.0]).gap_us = 0


def test_a_busy_machine_is_no_forger():
    event = [100.0 + i % 3 for i in range(40)]
    host = [time_us + (5000.0 if i % 5 else 9.0) for i, time_us in enumerate(event)]
    referee = [time_us + (9000.0 if i % 4 else 200.0) for i, time_us in enumerate(host)]
    assert clocks_agree(measured(event, host=host, referee=referee, referee_gap_us=200).clocks) is None
