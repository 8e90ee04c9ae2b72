"""Referee, zygote and runners as real processes in a real sandbox, on a device that needs no GPU."""

import contextlib
import os
import re
import struct
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from host_checks import HostDevice
from stand_in import StandInServices, program, relu_plan

from common.contract import Settings, Status
from common.launch_plan import Fill, RecordedLaunchPlan
from common.wire import DType
from evaluator.backends.gpu import run_memory
from evaluator.backends.gpu.checks import MEMORY, DeviceChecks
from evaluator.backends.gpu.pool import Runner, RunnerDiedError
from evaluator.backends.gpu.session import GpuSession
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
    Wanted,
)
from evaluator.errors import GpuError
from evaluator.problems.problem import Expected, Tolerance
from evaluator.sandbox import selftest
from evaluator.stages.launch.checked_plan import BufferFacts, SizedPlan
from evaluator.stages.launch.recorded_plans import RecordedPlan, RecordedPlans
from evaluator.stages.verify.examination import Examination
from evaluator.stages.verify.findings.fault_rulings import RACE_HINT
from evaluator.stages.verify.findings.undefined_memory import PoisonTurns
from evaluator.stages.verify.orders import later_call
from evaluator.stages.verify.trial_contents import TrialContents
from evaluator.stages.verify.trials import PlannedTrial
from evaluator.stages.verify.verification import verify

N = 1000


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return selftest.choose(tmp_path_factory.mktemp("work"))


@pytest.fixture(params=[(1, None), (3, None), (3, HostDevice)], ids=["single-use", "reused", "own device code"])
def runtime(place, request):
    jobs, device = request.param
    own_checks = DeviceChecks(device()) if device else None
    with contextlib.closing(StandInServices(place, jobs, own_checks=own_checks).runtime) as runtime:
        yield runtime


def opened(runtime, deed, **more):
    return runtime.open(program(deed, **more), False, room_for([4 * N, 4 * N]))


def relu_run(x, time_limit_s=5.0, poison=0xFF, steps=None):
    buffers = (Buffer("x", "input", 4 * N, 4, x), Buffer("y", "output", 4 * N, 4, None))
    launch = KernelLaunch("k", (4, 1, 1), (256, 1, 1), 0, False, (Pointer("x"), Pointer("y"), struct.pack("<i", N)))
    return PlanRun(buffers, steps or (launch,), poison, time_limit_s)


def contents(seed=0):
    return torch.randn(N, generator=torch.Generator().manual_seed(seed))


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


ALLOWED = Tolerance(0.0, 1e-6, "")


def wanting(x, y, **more):
    """A run of relu that should give `y`."""

    def wanted():
        expected = Expected(y.double(), torch.ones(N, dtype=torch.float64))
        return Wanted({"y": expected}, ALLOWED, {"y": (DType.FLOAT32, (N,))})

    return replace(relu_run(x), wanted=wanted, **more)


@pytest.fixture
def looking(place):
    """A runtime with device code of our own, which it counts, and runs that are launched together."""
    device = HostDevice()
    services = StandInServices(place, 3, own_checks=DeviceChecks(device), together=RUNS[0])
    with contextlib.closing(services.runtime) as runtime:
        runtime.device = device
        yield runtime


@pytest.mark.parametrize(
    ("deed", "kept", "poisoned", "right"),
    [
        ("relu", True, False, True),
        ("wrong", True, False, False),
        ("nothing", True, True, False),
        ("input", False, False, True),
    ],
)
def test_a_session_with_its_own_code_looks_at_everything_at_once(looking, deed, kept, poisoned, right):
    x = contents()
    y = x.clamp(min=0)
    with opened(looking, deed) as session:
        assert session.looks
        outcome = session.run(wanting(x, y, same_as={"y": y}))
    looked = outcome.looked
    assert (looked.inputs_kept, looked.poisoned) == (kept, poisoned)
    assert (looked.worst["y"] <= 1) is right
    assert looked.same is right
    assert outcome.fault is None
    assert looking.device.reads == 1
    assert looking.device.launches == 3  # what memory begins with, what is left of it, and how far the output is off


