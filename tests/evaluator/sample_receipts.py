"""A verdict of a GPU whose every part fits the others, as if a referee had made it, signed by a key of the tests."""

import json

import numpy as np

from common.contract import (
    Compilation,
    Correctness,
    DeviceState,
    KernelResources,
    Phase,
    Profile,
    Screening,
    Settings,
    Status,
    Trial,
    Verdict,
)
from common.facts import facts_of, measures_of
from common.reward import reward
from common.signature import Signer
from evaluator.backends.peaks import peaks_of
from evaluator.pipeline.receipt import receipt, signed
from evaluator.problems.catalogue import find_problem
from evaluator.seed import Seed
from evaluator.stages.time.roofline import Roofline, precision_of
from evaluator.stages.time.statistics import Measurement, Pooled, summarise
from evaluator.stages.verify.trials import plan_trials

SIGNER = Signer("5" * 64)
STRANGER = Signer("6" * 64)
SOURCE = b"""// assay: launch saxpy grid=(ceil_div(n, 256)) block=(256) args=(x, y, out, alpha, n)
__global__ void saxpy() {}
"""
SETTINGS = Settings(target_speedup=1.5)
SEED = Seed(b"\x07" * 32)
DEVICE = DeviceState(
    name="NVIDIA H200", uuid="GPU-1", driver="580.1", compute_capability="9.0", multiprocessors=132,
    memory_bus_bits=6144, max_sm_clock_mhz=1980, max_memory_clock_mhz=3201, throttle_reasons=(),
)  # fmt: skip


def unsigned(*, pooled=True, seed=SEED):
    problem = find_problem("saxpy")
    trials = tuple(
        Trial(
            sizes=dict(one.sizes),
            scalars=dict(one.scalars),
            distribution=one.distribution.name,
            hidden=one.hidden,
            passed=True,
            worst_error=0.25,
        )
        for one in plan_trials(problem, SETTINGS, seed.generator(), timed_too=True)
    )
    rng = np.random.default_rng(1)
    event, baseline = (tuple(base * (1 + rng.random(60) / 20)) for base in (400.0, 700.0))
    measurement = Measurement(
        sizes=problem.timing_sizes,
        event_us=event,
        host_us=tuple(one + 20 for one in event),
        referee_us=tuple(one + 60 for one in event),
        baseline_us=baseline,
        gap_us=20.0,
        compared_with="PyTorch 2.11.0 eager: alpha * x + y",
        device=DEVICE,
        checked_launches=7,
        transfer_us=900.0,
    )
    others = Pooled(event + tuple(one * 1.01 for one in event), baseline + baseline[:30], 2) if pooled else None
    roofline = Roofline(problem.work(problem.timing_sizes), precision_of(problem), peaks_of(DEVICE))
    timing = summarise(measurement, roofline, others)
    correctness = Correctness(
        passed=True,
        trials=trials,
        planned_trials=len(trials),
        verification="full",
        worst_error=0.25,
        plan_source="directives",
    )
    kernel = KernelResources(
        kernel="saxpy()", registers=16, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, shared_bytes=0,
        constant_bytes=380, barriers=0,
    )  # fmt: skip
    compilation = Compilation(
        succeeded=True, screening=Screening(), toolchain="nvcc 13.0.88", arch="sm_90a", kernels=(kernel,)
    )
    profile = Profile(warp_shuffles=False)
    facts = facts_of(
        status=Status.PASSED,
        compilation=compilation,
        correctness=correctness,
        timing=timing,
        profile=profile,
        settings=SETTINGS,
        measurable=measures_of("gpu", SETTINGS, Status.PASSED, profile),
    )
    made = receipt(
        problem=problem,
        settings=SETTINGS,
        plan=None,
        raw=SOURCE,
        compiled=None,
        device="NVIDIA H200 (GPU-1), driver 580.1",
        sandbox="bubblewrap",
        seed=seed,
        duration_s=2.5,
        phases_s={"verify": 1.0},
    ).model_copy(
        update={"toolchain": "nvcc 13.0.88", "arch": "sm_90a", "ptx_sha256": "a" * 64, "cubin_sha256": "b" * 64}
    )
    return Verdict(
        status=Status.PASSED,
        phase=Phase.TIME,
        message="Right.",
        hint=None,
        backend="gpu",
        problem="saxpy",
        compile=compilation,
        correctness=correctness,
        timing=timing,
        profile=profile,
        reward=reward(SETTINGS.reward, facts),
        receipt=made,
    )


def members(verdict=None, signer=SIGNER):
    """A signed verdict as its JSON, read, to be changed."""
    return json.loads(signed(verdict or unsigned(), signer).model_dump_json())


def signed_again(changed, signer):
    """What a forger makes of changed members: a whole verdict, signed by another key."""
    verdict = Verdict.model_validate_json(json.dumps(changed))
    return members(
        verdict.model_copy(update={"receipt": verdict.receipt.model_copy(update={"signature": None})}), signer
    )
