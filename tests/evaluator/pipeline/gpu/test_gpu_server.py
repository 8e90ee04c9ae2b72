"""Orders over a socket to a referee, and what comes back: on a device that needs no GPU, all else for real."""

import contextlib
import os
import socket
import threading
from dataclasses import replace

import pytest
import torch
from host_checks import HostDevice
from stand_in import StandInServices, program, relu_plan, serve_until_closed

from common.contract import Phase, Settings, Status
from common.contract.timing import DeviceState
from evaluator.backends.gpu.checks import DeviceChecks
from evaluator.backends.gpu.device.health import Gpu
from evaluator.backends.gpu.runner.channel import Channel
from evaluator.backends.gpu.session import GpuSession
from evaluator.backends.session import Pointer, Program, UnsupportedError
from evaluator.errors import GpuError, UsageError
from evaluator.pipeline.gpu.client import GpuReferee
from evaluator.pipeline.gpu.server import serve
from evaluator.pipeline.gpu.turns import GpuTurn
from evaluator.pipeline.referee import JudgeRequest, JudgeResult
from evaluator.pipeline.timing import larger, timed
from evaluator.problems.catalogue import find_problem
from evaluator.sandbox import selftest
from evaluator.settings import MachineSettings
from evaluator.stages.launch.planning import plan_launches
from evaluator.stages.time.launch_checks import LaunchChecks
from evaluator.stages.time.measurement import _TimingHarness
from evaluator.stages.time.statistics import Pooled
from evaluator.stages.time.stopping import StoppingRule

GPU = Gpu(0, "GPU-0", "stand-in", "sm_90", 1 << 33, 1 << 33, "1.0", (13, 0), None, "default", None)


@pytest.fixture(scope="module", params=[False, True], ids=["array code", "own device code"])
def referee(tmp_path_factory, request):
    settings = MachineSettings(tmp_path_factory.mktemp("data"))
    made = GpuReferee(GPU, settings)
    made._socket.parent.mkdir(parents=True)
    own_checks = DeviceChecks(HostDevice()) if request.param else None
    place = selftest.choose(settings.data_dir / "work")
    services = StandInServices(place, own_checks=own_checks, together=8 if request.param else 1)
    with contextlib.closing(services.runtime), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(made._socket))
        listener.listen(16)
        threading.Thread(target=serve_until_closed, args=(listener, services), daemon=True).start()
        made.services = services
        yield made


def test_a_referee_without_runners_ends_so_that_the_next_grader_starts_another(tmp_path):
    made = GpuReferee(GPU, MachineSettings(tmp_path))
    made._socket.parent.mkdir(parents=True)
    services = StandInServices(selftest.choose(tmp_path / "work"))
    with contextlib.closing(services.runtime), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(made._socket))
        listener.listen(16)
        thread = threading.Thread(target=serve_until_closed, args=(listener, services), daemon=True)
        thread.start()
        assert judged(made, "relu").verified.ruling is None
        services.runtime.pool._channel.hang_up()  # the process that makes runners ends with it
        with pytest.raises(GpuError, match="process that makes runners is gone"):
            judged(made, "relu")
        thread.join(60)
        assert not thread.is_alive()


def judge_request(deed, ptx="", settings=None, **more):
    limit_s = 3 if deed.startswith("hang") else 30
    settings = settings or Settings(verification="quick", sizes={"n": 3000}, run_timeout_s=limit_s, max_launches=20)
    made = program(deed, ptx, **more)
    return JudgeRequest(made, relu_plan(made), settings, local_memory=False, secret=os.urandom(32))


def judged(referee, deed, **more):
    said = []
    found = referee.judge(judge_request(deed, **more), said.append)
    assert all(event.phase in (Phase.VERIFY, Phase.TIME) for event in said)
    return found


def test_requests_and_findings_travel_unchanged(referee):
    sent = judge_request("relu")
    assert JudgeRequest.from_json(sent.to_json()) == sent
    found = judged(referee, "relu")
    assert JudgeResult.from_json(found.to_json()) == found
    with pytest.raises(ValueError, match="checked_plan"):
        JudgeRequest.from_json(b'{"program": 1}')


