"""Referee, zygote and runners as real processes in a real sandbox, on a device that needs no GPU."""

import contextlib
import os
import struct
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from host_checks import HostDevice
from session_runs import N, contents, opened, relu_run
from stand_in import StandInServices, program, relu_plan

from common.contract import Settings, Status
from common.launch_plan import Fill, RecordedLaunchPlan
from common.wire import DType
from evaluator.backends.gpu.checks import DeviceChecks
from evaluator.backends.gpu.pool import RunnerDiedError
from evaluator.backends.gpu.shared_memory import room_for
from evaluator.backends.gpu.tensors import TorchRng
from evaluator.backends.session import (
    Buffer,
    BufferCopy,
    BufferFill,
    KernelLaunch,
    PlanRun,
    Pointer,
    UnsupportedError,
)
from evaluator.errors import GpuError
from evaluator.stages.launch.checked_plan import BufferFacts, SizedPlan
from evaluator.stages.launch.recorded_plans import RecordedPlan, RecordedPlans
from evaluator.stages.verify.examination import Examination
from evaluator.stages.verify.orders import later_call
from evaluator.stages.verify.trials import PlannedTrial
from evaluator.stages.verify.verification import verify


@pytest.fixture(params=[(1, None), (3, None), (3, HostDevice)], ids=["single-use", "reused", "own device code"])
def runtime(place, request):
    jobs, device = request.param
    own_checks = DeviceChecks(device()) if device else None
    with contextlib.closing(StandInServices(place, jobs, own_checks=own_checks).runtime) as runtime:
        yield runtime


def test_a_run_gives_outputs_and_three_times(runtime):
    x = contents()
    with opened(runtime, "relu") as session:
        outcome = session.run(relu_run(x))
    assert outcome.fault is None
    assert torch.equal(outcome.contents["y"].view(torch.float32), x.clamp(min=0))
    assert torch.equal(outcome.contents["x"].view(torch.float32), x)
    event_us, host_us, referee_us = outcome.times_us
    assert 0 < event_us <= host_us <= referee_us


def test_many_runs_and_sessions_one_after_another(runtime):
    for job in range(5):
        with opened(runtime, "relu") as session:
            for seed in range(3):
                x = contents(10 * job + seed)
                outcome = session.run(relu_run(x))
                assert torch.equal(outcome.contents["y"].view(torch.float32), x.clamp(min=0))


def test_an_output_that_nobody_writes_holds_the_poison(runtime):
    with opened(runtime, "nothing") as session:
        for poison in (0xFF, 0x5B):
            outcome = session.run(relu_run(contents(), poison=poison))
            assert (outcome.contents["y"] == poison).all()


def test_temporaries_hold_a_pattern_of_their_own_or_what_the_run_before_left(runtime):
    """The plan hands out what the temporary held, and writes to it."""
    steps = (BufferCopy("t", "y"), BufferFill("t", bytes([7])))
    x = Buffer("x", "input", 4 * N, 4, contents())

    def held(size=4 * N, **more):
        buffers = (x, Buffer("y", "output", size, 4, None), Buffer("t", "temporary", size, 4, None))
        return session.run(PlanRun(buffers, steps, 0xFF, 5.0, **more)).contents["y"].unique().tolist()

    with runtime.open(program("nothing"), False, room_for([4 * N] * 3)) as session:
        assert held() == [0xFF]
        assert held(keeps=True) == [0xFF]  # asked for no pattern of its own
        assert held(poison_elsewhere=0x5B) == [0x5B]
        assert held(poison_elsewhere=0x5B, keeps=True) == [7]
        assert held(size=4, poison_elsewhere=0x5B, keeps=True) == [0x5B]  # laid out otherwise: no run was before
        assert held(poison_elsewhere=0x5B) == [0x5B]


def test_fills_and_copies(runtime):
    x = contents()
    steps = (BufferFill("y", struct.pack("<f", 2.5)),)
    with opened(runtime, "relu") as session:
        assert (session.run(relu_run(x, steps=steps)).contents["y"].view(torch.float32) == 2.5).all()
        outcome = session.run(relu_run(x, steps=(*steps, BufferCopy("x", "y"))))
        assert torch.equal(outcome.contents["y"].view(torch.float32), x)


