"""Files in KernelBench's form: from the text to verdicts."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from common.contract import OtherSizes, Status, Submission, Verdict
from evaluator.foreign.loading import foreign_problem
from evaluator.foreign.reference import MOST_TEXT_BYTES, ReferenceRefusedError
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.arrays import NumpyRng
from evaluator.problems.problem import Problem

FOLDER = Path(__file__).parent / "references"
HEAD = "import torch\nfrom torch import nn\nclass Model(nn.Module):\n"
TAIL = "def get_init_inputs():\n    return []\n"


@contextmanager
def loaded(name: str, toolbox: Toolbox, other_sizes: OtherSizes = "reported") -> Iterator[Problem]:
    text = (FOLDER / name).read_bytes()
    with foreign_problem(text, name, toolbox.sandbox, toolbox.cache, other_sizes) as problem:
        yield problem


def graded(source: str, problem: Problem, toolbox: Toolbox) -> Verdict:
    return evaluate(Submission(problem=problem.id, source=source, backend="sim"), toolbox, problem=problem)


def test_a_product_passes_and_in_tf32_it_does_not(toolbox: Toolbox) -> None:
    source = (FOLDER / "matmul.cu").read_text()
    rounded = "__int_as_float(__float_as_int(value) + 0x1000 & ~0x1fff)"
    with loaded("matmul.py", toolbox) as problem:
        assert problem.id.startswith("kernelbench_matmul_")
        assert problem.parameter_names == ("A", "B", "out", "M", "K", "N")
        assert problem.example_sizes == ({"M": 40, "K": 129, "N": 24},)
        assert not problem.caveats
        verdict = graded(source, problem, toolbox)
        assert verdict.status is Status.PASSED, verdict.message
        assert verdict.correctness is not None
        assert len(verdict.correctness.trials) == 8
        worst = max(trial.worst_error or 0.0 for trial in verdict.correctness.trials)
        assert 0.0 < worst < 0.5
        lower = graded(f"#define FACTOR(value) {rounded}\n{source}", problem, toolbox)
        assert lower.status is Status.INCORRECT


def test_parameters_are_inputs_with_contents_of_their_own(toolbox: Toolbox) -> None:
    source = (FOLDER / "normed_product.cu").read_text()
    with loaded("normed_product.py", toolbox) as problem:
        names = [tensor.name for tensor in problem.inputs]
        assert names == ["x", "norm_weight", "norm_bias", "product_weight", "product_bias"]
        verdict = graded(source, problem, toolbox)
        assert verdict.status is Status.PASSED, verdict.message
        # Right for what a new module holds: a weight of ones and a bias of zeros.
        without = source.replace(" * rate * weight[i] + bias[i]", " * rate")
        assert without != source
        assert graded(without, problem, toolbox).status is Status.INCORRECT


def test_right_at_other_sizes_is_told_and_where_it_is_asked_for_required(toolbox: Toolbox) -> None:
    source = (FOLDER / "relu.cu").read_text()
    fixed = source.replace("batch_size * dim", "16000")
    with loaded("relu.py", toolbox) as problem:
        assert [tensor.shape for tensor in (*problem.inputs, *problem.outputs)] == [("batch_size", "dim")] * 2
        right, tied = graded(source, problem, toolbox).correctness, graded(fixed, problem, toolbox)
        assert right is not None
        assert right.generalisation is not None
        assert right.generalisation.passed
        assert len(right.generalisation.sizes) == 3
        assert not right.warnings
        assert tied.status is Status.PASSED
        assert tied.correctness is not None
        assert tied.correctness.generalisation is not None
        assert not tied.correctness.generalisation.passed
        assert re.search("past the end|never written", tied.correctness.generalisation.message or "")
        assert tied.correctness.warnings[-1].startswith("the kernel is right at the problem's own sizes")
    with loaded("relu.py", toolbox, "required") as problem:
        assert graded(fixed, problem, toolbox).status is Status.RUNTIME_ERROR
        verdict = graded(source, problem, toolbox)
        assert verdict.status is Status.PASSED, verdict.message
        assert verdict.correctness is not None
        assert len({str(trial.sizes) for trial in verdict.correctness.trials}) == 4
        assert verdict.correctness.generalisation is None


def test_what_is_too_large_is_judged_at_less_and_says_so(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluator.foreign.reference.MOST_INPUT_BYTES", 1000)
    source, text = (FOLDER / "relu.cu").read_text(), (FOLDER / "relu.py").read_bytes() + b"# too large\n"
    with foreign_problem(text, "relu.py", toolbox.sandbox, toolbox.cache) as problem:
        assert problem.example_sizes == ({"batch_size": 16, "dim": 15},)
        verdict = graded(source, problem, toolbox)
        assert verdict.status is Status.PASSED, verdict.message
        assert verdict.correctness is not None
        (told,) = verdict.correctness.warnings
        assert told.startswith("at its own sizes (batch_size=16, dim=1000) this problem is too large")
        # It may be right where it is meant for: nothing is said against it.
        verdict = graded(source.replace("batch_size * dim", "16000"), problem, toolbox)
        assert verdict.status is Status.UNSUPPORTED
        assert "batch_size=16, dim=1000" in (verdict.message or "")
        assert (verdict.hint or "").startswith("Add --other-sizes required (settings.other_sizes)")
        assert "or write it without that" not in (verdict.hint or "")


DEEP = """import torch
from torch import nn

