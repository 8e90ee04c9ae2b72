"""Trials of small sizes that are launched together: as often, as strictly and in the same words as one by one."""

import contextlib
import re
from dataclasses import replace

import pytest
from host_checks import HostDevice
from stand_in import StandInServices, program, relu_plan

from common.contract import Settings, Status
from evaluator.backends.gpu import run_memory
from evaluator.backends.gpu.checks import MEMORY, DeviceChecks
from evaluator.backends.gpu.pool import Runner
from evaluator.backends.gpu.session import GpuSession
from evaluator.backends.gpu.shared_memory import room_for
from evaluator.backends.gpu.tensors import TorchRng
from evaluator.stages.verify.findings.fault_rulings import RACE_HINT
from evaluator.stages.verify.findings.undefined_memory import PoisonTurns
from evaluator.stages.verify.trial_contents import TrialContents
from evaluator.stages.verify.trials import PlannedTrial
from evaluator.stages.verify.verification import verify

TWICE = (1000, 1000, 40, 1000, 5000)
"""What is run on other undefined memory too."""
FIRST = (5000, 7)
"""Beside those: `TOGETHER` runs in all."""
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
