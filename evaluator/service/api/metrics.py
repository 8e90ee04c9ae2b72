"""What Prometheus may read: queues, workers, what evaluations came to, and the requests of this process."""

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from evaluator.errors import AssayError
from evaluator.service import logs
from evaluator.service.storage import counters
from evaluator.service.storage.counters import CounterRepository
from evaluator.service.storage.evaluations import EvaluationRepository
from evaluator.service.storage.models import Tally
from evaluator.service.storage.workers import WorkerRepository

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_LOG = logs.logger("metrics")
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_MEANINGS = {
    counters.ACCEPTED: "Submissions taken in, by what answered: created, reused (a verdict), repeated (a POST).",
    counters.FINISHED: "Evaluations that ended, by status.",
    counters.REQUEUED: "Evaluations that went back into their queue, by reason.",
    counters.DEAD_LETTERS: "Evaluations that were lost too often, at last alone, and given up.",
    counters.TRIED_ALONE: "Attempts with nothing else beside them, of evaluations that were lost often.",
    counters.COMPILATIONS: "Compile phases, by whether the cache answered.",
    counters.PHASE: "Time of one phase of one evaluation.",
    counters.SANDBOX_START: "Time until a sandbox was ready for its job.",
    counters.WAITING: "From acceptance until a worker took it.",
    counters.TURNAROUND: "From acceptance to the verdict.",
}
_HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


class Metrics:
    """One for each process that serves HTTP; may be used from any thread."""

    def __init__(
        self, evaluations: EvaluationRepository, workers: WorkerRepository, counters: CounterRepository
    ) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "assay_http_requests", "Requests answered.", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "assay_http_request_duration_seconds",
            "From a request's first byte to the end of its answer, waiting for a verdict included.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._registry.register(_Kept(evaluations, workers, counters))

    def http(self, method: str, route: str, status: int, duration_s: float) -> None:
        """Count one request. Methods outside HTTP's own are counted together, so that nobody can make series."""
        known = method if method in ("GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH") else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(route).observe(duration_s)

    def render(self) -> bytes:
        """The page, as Prometheus reads it. Without a database `assay_store_up` is 0 and its part is missing."""
        return generate_latest(self._registry)


class _Kept(Collector):
    """What the store knows, read at most once a second."""

    def __init__(
        self, evaluations: EvaluationRepository, workers: WorkerRepository, counters: CounterRepository
    ) -> None:
        self._evaluations, self._workers, self._counters = evaluations, workers, counters
        self._lock = threading.Lock()
        self._read: tuple[float, list[Metric]] | None = None

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            if self._read is None or time.monotonic() - self._read[0] > 1:
                self._read = (time.monotonic(), self._look())
            return self._read[1]

    def _look(self) -> list[Metric]:
        up = GaugeMetricFamily("assay_store_up", "Whether the database can be read.")
        try:
            found = [*self._queue_gauges(), *self._worker_gauges(), *grouped(self._counters.tallies())]
        except AssayError as error:
            _LOG.warning("the store cannot be read", error=str(error))
            up.add_metric([], 0)
            return [up]
        up.add_metric([], 1)
        return [up, *found]

    def _queue_gauges(self) -> Iterator[Metric]:
        depth = GaugeMetricFamily("assay_queue_depth", "Evaluations that wait.", labels=["queue"])
        age = GaugeMetricFamily("assay_queue_oldest_age_seconds", "How long the oldest has waited.", labels=["queue"])
        for queue, waiting in {"compile": None, "sim": None, "gpu": None, **self._evaluations.depth()}.items():
            depth.add_metric([queue], waiting.count if waiting else 0)
            age.add_metric([queue], waiting.oldest_age_s if waiting else 0)
        yield depth
        yield age

    def _worker_gauges(self) -> Iterator[Metric]:
        alive = GaugeMetricFamily("assay_workers", "Workers that live.", labels=["backend", "draining"])
        seen = GaugeMetricFamily("assay_worker_seen_seconds", "Since a worker was heard of.", labels=["worker"])
        busy = GaugeMetricFamily("assay_workers_busy", "Workers that have an evaluation.", labels=["backend"])
        troubled = GaugeMetricFamily(
            "assay_workers_in_trouble", "Workers whose GPU cannot be used.", labels=["backend"]
        )
        fleet = self._workers.fleet()
        now_s = time.time()
        for worker in fleet:
            seen.add_metric([worker.id], max(0.0, now_s - worker.seen_at))
        for backend in ("gpu", "sim"):
            own = [worker for worker in fleet if worker.backend == backend]
            busy.add_metric([backend], sum(worker.busy_with is not None for worker in own))
            troubled.add_metric([backend], sum(worker.trouble is not None for worker in own))
            for draining in (False, True):
                count = sum(worker.draining == draining for worker in own)
                alive.add_metric([backend, str(draining).lower()], count)
        yield from (alive, busy, seen, troubled)


def grouped(samples: Iterable[Tally]) -> Iterator[Metric]:
    """Samples as metrics: those of one histogram belong together, all others are counters."""
    metrics: dict[str, Metric] = {}
    for tally in samples:
        name = next((tally.name.removesuffix(part) for part in _HISTOGRAM_PARTS if tally.name.endswith(part)), None)
        if name is None:
            name = tally.name.removesuffix("_total")
            counter = metrics.setdefault(
                name, CounterMetricFamily(name, _MEANINGS[tally.name], labels=sorted(tally.labels))
            )
            counter.add_sample(f"{name}_total", tally.labels, tally.value)
        else:
            histogram = metrics.setdefault(name, Metric(name, _MEANINGS.get(name, name), "histogram"))
            histogram.add_sample(tally.name, tally.labels, tally.value)
    for metric in metrics.values():
        metric.samples.sort(key=_order)
        yield metric


def _order(sample: object) -> tuple[object, ...]:
    """Samples of one series together, buckets by their bound: as Prometheus wants them."""
    name, labels = sample.name, dict(sample.labels)  # type: ignore[attr-defined]
    bound = labels.pop("le", None)
    part = next((index for index, part in enumerate(_HISTOGRAM_PARTS) if name.endswith(part)), -1)
    return (sorted(labels.items()), part, float(bound) if bound is not None else 0.0)