def test_a_checked_plan_travels_as_it_was_checked():
    """Every kind of step and of value, with what only the source knew: nothing is planned a second time."""
    made = program("relu")
    directives = (
        "// assay: temp t float32 (n, 2)\n"
        "// assay: fill y value=0.5\n"
        "// assay: launch k grid=(ceil_div(n, 256)) block=(32, 4) cluster=(1) shared=64 args=(x, t, n - 1)\n"
        "// assay: launch k grid=(1) block=(256) args=(0, y, 12)\n"
    )
    planned = plan_launches(find_problem("relu"), made, None, directives, {made.entries[0].name: 96})
    sent = replace(judge_request("relu"), checked_plan=planned.checked_plan)
    arrived = JudgeRequest.from_json(sent.to_json()).checked_plan
    assert arrived == planned.checked_plan
    assert arrived.problem is find_problem("relu")
    values = [call.values for call in arrived.calls.values()]
    assert values == [(Pointer("x"), Pointer("t"), "n - 1"), (0, Pointer("y"), 12)]
    assert (arrived.source_lines, arrived.static_shared_bytes) == (5, {made.entries[0].name: 96})
    assert arrived.at({"n": 1000}) == planned.checked_plan.at({"n": 1000})
    unknown = sent.to_json().replace(b'"problem":"relu"', b'"problem":"of_a_later_release"')
    with pytest.raises(ValueError, match="of_a_later_release"):
        JudgeRequest.from_json(unknown)


def test_a_right_kernel_is_verified_timed_and_checked_in_secret(referee):
    found = judged(referee, "relu", settings=Settings(sizes={"n": 3000}, run_timeout_s=30, max_launches=20))
    assert found.verified.ruling is None
    assert found.verified.correctness.binding == "as the plan says: k(x, y, n)"
    measurement = found.look.measurement
    assert 10 <= len(measurement.event_us) <= 20
    assert len(measurement.baseline_us) >= len(measurement.event_us)
    assert measurement.checked_launches >= 1
    assert measurement.compared_with.endswith("eager: F.relu(x)")
    assert measurement.sizes == {"n": 3000}
    result = timed(judge_request("relu").checked_plan, found, lambda m: Pooled(m.event_us, m.baseline_us))
    assert result.timing.speedup_low <= result.timing.speedup <= result.timing.speedup_high


@pytest.mark.parametrize(("long_us", "warm_ups"), [(1e9, 1), (1000.0, 0)])
def test_a_launch_that_takes_long_is_counted_at_once_and_looked_at_each_time(referee, monkeypatch, long_us, warm_ups):
    looks, run_before = [], GpuSession.run

    def run(session, asked):
        if asked.quiet and asked.steps:
            looks.append(asked.look)
        return run_before(session, asked)

    monkeypatch.setattr(GpuSession, "run", run)
    for limit in ("_LONG_US", "_WARM_US"):
        monkeypatch.setattr(f"evaluator.stages.time.measurement.{limit}", long_us)
    monkeypatch.setattr("evaluator.stages.time.launch_checks._CHECKS_S", 1e9)  # of a slow machine
    counted = len(judged(referee, "slow").look.measurement.event_us)  # 2 ms
    assert looks[-1], "the last one is looked at; where it was not counted, that is one more"
    assert len(looks) - warm_ups - counted in ((0, 1) if warm_ups else (0,))
    assert all(looks) is (warm_ups == 0)


@pytest.mark.parametrize("share", [4, 1 << 40], ids=["room", "no room"])
@pytest.mark.parametrize(("deed", "status"), [("relu", None), ("wrong 25", Status.INCORRECT)])
def test_what_needs_no_gpu_of_its_own_is_done_before_and_after_the_turn(referee, monkeypatch, share, deed, status):
    """Inputs of the launches that surely follow, and comparing: else, where there is no room, in the turn."""
    alone, done = [False], []

    class Turns(GpuTurn):
        def alone(self):
            super().alone()
            alone[0] = True

        def together(self):
            alone[0] = False
            super().together()

    def noted(owner, name, what):
        before = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given: done.append((what, alone[0])) or before(*given))

    monkeypatch.setattr("evaluator.pipeline.gpu.turns.GpuTurn", Turns)
    monkeypatch.setattr("evaluator.stages.time.measurement._OWN_SHARE", share)
    monkeypatch.setattr(StoppingRule, "sure_launches", lambda *_: 20)  # whatever a busy machine measures
    noted(_TimingHarness, "_drawn", "drawn")
    noted(LaunchChecks, "_judged", "compared")
    settings = Settings(verification="quick", sizes={"n": 3000}, max_launches=20, timing_precision=0.001)
    look = judged(referee, deed, settings=settings).look
    assert (look.ruling.status if look.ruling else None) is status
    drawn, compared = ([there for one, there in done if one == what] for what in ("drawn", "compared"))
    assert compared[0] is False, "the first launch is always verified"
    assert any(compared) is (share > 4 and len(compared) > 1)
    assert drawn.count(True) == (0 if share == 4 else len(drawn) - 1)


