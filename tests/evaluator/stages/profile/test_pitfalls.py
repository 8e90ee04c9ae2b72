"""Each pitfall in a kernel that has it, and in one that computes the same without; both compiled and counted."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from common.contract import Settings, Submission
from common.contract.counters import Evidence, LaunchCounts, Pitfall
from evaluator.backends.session import Buffer, KernelLaunch, PlanRun, Pointer
from evaluator.backends.sim.session import SimulatorSession
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.stages.compile.nvcc import Compiled, compile_source
from evaluator.stages.compile.resources import occupancy
from evaluator.stages.profile.pitfalls import MIN_WEIGHT, find_pitfalls

SOURCE = """
__global__ void copy(const float* x, float* y) { int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[i]; }
__global__ void scattered(const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i % 256 * 256 + i / 256];
}
__global__ void shifted(const float* x, float* y) { int i = blockIdx.x * blockDim.x + threadIdx.x; y[i] = x[i + 1]; }
template <int PITCH> __device__ float columns(const float* x, float* y) {
    __shared__ float tile[32 * PITCH];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = x[i];
    __syncthreads();
    float sum = 0.0f;
    for (int n = 0; n < 32; n++) sum += tile[threadIdx.x % 32 * PITCH + n];
    y[i] = sum;
    return sum;
}
__global__ void conflicting(const float* x, float* y) { columns<32>(x, y); }
__global__ void padded(const float* x, float* y) { columns<33>(x, y); }
__device__ float work(float v, int turns) {
    for (int n = 0; n < turns; n++) v = v * 1.5f + sqrtf(v);
    return v;
}
__global__ void diverging(const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = work(x[i], threadIdx.x % 2 ? 400 : 10);
}
__global__ void even(const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = work(x[i], threadIdx.x / 128 ? 400 : 10);
}
__global__ void hot(const float* x, float* y) { atomicAdd(y, x[blockIdx.x * blockDim.x + threadIdx.x]); }
__global__ void spread_out(const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(y + i, x[i]);
}
__global__ void bytes(const unsigned char* x, unsigned char* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i];
}
__global__ void idle(const float* x, float* y) {
    int i = blockIdx.x * 16 + threadIdx.x;
    if (threadIdx.x < 16) y[i] = x[i];
}
__global__ void indexed(const float* x, float* y, int k) {
    float kept[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int n = 0; n < 64; n++) kept[n] = x[i] + n;
    for (int n = 0; n < 64; n++) kept[n * k & 63] *= 2.0f;
    y[i] = kept[k & 63];
}
__global__ void unrolled(const float* x, float* y, int k) {
    float kept[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    #pragma unroll
    for (int n = 0; n < 64; n++) kept[n] = x[i] + n;
    float sum = 0.0f;
    #pragma unroll
    for (int n = 0; n < 64; n++) sum += kept[n] * k;
    y[i] = sum;
}
"""
FLOATS = 1 << 16


@pytest.fixture(scope="module")
def compiled(toolbox: Toolbox) -> Compiled:
    made = compile_source(SOURCE, Settings(), "sm_80", toolbox.toolchain, toolbox.sandbox, toolbox.cache)
    assert made.ruling is None, made.ruling
    return made


@pytest.fixture(scope="module")
def session(toolbox: Toolbox, compiled: Compiled) -> Iterator[SimulatorSession]:
    assert compiled.program is not None
    with toolbox.simulator.prepare(compiled.program, Settings()) as session:
        yield session


class Ward:
    """Runs kernels and has their pitfalls found."""

    def __init__(self, compiled: Compiled, session: SimulatorSession) -> None:
        self.compiled, self.session = compiled, session

    def pitfalls(
        self, kernel: str, blocks: int = FLOATS // 256, threads: int = 256, dynamic_bytes: int = 0
    ) -> dict[str, Pitfall]:
        counts = self.counted(kernel, blocks, threads, dynamic_bytes)
        (resources,) = (k for k in self.compiled.kernels if k.kernel.startswith(f"{kernel}("))
        found = find_pitfalls(
            Evidence(source="simulator", sizes={}, launches=(counts,)),
            (occupancy(resources, threads, dynamic_bytes, "sm_90"),),
            self.compiled.kernels,
        )
        return {pitfall.kind: pitfall for pitfall in found}

    def counted(self, kernel: str, blocks: int, threads: int, dynamic_bytes: int = 0) -> LaunchCounts:
        assert self.compiled.program is not None
        (entry,) = (e for e in self.compiled.program.entries if e.name.startswith(f"{kernel}("))
        buffers = tuple(Buffer(name, "temporary", 4 * FLOATS + 1024, 4, None) for name in "xy")
        arguments = (Pointer("x"), Pointer("y"), (3).to_bytes(4, "little"))[: len(entry.parameters)]
        launch = KernelLaunch(entry.symbol, (blocks, 1, 1), (threads, 1, 1), dynamic_bytes, False, arguments)
        outcome = self.session.run(PlanRun(buffers, (launch,), 0, 20.0, count=True))
        assert outcome.fault is None, outcome.fault
        return outcome.counts[0]


@pytest.fixture(scope="module")
def ward(compiled: Compiled, session: SimulatorSession) -> Ward:
    return Ward(compiled, session)


def _line_of(text: str) -> int:
    return next(n for n, line in enumerate(SOURCE.splitlines(), 1) if text in line)


@pytest.mark.parametrize("kernel", ["copy", "shifted", "padded", "even", "spread_out", "unrolled"])
def test_a_kernel_without_a_pitfall_has_none(ward: Ward, kernel: str) -> None:
    assert ward.pitfalls(kernel) == {}


def test_uncoalesced_access(ward: Ward) -> None:
    found = ward.pitfalls("scattered")
    assert set(found) == {"uncoalesced_access"}
    pitfall = found["uncoalesced_access"]
    assert pitfall.line == _line_of("y[i] = x[i % 256 * 256")
    assert "32 sectors a warp where 4" in pitfall.cost
    assert pitfall.weight > 0.4
    assert pitfall.kernel == "scattered"


def test_bank_conflicts(ward: Ward) -> None:
    found = ward.pitfalls("conflicting")
    assert set(found) == {"bank_conflicts"}
    assert found["bank_conflicts"].line == _line_of("for (int n = 0; n < 32; n++) sum")
    assert "32 passes" in found["bank_conflicts"].cost
    assert found["bank_conflicts"].weight > 0.8


def test_divergence(ward: Ward) -> None:
    found = ward.pitfalls("diverging")
    assert set(found) == {"divergence"}
    assert 0.3 < found["divergence"].weight < 0.6
    assert "of 32 lanes work" in found["divergence"].cost


def test_hot_atomics(ward: Ward) -> None:
    found = ward.pitfalls("hot")
    assert set(found) == {"hot_atomics"}
    assert f"{FLOATS:,} operations meet at one address" in found["hot_atomics"].cost
    assert found["hot_atomics"].line == _line_of("__global__ void hot")
    assert found["hot_atomics"].weight > 0.9


def test_low_occupancy_with_what_limits_it(ward: Ward) -> None:
    found = ward.pitfalls("copy", threads=128, blocks=FLOATS // 128, dynamic_bytes=100 << 10)
    assert set(found) == {
        "low_occupancy",
        "missing_vectorisation",
    }  # either fixes it
    assert "limited by shared memory" in found["low_occupancy"].cost
    assert "less shared memory" in found["low_occupancy"].remedy
    assert found["low_occupancy"].weight > 0.5
    tiny = ward.pitfalls("copy", threads=32, blocks=FLOATS // 32)
    assert all(pitfall.weight < MIN_WEIGHT for pitfall in tiny.values())  # 32 blocks of a warp are enough to copy


def test_missing_vectorisation(ward: Ward) -> None:
    found = ward.pitfalls("bytes")
    assert set(found) == {"missing_vectorisation"}
    assert "32 bytes a request where 512" in found["missing_vectorisation"].cost
    assert "float4" in found["missing_vectorisation"].remedy


def test_uncovered_tail(ward: Ward) -> None:
    found = ward.pitfalls("idle", blocks=256, threads=256)
    assert set(found) == {"uncovered_tail"}
    assert f"{256 * 240:,} of {256 * 256:,} threads" in found["uncovered_tail"].cost


def test_arrays_in_local_memory(ward: Ward) -> None:
    found = ward.pitfalls("indexed")
    assert "spills" in found
    assert found["spills"].line == _line_of("kept[n * k & 63]")
    assert found["spills"].weight > 0.3


def test_registers_that_ptxas_spilled(ward: Ward, compiled: Compiled) -> None:
    counts = ward.counted("copy", 256, 256)
    (copy,) = (k for k in compiled.kernels if k.kernel.startswith("copy("))
    spilling = copy.model_copy(update={"spill_store_bytes": 400, "spill_load_bytes": 800, "stack_bytes": 400})
    evidence = Evidence(source="simulator", sizes={}, launches=(counts,))
    (pitfall,) = find_pitfalls(evidence, (), (spilling,))
    assert pitfall.kind == "spills"
    assert pitfall.cost == "400 bytes a thread are spilled and 800 read back"
    assert find_pitfalls(evidence, (), (copy,)) == ()


def test_a_pitfall_of_a_small_part_of_the_plan_weighs_little(ward: Ward) -> None:
    bad, good = ward.counted("conflicting", 1, 256), ward.counted("copy", 256, 256)
    alone = find_pitfalls(Evidence(source="simulator", sizes={}, launches=(bad,)))
    among = find_pitfalls(Evidence(source="simulator", sizes={}, launches=(bad, good, good, good)))
    assert alone[0].weight > 0.8
    assert sum(pitfall.weight for pitfall in among) < 0.2


WELL_TUNED = (
    "attention_online",
    "histogram_shared_atomics",
    "layer_norm_welford",
    "matmul_double_buffered",
    "matmul_register_tile",
    "matvec_warp_vectorised",
    "rms_norm_row_strided",
    "row_sum_warp_per_row",
    "softmax_online_warp",
    "swiglu_vector4",
    "transpose_padded_tile",
    "transpose_swizzle",
    "vector_add_float4_tail",
)


@pytest.mark.parametrize("name", WELL_TUNED)
def test_well_tuned_kernels_are_not_accused(toolbox: Toolbox, name: str) -> None:
    source = (Path(__file__).parents[3] / "kernels" / f"{name}.cu").read_text()
    problem = source.split("problem: ")[1].split()[0]
    verdict = evaluate(
        Submission(problem=problem, source=source, backend="sim", settings=Settings(verification="quick")), toolbox
    )
    assert verdict.profile is not None
    assert verdict.profile.evidence is not None
    assert [pitfall for pitfall in verdict.profile.pitfalls if pitfall.weight > 0.1] == []
