"""What a planned trial says of itself, and which verdicts fit a plan."""

import numpy as np
import pytest

from common.contract import Correctness, Settings
from evaluator.problems.catalogue import find_problem
from evaluator.stages.verify.trials import plan_trials, trial_of, unlike


@pytest.mark.parametrize(("problem", "scalar"), [("saxpy", "alpha=-1.75"), ("rms_norm", "eps=1e-05")])
def test_scalars_are_named_at_published_sizes_too(problem, scalar):
    trials = plan_trials(find_problem(problem), Settings(), np.random.default_rng(1), timed_too=True)
    name = scalar.split("=")[0]
    assert any(not trial.hidden for trial in trials)
    for trial in trials:
        assert f", {name}=" in trial.place
        assert trial.hidden or trial.place.endswith(f", {scalar}")
        assert trial_of(trial, True).scalars.keys() == {name}


@pytest.mark.parametrize("published", [{}, {"alpha": -1.75}, {"alpha": 2.0}])
def test_verdicts_fit_their_plan_whether_or_not_they_name_published_scalars(published):
    planned = plan_trials(find_problem("saxpy"), Settings(), np.random.default_rng(1))
    trials = tuple(
        trial_of(one, True).model_copy(update={} if one.scalars else {"scalars": published}) for one in planned
    )
    correctness = Correctness(passed=True, trials=trials, planned_trials=len(planned))
    assert (unlike(correctness, planned, ()) is None) == (published.get("alpha") != 2.0)
