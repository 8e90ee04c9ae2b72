"""How long a caller waits for a verdict on vector_add: one warm process, with a cold and with a warm cache.

In the quick mode; verification_modes.py compares both, for each problem.

Cold: every source is new to the cache (another constant in the arithmetic, so that nothing can be shared). The
simulator's own runtime is compiled once for a machine, before the first measurement.
"""

import statistics
import tempfile
import time
from pathlib import Path

from benchmarks._support.record import save
from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings

_COLD, _WARM = 20, 100
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
    save("grade_latency", figures, goals)


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


if __name__ == "__main__":
    main()
