"""What was counted, as Prometheus wants it. On both databases."""

import math

import pytest
import sample_verdicts
from storage_samples import accept, ended, tallied


@pytest.fixture
def storage(new_storage, clock):
    return new_storage(clock)


def test_histograms_are_what_prometheus_expects(storage):
    for seconds in (0.004, 0.005, 0.006, 45.0, 1000.0):
        accept(storage)
        storage.leases.finish(
            storage.leases.claim(["compile"], "w", 30), ended(), {"compile": seconds}, [seconds, seconds]
        )
    buckets = [t for t in storage.counters.tallies() if t.name == "assay_phase_seconds_bucket"]
    values = [t.value for t in buckets]
    assert values == sorted(values)
    at = {t.labels["le"]: t.value for t in buckets}
    assert (at["0.005"], at["0.01"], at["30.0"], at["60.0"], at["+Inf"]) == (2, 3, 3, 4, 5)
    assert tallied(storage, "assay_phase_seconds_count", phase="compile") == 5
    assert tallied(storage, "assay_phase_seconds_sum", phase="compile") == pytest.approx(1045.015)
    assert tallied(storage, "assay_sandbox_start_seconds_count") == 10


def test_times_that_are_none_spoil_no_sum(storage, clock):
    accept(storage)
    lease = storage.leases.claim(["compile"], "w", 30)
    clock.jump_s(-3600)
    storage.leases.finish(lease, ended(), {"a": math.nan, "b": math.inf, "c": -1.0})
    assert tallied(storage, "assay_phase_seconds_count") == 1
    assert tallied(storage, "assay_phase_seconds_sum") == 0
    assert tallied(storage, "assay_turnaround_seconds_sum") == 0


def test_waiting_turnaround_and_compilations_are_counted(storage, clock):
    accept(storage)
    clock.pass_s(3)
    lease = storage.leases.claim(["compile"], "w", 30)
    clock.pass_s(4)
    storage.leases.finish(lease, sample_verdicts.passed(), {})
    assert tallied(storage, "assay_waiting_seconds_sum") == 3
    assert tallied(storage, "assay_turnaround_seconds_sum") == 7
    assert tallied(storage, "assay_compilations_total", cached="false") == 1
    assert tallied(storage, "assay_evaluations_finished_total", status="passed") == 1


def test_counters_outlive_what_they_counted(storage, clock):
    accept(storage)
    storage.leases.finish(storage.leases.claim(["compile"], "w", 30), ended(), {})
    before = storage.counters.tallies()
    clock.pass_s(100)
    assert storage.sweeps.retain(10) == 1
    assert storage.counters.tallies() == before