features = 8192
hidden = [8192, 8192]

class Model(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        layers = []
        for out in hidden:
            layers += [nn.Linear(features, out), nn.ReLU()]
            features = out
        self.layers = nn.Sequential(*layers)
    def forward(self, x):
        return self.layers(x)

def get_inputs():
    return [torch.randn(8, features)]

def get_init_inputs():
    return [features, hidden]
"""


def test_layers_that_one_line_makes_are_all_made_smaller(toolbox: Toolbox) -> None:
    """Known by shapes alone, in a process that imports no more of PyTorch than it needs; of 537 MB."""
    with foreign_problem(DEEP.encode(), "deep.py", toolbox.sandbox, toolbox.cache) as problem:
        (sizes,) = problem.example_sizes
    assert all(32 <= sizes[name] <= 512 for name in ("features", "hidden_0", "hidden_1"))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param("        return x * 0 + 1", "the right answer to other inputs would pass", id="constant"),
        pytest.param("        return x * 1.0", "equals the input 'x'", id="copy"),
        pytest.param("        return y * y", "no output depends on the input 'x'", id="ignored"),
        pytest.param("        return torch.log(x - 2) + y", "is not finite", id="not-finite"),
        pytest.param(
            "        return (x + y)[x > y]", "shape of its answer hangs on what its inputs hold", id="shape"
        ),
        pytest.param("        while True: pass", "more than 4 s", id="without-end"),
        pytest.param("        return torch.ones(1 << 35) + x", "more memory than it may", id="100-GB"),
        pytest.param(
            "        import socket; socket.create_connection(('127.0.0.1', 80)); return x", "fails", id="network"
        ),
        pytest.param(
            "        import json; old = json.dumps; y_ = {'name': 'y', 'dtype': 'float32', 'shape': [1 << 30], "
            "'draw': {'kind': 'normal'}, 'kind': 'argument'}\n"
            "        json.dumps = lambda one: old({**one, 'inputs': [y_]} if 'inputs' in one else one)\n"
            "        return x + y",
            "tensors of more than 67,108,864 bytes",
            id="lies-about-4-GiB",
        ),
        pytest.param("        import os; os._exit(0)", "its process ended before", id="exit"),
    ],
)
def test_what_says_nothing_is_refused(
    body: str, reason: str, toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = "def get_inputs():\n    return [torch.rand(8, 64), torch.rand(8, 64)]\n"
    text = f"{HEAD}    def forward(self, x, y):\n{body}\n{inputs}{TAIL}"
    if "while" in body:
        monkeypatch.setattr("evaluator.foreign.reference._DESCRIBE_S", 4.0)
    with (
        pytest.raises(ReferenceRefusedError, match=reason) as refused,
        foreign_problem(text.encode(), "some.py", toolbox.sandbox, toolbox.cache),
    ):
        pass
    assert str(refused.value).startswith("some.py")
    if "fails" in reason or "memory" in reason:
        assert str(refused.value).startswith("some.py:5: ")


def test_what_says_nothing_for_positive_values_is_drawn_with_both_signs(toolbox: Toolbox) -> None:
    text = (
        (FOLDER / "relu.py").read_text().replace("torch.rand(batch_size, dim) * 2 - 1", "torch.rand(batch_size, dim)")
    )
    with foreign_problem(text.encode(), "relu.py", toolbox.sandbox, toolbox.cache) as problem:
        (told,) = problem.caveats
        assert told.startswith("as published, the output 'out' equals the input 'x'")
        assert told.endswith("so it draws 'x' from -3 to 3")
        assert graded((FOLDER / "relu.cu").read_text(), problem, toolbox).status is Status.PASSED
        copied = (FOLDER / "relu.cu").read_text().replace("fmaxf(x[i], 0.0f)", "x[i]")
        verdict = graded(copied, problem, toolbox)
        assert verdict.status is Status.INCORRECT
        assert verdict.correctness is not None
        assert told in verdict.correctness.warnings


@pytest.mark.parametrize(
    ("made", "body", "repair"),
    [
        ("torch.randn(8, 64)", "torch.softmax(x * 1e-9, -1)", None),
        (
            "torch.randn(8, 64)",
            "1 + torch.relu(x.abs() - 20)",
            "let get_inputs draw 'x' with a standard deviation of 8.",
        ),
        ("torch.rand(8, 64)", "1 + torch.relu(x.abs() - 20)", "let get_inputs draw 'x' from -24 to 24."),
    ],
)
def test_larger_inputs_are_named_where_they_make_a_problem(
    made: str, body: str, repair: str | None, toolbox: Toolbox
) -> None:
    inputs = f"def get_inputs():\n    return [{made}]\n"
    text = f"{HEAD}    def forward(self, x):\n        return {body}\n{inputs}{TAIL}"
    with (
        pytest.raises(ReferenceRefusedError, match="hardly changes with the inputs") as refused,
        foreign_problem(text.encode(), "some.py", toolbox.sandbox, toolbox.cache),
    ):
        pass
    told = str(refused.value)
    assert told.endswith(repair) if repair else "larger inputs" not in told


TEXTBOOK = """
__device__ float cut(float value)
{
#ifdef TF32
    return __int_as_float((__float_as_int(value) + 0x1000) & ~0x1fff);
#else
    return value;
#endif
}
__global__ void textbook(const float* x, float* out_0, float* out_1, float* out_2, float* out_3, float* out_4)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 1024) {
        float v = cut(x[i]), soft = logf(1.0f + expf(v));
        out_0[i] = soft;
        out_1[i] = v * tanhf(soft);
        out_2[i] = v > 0.0f ? v : expf(v) - 1.0f;
    }
    if (i < 16) {
        float total = 0.0f, sum = 0.0f, squares = 0.0f;
        for (int k = 0; k < 64; ++k) {
            float v = cut(x[i * 64 + k]);
            total += expf(v);
            sum += v;
            squares += v * v;
        }
        out_3[i] = logf(total);
        out_4[i] = (squares - sum * sum / 64.0f) / 63.0f;
    }
}
"""


def test_kernels_as_in_textbooks_pass_and_in_tf32_they_do_not(toolbox: Toolbox) -> None:
    """Softplus, mish, ELU, logsumexp and a variance, each with a step in which terms cancel."""
    answers = "F.softplus(x, threshold=100), F.mish(x), F.elu(x), torch.logsumexp(x, -1), torch.var(x, -1)"
    text = (
        f"import torch.nn.functional as F\n{HEAD}    def forward(self, x):\n        return {answers}\n"
        f"def get_inputs():\n    return [4 * torch.randn(16, 64)]\n{TAIL}"
    )
    with foreign_problem(text.encode(), "textbook.py", toolbox.sandbox, toolbox.cache) as problem:
        verdict = graded(TEXTBOOK, problem, toolbox)
        assert verdict.status is Status.PASSED, verdict.message
        assert graded(f"#define TF32\n{TEXTBOOK}", problem, toolbox).status is Status.INCORRECT


def test_a_text_without_end_is_refused_unread(toolbox: Toolbox) -> None:
    with (
        pytest.raises(ReferenceRefusedError, match="may have 1,048,576"),
        foreign_problem(b"#" * (MOST_TEXT_BYTES + 1), "some.py", toolbox.sandbox, toolbox.cache),
    ):
        pass


def test_a_reference_may_import_what_is_installed_beside_assay(toolbox: Toolbox) -> None:
    text = (
        "import torch\nfrom einops import rearrange\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
        "        return rearrange(x, 'a (b c) -> b (a c)', b=3) * 2\n"
        "def get_inputs():\n    return [torch.randn(8, 12)]\n"
    )
    with foreign_problem(text.encode(), "rearranged.py", toolbox.sandbox, toolbox.cache) as problem:
        assert problem.outputs[0].shape == ("3", "32")


def test_contents_for_which_the_file_fails_are_left_out(toolbox: Toolbox) -> None:
    """Where its rows are alike a matrix has no inverse."""
    text = (
        f"{HEAD}    def forward(self, x):\n        x = x.reshape(6, 6)\n"
        "        return torch.linalg.cholesky(x.T @ x)\n"
        "def get_inputs():\n    return [torch.randn(36)]\n"
    )
    with foreign_problem(text.encode(), "factor.py", toolbox.sandbox, toolbox.cache) as problem:
        names = [one.name for one in problem.distributions]
        assert names[0] == "as_drawn"
        assert "rows_of_one_value" not in names


def test_draws_of_which_the_file_has_no_answer_are_drawn_again(toolbox: Toolbox) -> None:
    """One row in thirteen of those of one value is zero, which a norm divides by."""
    body = "    def forward(self, x):\n        return x / x.norm()\n"
    text = f"{HEAD}{body}def get_inputs():\n    return [torch.randn(20)]\n"
    with foreign_problem(text.encode(), "unit.py", toolbox.sandbox, toolbox.cache) as problem:
        (rows,) = (one for one in problem.distributions if one.name == "rows_of_one_value")
        sizes = problem.example_sizes[0]
        for seed in range(60):
            inputs = rows.draw(NumpyRng(np.random.default_rng(seed)), sizes)
            assert len(set(inputs["x"].tolist())) == 1
            assert np.isfinite(problem.oracle(inputs, sizes)["out"].value).all()


TRITON = """import torch
import triton
import triton.language as tl


