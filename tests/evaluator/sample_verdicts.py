"""Verdicts of every kind, built from real contract objects and real rewards, for the tests of report and cards."""

import math
from random import Random

from common.contract import (
    Compilation,
    Correctness,
    DeviceState,
    Diagnostic,
    Fault,
    Finding,
    KernelResources,
    Mismatch,
    Occupancy,
    OtherThread,
    Phase,
    Profile,
    Receipt,
    RewardName,
    Screening,
    Settings,
    Severity,
    Status,
    Timing,
    Trial,
    Verdict,
)
from common.contract.counters import (
    AccessPattern,
    Estimate,
    Evidence,
    LaunchCounts,
    LaunchEstimate,
    LineCounts,
    Pitfall,
    Reading,
    SharedTraffic,
    Traffic,
)
from common.reward import Measure, facts_of, reward

SOURCE = """\
// assay: launch block_sums grid=(rows) block=(256) args=(x, y, rows, cols)

__global__ void block_sums(const float* __restrict__ x, float* y, int rows, int cols)
{
    __shared__ float partial[256];
    /* every thread sums
       a strided part of the row */
    float sum = 0.0f;
    for (int j = threadIdx.x; j < cols; j += blockDim.x)
        sum += x[blockIdx.x * cols + j];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 128; step > 0; step >>= 1) {
        if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = partial[0];
}
"""

HOSTILE = (
    "</script></style></pre><img src=x onerror=alert(1)><svg onload=alert(2)>"
    "\x1b[31mred\x1b]0;title\x07[bold]markup[/bold]\u202eevil\x00 {{ 7*7 }} \"'&"
)

SETTINGS = Settings()


def kernel(name="block_sums(const float*, float*, int, int)", registers=24, spills=0, shared=1024):
    return KernelResources(
        kernel=name,
        registers=registers,
        spill_store_bytes=spills,
        spill_load_bytes=spills,
        stack_bytes=spills,
        shared_bytes=shared,
        constant_bytes=376,
        barriers=1,
    )


def occupancy(name="block_sums(const float*, float*, int, int)", registers=24, warps=64, limited_by="threads"):
    return Occupancy(
        kernel=name,
        block_threads=256,
        registers=registers,
        shared_bytes=1024,
        active_warps=warps,
        max_warps=64,
        occupancy=warps / 64,
        limited_by=limited_by,
    )


def compilation(*, succeeded=True, diagnostics=(), findings=(), kernels=None, changes=()):
    return Compilation(
        succeeded=succeeded,
        screening=Screening(changes=changes, findings=findings, risk=0.1 if findings else 0.0),
        toolchain="nvcc 13.0.88",
        arch="sm_80",
        flags=("-std=c++17", "-O3", "-lineinfo"),
        diagnostics=diagnostics,
        kernels=(kernel(),) if succeeded and kernels is None else kernels or (),
        duration_s=0.41,
    )


def trial(sizes=None, distribution="normal", hidden=False, passed=True, worst_error=0.031, mismatch=None):
    return Trial(
        sizes=sizes or {"rows": 128, "cols": 1024},
        distribution=distribution,
        hidden=hidden,
        passed=passed,
        worst_error=worst_error,
        mismatch=mismatch,
    )


def verdict(
    status,
    phase,
    message,
    hint=None,
    *,
    compile=None,
    correctness=None,
    timing=None,
    profile=None,
    backend="sim",
    name=RewardName.WEIGHTED,
):
    facts = facts_of(
        status=status,
        compilation=compile,
        correctness=correctness,
        timing=timing,
        profile=profile,
        settings=SETTINGS,
        measurable=frozenset(Measure) if backend == "gpu" else frozenset({Measure.REGISTERS, Measure.SHARED_MEMORY}),
    )
    return Verdict(
        status=status,
        phase=phase,
        message=message,
        hint=hint,
        backend=backend,
        problem="row_sum",
        compile=compile,
        correctness=correctness,
        timing=timing,
        profile=profile,
        reward=reward(name, facts) if status.carries_reward else None,
        receipt=Receipt(
            contract_version="1.0",
            grader_version="0.1.0",
            problem_version="1",
            source_sha256="3f" * 32,
            ptx_sha256="a7" * 32 if compile and compile.succeeded else None,
            toolchain="nvcc 13.0.88",
            arch="sm_80",
            device="simulator (sm_80)" if backend == "sim" else "NVIDIA H100 80GB HBM3",
            sandbox="bubblewrap",
            settings=SETTINGS,
            seed_commitment="0c" * 32,
            seed="5e" * 16,
            duration_s=1.73,
        ),
    )


