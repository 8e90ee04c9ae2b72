"""Modules that hold parameters and compute nothing: what a solution may ask them, and what is refused."""

from typing import Any

import pytest

from evaluator.stages.lift.kernelbench.inside.allocation import allocated, drawn_tensor
from evaluator.stages.lift.kernelbench.inside.layers import TensorForm, layers_of
from evaluator.stages.lift.kernelbench.inside.script import UnrecordableError, operator_called
from evaluator.stages.lift.kernelbench.inside.tensors import PassedTensor
from evaluator.stages.lift.kernelbench.inside.torch_module import HeldParameter

FORM = TensorForm(PassedTensor, HeldParameter, drawn_tensor, allocated(0.0), allocated(1.0), operator_called)


@pytest.fixture
def nn() -> dict[str, Any]:
    return layers_of(FORM)


def test_what_a_layer_was_made_with_is_known_or_refused_by_its_name(nn: dict[str, Any]) -> None:
    assert (nn["LeakyReLU"](0.2).negative_slope, nn["LeakyReLU"]().negative_slope) == (0.2, 0.01)
    assert (nn["Dropout"](p=0.1).p, nn["Softmax"](dim=1).dim) == (0.1, 1)
    for ask in (
        lambda: nn["MaxPool2d"](2).of_nobody,
        lambda: nn["Linear"](2, 3).register_forward_hook(print),
        lambda: nn["Module"]()._parameters,
    ):
        with pytest.raises(UnrecordableError):
            ask()


def test_a_module_is_made_before_it_holds_or_is_called(nn: dict[str, Any]) -> None:
    class Unmade(nn["Module"]):
        def __init__(self, holds: bool) -> None:
            if holds:
                self.linear = nn["Linear"](2, 3)

    class Made(nn["Module"]):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn["Sequential"](nn["Linear"](2, 3), nn["ReLU"]())

    with pytest.raises(AttributeError, match=r"cannot assign module before Module.__init__\(\) call"):
        Unmade(True)
    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Unmade(False)(1)
    assert [name for name, _ in Made().named_modules()] == ["", "layers", "layers.0", "layers.1"]
    assert [name for name, _ in Made().named_parameters()] == ["layers.0.weight", "layers.0.bias"]
    with pytest.raises(AttributeError):
        Made().of_nobody  # noqa: B018
