"""What a ModelNew is made and called with, on tensors of any kind."""

import pytest
import torch

from evaluator.backends.model_binding import MisfitError, call_arguments, init_arguments, state_as_inputs


def of(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype)


@pytest.mark.parametrize(
    ("state", "inputs", "bound"),
    [
        ({"conv.weight": of(2, 3)}, {"other": of(2, 3), "conv_weight": of(2, 3)}, {"conv.weight": "conv_weight"}),
        ({"weight": of(6)}, {"weight": of(2, 3)}, {"weight": "weight"}),
        ({"a": of(3), "b": of(3)}, {"first": of(3), "second": of(3)}, {"a": "first", "b": "second"}),
        ({"a": of(6)}, {"first": of(2, 3)}, {}),
        ({"a": of(3)}, {"half": of(3, dtype=torch.float16), "same": of(3)}, {"a": "same"}),
        ({"a": of(3)}, {"half": of(3, dtype=torch.float16)}, {"a": "half"}),
        ({"batches": of(dtype=torch.int64)}, {"alpha": of()}, {}),
    ],
)
def test_parameters_are_inputs_by_name_and_then_by_shape(state, inputs, bound):
    names = {id(one): name for name, one in state.items()}
    found = [(names[id(one)], name, shape) for one, name, shape in state_as_inputs(state.items(), inputs)]
    assert {one: name for one, name, _ in found} == bound
    assert all(shape == tuple(state[one].shape) for one, _, shape in found)


def test_arguments_are_bound_by_name_and_then_in_order():
    tensors = {"x": 1, "weight": 2}
    assert call_arguments(lambda weight, data, n, eps=1e-5: None, tensors, {"n": 7}) == (
        [2, 1, 7, 1e-5],
        ["weight", "x"],
    )
    assert call_arguments(lambda *all_of_them: None, tensors, {}) == ([1, 2], ["x", "weight"])
    with pytest.raises(MisfitError, match="takes 'more', and the problem has x, weight"):
        call_arguments(lambda x, weight, more: None, tensors, {})


@pytest.mark.parametrize(
    ("given", "arguments"),
    [([1, 2], ([1, 2], {})), ({"a": 1}, ((), {"a": 1})), ([[1], {"a": 2}], ([1], {"a": 2})), (3, ((3,), {}))],
)
def test_a_model_is_made_with_what_get_init_inputs_gives(given, arguments):
    assert init_arguments(given) == arguments
