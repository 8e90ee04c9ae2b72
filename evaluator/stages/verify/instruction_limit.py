"""How many instructions a run may execute before it counts as one that does not end.

Counting them gives the same verdict on a slow machine as on a fast one, which a clock does not. A slow kernel may be
right: so the limit is what a hundred naive kernels take, and never below 10^9, which a simulator does in a second or
two. Where a hundred naive kernels take longer than the time limit, the time limit still ends a run.
"""

import math
from typing import Final

from evaluator.problems.problem import Problem, Sizes

_LEAST: Final = 1_000_000_000
_TIMES_NAIVE: Final = 100
_NAIVE: Final = {
    "vector_add": 5.5,
    "scalar_multiply": 6.4,
    "saxpy": 4.6,
    "relu": 6.0,
    "gelu": 7.6,
    "reduce_sum": 8.0,
    "row_sum": 1.7,
    "transpose": 18.5,
    "prefix_sum": 12.0,
    "histogram": 18.0,
    "matvec": 1.6,
    "matmul": 2.8,
    "softmax": 6.6,
    "layer_norm": 1.9,
    "rms_norm": 1.7,
    "conv2d": 19.1,
    "linear_gelu": 2.6,
    "swiglu": 5.8,
    "attention": 3.4,
    "matmul_f16": 3.9,
}
"""Thread-instructions of each problem's naive kernel for one unit of its least work (`_units`), at the sizes where
they were counted (profile/naive_counters.json; a test holds these figures against it). They differ by a few percent
from size to size. A warp's instruction counts for eight of them at least, as in `PlanRun.instruction_limit`."""
_UNKNOWN: Final = 20.0
"""Of a problem that is not listed: as many as any."""
_SHORT_RUN_S: Final = 1.0
_WORK_S: Final = 2e-6
"""What one run of a small trial may take where only time ends it, and more for each operation or word that the
problem cannot do without. One thread of a GPU that waits for memory at every step takes 0.6 us a step, while others
use the GPU too. Where the problem is a file of somebody's, little is known of its work."""


def naive_instructions(problem: Problem, sizes: Sizes) -> int:
    """About how many thread-instructions the problem's naive kernel takes at `sizes`; at least 1."""
    return max(1, round(_NAIVE.get(problem.id, _UNKNOWN) * _units(problem, sizes)))


def instruction_limit(problem: Problem, sizes: Sizes) -> int:
    """After how many thread-instructions a run at `sizes` ends."""
    return max(_LEAST, _TIMES_NAIVE * naive_instructions(problem, sizes))


def time_limit_s(problem: Problem, sizes: Sizes) -> float:
    """After how long a run at `sizes` ends on a GPU, as far as that is known of the problem."""
    if problem.naive is None:
        return math.inf
    return _SHORT_RUN_S + _WORK_S * _units(problem, sizes)


def times_naive(problem: Problem, sizes: Sizes) -> str:
    """`84 times what the naive kernel takes`: the limit at `sizes`, in words."""
    times = instruction_limit(problem, sizes) / naive_instructions(problem, sizes)
    return f"{times:,.0f} times what the naive kernel takes"


def _units(problem: Problem, sizes: Sizes) -> float:
    """The least work at `sizes`: an operation, or four bytes of memory, is a unit."""
    work = problem.work(sizes)
    return work.flops + (work.read_bytes + work.written_bytes) / 4
