"""Moves of Monte Carlo arithmetic: of the right size, the same however many threads draw them, in few passes."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from evaluator.foreign.inside import operators
from evaluator.foreign.inside.operators import MeanSquare, Noise
from evaluator.foreign.inside.server import ReferenceServer


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_each_element_moves_by_a_rounding_in_the_mean_square(dtype: torch.dtype) -> None:
    values = torch.randn(100_003).to(dtype)
    moves = (Noise(1).moved(values) / values.double() - 1.0) / operators.ROUNDING
    assert float(moves.square().mean()) == pytest.approx(1.0, abs=0.01)
    assert float(moves.abs().max()) <= 1.7321
    assert abs(float(moves.mean())) < 0.01
    assert abs(float((moves[1:] * moves[:-1]).mean())) < 0.01
    in_place = values.double().clone()
    Noise(1).move(in_place)
    assert torch.equal(in_place, Noise(1).moved(values))
    assert torch.equal(in_place, values.double() * Noise(1).factors(values.shape))


def test_the_number_of_threads_changes_nothing_and_pieces_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    values = torch.ones(5, 1000)
    monkeypatch.setattr(operators, "_PIECE", 700)
    monkeypatch.setattr(operators, "_BLOCK", 300)
    found = []
    for threads in (1, 3):
        with ThreadPoolExecutor(threads) as pool:
            monkeypatch.setattr(operators, "_threads", lambda pool=pool: pool)
            drawn = Noise(7)
            found.append([drawn.moved(values), drawn.moved(values)])
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))
    assert found[0][0].unique().numel() > 4900
    assert not torch.equal(*found[0])


def test_tensors_that_do_not_lie_in_a_row_are_moved_too() -> None:
    values = torch.arange(1.0, 13.0, dtype=torch.float64).reshape(3, 4).T
    before = values.clone()
    Noise(1).move(values)
    assert bool(((values / before - 1.0).abs() <= 1.7321 * operators.ROUNDING).all())
    assert bool((values != before).all())


def test_what_is_infinite_in_both_has_not_moved() -> None:
    exact = torch.tensor([1.0, float("inf"), 3.0, float("inf")], dtype=torch.float64)
    squares = MeanSquare(exact, 2)
    squares.add(exact)
    squares.add(torch.tensor([1.0, float("inf"), 3.0 + operators.ROUNDING, 1.0]))
    assert squares.scale()[:2].tolist() == [1.0, float("inf")]
    squares = MeanSquare(torch.tensor([3.0]), 2)
    for by in (-4.0, 4.0):
        squares.add(torch.tensor([3.0], dtype=torch.float64) + by * operators.ROUNDING)
    assert float(squares.scale()) == pytest.approx(5.0)


class _FullSize(TorchDispatchMode):
    """Counts operators whose result is as large as the inputs."""

    def __init__(self, elements: int) -> None:
        super().__init__()
        self._elements, self.count = elements, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        self.count += not func.is_view and isinstance(made, torch.Tensor) and made.numel() >= self._elements
        return made


def test_an_answer_passes_few_times_over_its_tensors() -> None:
    """Of millions of elements each pass costs what moving them does: nine runs of one sum once had 137 of them."""
    text = (
        "import torch\nfrom torch import nn\nclass Model(nn.Module):\n    def forward(self, x, y):\n"
        "        return x + y\ndef get_inputs():\n    return [torch.randn(4096), torch.randn(4096)]\n"
    )
    here = ReferenceServer(text, 1 << 20)
    seen = _FullSize(4096)
    with seen:
        here.answered({"x": torch.randn(4096), "y": torch.randn(4096)})
    assert seen.count <= 50
