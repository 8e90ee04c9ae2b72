"""Answers at large sizes: the value alone where that is enough to tell, the whole answer where it is not."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from evaluator.foreign import answers
from evaluator.foreign.loading import foreign_problem
from evaluator.foreign.reference import ReferenceProcess
from evaluator.foreign.torch_text import kernelbench_text, shapes_of
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.arrays import NumpyRng
from evaluator.problems.problem import Arrays, Problem
from evaluator.stages.verify.comparison import Comparison, compare_output

LARGE = 4096


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the file's process is asked for, and 4,096 elements are large."""
    monkeypatch.setattr(answers, "_VALUE_FIRST", LARGE - 1)
    found: list[str] = []
    for name in ("answered", "valued", "valued_if_finite"):
        own = getattr(ReferenceProcess, name)
        monkeypatch.setattr(
            ReferenceProcess, name, lambda *given, own=own, name=name: found.append(name) or own(*given)
        )
    return found


@contextmanager
def stated(expression: str, toolbox: Toolbox) -> Iterator[Problem]:
    text = kernelbench_text(expression, shapes_of(("a=64x32", "b=64x32"))).encode()
    with foreign_problem(text, "torch", toolbox.sandbox, toolbox.cache, backend="gpu") as problem:
        yield problem


def drawn(problem: Problem, seed: int, distribution: int = 0) -> Arrays:
    rng = NumpyRng(np.random.default_rng(seed))
    return problem.distributions[distribution].draw(rng, problem.example_sizes[0])


def compared(problem: Problem, inputs: Arrays, found: np.ndarray) -> Comparison:
    expected = problem.oracle(inputs, problem.example_sizes[0])["out"]
    return compare_output("out", found, expected, problem.tolerance, 0xFF)


def test_after_a_whole_answer_the_value_alone_is_asked_for(toolbox: Toolbox, asked: list[str]) -> None:
    with stated("torch.add(a, b)", toolbox) as problem:
        asked.clear()
        for seed in range(4):
            inputs = drawn(problem, seed)
            assert compared(problem, inputs, inputs["a"] + inputs["b"]).mismatch is None
        assert asked == ["answered", "valued", "valued", "valued"]
        asked.clear()
        inputs = drawn(problem, 5, distribution=2)  # whose answer must be finite whatever is rounded
        assert compared(problem, inputs, inputs["a"] + inputs["b"]).mismatch is None
        assert asked == ["valued_if_finite"]
        asked.clear()
        inputs = drawn(problem, 6)
        wrong = compared(problem, inputs, inputs["a"] + np.float32(1.0001) * inputs["b"])
        assert asked == ["valued", "answered"]
        whole = problem.oracle(inputs, problem.example_sizes[0])["out"]
        assert whole.whole is None
        assert wrong == compare_output(
            "out", inputs["a"] + np.float32(1.0001) * inputs["b"], whole, problem.tolerance, 0xFF
        )


def test_where_terms_cancel_a_right_answer_is_held_against_the_whole_scale(
    toolbox: Toolbox, asked: list[str]
) -> None:
    with stated("torch.sum(a * b, dim=1)", toolbox) as problem:
        asked.clear()
        inputs = drawn(problem, 0)
        inputs["a"][:, 16:], inputs["b"][:, 16:] = -inputs["a"][:, :16], inputs["b"][:, :16]
        # In an order in which single products are left over and nothing cancels exactly.
        found = (inputs["a"] * inputs["b"])[:, np.random.default_rng(1).permutation(32)].cumsum(1)[:, -1]
        assert np.any(found)
        for turn in range(4):
            assert compared(problem, inputs, found).mismatch is None, turn
        # Once it was the scale that decided, the value alone is not tried again.
        assert asked == ["answered", "valued", "answered", "answered", "answered"]


@pytest.mark.parametrize("expression", ["torch.argmax(a + b, dim=1)", "torch.round(a * 8 + b)"])
def test_what_hangs_on_a_rounding_is_held_against_the_whole_answer(
    expression: str, toolbox: Toolbox, asked: list[str]
) -> None:
    with stated(expression, toolbox) as problem:
        asked.clear()
        for seed in range(3):
            inputs = drawn(problem, seed)
            single = inputs["a"] + inputs["b"]
            found = (
                single.argmax(1) if "argmax" in expression else np.round(inputs["a"] * np.float32(8) + inputs["b"])
            )
            assert compared(problem, inputs, found).mismatch is None
        assert asked[0] == "answered"
        assert "valued" in asked


def test_a_value_that_a_rounding_makes_infinite_is_no_answer(toolbox: Toolbox, asked: list[str]) -> None:
    """The root of a difference of two means, which is nothing in a row of one value, and less after a rounding."""
    root = "torch.sqrt(torch.mean(a * a, dim=1) - torch.mean(a, dim=1) ** 2) + torch.mean(b, dim=1)"
    with stated(root, toolbox) as problem:
        sizes, typical = problem.example_sizes[0], drawn(problem, 0)
        compared(problem, typical, np.zeros(64, np.float32))  # a whole answer, which large sizes have once
        asked.clear()
        known = problem.oracle.__self__
        assert known.has_answer(typical, sizes)
        assert not known.has_answer({**typical, "a": np.full_like(typical["a"], 0.5)}, sizes)
        assert asked == ["valued_if_finite"] * 2


def test_small_sizes_have_whole_answers(toolbox: Toolbox, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_VALUE_FIRST", 1 << 22)
    text = (Path(__file__).parent / "references" / "relu.py").read_bytes()
    with foreign_problem(text, "relu.py", toolbox.sandbox, toolbox.cache) as problem:
        asked.clear()
        for seed in range(2):
            assert problem.oracle(drawn(problem, seed), problem.example_sizes[0])["out"].whole is None
        assert asked == ["answered", "answered"]
