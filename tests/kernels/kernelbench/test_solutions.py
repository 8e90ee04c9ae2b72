"""Solutions in KernelBench's form, in several styles: each is lifted, and right; made wrong, each is found out.

Verified quickly.
"""

import re
from pathlib import Path

import pytest

from common.contract import Phase, Settings, Status, Submission
from evaluator.foreign.loading import foreign_problem
from evaluator.pipeline.pipeline import evaluate

FOLDER = Path(__file__).parent
FILES = sorted(path for path in FOLDER.glob("*.py") if not path.name.startswith("test_"))
QUICK = Settings(verification="quick", estimate_for=None)
RELU = (FOLDER / "relu_plain.py").read_text()

WRONG = {
    "relu_plain": ("fmaxf(x[idx], 0.0f)", "fminf(x[idx], 0.0f)"),
    "saxpy_scalar": ("Saxpy.apply(x, y, float(alpha))", "Saxpy.apply(x, y, 2.0)"),
    "reduce_sum_two_functions": ("sums.sum_blocks(x, self.blocks), 1)", "sums.sum_blocks(x, self.blocks), 1)[0:1]"),
    "linear_bias": ("x, self.linear.weight, self.linear.bias", "x, self.linear.weight, 0 * self.linear.bias"),
    "two_results": ("return total, product", "return product, total"),
    "vector_add_in_init": ("const int64_t n = a.numel()", "static const int64_t n = a.numel()"),
}

REFUSED = {
    "an operator": ("self.relu.relu_cuda(x)", "torch.relu(x)", Status.UNSUPPORTED, "operator torch.relu"),
    "an operator behind": (
        "self.relu.relu_cuda(x)",
        "self.relu.relu_cuda(x) * 2",
        Status.UNSUPPORTED,
        "operator mul",
    ),
    "a layer": ("self.relu.relu_cuda(x)", "nn.Linear(4, 4)(x)", Status.UNSUPPORTED, "operator Linear"),
    "a read": ("self.relu.relu_cuda(x)", "x if x.sum().item() else x", Status.UNSUPPORTED, "operator sum"),
    "contents": ("self.relu.relu_cuda(x)", "x if x[0].item() > 0 else x", Status.UNSUPPORTED, "contents of a tensor"),
    "a shape": (
        "self.relu.relu_cuda(x)",
        "self.relu.relu_cuda(x).view(self.relu.relu_cuda(x).shape)",
        Status.UNSUPPORTED,
        "shape of what a function",
    ),
    "random": ("self.relu.relu_cuda(x)", "self.relu.relu_cuda(torch.randn(4))", Status.UNSUPPORTED, "random"),
    "an import": (
        "import torch.nn as nn",
        "import torch.nn as nn\nimport triton",
        Status.UNSUPPORTED,
        "imports triton",
    ),
    "no module": ("relu_cuda(x)", "other(x)", Status.RUNTIME_ERROR, "module has no attribute 'other'"),
    "no kernel": ("load_inline(\n", "dict(\n", Status.RUNTIME_ERROR, "AttributeError"),
    "an exception": (
        "return self.relu",
        "raise ValueError('no')\n        return self.relu",
        Status.RUNTIME_ERROR,
        "no",
    ),
    "no class": ("class ModelNew", "class ModelOld", Status.INVALID_SUBMISSION, "no class ModelNew"),
    "no Python": ("class ModelNew(nn.Module):", "class ModelNew(nn.Module:", Status.COMPILE_ERROR, "kernel.py:41: "),
    "a file": (
        'relu_source = """',
        'relu_source = """\n#include "/etc/passwd"\n',
        Status.REJECTED,
        "a file of the machine",
    ),
    "an exit": (
        "import torch\n",
        "import torch\nimport os\nos._exit(0)\n",
        Status.RUNTIME_ERROR,
        "did not come to its end",
    ),
    "a loop": ("import torch\n", "import torch\nwhile True: pass\n", Status.TIMEOUT, "did not come to its end"),
    "forged": (
        "import torch\n",
        "import torch, os\nopen('found.json', 'w').write('{\"modules\": [], \"calls\": []}')\nos._exit(0)\n",
        Status.REJECTED,
        "written it itself",
    ),
    "its answer again": (
        "return self.relu.relu_cuda(x)",
        "self.kept = getattr(self, 'kept', None) or [self.relu.relu_cuda(x)]\n        return self.kept[0]",
        Status.REJECTED,
        "remembers its answer",
    ),
    "too few arguments": (
        "def forward(self, x",
        "def forward(self, x, y",
        Status.INVALID_SUBMISSION,
        "forward takes 'y'",
    ),
}


