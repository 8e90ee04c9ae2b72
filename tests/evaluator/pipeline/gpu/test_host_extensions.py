"""An extension of PyTorch's through the host tier, on the processor; and CUDA as far as its object file."""

import contextlib
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from host_tier import host_toolbox

from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate
from evaluator.stages.host.extension_build import ExtensionBuild, ExtensionText
from evaluator.stages.host.torch_package import find_torch

SOURCE = """#include <torch/extension.h>
torch::Tensor forward(torch::Tensor x) { return torch::clamp_min(x, 0); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "relu"); }
"""
KERNEL = """
__global__ void twice(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
torch::Tensor forward(torch::Tensor x) {
    TORCH_CHECK(x.is_contiguous(), "x has strides");
    auto y = torch::empty_like(x);
    twice<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}
"""


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    made = host_toolbox(tmp_path_factory.mktemp("host"))
    with contextlib.closing(made.gpu.runtime):
        yield made


def graded(tools, source):
    settings = Settings(host_tier="always", verification="quick", timing=False, estimate_for=None)
    submission = Submission(problem="relu", source=source, dialect="torch-extension", settings=settings)
    return evaluate(submission, tools)


def test_an_extension_is_built_and_called(tools):
    verdict = graded(tools, SOURCE)
    assert verdict.status is Status.PASSED
    assert verdict.compile.tier == "host"
    assert "forward(x)" in verdict.compile.host.entry


def test_an_extension_that_does_not_compile_is_the_submissions_own_fault(tools):
    verdict = graded(tools, SOURCE.replace(", 0);", ", 0)"))
    assert verdict.status is Status.COMPILE_ERROR
    assert re.search(r"does not compile: expected .*;.* \(in `torch::Tensor forward", verdict.message)


def test_cuda_is_compiled_against_pytorchs_headers_with_the_lines_of_load_inline(tools):
    text = ExtensionText("twice", ("torch::Tensor forward(torch::Tensor x);",), (KERNEL,), ("forward",))
    settings = Settings(compile_timeout_s=30)
    build = ExtensionBuild(text, settings, "sm_90", find_torch(), tools.toolchain, tools.sandbox, tools.cache)
    made = build.compiled("cuda.cu")
    assert made.startswith(b"\x7fELF")
    assert b"twice" in made
