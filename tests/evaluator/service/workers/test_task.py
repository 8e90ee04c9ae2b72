"""The one task function, on a real database and a real toolbox: what comes of a lease, and how it is ended."""

import signal
import threading
import time
from dataclasses import replace

import pytest
import storage_samples
from storage_samples import empty_sqlite
from working import ENDLESS, RIGHT, WRONG, accept, data_dir, judging, submission, until

from common.contract import Phase, Status
from evaluator.cancellation import CancelToken
from evaluator.errors import StorageError
from evaluator.pipeline import pipeline
from evaluator.pipeline.toolbox import Toolbox
from evaluator.sandbox.cancellable import CancellableSandbox
from evaluator.sandbox.retry import killed_from_outside
from evaluator.service.storage.evaluation_rows import MAX_ATTEMPTS, MAX_LOSSES
from evaluator.service.storage.leases import LeaseRepository
from evaluator.service.storage.models import WorkerFacts
from evaluator.service.storage.storage import open_storage
from evaluator.service.storage.workers import WorkerRepository
from evaluator.service.workers.task import Tools, perform
from evaluator.settings import MachineSettings

EVERYTHING = ("compile", "sim")


class Ear:
    """An announcer that writes down what it heard."""

    def __init__(self):
        self.heard = []

    def announce(self, evaluation_id, queue):
        self.heard.append((evaluation_id, queue))


@pytest.fixture
def storage(tmp_path):
    storage = open_storage(empty_sqlite(tmp_path / "assay.db"))
    yield storage
    storage.database.close()


@pytest.fixture
def own(tmp_path):
    """A toolbox whose work folder only this test uses."""
    toolbox = Toolbox(MachineSettings(data_dir(tmp_path / "data")))
    assert toolbox.sandbox.name  # its first use proves it, in work folders too
    return toolbox


def facts(*queues, arch="sm_80", backend="sim"):
    return WorkerFacts(
        f"worker of {queues}",
        "host",
        1,
        queues,
        backend,
        "a device",
        arch,
        "nvcc",
        "process",
        "1",
        time.time(),
        time.time(),
    )


def tools_of(storage, announcer, queues=EVERYTHING, **more):
    return Tools(storage.evaluations, storage.leases, storage.workers, announcer, queues, **more)


def work(storage, toolbox, queues=EVERYTHING, ear=None, **more):
    """Claim what is next, work on it, and say how it stands then."""
    lease = storage.leases.claim(queues, "w", 5)
    perform(lease, toolbox, tools_of(storage, ear or Ear(), queues, **more))
    return storage.evaluations.get(lease.evaluation_id, None)


def in_background(storage, toolbox, lease, shift=None):
    tools = tools_of(storage, Ear(), shift=shift or CancelToken(), lease_s=2.0)
    thread = threading.Thread(target=perform, args=(lease, toolbox, tools), daemon=True)
    thread.start()
    return thread, tools


@pytest.mark.parametrize(
    ("source", "status", "phase"),
    [
        (RIGHT, Status.PASSED, Phase.VERIFY),
        (WRONG, Status.INCORRECT, Phase.VERIFY),
        ("not C++", Status.COMPILE_ERROR, Phase.COMPILE),
        ("", Status.INVALID_SUBMISSION, Phase.SCREEN),
    ],
)
def test_a_worker_for_all_queues_ends_an_evaluation_in_one_go(source, status, phase, storage, toolbox):
    ear = Ear()
    accept(storage, source)
    ended = work(storage, toolbox, ear=ear)
    assert (ended.state, ended.attempt, ear.heard) == ("done", 1, [])
    assert (ended.verdict.status, ended.verdict.phase, ended.verdict.backend) == (status, phase, "sim")
    assert storage.leases.claim(EVERYTHING, "w", 5) is None


