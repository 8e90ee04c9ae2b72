import dataclasses
import json
import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.contract import (
    Compilation,
    Correctness,
    DeviceState,
    Diagnostic,
    KernelResources,
    Occupancy,
    Profile,
    Reward,
    RewardName,
    Screening,
    Settings,
    Severity,
    Status,
    Timing,
    Trial,
)
from common.facts import FACT_OF_MEASURE, measures_of
from common.reward import (
    STATIC_MEASURES,
    ComponentSettings,
    Facts,
    Measure,
    facts_of,
    reward,
    share_of_maximum,
    warps_of_registers,
)

EVERYTHING = frozenset(Measure)

# A good kernel on a GPU where everything was measured.
FULL = Facts(
    status=Status.PASSED,
    compiled=True,
    correct=True,
    pass_rate=1.0,
    target_speedup=2.0,
    speedup=3.0,
    speedup_stderr=0.1,
    registers=64,
    max_warps=64,
    shared_bytes=(48 << 10) + 11776,
    shared_limit_bytes=163 << 10,
    occupancy=0.5,
    memory_efficiency=0.9,
    lane_efficiency=1.0,
    bank_conflict_ways=1.0,
    bandwidth_share=0.7,
    warp_shuffle=True,
    coverage=0.8,
    sol_score=0.6,
    measurable=EVERYTHING,
)
# The same on the simulator that counts nothing but registers and shared memory.
SIMULATED = Facts(
    status=Status.PASSED,
    compiled=True,
    correct=True,
    pass_rate=1.0,
    registers=32,
    shared_bytes=0,
    occupancy=1.0,
    measurable=STATIC_MEASURES,
)
MISCOMPILED = Facts(status=Status.COMPILE_ERROR, compiled=False, correct=False, measurable=EVERYTHING)
WRONG = Facts(
    status=Status.INCORRECT, compiled=True, correct=False, pass_rate=0.5, registers=32, measurable=EVERYTHING
)


def test_unchanged_facts_have_these_rewards_by_hand():
    # 64 registers a thread: 2048 a warp, 8 warps in each of 4 partitions of 16384: 32 of 64 warps = 0.5.
    # weighted: 0.4 * 3/2 + 0.3 + 0.2 * 0.9 * 0.5 + 0.1 = 0.6 + 0.3 + 0.09 + 0.1
    assert reward(RewardName.WEIGHTED, FULL).value == pytest.approx(1.09)
    # gated: 0.5 + 0.4 * 0.75 - 0.05 * 64/255 - 0.05 * 11776/117760 - 0 + 0.05 + 0.05
    assert reward(RewardName.GATED, FULL).value == pytest.approx(0.9 - 0.05 * 64 / 255 - 0.005)
    # components: 0.3 + 0.3 + 0.25 * 0.75 + 0.1 * 0.45 + 0.05 * 5/5, no bonus, no penalty
    assert reward(RewardName.COMPONENTS, FULL).value == pytest.approx(0.8825)
    assert reward(RewardName.SPEEDUP, FULL).value == pytest.approx(3.3)
    assert reward(RewardName.COVERAGE, FULL).value == pytest.approx(0.8)
    assert reward(RewardName.SOL, FULL).value == pytest.approx(0.6)


def test_maxima_by_hand():
    maxima = {name: reward(name, FULL).maximum for name in RewardName}
    assert maxima == pytest.approx(
        {
            RewardName.WEIGHTED: 1.4,  # 0.4 * 2 + 0.3 + 0.2 + 0.1
            RewardName.GATED: 1.0,
            RewardName.COMPONENTS: 1.0,  # no earlier best, so no bonus
            RewardName.SPEEDUP: 4.3,  # 0.3 + twice the target
            RewardName.COVERAGE: 1.0,
            RewardName.SOL: 1.0,
        }
    )


