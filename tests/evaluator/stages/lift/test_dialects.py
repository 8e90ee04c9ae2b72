import pytest

from evaluator.stages.lift.dialects import called_libraries, entry_function, in_host_words, is_solve

KERNEL = "__global__ void k(float* x, int n) { x[0] = n; }\n"
SOLVE = 'extern "C" void solve(float* x, int n) { k<<<1, 1>>>(x, n); }\n'


@pytest.mark.parametrize(
    ("source", "is_one"),
    [
        (KERNEL + SOLVE, True),
        (KERNEL + SOLVE.replace("solve", "solution"), True),
        (
            KERNEL + 'extern "C" {\nvoid solve(\n    float* x, // the data\n    int n)\n{ k<<<1, 1>>>(x, n); }\n}',
            True,
        ),
        (KERNEL + SOLVE.replace("k<<<1, 1>>>(x, n);", "cudaLaunchKernel((void*)k, 1, 1, 0, 0, 0);"), True),
        (KERNEL, False),
        (KERNEL + 'extern "C" void solve(float* x, int n);\n', False),
        (KERNEL + "// " + SOLVE, False),
        (KERNEL + f'const char* text = R"({SOLVE})";\n', False),
        (KERNEL + 'extern "C" void solve(float* x, int n) {}\n', True),
        (KERNEL + 'extern "C" __global__ void solve(float* x, int n) {}\n', False),
        ("// assay: launch k grid=(1) block=(1) args=(x, n)\n" + KERNEL + SOLVE, False),
        (KERNEL + "int main() { k<<<1, 1>>>(nullptr, 0); }\nvoid resolve(int n) {}\n", False),
    ],
    ids=[
        "solve",
        "solution",
        "lines",
        "by address",
        "kernel",
        "declared",
        "comment",
        "text",
        "empty",
        "a kernel of that name",
        "plan",
        "main",
    ],
)
def test_a_text_is_recognised_by_its_entry_function(source, is_one):
    assert is_solve(source) is is_one


def test_the_names_of_parameters_are_read_where_there_are_some():
    found = entry_function(f"{KERNEL}void solution(const float* __restrict__ a, float b[], size_t, int n = 3) {{ }}")
    assert (found.name, found.parameter_names, found.line) == ("solution", ("a", "b", None, "n"), 2)
    assert entry_function("void solve() {}").parameter_names == ()
    assert entry_function(KERNEL) is None


def test_of_several_functions_of_the_name_the_one_for_c_is_called():
    other = "template <typename T> void solve(T* x, size_t count, int) { }\n"
    found = entry_function(f"{KERNEL}{other}{SOLVE}")
    assert (found.parameter_names, found.line, found.overloaded) == (("x", "n"), 3, "float* x, int n")
    assert entry_function(f"namespace mine {{\n{SOLVE}}}\n").overloaded == "float* x, int n"
    assert not entry_function(f"namespace mine {{ int k; }}\n{SOLVE}").overloaded


@pytest.mark.parametrize(
    ("source", "libraries"),
    [
        ("#include <cublas_v2.h>\n", ("cuBLAS",)),
        ("#include <thrust/sort.h>\n#include <cudnn.h>\n", ("cuDNN", "Thrust")),
        ("#include <cub/cub.cuh>\nvoid f() { cub::DeviceScan::InclusiveSum(0); }\n", ("CUB",)),
        ("#include <cub/cub.cuh>\n__device__ void f() { using Reduce = cub::BlockReduce<float, 32>; }\n", ()),
        ("#include <thrust/complex.h>\n#include <cuda_runtime.h>\n", ()),
        ("// #include <cublas_v2.h>\n", ()),
    ],
)
def test_libraries_that_would_do_the_work_are_named(source, libraries):
    assert called_libraries(source) == libraries


def test_hints_speak_of_what_host_code_does():
    said = "add `// assay: fill total value=0` before it, or `// assay: temp a float32 (n)`"
    assert in_host_words(said) == "add `cudaMemset(total, 0, bytes)` before it, or `cudaMalloc`"
    assert in_host_words("Use ceil_div.") == "Use ceil_div."
