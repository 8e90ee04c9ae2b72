"""Programs that show a fault: they compile, their device half does the same on the simulator, and fixed it passes.

No test here runs one: that needs a GPU.
"""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from common.contract import Settings, Status, Submission
from common.launch_plan import Launch, LaunchPlan
from evaluator.errors import UsageError
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.reproduce import reproduce
from evaluator.problems.plain import SIMPLEST_FIRST, contents
from evaluator.problems.problem import Tensor
from evaluator.stages.verify import reproduction

INDEX = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
TAIL = (
    "__global__ void relu(const float* x, float* y, int n)\n{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n - 1) y[i] = fmaxf(x[i], 0.0f);\n}\n"
)
BEHIND = TAIL.replace("i < n - 1", "i <= n")
OWN_MAIN = f"{TAIL}\nint main() {{ relu<<<1, 256>>>(nullptr, nullptr, 0); return 0; }}\n"
OVERLOADS = (
    "// assay: launch relu(float const*, float*, int) grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)\n"
    f"{TAIL}\n__global__ void relu(const double* x, double* y, int n) {{ y[0] = x[0] * n; }}\n"
)
STEPS = (
    "// assay: temp sum float32 (1)\n// assay: temp kept float32 (1)\n// assay: fill sum value=1.5\n"
    "// assay: launch add<float> grid=(ceil_div(n, 256)) block=(256) shared=65536 args=(x, sum, n)\n"
    "// assay: copy sum kept\n// assay: copy kept total\n"
    "template <typename T> __global__ void add(const T* x, T* sum, unsigned long long n)\n"
    f"{{ {INDEX} if (i < n) atomicAdd(sum, x[i]); }}\n"
    "template __global__ void add<float>(const float*, float*, unsigned long long);\n"
)
HALVES = (
    "#include <cuda_fp16.h>\n// assay: launch mm grid=(m) block=(32) args=(a, b, c, m, n, k)\n"
    "__global__ void mm(const __half* a, const __half* b, __half* c, int m, int n, int k)\n"
    "{ for (int j = threadIdx.x; j < n; j += 32) c[blockIdx.x * n + j] = __float2half(1.0f); }\n"
)
FAULTS = {
    "tail": ("relu", TAIL),
    "behind": ("relu", BEHIND),
    "own main": ("relu", OWN_MAIN),
    "overloads": ("relu", OVERLOADS),
    "steps": ("reduce_sum", STEPS),
    "halves": ("matmul_f16", HALVES),
}


def program(toolbox, problem: str, source: str, plan: LaunchPlan | None = None):
    submission = Submission(
        problem=problem, source=source, plan=plan, settings=Settings(shrink_s=30, verification="quick")
    )
    verdict = evaluate(submission, toolbox)
    return verdict, reproduce(submission, source.encode(), verdict, toolbox)


