"""The estimate of time: its machines, its arithmetic by hand, what may never happen, and good told from bad."""

import math
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.contract import GpuName, KernelResources, Settings, Submission
from common.contract.counters import Atomics, Evidence, LaunchCounts, Traffic
from common.gpu_limits import GPU_LIMITS
from evaluator.pipeline.pipeline import evaluate
from evaluator.problems.catalogue import find_problem, problems
from evaluator.stages.profile.estimate import TUNING, estimate, with_naive
from evaluator.stages.profile.gpu_models import machines
from evaluator.stages.profile.naive_counters import naive_counts

H100 = machines()["H100"]
RESOURCES = KernelResources(
    kernel="copy(float const*, float*, int)",
    registers=16,
    spill_store_bytes=0,
    spill_load_bytes=0,
    stack_bytes=0,
    shared_bytes=0,
    constant_bytes=0,
    barriers=0,
)


def graded(toolbox, problem, source, **settings):
    settings = Settings(**{"verification": "quick", **settings})
    return evaluate(Submission(problem=problem, source=source, backend="sim", settings=settings), toolbox)


def side_by_side(warps, each=1):
    """Requests of whole lines, each of which nobody else needs."""
    requests = warps * each
    return Traffic(
        requests=requests,
        sectors=4 * requests,
        least_sectors=4 * requests,
        lines=requests,
        useful_bytes=128 * requests,
        block_sectors=4 * requests,
        unique_sectors=4 * requests,
    )


def launch(blocks, **changes):
    """Blocks of 256 threads that copy four elements each."""
    warps = 8 * blocks
    fields = {
        "kernel": "copy",
        "grid": (blocks, 1, 1),
        "block": (256, 1, 1),
        "counted_blocks": blocks,
        "warp_instructions": 20 * warps,
        "by_class": {"integer": 8 * warps, "global": 8 * warps, "control": 4 * warps},
        "loads": side_by_side(warps, 4),
        "stores": side_by_side(warps, 4),
        "branches": warps,
    }
    return LaunchCounts(**{**fields, **changes})


def evidence(*launches):
    return Evidence(source="simulator", sizes={"n": 1}, launches=launches)


@pytest.mark.parametrize("name", get_args(GpuName))
def test_each_gpu_that_may_be_named_is_described_and_fits_its_data_sheet(name):
    machine = machines()[name]
    assert set(machines()) == set(get_args(GpuName))
    assert int(machine.arch.removeprefix("sm_")) in GPU_LIMITS
    lanes = machine.lanes_per_clock["fp32"]
    assert machine.multiprocessors * lanes * 2 * machine.clock_mhz == pytest.approx(
        1e6 * machine.peaks.fp32_tflops, rel=0.02
    )
    assert machine.latency_clocks["l1"] < machine.latency_clocks["l2"] < machine.latency_clocks["dram"]
    assert machine.dram_bytes_per_clock < machine.l2_bytes_per_clock


def test_a_large_copy_takes_what_its_bytes_take():
    # 2^17 blocks of 8 warps, 4 requests of 128 bytes each in both directions: 2^30 bytes at 3.35e12 a second.
    found = estimate(evidence(launch(1 << 17)), [RESOURCES], H100)
    (one,) = found.launches
    assert one.limited_by == "dram"
    assert one.terms_us["dram"] == pytest.approx((1 << 30) / 3.35e6 / TUNING.dram_share, rel=1e-3)
    assert one.terms_us["dram"] < found.latency_us < 1.6 * one.terms_us["dram"]
    assert found.gpu == "H100"


def test_what_is_hot_serialises():
    calm = Atomics(requests=8 << 10, operations=1 << 18, turns=1 << 18, busiest=8, addresses=1 << 15)
    hot = calm.model_copy(update={"busiest": 1 << 18, "addresses": 1})
    slow, quick = (estimate(evidence(launch(1 << 10, atomics=one)), [RESOURCES], H100) for one in (hot, calm))
    assert slow.launches[0].limited_by == "atomics"
    assert slow.latency_us > H100.us((1 << 18) * TUNING.atomic_clocks) > 10 * quick.latency_us


def test_few_warps_hide_no_latency():
    needy = RESOURCES.model_copy(update={"registers": 255})
    crowded, lonely = (estimate(evidence(launch(1 << 14)), [one], H100) for one in (RESOURCES, needy))
    assert lonely.launches[0].terms_us["latency"] > 3 * crowded.launches[0].terms_us["latency"]


def test_nothing_is_faster_than_the_floor_and_fills_and_copies_count():
    counts = evidence(launch(1))
    assert estimate(counts, [RESOURCES], H100, floor_us=123.0).latency_us == 123.0
    alone = estimate(counts, [RESOURCES], H100).latency_us
    moved = estimate(counts, [RESOURCES], H100, moved_bytes=(3_350_000,)).latency_us
    assert moved - alone == pytest.approx(1 / TUNING.dram_share + TUNING.launch_us, rel=0.01)


