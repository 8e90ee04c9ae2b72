"""What callers read who gave what cannot be."""

import math

import pytest

from evaluator.errors import WrongArgumentError
from evaluator.validation_messages import checked_submission


def step(**given):
    return {"steps": [{"kind": "launch", "kernel": "k", "grid": [1], "block": [1], "args": [], **given}]}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"settings": {"max_launches": 1.5}}, "settings.max_launches must be an integer."),
        ({"settings": {"sizes": {"n": "x"}}}, "settings.sizes.n must be an integer."),
        ({"settings": {"timing_precision": math.nan}}, "settings.timing_precision must be a number."),
        ({"settings": {"timing_precision": math.inf}}, "settings.timing_precision must be at most 0.1."),
        ({"plan": step(grid=[1.5])}, "plan.steps[0].grid[0] must be an integer or an expression."),
        ({"plan": step(grid=[[]])}, "plan.steps[0].grid[0] must be an integer or an expression."),
        ({"plan": {"steps": [{}]}}, "plan.steps[0] has no kind."),
    ],
    ids=["launches", "size", "not_a_number", "infinity", "fraction", "list", "no_kind"],
)
def test_a_value_that_cannot_be_is_named_with_what_could(given, said):
    with pytest.raises(WrongArgumentError) as refused:
        checked_submission({"problem": "relu", "source": "// x", **given})
    assert str(refused.value).endswith(said)