def passed():
    trials = (
        trial(),
        trial(distribution="large", worst_error=0.12),
        trial({"rows": 1, "cols": 1}, hidden=True, worst_error=0.0),
        trial({"rows": 257, "cols": 1009}, hidden=True, distribution="cancellation", worst_error=0.44),
        trial({"rows": 64, "cols": 33}, distribution="probe: one term a row", worst_error=0.002),
    )
    return verdict(
        Status.PASSED,
        Phase.VERIFY,
        "All 5 trials are right: the worst error is 0.44 of what is allowed.",
        compile=compilation(),
        correctness=Correctness(
            passed=True,
            trials=trials,
            planned_trials=5,
            worst_error=0.44,
            deterministic=True,
            plan_source="directives",
            binding="as the launch line names them: x, y, rows, cols",
        ),
        profile=Profile(occupancy=(occupancy(),), thread_instructions=12_345_678),
    )


def timing(**changes):
    """A timing as an H100 gives it: a kernel with a few slow launches, and a baseline with two modes."""
    random = Random(1)
    samples = [round(18.3 + 0.032 * int(random.expovariate(0.25)), 3) for _ in range(60)]
    baseline = [round(random.choice((29.5, 30.1)) + 0.032 * random.randrange(8), 3) for _ in range(60)]
    measured = Timing(
        latency_us=18.4,
        baseline_us=29.8,
        speedup=1.62,
        speedup_low=1.55,
        speedup_high=1.69,
        confidence=0.95,
        speedup_stderr=0.036,
        compared_with="PyTorch 2.11.0 eager: torch.sum(x, dim=1)",
        sizes={"rows": 4096, "cols": 2048},
        launches=60,
        pooled_evaluations=2,
        samples_us=samples,
        baseline_samples_us=baseline,
        host_us=27.9,
        referee_us=246.2,
        checked_launches=3,
        floor_us=10.01,
        sol_us=10.02,
        sol_share=0.545,
        sol_score=0.702,
        bandwidth_share=0.545,
        transfer_us=2914.0,
        device=DeviceState(
            name="NVIDIA H100 80GB HBM3",
            uuid="GPU-7f3e0c9a-1d4b-4a52-9a63-0f6f6a1c2b3d",
            driver="580.159.04",
            compute_capability="9.0",
            multiprocessors=132,
            memory_bus_bits=5120,
            sm_clock_mhz=1755,
            memory_clock_mhz=2619,
            max_sm_clock_mhz=1980,
            max_memory_clock_mhz=2619,
            temperature_c=61,
            power_w=402.5,
            power_limit_w=700,
            ecc_errors=0,
            throttle_reasons=("power cap",),
        ),
        notes=("The clocks were held down while the launches were timed (power cap).",),
    )
    return measured.model_copy(update=changes)


def profiled():
    found = evidence(source="ncu")
    reading = Reading(latency_us=19.2, achieved_occupancy=0.71, sm_share=0.34, l2_share=0.5, dram_share=0.62)
    return found.model_copy(
        update={"launches": (found.launches[0].model_copy(update={"reading": reading, "lines": ()}),)}
    )


