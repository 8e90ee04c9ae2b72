"""Problems of others on a GPU: right and wrong kernels for files and expressions, and the baselines beside them."""

from pathlib import Path

import pytest

from benchmarks.gpu.foreign_problems import FOLDER, expected_of
from common.contract import Settings, Status, Submission
from evaluator.foreign.baselines import BASELINES
from evaluator.foreign.loading import foreign_problem
from evaluator.foreign.torch_text import kernelbench_text, shapes_of
from evaluator.pipeline.pipeline import evaluate

KERNELS = sorted(FOLDER.glob("*.cu"))
ADD = """__global__ void add(const float* a, const float* b, float* out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + %s;
}"""


def graded(toolbox, text, name, source, **settings):
    with foreign_problem(text, name, toolbox.sandbox, toolbox.cache, backend="gpu") as problem:
        asked = Submission(problem=problem.id, source=source, backend="gpu", settings=Settings(**settings))
        return evaluate(asked, toolbox, problem=problem)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.stem)
def test_a_kernel_ends_as_it_says(kernel: Path, gpu_toolbox):
    source, name = kernel.read_text(), f"{kernel.name.partition('.')[0]}.py"
    verdict = graded(gpu_toolbox, (FOLDER / name).read_bytes(), name, source)
    assert verdict.status.value in expected_of(source), f"{verdict.phase}: {verdict.message}\n{verdict.hint}"
    if verdict.status is Status.PASSED:
        assert verdict.timing is not None, verdict.correctness.warnings
        assert verdict.timing.checked_launches >= 1
        assert verdict.timing.floor_us is None
        assert [one.name for one in verdict.timing.baselines if one.latency_us] == ["eager"]


@pytest.mark.gpu
def test_an_expression_is_judged_at_its_own_size_however_large(gpu_toolbox):
    text = kernelbench_text("torch.add(a, b)", shapes_of(("a=16777216", "b=16777216"))).encode()
    right = graded(gpu_toolbox, text, "torch", ADD % "b[i]")
    assert right.status is Status.PASSED, right.message
    assert {str(trial.sizes) for trial in right.correctness.trials} == {"{'n': 16777216}"}
    assert any("it was not rehearsed" in one for one in right.correctness.warnings)
    assert right.correctness.generalisation.passed
    assert graded(gpu_toolbox, text, "torch", ADD % "1.0001f * b[i]").status is Status.INCORRECT


@pytest.mark.gpu
def test_all_baselines_are_timed_or_say_why_not_and_are_kept(gpu_toolbox):
    text, source = (FOLDER / "softmax.py").read_bytes(), (FOLDER / "softmax.block_a_row.cu").read_text()
    first = graded(gpu_toolbox, text, "softmax.py", source, baseline="cuda_graph", baselines=BASELINES).timing
    assert {one.name for one in first.baselines} == set(BASELINES)
    assert all(one.latency_us or one.why_not for one in first.baselines)
    graph = next(one for one in first.baselines if one.name == "cuda_graph")
    assert "in a CUDA graph: Model" in first.compared_with
    assert graph.latency_us == pytest.approx(first.baseline_us, rel=0.05)
    again = graded(gpu_toolbox, text, "softmax.py", source).timing
    assert "eager: Model" in again.compared_with
    kept = next(one for one in again.baselines if one.name == "eager")
    assert kept.age_s > 0
    assert kept.latency_us == next(one for one in first.baselines if one.name == "eager").latency_us
