"""Figures of conversations whose outcomes are known, and what nobody measured."""

import re
from pathlib import Path

import pytest
import sample_verdicts as samples
from evaluated import answered, estimated, failed, on_gpu, task, timed
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.evaluation.measures import (
    FIGURES,
    NOT_TIMED,
    MeasureSettings,
    figures_of,
    judged_outcome,
    named,
    pass_curve,
    problem_results,
)
from trainer.evaluation.statistics import pass_at_k, wilson


def figures(answers, **more):
    return figures_of([one for each in answers if (one := judged_outcome(each))], MeasureSettings(**more))


def test_shares_are_of_conversations_or_answers_and_have_wilsons_intervals():
    found = figures(
        [
            answered(task(1), "wrong", "pass"),
            answered(task(2), "compile"),
            answered(task(3), "pass"),
            answered(task(4), " no kernel here", ""),
        ]
    )
    assert (found["pass@1"].value, found["pass@1"].of) == (0.5, 4)
    assert (found["pass@1"].low, found["pass@1"].high) == wilson(2, 4)
    assert found["pass_rate/first"].value == 0.25
    # Three of six answers compile: a wrong kernel does.
    assert (found["compile_rate"].value, found["compile_rate"].of) == (0.5, 6)
    assert found["format_error_rate"].value == pytest.approx(2 / 6)
    assert found["empty_rate"].value == pytest.approx(1 / 6)
    assert found["turns"].value == 1.5
    assert found["cut_rate"].value == 0


def test_pass_at_k_is_of_each_tasks_answers():
    asked = [task(1), task(2)]
    kinds = {asked[0].id: "pass wrong wrong wrong", asked[1].id: "pass pass wrong wrong"}
    answers = [
        answered(one, kind, sample=number) for one in asked for number, kind in enumerate(kinds[one.id].split())
    ]
    found = figures(answers, ks=(1, 2, 4, 5), samples=4)
    for k in (1, 2, 4):
        assert found[f"pass@{k}"].value == pytest.approx((pass_at_k(4, 1, k) + pass_at_k(4, 2, k)) / 2)
    assert (found["pass@5"].value, found["pass@5"].why_not) == (None, "fewer than 5 answers to each task")
    outcomes = [judged_outcome(one) for one in answers]
    curve = pass_curve(outcomes, MeasureSettings())
    assert [one.value for one in curve] == sorted(one.value for one in curve)
    assert len(curve) == 4
    # (4 + 1) / (1 + 1) and (4 + 1) / (2 + 1), of one problem: three right of eight.
    assert found["first_pass"].value == pytest.approx(9 / 4)


def test_fast_p_is_kernelbenchs_and_counts_only_what_is_faster():
    answers = [
        answered(task(1), timed(1.0)),
        answered(task(2), timed(1.2)),
        answered(task(3), timed(1.3), timed(2.5)),
        answered(task(4), on_gpu(samples.incorrect())),
    ]
    found = figures(answers, timed_problems=frozenset(["row_sum"]))
    assert [found[f"fast_{p}/eager"].value for p in ("1", "1.2", "2")] == [0.5, 0.25, 0.25]
    assert found["speedup/eager"].value == 1.2
    assert found["speedup/compile"].why_not == "not measured here: no verdict has this baseline"
    assert found["sol_score"].value == pytest.approx(0.702)


def test_baselines_of_others_are_each_measured_beside_the_kernel():
    # The kernel takes 18.4 us.
    answers = [answered(task(1), timed(1.62, eager=36.8, compile=9.2)), answered(task(2), timed(1.62, eager=9.2))]
    found = figures(answers, timed_problems=frozenset(["row_sum"]), baselines=("compile",))
    assert found["speedup/eager"].value == pytest.approx((2.0 + 0.5) / 2)
    assert (found["speedup/compile"].value, found["speedup/compile"].of) == (0.5, 1)
    assert (found["fast_1/eager"].value, found["fast_1/compile"].value, found["fast_1/compile"].of) == (0.5, 0.0, 1)