def passed_on_gpu():
    two = (kernel(), kernel("scale<float, 4>(float*, int)", 168, 64, 0))
    launches = (occupancy(), occupancy("scale<float, 4>(float*, int)", 168, 8, "registers"))
    finding = Finding(
        rule="volatile", severity=Severity.NOTE, line=5, text="volatile shared memory", why="It blocks optimisation."
    )
    warning = Diagnostic(
        file="kernel.cu",
        line=14,
        column=25,
        severity=Severity.WARNING,
        code="#186-D",
        text="pointless comparison of unsigned integer with zero",
    )
    return verdict(
        Status.PASSED,
        Phase.TIME,
        "All 3 trials are right, and it runs 1.62 times as fast as PyTorch eager.",
        "scale spills 64 bytes: ask for fewer registers, or use smaller blocks.",
        compile=compilation(kernels=two, findings=(finding,), diagnostics=(warning,)),
        correctness=Correctness(passed=True, trials=(trial(),) * 3, planned_trials=3, worst_error=0.031),
        timing=timing(),
        profile=Profile(
            occupancy=launches,
            memory_efficiency=0.93,
            bank_conflict_ways=1.0,
            lane_efficiency=0.97,
            coverage=1.0,
            warp_shuffles=False,
            evidence=evidence(),
            gpu_evidence=profiled(),
            achieved_occupancy=0.71,
            sm_share=0.34,
            dram_share=0.62,
            not_measured=("GPU counters of scale: the profiler has no such metric here.",),
        ),
        backend="gpu",
        name=RewardName.COMPONENTS,
    )


COLUMN = tuple(1024 * lane for lane in range(32))
"""Offsets of a warp that reads down a column of 256 floats."""


def evidence(kernel="block_sums", source="simulator"):
    """Counts of a kernel that reads down columns, with bank conflicts and a divergent branch."""
    loads = Traffic(
        requests=4096,
        sectors=131_072,
        least_sectors=16_384,
        lines=131_072,
        useful_bytes=524_288,
        unique_sectors=16_384,
    )
    stores = Traffic(requests=128, sectors=128, least_sectors=128, lines=128, useful_bytes=512, unique_sectors=16)
    shared = SharedTraffic(requests=2048, wavefronts=8192, least_wavefronts=2048)
    column = AccessPattern(space="global", act="load", lane_bytes=4, offsets=COLUMN)
    banks = AccessPattern(space="shared", act="load", lane_bytes=4, offsets=(*range(0, 512, 16),))
    partial = AccessPattern(space="global", act="store", lane_bytes=4, offsets=(64, *(None,) * 31))
    return Evidence(
        source=source,
        sizes={"rows": 128, "cols": 1024},
        launches=(
            LaunchCounts(
                kernel=kernel,
                grid=(128, 1, 1),
                block=(256, 1, 1),
                shared_bytes=1024,
                counted_blocks=128,
                warp_instructions=60_000,
                thread_instructions=1_500_000,
                by_class={"fp32": 12_000, "integer": 40_000, "global": 4224, "shared": 3776},
                flops={"fp32": 131_072},
                loads=loads,
                stores=stores,
                shared=shared,
                branches=9000,
                divergent_branches=1500,
                barriers=9216,
                lines=(
                    LineCounts(
                        line=10,
                        warp_instructions=40_000,
                        thread_instructions=1_280_000,
                        by_class={"fp32": 8000, "integer": 32_000},
                        loads=loads.model_copy(update={"unique_sectors": 0}),
                        patterns=(column,),
                    ),
                    LineCounts(
                        line=14,
                        warp_instructions=19_000,
                        thread_instructions=210_000,
                        by_class={"fp32": 4000, "integer": 8000},
                        shared=shared,
                        branches=9000,
                        divergent_branches=1500,
                        patterns=(banks,),
                    ),
                    LineCounts(
                        line=17,
                        warp_instructions=1000,
                        thread_instructions=10_000,
                        stores=stores,
                        patterns=(partial,),
                    ),
                ),
            ),
        ),
    )


def estimate(kernel="block_sums"):
    return Estimate(
        gpu="H100",
        sizes={"rows": 128, "cols": 1024},
        latency_us=9.0,
        floor_us=0.2,
        launches=(
            LaunchEstimate(
                kernel=kernel,
                latency_us=9.0,
                limited_by="l1",
                terms_us={"l1": 8.0, "issue": 1.5, "dram": 0.3, "shared": 0.8, "blocks": 0.2},
            ),
        ),
        naive_latency_us=18.0,
        speedup=2.0,
    )


