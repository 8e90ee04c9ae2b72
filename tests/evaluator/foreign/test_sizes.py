"""Which constants of a file can vary, by files that are functions here."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from common.wire import DType
from evaluator.foreign.description import Description, DrawnAs, TensorFacts
from evaluator.foreign.reference import ReferenceEndedError, ReferenceRefusedError, ReferenceTooLargeError
from evaluator.foreign.sizes import Described, VariedSizes, afforded, drawn_sizes, learned_sizes

Shapes = Callable[..., tuple[tuple[int, ...], tuple[int, ...]]]


def described_by(shapes: Shapes, published: Mapping[str, int], most: int = 1 << 40) -> Described:
    """A file with one input and one output, which refuses what `shapes` asserts."""

    def facts(name: str, shape: tuple[int, ...], kind: Any) -> TensorFacts:
        return TensorFacts(name, DType.FLOAT32, shape, DrawnAs("normal"), kind)

    def described(changed: Mapping[str, int]) -> Description:
        sizes = {**published, **changed}
        try:
            x, out = shapes(**sizes)
        except AssertionError as error:
            raise ReferenceRefusedError("it fails") from error
        elements = int(np.prod(x))
        if elements > most:
            raise ReferenceTooLargeError("too large", published)
        return Description(
            (facts("x", x, "argument"),),
            (facts("out", out, "output"),),
            sizes,
            elements,
            1,
            "2",
            tuple(published),
            reducible=published,
        )

    return described


def grouped(features: int, groups: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    assert features % groups == 0
    return (5, features), (features * 5,)


def only_at_64(n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    assert n == 64
    return (n,), (n,)


@pytest.mark.parametrize(
    ("shapes", "published", "steps", "x", "out"),
    [
        (lambda m, k: ((m, k), (m * k + 0,)), {"m": 5, "k": 12}, {"m": 1, "k": 1}, ("m", "k"), ("m * k",)),
        (lambda m, k: ((m, k), (m + k, 2 * m)), {"m": 5, "k": 12}, {"m": 1, "k": 1}, ("m", "k"), ("m + k", "2 * m")),
        (lambda h: ((h, 3), ((h - 2) // 2 + 1, h - 1)), {"h": 9}, {"h": 1}, ("h", "3"), ("h // 2", "h - 1")),
        (lambda h, k: ((h, k), ((h - k) // 2 + 1,)), {"h": 9, "k": 3}, {"h": 1}, ("h", "3"), ("(h - 1) // 2",)),
        (grouped, {"features": 64, "groups": 4}, {"features": 4}, ("5", "features"), ("5 * features",)),
        (lambda n, axis: ((n, 4), (n, 4)[:axis]), {"n": 7, "axis": 1}, {"n": 1}, ("n", "4"), ("n",)),
        (only_at_64, {"n": 64}, {}, ("64",), ("64",)),
        (lambda n: ((n,), (n * n,)), {"n": 6}, {}, ("6",), ("36",)),
    ],
)  # fmt: skip
def test_formulas(
    shapes: Shapes, published: dict[str, int], steps: dict[str, int], x: tuple[str, ...], out: tuple[str, ...]
) -> None:
    described = described_by(shapes, published)
    found = learned_sizes(described({}), described)
    assert found == VariedSizes(steps, {"x": x, "out": out})
    for seed in range(5):
        sets = drawn_sizes(np.random.default_rng(seed), described({}), found, described)
        assert len(sets) == (3 if steps else 0)
        assert all(sizes != published for sizes in sets)
        assert not sets or any(sets[0][name] > published[name] for name in steps)
        assert all(sizes[name] % step == 0 for sizes in sets for name, step in steps.items())
        again = drawn_sizes(np.random.default_rng(seed), described({}), found, described)
        assert sets == again


def test_sizes_at_which_a_shape_follows_no_formula_are_not_drawn() -> None:
    honest = described_by(lambda n: ((n,), (n,)), {"n": 64})
    found = learned_sizes(honest({}), honest)
    other = described_by(lambda n: ((n,), (n if n == 64 else n + 1,)), {"n": 64})
    assert drawn_sizes(np.random.default_rng(0), honest({}), found, other) == ()


def test_a_file_that_ends_at_other_sizes_is_asked_once() -> None:
    asked = []

    def described(changed: Mapping[str, int]) -> Description:
        asked.append(changed)
        if changed.get("n", 64) != 64:
            raise ReferenceEndedError("it takes more than 60 s")
        return described_by(lambda n: ((n,), (n,)), {"n": 64})(changed)

    base = described({})
    found = learned_sizes(base, described)
    assert found.steps == {}
    assert len(asked) == 2
    assert drawn_sizes(np.random.default_rng(0), base, VariedSizes({"n": 1}, found.shapes), described) == ()
    assert len(asked) == 3


def test_what_is_too_large_is_halved_where_it_can_be() -> None:
    published = {"batch": 4096, "dim": 393216, "heads": 3}

    def shapes(batch: int, dim: int, heads: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        assert dim % 4096 == 0
        assert heads == 3
        return (batch, dim), (batch, dim)

    found = afforded(described_by(shapes, published, most=1 << 24))
    assert found.sizes["heads"] == 3
    assert found.sizes["dim"] == 12288
    assert found.sizes["batch"] == 8
    small = afforded(described_by(shapes, {**published, "batch": 2, "dim": 4096}))
    assert small.sizes == {**published, "batch": 2, "dim": 4096}
    with pytest.raises(ReferenceTooLargeError, match=r"^too large With smaller numbers: it fails$"):
        afforded(described_by(shapes, published, most=1000))


def test_what_must_be_as_large_as_another_is_halved_with_it() -> None:
    def shapes(batch: int, dim: int, heads: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        assert batch == dim
        return (batch, dim), (1,)

    found = afforded(described_by(shapes, {"batch": 4096, "dim": 4096, "heads": 4096}, most=1 << 20))
    assert found.sizes["batch"] == found.sizes["dim"] == 256


def test_what_was_halved_unseen_may_have_to_be_as_it_is() -> None:
    """All of it is too large until `batch` is halved, and by then `width` has been."""

    def shapes(batch: int, width: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if batch * 1024 > 1 << 14:
            raise ReferenceTooLargeError("too large", {"batch": 32, "width": 64})
        assert width == 64
        return (batch, 1024), (1,)

    found = afforded(described_by(shapes, {"batch": 32, "width": 64}))
    assert dict(found.sizes) == {"batch": 16, "width": 64}


def test_numbers_without_a_name_are_halved_with_what_they_must_fit() -> None:
    def shapes(edge: int, largest_in_model: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        assert largest_in_model == edge * 8
        return (edge, largest_in_model), (largest_in_model,)

    found = afforded(described_by(shapes, {"edge": 4096, "largest_in_model": 8 * 4096}, most=1 << 22))
    assert found.sizes == {"edge": 128, "largest_in_model": 1024}


def too_large(found: int, sizes: Mapping[str, int], fixed: tuple[str, ...] = ()) -> ReferenceTooLargeError:
    return ReferenceTooLargeError("too large", sizes, fixed, found, "inputs")


def test_what_nothing_hangs_on_is_not_halved_while_all_is_too_large() -> None:
    """The modulus of a field, which is the largest number of the file."""
    published = {"modulus": (1 << 31) - 1, "n": 1 << 24}

    def shapes(modulus: int, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if n > 1 << 20:
            raise too_large(4 * n, published)
        return (n,), (n,)

    found = afforded(described_by(shapes, published))
    assert dict(found.sizes) == {"modulus": (1 << 31) - 1, "n": 1 << 17}


def test_what_was_left_is_tried_again_once_others_are_smaller() -> None:
    """The largest tensor is made first, and only it is seen."""
    published = {"rows": 1 << 22, "width": 1 << 24}

    def shapes(rows: int, width: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if max(rows, width) > 1 << 16:
            raise too_large(max(rows, width), published)
        assert rows == 1 << 16
        return (rows, 4), (width,)

    found = afforded(described_by(shapes, published))
    assert dict(found.sizes) == {"rows": 1 << 16, "width": 1 << 15}


def test_what_a_kernel_may_rely_on_is_made_smaller_last() -> None:
    published = {"rows": 4096, "hidden": 8192}

    def shapes(most: int, rows: int, hidden: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if rows * hidden > most:
            raise too_large(rows * hidden, published, ("hidden",))
        return (rows, hidden), (rows,)

    kept = afforded(described_by(partial(shapes, 1 << 20), published))
    assert dict(kept.sizes) == {"rows": 16, "hidden": 8192}
    smaller = afforded(described_by(partial(shapes, 1 << 12), published))
    assert dict(smaller.sizes) == {"rows": 64, "hidden": 64}


def test_what_makes_nothing_smaller_stays_as_it_is() -> None:
    """The edge of an image, where it is the weights that are too many: of one pixel a norm says nothing."""

    def shapes(edge: int, width: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (edge + width * width,), (1,)

    found = afforded(described_by(shapes, {"edge": 9000, "width": 8000}))
    assert found.sizes["width"] == 500
    assert found.sizes["edge"] == 9000


def test_sizes_at_which_the_answer_says_nothing_are_left_out() -> None:
    """Of a group norm over groups of one element nothing depends on the input."""
    published = {"groups": 512, "features": 8192, "batch": 1024}

    def told(least: int) -> Described:
        described = described_by(lambda groups, features, batch: ((batch, features), (1,)), published, most=1 << 22)

        def telling(changed: Mapping[str, int]) -> Description:
            found = described(changed)
            elements = found.sizes["features"] // found.sizes["groups"]
            return replace(found, fault="no output depends on 'x'" if elements < least else "")

        return telling

    found = afforded(told(2))
    assert not found.fault
    assert found.sizes["features"] > found.sizes["groups"]
    # It is the file's own fault where it says nothing at any size.
    assert afforded(told(1 << 20)).fault
