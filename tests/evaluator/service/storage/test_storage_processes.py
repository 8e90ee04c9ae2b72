"""Many processes at once: nobody gets what another has, and bounds are kept to the last one. On both databases."""

from itertools import chain

import pytest
import storage_crowd
from storage_crowd import crowd
from storage_samples import accept, tallied

PROCESSES = 6


def together(url, act, count=PROCESSES):
    return list(chain.from_iterable(crowd(count, act, url)))


def test_no_two_of_sixteen_workers_ever_have_the_same_evaluation(storage, database_url):
    made = [accept(storage, tenant=f"t{i % 3}").evaluation.id for i in range(80)]
    done = together(database_url, storage_crowd.work, 16)
    assert sorted(done) == sorted(made)
    assert {item.state for item in storage.evaluations.list(None, limit=200).items} == {"done"}
    assert tallied(storage, "assay_evaluations_finished_total") == len(made)
    assert tallied(storage, "assay_phase_seconds_count", phase="verify") == len(made)
    assert tallied(storage, "assay_phase_seconds_sum", phase="verify") == pytest.approx(0.2 * len(made))


def test_work_that_changes_hands_is_finished_once(storage, database_url):
    made = [accept(storage, tenant=f"t{i % 3}").evaluation.id for i in range(15)]
    done = together(database_url, storage_crowd.work_in_stages)
    assert sorted(done) == sorted(made)
    assert {(item.stage, item.attempt) for item in storage.evaluations.list(None).items} == {("judge", 1)}


def test_the_queue_is_never_longer_than_its_bound(storage, database_url):
    made = together(database_url, storage_crowd.accept_until_full)
    assert len(made) == 10 * PROCESSES
    assert len(made) - made.count("full") == 37
    assert storage.evaluations.depth()["compile"].count == 37


@pytest.mark.parametrize(
    ("act", "which"),
    [(storage_crowd.accept_a_few_a_minute, "per_minute"), (storage_crowd.accept_a_few_at_once, "concurrent")],
)
def test_a_quota_is_exact(storage, database_url, act, which):
    made = together(database_url, act)
    assert made.count(which) == 10 * PROCESSES - 23
    assert storage.evaluations.depth()["compile"].count == 23


def test_one_idempotency_key_makes_one_evaluation(storage, database_url):
    assert len(set(together(database_url, storage_crowd.accept_the_same))) == 1
    assert storage.evaluations.depth()["compile"].count == 1


def test_dropping_and_finishing_at_once_gives_one_verdict_each(storage, database_url):
    made = {accept(storage).evaluation.id for _ in range(20)}
    finished = together(database_url, storage_crowd.drop_and_finish)
    assert len(finished) == len(set(finished))
    items = storage.evaluations.list(None, limit=100).items
    assert {item.id for item in items if item.state == "done"} == made
    assert {item.id for item in items if item.verdict.status == "unsupported"} == set(finished)
    assert tallied(storage, "assay_evaluations_finished_total") == len(made)


def test_many_sweepers_requeue_a_lost_lease_once(storage, database_url):
    for _ in range(10):
        accept(storage)
        storage.leases.claim(["compile"], "dead", 30)
    requeued = together(database_url, storage_crowd.sweep)
    assert len(requeued) == len(set(requeued)) == 10
    waiting = [storage.evaluations.get(evaluation_id, None) for evaluation_id in requeued]
    assert {(item.attempt, item.losses) for item in waiting} == {(0, 1)}
    assert tallied(storage, "assay_evaluations_requeued_total", reason="lost") == 10