def test_a_run_waits_for_the_device_twice_and_for_the_runner_once(looking, monkeypatch):
    """Before the launch, so that another process finds its memory written, and after it, to know what was seen."""
    waits, asked = [], []
    monkeypatch.setattr(run_memory, "synchronize", waits.append)
    x = contents()
    with opened(looking, "relu") as session:
        session.run(wanting(x, x.clamp(min=0)))  # the runner is also told of the plan
        tell, before = session._runner.tell, (len(waits), looking.device.reads)
        monkeypatch.setattr(
            session._runner, "tell", lambda order, *more: (asked.append(order["order"]), tell(order, *more))
        )
        session.run(wanting(x, x.clamp(min=0), look=False))  # as most of those that are timed
        assert (len(waits) - before[0], looking.device.reads - before[1]) == (1, 0)
        session.run(wanting(x, x.clamp(min=0)))
        assert (len(waits) - before[0], looking.device.reads - before[1]) == (2, 1)
        assert asked == ["go", "go"]


TWICE = (1000, 1000, 40, 1000, 5000)
"""What is run on other undefined memory too."""
FIRST = (5000, 7)
"""Beside those: twelve runs in all."""
SECOND = (2000, 2000, 2000, 1000, 300, 12, 4096, 33, 1, 128, 64, 999)
REST = (2000, 500, 500, 77)
SIZES = (*TWICE, *FIRST, *SECOND, *REST)
RUNS = (2 * len(TWICE) + len(FIRST), len(SECOND), len(REST))
"""Of each turn."""


def verified(runtime, deed):
    made = program(deed, ".extern .func vprintf" if deed.startswith("print") else "")
    plan = relu_plan(made)
    problem = plan.problem
    trials = [PlannedTrial({"n": n}, problem.distributions[0], problem.tolerance, False) for n in SIZES]
    with runtime.open(made, False, room_for([4 * 5000] * 2)) as session:
        settings = Settings(run_timeout_s=2) if deed.startswith("hang") else Settings()
        return verify(plan, session, settings, TorchRng(3, "cpu"), trials)


def test_a_verification_waits_for_the_device_once_a_run_or_a_dozen_of_them(looking, monkeypatch):
    """And once at its start; what runs begin with is written once."""
    waits, written, asked = [], [], []
    monkeypatch.setattr(run_memory, "synchronize", waits.append)
    launch, tell, answer = looking.device.launch, Runner.tell, Runner.answer

    def launched(kernel, grid, parameters, pointers):
        written.extend([grid] if kernel == MEMORY and 8 in dict(pointers) else [])
        launch(kernel, grid, parameters, pointers)

    monkeypatch.setattr(looking.device, "launch", launched)
    monkeypatch.setattr(Runner, "tell", lambda self, order, *m: (asked.append(order["order"]), tell(self, order, *m)))
    monkeypatch.setattr(Runner, "answer", lambda self, *m: (asked.append("answer"), answer(self, *m))[1])
    tell_all = Runner.tell_all
    monkeypatch.setattr(
        Runner, "tell_all", lambda self, orders: (asked.append([o["order"] for o in orders]), tell_all(self, orders))
    )
    assert verified(looking, "relu").ruling is None
    assert "go" not in asked
    assert [each for each in asked if isinstance(each, list)] == [["go"] * runs for runs in RUNS]
    assert looking.device.reads == len(RUNS)
    assert len(waits) == 1
    assert len(written) >= len(RUNS) - 1  # many pieces of memory take several launches
    # Plans are told before the run before is looked at, and heard of after that.
    words = "".join({"go": "g", "plan": "p", "answer": "a"}.get(str(o), "G") for o in asked[asked.index("plan") :])
    assert re.fullmatch(r"p{12}a{12}Ga{12}p{12}a{12}Ga{12}p{4}a{4}Ga{4}.*", words), words


