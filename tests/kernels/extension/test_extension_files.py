"""Extensions of PyTorch's, in many styles: each is lifted, and right; made wrong, each is found out.

Verified quickly.
"""

import re
from pathlib import Path

import pytest

from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate
from evaluator.problems.catalogue import problems

FILES = sorted(Path(__file__).parent.glob("*.cu"), key=lambda path: path.stem.partition("_")[2])

WRONG = {
    "vector_add_plain": ("c[i] = a[i] + b[i]", "c[i] = a[i] - b[i]"),
    "vector_add_two_streams": ("cs[i].data_ptr<float>(), as", "c.data_ptr<float>(), as"),
    "scalar_multiply_dispatch": ("static_cast<scalar_t>(factor)", "static_cast<scalar_t>(2.0)"),
    "relu_vectorised": ("if (n % 4) relu_tail", "if (n % 4 == 1) relu_tail"),
    "reduce_sum_scalar_result": ("torch::zeros({1}", "torch::empty({1}"),
    "histogram_shared": ("at::zeros({256}", "at::ones({256}"),
    "row_sum_accessors": ("col < x.size(1)", "col < x.size(0)"),
    "softmax_template_of_threads": ("-INFINITY, x.options()", "0, x.options()"),
    "layer_norm_defaults": ('"x"_a, "weight"_a, "bias"_a', '"x"_a, "bias"_a, "weight"_a'),
    "conv2d_constant_memory": ("weight.select(0, out)", "weight.select(0, 0)"),
    "linear_gelu_two_steps": ("auto turned = weight.t();", "auto turned = weight.view({-1, weight.size(0)});"),
    "attention_scores": ("buffer.slice(0, heads * seq * seq).view", "buffer.slice(0, 0, heads * seq * dim).view"),
}


def header(source: str) -> dict[str, str]:
    return dict(re.findall(r"^// (problem|style): (.*)$", source, re.MULTILINE))


def graded(source: str, toolbox):
    settings = Settings(verification="quick", estimate_for=None)
    return evaluate(Submission(problem=header(source)["problem"], source=source, settings=settings), toolbox)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_extension_is_lifted_and_right(path, toolbox):
    verdict = graded(path.read_text(), toolbox)
    assert verdict.status is Status.PASSED, f"{verdict.phase}: {verdict.message}\n{verdict.hint}"
    assert verdict.correctness.plan_source == "recorded"
    assert (verdict.compile.dialect, verdict.compile.tier) == ("torch-extension", "device")
    assert verdict.compile.lifting.launches > 0
    assert "bound by" in verdict.correctness.binding


@pytest.mark.parametrize("name", WRONG)
def test_an_extension_that_was_made_wrong_is_found_out(name, toolbox):
    source = (Path(__file__).parent / f"{name}.cu").read_text()
    right, wrong = WRONG[name]
    assert right in source
    verdict = graded(source.replace(right, wrong), toolbox)
    assert verdict.status in (Status.INCORRECT, Status.RUNTIME_ERROR), f"{verdict.status}: {verdict.message}"


def test_the_extensions_are_many_and_say_what_each_is_there_for():
    heads = [header(path.read_text()) for path in FILES]
    assert len(heads) >= 40
    assert len({head["style"] for head in heads}) == len(heads)
    assert {head["problem"] for head in heads} == set(problems())
