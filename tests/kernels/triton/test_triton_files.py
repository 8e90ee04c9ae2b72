"""Triton files in many styles: each is recorded, and right; made wrong, each is found out. Verified quickly."""

import re
from pathlib import Path

import pytest

from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate
from evaluator.problems.catalogue import problems

# Names begin with the problem's; those of the quickest problems are the first and the last, which are tried most often.
FILES = sorted(
    (path for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("test_")),
    key=lambda path: path.stem.partition("_")[2],
)

WRONG = {
    "vector_add_masked": ("mask = offs < n", "mask = offs < n - 1"),
    "relu_returned": ("tl.where(x > 0, x, 0.0)", "tl.where(x > 0, x, 0.01 * x)"),
    "reduce_sum_atomic": ("    total.zero_()\n", ""),
    "rms_norm_agent_function": ("eps, TILE=256)\n    return out", "eps, TILE=256)\n    return x"),
    "row_sum_loop": ("acc += ", "acc = "),
    "conv2d_channels_last_copies": ("permute(2, 3, 1, 0)", "permute(3, 2, 1, 0)"),
    "matvec_transposed_copy": ("x.to(torch.bfloat16).float()", "x = x.to(torch.bfloat16).float()"),
    "transpose_tiles": ("y_ptr + c[:, None] * rows", "y_ptr + c[:, None] * cols"),
    "prefix_sum_three_steps": ("tl.cumsum(sums, axis=0) - sums", "tl.cumsum(sums, axis=0)"),
    "histogram_of_blocks": (", mask=mask)\n    tl.atomic", ")\n    tl.atomic"),
    "softmax_row_in_registers": ("x - tl.max(x, axis=0)", "x"),
}


def header(source: str) -> dict[str, str]:
    return dict(re.findall(r"^# (problem|style): (.*)$", source, re.MULTILINE))


def graded(source: str, toolbox):
    settings = Settings(verification="quick", estimate_for=None)
    return evaluate(Submission(problem=header(source)["problem"], source=source, settings=settings), toolbox)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_triton_file_is_recorded_and_right(path, toolbox):
    verdict = graded(path.read_text(), toolbox)
    assert verdict.status is Status.PASSED, f"{verdict.phase}: {verdict.message}\n{verdict.hint}"
    assert verdict.correctness.plan_source == "recorded"
    assert (verdict.compile.dialect, verdict.compile.tier) == ("triton", "device")
    assert verdict.compile.toolchain.startswith("triton ")
    assert verdict.compile.lifting.launches > 0
    assert verdict.compile.lifting.entry in verdict.correctness.binding


@pytest.mark.parametrize("name", WRONG)
def test_a_triton_file_that_was_made_wrong_is_found_out(name, toolbox):
    source = (Path(__file__).parent / f"{name}.py").read_text()
    right, wrong = WRONG[name]
    assert right in source
    verdict = graded(source.replace(right, wrong), toolbox)
    assert verdict.status in (Status.INCORRECT, Status.RUNTIME_ERROR), f"{verdict.status}: {verdict.message}"


def test_the_triton_files_are_many_and_say_what_each_is_there_for():
    heads = [header(path.read_text()) for path in FILES]
    assert len(heads) >= 30
    assert len({head["style"] for head in heads}) == len(heads)
    # A program of attention has eight kernels of thousands of lines, half a minute of compiling for the simulator.
    assert {head["problem"] for head in heads} == set(problems()) - {"attention"}
