"""Right kernels in the styles of many hands: none is refused in a full verification."""

import re
from pathlib import Path

import pytest

from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate
from evaluator.problems.catalogue import problems

KERNELS = sorted(Path(__file__).parent.glob("*.cu"))
# Right on a GPU, and not passed here, for what the simulator lacks. A file that passes must leave this list.
NOT_PASSED: set[str] = set()


def header(source: str) -> dict[str, str]:
    return dict(re.findall(r"^// (problem|style|flags): (.*?)\r?$", source, re.MULTILINE))


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_right_kernel_passes(path, toolbox):
    source = path.read_bytes().decode()
    head = header(source)
    settings = Settings(estimate_for=None, flags=tuple(head.get("flags", "").split()), run_timeout_s=20)
    verdict = evaluate(Submission(problem=head["problem"], source=source, backend="sim", settings=settings), toolbox)
    assert verdict.status is not Status.INTERNAL_ERROR, verdict.message
    assert (verdict.status is Status.PASSED) == (path.stem not in NOT_PASSED), f"{verdict.message}\n{verdict.hint}"


def test_the_corpus_covers_every_problem():
    heads = [header(path.read_bytes().decode()) for path in KERNELS]
    assert len(heads) >= 150
    assert {head["problem"] for head in heads} == set(problems())
    assert len({head["style"] for head in heads}) == len(heads)
    assert {path.stem for path in KERNELS} >= NOT_PASSED