def pitfalls(kernel="block_sums"):
    return (
        Pitfall(
            kind="uncoalesced_access",
            kernel=kernel,
            line=10,
            cost="its loads touch 32 sectors a warp where 4 would hold the same bytes",
            weight=0.71,
            remedy="Let neighbouring threads (`threadIdx.x`) touch neighbouring elements.",
        ),
        Pitfall(
            kind="low_occupancy", kernel=kernel, line=None, cost="24 of 64 warps fit", weight=0.04, remedy="Use less."
        ),
    )


def counted():
    """Passed on the simulator, with everything that it can count and estimate."""
    before = passed()
    profile = Profile(
        occupancy=(occupancy(registers=72, warps=24, limited_by="registers"),),
        thread_instructions=12_345_678,
        memory_efficiency=0.125,
        bank_conflict_ways=4.0,
        lane_efficiency=0.78,
        warp_shuffles=False,
        estimated_speedup=2.0,
        evidence=evidence(),
        estimate=estimate(),
        pitfalls=pitfalls(),
    )
    return verdict(
        Status.PASSED,
        Phase.VERIFY,
        before.message,
        compile=before.compile,
        correctness=before.correctness,
        profile=profile,
    )


def raced():
    fault = Fault(
        kind="race",
        message=(
            "writes partial[128] on line 11, and thread 0 of the same block reads it on line 14, with nothing in "
            "between that orders the two"
        ),
        kernel="block_sums",
        line=11,
        thread=(128, 0, 0),
        block=(0, 0, 0),
        buffer="partial",
        element=128,
        other=OtherThread(thread=(0, 0, 0), block=(0, 0, 0), line=14, act="read"),
    )
    return verdict(
        Status.INCORRECT,
        Phase.VERIFY,
        f"At rows=128, cols=1024 two threads race: block_sums: thread 128 of block 0 {fault.message}.",
        "Put `__syncthreads()` between line 11 and line 14.",
        compile=compilation(),
        correctness=Correctness(
            passed=False, trials=(trial(passed=False, worst_error=None),), planned_trials=6, fault=fault
        ),
    )


def compile_error():
    error = Diagnostic(
        file="kernel.cu",
        line=10,
        column=16,
        severity=Severity.ERROR,
        code="#20",
        text='identifier "xs" is undefined',
    )
    return verdict(
        Status.COMPILE_ERROR,
        Phase.COMPILE,
        'kernel.cu:10:16: identifier "xs" is undefined',
        "Declare xs, or use one of the parameters x, y, rows, cols.",
        compile=compilation(succeeded=False, diagnostics=(error,), changes=("Took the code out of a ``` fence.",)),
    )


def mismatch(rows=48, cols=48):
    def share(row, col):
        return round(max(0.0, min(1.0, 1.25 * math.exp(-((row - 40) ** 2 + (col - 44) ** 2) / 160) - 0.1)), 3)

    return Mismatch(
        output="y",
        index=(1011, 480),
        expected="-12.5078125",
        actual="nan",
        error=None,
        wrong_count=31_204,
        count=1200 * 513,
        pattern="most of the last rows, towards the last columns",
        heat=tuple(tuple(share(row, col) for col in range(cols)) for row in range(rows)),
        shape=(1200, 513),
    )


def incorrect():
    trials = (
        trial(),
        trial({"rows": 1200, "cols": 513}, "cancellation", True, False, 812.5, mismatch()),
    )
    return verdict(
        Status.INCORRECT,
        Phase.VERIFY,
        "y[1011, 480] is nan, expected -12.5078125 (trial 2 of 6: rows = 1200, cols = 513, cancellation); "
        "31,204 of 615,600 elements are wrong: most of the last rows, towards the last columns.",
        "The sizes are not multiples of the block: check the last, partly filled block.",
        compile=compilation(),
        correctness=Correctness(
            passed=False, trials=trials, planned_trials=6, plan_source="inferred", printed="row 1011 sum nan\n" * 3
        ),
        profile=Profile(occupancy=(occupancy(),)),
    )


