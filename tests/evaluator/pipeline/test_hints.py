"""Beginners' mistakes, and the words for them: message and hint must name what is wrong, not what it looks like."""

import re

import pytest

from common.contract import Phase, Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate

SUM = "for (int i = blockIdx.x * 32 + threadIdx.x; i < n; i += gridDim.x * 32) s += x[i];"
# What is wrong: (problem, source, words of the message, words of the hint)
MISTAKES = {
    "an output that is accumulated into and never set": (
        "reduce_sum",
        "// assay: launch k grid=(8) block=(32) args=(x, total, n)\n"
        f"__global__ void k(const float* x, float* total, int n) {{ float s = 0; {SUM} atomicAdd(total, s); }}",
        "total[0] was read or accumulated into, but never set before",
        "add `// assay: fill total value=0`",
    ),
    "a temporary that is accumulated into and never set": (
        "reduce_sum",
        "// assay: temp acc float32 (1)\n// assay: launch k grid=(8) block=(32) args=(x, acc, n)\n"
        "// assay: copy acc total\n"
        f"__global__ void k(const float* x, float* acc, int n) {{ float s = 0; {SUM} atomicAdd(acc, s); }}",
        "total[0] was computed from acc[0], which nobody had written",
        "add `// assay: fill acc value=0`",
    ),
    "launches in the wrong order": (
        "reduce_sum",
        "// assay: temp part float32 (256)\n// assay: launch b grid=(1) block=(1) args=(part, total)\n"
        "// assay: launch a grid=(8) block=(32) args=(x, part, n)\n"
        f"__global__ void a(const float* x, float* part, int n) {{ float s = 0; {SUM}\n"
        "  part[blockIdx.x * 32 + threadIdx.x] = s; }\n"
        "__global__ void b(const float* part, float* total) { float s = 0;\n"
        "  for (int i = 0; i < 256; i++) s += part[i]; *total = s; }",
        "total[0] was computed from part[",
        "The launch of a takes part too, and comes later",
    ),
    "two arguments exchanged": (
        "saxpy",
        "// assay: launch k grid=(ceil_div(n, 256)) block=(256) args=(y, x, out, alpha, n)\n"
        "__global__ void k(const float* x, const float* y, float* out, float alpha, int n) {\n"
        "  int i = blockIdx.x * 256 + threadIdx.x; if (i < n) out[i] = alpha * x[i] + y[i]; }",
        "out[",
        "the parameter x gets y, and y gets x",
    ),
    "input and output exchanged": (
        "relu",
        "// assay: launch k grid=(ceil_div(n, 256)) block=(256) args=(y, x, n)\n"
        "__global__ void k(const float* x, float* y, int n) {\n"
        "  int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = fmaxf(x[i], 0.f); }",
        "The input x was changed",
        "the parameter x gets y, and y gets x",
    ),
    "input and output exchanged, with names of the kernel's own": (
        "relu",
        "// assay: launch k grid=(ceil_div(n, 256)) block=(256) args=(y, x, n)\n"
        "__global__ void k(const float* from, float* to, int n) {\n"
        "  int i = blockIdx.x * 256 + threadIdx.x; if (i < n) to[i] = fmaxf(from[i], 0.f); }",
        "The input x was changed",
        "the input x goes to `float* to` (argument 2), and the output y to `const float* from` (argument 1)",
    ),
    "output before input, without a plan": (
        "relu",
        "__global__ void k(float* to, const float* from, int count) {\n"
        "  int i = blockIdx.x * 256 + threadIdx.x; if (i < count) to[i] = fmaxf(from[i], 0.f); }",
        "`const float* from` would be the output 'y' of relu",
        "// assay: launch k grid=(ceil_div(n, 256)) block=(256) args=(y, x, n)",
    ),
    "two dimensions, and none in the launch": (
        "transpose",
        "__global__ void k(const float* in, float* out, int rows, int cols) {\n"
        "  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;\n"
        "  if (r < rows && c < cols) out[c * rows + r] = in[r * cols + c]; }",
        "none of them was ever written",
        "grid=(ceil_div(rows, 16), ceil_div(cols, 16)) block=(16, 16) args=(x, y, rows, cols)",
    ),
    "an input that is written to": (
        "relu",
        "__global__ void k(float* a, float* b, int count) {\n"
        "  int i = blockIdx.x * 256 + threadIdx.x; if (i < count) b[i] = a[i] = fmaxf(a[i], 0.f); }",
        "The input x was changed",
        "step 1 (launch k) gives x to `float* a` (argument 1)",
    ),
    "a variable that is never set": (
        "row_sum",
        "__global__ void k(const float* x, float* y, int rows, int cols) {\n"
        "  int r = blockIdx.x * 256 + threadIdx.x; float sum;\n"
        "  if (r < rows) { for (int j = 0; j < cols; j++)\n"
        "    sum += x[r * cols + j];\n"
        "    y[r] = sum; } }",
        "reads a variable that may not have been set, on line 4",
        "`sum` has no value where it is declared, on line 2",
    ),
    "grid.sync() in an ordinary launch": (
        "relu",
        "// assay: launch k grid=(4) block=(32) args=(x, y, n)\n#include <cooperative_groups.h>\n"
        "__global__ void k(const float* x, float* y, int n) { cooperative_groups::this_grid().sync();\n"
        "  for (int i = blockIdx.x * 32 + threadIdx.x; i < n; i += 128) y[i] = fmaxf(x[i], 0.f); }",
        "called `grid.sync()` in a launch that is not cooperative",
        "Add `cooperative` to the launch",
    ),
    "a shared array that is too small for the block": (
        "relu",
        "// assay: launch k grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)\n"
        "__global__ void k(const float* x, float* y, int n) { __shared__ float s[128];\n"
        "  int i = blockIdx.x * 256 + threadIdx.x; s[threadIdx.x] = i < n ? x[i] : 0.f; __syncthreads();\n"
        "  if (i < n) y[i] = fmaxf(s[threadIdx.x], 0.f); }",
        "wrote s[128], one past the end",
        "make s as large as the largest index",
    ),
    "a temporary that is too small": (
        "relu",
        "// assay: temp t float32 (100)\n// assay: launch k grid=(ceil_div(n, 256)) block=(256) args=(x, y, t, n)\n"
        "__global__ void k(const float* x, float* y, float* t, int n) {\n"
        "  int i = blockIdx.x * 256 + threadIdx.x; if (i < n) { t[i] = x[i]; y[i] = fmaxf(t[i], 0.f); } }",
        "wrote t[1",
        "Make the temporary t as large",
    ),
    "shared memory that nobody wrote": (
        "relu",
        "// assay: launch k grid=(ceil_div(n, 128)) block=(128) args=(x, y, n)\n"
        "__global__ void k(const float* x, float* y, int n) { __shared__ float s[129];\n"
        "  int i = blockIdx.x * 128 + threadIdx.x; if (i < n) s[threadIdx.x] = fmaxf(x[i], 0.f); __syncthreads();\n"
        "  if (i < n) y[i] = s[threadIdx.x + 1]; }",
        "reads s[128] on line 4, which was never written",
        "Write it first, for every index that is read",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_beginners_mistake_is_named(name, toolbox):
    problem, source, message, hint = MISTAKES[name]
    verdict = evaluate(
        Submission(problem=problem, source=source, backend="sim", settings=Settings(verification="quick")), toolbox
    )
    named_before_it_runs = ("invalid_submission",) if "without a plan" in name else ()
    wrong = ("incorrect", "runtime_error", "rejected", *named_before_it_runs)
    assert verdict.status.value in wrong, verdict.message
    assert message in verdict.message
    assert hint in (verdict.hint or ""), verdict.hint
    assert "shared memory[" not in verdict.message


BODY = "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < count) "
TILE_OF_A_ROW = (
    "{ __shared__ float s; float sum = 0; for (int j = 0; j < N; j++) sum += in[blockIdx.x * N + j];\n"
    "  if (threadIdx.x == 0) s = sum; __syncthreads(); if (threadIdx.x == 0) out[blockIdx.x] = s; }"
)
# Right kernels that lack a line, or have one too few: (problem, source). The hint has the line.
WITHOUT_A_LINE = {
    "the size first": (
        "vector_add",
        f"__global__ void k(int count, float* x, float* y, float* z) {BODY} z[i] = x[i] + y[i]; }}",
    ),
    "size and scalar first": (
        "saxpy",
        "__global__ void k(int count, float a, const float* x, const float* y, float* z) "
        f"{BODY} z[i] = a * x[i] + y[i]; }}",
    ),
    "one number of all elements": (
        "swiglu",
        "__global__ void k(const float* g, const float* u, float* out, int count) "
        f"{BODY} out[i] = g[i] / (1 + expf(-g[i])) * u[i]; }}",
    ),
    "sizes in another order, by name": (
        "matvec",
        "__global__ void k(float* out, const float* mat, const float* vec, int K, int M) {\n"
        "  int r = blockIdx.x * blockDim.x + threadIdx.x; if (r >= M) return; float s = 0;\n"
        "  for (int j = 0; j < K; j++) s += mat[(size_t)r * K + j] * vec[j]; out[r] = s; }",
    ),
    "sizes by name, and bound by order": (
        "linear_gelu",
        "__global__ void k(const float* in, const float* w, const float* b, float* out, int M, int K, int N) {\n"
        "  int i = blockIdx.x * blockDim.x + threadIdx.x, c = i % N; if (i >= M * N) return; float s = b[c];\n"
        "  for (int j = 0; j < K; j++) s += in[i / N * K + j] * w[c * K + j];\n"
        "  out[i] = 0.5f * s * (1 + erff(s * 0.70710678f)); }",
    ),
    "dynamic shared memory": (
        "row_sum",
        "__global__ void k(const float* in, float* out, int M, int N) {\n"
        "  extern __shared__ float s[]; float sum = 0;\n"
        "  for (int j = threadIdx.x; j < N; j += blockDim.x) sum += in[(size_t)blockIdx.x * N + j];\n"
        "  s[threadIdx.x] = sum; __syncthreads(); if (threadIdx.x) return; sum = 0;\n"
        "  for (int j = 0; j < blockDim.x; j++) sum += s[j]; out[blockIdx.x] = sum; }",
    ),
    "a tile of two dimensions": (
        "transpose",
        "#define TILE 32\n__global__ void k(const float* in, float* out, int rows, int cols) {\n"
        "  __shared__ float t[TILE][TILE + 1]; int c = blockIdx.y * TILE, r = blockIdx.x * TILE;\n"
        "  if (r + threadIdx.y < rows && c + threadIdx.x < cols) t[threadIdx.y][threadIdx.x] ="
        " in[(r + threadIdx.y) * cols + c + threadIdx.x];\n"
        "  __syncthreads(); c += threadIdx.y; r += threadIdx.x;\n"
        "  if (r < rows && c < cols) out[c * rows + r] = t[threadIdx.x][threadIdx.y]; }",
    ),
    "a block for each row": (
        "row_sum",
        f"__global__ void k(const float* in, float* out, int M, int N) {TILE_OF_A_ROW}",
    ),
    "a template": (
        "relu",
        "template <typename T, int BLOCK = 256> __global__ void __launch_bounds__(BLOCK)\n"
        "k(const T* x, T* y, int n)\n"
        "{ int i = blockIdx.x * BLOCK + threadIdx.x; if (i < n) y[i] = x[i] > T(0) ? x[i] : T(0); }",
    ),
    "a template that a line launches": (
        "relu",
        "// assay: launch k<float, 128> grid=(ceil_div(n, 128)) block=(128) args=(x, y, n)\n"
        "__global__ void other() {}\ntemplate <class T, int BLOCK> __global__ void k(const T* x, T* y, size_t n)\n"
        "{ size_t i = blockIdx.x * BLOCK + threadIdx.x; if (i < n) y[i] = x[i] > T(0) ? x[i] : T(0); }",
    ),
}


@pytest.mark.parametrize("name", WITHOUT_A_LINE)
def test_the_line_that_a_hint_suggests_works(name, toolbox):
    problem, source = WITHOUT_A_LINE[name]
    settings = Settings(verification="quick", estimate_for=None)
    verdict = evaluate(Submission(problem=problem, source=source, backend="sim", settings=settings), toolbox)
    assert verdict.status is not Status.PASSED
    lines = re.findall(r"^// assay: .*|(?<=`)template .*;(?=`)", verdict.hint or "", re.MULTILINE)
    assert len(lines) == 1, verdict.hint
    with_it = Submission(problem=problem, source=f"{source}\n{lines[0]}\n", backend="sim", settings=settings)
    verdict = evaluate(with_it, toolbox)
    assert verdict.status is Status.PASSED, f"{verdict.message}\n{verdict.hint}"


def test_host_code_that_was_not_called_is_named(toolbox):
    kernel = "__global__ void k(const float* x, float* y, int n) { int i = blockIdx.x * 256 + threadIdx.x;\n"
    kernel += "  if (i < n) y[i] = fmaxf(x[i], 0.0f); }\n"
    host = "void launch(const float* x, float* y, int n) { k<<<n / 256, 256>>>(x, y, n); }\n"
    quick = Settings(verification="quick", estimate_for=None)
    for source, said in ((kernel + host, 1), (kernel, 0)):
        submission = Submission(problem="relu", source=source, backend="sim", settings=quick)
        verdict = evaluate(submission, toolbox)
        assert verdict.status is Status.PASSED
        assert sum("its launch in line 3 was not used" in one for one in verdict.correctness.warnings) == said


@pytest.mark.parametrize("dialect", ["kernelbench", "triton"])
def test_python_that_does_not_parse_is_a_compile_error_in_every_dialect(dialect, toolbox):
    kernel = "@triton.jit\ndef k(x)\n    pass\n\n\ndef run(x, y):\n    pass\n"
    model = "\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x)\n        return x\n"
    source = "import torch" + model if dialect == "kernelbench" else "import triton\n\n\n\n" + kernel
    line = 4 if dialect == "kernelbench" else 6
    verdict = evaluate(Submission(problem="relu", source=source, backend="sim"), toolbox)
    assert (verdict.status, verdict.phase) == (Status.COMPILE_ERROR, Phase.COMPILE)
    assert verdict.compile.dialect == dialect
    assert verdict.message == f"kernel.py:{line}: expected ':'"
    assert [(one.line, one.text) for one in verdict.compile.diagnostics] == [(line, "expected ':'")]
    assert "colon" in verdict.hint


CUDA = "// a kernel\n\n__global__ void relu(const float* x, float* y, int n) { y[0] = x[0]; }\n"
SOLUTION = (
    'import torch\n\nCUDA = """\n#include <torch/extension.h>\n__global__ void k(float* x) {}\n"""\n\n\n'
    "class ModelNew(torch.nn.Module):\n    pass\n"
)


@pytest.mark.parametrize(
    ("source", "named", "status", "message", "hint"),
    [
        (SOLUTION, "solve", "invalid_submission", "The source is Python", "--dialect kernelbench"),
        (SOLUTION, "torch-extension", "invalid_submission", "The source is Python", "--dialect kernelbench"),
        ("import triton\n\n@triton.jit\ndef k(x):\n    pass\n", "solve", "invalid_submission", "Python", "triton"),
        (CUDA, "triton", "compile_error", "kernel.py:3: `__global__` is CUDA C++", "--dialect cuda"),
        (CUDA, "kernelbench", "compile_error", "kernel.py:3: `__global__` is CUDA C++", "--dialect cuda"),
        (
            "import triton\n\ndef run(x, y:\n    pass\n",
            "triton",
            "compile_error",
            "kernel.py:3: '(' was never",
            "bracket",
        ),
        ("Roses are red\nViolets are blue\n", None, "compile_error", "kernel.cu:1", "There is no `__global__`"),
        (SOLUTION.replace("New", "Fast"), None, "invalid_submission", "ModelFast in line 9", "`ModelNew`"),
        (SOLUTION, "cuda", "invalid_submission", "the dialect cuda is CUDA C++", "--dialect kernelbench"),
        (
            "from numba import cuda\n\n@cuda.jit\ndef k(x):\n    pass\n",
            None,
            "invalid_submission",
            "Python",
            "`ModelNew`",
        ),
    ],
    ids=[
        "solve",
        "torch-extension",
        "triton as solve",
        "CUDA as triton",
        "CUDA as kernelbench",
        "a bracket",
        "a poem",
        "another class",
        "a solution as CUDA",
        "numba",
    ],
)
def test_a_text_in_another_language_is_called_so(source, named, status, message, hint, toolbox):
    verdict = evaluate(Submission(problem="relu", source=source, dialect=named, backend="sim"), toolbox)
    assert verdict.status == status
    assert message in verdict.message
    assert hint in verdict.hint
