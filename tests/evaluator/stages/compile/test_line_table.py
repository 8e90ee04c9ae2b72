"""Machine code with its lines, from the real assembler."""

import io

import pytest
from elftools.elf.elffile import ELFFile

from common.contract import Settings
from evaluator.stages.compile.line_table import with_lines
from evaluator.stages.compile.nvcc import compile_source

SOURCE = """__device__ float positive(float value)
{
    return fmaxf(value, 0.0f);
}
__global__ void relu(const float* x, float* y, int n)
{
    __shared__ float tile[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) tile[threadIdx.x] = x[i];
    __syncthreads();
    if (i < n) y[i] = positive(tile[threadIdx.x]);
}
"""


def sections(cubin):
    return {section.name: section.data() for section in ELFFile(io.BytesIO(cubin)).iter_sections()}


@pytest.mark.parametrize("flags", [(), ("-maxrregcount=32",)])
def test_the_code_is_the_same_and_its_lines_are_the_sources(toolbox, flags):
    compiled = compile_source(SOURCE, Settings(flags=flags), "sm_90a", toolbox.toolchain, toolbox.sandbox, None)
    plain = sections(compiled.program.cubin)
    lined = sections(with_lines(compiled.program, compiled.flags, toolbox.toolchain, toolbox.sandbox))
    code = [name for name in plain if name.startswith(".text.")]
    assert code, plain.keys()
    assert all(plain[name] == lined[name] for name in code)
    assert b"kernel.cu" in lined[".debug_line"]
    assert ".debug_line" not in plain
