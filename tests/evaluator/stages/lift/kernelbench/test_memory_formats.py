"""How tensors are stored, as the stand-ins for PyTorch know it: as PyTorch itself says."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from evaluator.stages.lift.kernelbench.inside import script, tensors
from evaluator.stages.lift.kernelbench.inside.layout import lies_as, packed_strides

FORMATS = {
    "contiguous": torch.contiguous_format,
    "channels_last": torch.channels_last,
    "channels_last_3d": torch.channels_last_3d,
}
VIEWS = {
    "itself": lambda x: x,
    "transposed": lambda x: x.t(),
    "twice": lambda x: x.t().t(),
    "permuted": lambda x: x.permute(1, 0),
    "unsqueezed": lambda x: x.unsqueeze(0).transpose(1, 2),
    "squeezed": lambda x: x.t().unsqueeze(2).squeeze(),
    "moved by one": lambda x: x.unsqueeze(0).transpose(0, 1),
    "viewed": lambda x: x.view(3, 2),
}


@pytest.fixture
def passed() -> Iterator[tensors.PassedTensor]:
    script.CURRENT[:] = [script.Script()]
    yield tensors.PassedTensor((2, 3), script.DTYPES["float32"], 0)
    script.CURRENT.clear()


@pytest.mark.parametrize(
    "shape", [(), (3,), (1, 3), (2, 1, 3), (2, 3, 4, 5), (2, 1, 4, 5), (2, 3, 1, 1), (1, 2, 3, 4, 5)]
)
def test_a_format_is_recognised_in_every_order_of_the_dimensions(shape: tuple[int, ...]) -> None:
    whole = torch.empty(shape)
    assert packed_strides(shape) == whole.stride()
    for order in itertools.permutations(range(len(shape))):
        view = whole.permute(order)
        for name, memory_format in FORMATS.items():
            wanted = view.is_contiguous(memory_format=memory_format)
            assert lies_as(tuple(view.shape), view.stride(), name) == wanted, (order, name)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_stored_as_pytorch_has_it(name: str, passed: Any) -> None:
    ours, theirs = VIEWS[name](passed), VIEWS[name](torch.empty(2, 3))
    assert (tuple(ours.shape), ours.is_contiguous()) == (tuple(theirs.shape), theirs.is_contiguous())
    kept = [at for at, extent in enumerate(theirs.shape) if extent > 1]
    assert [ours.stride(at) for at in kept] == [theirs.stride(at) for at in kept]
