"""Whether a text is a Triton submission, by which function it is called, and what goes into each parameter."""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from common.contract import Status
from evaluator.problems.problem import Problem, Sizes
from evaluator.stages.lift.binding import Binding, LiftRefusedError, initial_contents
from evaluator.stages.lift.dialects import EntryFunction
from evaluator.stages.lift.recording import TENSORS_OF_CALLS

MODEL: Final = "ModelNew"
ENTRIES: Final = ("run", "solve", "solution")
"""What is called: the first of these that a text defines. LeetGPU calls `solve`."""
_IMPORT: Final = re.compile(r"^[ \t]*(?:import|from)[ \t]+triton\b", re.MULTILINE)
_KERNEL: Final = re.compile(r"^[ \t]*@[ \t]*(?:triton[ \t]*\.[ \t]*)?(?:jit|autotune|heuristics)\b", re.MULTILINE)
_MODEL: Final = re.compile(r"^class[ \t]+ModelNew\b", re.MULTILINE)
_CUDA: Final = re.compile(r"\b__global__\b")
_MAX_PARAMETERS: Final = 4000


@dataclass(frozen=True)
class PythonEntry(EntryFunction):
    """The Python function that a submission is called by. `parameter_names` are those without defaults, in order."""

    takes_more: bool = False
    """Whether it takes any number of arguments (`*args`)."""
    defaulted: frozenset[str] = frozenset()
    """Parameters that have a default."""
    keywords: tuple[str, ...] = ()
    """Parameters without a default that are passed by name alone."""


def is_triton(source: str) -> bool:
    """Whether a text is Python with Triton kernels and a function that launches them."""
    return bool(_KERNEL.search(source) and _IMPORT.search(source)) and not (
        _MODEL.search(source) or _CUDA.search(source)
    )


def is_triton_solution(source: str) -> bool:
    """Whether a text is a ModelNew that launches Triton kernels, and compiles no CUDA C++."""
    triton = _KERNEL.search(source) and _IMPORT.search(source) and _MODEL.search(source)
    return bool(triton) and "load_inline" not in source


def python_entry(source: str) -> PythonEntry | None:
    """The function that is called; None where there is none whose parameters can be read."""
    if is_triton_solution(source) and (match := _MODEL.search(source)):
        return PythonEntry(MODEL, (), source.count("\n", 0, match.start()) + 1)
    for name in ENTRIES:
        # The last definition of a name is what Python calls.
        for match in reversed(list(re.finditer(rf"^def[ \t]+{name}[ \t]*\(", source, re.MULTILINE))):
            line = source.count("\n", 0, match.start()) + 1
            if (text := _parameters(source, match.end())) is not None and (found := _read(name, text, line)):
                return found
    return None


def _parameters(source: str, start: int) -> str | None:
    depth, end = 1, min(len(source), start + _MAX_PARAMETERS)
    for match in re.compile(r"[()\[\]{}]|#[^\n]*").finditer(source, start, end):
        depth += (match[0] in "([{") - (match[0] in ")]}")
        if depth == 0:
            return source[start : match.start()]
    return None


def _read(name: str, parameters: str, line: int) -> PythonEntry | None:
    try:
        tree = ast.parse(f"def f({parameters}\n): pass")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    given = function.args
    plain = [one.arg for one in (*given.posonlyargs, *given.args)]
    without = len(plain) - len(given.defaults)
    by_name = list(zip(given.kwonlyargs, given.kw_defaults, strict=True))
    defaulted = [one.arg for one in given.args[max(0, without - len(given.posonlyargs)) :]]
    return PythonEntry(
        name,
        tuple(plain[:without]),
        line,
        given.vararg is not None,
        frozenset([*defaulted, *(one.arg for one, default in by_name if default is not None)]),
        tuple(one.arg for one, default in by_name if default is None),
    )