def test_the_verdict_says_what_the_compile_stage_took(storage, toolbox, tmp_path):
    fresh = f"// {tmp_path}\n{RIGHT}"
    verdicts = []
    for _ in range(2):
        ear = Ear()
        accept(storage, fresh)
        waiting = work(storage, toolbox, ("compile",), ear)
        assert (waiting.state, waiting.stage, waiting.queue, waiting.attempt) == ("queued", "judge", "sim", 0)
        assert ear.heard == [(waiting.id, "sim")]
        verdicts.append(work(storage, toolbox, ("sim",)).verdict)
    first, second = (verdict.compile for verdict in verdicts)
    assert [verdict.status for verdict in verdicts] == [Status.PASSED] * 2
    assert (first.cached, second.cached) == (False, True)
    # nvcc takes at least this long; finding its output again does not.
    assert first.duration_s > 0.1 > second.duration_s
    for verdict in verdicts:
        duration_s, phases_s = verdict.receipt.duration_s, verdict.receipt.phases_s
        assert duration_s > phases_s["prepare"] + phases_s["verify"]
        assert duration_s == pytest.approx(sum(phases_s.values()), abs=0.1)
    assert verdicts[0].receipt.phases_s["prepare"] > first.duration_s
    phases = {
        tally.labels["phase"]: tally.value
        for tally in storage.counters.tallies()
        if tally.name.endswith("phase_seconds_sum")
    }
    assert phases["compile"] == pytest.approx(first.duration_s + second.duration_s, abs=0.1)


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("not C++", Status.COMPILE_ERROR),
        (f"// assay: launch relu grid=(1) block=(256) args=(x, nobody, n)\n{RIGHT}", Status.INVALID_SUBMISSION),
    ],
)
def test_what_cannot_be_launched_never_waits_for_a_judge(source, status, storage, toolbox):
    accept(storage, source)
    assert work(storage, toolbox, ("compile",)).verdict.status is status


def test_compiled_is_for_the_device_of_the_worker_that_will_judge(storage, toolbox):
    storage.workers.register(facts("gpu", arch="sm_90", backend="gpu"))
    accept(storage, "not C++", backend="auto")
    refused = work(storage, toolbox, EVERYTHING).verdict
    assert (refused.compile.arch, refused.backend, refused.receipt.device) == ("sm_90", "gpu", "a device")
    accept(storage, RIGHT, backend="auto")
    waiting = work(storage, toolbox, EVERYTHING)
    assert (waiting.queue, waiting.stage) == ("gpu", "judge")
    accept(storage, RIGHT, backend="sim")
    assert work(storage, toolbox, EVERYTHING).verdict.backend == "sim"


def test_what_asks_for_a_gpu_waits_for_one(storage, toolbox):
    accept(storage, RIGHT, backend="gpu")
    waiting = work(storage, toolbox, EVERYTHING)
    assert (waiting.state, waiting.queue) == ("queued", "gpu")


def test_a_worker_that_has_no_gpu_after_all_lets_another_try(storage, toolbox):
    if toolbox.gpu is not None:
        pytest.skip("this machine has a GPU")
    accept(storage, RIGHT, backend="gpu")
    work(storage, toolbox, EVERYTHING)
    assert work(storage, toolbox, ("gpu",)).state == "queued"
    assert work(storage, toolbox, ("gpu",)).verdict.status is Status.INTERNAL_ERROR


def test_a_size_that_the_problem_does_not_have_is_the_callers_mistake(storage, toolbox):
    accept(storage, RIGHT, sizes={"nothing": 1})
    verdict = work(storage, toolbox).verdict
    assert (verdict.status, verdict.phase) == (Status.INVALID_SUBMISSION, Phase.LAUNCH)
    assert "nothing" in verdict.message


def test_a_fault_of_ours_is_tried_once_more_and_then_told(storage, tmp_path, toolbox):
    (tmp_path / "data").write_text("a file is here, and no folder can be made")
    broken = Toolbox(MachineSettings(tmp_path / "data"))
    ear = Ear()
    evaluation_id = accept(storage)
    again = work(storage, broken, ear=ear)
    assert (again.state, again.attempt, ear.heard) == ("queued", 1, [(evaluation_id, "compile")])
    ended = work(storage, broken)
    assert (ended.verdict.status, ended.verdict.reward, ended.attempt) == (Status.INTERNAL_ERROR, None, 2)
    assert ended.verdict.hint

    accept(storage)
    assert work(storage, broken).state == "queued"
    assert work(storage, toolbox).verdict.status is Status.PASSED, "another worker could"


