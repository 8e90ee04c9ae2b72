"""The service benchmarks' own arithmetic, on timelines whose truth is known."""

import pytest

from benchmarks.service import many_at_once, service_overhead
from benchmarks.service.many_at_once import share_of_second, submissions
from benchmarks.service.service_overhead import figures_of, free_at, parts_of, submission
from common.contract import Phase, Receipt, Settings, Status, Verdict
from evaluator.service.storage.models import StoredEvaluation


def stored(number, created, started, finished, graded_s=0.0, worker="w", tenant="local"):
    receipt = Receipt(
        contract_version="1.0",
        grader_version="0",
        problem_version="1",
        source_sha256="",
        device="sim",
        sandbox="process",
        settings=Settings(),
        seed_commitment="",
        duration_s=graded_s,
    )
    empty = dict.fromkeys(("compile", "correctness", "timing", "profile", "reward"))
    verdict = Verdict(
        status=Status.UNSUPPORTED,
        phase=Phase.LAUNCH,
        message="",
        hint=None,
        backend="sim",
        problem="p",
        receipt=receipt,
        **empty,
    )
    return StoredEvaluation(
        id=f"ev_{number}",
        tenant=tenant,
        state="done",
        submission=submission(number),
        created_at=created,
        started_at=started,
        finished_at=finished,
        progress=None,
        verdict=verdict,
        stage="judge",
        queue="sim",
        attempt=1,
        worker=worker,
        wanted=True,
        version=3,
    )


def test_waiting_for_a_busy_worker_and_grading_are_no_overhead():
    row = [stored(1, 10.0, 10.1, 20.0, 9.5), stored(2, 11.0, 20.2, 30.0, 9.0), stored(3, 35.0, 35.3, 40.0, 4.0)]
    free = free_at(row)
    assert free == {"ev_1": 0.0, "ev_2": 20.0, "ev_3": 30.0}
    assert parts_of(9.9, 20.05, free["ev_1"], row[0]).total_s == pytest.approx(0.1 + 0.1 + 0.4 + 0.05)
    # It waited nine seconds for the worker, and then 0.2 s for nothing.
    assert parts_of(11.0, 30.0, free["ev_2"], row[1]).total_s == pytest.approx(0.2 + 0.8)
    # The worker was idle: all of its waiting is the service's.
    assert parts_of(35.0, 40.0, free["ev_3"], row[2]).dispatch_s == pytest.approx(0.3)


def test_each_worker_has_a_timeline_of_its_own():
    row = [stored(1, 0, 1, 5, worker="a"), stored(2, 0, 2, 9, worker="b"), stored(3, 0, 5.5, 7, worker="a")]
    assert free_at(row) == {"ev_1": 0.0, "ev_2": 0.0, "ev_3": 5}


def test_figures_need_every_evaluation_and_leave_others_out():
    row = [stored(number, number, number + 0.25, number + 1, 0.5) for number in range(4)]
    times = {one.submission.model_dump_json(): (one.created_at, one.finished_at) for one in row[1:]}
    figures = figures_of(times, row)
    assert figures["overhead_p50_s"] == pytest.approx(0.5)
    assert figures["grading_p50_s"] == 0.5
    with pytest.raises(AssertionError):
        figures_of(times, row[2:])


def test_a_second_key_is_measured_while_both_wait():
    fair = [stored(n, 0, n, n + 1, tenant="first") for n in range(20)]
    fair += [stored(100 + n, 5, 5.5 + n, 6 + n, tenant="second") for n in range(6)]
    assert share_of_second(fair, "first", "second") == pytest.approx(6 / 11)
    last = [stored(100 + n, 5, 20.5 + n, 21 + n, tenant="second") for n in range(6)]
    assert share_of_second([*fair[:20], *last], "first", "second") == 0


def test_every_submission_is_one_of_its_own():
    asked = [*submissions(20, 3, 0), *submissions(20, 3, 20)]
    assert len({one.model_dump_json() for one in asked}) == 40
    assert len({one.source for one in asked}) == 3
    assert submission(1) != submission(2)


def test_goals_are_figures_that_are_measured():
    assert set(service_overhead.GOALS) <= {"repeat_p50_s", *figures_of(*_one())}
    assert set(many_at_once.GOALS) == {"lost", "twice", "wrong", "second_key_share"}


def _one():
    row = [stored(number, 0, 1, 2) for number in (1, 2)]
    return {one.submission.model_dump_json(): (0, 2) for one in row}, row
