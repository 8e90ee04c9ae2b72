"""Ways to ask an oracle for some elements alone: samplers, which hand it no more of the inputs than these need.

The formulas stay with the oracles: they are given elements, rows or pairs of vectors that were gathered. A sampler
takes at least one index of each output, in any order, and keeps the order.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evaluator.problems.arrays import Array, contiguous, elements_of, namespace, on_device_of
from evaluator.problems.problem import Arrays, Elements, Expected, Oracle, Sampler, Sizes

AT_ONCE: Final = 1 << 18
"""Elements of the largest array that is gathered at a time: 2 MiB of float64, and an oracle holds up to a dozen. With
eight times as many it takes a half longer: they fit no cache, and the kernel clears their pages first."""
_WORTH_A_PRODUCT: Final = 8
"""A term that is gathered costs about as much as eight that the product of whole rows and columns makes."""

Indices: TypeAlias = NDArray[np.int64]


def element_wise(
    oracle: Oracle, inputs: Arrays, sizes: Sizes, elements: Elements, scalars: Mapping[str, Any]
) -> dict[str, Expected]:
    """For one output, each element of which needs the inputs' elements at the same place."""
    ((name, wanted),) = elements.items()

    def compute(piece: Indices) -> Expected:
        return oracle({key: elements_of(array, piece) for key, array in inputs.items()}, sizes, **scalars)[name]

    return {name: _joined([compute(piece) for piece in _of_length(wanted, AT_ONCE)])}


def row_wise(*gathered: str, length: str, width: str | None = None) -> Sampler:
    """For one output, each row of which needs the same rows of the inputs `gathered` and all of the others.

    `length` names the size that a row's work grows with; `width` the one that is the output's own, None where a row
    gives one element.
    """

    def sample(
        oracle: Oracle, inputs: Arrays, sizes: Sizes, elements: Elements, scalars: Mapping[str, Any]
    ) -> dict[str, Expected]:
        ((name, wanted),) = elements.items()
        columns = 1 if width is None else sizes[width]

        def compute(piece: Indices) -> Expected:
            rows, places = np.unique(piece // columns, return_inverse=True)
            some = {key: rows_of(inputs[key], rows) for key in gathered}
            expected = oracle({**inputs, **some}, sizes, **scalars)[name]
            return expected.at(places * columns + piece % columns)

        height = max(1, AT_ONCE // sizes[length])
        return {name: in_order(wanted, compute, lambda ordered: of_rows(ordered, columns, height))}

    return sample


def dot_products(left: str, right: str, transposed: bool = False, by_column: tuple[str, ...] = ()) -> Sampler:
    """For one output [m, n], whose element (i, j) needs row i of `left` [m, k] and column j of `right` [k, n].

    `transposed`: `right` is [n, k]. `by_column` names vectors [n] of which it needs element j.
    """

    def columns_of(matrix: Array, columns: Indices) -> Array:
        """Columns of the right factor as rows."""
        return rows_of(matrix, columns) if transposed else contiguous(matrix[:, on_device_of(matrix, columns)].mT)

    def sample(
        oracle: Oracle, inputs: Arrays, sizes: Sizes, elements: Elements, scalars: Mapping[str, Any]
    ) -> dict[str, Expected]:
        ((name, wanted),) = elements.items()
        n = sizes["n"]

        def compute(piece: Indices) -> Expected:
            rows, row_at = np.unique(piece // n, return_inverse=True)
            columns, column_at = np.unique(piece % n, return_inverse=True)
            if rows.size * columns.size <= min(_WORTH_A_PRODUCT * piece.size, AT_ONCE):
                places = row_at * columns.size + column_at
                factors = rows_of(inputs[left], rows), columns_of(inputs[right], columns)
                vectors = {key: elements_of(inputs[key], columns) for key in by_column}
            else:  # a product of vectors for each element
                places = np.arange(piece.size)
                factors = (
                    rows_of(inputs[left], piece // n)[:, None, :],
                    columns_of(inputs[right], piece % n)[:, None, :],
                )
                vectors = {key: elements_of(inputs[key], piece % n)[:, None, None] for key in by_column}
            some = {left: factors[0], right: factors[1] if transposed else factors[1].mT}
            return oracle({**some, **vectors}, sizes, **scalars)[name].at(places)

        return {name: in_order(wanted, compute, lambda ordered: _of_length(ordered, max(1, AT_ONCE // sizes["k"])))}

    return sample


def rows_of(array: Array, rows: Indices) -> Array:
    """These rows, along the first axis."""
    return array[on_device_of(array, rows)]


def in_order(
    wanted: Indices, compute: Callable[[Indices], Expected], split: Callable[[Indices], Iterator[Indices]]
) -> Expected:
    """What `compute` gives for each piece that `split` makes of the sorted indices, put back in their order."""
    order = np.argsort(wanted, kind="stable")
    return put_back([compute(piece) for piece in split(wanted[order])], order)


def put_back(parts: list[Expected], order: Indices) -> Expected:
    """All parts one after another, which are in the order of wanted[order], in the order of wanted."""
    back = np.empty_like(order)
    back[order] = np.arange(order.size)
    return _joined(parts).at(back)


def of_rows(ordered: Indices, columns: int, height: int, rows_together: int | None = None) -> Iterator[Indices]:
    """Sorted flat indices in pieces of at most `height` distinct rows of `columns` elements.

    No piece goes beyond a multiple of `rows_together` rows.
    """
    rows = ordered // columns
    number = np.cumsum(np.diff(rows, prepend=rows[:1]) > 0)
    key = number // height
    if rows_together is not None:
        key = key + rows // rows_together
    yield from np.split(ordered, np.flatnonzero(np.diff(key)) + 1)


def _of_length(wanted: Indices, most: int) -> Iterator[Indices]:
    for first in range(0, wanted.size, most):
        yield wanted[first : first + most]


def _joined(parts: list[Expected]) -> Expected:
    if len(parts) == 1:
        return parts[0]
    xp = namespace(*(part.value for part in parts))

    def whole(shares: list[Array | float]) -> Array | float:
        if all(isinstance(share, float) and share == shares[0] for share in shares):
            return shares[0]
        pairs = zip(shares, parts, strict=True)
        return xp.concat([xp.zeros_like(part.value) + share for share, part in pairs])

    return Expected(
        xp.concat([part.value for part in parts]),
        xp.concat([part.scale for part in parts]),
        whole([part.relative for part in parts]),
        whole([part.longer for part in parts]),
        whole([part.beyond for part in parts]),
    )
