"""Many processes at once: nobody gets what another has, and bounds are kept to the last one. On both databases."""

from itertools import chain

import pytest
import store_crowd
from store_crowd import crowd
from store_samples import accept, tallied

PROCESSES = 6


def together(url, act, count=PROCESSES):
    return list(chain.from_iterable(crowd(count, act, url)))


def test_no_two_of_sixteen_workers_ever_have_the_same_evaluation(store, database_url):
    made = [accept(store, tenant=f"t{i % 3}").evaluation.id for i in range(80)]
    done = together(database_url, store_crowd.work, 16)
    assert sorted(done) == sorted(made)
    assert {item.state for item in store.list(None, limit=200).items} == {"done"}
    assert tallied(store, "assay_evaluations_finished_total") == len(made)
    assert tallied(store, "assay_phase_seconds_count", phase="verify") == len(made)
    assert tallied(store, "assay_phase_seconds_sum", phase="verify") == pytest.approx(0.2 * len(made))


def test_work_that_changes_hands_is_finished_once(store, database_url):
    made = [accept(store, tenant=f"t{i % 3}").evaluation.id for i in range(15)]
    done = together(database_url, store_crowd.work_in_stages)
    assert sorted(done) == sorted(made)
    assert {(item.stage, item.attempt) for item in store.list(None).items} == {("judge", 1)}


def test_the_queue_is_never_longer_than_its_bound(store, database_url):
    made = together(database_url, store_crowd.accept_until_full)
    assert len(made) == 10 * PROCESSES
    assert len(made) - made.count("full") == 37
    assert store.depth()["compile"].count == 37


@pytest.mark.parametrize(
    ("act", "which"),
    [(store_crowd.accept_a_few_a_minute, "per_minute"), (store_crowd.accept_a_few_at_once, "concurrent")],
)
def test_a_quota_is_exact(store, database_url, act, which):
    made = together(database_url, act)
    assert made.count(which) == 10 * PROCESSES - 23
    assert store.depth()["compile"].count == 23


def test_one_idempotency_key_makes_one_evaluation(store, database_url):
    assert len(set(together(database_url, store_crowd.accept_the_same))) == 1
    assert store.depth()["compile"].count == 1


def test_dropping_and_finishing_at_once_gives_one_verdict_each(store, database_url):
    made = {accept(store).evaluation.id for _ in range(20)}
    finished = together(database_url, store_crowd.drop_and_finish)
    assert len(finished) == len(set(finished))
    items = store.list(None, limit=100).items
    assert {item.id for item in items if item.state == "done"} == made
    assert {item.id for item in items if item.verdict.status == "unsupported"} == set(finished)
    assert tallied(store, "assay_evaluations_finished_total") == len(made)


def test_many_sweepers_requeue_a_lost_lease_once(store, database_url):
    for _ in range(10):
        accept(store)
        store.claim(["compile"], "dead", 30)
    requeued = together(database_url, store_crowd.sweep)
    assert len(requeued) == len(set(requeued)) == 10
    assert {item.attempt for item in store.list(None).items} == {1}
    assert tallied(store, "assay_evaluations_requeued_total", reason="lost") == 10