def test_memory_that_is_full_when_inputs_are_drawn_ahead_costs_no_verdict(referee, monkeypatch):
    drawn, before = [], _TimingHarness._drawn

    def draw(harness):
        drawn.append(harness)
        if len(drawn) == 4:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return before(harness)

    monkeypatch.setattr(_TimingHarness, "_drawn", draw)
    look = judged(referee, "relu").look
    assert look.ruling is None
    assert len(drawn) >= 5 + len(look.measurement.event_us)


def test_timing_ends_with_what_it_has_when_the_time_is_up(referee):
    """A right kernel of 20 ms a launch, which 200 launches would take 4 s of 1 s."""
    settings = Settings(
        verification="quick", sizes={"n": 3000}, run_timeout_s=1, timing_precision=0.001, reward_precision=None
    )
    found = judged(referee, "slow", settings=settings, takes_s=0.02, slow_after=45)
    assert (found.verified.ruling, found.look.ruling) == (None, None)
    measurement = found.look.measurement
    assert 3 <= len(measurement.event_us) < 150
    # The baseline takes microseconds: it runs several times beside each of the launches, until it is known.
    assert len(measurement.baseline_us) >= len(measurement.event_us) + 7


@pytest.mark.parametrize(
    ("takes_s", "status"), [(0.07, None), (0.0, Status.TIMEOUT)], ids=["near its limit", "far from its limit"]
)
def test_a_launch_that_is_ended_says_nothing_of_a_slow_kernel_and_much_of_a_quick_one(referee, takes_s, status):
    settings = Settings(verification="quick", sizes={"n": 3000}, run_timeout_s=1, timing_precision=0.001)
    more = {"takes_s": takes_s, "slow_after": 45, "hangs_after": 53}
    look = judged(referee, "slow", settings=settings, **more).look
    if status is None:
        assert look.ruling is None
        assert len(look.measurement.event_us) >= 3
    else:
        assert (look.ruling.status, look.ruling.phase) == (status, Phase.TIME)
    assert judged(referee, "relu").verified.ruling is None


def test_timing_can_be_left_out(referee):
    settings = Settings(verification="quick", sizes={"n": 3000}, timing=False)
    found = judged(referee, "relu", settings=settings)
    assert found.look is None
    assert found.verified.ruling is None


@pytest.mark.parametrize(
    ("deed", "status", "words"),
    [
        ("wrong", Status.INCORRECT, "wrong"),
        ("nothing", Status.INCORRECT, "never written"),
        ("beyond", Status.RUNTIME_ERROR, "past its end"),
        ("input", Status.REJECTED, "input x was changed"),
        ("fault", Status.RUNTIME_ERROR, "belongs to no buffer"),
        ("assert", Status.RUNTIME_ERROR, "assertion"),
        ("hang", Status.TIMEOUT, "time was up"),
    ],
)
def test_what_is_wrong_is_found_and_the_next_job_is_right(referee, deed, status, words):
    settings = Settings(verification="quick", sizes={"n": 3000}, run_timeout_s=1)
    ruling = judged(referee, deed, settings=settings).verified.ruling
    assert (ruling.status, ruling.phase) == (status, Phase.VERIFY)
    assert words in ruling.message
    assert judged(referee, "relu").verified.ruling is None


def test_one_run_without_an_end_takes_a_part_of_the_time_of_all_runs(referee):
    settings = Settings(verification="quick", sizes={"n": 3000}, run_timeout_s=4)
    ruling = judged(referee, "hang", settings=settings).verified.ruling
    assert "after 1 s (all runs together may take 4 s)" in ruling.message


@pytest.mark.parametrize(
    ("deed", "status"),
    [("wrong 45", Status.INCORRECT), ("fault 45", Status.RUNTIME_ERROR), ("input 45", Status.REJECTED)],
)
def test_what_goes_wrong_only_while_it_is_timed_is_found_as_well(referee, deed, status):
    settings = Settings(verification="quick", sizes={"n": 3000}, max_launches=200)
    for _ in range(3):
        found = judged(referee, deed, settings=settings)
        assert found.verified.ruling is None, found.verified.ruling
        if found.look.ruling is not None:
            break
    assert (found.look.ruling.status, found.look.ruling.phase) == (status, Phase.TIME)
    result = timed(judge_request("relu").checked_plan, found, lambda m: None)
    assert result.timing is None
    assert result.verified.correctness.passed is False


def test_a_forged_event_is_rejected(referee):
    found = judged(referee, "slow", event_us=50.0)
    ruling = timed(judge_request("relu").checked_plan, found, lambda m: Pooled(m.event_us, m.baseline_us)).ruling
    assert (ruling.status, ruling.phase) == (Status.REJECTED, Phase.TIME)
    assert "events say 50 us" in ruling.message


