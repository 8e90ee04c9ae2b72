"""What of a call a program sees before the referee's clock runs."""

import pytest
import torch
from stand_in_host import StandInSide

from common.wire import DType
from evaluator.backends.gpu.host.process import RunnableText
from evaluator.backends.gpu.host.session import Stand
from evaluator.backends.session import CallTensor, SubmissionCall

CALL = SubmissionCall(
    {"n": 4},
    {},
    tuple(CallTensor(name, role, DType.FLOAT32, (4,)) for name, role in (("x", "input"), ("y", "output"))),
)


class Process:
    """One that does nothing when it is called."""

    alive = True

    def load(self, *_):
        pass

    share = go = load

    def prepare(self, *_):
        return "nothing"


@pytest.mark.parametrize("late", [False, True])
def test_inputs_that_come_late_are_not_there_before_the_clock(late):
    stand = Stand("submission", Process(), StandInSide(), RunnableText("null", ""))
    stand.prepare(CALL, 1.0)
    old, new = torch.zeros(4), torch.ones(4)
    stand.run({"x": old}, 0, 1.0, lambda: None)
    seen = []
    stand.run({"x": new}, 0, 1.0, lambda: seen.append(stand.contents()["x"].view(torch.float32).clone()), late)
    assert torch.equal(seen[0], old if late else new)
    assert torch.equal(stand.contents()["x"].view(torch.float32), new)
    stand.close(end_process=False)
