"""Weak memory is drawn where it is cheap and where sizes are new, and is blamed for nothing that the order does."""

from test_orders import EARLY_TICKET

from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate
from evaluator.stages.verify.weak_memory import WeakMemory, budget


def test_cheap_trials_have_several_draws_and_larger_ones_one_in_each_direction():
    memory = WeakMemory(shares_memory=True, seed=5)
    assert memory.draws(False, 1000, 0, {"m": 8, "k": 8}) == []
    cheap = memory.draws(True, 1000, 0, {"m": 8, "k": 8})
    assert len(set(cheap)) == 3
    assert memory.draws(True, 5_000_000, 0, {"m": 15, "k": 8}) == []
    wide = memory.draws(True, 5_000_000, 0, {"m": 1, "k": 1024})
    assert len(wide) == 1
    assert wide[0] not in cheap
    assert memory.draws(True, 5_000_000, 0, {"m": 15, "k": 1030}) == []
    assert len(memory.draws(True, 5_000_000, 0, {"m": 16, "k": 1})) == 1
    too_much = budget(0)
    assert memory.draws(True, too_much, 0, {"m": 1 << 20, "k": 1}) == []
    assert WeakMemory(shares_memory=False, seed=5).draws(True, 1000, 0, {"m": 8}) == []


def test_draws_end_and_new_sizes_have_one_all_the_same():
    memory = WeakMemory(shares_memory=True, seed=7)
    drawn = [draw for _ in range(9) for draw in memory.draws(True, 1000, 0, {"n": 10})]
    assert len(set(drawn)) == len(drawn) == 15
    assert len(memory.draws(True, 1000, 0, {"n": 20})) == 1


def test_a_wrong_order_is_not_blamed_on_memory(toolbox):
    settings = Settings(verification="full", estimate_for=None)
    submission = Submission(problem="reduce_sum", source=EARLY_TICKET, backend="sim", settings=settings)
    verdict = evaluate(submission, toolbox)
    assert verdict.status is Status.INCORRECT
    assert "With blocks and warps interleaved" in verdict.message
    assert "In memory as weak" not in verdict.message
    assert "`__threadfence()`" in verdict.hint


def test_a_read_that_no_fence_precedes_is_told_where_both_belong(toolbox):
    source = """// assay: launch add grid=(2) block=(256) args=(a, b, c, n)
__device__ unsigned arrived;
__global__ void add(const float* a, const float* b, float* c, int n)
{
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 512) c[i] = a[i];
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned turn = atomicAdd(&arrived, 1) / 2;
        while (*(volatile unsigned*)&arrived < 2 * turn + 2) { }
    }
    __syncthreads();
    for (int i = (1 - blockIdx.x) * 256 + threadIdx.x; i < n; i += 512) c[i] += b[i];
}
"""
    settings = Settings(verification="quick", estimate_for=None)
    verdict = evaluate(Submission(problem="vector_add", source=source, backend="sim", settings=settings), toolbox)
    assert verdict.status is Status.INCORRECT, verdict.message
    assert verdict.hint.startswith(
        "Put `__threadfence()` after the write on line 5, before what announces it, and another one where the "
        "announcement has been read, before the read on line 12."
    )
