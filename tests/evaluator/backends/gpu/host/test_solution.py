import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from evaluator.backends.gpu.host.inside.extensions import PrebuiltModules
from evaluator.backends.gpu.host.inside.solution import LoadedText, Tensors

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Operators(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.names.append(str(operator))
        return operator(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("given", "launched"),
    [
        ((), {"aten.copy_.default": 2}),
        (("y",), {"aten.copy_.default": 1}),
        # A device turns to a process for its first launch: a null submission without one would be spared that.
        (("y", "z"), {"aten.add_.Tensor": 1}),
    ],
)
def test_a_null_submission_uses_the_device_whatever_it_is_given(given, launched):
    null = LoadedText("null", "", torch.device("cpu"), PrebuiltModules({}), ("", [("t", name) for name in given], []))
    outputs = {"y": torch.ones(5), "z": torch.ones(2, 3)}
    assert null.prepare(Tensors({"x": torch.ones(5)}, outputs), {"n": 5}, {}) == "nothing"
    with Operators() as operators:
        null.deliver(null.call())
    assert {name: operators.names.count(name) for name in launched} == launched
    assert all(bool((one == (1.0 if name in given else 0.0)).all()) for name, one in outputs.items())
