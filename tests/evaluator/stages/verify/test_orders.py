"""Drawn schedules in a verification: what they show is named, can be had again, and costs others nothing."""

import re
from pathlib import Path

from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate

# The ticket is taken before the block adds, so the last ticket's block may come before other blocks' sums.
EARLY_TICKET = """
// assay: temp sum float32 (1)
// assay: temp tickets uint32 (1)
// assay: fill sum value=0
// assay: fill tickets value=0
// assay: launch add grid=(ceil_div(n,256)) block=(64) args=(x,sum,tickets,total,n)
__global__ void add(const float* x, float* sum, unsigned* tickets, float* total, int n)
{
    __shared__ float part[64];
    unsigned ticket = 0;
    if (threadIdx.x == 0) ticket = atomicAdd(tickets, 1u);
    float s = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < min(n, (int)blockIdx.x * 256 + 256); i += 64) s += x[i];
    part[threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int i = 1; i < 64; i++) s += part[i];
    atomicAdd(sum, s);
    __threadfence();
    if (ticket == gridDim.x - 1) *total = atomicAdd(sum, 0.0f);
}
"""
LATE_TICKET = EARLY_TICKET.replace(
    "unsigned ticket = 0;\n    if (threadIdx.x == 0) ticket = atomicAdd(tickets, 1u);", ""
)
LATE_TICKET = LATE_TICKET.replace(
    "__threadfence();", "__threadfence();\n    unsigned ticket = atomicAdd(tickets, 1u);"
)


def graded(toolbox, source, problem="reduce_sum", **settings):
    wanted = Settings(verification="quick", estimate_for=None, **settings)
    return evaluate(Submission(problem=problem, source=source, backend="sim", settings=wanted), toolbox)


def test_an_answer_that_depends_on_who_comes_first_is_incorrect_and_the_schedule_has_it_again(toolbox):
    verdict = graded(toolbox, EARLY_TICKET)
    assert verdict.status is Status.INCORRECT
    named = re.search(r"interleaved as schedule (\d+) has them", verdict.message)
    assert int(named[1]) == verdict.correctness.schedule
    assert "`__threadfence()`" in verdict.hint
    again = graded(toolbox, EARLY_TICKET, schedule=int(named[1]))
    assert (again.status, again.correctness.schedule) == (Status.INCORRECT, int(named[1]))


def test_what_is_right_in_any_order_passes_and_says_how_many_were_tried(toolbox):
    verdict = graded(toolbox, LATE_TICKET)
    assert verdict.status is Status.PASSED, verdict.message
    assert sum(int(said.rsplit(": ", 1)[1]) for said in verdict.correctness.schedules) >= 8
    assert verdict.correctness.schedule is None
    assert verdict.correctness.warnings == ()


def test_atomics_of_one_kind_that_nobody_reads_are_run_in_no_other_schedule(toolbox):
    source = """
// assay: fill total value=0
// assay: launch add grid=(ceil_div(n,256)) block=(256) args=(x,total,n)
__global__ void add(const float* x, float* total, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) atomicAdd(total, x[i]);
}
"""
    verdict = graded(toolbox, source)
    assert verdict.status is Status.PASSED, verdict.message
    assert verdict.correctness.schedules == ()


def test_memory_is_weak_in_odd_schedules(toolbox):
    # Beside the drawn schedules a quick verification has no run in weak memory.
    source = (Path(__file__).parents[3] / "adversarial" / "flag_before_its_value.cu").read_text()
    verdict = graded(toolbox, source, problem="prefix_sum")
    assert verdict.status is Status.INCORRECT
    named = re.search(r"interleaved as schedule (\d+) has them\. In memory as weak as the PTX ISA", verdict.message)
    assert int(named[1]) % 2 == 1


RESET_TOO_EARLY = """
// assay: launch add grid=(2) block=(256) args=(x, total, n)
__device__ unsigned arrived = 0;
__device__ float part[2];
__global__ void add(const float* x, float* total, int n)
{
    __shared__ float sums[256];
    float own = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 512) own += x[i];
    sums[threadIdx.x] = own;
    __syncthreads();
    for (int k = 128; k; k /= 2) { if (threadIdx.x < k) sums[threadIdx.x] += sums[threadIdx.x + k]; __syncthreads(); }
    if (threadIdx.x != 0) return;
    part[blockIdx.x] = sums[0];
    __threadfence();
    atomicAdd(&arrived, 1);
    while (atomicAdd(&arrived, 0) < 2) { }
    __threadfence();
    if (blockIdx.x == 0) { *total = part[0] + part[1]; atomicExch(&arrived, 0); }
}
"""


def test_who_waits_for_a_counter_that_was_reset_is_told_of_the_reset(toolbox):
    verdict = graded(toolbox, RESET_TOO_EARLY, schedule=1869371266)
    assert verdict.status is Status.TIMEOUT, verdict.message
    assert "reset a counter or a flag only when nobody waits for it any more" in verdict.hint


def test_an_atomic_that_meets_a_plain_write_is_not_said_to_announce_itself(toolbox):
    alone = RESET_TOO_EARLY.replace("while", "if (blockIdx.x == 0) while")
    for reset, found in (("arrived = 0", 1), ("atomicExch(&arrived, 0)", 0)):
        verdict = graded(toolbox, alone.replace("atomicExch(&arrived, 0)", reset))
        assert verdict.status is Status.PASSED, verdict.message
        hazards = [hazard for hazard in verdict.correctness.hazards if hazard.kind == "unfenced"]
        assert len(hazards) == found
        for hazard in hazards:
            assert re.search(r"updates it atomically on line \d+; no fence orders the two$", hazard.message)
            assert f"Make both atomics whose scope is the GPU: the write on line {hazard.line}" in hazard.remedy


def test_a_barrier_that_some_schedules_do_not_complete_keeps_its_hint(toolbox):
    source = """
// assay: temp begun uint32 (1)
// assay: fill begun value=0
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, begun, n)
__global__ void relu(const float* x, float* y, unsigned* begun, int n)
{
    __shared__ bool in_turn;
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
    if (threadIdx.x == 0) in_turn = atomicAdd(begun, 1u) == blockIdx.x;
    __syncthreads();
    if (!in_turn && threadIdx.x < 32) asm volatile("bar.sync 1, 64;");
}
"""
    verdict = graded(toolbox, source, problem="relu")
    assert verdict.status is Status.TIMEOUT, verdict.message
    assert "interleaved as schedule" in verdict.message
    assert verdict.hint.startswith("Every thread of the block must reach the same barriers")
