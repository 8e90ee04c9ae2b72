"""`--arch`: a right kernel is graded for every architecture that a supported nvcc compiles for."""

import dataclasses
import hashlib
import re
from functools import cached_property
from typing import Any

import pytest

from common.contract import Settings, Status, Submission, Verdict
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.sandbox.sandbox import Job, JobResult, Sandbox
from evaluator.stages.compile.toolchain import Toolchain, find_toolchain

OLDEST_HERE = "sm_75"
# What `nvcc --list-gpu-code` says from release to release. 12.4 to 12.7 agree; 12.8 added the first of Blackwell;
# 13.0 dropped all before Turing and renamed sm_101 to sm_110. A machine may have any of them (toolchain.OLDEST).
_TO_HOPPER = "sm_50 sm_52 sm_53 sm_60 sm_61 sm_62 sm_70 sm_72 sm_75 sm_80 sm_86 sm_87 sm_89 sm_90"
NVCC_ARCHITECTURES = {
    "12.4": _TO_HOPPER,
    "12.8": f"{_TO_HOPPER} sm_100 sm_101 sm_120",
    "12.9": f"{_TO_HOPPER} sm_100 sm_101 sm_103 sm_120 sm_121",
    "13.0": "sm_75 sm_80 sm_86 sm_87 sm_88 sm_89 sm_90 sm_100 sm_103 sm_110 sm_120 sm_121",
}
ARCHITECTURES = sorted(set(" ".join(NVCC_ARCHITECTURES.values()).split()), key=lambda arch: int(arch[3:]))
SHARED_SUM = """
__global__ void reduce_sum(const float* x, float* total, int n) {
    __shared__ float part[256];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256) sum += x[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) total[0] = part[0];
}
// assay: launch reduce_sum grid=(1) block=(256) args=(x, total, n)
"""


class OtherRelease:
    """Runs this machine's compilers as those of another release, which know `arch`: what they are asked for it, they
    make for `OLDEST_HERE`, and say `arch`."""

    def __init__(self, inner: Sandbox, arch: str) -> None:
        self.inner, self.arch = inner, arch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def run(self, job: Job) -> JobResult:
        asked = f"-arch={self.arch}"
        if asked not in job.argv:
            return self.inner.run(job)
        argv = tuple(f"-arch={OLDEST_HERE}" if word == asked else word for word in job.argv)
        files = {name: self._said(text, self.arch, OLDEST_HERE) for name, text in job.files.items()}
        result = self.inner.run(dataclasses.replace(job, argv=argv, files=files))
        made = {name: self._said(text, OLDEST_HERE, self.arch) for name, text in result.files.items()}
        return dataclasses.replace(result, files=made)

    @staticmethod
    def _said(text: bytes, old: str, new: str) -> bytes:
        return re.sub(rb"^\.target %s\b" % old.encode(), b".target %s" % new.encode(), text, flags=re.MULTILINE)


class OtherToolbox(Toolbox):
    """This machine's tools, with a compiler that knows `arch` as well."""

    def __init__(self, whole: Toolbox, arch: str) -> None:
        super().__init__(whole.settings)
        self.whole, self.arch = whole, arch

    @cached_property
    def toolchain(self) -> Toolchain:
        found = self.whole.toolchain
        digest = hashlib.sha256(f"{found.digest} {self.arch}".encode()).hexdigest()
        return dataclasses.replace(found, architectures=(*found.architectures, self.arch), digest=digest)

    @cached_property
    def sandbox(self) -> Sandbox:
        return OtherRelease(self.whole.sandbox, self.arch)


def graded_for(arch: str, toolbox: Toolbox) -> Verdict:
    """The verdict on a right kernel, by a compiler that knows `arch`."""
    if arch not in toolbox.toolchain.architectures:
        toolbox = OtherToolbox(toolbox, arch)
    settings = Settings(arch=arch, run_timeout_s=20, verification="quick")
    return evaluate(Submission(problem="reduce_sum", source=SHARED_SUM, backend="sim", settings=settings), toolbox)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_right_kernel_passes_for_every_architecture_of_a_supported_compiler(arch, toolbox):
    verdict = graded_for(arch, toolbox)
    assert verdict.status is Status.PASSED, verdict.message
    assert verdict.compile.arch == arch
    assert verdict.profile.occupancy[0].active_warps > 0


def test_what_this_compiler_knows_is_in_the_list():
    """A release that knows more needs a line in `NVCC_ARCHITECTURES`, and limits."""
    assert set(find_toolchain().architectures) <= set(ARCHITECTURES)


def test_an_architecture_whose_limits_nobody_knows_is_refused_by_name(toolbox):
    verdict = graded_for("sm_999", toolbox)
    assert verdict.status is Status.INVALID_SUBMISSION
    assert "sm_999" in verdict.message


def test_one_that_the_compiler_does_not_know_is_refused_by_name(toolbox):
    settings = Settings(arch="sm_20")
    verdict = evaluate(Submission(problem="reduce_sum", source=SHARED_SUM, backend="sim", settings=settings), toolbox)
    assert verdict.status is Status.INVALID_SUBMISSION
    assert "sm_20" in verdict.message
