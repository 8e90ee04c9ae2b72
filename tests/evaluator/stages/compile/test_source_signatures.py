import subprocess
import time
from itertools import product

import pytest

from evaluator.stages.compile.kernel_entries import entries, entries_as_written
from evaluator.stages.compile.source_signatures import signatures
from evaluator.stages.compile.toolchain import find_toolchain

TYPES = (
    *("char", "signed char", "unsigned char", "short", "short int", "unsigned short", "int", "signed", "unsigned"),
    *("unsigned int", "long", "unsigned long", "long int", "long long", "unsigned long long"),
    *("long long unsigned int", "float", "double", "bool", "size_t", "int8_t", "uint8_t", "int32_t", "uint32_t"),
    *("int64_t", "uint64_t", "uint", "half", "__half", "__nv_bfloat16", "float2", "float3", "float4", "int4"),
    *("uint2", "uchar4", "double2", "short2"),
)
FORMS = (
    *("{} v", "const {} v", "{}* v", "const {}* v", "const {} * __restrict__ v", "{} const* const __restrict__ v"),
    *("{} *__restrict__ const v", "volatile {}* v", "{} const *v"),
)
HEAD = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cstdint>\n"
PLACES = """
// __global__ void not_this(one)
const char* text = "__global__ void nor_this(one) {";
#define BLOCK 128
namespace ns { namespace inner {
__global__ void __launch_bounds__(BLOCK * (1 + 1), 2) bounded(float* /* a, b */ x, int n)  // c
{ x[n] = 1; }
} }
namespace { __global__ void hidden(const float* x, float* y) { *y = *x; } }
extern "C" __global__ void
plain(float* __restrict__ out,
      const float* in) { *out = *in; }
static __global__ __launch_bounds__(64) void fixed(int* p) { *p = 1; }
__global__ void nothing() {}
__device__ float used(float x) { return x; }
"""


def compiled(source, folder):
    (folder / "kernel.cu").write_text(source)
    command = [find_toolchain().nvcc, "-ptx", "-G", "-std=c++17", "-arch=sm_90", "kernel.cu"]
    subprocess.run(command, cwd=folder, check=True)
    return (folder / "kernel.ptx").read_text()


def test_every_type_in_every_form_is_what_the_compiler_says(tmp_path):
    kernels = [
        f"__global__ void k{number}({form.format(type_)}, float* last) {{ last[0] = 1; }}\n"
        for number, (type_, form) in enumerate(product(TYPES, FORMS))
    ]
    source = HEAD + "".join(kernels)
    declared = signatures(source)
    assert len(declared) == len(kernels), "none of them is left to the compiler"
    ptx = compiled(source, tmp_path)
    assert entries_as_written(ptx, declared) == entries(ptx, ptx)


def test_kernels_anywhere_in_a_file_are_what_the_compiler_says(tmp_path):
    source = HEAD + PLACES
    ptx = compiled(source + "void host() { hidden<<<1, 1>>>(0, 0); fixed<<<1, 1>>>(0); }\n", tmp_path)
    written = entries_as_written(ptx, signatures(source))
    assert len(written) == 5
    assert written == entries(ptx, ptx)


def test_a_kernel_that_the_source_does_not_show_is_left_to_the_compiler(tmp_path):
    source = "#define K(name) __attribute__((global)) void name(int* p) { *p = 1; }\nK(other)\n"
    shown = "__global__ void shown(int* p) { *p = 1; }\n"
    ptx = compiled(source + shown, tmp_path)
    assert entries_as_written(ptx, signatures(source + shown)) is None


K = "__global__ void k(const float* x, int n) { }\n"


@pytest.mark.parametrize(
    "source",
    [
        "__device__ void f() {}\n",
        "template <int N>\n" + K + "template __global__ void k<4>(const float*, int);\n",
        "__global__ void k(const float* x, int n);\n" + K,
        K + K,
        "#if X\n" + K + "#else\n__global__ void k(int* y, float z) {}\n#endif\n",
        "#define float double\n" + K,
        "#define n m\n" + K,
        "#define k(x, n) l(x, n)\n" + K,
        "  #  define const\n" + K,
        "#define KERNEL __global__ void\nKERNEL k(float* x) {}\n",
        "#define D \\\nint\n" + K,
        "#line 7\n" + K,
        '# 7 "other.cu"\n' + K,
        "%:define float double\n" + K,
        "??=define float double\n" + K,
        "__global__ void k(float x[]) {}\n",
        "__global__ void k(float*) {}\n",
        "__global__ void k(float& x) {}\n",
        "__global__ void k(float** x) {}\n",
        "__global__ void k(float (*x)[4]) {}\n",
        "__global__ void k(const volatile float* x) {}\n",
        "__global__ void k(struct S s) {}\n",
        "__global__ void k(real* x) {}\n",
        "__global__ void k(float* x, ...) {}\n",
        "__global__ void k(float\n#define y z\n* x) {}\n",
        "__global__ auto k(float* x) -> void {}\n",
        'void k(float* x) asm("l"); __global__ void k(float* x) asm("l");\n',
        "using uint32_t = float;\n__global__ void k(uint32_t* x) {}\n",
        "typedef float half;\n__global__ void k(half* x) {}\n",
        "struct float4 { float x; };\n__global__ void k(float4* x) {}\n",
        "__global__ void k(unsigned float x) {}\n",
        "__global__ void k(long double x) {}\n",
        "__global__ void k(int int) {}\n",
        "__global__ void k(int *unsigned) {}\n",
    ],
)
def test_what_is_not_plain_is_left_to_the_compiler(source):
    assert signatures(source) is None


@pytest.mark.parametrize("parameters", [1, 10_000])
def test_many_words_are_looked_up_in_one_look(parameters):
    kernels = 20_000 // parameters
    listed = ", ".join(f"float4 a{number}" for number in range(parameters))
    source = "".join(f"__global__ void k{number}({listed}) {{}}\n" for number in range(kernels)) + "\n" * 500_000
    began_s = time.process_time()
    assert len(signatures(source)) == kernels
    assert time.process_time() - began_s < 5
    assert signatures(source + "#define a0 b\n") is None
