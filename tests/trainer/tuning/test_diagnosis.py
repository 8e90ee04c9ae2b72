"""What is wrong with a kernel, where that is known: its flaw, the line that mends it, what costs a right one time."""

from dataclasses import replace

import pytest
from graded_kernels import graded_kernel, graded_templates

from common.contract import Status
from common.contract.counters import Pitfall
from trainer.data import corpus
from trainer.data.graded import Provenance
from trainer.tuning.diagnosis import Diagnosis, correction, diagnosis_of

RELU = graded_templates("relu").kernels


def relu(place):
    return next(one for one in RELU if one.provenance.place == place)


@pytest.mark.parametrize(
    ("place", "advice"),
    [
        ("guarded: no guard", "Line 5: write `if (i < n) {`."),
        ("guarded: wrong formula", "Line 6: write `y[i] = fmaxf(x[i], 0.0f);`."),
        (
            "grid stride: undeclared index",
            "Line 4: write `for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; ",
        ),
        ("float4: no tail", "After line 8: write `} else { for (int j = i * 4; j < count; j++) { y[j] = "),
    ],
)
def test_a_template_s_flaw_is_named_with_the_line_that_mends_it(place, advice):
    found = diagnosis_of(relu(place), RELU, 1.1)
    assert found.issue == place.partition(": ")[2]
    assert found.advice.startswith(advice)


@pytest.mark.parametrize("problem", corpus.PROBLEMS)
def test_doing_what_is_advised_first_leads_to_the_right_text_or_nearer_to_it(problem):
    kernels = graded_templates(problem).kernels
    flawed = [one for one in kernels if one.provenance.flaw]
    assert flawed
    for one in flawed:
        right = next(other for other in kernels if other.provenance.place == one.provenance.style)
        said = correction(one.source, right.source)
        change = said.partition("`")[2].rpartition("`")[0]
        joined = " ".join(line.strip() for line in right.source.splitlines())
        assert change
        assert change in joined or said.endswith("out.")


def test_lines_are_counted_from_1_in_the_wrong_text():
    right = "a\nb\nc\n"
    assert correction("a\nx\nc\n", right) == "Line 2: write `b`."
    assert correction("a\nc\n", right) == "After line 1: write `b`."
    assert correction("b\nc\n", right) == "Before line 1: write `a`."
    assert correction("a\nb\nx\ny\nc\n", right) == "Line 3: take `x y` out."
    assert correction(" a\nb\nc", right) == "", "white space at the ends is no change"


def test_what_an_agent_wrote_wrongly_has_no_diagnosis_that_anyone_knows():
    wrong = graded_kernel("relu", "__global__ void a() {}", Status.INCORRECT, origin="rollout")
    assert diagnosis_of(wrong, (*RELU, wrong), 1.1) is None
    # Its place is a file and a turn, whatever is in its name.
    named = Provenance("rollout", "run: x.jsonl, turn 0", "generator")
    assert (named.style, named.flaw) == (None, None)


def test_a_right_kernel_is_told_the_first_pitfall_else_the_fastest_style_that_is_worth_a_word():
    right = [relu(style.name) for style in corpus.styles("relu")]
    slow, _, fast = right
    assert diagnosis_of(slow, right, 1.1) == Diagnosis("slower than float4", "Written so, it is 3 times as fast.")
    assert diagnosis_of(slow, right, 3.1).issue == "nothing is known to be faster"
    assert diagnosis_of(fast, RELU, 1.1).issue == "nothing is known to be faster"
    assert diagnosis_of(slow, right[:1], 1.1).lines == ["nothing is known to be faster.", ""]
    pitfall = Pitfall(
        kind="uncoalesced_access", kernel="relu", line=6, cost="32 sectors", weight=0.5, remedy="Read along the rows."
    )
    profile = slow.verdict.profile.model_copy(update={"pitfalls": (pitfall,)})
    striding = replace(slow, verdict=slow.verdict.model_copy(update={"profile": profile}))
    assert diagnosis_of(striding, right, 1.1) == Diagnosis("uncoalesced access", "Line 6: Read along the rows.")


def test_an_issue_is_named_in_its_own_words_on_the_first_line():
    issue = Diagnosis("no guard")
    for answer in ("no guard.\nLine 5: write `if`.", " No guard", "no guard\n\nelse"):
        assert issue.is_named_by(answer)
    for answer in ("", "no guard of the store.", "guard off by one, or no guard", "incorrect\nno guard."):
        assert not issue.is_named_by(answer)