@pytest.mark.parametrize(
    ("name", "changes", "value"),
    [
        (RewardName.WEIGHTED, {"speedup": 100.0}, 0.8 + 0.3 + 0.09 + 0.1),
        (RewardName.WEIGHTED, {"target_speedup": 4.0}, 0.3 + 0.3 + 0.09 + 0.1),
        (RewardName.WEIGHTED, {"spill_bytes": 8}, 0.6 + 0.3 + 0.045 + 0.1),
        (RewardName.WEIGHTED, {"registers": 255}, 0.6 + 0.3 + 0.2 * 0.9 * 8 / 64 + 0.1),
        (RewardName.WEIGHTED, {"registers": 40, "max_warps": 48}, 0.6 + 0.3 + 0.18 + 0.1),
        (RewardName.GATED, {"warp_shuffle": False}, 0.85 - 0.05 * 64 / 255 - 0.005),
        (RewardName.GATED, {"memory_efficiency": 0.79}, 0.85 - 0.05 * 64 / 255 - 0.005),
        (RewardName.GATED, {"shared_bytes": 163 << 10}, 0.9 - 0.05 * 64 / 255 - 0.05),
        # Out of time while being timed: the tests passed, the speed is lost.
        (
            RewardName.GATED,
            {"status": Status.TIMEOUT, "timed_out": True, "speedup": None},
            0.6 - 0.05 * 64 / 255 - 0.005 - 0.1,
        ),
        (RewardName.COMPONENTS, {"warnings": 5}, 0.8825 - 0.01 - 0.02),
        # Spills halve the register efficiency, fail one check of five, and cost a penalty.
        (RewardName.COMPONENTS, {"spill_bytes": 4}, 0.8825 - 0.0225 - 0.01 - 0.02),
        (RewardName.COMPONENTS, {"occupancy": 0.25}, 0.8825 - 0.01),
        (RewardName.COMPONENTS, {"lane_efficiency": 0.4}, 0.8825 - 0.01 - 0.01),
        (RewardName.COMPONENTS, {"bandwidth_share": 0.0}, 0.8825 - 0.02),
        (RewardName.COMPONENTS, {"bank_conflict_ways": 2.0}, 0.8825 - 0.01),
        # 3.0 after 2.4 is 25 % more, half of the 50 % that fill the bonus of 0.05.
        (RewardName.COMPONENTS, {"previous_best_speedup": 2.4}, 0.8825 + 0.025),
        (RewardName.COMPONENTS, {"previous_best_speedup": 5.0}, 0.8825),
        (RewardName.SPEEDUP, {"speedup": 17.0}, 17.3),
    ],
)
def test_one_changed_fact_by_hand(name, changes, value):
    assert reward(name, dataclasses.replace(FULL, **changes)).value == pytest.approx(value)


def test_what_the_simulator_cannot_measure_is_left_out_and_the_rest_rescaled():
    weighted = reward(RewardName.WEIGHTED, SIMULATED)
    # Speedup and memory efficiency are null, so 0.3 and 0.1 become 0.75 and 0.25 of the whole.
    assert [(t.name, t.value, t.weight) for t in weighted.terms] == [
        ("speedup", None, 0.0),
        ("correct", 1.0, pytest.approx(0.75)),
        ("efficiency", None, 0.0),
        ("compiled", 1.0, pytest.approx(0.25)),
        ("hazards", 0.0, -0.1),
    ]
    assert weighted.value == weighted.maximum == pytest.approx(1.0)
    assert "speedup, efficiency could not be measured" in weighted.terms[1].explanation
    assert "Left out" in weighted.terms[0].explanation
    # gated: only pass_rate is left of the shares (1.0); 32 registers cost 0.05 * 32/255.
    assert reward(RewardName.GATED, SIMULATED).value == pytest.approx(1 - 0.05 * 32 / 255)
    # components: compilation, correctness and code quality (2 of 2 checks) are left.
    assert reward(RewardName.COMPONENTS, SIMULATED).value == pytest.approx(1.0)
    sol = reward(RewardName.SOL, SIMULATED)
    assert (sol.value, sol.maximum, share_of_maximum(sol)) == (None, 0.0, None)
    assert "SOL score" in sol.terms[0].explanation
    assert "cannot be measured on this backend" in sol.reason


