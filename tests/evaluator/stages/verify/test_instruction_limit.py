"""How many instructions a run may execute, held against what naive kernels were counted to take."""

import pytest

from evaluator.problems.catalogue import problems
from evaluator.stages.profile.naive_counters import naive_counts
from evaluator.stages.verify.instruction_limit import instruction_limit, naive_instructions, times_naive

LANES = 8


@pytest.mark.parametrize("problem", problems().values(), ids=lambda problem: problem.id)
def test_the_figures_are_those_that_were_counted(problem):
    for sizes in (problem.example_sizes[0], problem.timing_sizes):
        counts = naive_counts(problem, sizes)
        launches = counts.evidence.launches
        counted = max(
            sum(one.thread_instructions for one in launches), LANES * sum(one.warp_instructions for one in launches)
        )
        assert naive_instructions(problem, sizes) == pytest.approx(counted, rel=0.16)
        assert instruction_limit(problem, sizes) >= 90 * counted


def test_a_small_run_may_execute_a_thousand_million():
    vector_add = problems()["vector_add"]
    assert instruction_limit(vector_add, {"n": 1}) == 10**9
    assert instruction_limit(vector_add, {"n": 10**8}) > 10**10
    assert times_naive(vector_add, {"n": 10**8}) == "100 times what the naive kernel takes"
