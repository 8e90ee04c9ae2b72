"""Who works, who lives, and what was counted. On both databases."""

import math
from dataclasses import replace

import pytest
import sample_verdicts
from store_samples import accept, ended, tallied

from evaluator.service.storage.evaluations import WorkerFacts

ALIVE_S = 20


@pytest.fixture
def store(open_store, clock):
    return open_store(clock)


@pytest.fixture
def facts(clock):
    return WorkerFacts(
        id="w1",
        host="here",
        pid=42,
        queues=("compile", "sim"),
        backend="sim",
        device="simulator",
        arch="sm_80",
        toolchain="nvcc 13.0.88",
        sandbox="bubblewrap",
        grader_version="0.1.0",
        started_at=clock.day,
        seen_at=clock.day,
    )


def alive(store):
    return [worker.id for worker in store.fleet(ALIVE_S)]


def test_a_worker_is_known_by_its_facts(store, facts):
    store.register(facts)
    assert store.fleet(ALIVE_S) == (facts,)
    assert store.seen("w1", draining=True)
    assert store.fleet(ALIVE_S) == (replace(facts, draining=True),)
    store.register(replace(facts, pid=43, queues=("sim",)))
    assert store.fleet(ALIVE_S) == (replace(facts, pid=43, queues=("sim",)),)
    store.gone("w1")
    assert store.fleet(ALIVE_S) == ()
    assert not store.seen("w1"), "it must register again"


def test_its_finished_evaluations_are_counted(store, facts):
    store.register(facts)
    for _ in range(3):
        accept(store)
        store.finish(store.claim(["compile"], "w1", 30), ended(), {})
    assert store.fleet(ALIVE_S)[0].jobs_done == 3


def _ends(store, lease):
    assert store.finish(lease, ended(), {})


def _hands_on(store, lease):
    assert store.pass_on(lease, "sim", 0.1)


def _gives_back(store, lease):
    assert store.give_back(lease)


@pytest.mark.parametrize("let_go", [_ends, _hands_on, _gives_back])
def test_a_worker_is_busy_from_the_claim_until_it_lets_go_and_no_longer(store, facts, let_go):
    store.register(facts)
    store.register(replace(facts, id="w2"))
    made = [accept(store).evaluation.id for _ in range(3)]
    leases = [store.claim(["compile"], worker, 30) for worker in ("w1", "w2")]
    assert [worker.busy_with for worker in store.fleet(ALIVE_S)] == made[:2]
    let_go(store, leases[0])
    assert store.seen("w1")
    assert [worker.busy_with for worker in store.fleet(ALIVE_S)] == [None, made[1]]
    store.claim_one(made[2], ["compile"], "w1", 30)
    assert [worker.busy_with for worker in store.fleet(ALIVE_S)] == [made[2], made[1]]


def test_a_worker_lives_while_its_signs_keep_coming(store, facts, clock):
    store.register(facts)
    for _ in range(10):
        assert alive(store) == ["w1"]
        clock.pass_s(ALIVE_S - 1)
        store.seen("w1")
    assert alive(store) == ["w1"]
    clock.pass_s(ALIVE_S + 1)
    assert alive(store) == []
    store.seen("w1")
    assert alive(store) == ["w1"]


@pytest.mark.parametrize("jump_s", [-86400, 86400])
def test_a_time_of_day_that_jumps_kills_no_worker(store, facts, clock, jump_s):
    store.register(facts)
    assert alive(store) == ["w1"]
    clock.jump_s(jump_s)
    assert alive(store) == ["w1"]
    clock.pass_s(ALIVE_S + 1)
    assert alive(store) == [], "and revives none"


def test_a_new_process_takes_no_old_row_for_a_living_worker(store, open_store, facts, clock):
    store.register(facts)
    clock.pass_s(ALIVE_S + 1)
    assert alive(open_store(clock)) == []
    store.seen("w1")
    assert alive(open_store(clock)) == ["w1"]


def test_workers_not_seen_for_as_long_as_evaluations_are_kept_are_forgotten(store, facts, clock):
    store.register(facts)
    clock.pass_s(3601)
    store.register(replace(facts, id="w2"))
    store.retain(3600)
    assert not store.seen("w1")
    assert store.seen("w2")


# Tallies


def test_histograms_are_what_prometheus_expects(store):
    for seconds in (0.004, 0.005, 0.006, 45.0, 1000.0):
        accept(store)
        store.finish(store.claim(["compile"], "w", 30), ended(), {"compile": seconds}, [seconds, seconds])
    buckets = [t for t in store.tallies() if t.name == "assay_phase_seconds_bucket"]
    values = [t.value for t in buckets]
    assert values == sorted(values)
    at = {t.labels["le"]: t.value for t in buckets}
    assert (at["0.005"], at["0.01"], at["30.0"], at["60.0"], at["+Inf"]) == (2, 3, 3, 4, 5)
    assert tallied(store, "assay_phase_seconds_count", phase="compile") == 5
    assert tallied(store, "assay_phase_seconds_sum", phase="compile") == pytest.approx(1045.015)
    assert tallied(store, "assay_sandbox_start_seconds_count") == 10


def test_times_that_are_none_spoil_no_sum(store, clock):
    accept(store)
    lease = store.claim(["compile"], "w", 30)
    clock.jump_s(-3600)
    store.finish(lease, ended(), {"a": math.nan, "b": math.inf, "c": -1.0})
    assert tallied(store, "assay_phase_seconds_count") == 1
    assert tallied(store, "assay_phase_seconds_sum") == 0
    assert tallied(store, "assay_turnaround_seconds_sum") == 0


def test_waiting_turnaround_and_compilations_are_counted(store, clock):
    accept(store)
    clock.pass_s(3)
    lease = store.claim(["compile"], "w", 30)
    clock.pass_s(4)
    store.finish(lease, sample_verdicts.passed(), {})
    assert tallied(store, "assay_waiting_seconds_sum") == 3
    assert tallied(store, "assay_turnaround_seconds_sum") == 7
    assert tallied(store, "assay_compilations_total", cached="false") == 1
    assert tallied(store, "assay_evaluations_finished_total", status="passed") == 1


def test_counters_outlive_what_they_counted(store, clock):
    accept(store)
    store.finish(store.claim(["compile"], "w", 30), ended(), {})
    before = store.tallies()
    clock.pass_s(100)
    assert store.retain(10) == 1
    assert store.tallies() == before
