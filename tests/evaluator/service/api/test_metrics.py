"""What Prometheus reads: the page is parsed as Prometheus would, and compared with what the database holds."""

import math
import time

import pytest
from api_service import facts
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from storage_samples import accept, empty_sqlite, ended

from common.contract import Status
from evaluator.errors import StorageError
from evaluator.service.api.metrics import Metrics, grouped
from evaluator.service.storage.models import Tally
from evaluator.service.storage.storage import open_storage


@pytest.fixture
def storage(tmp_path):
    opened = open_storage(empty_sqlite(tmp_path / "a.db"))
    yield opened
    opened.database.close()


def page(metrics):
    """Samples by name and labels."""
    families = list(text_string_to_metric_families(metrics.render().decode()))
    assert all(family.documentation and family.documentation != family.name for family in families)
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def test_the_queue_its_age_and_the_workers(storage):
    for number in range(3):
        accept(storage, tenant=f"t{number}")
    storage.leases.claim(["compile"], "w1", 30)
    storage.workers.register(facts())
    storage.workers.register(facts(id="w2", backend="gpu", queues=("gpu",)))
    storage.workers.seen("w1")
    storage.workers.seen("w2", draining=True)
    time.sleep(0.05)
    found = page(Metrics(storage.evaluations, storage.workers, storage.counters))
    assert found["assay_store_up",] == 1
    assert found["assay_queue_depth", ("queue", "compile")] == 2
    assert found["assay_queue_depth", ("queue", "gpu")] == 0
    assert 0.04 < found["assay_queue_oldest_age_seconds", ("queue", "compile")] < 60
    assert found["assay_workers", ("backend", "sim"), ("draining", "false")] == 1
    assert found["assay_workers", ("backend", "gpu"), ("draining", "true")] == 1
    assert found["assay_workers", ("backend", "gpu"), ("draining", "false")] == 0
    assert found["assay_workers_busy", ("backend", "sim")] == 1
    assert 0 <= found["assay_worker_seen_seconds", ("worker", "w1")] < 60


def test_verdicts_phases_cache_and_sandboxes(storage):
    for status in (Status.UNSUPPORTED, Status.UNSUPPORTED, Status.CANCELLED):
        accept(storage)
        lease = storage.leases.claim(["compile"], "w1", 30)
        assert storage.leases.finish(lease, ended(status), {"compile": 0.3, "verify": 2.0}, [0.02, 0.2])
    found = page(Metrics(storage.evaluations, storage.workers, storage.counters))
    by_status = [("backend", "sim"), ("status", "unsupported")]
    assert found["assay_evaluations_finished_total", *by_status] == 2
    assert found["assay_evaluations_accepted_total", ("answer", "created")] == 3
    phase = ("phase", "compile")
    assert found["assay_phase_seconds_count", phase] == 3
    assert found["assay_phase_seconds_sum", phase] == pytest.approx(0.9)
    assert found["assay_phase_seconds_bucket", ("le", "0.25"), phase] == 0
    assert found["assay_phase_seconds_bucket", ("le", "0.5"), phase] == 3
    assert found["assay_phase_seconds_bucket", ("le", "+Inf"), phase] == 3
    assert found["assay_sandbox_start_seconds_count",] == 6
    assert found["assay_turnaround_seconds_count",] == 3


def test_requests_are_counted_and_timed(storage):
    metrics = Metrics(storage.evaluations, storage.workers, storage.counters)
    metrics.http("POST", "/evaluate", 200, 0.02)
    metrics.http("POST", "/evaluate", 200, 3)
    metrics.http("PROPFIND" * 100, "none", 405, 0.001)
    found = page(metrics)
    labels = [("method", "POST"), ("route", "/evaluate"), ("status", "200")]
    assert found["assay_http_requests_total", *labels] == 2
    assert found["assay_http_requests_total", ("method", "other"), ("route", "none"), ("status", "405")] == 1
    assert found["assay_http_request_duration_seconds_bucket", ("le", "0.025"), ("route", "/evaluate")] == 1
    assert found["assay_http_request_duration_seconds_sum", ("route", "/evaluate")] == pytest.approx(3.02)


def test_the_store_is_asked_once_a_second_at_most(storage, monkeypatch):
    asked = []
    real = storage.evaluations.depth
    monkeypatch.setattr(storage.evaluations, "depth", lambda: asked.append(1) or real())
    metrics = Metrics(storage.evaluations, storage.workers, storage.counters)
    for _ in range(20):
        metrics.render()
    assert len(asked) == 1


def test_a_store_that_cannot_be_read_is_said_to_be_down(storage, monkeypatch):
    def fail():
        raise StorageError("gone")

    monkeypatch.setattr(storage.counters, "tallies", fail)
    metrics = Metrics(storage.evaluations, storage.workers, storage.counters)
    metrics.http("GET", "/livez", 200, 0.1)
    found = page(metrics)
    assert found["assay_store_up",] == 0
    assert found["assay_http_requests_total", ("method", "GET"), ("route", "/livez"), ("status", "200")] == 1


durations = st.lists(st.floats(0, 100), min_size=1, max_size=20)


@given(durations, st.randoms())
def test_histograms_are_whole_in_whatever_order_their_parts_come(durations_s, random):
    bounds = (0.1, 1.0, 10.0, math.inf)
    parts = [
        Tally("assay_x_bucket", {"le": f"{bound:g}".replace("inf", "+Inf")}, sum(one <= bound for one in durations_s))
        for bound in bounds
    ]
    parts += [Tally("assay_x_sum", {}, sum(durations_s)), Tally("assay_x_count", {}, len(durations_s))]
    random.shuffle(parts)
    (histogram,) = grouped(parts)
    assert histogram.type == "histogram"
    counts = [sample.value for sample in histogram.samples if sample.name.endswith("_bucket")]
    assert counts == sorted(counts)
    assert counts[-1] == len(durations_s)
    assert [sample.name for sample in histogram.samples][-2:] == ["assay_x_sum", "assay_x_count"]