@pytest.mark.parametrize(("deed", "buffer", "element"), [("beyond", "y", N), ("before", "x", -1)])
def test_a_write_outside_is_found_and_named(runtime, deed, buffer, element):
    with opened(runtime, deed) as session:
        fault = session.run(relu_run(contents())).fault
    assert (fault.kind, fault.buffer, fault.element) == ("out_of_bounds", buffer, element)


def test_a_changed_input_is_seen(runtime):
    x = contents()
    with opened(runtime, "input") as session:
        assert not torch.equal(session.run(relu_run(x)).contents["x"].view(torch.float32), x)


def test_after_a_hang_a_fault_and_an_assertion_the_next_job_is_right(runtime):
    for deed, kind in (("hang", "watchdog"), ("fault", "out_of_bounds"), ("assert", "assert")):
        started_s = time.monotonic()
        with opened(runtime, deed) as session:
            outcome = session.run(relu_run(contents(), time_limit_s=0.3))
        assert outcome.fault.kind == kind
        assert time.monotonic() - started_s < 10
        with opened(runtime, "relu") as session:
            assert session.run(relu_run(contents())).fault is None


def test_an_assertion_names_its_line_and_thread(runtime):
    with opened(runtime, "assert") as session:
        fault = session.run(relu_run(contents())).fault
    assert (fault.line, fault.block, fault.thread) == (7, (1, 0, 0), (3, 0, 0))
    assert "`i < n`" in fault.message


def test_what_is_no_fault_of_the_program_is_ours(runtime):
    for deed in ("broken", "die"):
        with pytest.raises(GpuError), opened(runtime, deed) as session:
            session.run(relu_run(contents()))
        with opened(runtime, "relu") as session:
            assert session.run(relu_run(contents())).fault is None


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGKILL", "SIGXCPU"])
def test_a_runner_that_someone_kills_is_never_the_programs_fault(runtime, name):
    for _ in range(3):
        with pytest.raises(RunnerDiedError), opened(runtime, f"signal {name}") as session:
            session.run(relu_run(contents()))


def test_a_program_that_ends_its_runner_twice_does_it_itself(runtime):
    with pytest.raises(RunnerDiedError), opened(runtime, "signal SIGSEGV") as session:
        session.run(relu_run(contents()))
    with opened(runtime, "signal SIGSEGV") as session:
        assert session.run(relu_run(contents())).fault.kind == "context_destroyed"


def test_an_image_for_another_architecture_is_unsupported(runtime):
    other = program("relu")
    object.__setattr__(other, "cubin", b"for another architecture")
    with pytest.raises(UnsupportedError, match="sm_90"):
        runtime.open(other, False, 1 << 20)
    with opened(runtime, "relu") as session:
        assert session.run(relu_run(contents())).fault is None


def test_what_the_device_prints_comes_along(runtime):
    with opened(runtime, "print", ptx=".extern .func vprintf") as session:
        assert session.run(relu_run(contents())).printed == "hello from the device\n"


def test_a_runner_serves_as_many_jobs_as_allowed_and_none_after_doubt(place):
    with contextlib.closing(StandInServices(place, jobs_per_runner=2).runtime) as runtime:
        served = []
        for ptx in ("", "", "", ".extern .func malloc", ""):
            with runtime.open(program("relu", ptx=ptx), False, room_for([4 * N, 4 * N])) as session:
                served.append(session._runner.pid)
        one, two, three, four, five = served
    assert one == two
    assert two != three
    assert three == four, "the first job of a runner leaves no doubt"
    assert four != five, "the device's heap outlives a program"


def test_memory_grows_with_the_plan(runtime):
    with runtime.open(program("relu"), False, 200 << 20) as session:
        assert session._slot.memory.size_bytes >= 200 << 20
        assert session.run(relu_run(contents())).fault is None


