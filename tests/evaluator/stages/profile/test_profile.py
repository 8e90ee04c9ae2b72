"""The profile that a verdict carries, from real programs."""

import pytest
from sample_verdicts import passed_on_gpu
from sample_verdicts import profiled as profiled_by_ncu

from common.contract import RewardName, Settings, Status, Submission
from common.facts import STATIC_MEASURES, TIMED_MEASURES, facts_of
from common.reward import reward
from evaluator.pipeline.pipeline import evaluate
from evaluator.stages.profile.profile import counters
from evaluator.stages.profile.profiler_result import Counted

HEAD = (
    "__global__ void relu(const float* x, float* y, int n)\n{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
)


def test_the_bandwidth_that_the_profiler_read_reaches_the_reward():
    """Critique, section 6 C: Nsight Compute's output parsed for the reward; section 3: memory bandwidth."""
    found = counters(Counted(profiled_by_ncu()))
    assert found["bandwidth_share"] == found["dram_share"] == pytest.approx(0.62)
    verdict = passed_on_gpu()
    values = {}
    for share in (0.05, 0.62):
        profile = verdict.profile.model_copy(update={**found, "bandwidth_share": share})
        facts = facts_of(
            status=verdict.status,
            compilation=verdict.compile,
            correctness=verdict.correctness,
            timing=verdict.timing,
            profile=profile,
            settings=Settings(),
            measurable=TIMED_MEASURES | STATIC_MEASURES,
        )
        assert facts.bandwidth_share == share
        values[share] = reward(RewardName.COMPONENTS, facts).value
    assert values[0.05] < values[0.62]
    assert counters(Counted(None, ("no profiler",)))["bandwidth_share"] is None


def profiled(toolbox, source):
    verdict = evaluate(Submission(problem="relu", source=source, settings=Settings(verification="quick")), toolbox)
    assert verdict.status is Status.PASSED, verdict.message
    return verdict


def test_occupancy_follows_the_block_and_the_shared_memory_of_the_plan(toolbox):
    body = HEAD + "    if (i < n) y[i] = fmaxf(x[i], 0.0f);\n}\n"
    plain = profiled(toolbox, body).profile.occupancy
    assert [(one.kernel.split("(")[0], one.block_threads, one.shared_bytes) for one in plain] == [("relu", 256, 0)]
    launch = "// assay: launch relu grid=(ceil_div(n, 1024)) block=(32, 32) shared={} args=(x, y, n)\n"
    source = launch.format(100000) + body.replace(
        "blockIdx.x * blockDim.x + threadIdx.x", "blockIdx.x * 1024 + threadIdx.y * 32 + threadIdx.x"
    )
    (large,) = profiled(toolbox, source).profile.occupancy
    assert (large.block_threads, large.shared_bytes, large.limited_by) == (1024, 100000, "shared memory")
    assert large.active_warps == 32
    assert large.occupancy == pytest.approx(large.active_warps / large.max_warps)


def test_each_launch_is_told_once(toolbox):
    body = HEAD + "    if (i < n) y[i] = fmaxf(x[i], 0.0f);\n}\n"
    line = "// assay: launch relu grid=(ceil_div(n, {0})) block=({0}) args=(x, y, n)\n"
    verdict = profiled(toolbox, line.format(64) + line.format(128) + line.format(64) + body)
    assert [one.block_threads for one in verdict.profile.occupancy] == [64, 128]


def test_a_shuffle_is_counted_only_when_it_ran(toolbox):
    without = HEAD + "    if (i < n) y[i] = fmaxf(x[i], 0.0f);\n}\n"
    dead = HEAD + "    if (n < 0) i = __shfl_sync(0xffffffff, i, 0);\n    if (i < n) y[i] = fmaxf(x[i], 0.0f);\n}\n"
    alive = HEAD + "    i = __shfl_sync(0xffffffff, i, threadIdx.x);\n    if (i < n) y[i] = fmaxf(x[i], 0.0f);\n}\n"
    ran = [profiled(toolbox, source).profile.warp_shuffles for source in (without, dead, alive)]
    assert ran == [False, False, True]


def test_more_work_is_more_instructions_and_nothing_is_timed(toolbox):
    once = profiled(toolbox, HEAD + "    if (i < n) y[i] = fmaxf(x[i], 0.0f);\n}\n")
    line = "// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)\n"
    # Eight times, because each grading draws hidden sizes of its own, and they differ.
    often = profiled(toolbox, 8 * line + HEAD + "    if (i < n) y[i] = fmaxf(x[i], 0.0f);\n}\n")
    assert often.profile.thread_instructions > 3 * once.profile.thread_instructions
    assert once.timing is None
    assert once.profile.bandwidth_share is None