def test_our_own_faults_are_faults_and_pass_away(referee):
    with pytest.raises(GpuError):
        judged(referee, "broken")
    assert judged(referee, "relu").verified.ruling is None
    assert referee.facts()["quarantine"] is None


def test_a_program_that_ends_its_runner_twice_did_it_itself(referee):
    ruling = judged(referee, "die").verified.ruling
    assert (ruling.status, ruling.phase) == (Status.RUNTIME_ERROR, Phase.VERIFY)
    assert "destroyed the process" in ruling.message
    assert judged(referee, "relu").verified.ruling is None


def test_a_defect_that_one_job_meets_ends_that_job_only(referee, monkeypatch):
    def defect(seed):
        raise RuntimeError("unsupported operation: some elements overlap")

    monkeypatch.setattr(referee.services, "rng", defect)
    with pytest.raises(GpuError, match="failed on this job: RuntimeError: unsupported operation"):
        judged(referee, "relu")
    monkeypatch.undo()
    assert judged(referee, "relu").verified.ruling is None


@contextlib.contextmanager
def referee_in_turns(tmp_path, turns):
    """A referee whose first connections do what `turns` say, one each; every later one is served for real."""
    made = GpuReferee(GPU, MachineSettings(tmp_path))
    made._socket.parent.mkdir(parents=True)
    services = StandInServices(selftest.choose(tmp_path / "work"))
    with contextlib.closing(services.runtime), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(made._socket))
        listener.listen(32)

        def run():
            for turn in turns:
                connection, _ = listener.accept()
                channel = Channel(connection)
                channel.receive()
                if turn == "ends in the job":
                    channel.send({"begun": True})
                channel.close()
            serve(listener, services, idle_s=1.0)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield made
        thread.join()


TURNS = (["ends before it"] * 5, ["ends in the job"], ["ends before it", "ends in the job"])


@pytest.mark.parametrize("turns", TURNS, ids=" then ".join)
def test_a_job_is_not_lost_with_a_referee_that_another_job_ended(tmp_path, turns):
    with referee_in_turns(tmp_path, turns) as made:
        assert judged(made, "relu").verified.ruling is None


def test_a_job_that_ends_two_referees_is_our_fault_and_tried_no_more(tmp_path):
    with referee_in_turns(tmp_path, ["ends in the job"] * 2) as made:
        with pytest.raises(GpuError, match="ended in the middle of a job"):
            judged(made, "relu")
        assert judged(made, "relu").verified.ruling is None


def test_answers_may_differ_where_a_device_orders_threads_as_it_likes(referee):
    found = judged(referee, "noisy")
    assert found.verified.ruling is None
    assert found.verified.correctness.deterministic is False
    assert judged(referee, "relu").verified.correctness.deterministic is True


def test_what_cannot_be_is_said(referee):
    with pytest.raises(UsageError, match="no size named m"):
        judged(referee, "relu", settings=Settings(sizes={"m": 1}))
    other = judge_request("relu")
    wrong_image = Program(other.program.ptx, other.program.entries, "sm_70", b"for another architecture")
    changed = replace(other, program=wrong_image)
    with pytest.raises(UnsupportedError, match="sm_70"):
        referee.judge(changed, lambda text: None)


def test_a_grader_that_goes_away_ends_its_job_only(referee):
    class EnoughError(Exception):
        pass

    def leave(text):
        raise EnoughError

    for _ in range(3):
        with pytest.raises(EnoughError):
            referee.judge(judge_request("relu"), leave)
    assert judged(referee, "relu").verified.ruling is None


def test_too_fast_is_looked_at_again_at_a_larger_size(referee):
    # A device whose memory is so slow that any right answer is below its floor.
    honest = referee.services.baseline.state
    clocks = {"max_memory_clock_mhz": 1, "max_sm_clock_mhz": 1, "memory_bus_bits": 8}
    slow = DeviceState(name="stand-in", multiprocessors=1, compute_capability="9.0", **clocks)
    referee.services.baseline.state = lambda: slow
    try:
        found = judged(referee, "relu")
    finally:
        referee.services.baseline.state = honest
    assert found.second_look.measurement.sizes == larger({"n": 3000}) == {"n": 6000}
    assert larger({}) == {}, "a problem of fixed shapes has no sizes"
    ruling = timed(judge_request("relu").checked_plan, found, lambda m: None).ruling
    assert (ruling.status, ruling.phase) == (Status.REJECTED, Phase.TIME)
    assert "no right answer can" in ruling.message


def test_a_referee_that_cannot_start_is_our_fault_with_its_reason(tmp_path):
    with pytest.raises(GpuError, match="could not be started"):
        GpuReferee(GPU, MachineSettings(tmp_path)).facts()
