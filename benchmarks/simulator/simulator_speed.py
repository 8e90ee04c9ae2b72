"""How fast the simulator is: thread-instructions a second on six kernels, and beside numba-cuda's own simulator.

Speed is measured at sizes where the kernel, not the pipe, takes the time; one core. What counting costs, and
watching all blocks, is a launch's own time with it over its time without; what all cores gain, its time on one over
theirs: the time of three launches less that of one, halved, so that what a run costs beside them falls out. The
ratio compares whole runs of the same kernel on the same data at a size that numba-cuda's simulator can finish, in
the same process, side by side.
"""

import os

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import cuda, float32

from benchmarks._support.record import save
from common.contract import Settings
from evaluator.backends.session import KernelLaunch, PlanRun, Session, Watch
from evaluator.backends.sim.backend import Simulator
from evaluator.pipeline.build import build
from evaluator.pipeline.stage_values import Ending, SubmittedSource
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.arrays import NumpyRng
from evaluator.problems.catalogue import find_problem
from evaluator.problems.problem import Problem
from evaluator.settings import MachineSettings
from evaluator.stages.launch.planning import CheckedPlan, SizedPlan

_TILE = 16


@cuda.jit
def add_numba(a, b, c, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = a[i] + b[i]


@cuda.jit
def relu_numba(x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = max(x[i], float32(0.0))


@cuda.jit
def transpose_numba(x, y, rows, cols):
    tile = cuda.shared.array((_TILE, _TILE + 1), float32)
    col, row = cuda.grid(2)
    if row < rows and col < cols:
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = x[row, col]
    cuda.syncthreads()
    out_row = cuda.blockIdx.x * _TILE + cuda.threadIdx.y
    out_col = cuda.blockIdx.y * _TILE + cuda.threadIdx.x
    if out_row < cols and out_col < rows:
        y[out_row, out_col] = tile[cuda.threadIdx.x, cuda.threadIdx.y]


@cuda.jit
def matmul_numba(a, b, c, m, n, k):
    col, row = cuda.grid(2)
    if row < m and col < n:
        total = float32(0.0)
        for i in range(k):
            total += a[row, i] * b[i, col]
        c[row, col] = total


@cuda.jit
def row_sum_numba(x, y, rows, cols):
    partial = cuda.shared.array(128, float32)
    row, thread = cuda.blockIdx.x, cuda.threadIdx.x
    total = float32(0.0)
    for i in range(thread, cols, 128):
        total += x[row, i]
    partial[thread] = total
    cuda.syncthreads()
    step = 64
    while step > 0:
        if thread < step:
            partial[thread] += partial[thread + step]
        cuda.syncthreads()
        step //= 2
    if thread == 0:
        y[row] = partial[0]


@cuda.jit
def softmax_numba(x, y, rows, cols):
    row = cuda.grid(1)
    if row < rows:
        most = x[row, 0]
        for i in range(1, cols):
            most = max(most, x[row, i])
        total = float32(0.0)
        for i in range(cols):
            total += math.exp(x[row, i] - most)
        for i in range(cols):
            y[row, i] = math.exp(x[row, i] - most) / total


_SOURCES = {
    "vector_add": """
// assay: launch k grid=(ceil_div(n, 256)) block=(256) args=(a, b, c, n)
__global__ void k(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}""",
    "relu": """
// assay: launch k grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__global__ void k(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}""",
    "transpose": """
// assay: launch k grid=(ceil_div(cols, 16), ceil_div(rows, 16)) block=(16, 16) args=(x, y, rows, cols)
__global__ void k(const float* x, float* y, int rows, int cols) {
    __shared__ float tile[16][17];
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row < rows && col < cols) tile[threadIdx.y][threadIdx.x] = x[row * cols + col];
    __syncthreads();
    int out_row = blockIdx.x * 16 + threadIdx.y, out_col = blockIdx.y * 16 + threadIdx.x;
    if (out_row < cols && out_col < rows) y[out_row * rows + out_col] = tile[threadIdx.x][threadIdx.y];
}""",
    "matmul": """
// assay: launch k grid=(ceil_div(n, 32), ceil_div(m, 8)) block=(32, 8) args=(a, b, c, m, n, k)
__global__ void k(const float* a, const float* b, float* c, int m, int n, int k) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < m && col < n) {
        float total = 0.0f;
        for (int i = 0; i < k; i++) total += a[row * k + i] * b[i * n + col];
        c[row * n + col] = total;
    }
}""",
    "row_sum": """
// assay: launch k grid=(rows) block=(128) args=(x, y, rows, cols)
__global__ void k(const float* x, float* y, int rows, int cols) {
    __shared__ float partial[128];
    int row = blockIdx.x, thread = threadIdx.x;
    float total = 0.0f;
    for (int i = thread; i < cols; i += 128) total += x[(long long)row * cols + i];
    partial[thread] = total;
    __syncthreads();
    for (int step = 64; step > 0; step /= 2) {
        if (thread < step) partial[thread] += partial[thread + step];
        __syncthreads();
    }
    if (thread == 0) y[row] = partial[0];
}""",
    "softmax": """
// assay: launch k grid=(ceil_div(rows, 64)) block=(64) args=(x, y, rows, cols)
__global__ void k(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    x += (long long)row * cols;
    y += (long long)row * cols;
    float most = x[0], total = 0.0f;
    for (int i = 1; i < cols; i++) most = fmaxf(most, x[i]);
    for (int i = 0; i < cols; i++) total += expf(x[i] - most);
    for (int i = 0; i < cols; i++) y[i] = expf(x[i] - most) / total;
}""",
}


@dataclass(frozen=True)
class _Case:
    numba_kernel: Any
    large: dict[str, int]
    small: dict[str, int]


@dataclass(frozen=True)
class _Mode:
    session: Session
    options: dict[str, Any]


_LAUNCHES = 3
_TURNS = 4
_CASES = {
    "vector_add": _Case(add_numba, {"n": 4_000_000}, {"n": 4096}),
    "relu": _Case(relu_numba, {"n": 4_000_000}, {"n": 4096}),
    "transpose": _Case(transpose_numba, {"rows": 2048, "cols": 2048}, {"rows": 64, "cols": 64}),
    "matmul": _Case(matmul_numba, {"m": 512, "n": 512, "k": 512}, {"m": 64, "n": 64, "k": 64}),
    "row_sum": _Case(row_sum_numba, {"rows": 1024, "cols": 4096}, {"rows": 16, "cols": 512}),
    "softmax": _Case(softmax_numba, {"rows": 4096, "cols": 256}, {"rows": 64, "cols": 64}),
}


def _planned(toolbox: Toolbox, problem: Problem, source: str) -> tuple[CheckedPlan, Session, Session]:
    """The plan, and sessions on one core and on all."""
    built = build(SubmittedSource(problem, source.encode(), None, Settings(), "sm_80"), toolbox)
    assert not isinstance(built, Ending), built.ruling
    spread = toolbox.simulator
    alone = Simulator(spread.sandbox, spread.builds, spread.host_compiler, spread.readable, cores=1)
    sessions = [simulator.prepare(built.program, Settings()) for simulator in (alone, spread)]
    return built.checked_plan, sessions[0], sessions[1]


def _inputs(problem: Problem, sizes: dict[str, int]) -> dict[str, Any]:
    return problem.distributions[0].draw(NumpyRng(np.random.default_rng(1)), sizes)


def _best(repeats: int, act: Callable[[], Any]) -> tuple[float, Any]:
    times = []
    result = None
    for _ in range(repeats):
        started = time.perf_counter()
        result = act()
        times.append(time.perf_counter() - started)
    return min(times), result


def _simulated(checked_plan: CheckedPlan, session: Session, sizes: dict[str, int], repeats: int) -> tuple[float, Any]:
    problem = checked_plan.problem
    sized_plan = checked_plan.at(sizes)
    assert isinstance(sized_plan, SizedPlan)
    inputs = _inputs(problem, sizes)
    buffers = sized_plan.buffers_with(inputs)
    run = PlanRun(buffers, sized_plan.steps, 0xFF, 30.0)
    seconds, outcome = _best(repeats, lambda: session.run(run))
    assert outcome.fault is None, outcome.fault
    return seconds, outcome


def _own_s(checked_plan: CheckedPlan, sizes: dict[str, int], modes: Mapping[str, _Mode]) -> dict[str, float]:
    """Seconds of one launch of the kernel in each mode.

    The difference between one launch and `_LAUNCHES` in the same run: what a run costs beside them falls out. The
    modes take turns, so that what else the machine does falls on all of them.
    """
    sized_plan = checked_plan.at(sizes)
    assert isinstance(sized_plan, SizedPlan)
    inputs = _inputs(checked_plan.problem, sizes)
    buffers = sized_plan.buffers_with(inputs)
    times = dict.fromkeys(((name, launches) for name in modes for launches in (1, _LAUNCHES)), math.inf)
    for _ in range(_TURNS):
        for (name, launches), known_s in times.items():
            mode = modes[name]
            run = PlanRun(buffers, sized_plan.steps * launches, 0xFF, 60.0, **mode.options)
            started = time.perf_counter()
            outcome = mode.session.run(run)
            times[name, launches] = min(known_s, time.perf_counter() - started)
            assert outcome.fault is None, outcome.fault
    return {name: (times[name, _LAUNCHES] - times[name, 1]) / (_LAUNCHES - 1) for name in modes}


def _with_numba(case: _Case, problem: Problem, checked_plan: CheckedPlan) -> float:
    """Seconds of one run of the same kernel by numba-cuda's simulator, on the same grid."""
    sized_plan = checked_plan.at(case.small)
    assert isinstance(sized_plan, SizedPlan)
    (step,) = sized_plan.steps
    assert isinstance(step, KernelLaunch)
    arrays = dict(_inputs(problem, case.small))
    for tensor in problem.outputs:
        arrays[tensor.name] = np.zeros(tensor.shape_at(case.small), np.float32)
    arguments = [arrays.get(name, case.small.get(name)) for name in problem.parameter_names]
    launch = case.numba_kernel[step.grid, step.block]
    seconds, _ = _best(1, lambda: launch(*arguments))
    expected = problem.oracle(_inputs(problem, case.small), case.small)
    for tensor in problem.outputs:
        np.testing.assert_allclose(arrays[tensor.name], expected[tensor.name].value, rtol=1e-3, atol=1e-3)
    return seconds


def main() -> None:
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        toolbox = Toolbox(MachineSettings(Path(folder)))
        for name, case in _CASES.items():
            problem = find_problem(name)
            checked_plan, session, spread = _planned(toolbox, problem, _SOURCES[name])
            with session, spread:
                seconds, outcome = _simulated(checked_plan, session, case.large, 3)
                figures[f"{name}_instructions_per_s"] = outcome.thread_instructions / seconds
                small_s, _ = _simulated(checked_plan, session, case.small, 5)
                modes = {
                    "plain": _Mode(session, {}),
                    "counting": _Mode(session, {"count": True}),
                    "watching": _Mode(session, {"watch": Watch(share=1.0, seed=1)}),
                    "all cores": _Mode(spread, {}),
                }
                own_s = _own_s(checked_plan, case.large, modes)
                figures[f"{name}_counting_cost"] = own_s["counting"] / own_s["plain"]
                figures[f"{name}_watching_cost"] = own_s["watching"] / own_s["plain"]
                figures[f"{name}_all_cores_gain"] = own_s["plain"] / own_s["all cores"]
            figures[f"{name}_ratio_to_numba"] = _with_numba(case, problem, checked_plan) / small_s
    ratios = [value for figure, value in figures.items() if figure.endswith("_ratio_to_numba")]
    figures["smallest_ratio_to_numba"] = min(ratios)
    figures["median_ratio_to_numba"] = statistics.median(ratios)
    goals = {"matmul_instructions_per_s": (">=", 2e9), "smallest_ratio_to_numba": (">=", 100.0)}
    figures["largest_counting_cost"] = max(v for figure, v in figures.items() if figure.endswith("counting_cost"))
    goals["largest_counting_cost"] = ("<=", 2.0)
    save("simulator_speed", figures, goals, {"numba": numba.__version__, "cores": len(os.sched_getaffinity(0))})


if __name__ == "__main__":
    main()