@triton.jit
def k(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at, mask=at < n) * 1.5, mask=at < n)


def run(x, out):
    n = x.numel()
    block = triton.next_power_of_2(x.shape[1])
    k[(triton.cdiv(n, block),)](x, out, n, BLOCK=block)
"""


def test_triton_is_compiled_for_other_sizes_and_what_is_not_judged_there_is_not_wrong(toolbox: Toolbox) -> None:
    stated = "batch_size, features = 32, 64\ndef get_inputs():\n    return [torch.rand(batch_size, features)]\n"
    text = f"{HEAD}    def forward(self, x):\n        return x * 1.5\n{stated}{TAIL}".encode()
    unlaunched = "    if x.shape != (32, 64):\n        torch.linalg.svd(x)\n    n = x.numel()"
    with foreign_problem(text, "gain.py", toolbox.sandbox, toolbox.cache) as problem:
        right = graded(TRITON, problem, toolbox)
        unknown = graded(TRITON.replace("    n = x.numel()", unlaunched), problem, toolbox)
    assert right.status is Status.PASSED, right.message
    assert right.correctness is not None
    assert right.correctness.generalisation is not None
    assert right.correctness.generalisation.passed, right.correctness.generalisation
    assert len(right.correctness.generalisation.sizes) == 3
    assert not right.correctness.warnings
    assert unknown.status is Status.PASSED, unknown.message
    assert unknown.correctness is not None
    assert unknown.correctness.generalisation is None
    assert "nothing is said about other sizes" in unknown.correctness.warnings[-1]
    assert "linalg" in unknown.correctness.warnings[-1]