def header(source: str) -> dict[str, str]:
    return dict(re.findall(r"^# (problem|style): (.*)$", source, re.MULTILINE))


def graded(source: str, toolbox, **how):
    name = header(source)["problem"]
    if not name.endswith(".py"):
        return evaluate(Submission(problem=name, source=source, settings=QUICK, **how), toolbox)
    text = (FOLDER / name).read_bytes()
    with foreign_problem(text, Path(name).name, toolbox.sandbox, toolbox.cache) as problem:
        submission = Submission(problem=problem.id, source=source, settings=QUICK, **how)
        return evaluate(submission, toolbox, problem=problem)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_solution_is_lifted_and_right(path, toolbox):
    verdict = graded(path.read_text(), toolbox)
    assert verdict.status is Status.PASSED, f"{verdict.phase}: {verdict.message}\n{verdict.hint}"
    assert verdict.correctness.plan_source == "recorded"
    assert (verdict.compile.dialect, verdict.compile.tier) == ("kernelbench", "device")
    assert "ModelNew.forward, w" in verdict.compile.lifting.text


@pytest.mark.parametrize("name", WRONG)
def test_a_solution_that_was_made_wrong_is_found_out(name, toolbox):
    source = (FOLDER / f"{name}.py").read_text()
    right, wrong = WRONG[name]
    assert right in source
    verdict = graded(source.replace(right, wrong), toolbox)
    assert verdict.status is not Status.PASSED
    assert verdict.status is not Status.INTERNAL_ERROR


def test_text_that_hangs_on_the_sizes_is_not_judged(toolbox):
    source = RELU.replace("relu = load_inline(", "def relu_of(x): return load_inline(")
    source = source.replace("cuda_sources=relu_source,", "cuda_sources=relu_source + f'// {x.shape[0]}',")
    source = source.replace("self.relu = relu", "pass").replace("self.relu.relu_cuda(x)", "relu_of(x).relu_cuda(x)")
    verdict = graded(source, toolbox)
    assert verdict.status is Status.UNSUPPORTED, verdict.message
    assert "compiles other text" in verdict.message


def test_infinity_is_a_number_that_may_be_passed(toolbox):
    source = RELU.replace("torch::Tensor x)", "torch::Tensor x, double low)")
    verdict = graded(source.replace("relu_cuda(x)", "relu_cuda(x, float('-inf'))"), toolbox)
    assert verdict.status is Status.PASSED, verdict.message


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_written_down_is_named(name, toolbox):
    before, after, status, said = REFUSED[name]
    assert before in RELU
    verdict = graded(RELU.replace(before, after, 1), toolbox, dialect="kernelbench")
    assert verdict.status is status, f"{verdict.status}: {verdict.message}"
    assert said in verdict.message
    assert verdict.hint
    assert (verdict.reward is None) == (status is Status.UNSUPPORTED)


def test_an_error_of_the_compiler_has_the_line_of_the_python_text(toolbox):
    broken = RELU.replace("fmaxf(x[idx], 0.0f);", "fmaxf(x[idx], 0.0f)")
    line = broken[: broken.index("fmaxf")].count("\n") + 2
    verdict = graded(broken, toolbox)
    assert (verdict.status, verdict.phase) == (Status.COMPILE_ERROR, Phase.COMPILE)
    assert f"kernel.cu:{line}: " in verdict.message


def test_the_solutions_are_many_and_say_what_each_is_there_for():
    heads = [header(path.read_text()) for path in FILES]
    assert len(heads) >= 30
    assert len({head["style"] for head in heads}) == len(heads)
