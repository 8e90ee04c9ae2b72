"""A step that is not worth learning from: without verdicts, or with nothing to compare."""

from types import SimpleNamespace

import pytest

from trainer.errors import OracleLost
from trainer.rl.batch import refuse_without_verdicts

JUDGED = SimpleNamespace(seat=SimpleNamespace(step=3), conversation="a conversation", left_out=None)
LEFT_OUT = SimpleNamespace(seat=JUDGED.seat, conversation=None, left_out="no useful answer for 600 s")
FAILED = SimpleNamespace(seat=JUDGED.seat, conversation=None, left_out=None)


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([JUDGED] * 36 + [LEFT_OUT] * 5, "5 of 41 conversations of step 3"),
        ([JUDGED] * 17 + [LEFT_OUT] * 3, "3 of 20"),
        ([LEFT_OUT], "1 of 1"),
        ([LEFT_OUT, FAILED], "1 of 2"),
    ],
)
def test_a_step_with_too_few_verdicts_ends_the_run(outcomes, said):
    with pytest.raises(OracleLost, match=said) as caught:
        refuse_without_verdicts(outcomes, 0.1)
    assert "allows 10%" in str(caught.value)
    assert "600 s" in str(caught.value)
    assert "checkpoint" in caught.value.remedy


@pytest.mark.parametrize(
    "outcomes", [[], [JUDGED], [FAILED], [JUDGED] * 18 + [LEFT_OUT] * 2, [JUDGED] + [LEFT_OUT] * 3]
)
def test_a_step_with_enough_of_them_goes_on(outcomes):
    refuse_without_verdicts(outcomes, 0.1)
