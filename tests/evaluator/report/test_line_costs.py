import pytest
from sample_verdicts import compilation, counted, estimate, evidence, occupancy, passed_on_gpu

from common.contract import Fault, OtherThread, Profile
from evaluator.report.line_costs import accesses, line_costs, racers, roofline_data, rooms, who
from evaluator.stages.compile.resources import fitting_blocks


def test_the_shares_of_all_lines_sum_up_to_one():
    costs = line_costs(counted().profile)
    for metric in costs.metrics:
        total = sum(mark.share for marks in costs.marks.values() for mark in marks if mark.metric == metric.key)
        assert total == pytest.approx(1, abs=0.01), metric.key


def test_time_goes_to_the_lines_that_ask_for_what_is_dear():
    def share(line, **terms_us):
        told = estimate().launches[0].model_copy(update={"terms_us": terms_us})
        guess = estimate().model_copy(update={"launches": (told,)})
        costs = line_costs(Profile(evidence=evidence(), estimate=guess))
        return sum(mark.share for mark in costs.marks.get(line, ()) if mark.metric == "cost")

    assert share(10, l1=5.0) > 0.99
    assert share(14, shared=5.0) == 1
    assert share(14, fp32=1.0) == pytest.approx(4000 / 12_000)
    assert share(10, l1=5.0, shared=4.9) == pytest.approx(0.52, abs=0.01)
    # What no line asks for is no line's.
    assert share(10, blocks=5.0) == 0


@pytest.mark.parametrize(
    ("registers", "shared_bytes", "threads", "limited_by"),
    [
        (72, 1024, 256, "registers"),
        (200, 0, 128, "registers"),
        (32, 60_000, 256, "shared memory"),
        (16, 0, 32, "blocks"),
        (32, 0, 768, "threads"),
    ],
)
def test_the_next_step_lets_more_warps_in(registers, shared_bytes, threads, limited_by):
    fitting = fitting_blocks(registers, shared_bytes, threads, "sm_80")
    assert fitting[limited_by] == min(fitting.values())
    active = min(fitting.values()) * threads // 32
    launch = occupancy(registers=registers, warps=active, limited_by=limited_by).model_copy(
        update={"block_threads": threads, "shared_bytes": shared_bytes}
    )
    (room,) = rooms(Profile(occupancy=(launch, launch)), compilation())
    assert dict(room.allowed)[limited_by] == active
    assert f"warps instead of {active}" in room.next_step
    if limited_by == "registers":
        fewer = int(room.next_step.split()[1])
        assert min(fitting_blocks(fewer, shared_bytes, threads, "sm_80").values()) > min(fitting.values())
        assert min(fitting_blocks(fewer + 1, shared_bytes, threads, "sm_80").values()) == min(fitting.values())


def test_an_unknown_architecture_and_a_full_multiprocessor_have_no_next_step():
    full, odd = occupancy(), compilation().model_copy(update={"arch": "sm_999"})
    assert rooms(Profile(occupancy=(full,)), odd)[0].allowed == ()
    assert rooms(Profile(occupancy=(full,)), compilation())[0].next_step is None
    assert rooms(None, None) == ()


def test_only_wasteful_requests_are_shown_the_worst_first():
    assert [(one.line, one.space, one.waste) for one in accesses(counted().profile)] == [
        (10, "global", 114_688),
        (14, "shared", 6144),
    ]
    (launch,) = evidence().launches
    calm = evidence().model_copy(update={"launches": (launch.model_copy(update={"lines": launch.lines[2:]}),)})
    assert [one.line for one in accesses(Profile(evidence=calm))] == [17]
    assert accesses(None) == []


def test_a_measured_kernel_lies_where_its_counts_and_its_time_put_it():
    found = roofline_data(passed_on_gpu())
    flops, moved = 131_072, 32 * 16_400
    # 128 x 1024 were counted and 4096 x 2048 timed: 64 times the operations, 63.9 times the bytes.
    assert found.point.intensity == pytest.approx(flops / moved, rel=0.01)
    assert found.point.rate == pytest.approx(64 * flops / 18.4 / 1e3, rel=0.01)
    assert found.point.measured
    assert dict(found.roof.ceilings).keys() == {"float32"}


def test_a_kernel_without_arithmetic_is_drawn_by_its_instructions():
    verdict = passed_on_gpu()
    (launch,) = evidence().launches
    integer = evidence().model_copy(update={"launches": (launch.model_copy(update={"flops": {}}),)})
    found = roofline_data(verdict.model_copy(update={"profile": Profile(evidence=integer)}))
    assert found.roof.short == "instructions"
    assert dict(found.roof.ceilings) == {"all schedulers": pytest.approx(132 * 4 * 1.98, rel=1e-3)}


def test_no_roof_without_a_known_problem_or_counts():
    verdict = passed_on_gpu()
    assert roofline_data(verdict.model_copy(update={"problem": "somebody_elses"})) is None
    assert roofline_data(verdict.model_copy(update={"profile": Profile()})) is None


def test_names_of_racers():
    assert who((3, 0, 0), (1, 2, 0)) == "thread 3 of block (1, 2, 0)"
    assert who(None, (0, 0, 0)) == ""
    assert racers(None) is None
    here, there = OtherThread(thread=(0, 0, 0), block=(1, 0, 0), act="wait"), (0, 0, 0)
    deadlock = Fault(kind="deadlock", message="waits without end at barrier 0", thread=there, block=there, other=here)
    assert racers(deadlock)[0].name == "thread 0 of block 1"
    assert racers(deadlock.model_copy(update={"kind": "endless_wait"})) is None