def runtime_error():
    fault = Fault(
        kind="out_of_bounds",
        message="reads 4 bytes at element 131072 of x, which has 131072 elements",
        kernel="block_sums",
        line=10,
        thread=(31, 0, 0),
        block=(127, 0, 0),
        buffer="x",
        element=131_072,
    )
    return verdict(
        Status.RUNTIME_ERROR,
        Phase.VERIFY,
        "block_sums reads outside x at line 10: element 131072 of 131072, by thread (31, 0, 0) of block (127, 0, 0).",
        "Guard the access: if (i < n).",
        compile=compilation(),
        correctness=Correctness(
            passed=False,
            trials=(trial({"n": 131_072}, passed=False, worst_error=None),),
            planned_trials=6,
            fault=fault,
        ),
        profile=Profile(occupancy=(occupancy(),)),
    )


def timeout():
    return verdict(
        Status.TIMEOUT,
        Phase.VERIFY,
        "The kernels ran for longer than 30 s in trial 1 (rows = 128, cols = 1024).",
        "Look for a loop that does not end, or a __syncthreads() that not every thread reaches.",
        compile=compilation(),
        correctness=Correctness(passed=False, trials=(), planned_trials=6),
    )


def rejected():
    finding = Finding(
        rule="inline-assembly",
        severity=Severity.ERROR,
        line=9,
        text='asm("mov.u64 %0, %clock64;")',
        why="A kernel that reads the clock can tell that it is being timed.",
    )
    return verdict(
        Status.REJECTED,
        Phase.SCREEN,
        "Line 9 reads the GPU's clock, which no problem needs.",
        "Remove the inline assembly.",
        compile=compilation(succeeded=None, findings=(finding,), kernels=()),
    )


def internal_error():
    return verdict(
        Status.INTERNAL_ERROR,
        Phase.LAUNCH,
        "The sandbox went away while it was starting. This is our fault, not the submission's.",
        "Send it again; if it happens again, run `assay doctor`.",
    )


def hostile():
    """Every text that a submission can influence is hostile."""
    bad = mismatch(4, 4).model_copy(update={"pattern": HOSTILE, "actual": HOSTILE})
    finding = Finding(rule="r", severity=Severity.WARNING, line=2, text=HOSTILE, why=HOSTILE)
    note = Diagnostic(file=HOSTILE, line=3, column=2, severity=Severity.WARNING, code=HOSTILE, text=HOSTILE)
    return verdict(
        Status.INCORRECT,
        Phase.VERIFY,
        HOSTILE,
        HOSTILE,
        compile=compilation(findings=(finding,), diagnostics=(note,), kernels=(kernel(HOSTILE),), changes=(HOSTILE,)),
        correctness=Correctness(
            passed=False,
            trials=(trial(distribution=HOSTILE, passed=False, mismatch=bad),),
            planned_trials=2,
            binding=HOSTILE,
            warnings=(HOSTILE,),
            printed=HOSTILE,
            fault=Fault(
                kind="race",
                message=HOSTILE,
                kernel=HOSTILE,
                line=4,
                thread=(0, 0, 0),
                block=(0, 0, 0),
                buffer=HOSTILE,
                other=OtherThread(thread=(1, 0, 0), block=(0, 0, 0), act="write"),
            ),
        ),
        profile=Profile(
            occupancy=(occupancy(HOSTILE),),
            evidence=evidence(HOSTILE),
            gpu_evidence=evidence(HOSTILE, "ncu"),
            estimate=estimate(HOSTILE),
            pitfalls=(pitfalls(HOSTILE)[0].model_copy(update={"cost": HOSTILE, "remedy": HOSTILE}),),
            not_measured=(HOSTILE,),
        ),
    )


ALL = (
    passed,
    counted,
    raced,
    passed_on_gpu,
    compile_error,
    incorrect,
    runtime_error,
    timeout,
    rejected,
    internal_error,
    hostile,
)
