"""A session whose referee has device code of its own: what it looks at, what it writes ahead, how often it waits."""

import time
from dataclasses import replace

import pytest
import torch
from session_runs import N, contents, opened, relu_run, wanting
from stand_in import program

from evaluator.backends.gpu import run_memory
from evaluator.backends.gpu.shared_memory import room_for
from evaluator.backends.session import (
    Buffer,
    BufferCopy,
    BufferFill,
    PlanRun,
)


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
