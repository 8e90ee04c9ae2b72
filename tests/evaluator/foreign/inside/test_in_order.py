"""Sums in order are those of PyTorch, and off by what one accumulator loses."""

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from evaluator.foreign.inside.arithmetic import IN_ORDER
from evaluator.foreign.inside.in_order import OneAccumulator
from evaluator.foreign.inside.operators import SeenOperators, operator_name

Computed = Callable[[torch.Tensor], torch.Tensor]

CASES: dict[str, Computed] = {
    "layer norm": lambda x: functional.layer_norm(x, (2048,), torch.full((2048,), 2.0), torch.ones(2048)),
    "group norm": lambda x: functional.group_norm(x.reshape(4, 16, 2048), 4, torch.full((16,), 2.0)),
    "variance": lambda x: x.var(-1),
    "of all": lambda x: x.std(),
    "deviation": lambda x: x.std(-1, correction=0, keepdim=True),
    "mean and variance": lambda x: torch.stack(torch.var_mean(x, dim=(0, 1))),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "softmax": lambda x: functional.softmax(x, -1),
    "log softmax": lambda x: functional.log_softmax(x, 0),
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean((0, 1)),
    "product": lambda x: x @ x.t(),
}


@pytest.mark.parametrize("name", CASES)
def test_sums_in_order_are_right_and_less_exact(name: str) -> None:
    computed = CASES[name]
    x = torch.randn(64, 2048, generator=torch.Generator().manual_seed(1)) + 0.5
    seen: set[str] = set()

    class Seen(SeenOperators):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            seen.add(operator_name(func))
            return func(*args, **(kwargs or {}))

    with Seen():
        usual = computed(x)
    exact = computed(x.double()) if "norm" not in name else None
    with OneAccumulator():
        found = computed(x)
    assert found.shape == usual.shape
    assert found.dtype is torch.float32
    torch.testing.assert_close(found, usual, rtol=1e-4, atol=1e-4)
    assert seen & IN_ORDER
    if exact is not None:
        error, usual_error = ((one.double() - exact).abs().max() for one in (found, usual))
        assert error >= usual_error