def bind_python(problem: Problem, entry: PythonEntry) -> Binding:
    """What goes into each parameter, in order; outputs that are not passed are what the function returns.

    Raises LiftRefusedError where the function does not fit the problem.
    """
    if entry.name == MODEL:
        return Binding((), "ModelNew.forward, with the problem's inputs and the model's parameters among them")
    inputs, outputs = ([one.name for one in each] for each in (problem.inputs, problem.outputs))
    numbers = [*(one.name for one in problem.scalars), *problem.sizes]
    names = [str(name) for name in entry.parameter_names]
    keywords = _keywords(problem, entry)
    inputs = [name for name in inputs if name not in keywords]
    stated = {one.name: one for one in problem.entry}
    if stated and len(names) == len(stated):
        chosen = [stated[name] for name in names] if set(names) == set(stated) else list(problem.entry)
        changed = initial_contents(chosen)
        bound = tuple(one.tensor or one.name for one in chosen)
        return Binding(bound, f"{entry.name}({', '.join(bound)}) bound as the problem states it", changed, keywords)
    by_name = set(names) <= set(problem.parameter_names) and set(inputs) <= set(names)
    if by_name and (set(outputs) <= set(names) or not set(outputs) & set(names)):
        bound, how = tuple(names), "by name"
    else:
        in_order = _in_order(names, entry, inputs, outputs, numbers)
        if in_order is None:
            raise LiftRefusedError(
                Status.INVALID_SUBMISSION,
                f"`{entry.name}` (line {entry.line}) takes {', '.join(names) or 'nothing'}, and {problem.id} has "
                f"{', '.join((*inputs, *outputs, *numbers))}.",
                f"Write it as `{expected_python(problem, entry.name)}`.",
            )
        bound, how = in_order, "by order"
    pairs = zip(names, bound, strict=False)
    positional = (what if name == what else f"{name} = {what}" for name, what in pairs) if names else ("*args",)
    told = ", ".join((*positional, *keywords))
    returned = "" if set(outputs) <= {*bound, *keywords} else f", returning {', '.join(outputs)}"
    return Binding(bound, f"{entry.name}({told}) bound {how}{returned}", keywords=keywords)


def _keywords(problem: Problem, entry: PythonEntry) -> tuple[str, ...]:
    """What is passed by name: a default is no answer where the problem has an input or a scalar of that name.

    A size keeps its default, which is mostly None, or says how a tile is cut and no size of the problem.
    """
    if unknown := [name for name in entry.keywords if name not in problem.parameter_names]:
        raise LiftRefusedError(
            Status.INVALID_SUBMISSION,
            f"`{entry.name}` (line {entry.line}) takes '{unknown[0]}' by name alone, and {problem.id} has "
            f"{', '.join(problem.parameter_names)}.",
            f"Write it as `{expected_python(problem, entry.name)}`.",
        )
    given = [*(one.name for one in problem.inputs), *(one.name for one in problem.scalars)]
    return (*entry.keywords, *(name for name in given if name in entry.defaulted))


def _in_order(
    names: Sequence[str], entry: PythonEntry, inputs: Sequence[str], outputs: Sequence[str], numbers: Sequence[str]
) -> tuple[str, ...] | None:
    """Inputs, outputs, scalars, sizes; numbers with their own names by name; None where the counts do not fit."""
    if entry.takes_more and not names:
        return (*inputs, *outputs)
    tensors = [name for name in names if name not in numbers]
    every = [*inputs, *outputs]
    for passed in (every, [*every, *numbers], inputs, [*inputs, *numbers]):
        if len(tensors) == len(passed):
            rest = iter(passed)
            return tuple(name if name in numbers else next(rest) for name in names)
    return None


def expected_python(problem: Problem, name: str = "run") -> str:
    """The entry function that fits the problem."""
    return f"def {name}({', '.join(problem.parameter_names)})"


def python_call(
    problem: Problem, binding: Binding, sizes: Sizes, scalars: Mapping[str, float], is_model: bool = False
) -> dict[str, Any]:
    """Tensors and arguments of each call of one process, as `inside/record.py` reads them."""
    every = [*problem.inputs, *problem.outputs]
    places = {tensor.name: number for number, tensor in enumerate(every)}
    numbers: dict[str, float | int] = {
        one.name: float(scalars.get(one.name, one.value))
        if one.dtype.is_float
        else int(scalars.get(one.name, one.value))
        for one in problem.scalars
    }
    stated = {one.name: one.value for one in problem.entry if one.value is not None}
    numbers |= {name: int(value) if value.is_integer() else value for name, value in stated.items()}
    numbers |= sizes
    model = {
        "sizes": dict(sizes),
        "scalars": {one.name: numbers[one.name] for one in problem.scalars},
        "inputs": [one.name for one in problem.inputs],
    }

    def argument(name: str) -> list[Any]:
        return ["tensor", places[name]] if name in places else ["number", numbers[name]]

    return {
        "sets": list(TENSORS_OF_CALLS),
        "model": model if is_model else None,
        "tensors": [[str(tensor.dtype), list(tensor.shape_at(sizes))] for tensor in every],
        "arguments": [argument(name) for name in binding.names],
        "keywords": {name: argument(name) for name in binding.keywords},
        "results": []
        if {one.name for one in problem.outputs} & {*binding.names, *binding.keywords}
        else [places[one.name] for one in problem.outputs],
    }