@pytest.mark.parametrize(
    "deed",
    [
        *("noisy", "fault 16", "neighbour n2000", "wrong 17", "beyond 12", "hang 18", "input 24", "nothing n1"),
        *("input 2", "input 12", "beyond 4", "before 6", "beyond 11", "wrong 1", "wrong 8", "nothing 2", "print 14"),
        *("nothing n40", "beyond n40", "fault 3", "hang 5"),
        *(
            "wrong n12",
            "beyond n300",
            "before n5000",
            "input n4096",
            "wrong n77",
            "nothing 25",
            "assert 23",
            "fault 10",
        ),
    ],
)
def test_what_is_written_ahead_and_launched_together_changes_no_verdict(looking, place, deed):
    with contextlib.closing(StandInServices(place, 3).runtime) as array_code:
        expected = verified(array_code, deed)
    found = verified(looking, deed)
    assert found == expected
    assert (found.ruling is None) is (deed in ("noisy", "print 14"))


@pytest.mark.parametrize("deed", ["relu", "wrong n2000", "fault 16", "input n500"])
def test_how_many_trials_go_together_changes_no_verdict(place, deed):
    found = []
    for together in (1, 8):
        services = StandInServices(place, 3, own_checks=DeviceChecks(HostDevice()), together=together)
        with contextlib.closing(services.runtime) as runtime:
            found.append(verified(runtime, deed))
    assert found[0] == found[1]
    assert (found[0].ruling is None) is (deed == "relu")


@pytest.mark.parametrize(
    ("deed", "status", "number"),
    [
        ("neighbour =14", Status.RUNTIME_ERROR, 7),
        ("wrong =15", Status.INCORRECT, 9),
        ("beyond =15", Status.RUNTIME_ERROR, 9),
        ("input =15", Status.INCORRECT, 9),
        ("neighbour =1", Status.RUNTIME_ERROR, 0),
        ("wrong =3", Status.INCORRECT, 1),
        ("wrong =4", Status.INCORRECT, 1),
        ("beyond =4", Status.RUNTIME_ERROR, 1),
        ("input =4", Status.INCORRECT, 1),
    ],
)
def test_what_is_wrong_in_one_launch_alone_does_not_pass(looking, deed, status, number):
    """Launched once more by itself it is right."""
    found = verified(looking, deed)
    assert (found.ruling.status, found.ruling.hint) == (status, RACE_HINT)
    assert "not when each was launched once more by itself" in found.ruling.message
    assert [one.passed for one in found.correctness.trials] == [True] * number + [False]


def test_bits_that_differ_where_both_answers_are_right_take_no_other_run(looking, monkeypatch):
    """As where a kernel adds by atomics: it is not deterministic."""
    monkeypatch.setattr(GpuSession, "run", lambda *_: pytest.fail("run by itself"))
    found = verified(looking, "noisy")
    assert found.ruling is None
    assert found.correctness.deterministic is False
    assert verified(looking, "relu").correctness.deterministic is True


def test_an_answer_that_two_looks_do_not_agree_on_hides_nothing_behind_it(looking, monkeypatch):
    """As at the edge of what is allowed, beside an oracle that rounds otherwise each time."""
    look = run_memory.RunMemory.look

    def unlike(self, *given):
        seen = look(self, *given)
        return replace(seen, looked=tuple(replace(one, same=False) for one in seen.looked))

    monkeypatch.setattr(run_memory.RunMemory, "look", unlike)
    monkeypatch.setattr(TrialContents, "right", lambda *_: False)
    found = verified(looking, "hang 5")
    assert found.ruling.status is Status.TIMEOUT
    assert [one.passed for one in found.correctness.trials] == [True, True, False]


def test_runs_that_repeat_trials_find_other_undefined_memory_each(looking, monkeypatch):
    """Outputs hold NaN in the first run of each trial, and what changes from trial to trial in the second."""
    seen, run_before = [], GpuSession.run_together
    monkeypatch.setattr(
        GpuSession, "run_together", lambda self, runs, *more: (seen.append(runs), run_before(self, runs, *more))[1]
    )
    assert verified(looking, "relu").ruling is None
    pairs = seen[0][: 2 * len(TWICE)]
    for first, second in zip(pairs[::2], pairs[1::2], strict=True):
        assert (first.poison, first.same_as_before) == (0xFF, False)
        assert second == replace(
            first, poison=second.poison, poison_elsewhere=second.poison_elsewhere, same_as_before=True
        )
        assert second.poison != first.poison
    turns = PoisonTurns(0).both
    assert [(run.poison, run.poison_elsewhere) for run in pairs[1::2]] == [next(turns) for _ in TWICE]
    assert not any(run.same_as_before for runs in seen[1:] for run in runs)


