"""Strides and memory formats, as PyTorch has them; and what its modules without parameters are made with."""

import inspect
import random

import pytest

from evaluator.stages.lift.kernelbench.inside.layout import (
    CHANNELS_LAST,
    CHANNELS_LAST_3D,
    CONTIGUOUS,
    is_dense,
    lies_as,
    packed_strides,
    permuted_to,
    strides_like,
)
from evaluator.stages.lift.kernelbench.inside.names import INITIALISING, broadcast
from evaluator.stages.lift.kernelbench.inside.plain_layers import MADE_WITH, attributes_of

torch = pytest.importorskip("torch")
FORMATS = {
    CONTIGUOUS: torch.contiguous_format,
    CHANNELS_LAST: torch.channels_last,
    CHANNELS_LAST_3D: torch.channels_last_3d,
}
RANKS = {CHANNELS_LAST: 4, CHANNELS_LAST_3D: 5}


def viewed(numbers):
    """A tensor of random sizes that was transposed, cut, expanded or allocated in another format."""
    x = torch.empty(
        [numbers.choice([1, 1, 2, 3, 4]) for _ in range(numbers.choice([1, 2, 3, 4, 4, 5]))], device="meta"
    )
    for _ in range(numbers.randrange(4)):
        dim = numbers.randrange(x.dim())
        match numbers.choice(["permute", "narrow", "step", "expand", "format"]):
            case "permute":
                x = x.permute(*numbers.sample(range(x.dim()), x.dim()))
            case "narrow":
                x = x.narrow(dim, 0, numbers.randint(1, x.shape[dim]))
            case "step":
                x = x.transpose(0, dim)[..., ::2]
            case "expand":
                x = x.expand([extent if extent > 1 else numbers.choice([1, 3]) for extent in x.shape])
            case "format" if x.dim() == 4:
                x = torch.empty(x.shape, memory_format=torch.channels_last, device="meta")
    return x


def test_strides_are_those_of_pytorch():
    numbers = random.Random(5)
    for _ in range(2000):
        x = viewed(numbers)
        shape, strides = tuple(x.shape), x.stride()
        for name, of_torch in FORMATS.items():
            if RANKS.get(name, x.dim()) == x.dim():
                assert lies_as(shape, strides, name) == x.is_contiguous(memory_format=of_torch), (shape, strides)
        assert is_dense(shape, strides) == torch.ops.aten.is_non_overlapping_and_dense(x), (shape, strides)
        like = strides_like(shape, strides)
        theirs = torch.empty_like(x).stride()
        assert all(e == 1 or a == b for e, a, b in zip(shape, like, theirs, strict=True)), (shape, strides)


@pytest.mark.parametrize("name", [CHANNELS_LAST, CHANNELS_LAST_3D])
def test_a_format_is_an_order_of_dimensions(name):
    shape = (2, 3, 4, 5, 6)[: RANKS[name]]
    theirs = torch.empty(shape, memory_format=FORMATS[name], device="meta")
    assert packed_strides(shape, name) == theirs.stride()
    there, back = permuted_to(name)
    assert theirs.permute(there).is_contiguous()
    assert theirs.permute(there).permute(back).stride() == theirs.stride()
    with pytest.raises(RuntimeError, match="required rank"):
        packed_strides((2, 3), name)


def test_operators_give_the_shapes_that_pytorchs_give():
    for one, other in (((2, 3), (3,)), ((4, 1), (1, 5)), ((), (2,)), ((1,), (7, 1, 3))):
        assert broadcast(one, other) == tuple(torch.broadcast_shapes(one, other))
    with pytest.raises(ValueError, match="do not broadcast"):
        broadcast((2,), (3,))


def test_what_initialises_knows_the_fans_and_gains_of_pytorch():
    for shape in ((3, 5), (4, 6, 3, 3)):
        weight = torch.empty(shape)
        fans = torch.nn.init._calculate_fan_in_and_fan_out(weight)
        assert INITIALISING["_calculate_fan_in_and_fan_out"](weight) == fans
    for given in (("relu",), ("tanh",), ("selu",), ("leaky_relu", 0.2), ("leaky_relu",), ("linear",)):
        assert INITIALISING["calculate_gain"](*given) == torch.nn.init.calculate_gain(*given)


def test_modules_without_parameters_are_made_as_pytorchs():
    for name, signature in MADE_WITH.items():
        theirs = [
            (one.name, one.default)
            for one in inspect.signature(getattr(torch.nn, name)).parameters.values()
            if one.kind is one.POSITIONAL_OR_KEYWORD
        ]
        assert [(one.name, one.default) for one in signature.parameters.values()] == theirs, name
    assert attributes_of("MaxPool2d", (3,), {"padding": 1})["stride"] == 3
    assert attributes_of("LeakyReLU", (0.2,), {}) == {"negative_slope": 0.2, "inplace": False}
    with pytest.raises(TypeError):
        attributes_of("MaxPool2d", (), {})
