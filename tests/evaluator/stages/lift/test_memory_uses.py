"""What kernels may read and write, by PTX that nvcc made of them."""

import subprocess

import pytest

from evaluator.stages.compile.toolchain import find_toolchain
from evaluator.stages.lift.memory_uses import ANYWHERE, MemoryUses

SOURCE = """
__device__ float total, seen; __constant__ float table[8]; __device__ float unused[4];
struct Tensors { const float* x; int n; float* y; float* scale; };
struct Several { float* p[4]; };
__device__ __noinline__ void put(float* p, int i) { p[i] = i; seen = 1; }
extern "C" {
__global__ void fields(Tensors t) {
    int i = threadIdx.x;
    if (i < t.n) t.y[i] = t.x[i] * table[i & 7] + t.scale[i];
}
__global__ void chosen(const float* x, float* y, float* z, int n) {
    atomicAdd(&total, x[threadIdx.x]);
    (n > 3 ? y : z)[n] = 1;
}
__global__ void passed_on(float* a, float* b, float* c, int n) { if (n) put(a, n); b[0] = total + c[0]; }
__global__ void loaded(float* const* pointers, float* b) { pointers[threadIdx.x][0] = b[0]; }
__global__ void by_index(Several several, float* b) { several.p[threadIdx.x][0] = b[0]; }
__global__ void through_shared(float* a, float* b) {
    __shared__ float* kept[32];
    kept[threadIdx.x] = a;
    __syncthreads();
    kept[threadIdx.x ^ 1][1] = b[0];
}
}
"""


@pytest.fixture(scope="module")
def uses(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    (folder / "kernel.cu").write_text(SOURCE)
    command = [find_toolchain().nvcc, "-ptx", "-lineinfo", "-arch=sm_80", "kernel.cu"]
    subprocess.run(command, cwd=folder, check=True)
    return MemoryUses((folder / "kernel.ptx").read_text())


@pytest.mark.parametrize(
    ("kernel", "written", "kept", "variables", "changed"),
    [
        ("fields", [(0, 16)], [(0, 0), (0, 24)], {"table"}, set()),
        ("chosen", [(1, 0), (2, 0)], [(0, 0)], {"total"}, {"total"}),
        ("passed_on", [(0, 0), (1, 0)], [(2, 0)], {"total", "seen"}, {"seen"}),
        ("loaded", [(0, 0), (1, 0)], [], set(), set()),
        ("by_index", [(0, 0), (0, 24)], [(1, 0)], set(), set()),
        ("through_shared", [(0, 0)], [(1, 0)], set(), set()),
        ("not_there", [], [(0, 0)], set(), set()),
    ],
)
def test_what_a_kernel_writes_is_found(uses, kernel, written, kept, variables, changed):
    found = uses.of(kernel)
    assert all(found.may_write(*one) for one in written)
    assert not any(found.may_write(*one) for one in kept)
    assert (found.variables, found.written_variables) == (variables, changed)
    assert (ANYWHERE in found.writes) == (kernel == "loaded")