def test_outputs_that_hold_what_undefined_memory_does_are_run_again(looking, place, monkeypatch):
    """As many integers do: then nothing is said against them."""
    runs, run_before = [], GpuSession.run
    monkeypatch.setattr("evaluator.stages.verify.small.together.poisoned", lambda *_: True)
    monkeypatch.setattr(GpuSession, "run", lambda self, run: (runs.append(run), run_before(self, run))[1])
    assert verified(looking, "relu").ruling is None
    assert len(runs) == 2 * len(TWICE) + len(FIRST) + len(SECOND) + len(REST)


def test_another_run_than_the_one_foreseen_begins_as_it_should(looking):
    steps = (BufferCopy("t", "y"), BufferFill("t", bytes([7])))

    def planned(seed, **more):
        buffers = (
            Buffer("x", "input", 4 * N, 4, contents(seed)),
            Buffer("y", "output", 4 * N, 4, None),
            Buffer("t", "temporary", 4 * N, 4, None),
        )
        return PlanRun(buffers, steps, 0xFF, 5.0, **more)

    with looking.open(program("nothing"), False, room_for([4 * N] * 3)) as session:
        for foreseen, run, held in (
            (planned(1, poison_elsewhere=0x5B, keeps=True), None, 7),
            (planned(2, poison_elsewhere=0x5B), None, 0x5B),
            (planned(3, poison_elsewhere=0x5B), planned(4, poison_elsewhere=0x5C), 0x5C),
            # What was written for another run is not what a run has left.
            (planned(5, poison_elsewhere=0x5B), planned(6, poison_elsewhere=0x5D, keeps=True), 0x5D),
        ):
            run = run or foreseen
            session.run(planned(0, following=lambda foreseen=foreseen: (foreseen,)))
            outcome = session.run(run)
            assert outcome.contents["y"].unique().tolist() == [held]
            assert torch.equal(outcome.contents["x"].view(torch.float32), run.buffers[0].content)
            assert outcome.looked.inputs_kept


def test_a_session_can_end_before_the_plan_that_was_foreseen(looking):
    """Its runner serves the next one."""
    following = relu_run(contents(), steps=(BufferFill("y", bytes(4)),))
    pids = []
    for seed in range(2):
        x = contents(seed)
        with opened(looking, "relu") as session:
            pids.append(session._runner.pid)
            outcome = session.run(replace(relu_run(x), following=lambda: (following,)))
        assert torch.equal(outcome.contents["y"].view(torch.float32), x.clamp(min=0))
    assert pids[0] == pids[1]


def test_what_was_written_outside_is_for_array_code_to_name(looking):
    with opened(looking, "beyond") as session:
        outcome = session.run(wanting(contents(), contents().clamp(min=0)))
    assert outcome.looked is None
    assert (outcome.fault.kind, outcome.fault.buffer, outcome.fault.element) == ("out_of_bounds", "y", N)


def test_guards_are_whole_again_after_a_write_outside(looking):
    with opened(looking, "beyond") as session:
        for _ in range(2):
            assert session.run(relu_run(contents())).fault.kind == "out_of_bounds"


@pytest.mark.parametrize("quiet", [False, True])
def test_the_answer_is_computed_while_the_program_runs_unless_its_time_counts(looking, quiet):
    computed_s = []

    def wanted():
        time.sleep(0.05)
        computed_s.append(time.monotonic())
        return wanting(x, x.clamp(min=0)).wanted()

    x = contents()
    with opened(looking, "relu") as session:
        outcome = session.run(replace(relu_run(x), wanted=wanted, quiet=quiet))
    assert len(computed_s) == 1
    assert (outcome.times_us[2] > 50_000) is not quiet
    assert outcome.own_s < 0.05  # what the referee does meanwhile is not the program's


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
