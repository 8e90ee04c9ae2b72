"""Grader processes before one GPU's referee: what the GPU benchmarks measure with.

The same processes grade on the simulator as well (`backend="sim"`), which is how the benchmarks are tested where
there is no GPU.
"""

import contextlib
import multiprocessing
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Barrier
from typing import Literal, Self

from benchmarks._support.one_gpu import referee_of, with_one_referee
from common.contract import Settings, Status, Submission, Verdict
from evaluator.backends.gpu.device.health import why_not
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings
from evaluator.stages.time.sample_pool import TimingPool

BackendName = Literal["gpu", "sim"]
_WARM_UP = """\
// assay: launch warm_up grid=(ceil_div(n, 128)) block=(128) args=(a, b, c, n)
__global__ void warm_up(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * 128 + threadIdx.x;
    if (i < n) c[i] = b[i] + a[i];
}
"""
_READY_S = 180.0
_GRACE_S = 75.0
"""How long what has begun may take after the time is up: compiling and running have 30 s each."""


@dataclass(frozen=True)
class Task:
    """One submission to grade."""

    name: str
    problem: str
    source: str
    settings: Settings = field(default_factory=Settings)
    alone: bool = False
    """Its times are not pooled with those of the same program that were measured before."""


@dataclass(frozen=True)
class Graded:
    """What came of a task."""

    task: Task
    verdict: Verdict
    took_s: float
    done_s: float
    """When, by `time.monotonic`, which is one clock for all processes."""


class Graders:
    """A pool of warm grader processes, with a data folder and (on a GPU) a referee of their own."""

    def __init__(
        self, workers: int, backend: BackendName = "gpu", *, jobs_per_runner: int = 1, runners_ahead: int = 2
    ) -> None:
        self.workers, self.backend = workers, backend
        self._folder = tempfile.TemporaryDirectory(prefix="assay-", ignore_cleanup_errors=True)
        self.settings = with_one_referee(
            Path(self._folder.name),
            sandbox=MachineSettings.from_environment().sandbox,
            gpu=None if backend == "gpu" else "",
            jobs_per_runner=jobs_per_runner,
            runners_ahead=runners_ahead,
            referee_idle_s=120.0,
        )
        self.start_s = 0.0
        """How long it took until all was warm."""
        self._used = False

    def __enter__(self) -> Self:
        started_s = time.monotonic()
        # Each grader needs one core, and linear algebra of none.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        toolbox = Toolbox(self.settings)
        if self.backend == "gpu":
            if toolbox.gpu is None:
                absence = why_not()
                raise SystemExit(f"This needs a GPU: {absence.message if absence else ''}. Run `assay doctor`.")
            self._referee = referee_of(toolbox)
            self._referee_pid = int(self._referee.facts()["pid"])
        toolbox.simulator.warm_up()
        context = multiprocessing.get_context("spawn")
        barrier = context.Barrier(self.workers)
        self._pool = ProcessPoolExecutor(
            self.workers, mp_context=context, initializer=_begin, initargs=(self.settings, self.backend, barrier)
        )
        # A process waits at the barrier for all others before it takes work: so each of these starts one.
        for ready in [self._pool.submit(os.getpid) for _ in range(self.workers)]:
            ready.result()
        self.start_s = time.monotonic() - started_s
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            # They may be waiting for a referee that will never answer.
            for process in multiprocessing.active_children():
                process.terminate()
        self._pool.shutdown(cancel_futures=True)
        if self.backend == "gpu":
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._referee_pid, signal.SIGTERM)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._referee_pid, 0)
        self._folder.cleanup()

    @property
    def device(self) -> str:
        """The GPU and its driver; empty on the simulator."""
        return re.sub(r" \(GPU-[^)]*\)", "", self._referee.device) if self.backend == "gpu" else ""

    def forget(self) -> None:
        """Empty the compile cache, all but the simulator's own runtime, if anything was graded."""
        if not self._used:
            return
        self._used = False
        shutil.rmtree(self.settings.data_dir / "cache", ignore_errors=True)
        Toolbox(self.settings).simulator.warm_up()

    def grade(self, tasks: Iterable[Task], until_s: float) -> Iterator[Graded]:
        """Grade as many as can be begun before `until_s` (by `time.monotonic`), as they are done.

        Raises TimeoutError where what was begun does not come to an end.
        """
        self._used = True
        left = iter(tasks)
        running: set[Future[Graded]] = set()
        while True:
            while len(running) < 2 * self.workers and time.monotonic() < until_s:
                task = next(left, None)
                if task is None:
                    break
                running.add(self._pool.submit(_grade, task, self.backend))
            if not running:
                return
            patience_s = max(until_s - time.monotonic(), 0.0) + _GRACE_S
            done, running = wait(running, patience_s, return_when=FIRST_COMPLETED)
            if not done:
                raise TimeoutError(f"Nothing was done for {patience_s:.0f} s: the referee does not answer.")
            if time.monotonic() >= until_s:
                running = {future for future in running if not future.cancel()}
            for future in done:
                yield future.result()


def gpu_versions() -> dict[str, str]:
    """Versions of what a GPU is driven with, as far as it is installed."""
    found = {}
    for package in ("torch", "pycuda", "cuda-bindings"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


_toolbox: Toolbox


def _begin(settings: MachineSettings, backend: BackendName, barrier: Barrier) -> None:
    """Make this process a warm grader."""
    global _toolbox
    _toolbox = Toolbox(settings)
    small = Settings(sizes={"n": 1 << 16}, max_launches=10)
    submission = Submission(problem="vector_add", source=_WARM_UP, backend=backend, settings=small)
    verdict = evaluate(submission, _toolbox)
    if verdict.status is not Status.PASSED:
        print(f"A grader could not warm up: {verdict.status}: {verdict.message}", flush=True)
        raise RuntimeError(verdict.message)
    barrier.wait(_READY_S)


def _grade(task: Task, backend: BackendName) -> Graded:
    submission = Submission(problem=task.problem, source=task.source, backend=backend, settings=task.settings)
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(dir=_toolbox.settings.data_dir) as folder:
        if task.alone:
            _toolbox.timings = TimingPool(Path(folder))
        verdict = evaluate(submission, _toolbox)
        _toolbox.__dict__.pop("timings", None)  # made anew by the next task, in the usual place
    done_s = time.monotonic()
    return Graded(task, verdict, done_s - started_s, done_s)