class Killing(CancellableSandbox):
    """The sandbox in a place where someone ends every program."""

    def run(self, job):
        raise killed_from_outside(signal.SIGTERM)

    start = run


def test_what_is_killed_from_outside_is_tried_again_and_counts_as_no_attempt(storage, own, tmp_path):
    evaluation_id = accept(storage, f"// {tmp_path}\n{RIGHT}")
    own.sandbox = Killing(own.sandbox, CancelToken())
    ear = Ear()
    for losses in range(1, MAX_LOSSES + 1):
        back = work(storage, own, ear=ear)
        assert (back.state, back.attempt, back.losses) == ("queued", 0, losses)
    assert set(ear.heard) == {(evaluation_id, "compile")}
    assert work(storage, own).attempt == 1, "alone it counts"
    told = work(storage, own).verdict
    assert (told.status, told.reward) == (Status.INTERNAL_ERROR, None)
    assert "SIGTERM" in told.message


def test_whatever_fails_while_the_worker_drains_goes_back_unharmed(storage, tmp_path):
    (tmp_path / "data").write_text("a file is here, and no folder can be made")
    accept(storage)
    for _ in range(MAX_ATTEMPTS + 1):
        back = work(storage, Toolbox(MachineSettings(tmp_path / "data")), draining=lambda: True)
        assert (back.state, back.attempt, back.losses) == ("queued", 0, 0)


def test_one_that_is_to_be_alone_waits_for_its_company(storage, own):
    for one in ("w", "v"):
        storage.workers.register(replace(facts(*EVERYTHING), id=one))
    accept(storage)
    for _ in range(MAX_LOSSES):
        assert storage.leases.lose(storage.leases.claim(EVERYTHING, "w", 2))
    suspect = accept(storage, WRONG)
    storage_samples.accept(storage, submission(), tenant="b")
    company = storage.leases.claim(EVERYTHING, "v", 60)
    alone = storage.leases.claim(EVERYTHING, "w", 60)
    assert (alone.alone, company.alone) == (True, False), suspect
    thread, _ = in_background(storage, own, alone)
    thread.join(1.0)
    assert thread.is_alive(), "it waits"
    assert storage.leases.claim(EVERYTHING, "v", 60) is None, "nothing else begins meanwhile"
    assert storage.leases.give_back(company)
    thread.join(60)
    assert storage.evaluations.get(alone.evaluation_id, None).verdict.status is Status.PASSED


def test_a_problem_that_this_worker_does_not_know_is_no_fault_of_the_submission(storage, toolbox):
    accept(storage, problem="a_problem_of_tomorrow")
    assert work(storage, toolbox).state == "queued"
    verdict = work(storage, toolbox).verdict
    assert (verdict.status, verdict.problem) == (Status.INTERNAL_ERROR, "a_problem_of_tomorrow")


def test_a_mistake_of_ours_is_a_verdict(storage, toolbox, monkeypatch):
    def broken(*_):
        raise KeyError("nobody foresaw this")

    monkeypatch.setattr(WorkerRepository, "fleet", broken)
    accept(storage)
    assert work(storage, toolbox).state == "queued"
    assert "KeyError" in work(storage, toolbox).verdict.message


# ---- ended in the middle ----


def left_over(toolbox):
    return [entry.name for entry in (toolbox.settings.data_dir / "work").iterdir()]


def test_a_dropped_evaluation_ends_at_once_and_leaves_nothing(storage, own):
    evaluation_id = accept(storage, ENDLESS)
    thread, _ = in_background(storage, own, storage.leases.claim(EVERYTHING, "w", 2))
    judging(storage, evaluation_id)
    until(lambda: left_over(own))  # the kernel runs in a work folder
    started_s = time.monotonic()
    storage.evaluations.drop(evaluation_id, None)
    thread.join()
    assert time.monotonic() - started_s < 2
    verdict = storage.evaluations.get(evaluation_id, None).verdict
    assert (verdict.status, verdict.phase, verdict.reward) == (Status.CANCELLED, Phase.VERIFY, None)
    assert left_over(own) == []