def test_a_runner_works_where_the_referee_looks_whatever_sizes_follow_each_other(place, monkeypatch):
    """The second runner finds the large memory still in use, takes some of its own, and then needs the large one."""
    large, small = 200 << 20, room_for([4 * N, 4 * N])
    with contextlib.closing(StandInServices(place, jobs_per_runner=4).runtime) as runtime:
        for _ in range(4):
            with runtime.open(program("relu"), False, large):
                pass
        for job, size_bytes in enumerate((small, large, small, large)):
            with monkeypatch.context() as slow:
                if job == 0:
                    slow.setattr(runtime.pool, "has_ended", lambda pid: False)
                session = runtime.open(program("relu"), False, size_bytes)
            with session:
                x = contents(job)
                outcome = session.run(relu_run(x))
                assert torch.equal(outcome.contents["y"].view(torch.float32), x.clamp(min=0)), job


def test_closing_leaves_no_process(place):
    runtime = StandInServices(place).runtime
    with opened(runtime, "relu") as session:
        session.run(relu_run(contents()))
    assert any(_is_ours(int(pid)) and b"zygote" in _command(pid) for pid in filter(str.isdigit, os.listdir("/proc")))
    runtime.close()
    left = [
        pid for pid in filter(str.isdigit, os.listdir("/proc")) if _is_ours(int(pid)) and b"zygote" in _command(pid)
    ]
    assert not left


def _is_ours(pid):
    while pid > 1 and pid != os.getpid():
        try:
            with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return pid == os.getpid()


def _command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


LAUNCH_ON = {
    name: KernelLaunch("k", (4, 1, 1), (256, 1, 1), 0, False, (Pointer(name), Pointer("y"), struct.pack("<i", N)))
    for name in ("x", "kept")
}
NEGATIVE = SimpleNamespace(name="negative", draw=lambda rng, sizes: {"x": -contents().abs() - 1})


def test_each_call_that_does_something_else_is_judged(runtime):
    made = program("relu")
    plan = relu_plan(made)
    right = RecordedPlan(RecordedLaunchPlan(steps=plan.plan.steps), plan.calls, call="second call")
    wrong = RecordedPlan(RecordedLaunchPlan(steps=(Fill(target="y"),)), {}, call="third call")
    trial = PlannedTrial({"n": N}, plan.problem.distributions[0], plan.problem.tolerance, False)
    for others in ((right,), (right, wrong)):
        one = replace(right, others=others)
        recorded = RecordedPlans({}, lambda points, one=one: [one for _ in points])
        with runtime.open(made, False, room_for(2 * [4 * N])) as session:
            verified = verify(replace(plan, recorded=recorded), session, Settings(), TorchRng(0, "cpu"), [trial])
        assert [one.passed for one in verified.correctness.trials] == [wrong not in others]
    assert verified.ruling.status is Status.INCORRECT
    assert verified.ruling.message.startswith(
        "In its third call in one process, which does other things than its sec"
    )


@pytest.mark.parametrize(
    ("prepared", "call", "status"),
    [
        (BufferCopy("x", "kept"), LAUNCH_ON["x"], None),
        (BufferCopy("x", "kept"), LAUNCH_ON["kept"], Status.INCORRECT),
        # Zeros, which are relu of what is negative.
        (BufferFill("kept", b"\0"), BufferCopy("kept", "y"), None),
    ],
)
def test_a_later_call_finds_what_the_call_before_it_left(runtime, prepared, call, status):
    made = program("relu")
    plan = relu_plan(made)
    buffers = (*plan.at({"n": N}).buffers, BufferFacts("kept", "temporary", DType.FLOAT32, (N,)))
    distribution = NEGATIVE if isinstance(call, BufferCopy) else plan.problem.distributions[0]
    trial = PlannedTrial({"n": N}, distribution, plan.problem.tolerance, False)
    sized_plan = SizedPlan(buffers, (prepared, call), prepared=1)
    with runtime.open(made, False, room_for(3 * [4 * N])) as session:
        examination = Examination(plan, session, Settings(), TorchRng(0, "cpu"), 1)
        assert examination.run(trial, sized_plan) is None
        ruling = later_call(examination, trial, sized_plan)
    assert (ruling and ruling.status) == status
    assert [one.passed for one in examination.trials] == [status is None]
