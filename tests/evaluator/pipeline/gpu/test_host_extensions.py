"""An extension of PyTorch's through the host tier, on the processor; and CUDA as far as its object file."""

import contextlib
import re
import struct
import subprocess
import sys
import tempfile
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


def sections(elf):
    start, size, many, names = *struct.unpack_from("<Q", elf, 0x28), *struct.unpack_from("<HHH", elf, 0x3A)
    found = [struct.unpack_from("<IIQQQQ", elf, start + at * size) for at in range(many)]
    texts = found[names][4]
    return {elf[texts + one[0] : elf.index(0, texts + one[0])]: elf[one[4] : one[4] + one[5]] for one in found}


def device_code(made, kernel):
    return sections(made[made.index(b"\x7fELF", 64) :])[b".text." + kernel]


def host_code(made, function):
    """The instructions of one function, with the names that they refer to, without where they are."""
    with tempfile.NamedTemporaryFile(suffix=".o") as file:
        Path(file.name).write_bytes(made)
        command = ["objdump", "-dr", "--no-show-raw-insn", f"--disassemble={function}", file.name]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line.partition(":")[2].split("#")[0].strip() for line in told.splitlines() if "\t" in line]
    without = [re.sub(r"\.\w+[+-]0x\w+|\b[0-9a-f]+ (?=<)|[+-]0x[0-9a-f]+(?=>)", "", line) for line in lines]
    return [line for line in without if line != "nop"]


def test_what_nvcc_reads_in_outline_is_the_code_that_it_makes_of_pytorchs_headers(tools):
    text = ExtensionText("twice", ("torch::Tensor forward(torch::Tensor x);",), (KERNEL,), ("forward",))

    def build():
        return ExtensionBuild(text, Settings(), "sm_90", find_torch(), tools.toolchain, tools.sandbox, tools.cache)

    plain, quick = build(), build()
    from_headers = plain.compiled("cuda.cu")
    quick.prepare()
    outlined = quick.compiled("cuda.cu")
    quick.compiled("main.cpp")
    assert plain.ways == {"cuda.cu": "narrow"}
    assert (quick.ways, quick.detours) == ({"cuda.cu": "outline", "main.cpp": "prepared"}, [])
    function = "_Z7forwardN2at6TensorE"
    assert host_code(outlined, function) == host_code(from_headers, function)
    assert len(host_code(outlined, function)) > 8
    assert device_code(outlined, b"_Z5twicePKfPfi") == device_code(from_headers, b"_Z5twicePKfPfi")