def test_a_compiler_that_nobody_waits_for_ends_and_is_not_remembered(storage, own, tmp_path):
    slow = "".join(
        f"constexpr int f{k}(int n) {{ return n < 2 ? n : f{k}(n - 1) + f{k}(n - 2); }}\n"
        f"__device__ int a{k}[f{k}(24)];\n"
        for k in range(200)
    )
    bomb = f"// {tmp_path}\n{slow}"
    evaluation_id = accept(storage, bomb + RIGHT)
    thread, _ = in_background(storage, own, storage.leases.claim(EVERYTHING, "w", 2))
    until(lambda: left_over(own))
    started_s = time.monotonic()
    storage.evaluations.drop(evaluation_id, None)
    thread.join()
    assert time.monotonic() - started_s < 3
    assert storage.evaluations.get(evaluation_id, None).verdict.status is Status.CANCELLED
    assert left_over(own) == []
    accept(storage, bomb + RIGHT, compile_timeout_s=0.3)
    assert work(storage, own).verdict.status is Status.TIMEOUT


def test_the_end_of_a_shift_gives_the_work_back_unharmed(storage, own):
    evaluation_id = accept(storage, ENDLESS)
    shift = CancelToken()
    thread, tools = in_background(storage, own, storage.leases.claim(EVERYTHING, "w", 2), shift)
    judging(storage, evaluation_id)
    shift.cancel()
    thread.join()
    back = storage.evaluations.get(evaluation_id, None)
    assert (back.state, back.attempt, back.verdict) == ("queued", 0, None)
    assert tools.announcer.heard == [(evaluation_id, "compile")]
    assert left_over(own) == []


def test_a_lost_lease_is_let_go_without_a_word(storage, own):
    evaluation_id = accept(storage, ENDLESS)
    lease = storage.leases.claim(EVERYTHING, "w", 2)
    thread, _ = in_background(storage, own, lease)
    judging(storage, evaluation_id)
    storage.leases.give_back(lease, counted=True)
    second = storage.leases.claim(EVERYTHING, "another", 60)
    thread.join()
    now = storage.evaluations.get(evaluation_id, None)
    assert (now.state, now.worker, now.attempt, now.verdict) == ("running", "another", 2, None)
    assert storage.leases.renew(second, 60)
    assert left_over(own) == []


def test_a_late_verdict_changes_nothing(storage, toolbox):
    accept(storage)
    late = storage.leases.claim(EVERYTHING, "w", 5)
    storage.leases.give_back(late, counted=True)
    ended = work(storage, toolbox)
    perform(replace(late, submission=submission(WRONG)), toolbox, tools_of(storage, Ear()))
    assert storage.evaluations.get(late.evaluation_id, None) == ended
    assert ended.verdict.status is Status.PASSED


def test_long_work_keeps_its_lease_and_says_what_it_does(storage, toolbox):
    evaluation_id = accept(storage, ENDLESS, run_timeout_s=3)
    lease = storage.leases.claim(EVERYTHING, "w", 1)
    sweeping = threading.Event()
    swept = []

    def sweep():
        while not sweeping.wait(0.1):
            swept.append(storage.sweeps.sweep())

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    perform(lease, toolbox, tools_of(storage, Ear(), lease_s=1.0))
    sweeping.set()
    sweeper.join()
    ended = storage.evaluations.get(evaluation_id, None)
    assert (ended.verdict.status, ended.attempt) == (Status.TIMEOUT, 1)
    assert not any(one.requeued or one.dead for one in swept)


def test_a_verdict_waits_for_a_store_that_is_away(storage, toolbox, monkeypatch):
    finish, calls = LeaseRepository.finish, []

    def away_at_first(self, *args, **more):
        calls.append(args)
        if len(calls) < 3:
            raise StorageError("The database cannot be reached.")
        return finish(self, *args, **more)

    monkeypatch.setattr(LeaseRepository, "finish", away_at_first)
    accept(storage)
    assert work(storage, toolbox).verdict.status is Status.PASSED
    assert len(calls) == 3


def test_a_withdrawn_interest_ends_an_evaluation_before_it_begins(toolbox):
    cancel_token = CancelToken()
    cancel_token.cancel()
    verdict = pipeline.evaluate(submission(), toolbox.bound_to(cancel_token))
    assert verdict.status is Status.CANCELLED
