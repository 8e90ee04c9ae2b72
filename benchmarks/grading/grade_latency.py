"""How long a caller waits for a verdict on vector_add: one warm process, with a cold and with a warm cache.

In the quick mode; verification_modes.py compares both, for each problem.

Cold: every source is new to the cache (another constant in the arithmetic, so that nothing can be shared). The
simulator's own runtime is compiled once for a machine, before the first measurement.

The command, too: `assay grade` of a softmax with all trials, as a whole process. Its first run has an empty cache, so
that it compiles the runtime as well. What all its processes take of processors says more on a busy machine than the
time that passes.
"""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks._support.record import save
from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings

_COLD, _WARM = 20, 100
_FIRST, _AGAIN = 3, 10
_KERNEL = Path(__file__).parents[2] / "tests" / "kernels" / "softmax_online_warp.cu"
_QUICK = Settings(verification="quick")
_SOURCE = """__global__ void add_kernel(const float* a, const float* b, float* c, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && i != -{number}) c[i] = a[i] + b[i];
}}
"""


def _seconds(toolbox: Toolbox, source: str) -> float:
    started = time.perf_counter()
    verdict = evaluate(Submission(problem="vector_add", source=source, backend="sim", settings=_QUICK), toolbox)
    took = time.perf_counter() - started
    assert verdict.status is Status.PASSED, verdict.message
    return took


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        toolbox = Toolbox(MachineSettings(Path(folder)))
        toolbox.simulator.warm_up()
        _seconds(toolbox, _SOURCE.format(number=7))
        cold = [_seconds(toolbox, _SOURCE.format(number=1000 + n)) for n in range(_COLD)]
        warm = [_seconds(toolbox, _SOURCE.format(number=7)) for _ in range(_WARM)]
        compiled = _cache_hits(toolbox)
    figures = {
        "cold_p50_s": statistics.median(cold),
        "cold_p90_s": statistics.quantiles(cold, n=10)[-1],
        "warm_p50_s": statistics.median(warm),
        "warm_p90_s": statistics.quantiles(warm, n=10)[-1],
        "compile_cache_hit_p50_s": statistics.median(compiled),
        "cold_samples": _COLD,
        "warm_samples": _WARM,
    }
    goals = {"cold_p50_s": ("<=", 1.5), "warm_p50_s": ("<=", 0.3), "compile_cache_hit_p50_s": ("<=", 0.010)}
    # What a time limit would lose otherwise.
    save("grade_latency", figures, goals, quiet=True)
    print(figures, flush=True)
    save("grade_latency", figures | _command(), goals)


def _cache_hits(toolbox: Toolbox) -> list[float]:
    """What the compile phase takes when nothing has to be compiled."""
    submission = Submission(problem="vector_add", source=_SOURCE.format(number=7), backend="sim", settings=_QUICK)
    took = []
    for _ in range(_WARM):
        verdict = evaluate(submission, toolbox)
        assert verdict.compile is not None
        assert verdict.compile.cached
        assert verdict.compile.duration_s is not None
        took.append(verdict.compile.duration_s)
    return took


def _command() -> dict[str, float]:
    """Medians of whole runs of the command, on an empty cache and on what that left."""
    first, again = [], []
    for number in range(_FIRST):
        with tempfile.TemporaryDirectory() as folder:
            first.append(_run(folder))
            again += [_run(folder) for _ in range(_AGAIN if number == 0 else 0)]
    found = {}
    for name, runs in (("first", first), ("again", again)):
        for number, unit in enumerate(("s", "cpu_s")):
            found[f"command_{name}_p50_{unit}"] = statistics.median(run[number] for run in runs)
    return found


def _run(folder: str) -> tuple[float, float]:
    """The time that passed, and what all processes took of processors, seconds."""
    before, started_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = (sys.executable, "-m", "evaluator", "grade", str(_KERNEL), "--backend", "sim", "--json")
    subprocess.run(command, env={**os.environ, "ASSAY_DATA_DIR": folder}, stdout=subprocess.DEVNULL, check=True)
    took_s, after = time.perf_counter() - started_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
