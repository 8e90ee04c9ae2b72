"""Two systems on the same tasks: differences by hand, by symmetry, and against themselves."""

import pytest
from evaluated import answered, failed, reported, task, timed
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.evaluation.comparison import compared
from trainer.evaluation.measures import MeasureSettings, judged_outcome
from trainer.evaluation.statistics import holm, mcnemar

SETTINGS = MeasureSettings(timed_problems=frozenset(["row_sum"]))
KINDS = st.sampled_from(["pass", "fast", "wrong", "compile", " words"])


def outcomes(kinds):
    return [judged_outcome(answered(task(number), kind)) for number, kind in enumerate(kinds)]


def by_name(comparison):
    return {one.name: one for one in comparison.figures}


def test_differences_are_over_the_tasks_that_both_were_judged_on():
    first = outcomes(["pass", "wrong", "wrong", "compile", "wrong"])
    second = outcomes(["pass", "pass", "pass", "wrong"])
    found = compared(("a", "b"), first, second, SETTINGS, asked=6)
    assert (found.tasks, found.left_out) == (4, 2)
    figures = by_name(found)
    assert (figures["pass@1"].first, figures["pass@1"].second) == (0.25, 0.75)
    assert (figures["pass@1"].difference.value, figures["pass@1"].difference.of) == (0.5, 4)
    assert figures["compile_rate"].difference.value == 0.25
    test = found.mcnemar
    assert (test.both, test.only_first, test.only_second, test.neither) == (1, 0, 2, 1)
    assert test.p == mcnemar(0, 2) == 0.5


def test_speed_is_compared_where_both_are_right_as_a_ratio():
    first = [judged_outcome(answered(task(number), timed(speed))) for number, speed in enumerate((1.0, 2.0, 4.0))]
    second = [judged_outcome(answered(task(number), timed(speed))) for number, speed in enumerate((2.0, 2.0, 16.0))]
    found = by_name(compared(("a", "b"), first, second, SETTINGS, asked=3))["speedup/eager"]
    assert found.difference.value == pytest.approx(2.0)
    assert (found.first, found.second, found.difference.of) == (2.0, 2.0, 3)
    none = compared(("a", "b"), first, outcomes(["wrong"] * 3), SETTINGS, asked=3)
    assert "speedup/eager" not in by_name(none)


@settings(max_examples=30)
@given(st.lists(st.tuples(KINDS, KINDS), min_size=1, max_size=8))
def test_the_other_way_round_it_is_the_opposite_and_nobody_differs_from_itself(pairs):
    first, second = outcomes([one for one, _ in pairs]), outcomes([other for _, other in pairs])
    there = compared(("a", "b"), first, second, SETTINGS, asked=len(pairs))
    back = compared(("b", "a"), second, first, SETTINGS, asked=len(pairs))
    for one, other in zip(there.figures, back.figures, strict=True):
        if not one.name.startswith("speedup/"):
            assert one.difference.value == pytest.approx(-other.difference.value)
            assert one.difference.value == pytest.approx(one.second - one.first)
    assert there.mcnemar.p == back.mcnemar.p
    counts = there.mcnemar
    assert counts.both + counts.only_first + counts.only_second + counts.neither == len(pairs)
    same = compared(("a", "a"), first, first, SETTINGS, asked=len(pairs))
    assert same.mcnemar.p == 1
    assert {one.difference.value for one in same.figures} <= {0.0, 1.0}


def test_more_than_one_answer_to_a_task_is_no_more_tests():
    def four(kind):
        return [judged_outcome(answered(task(0), kind, sample=number)) for number in range(4)]

    found = compared(("a", "b"), four("wrong"), four("pass"), SETTINGS, asked=1)
    assert (found.mcnemar.only_second, found.mcnemar.p) == (1, 1.0)
    assert by_name(found)["pass@1"].difference.low is None, "one task says nothing of others"


def test_all_comparisons_of_a_report_share_one_chance_of_a_false_finding():
    tasks = [task(number) for number in range(8)]
    answers = {
        "base": [answered(one, "wrong") for one in tasks],
        "tuned": [answered(one, "pass") for one in tasks[:7]] + [failed(tasks[7])],
        "other": [answered(one, "pass" if at < 2 else "wrong") for at, one in enumerate(tasks)],
    }
    report = reported(answers, tasks)
    pairs = [(one.first, one.second) for one in report.comparisons]
    assert pairs == [("base", "tuned"), ("base", "other"), ("tuned", "other")]
    ps = [one.mcnemar.p for one in report.comparisons]
    assert ps[0] == pytest.approx(2 / 2**7)
    assert [one.mcnemar.p_adjusted for one in report.comparisons] == list(holm(ps))
    assert [one.left_out for one in report.comparisons] == [1, 0, 1]