def test_a_speedup_is_over_the_same_sizes_on_the_same_gpu():
    slow, quick = (estimate(evidence(launch(blocks)), [RESOURCES], H100) for blocks in (4096, 1024))
    assert with_naive(quick, slow).speedup == pytest.approx(slow.latency_us / quick.latency_us, rel=1e-3)
    assert with_naive(quick, slow.model_copy(update={"sizes": {"n": 2}})).speedup is None
    assert with_naive(quick, slow.model_copy(update={"gpu": "A100"})).speedup is None
    assert with_naive(quick, None) == quick


COUNTS = st.integers(0, 1 << 40)


@given(
    st.sampled_from(sorted(machines())),
    st.integers(1, 1 << 20),
    st.sampled_from([1, 32, 33, 256, 1024]),
    st.lists(COUNTS, min_size=12, max_size=12),
    st.integers(0, 300),
    st.integers(0, 230 << 10),
)
def test_any_counts_have_a_time(name, blocks, threads, numbers, registers, shared_bytes):
    """Whatever a process says that it counted."""
    a, b, c, d, e, f, g, h, i, j, k, m = numbers
    counts = LaunchCounts(
        kernel="copy",
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        shared_bytes=shared_bytes,
        counted_blocks=min(blocks, 8),
        warp_instructions=a,
        by_class={"special": b, "move": c, "shuffle": d},
        loads=Traffic(requests=e, sectors=f, lines=g, unique_sectors=h, block_sectors=i),
        stores=Traffic(requests=e, sectors=j, least_sectors=k, unique_sectors=m),
        atomics=Atomics(requests=a, operations=b, busiest=c, addresses=d),
        branches=e,
        barriers=f,
    )
    resources = RESOURCES.model_copy(update={"registers": registers})
    found = estimate(evidence(counts), [resources], machines()[name], floor_us=1.0)
    assert math.isfinite(found.latency_us)
    assert found.latency_us >= 1.0


@given(st.sampled_from(sorted(machines())), st.integers(1, 1 << 16), st.integers(1, 1 << 16))
def test_more_of_the_same_blocks_take_no_less(name, some, more):
    shorter, longer = sorted((some, some + more))
    times = [estimate(evidence(launch(n)), [RESOURCES], machines()[name]).latency_us for n in (shorter, longer)]
    assert times[0] <= times[1] * 1.0001


@pytest.mark.parametrize("problem", problems())
def test_the_naive_kernels_counts_are_those_of_its_source_as_it_is_now(problem):
    for sizes in (find_problem(problem).timing_sizes, find_problem(problem).example_sizes[0]):
        kept = naive_counts(find_problem(problem), sizes)
        assert kept is not None, "run `python -m scripts.count_naive_kernels`"
        assert estimate(kept.evidence, kept.resources, H100).latency_us > 0
    assert naive_counts(find_problem(problem), {"n": 17}) is None


@pytest.mark.parametrize("problem", ["vector_add", "transpose"])
def test_the_naive_kernels_counts_are_what_the_simulator_counts_now(problem, toolbox):
    verdict = graded(toolbox, problem, find_problem(problem).naive.source)
    assert verdict.profile.estimated_speedup == pytest.approx(1.0, rel=0.03)
    assert verdict.profile.estimate.naive_latency_us == pytest.approx(verdict.profile.estimate.latency_us, rel=0.03)
    assert verdict.profile.estimate.sizes == find_problem(problem).timing_sizes


def test_a_fast_kernel_is_expected_to_be_fast_and_the_reward_says_that_it_is_an_estimate(toolbox):
    verdict = graded(toolbox, "transpose", find_problem("transpose").fast.source)
    found = verdict.profile.estimate
    assert found.gpu == "H100"
    assert found.floor_us < found.latency_us < found.naive_latency_us / 2
    assert verdict.profile.estimated_speedup == found.speedup > 2
    assert any(term.explanation.startswith("Estimated speedup") for term in verdict.reward.terms)
    assert verdict.timing is None


def test_another_gpu_or_none(toolbox):
    source = find_problem("vector_add").naive.source
    quick, slow = (graded(toolbox, "vector_add", source, estimate_for=gpu).profile for gpu in ("H200", "RTX4090"))
    assert (quick.estimate.gpu, slow.estimate.gpu) == ("H200", "RTX4090")
    assert quick.estimate.latency_us < slow.estimate.latency_us
    none = graded(toolbox, "vector_add", source, estimate_for=None)
    assert (none.profile.estimate, none.profile.estimated_speedup) == (None, None)
    assert not any("Estimated" in term.explanation for term in none.reward.terms)


def test_a_wrong_kernel_has_no_estimate_and_no_reward_for_speed(toolbox):
    verdict = graded(toolbox, "relu", "__global__ void relu(const float* x, float* y, int n) { y[0] = 1.0f; }")
    assert verdict.profile.estimate is None
    speed = next(term for term in verdict.reward.terms if term.name == "speedup")
    assert speed.value == 0


def test_where_the_blocks_of_a_sample_never_end_the_typical_size_is_counted(toolbox):
    source = """__global__ void relu(const float* x, float* y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        while (n > 10000000 && *(volatile float*)y < 1e30f) { }
        if (i < n) y[i] = fmaxf(x[i], 0.0f);
    }"""
    found = graded(toolbox, "relu", source).profile.estimate
    assert found.sizes == find_problem("relu").example_sizes[0]
    assert found.speedup == pytest.approx(1.0, rel=0.2)
