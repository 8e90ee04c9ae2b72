"""Challenges in LeetGPU's form: judged at smaller sizes than they state, and refused in words."""

import re
from pathlib import Path

import pytest

from common.contract import OtherSizes, Reference, Status, Submission, Verdict, form_of
from evaluator.foreign.loading import foreign_problem
from evaluator.foreign.reference import ReferenceRefusedError
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox

FOLDER = Path(__file__).parent / "references" / "leetgpu"
TEXT, KERNEL = (FOLDER / "challenge.py").read_text(), (FOLDER / "gains.cu").read_text()


def graded(source: str, toolbox: Toolbox, other_sizes: OtherSizes = "reported") -> Verdict:
    with foreign_problem(TEXT.encode(), "challenge.py", toolbox.sandbox, toolbox.cache, other_sizes) as problem:
        names = ("signal", "weights", "gains", "rows", "columns")
        assert (problem.parameter_names, problem.id[:18]) == (names, "leetgpu_challenge_")
        assert [tensor.shape for tensor in problem.inputs] == [("rows", "columns"), ("columns",)]
        assert problem.too_large == ("" if other_sizes == "required" else "rows=32768, columns=4096")
        return evaluate(Submission(problem=problem.id, source=source, backend="sim"), toolbox, problem=problem)


def test_a_challenge_is_judged_by_what_its_reference_writes(toolbox: Toolbox) -> None:
    right = graded(KERNEL, toolbox)
    assert right.status is Status.PASSED, right.message
    assert right.correctness is not None
    assert right.correctness.generalisation is not None
    assert right.correctness.generalisation.passed
    wrong = graded(KERNEL.replace("0.25f * sum", "0.2501f * sum"), toolbox, "required")
    assert wrong.status is Status.INCORRECT, wrong.message


def test_its_form_is_known_by_what_it_imports() -> None:
    assert form_of(TEXT.encode()) == "leetgpu"
    assert form_of(b"# from core.challenge_base import ChallengeBase") == "kernelbench"
    assert Reference(name="challenge.py", text=TEXT).problem_id.startswith("leetgpu_challenge_")


@pytest.mark.parametrize(
    ("changed", "into", "told"),
    [
        ("class Challenge(", "class Other(", "it has no class `Challenge` that extends ChallengeBase"),
        ("def reference_impl", "def another", "its Challenge has no method `reference_impl`"),
        ('c_float), "in"', 'c_float), "inout"', "'signal' is 'inout': a tensor is either read (in) or written (out)"),
        ("gains.mul_(factor)", "gains.mul_(factors)", "challenge.py:17: forward fails: NameError"),
    ],
)
def test_what_is_no_challenge_is_refused(changed: str, into: str, told: str, toolbox: Toolbox) -> None:
    assert changed in TEXT
    text = TEXT.replace(changed, into, 1).encode()
    with (
        pytest.raises(ReferenceRefusedError, match=re.escape(told)),
        foreign_problem(text, "challenge.py", toolbox.sandbox, toolbox.cache),
    ):
        pass