def test_a_value_and_a_reason_for_having_none_exclude_each_other():
    whole, nothing = reward(RewardName.WEIGHTED, FULL), reward(RewardName.COVERAGE, SIMULATED)
    for broken in (
        {**whole.model_dump(), "reason": "because"},
        {**whole.model_dump(), "value": None, "reason": "because"},
        {**nothing.model_dump(), "reason": None},
    ):
        with pytest.raises(ValueError, match="reward"):
            Reward.model_validate(broken)


@pytest.mark.parametrize("backend", ["gpu", "sim"])
def test_no_run_of_the_device_tier_measures_coverage_as_the_page_says(backend):
    settings = [Settings(profile=True, timing=True), Settings(estimate_for=None)]
    assert not any(Measure.COVERAGE in measures_of(backend, one, Status.PASSED, Profile()) for one in settings)
    assert "`coverage` in the device tier" in sys.modules[reward.__module__].__doc__


def test_an_estimated_speedup_counts_and_is_called_an_estimate():
    counted = reward(RewardName.WEIGHTED, dataclasses.replace(SIMULATED, speedup=1.0, estimated=True))
    # Efficiency is null: 0.4, 0.3 and 0.1 grow by 1/0.8.
    assert counted.value == pytest.approx(0.5 * 0.5 + 0.375 + 0.125)
    assert counted.terms[0].explanation.startswith("Estimated speedup 1 of the target 2")
    assert counted.reward_stderr is None


def test_failures_by_hand():
    assert {name: reward(name, MISCOMPILED).value for name in RewardName} == dict.fromkeys(RewardName, 0.0)
    # Where the speed could have been measured, it is 0 and keeps its weight.
    wrong = reward(RewardName.WEIGHTED, WRONG)
    assert wrong.value == pytest.approx(0.1)
    assert json.loads(wrong.model_dump_json())["maximum"] == 1.4
    assert "failed its tests before speedup" in wrong.terms[0].explanation
    assert reward(RewardName.GATED, WRONG).value == 0
    # compiled 0.3, two of five checks of code quality 0.02
    assert reward(RewardName.COMPONENTS, WRONG).value == pytest.approx(0.32)
    # A failing submission on the simulator: correct is 0, and 0.1 became 0.25.
    failed = dataclasses.replace(SIMULATED, status=Status.INCORRECT, correct=False)
    assert reward(RewardName.WEIGHTED, failed).value == pytest.approx(0.25)


def test_a_broken_rule_earns_nothing_however_fast():
    cheat = dataclasses.replace(FULL, status=Status.REJECTED, correct=False)
    for name in RewardName:
        assert reward(name, cheat).value == 0
        assert reward(name, cheat).maximum == pytest.approx(reward(name, WRONG).maximum)
    assert "broke a rule" in reward(RewardName.WEIGHTED, cheat).terms[-1].explanation


@pytest.mark.parametrize("status", [Status.UNSUPPORTED, Status.CANCELLED, Status.INTERNAL_ERROR])
def test_what_was_not_judged_has_no_reward(status):
    with pytest.raises(ValueError, match="was not judged"):
        reward(RewardName.WEIGHTED, Facts(status=status, compiled=True, correct=True))


def test_standard_error_follows_the_speedup():
    # weighted moves by 0.4 / 2 for each unit of speedup, gated by 0.4 * 0.5 / 2, components by 0.25 * 0.5 / 2.
    errors = {name: reward(name, FULL).reward_stderr for name in RewardName}
    assert errors[RewardName.WEIGHTED] == pytest.approx(0.02)
    assert errors[RewardName.GATED] == pytest.approx(0.01)
    assert errors[RewardName.COMPONENTS] == pytest.approx(0.00625)
    assert errors[RewardName.SPEEDUP] == pytest.approx(0.1)
    assert reward(RewardName.WEIGHTED, dataclasses.replace(FULL, speedup=9.0)).reward_stderr == 0
    improving = dataclasses.replace(FULL, previous_best_speedup=2.4)
    # ... and the bonus by 0.05 / (2.4 * 0.5)
    assert reward(RewardName.COMPONENTS, improving).reward_stderr == pytest.approx(0.00625 + 0.1 * 0.05 / 1.2)


