"""What is likely meant where there is no plan: the arguments, the grid and the block of a line for the source."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from common.expressions import ExpressionError, evaluate_expression
from common.launch_plan import Launch
from evaluator.backends.session import Entry, Parameter
from evaluator.problems.problem import Problem, Tensor
from evaluator.stages.launch.arguments import takes_number

__all__ = [
    "INFERRED_BLOCK",
    "arguments_by_kind",
    "arguments_in_order",
    "const_output",
    "count_of",
    "launch_in_words",
    "launch_to_try",
    "shared_to_try",
]

INFERRED_BLOCK: Final = 256
_COUNT = re.compile(r"n|.*(?:total|size|num|count|len|elem).*", re.IGNORECASE)
"""Names that a number of all elements has."""
_NUMBERED = re.compile(r"\b(\w++)\s*+=?\s*+(8|16|32)\b")
_TILE = re.compile("TILE|BLOCK", re.IGNORECASE)
_USUAL_TILE: Final = "16"
_FURTHER_DIMENSION = re.compile(r"%(?:ctaid|tid)\.([yz])\b")
_TOGETHER = re.compile(r"\b(?:bar|barrier|shfl)\.|\.shared\b")
"""What threads do that work on something together: which blocks and threads there are changes the answer."""


def count_of(tensor: Tensor) -> str:
    """The number of elements, as an expression."""
    return " * ".join(_factor(extent) for extent in tensor.shape)


def _factor(extent: str) -> str:
    return extent if extent.isalnum() or extent.isidentifier() else f"({extent})"


def launch_in_words(launch: Launch) -> str:
    """Grid and block of an inferred launch: `grid=(ceil_div(n, 256)) block=(256)`, or how many where none varies."""
    grid, block = launch.grid[0], launch.block[0]
    try:
        blocks = evaluate_expression(grid, {})
    except ExpressionError:
        return f"grid=({grid}) block=({block})"
    return f"{blocks} block{'s' if blocks > 1 else ''} of {block} threads"


def arguments_by_kind(problem: Problem, entry: Entry) -> tuple[str, ...]:
    """What each parameter is likely to take: by its name, in any case, else by its kind in order.

    A pointer to const takes an input, another an output, a floating-point number a scalar, an integer a size or the
    number of all elements. Where nothing of the problem is left for it, or too much, its own name.
    """
    chosen = dict(_by_name(problem, entry.parameters))
    rest = [(index, parameter) for index, parameter in enumerate(entry.parameters) if index not in chosen]
    inputs, outputs, scalars, sizes = (
        [name for name in names if name not in chosen.values()]
        for names in (
            [one.name for one in problem.inputs],
            [one.name for one in problem.outputs],
            [one.name for one in problem.scalars],
            problem.sizes,
        )
    )
    pointers = [(index, parameter) for index, parameter in rest if parameter.kind == "pointer"]
    if any(not one.may_write for one in entry.parameters if one.kind == "pointer"):
        _pair([index for index, one in pointers if not one.may_write], inputs, chosen)
        _pair([index for index, one in pointers if one.may_write], outputs, chosen)
    else:
        _pair([index for index, _ in pointers], [*inputs, *outputs], chosen)
    numbers = [(index, takes_number(parameter), parameter) for index, parameter in rest]
    _pair([index for index, number, _ in numbers if number is not None and number.is_float], scalars, chosen)
    integers = [(index, one) for index, number, one in numbers if number is not None and not number.is_float]
    if len(integers) == 1 and len(sizes) == len(problem.sizes) > 1 and _COUNT.fullmatch(integers[0][1].name):
        chosen[integers[0][0]] = count_of(max(problem.outputs, key=lambda one: len(one.shape)))
    _pair([index for index, _ in integers], sizes, chosen)
    return tuple(chosen.get(index, parameter.name) for index, parameter in enumerate(entry.parameters))


def arguments_in_order(problem: Problem, entry: Entry, entries: Sequence[Entry]) -> tuple[str, ...]:
    """What stands for each parameter of one kernel, or one of several, in a line to start from."""
    names, offered = tuple(parameter.name for parameter in entry.parameters), problem.parameter_names
    if set(names) <= set(offered):
        return names
    if len(names) == len(offered) and const_output(problem, entry) is None:
        return offered
    # Of several kernels, most have temporaries between them, which no problem names.
    return arguments_by_kind(problem, entry) if len(entries) == 1 or len(names) == len(offered) else names


def const_output(problem: Problem, entry: Entry) -> tuple[Parameter, str] | None:
    """The first pointer to const that would be an output in order, and that output."""
    outputs = {output.name for output in problem.outputs}
    for parameter, what in zip(entry.parameters, problem.parameter_names, strict=False):
        if parameter.kind == "pointer" and not parameter.may_write and what in outputs:
            return parameter, what
    return None


def _by_name(problem: Problem, parameters: Sequence[Parameter]) -> Iterator[tuple[int, str]]:
    names = {name.lower(): name for name in problem.parameter_names}
    if len(names) < len(problem.parameter_names):
        return  # two that differ in case only
    outputs = {one.name for one in problem.outputs}
    tensors = {one.name for one in problem.inputs} | outputs
    scalars = {one.name for one in problem.scalars}
    taken = set[str]()
    for index, parameter in enumerate(parameters):
        name = names.get(parameter.name.lower())
        if name is None or name in taken:
            continue
        number = takes_number(parameter)
        if parameter.kind == "pointer":
            fits = name in tensors and (parameter.may_write or name not in outputs)
        else:
            fits = number is not None and name not in tensors and number.is_float == (name in scalars)
        if fits:
            taken.add(name)
            yield index, name


def _pair(indices: Sequence[int], names: Sequence[str], chosen: dict[int, str]) -> None:
    """One name for each in order, if there are as many."""
    if len(indices) == len(names):
        chosen.update(zip(indices, names, strict=True))


def shared_to_try(ptx: str) -> str:
    """Bytes of dynamic shared memory, as an expression: a word for each thread, where a kernel declares some."""
    return f"{INFERRED_BLOCK} * 4" if ".extern .shared" in ptx else "0"


def launch_to_try(problem: Problem, ptx: str, source: str) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    """Why a kernel may need another launch than one thread for each element, in words, and a grid and block for it.

    `ptx`: of a program with one kernel. None where threads do not look at more than one index, or at each other.
    """
    output = max(problem.outputs, key=lambda one: len(one.shape))
    axes = sorted(set(_FURTHER_DIMENSION.findall(ptx)))
    if axes:
        why = " or ".join(f"threadIdx.{axis} or blockIdx.{axis}" for axis in axes)
        tile = next((one[2] for one in _NUMBERED.finditer(source) if _TILE.search(one[1])), _USUAL_TILE)
        *outer, across = output.shape
        if not outer:
            return why, (f"ceil_div({count_of(output)}, {INFERRED_BLOCK})",), ("32", "8")
        *outer, down = outer
        planes = (" * ".join(map(_factor, outer)),) if outer else ()
        return why, (f"ceil_div({across}, {tile})", f"ceil_div({down}, {tile})", *planes), (tile, tile)
    if _TOGETHER.search(ptx):
        largest = max(problem.inputs, key=lambda one: len(one.shape))
        *outer, along = largest.shape
        rows = " * ".join(map(_factor, outer)) or f"ceil_div({along}, {INFERRED_BLOCK})"
        return "", (rows,), (str(INFERRED_BLOCK),)
    return None
