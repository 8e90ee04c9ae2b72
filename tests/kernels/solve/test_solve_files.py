"""Files as LeetGPU and Tensara have them, in many styles: each is lifted, and right; made wrong, each is found out.

Verified quickly.
"""

import re
from pathlib import Path

import pytest

from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate
from evaluator.problems.catalogue import problems

# By style, so that the first and the last, which are tried most often, are none of those that take long.
FILES = sorted(Path(__file__).parent.glob("*.cu"), key=lambda path: path.stem.partition("_")[2])

WRONG = {
    "vector_add_struct": ("arguments.tail[1]", "arguments.tail[2]"),
    "vector_add_two_streams": ("c + half, n - half", "c + half, n - half - 1"),
    "saxpy_streams_and_events": ("        cudaStreamWaitEvent(streams[3], event, 0);\n", ""),
    "softmax_blocking_streams": ("cudaStreamQuery(0)", "cudaStreamQuery(other)"),
    "scalar_multiply_list_not_full": ("number.is_double = 0", "number.is_double = 1"),
    "scalar_multiply_chunks": ("y + start, alpha", "y, alpha"),
    "relu_float4_and_tail": ("input + 4 * quads", "input + 3 * quads"),
    "relu_copied_first": ("n * sizeof(float), cudaMemcpyDeviceToDevice", "n, cudaMemcpyDeviceToDevice"),
    "reduce_sum_atomic": ("    cudaMemset(total, 0, sizeof(float));\n", ""),
    "histogram_two_in_turn": ("    if (blockIdx.x == 0) next[threadIdx.x] = 0;\n", ""),
    "histogram_private_rows": (
        "256 * sizeof(unsigned), many);\n    count",
        "255 * sizeof(unsigned), many);\n    count",
    ),
    "prefix_sum_doubling": ("distance *= 2", "distance *= 3"),
    "conv2d_constant_shape": ("{batch, in_channels, out_channels", "{batch, in_channels - 1, out_channels"),
    "conv2d_filters_by_symbol": ("weight + pair * 9,", "weight,"),
    "rms_norm_uploaded_table": ("steps.push_back(step)", "steps.push_back(step & 62)"),
    "attention_head_by_head": ("v + start, o + start", "v, o + start"),
}


def header(source: str) -> dict[str, str]:
    return dict(re.findall(r"^// (problem|style): (.*)$", source, re.MULTILINE))


def graded(source: str, toolbox):
    settings = Settings(verification="quick", estimate_for=None)
    return evaluate(Submission(problem=header(source)["problem"], source=source, settings=settings), toolbox)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_lifted_and_right(path, toolbox):
    verdict = graded(path.read_text(), toolbox)
    assert verdict.status is Status.PASSED, f"{verdict.phase}: {verdict.message}\n{verdict.hint}"
    assert verdict.correctness.plan_source == "recorded"
    assert (verdict.compile.dialect, verdict.compile.tier) == ("solve", "device")
    lifting = verdict.compile.lifting
    assert lifting.entry in ("solve", "solution")
    assert lifting.launches > 0
    assert lifting.entry in verdict.correctness.binding


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_was_made_wrong_is_found_out(name, toolbox):
    source = (Path(__file__).parent / f"{name}.cu").read_text()
    right, wrong = WRONG[name]
    assert right in source
    verdict = graded(source.replace(right, wrong), toolbox)
    assert verdict.status in (Status.INCORRECT, Status.RUNTIME_ERROR), f"{verdict.status}: {verdict.message}"


def test_the_files_are_many_and_say_what_each_is_there_for():
    heads = [header(path.read_text()) for path in FILES]
    assert len(heads) >= 30
    assert len({head["style"] for head in heads}) == len(heads)
    assert {head["problem"] for head in heads} == set(problems())