@pytest.mark.parametrize("name", FAULTS)
def test_a_program_compiles_and_its_device_half_shows_the_same_on_the_simulator(name, toolbox, tmp_path):
    problem, source = FAULTS[name]
    verdict, text = program(toolbox, problem, source)
    assert source in text
    file = tmp_path / "repro.cu"
    file.write_text(text)
    toolchain = toolbox.toolchain
    command = [toolchain.nvcc, "-std=c++17", "-arch=sm_80", "-ccbin", toolchain.host_compiler]
    compiled = subprocess.run([*command, "-c", "-o", tmp_path / "repro.o", file], capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    assert "error" not in compiled.stderr
    assert (
        evaluate(Submission(problem=problem, source=text, settings=Settings(verification="quick")), toolbox).status
        == verdict.status
    )


def test_a_mended_program_passes(toolbox):
    _, text = program(toolbox, "relu", TAIL)
    assert evaluate(Submission(problem="relu", source=text.replace("n - 1)", "n)")), toolbox).status is Status.PASSED


def test_it_holds_the_one_input_the_launch_and_the_expected_answer(toolbox):
    _, text = program(toolbox, "relu", TAIL.replace("n - 1) y[i] = ", "n) y[i] = 1 + "))
    assert text.startswith("// problem: relu\n")
    assert "nvcc -std=c++17" in text
    assert "// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)" in text
    assert "static const float input_x[1] = {\n    0.0f,\n};" in text
    assert "static const double expected_y[1] = {\n    0.0,\n};" in text
    assert "relu<<<dim3(1, 1, 1), dim3(256, 1, 1)>>>(buffer_x, buffer_y, 1);" in text
    assert "buffer_y.check<float>(expected_y, allowed_y);" in text


def test_a_plan_of_its_own_becomes_directives(toolbox):
    plan = LaunchPlan(steps=(Launch(kernel="relu", grid=("ceil_div(n, 64)",), block=(64,), args=("x", "y", "n")),))
    verdict, text = program(toolbox, "relu", TAIL, plan)
    assert "// assay: launch relu grid=(ceil_div(n, 64)) block=(64) args=(x, y, n)" in text
    assert (
        evaluate(Submission(problem="relu", source=text, settings=Settings(verification="quick")), toolbox).status
        == verdict.status
    )


def test_a_race_is_tried_many_times(toolbox):
    source = Path(__file__).parents[3].joinpath("adversarial/race_without_barrier.cu").read_text()
    verdict, text = program(toolbox, "transpose", source)
    assert verdict.correctness.smallest.fault.kind == "race"
    assert "run < 100" in text
    assert "right this time" in text


def test_a_kernel_without_a_name_to_write_is_refused_in_words(toolbox):
    source = (
        "template <class F> __global__ void each(const float* x, float* y, int n, F f)\n"
        f"{{ {INDEX} if (i < n - 1) y[i] = f(x[i]); }}\n"
        "void host() { auto f = [] __device__(float v) { return fmaxf(v, 0.0f); };\n"
        "    each<<<1, 1>>>((const float*)0, (float*)0, 0, f); }\n"
    )
    submission = Submission(
        problem="relu",
        source=source,
        settings=Settings(shrink_s=30, verification="quick", flags=("--extended-lambda",)),
    )
    verdict = evaluate(submission, toolbox)
    if verdict.correctness is None:  # what cannot be launched here cannot be written either
        assert verdict.status is Status.INVALID_SUBMISSION
        return
    with pytest.raises(UsageError, match="no name"):
        reproduce(submission, source.encode(), verdict, toolbox)


def test_a_verdict_without_a_smallest_run_makes_no_program(toolbox):
    submission = Submission(problem="relu", source=TAIL.replace("n - 1", "n"))
    verdict = evaluate(submission, toolbox)
    with pytest.raises(UsageError, match="the kernel passed"):
        reproduce(submission, submission.source.encode(), verdict, toolbox)


def test_plain_contents_are_the_same_in_both_languages(toolbox, tmp_path):
    text = Path(reproduction.__file__).with_suffix(".cu").read_text()
    maker = re.search(r"template <typename T>\nstatic T repro_plain.*?\n}\n", text, re.DOTALL)[0]
    body = "for (int c = 0; c < 5; ++c) for (unsigned i = 0; i < 300; ++i)"
    file = tmp_path / "plain.cpp"
    file.write_text(
        f'#include <cstdio>\n{maker}int main() {{\n{body} printf("%.9g\\n", repro_plain<float>(c, i, true));\n'
        f'{body} printf("%d\\n", repro_plain<int>(c, i, false));\n}}\n'
    )
    subprocess.run([toolbox.toolchain.host_compiler, "-o", tmp_path / "plain", file], check=True)
    told = subprocess.run([tmp_path / "plain"], capture_output=True, text=True, check=True).stdout.split()
    expected = [
        contents(Tensor("x", ("n",), dtype), {"n": 300}, content)
        for dtype in (reproduction.DType.FLOAT32, reproduction.DType.INT32)
        for content in SIMPLEST_FIRST
    ]
    assert np.array_equal(np.array(told, np.float32), np.concatenate(expected).astype(np.float32))