def test_what_no_gpu_timed_is_not_measured_and_never_0():
    found = figures([answered(task(1), estimated(1.5)), answered(task(2), "wrong")])
    for name in ("fast_1/eager", "fast_1.2/eager", "fast_2/eager", "speedup/eager", "speedup/compile", "sol_score"):
        assert (found[name].value, found[name].why_not) == (None, NOT_TIMED), name
    assert found["speedup/naive"].value == 1.5
    none_right = figures([answered(task(2), "wrong")])
    assert none_right["speedup/naive"].why_not == "no kernel is right"
    assert none_right["first_pass"].why_not == "no right kernel for 1 of 1 problems"
    assert figures([failed(task(1))])["pass@1"].why_not == "no conversation could be judged"


def test_problems_that_the_simulator_alone_judges_are_in_no_fast_p():
    answers = [answered(task(1), timed(3.0)), answered(task(2, "relu"), "wrong"), answered(task(3, "relu"), "pass")]
    found = figures(answers, timed_problems=frozenset(["row_sum"]))
    assert (found["fast_1/eager"].value, found["fast_1/eager"].of) == (1.0, 1)


def test_a_kernel_that_is_wrong_at_held_out_sizes_only_is_a_regression():
    hidden = samples.incorrect().model_copy(
        update={
            "correctness": samples.passed().correctness.model_copy(
                update={
                    "passed": False,
                    "trials": (samples.trial(), samples.trial({"rows": 7, "cols": 33}, hidden=True, passed=False)),
                }
            )
        }
    )
    found = figures([answered(task(1), hidden), answered(task(2), "pass"), answered(task(3), "compile")])
    assert (found["regression_rate"].value, found["regression_rate"].of) == (0.5, 2)


KINDS = st.sampled_from(["pass", "fast", "wrong", "compile", "timeout", "cheat", " words", ""])
TALKS = st.lists(st.tuples(st.integers(0, 3), st.lists(KINDS, min_size=1, max_size=3)), min_size=1, max_size=8)


@settings(max_examples=40)
@given(TALKS, st.lists(st.integers(0, 3), max_size=4))
def test_faults_of_the_evaluator_change_no_figure(talks, faulty):
    answers = [answered(task(number), *kinds, sample=place) for place, (number, kinds) in enumerate(talks)]
    more = [failed(task(number), sample=100 + place) for place, number in enumerate(faulty)]
    more.append(answered(task(9), "wrong", "odd"))
    judged = {"timed_problems": frozenset(["row_sum"]), "ks": (1, 2)}
    assert figures([*answers, *more], **judged) == figures(answers, **judged)


@settings(max_examples=40)
@given(TALKS)
def test_every_figure_has_a_name_and_lies_within_its_interval(talks):
    answers = [answered(task(number), *kinds, sample=place) for place, (number, kinds) in enumerate(talks)]
    for cluster in ("task", "problem"):
        found = figures(answers, timed_problems=frozenset(["row_sum"]), ks=(1, 2), clustered_by=cluster)
        for name, figure in found.items():
            assert all(named(name))
            if figure.low is not None:
                assert figure.low - 1e-9 <= figure.value <= figure.high + 1e-9, name
            if figure.value is not None and named(name)[2] == "share":
                assert 0 <= figure.value <= 1


def test_an_unsupported_kernel_beside_a_right_one_is_no_reason_to_leave_the_conversation_out():
    assert judged_outcome(answered(task(1), "odd", "pass")).passed
    assert judged_outcome(answered(task(1), "odd", "wrong")) is None
    assert judged_outcome(failed(task(1))) is None


def test_a_problem_has_its_share_and_its_speed():
    outcomes = [
        judged_outcome(one)
        for one in (answered(task(1), timed(2.0)), answered(task(2), "wrong"), answered(task(3, "relu"), "pass"))
    ]
    first, second = problem_results(outcomes, "wordings")
    assert (first.problem, first.conversations, first.passed, first.speedup) == ("row_sum", 2, 1, 2.0)
    assert (second.problem, second.passed, second.speedup) == ("relu", 1, None)


def test_the_training_page_lists_every_figure():
    page = (Path(__file__).parents[3] / "docs" / "training.md").read_text(encoding="utf-8")
    section = page.split("## Evaluation")[1].split("## Measures")[0]
    listed = dict(re.findall(r"^\| `([a-z_/]+|pass@1)` \| (.*) \|$", section, re.MULTILINE))
    sets = {"wordings", "shapes", "untaught", "families", "references"}
    assert {name: meaning for name, meaning in listed.items() if name not in sets} == {
        name: meaning for name, (_, meaning, _) in FIGURES.items()
    }
    assert sets <= set(listed)