@pytest.mark.parametrize(
    ("registers", "warps"),
    # CUDA's occupancy calculator, 64 warps a multiprocessor.
    [(0, 64), (16, 64), (32, 64), (33, 48), (40, 48), (41, 40), (64, 32), (65, 28), (128, 16), (168, 12), (255, 8)],
)
def test_warps_that_registers_allow(registers, warps):
    assert warps_of_registers(registers, 64) == warps


def test_component_settings_refuse_what_would_reward_failing():
    with pytest.raises(ValueError, match="a submission that fails could then earn more"):
        ComponentSettings(warnings_penalty=0.5)
    with pytest.raises(ValueError, match="sum to 1"):
        ComponentSettings(compilation=0.5)
    with pytest.raises(ValueError, match="must be positive"):
        ComponentSettings(occupancy_threshold=0.0)
    heavier = ComponentSettings(compilation=0.2, correctness=0.5, performance=0.15, occupancy_penalty=0.0)
    assert reward(RewardName.COMPONENTS, FULL, heavier).value == pytest.approx(0.2 + 0.5 + 0.1125 + 0.045 + 0.05)


DEFAULTS = (RewardName.WEIGHTED, RewardName.GATED, RewardName.COMPONENTS)


@pytest.mark.parametrize("name", RewardName)
def test_luck_earns_less_than_the_same_kernel_without_and_more_than_a_wrong_answer(name):
    clean, lucky, luckier = (reward(name, dataclasses.replace(FULL, hazard_warnings=n)) for n in (0, 1, 9))
    charged = [term for term in lucky.terms if term.name == "hazards"]
    if name not in DEFAULTS:  # these are the literature's
        assert lucky == clean
        assert not charged
        return
    assert (charged[0].weight, charged[0].contribution) == (-0.1, -0.1)
    assert clean.value - lucky.value == pytest.approx(0.1)
    assert luckier.value == lucky.value
    assert clean.maximum == lucky.maximum
    wrong = dataclasses.replace(FULL, status=Status.INCORRECT, correct=False, pass_rate=0.9, hazard_warnings=3)
    assert reward(name, wrong).value < lucky.value
    assert next(term.value for term in reward(name, wrong).terms if term.name == "hazards") == 0


def test_version_1_charged_for_no_hazard():
    lucky = dataclasses.replace(FULL, hazard_warnings=2)
    for name in RewardName:
        before, now = reward(name, lucky, version=1), reward(name, FULL)
        assert (before.version, now.version) == (1, 2)
        assert before.value == now.value
        assert "hazards" not in [term.name for term in before.terms]


def _compilation():
    def kernel(name, registers, spill_bytes):
        return KernelResources(
            kernel=name,
            registers=registers,
            spill_store_bytes=spill_bytes,
            spill_load_bytes=2 * spill_bytes,
            stack_bytes=0,
            shared_bytes=1024,
            constant_bytes=380,
            barriers=1,
        )

    warning = Diagnostic(file="kernel.cu", line=3, column=1, severity=Severity.WARNING, code="#177-D", text="unused")
    return Compilation(
        succeeded=True,
        screening=Screening(),
        arch="sm_90",
        diagnostics=(warning, warning.model_copy(update={"severity": Severity.NOTE})),
        kernels=(kernel("a", 40, 0), kernel("b", 72, 4)),
    )


