"""Hostile and mistaken Triton files: how each ends, and that whoever comes next is graded rightly.

test_attacks.py says what a header says.
"""

import re
from pathlib import Path

import pytest

from common.contract import Phase, Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate

# What Python cannot read is `.py.txt`, so that no tool here tries to.
FILES = sorted((Path(__file__).parent / "triton").glob("*.py*"))
ENDS = {status.value for status in Status} - {"internal_error", "cancelled"}
NEXT = """
import triton
import triton.language as tl


@triton.jit
def scale(x, y, alpha, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, alpha * tl.load(x + at, mask=at < n), mask=at < n)


def run(x, y, alpha, n):
    scale[(triton.cdiv(n, 256),)](x, y, alpha, n, BLOCK=256)
"""


def header(source: str) -> dict[str, str]:
    return dict(re.findall(r"^# (problem|attack|expect|because|message): (.*)$", source, re.MULTILINE))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_hostile_triton_ends_as_it_must_and_the_next_job_is_right(path, toolbox):
    source = path.read_text()
    head = header(source)
    quick = Settings(estimate_for=None, verification="quick")
    submission = Submission(problem=head["problem"], source=source, dialect="triton", settings=quick)
    verdict = evaluate(submission, toolbox)
    told = f"{verdict.status} in {verdict.phase}: {verdict.message}\nexpected {head['expect']}: {head['because']}"
    assert verdict.status.value in head["expect"].split("|"), told
    assert head.get("message", "") in verdict.message, told
    if verdict.status is not Status.PASSED:
        assert verdict.hint
    if verdict.phase is Phase.LIFT:
        assert verdict.correctness is None
    if verdict.status is Status.UNSUPPORTED:
        assert verdict.reward is None
    following = evaluate(Submission(problem="scalar_multiply", source=NEXT, settings=quick), toolbox)
    assert following.status is Status.PASSED, f"the next job: {following.status}: {following.message}"


def test_the_corpus_of_triton_says_what_each_file_tries():
    heads = [header(path.read_text()) for path in FILES]
    assert len(heads) >= 25
    for path, head in zip(FILES, heads, strict=True):
        assert head.keys() >= {"problem", "attack", "expect", "because"}, path.stem
        assert ENDS.issuperset(head["expect"].split("|")), path.stem
