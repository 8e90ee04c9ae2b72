"""The kernels of the warm start: right ones pass, wrong ones end as they should, at a real service."""

import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.client import Client
from common.contract import Settings, Status, Submission
from evaluator.problems.catalogue import problems
from trainer.conversation.extraction import extract, wrapped
from trainer.data import corpus

EVERYTHING = tuple(corpus.everything())


def some():
    """Each second style: right, or every third time with one flaw, another each time, so that each kind comes up."""
    for number, style in enumerate(corpus.STYLES[::2]):
        flaws = corpus.flaws(style)
        yield corpus.render_prompt(style, *([] if number % 3 else [flaws[number // 3 % len(flaws)]]))


def test_the_examples_end_as_they_say(service):
    """All of them where ASSAY_TEST_EVERYTHING is set: some minutes without a warm cache."""
    examples = EVERYTHING if os.environ.get("ASSAY_TEST_EVERYTHING") else tuple(some())
    plain = Settings(estimate_for=None, verification="quick")
    with Client(service.url) as client:
        verdicts = client.evaluate_many(
            [Submission(problem=one.problem, source=one.source, settings=plain) for one in examples], concurrency=16
        )
        ended = [
            (one.problem, one.style, one.flaw, verdict.status)
            for one, verdict in zip(examples, verdicts, strict=True)
        ]
    assert ended == [(one.problem, one.style, one.flaw, one.status) for one in examples]


def test_a_good_share_of_the_problems_has_kernels_and_all_ways_to_fail_are_there():
    known = set(problems())
    assert set(corpus.PROBLEMS) <= known
    assert len(corpus.PROBLEMS) >= 0.75 * len(known)
    for problem in corpus.PROBLEMS:
        ends = {one.status for one in EVERYTHING if one.problem == problem}
        assert {Status.PASSED, Status.INCORRECT, Status.COMPILE_ERROR, Status.INVALID_SUBMISSION} <= ends


def test_all_examples_differ_and_are_of_the_form_that_is_asked_for():
    assert len({(one.problem, one.source) for one in EVERYTHING}) == len(EVERYTHING)
    for one in EVERYTHING:
        found = extract(wrapped(one.source))
        assert found.source == one.source
        assert found.plan is not None


@given(seed=st.integers(0, 2**31), problem=st.sampled_from(corpus.PROBLEMS), share=st.floats(0, 1))
def test_what_is_drawn_is_one_of_the_examples_and_the_seed_decides(seed, problem, share):
    one = corpus.draw_tasks(random.Random(seed), problem, share)
    assert one in EVERYTHING
    assert one == corpus.draw_tasks(random.Random(seed), problem, share)
    assert one.problem == problem


def test_the_share_of_right_ones_is_what_was_asked_for():
    rng = random.Random(5)
    right = sum(corpus.draw_tasks(rng, "softmax", 0.3).flaw is None for _ in range(2000))
    assert 500 < right < 700


def test_a_kernel_can_have_another_name_and_a_flaw_must_be_its_own():
    style = corpus.styles("relu")[0]
    assert "void solve(" in corpus.render_prompt(style, kernel="solve").source
    with pytest.raises(ValueError, match="no flaw of the style"):
        corpus.render_prompt(style, corpus.styles("softmax")[0].flaws[1])
    with pytest.raises(ValueError, match="no kernels for no_problem"):
        corpus.draw_tasks(random.Random(1), "no_problem", 0.5)