@pytest.mark.parametrize("measured", [{}, {"bandwidth_share": 0.8}], ids=["timed", "timed and profiled"])
def test_facts_are_read_off_the_parts_of_a_verdict(measured):
    trial = Trial(sizes={"n": 8}, distribution="normal", hidden=False, passed=True)
    occupancy = Occupancy(
        kernel="b",
        block_threads=256,
        registers=72,
        shared_bytes=50_000,
        active_warps=24,
        max_warps=64,
        occupancy=0.375,
        limited_by="registers",
    )
    facts = facts_of(
        status=Status.PASSED,
        compilation=_compilation(),
        correctness=Correctness(passed=True, trials=(trial,) * 3, planned_trials=4),
        timing=Timing(
            latency_us=10,
            baseline_us=20,
            speedup=2,
            speedup_low=1.8,
            speedup_high=2.2,
            confidence=0.95,
            speedup_stderr=0.11,
            compared_with="PyTorch 2.11.0 eager: torch.relu(x)",
            sizes={"n": 8},
            launches=40,
            host_us=19,
            referee_us=200,
            sol_score=0.75,
            bandwidth_share=0.5,
            device=DeviceState(name="NVIDIA H200"),
        ),
        profile=Profile(occupancy=(occupancy,), memory_efficiency=0.5, estimated_speedup=7.0, **measured),
        settings=Settings(target_speedup=3.0),
        previous_best_speedup=1.5,
    )
    assert facts.compiled
    assert facts.correct
    assert facts.pass_rate == 0.75
    assert (facts.target_speedup, facts.speedup, facts.estimated) == (3.0, 1.8, False)
    assert facts.speedup_stderr == 0.11
    assert facts.sol_score == 0.75
    # What the profiler counted is nearer the truth than what the problem must move at least.
    assert facts.bandwidth_share == measured.get("bandwidth_share", 0.5)
    assert (facts.warnings, facts.registers, facts.spill_bytes) == (1, 72, 12)
    assert (facts.shared_bytes, facts.shared_limit_bytes) == (50_000, 227 << 10)
    assert (facts.max_warps, facts.occupancy, facts.memory_efficiency) == (64, 0.375, 0.5)
    assert facts.measurable == STATIC_MEASURES


def test_facts_of_a_submission_that_was_never_compiled():
    facts = facts_of(
        status=Status.INVALID_SUBMISSION,
        compilation=None,
        correctness=None,
        timing=None,
        profile=None,
        settings=Settings(),
    )
    assert not facts.compiled
    assert facts.registers is None
    assert reward(RewardName.WEIGHTED, facts).value == 0


def test_a_fault_while_timing_is_not_correct():
    facts = facts_of(
        status=Status.RUNTIME_ERROR,
        compilation=_compilation(),
        correctness=Correctness(passed=True, trials=(), planned_trials=0),
        timing=None,
        profile=None,
        settings=Settings(),
    )
    assert facts.compiled
    assert not facts.correct


unit = st.floats(0, 1)


def maybe(strategy):
    return st.none() | strategy


@st.composite
def passing(draw):
    """A submission that passed, with any of its measures missing for everybody."""
    measures = {
        "speedup": draw(maybe(st.floats(0.01, 50))),
        "registers": draw(maybe(st.integers(0, 255))),
        "shared_bytes": draw(maybe(st.integers(0, 163 << 10))),
        "occupancy": draw(maybe(unit)),
        "memory_efficiency": draw(maybe(unit)),
        "lane_efficiency": draw(maybe(unit)),
        "bank_conflict_ways": draw(maybe(st.floats(1, 32))),
        "bandwidth_share": draw(maybe(unit)),
        "warp_shuffle": draw(maybe(st.booleans())),
        "coverage": draw(maybe(unit)),
        "sol_score": draw(maybe(unit)),
    }
    return Facts(
        status=Status.PASSED,
        compiled=True,
        correct=True,
        pass_rate=1.0,
        target_speedup=draw(st.floats(0.1, 20)),
        previous_best_speedup=draw(maybe(st.floats(0.01, 50))),
        warnings=draw(st.integers(0, 20)),
        hazard_warnings=draw(st.sampled_from([0, 0, 1, 7])),
        spill_bytes=draw(st.integers(0, 64)),
        max_warps=draw(st.sampled_from([32, 48, 64])),
        measurable=frozenset(m for m, fact in FACT_OF_MEASURE.items() if measures[fact] is not None),
        **measures,
    )


