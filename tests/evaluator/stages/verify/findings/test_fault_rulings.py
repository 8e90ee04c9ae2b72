"""What becomes of kernels whose blocks wait for each other for ever: whose fault it is, said before time is up."""

import re

from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate

MEETS = """// assay: temp arrived uint32 (1)
// assay: fill arrived value=0
// assay: launch scale grid=(ceil_div(n, 32)) block=(32) args=(x, y, alpha, arrived, n)
__global__ void scale(const float* x, float* y, float alpha, unsigned* arrived, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = alpha * x[i];
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        while (*(volatile unsigned*)arrived < gridDim.x) {}
    }
}
"""
QUICK = Settings(estimate_for=None, verification="quick", run_timeout_s=20)


def verdict_on(toolbox, settings):
    return evaluate(Submission(problem="scalar_multiply", source=MEETS, settings=settings), toolbox)


def test_a_barrier_of_more_blocks_than_a_gpu_holds_is_known_before_the_time_is_up(toolbox):
    verdict = verdict_on(toolbox, QUICK)
    assert verdict.status is Status.TIMEOUT
    assert "of the 4224 blocks that had begun" in verdict.message
    assert "which a GPU has no room for before one of them ends, line 11." in verdict.message
    assert "all runs together" not in verdict.message
    assert "launch no more than a GPU holds" in verdict.hint


def test_where_it_is_the_simulator_that_holds_too_few_nothing_is_judged(toolbox):
    verdict = verdict_on(toolbox, QUICK.model_copy(update={"memory_bytes": 512 << 20}))
    assert verdict.status is Status.UNSUPPORTED
    assert verdict.reward is None
    assert "for which the simulator has no memory, line 11." in verdict.message


def test_an_index_beyond_the_end_may_be_that_of_a_neighbour(toolbox):
    source = """// assay: launch scale grid=(ceil_div(n, 256)) block=(256) args=(x, y, alpha, n)
__global__ void scale(const float* x, float* y, float alpha, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = alpha * (i + 1 <= n && x[i + 1] > 1e30f ? 0.0f : x[i]);
}
"""
    verdict = evaluate(Submission(problem="scalar_multiply", source=source, settings=QUICK), toolbox)
    assert verdict.status is Status.RUNTIME_ERROR
    assert "one past the end" in verdict.message
    assert "at a border a neighbour's index lies there too (`i < n`, not `i <= n`)" in verdict.hint


def test_of_blocks_that_wait_for_each_other_both_are_named_whatever_they_count_meanwhile(toolbox):
    source = """// assay: launch scale grid=(2) block=(32) args=(x, y, alpha, n)
__device__ volatile unsigned turn[2];
__global__ void scale(const float* x, float* y, float alpha, int n)
{
    unsigned tries = 0;
    if (blockIdx.x == 0) while (turn[1] == 0) tries++;
    else while (turn[0] == 0) tries++;
    turn[blockIdx.x] = tries;
    for (int i = blockIdx.x * 32 + threadIdx.x; i < n; i += 64) y[i] = alpha * x[i];
}
"""
    settings = QUICK.model_copy(update={"run_timeout_s": 1})
    verdict = evaluate(Submission(problem="scalar_multiply", source=source, settings=settings), toolbox)
    assert verdict.status is Status.TIMEOUT
    named = re.search(
        r"thread 0 of block (\d) was still running when its time was up, line (\d), and so was thread 0 of "
        r"block (\d), line (\d) \(all runs together may take 1 s\)\.$",
        verdict.message,
    )
    lines = {"0": "6", "1": "7"}
    assert {named[1]: named[2], named[3]: named[4]} == lines, verdict.message
    assert verdict.hint.endswith("what it waits for is written by one who does not wait.")