DYNAMIC = (
    "speedup",
    "memory_efficiency",
    "lane_efficiency",
    "bank_conflict_ways",
    "bandwidth_share",
    "warp_shuffle",
    "coverage",
    "sol_score",
)


@st.composite
def failed_version(draw, facts):
    """The same submission, failing somewhere, with what it lost by that."""
    status = draw(
        st.sampled_from(
            [
                Status.COMPILE_ERROR,
                Status.INVALID_SUBMISSION,
                Status.INCORRECT,
                Status.RUNTIME_ERROR,
                Status.TIMEOUT,
                Status.OUT_OF_MEMORY,
                Status.REJECTED,
            ]
        )
    )
    compiled = status not in (Status.COMPILE_ERROR, Status.INVALID_SUBMISSION)
    lost = [name for name in DYNAMIC if not compiled or draw(st.booleans())]
    if not compiled:
        lost += ["registers", "shared_bytes", "occupancy"]
    changes = dict.fromkeys(lost) | ({} if compiled else {"spill_bytes": 0, "warnings": 0})
    return dataclasses.replace(
        facts,
        status=status,
        compiled=compiled,
        correct=False,
        pass_rate=draw(st.floats(0, 0.99)),
        timed_out=status is Status.TIMEOUT,
        **changes,
    )


names = st.sampled_from(RewardName)


def well_formed(result: Reward) -> None:
    assert (result.value is None) == all(term.value is None for term in result.terms) == (result.reason is not None)
    if result.value is not None:
        assert math.isfinite(result.value)
        assert 0 <= result.value <= result.maximum + 1e-9
        assert result.value == pytest.approx(sum(term.contribution for term in result.terms))
    for term in result.terms:
        assert term.explanation
        assert "None" not in term.explanation
        if term.value is None:
            assert term.weight == term.contribution == 0
        else:
            assert term.contribution == pytest.approx(term.weight * term.value)
    assert Reward.model_validate_json(result.model_dump_json()) == result


@given(names, passing())
def test_a_reward_lies_within_its_bounds_and_is_the_sum_of_its_terms(name, facts):
    well_formed(reward(name, facts))


@given(names, st.data())
def test_failing_never_earns_more_than_passing(name, data):
    facts = data.draw(passing())
    failed = data.draw(failed_version(facts))
    lower, upper = reward(name, failed), reward(name, facts)
    well_formed(lower)
    assert None in (lower.value, upper.value) or lower.value <= upper.value + 1e-9
    if name is RewardName.GATED:
        assert lower.value == 0 < upper.value


@given(names, passing(), st.floats(0.01, 50), st.floats(0.01, 50))
def test_a_faster_submission_never_earns_less(name, facts, one, other):
    slow, fast = sorted((one, other))
    less = reward(name, dataclasses.replace(facts, speedup=slow))
    more = reward(name, dataclasses.replace(facts, speedup=fast))
    assert (less.value is None) == (more.value is None)
    assert less.value is None or less.value <= more.value + 1e-9


@given(names, st.sets(st.sampled_from(DYNAMIC)))
def test_what_nobody_can_measure_never_lowers_a_perfect_submission(name, missing):
    perfect = dataclasses.replace(
        FULL,
        speedup=4.0,
        registers=0,
        shared_bytes=0,
        occupancy=1.0,
        memory_efficiency=1.0,
        bandwidth_share=1.0,
        coverage=1.0,
        sol_score=1.0,
    )
    whole = reward(name, perfect)
    part = reward(
        name,
        dataclasses.replace(
            perfect,
            **dict.fromkeys(missing),
            measurable=frozenset(m for m, fact in FACT_OF_MEASURE.items() if fact not in missing),
        ),
    )
    assert share_of_maximum(whole) == pytest.approx(1)
    if part.value is None:
        assert part.maximum == 0
    else:
        assert part.value == pytest.approx(part.maximum)
        assert share_of_maximum(part) == pytest.approx(1)


@given(names, passing())
def test_a_reward_is_a_pure_function(name, facts):
    assert reward(name, facts) == reward(name, facts)
