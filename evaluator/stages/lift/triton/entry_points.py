"""By which function a Triton submission is called, and what goes into each parameter."""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from common.contract import Status
from evaluator.problems.problem import Problem, Sizes
from evaluator.stages.lift.binding import Binding, LiftRefusedError, initial_contents, refuse_arrays
from evaluator.stages.lift.dialects import EntryFunction, is_triton_solution, model_line
from evaluator.stages.lift.extension.model_numbers import numbers_of

MODEL: Final = "ModelNew"
RETURNING: Final = "kernel_function"
"""What KernelAgent calls: with all that its problem's Model is called with and made with, for what it returns."""
ENTRIES: Final = ("run", "solve", "solution", RETURNING)
"""What is called: the first of these that a text defines. LeetGPU calls `solve`."""
_MAX_PARAMETERS: Final = 4000


@dataclass(frozen=True)
class PythonEntry(EntryFunction):
    """The Python function that a submission is called by. `parameter_names` are those without defaults, in order."""

    takes_more: bool = False
    """Whether it takes any number of arguments (`*args`)."""
    defaulted: frozenset[str] = frozenset()
    """Parameters that have a default."""
    optional: tuple[str, ...] = ()
    """Those of them that may also be passed in order, behind `parameter_names`."""
    keywords: tuple[str, ...] = ()
    """Parameters without a default that are passed by name alone."""


def python_entry(source: str) -> PythonEntry | None:
    """The function that is called; None where there is none whose parameters can be read."""
    if is_triton_solution(source) and (line := model_line(source)):
        return PythonEntry(MODEL, (), line)
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
        tuple(defaulted),
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
    own = _own_numbers(problem)
    if entry.name == RETURNING and not problem.entry:
        return _bind_returning(problem, entry, own)
    names = [str(name) for name in entry.parameter_names]
    keywords = _keywords(problem, entry, own)
    inputs = [name for name in inputs if name not in keywords]
    stated = {one.name: one for one in problem.entry}
    if stated and len(names) == len(stated):
        chosen = [stated[name] for name in names] if set(names) == set(stated) else list(problem.entry)
        refuse_arrays(entry.name, chosen)
        changed = initial_contents(chosen)
        bound = tuple(one.tensor or one.name for one in chosen)
        return Binding(bound, f"{entry.name}({', '.join(bound)}) bound as the problem states it", changed, keywords)
    known = {*problem.parameter_names, *_called(own)}
    by_name = set(names) <= known and set(inputs) <= set(names)
    if by_name and (set(outputs) <= set(names) or not set(outputs) & set(names)):
        bound, how = tuple(names), "by name"
    else:
        in_order = _in_order(names, entry, inputs, outputs, [*numbers, *_called(own)], numbers)
        in_order = in_order or _in_order(names, entry, inputs, outputs, numbers, numbers)
        if in_order is None:
            raise _misfit(problem, entry, names, (*inputs, *outputs, *numbers))
        bound, how = in_order, "by order"
    pairs = zip(names, bound, strict=False)
    positional = (what if name == what else f"{name} = {what}" for name, what in pairs) if names else ("*args",)
    told = ", ".join((*positional, *keywords))
    returned = "" if set(outputs) <= {*bound, *keywords} else f", returning {', '.join(outputs)}"
    return Binding(bound, f"{entry.name}({told}) bound {how}{returned}", keywords=keywords, own=own)


def _keywords(problem: Problem, entry: PythonEntry, own: Mapping[str, float | str]) -> tuple[str, ...]:
    """What is passed by name: a default is no answer where the problem has an input or a scalar of that name, or
    makes its Model with a number of that name.

    A size keeps its default, which is mostly None, or says how a tile is cut and no size of the problem.
    """
    known = [*problem.parameter_names, *_called(own)]
    if unknown := [name for name in entry.keywords if name not in known]:
        raise LiftRefusedError(
            Status.INVALID_SUBMISSION,
            f"`{entry.name}` (line {entry.line}) takes '{unknown[0]}' by name alone, and {problem.id} has "
            f"{', '.join(dict.fromkeys(known))}.",
            f"Write it as `{expected_python(problem, entry.name)}`.",
        )
    stated = [*(one.name for one in problem.inputs), *(one.name for one in problem.scalars)]
    given = dict.fromkeys((*stated, *_called(own)))
    return (*entry.keywords, *(name for name in given if name in entry.defaulted))


def _own_numbers(problem: Problem) -> dict[str, float | str]:
    """What the problem's Model is made with, but what a tensor may be called as: `bias` says that there is one."""
    made_with = numbers_of(problem)
    tensors = [one.name for one in (*problem.inputs, *problem.outputs)]
    return {
        name: one
        for name, one in made_with.items()
        if not (isinstance(one, bool) and name == "bias") and not any(_ends_with(tensor, name) for tensor in tensors)
    }


def _ends_with(tensor: str, name: str) -> bool:
    """Whether a tensor is called so, or has it as its last part: `linear_bias` and `bias`."""
    return f"_{tensor}".endswith(f"_{name}")


def _called(own: Mapping[str, float | str]) -> list[str]:
    """What the numbers of a Model are called: of `stride_0` and `stride_1` also `stride`, which is both."""
    tuples = dict.fromkeys(name.removesuffix("_0") for name in own if name.endswith("_0"))
    return [*own, *(name for name in tuples if name not in own)]


def _in_order(
    names: Sequence[str],
    entry: PythonEntry,
    inputs: Sequence[str],
    outputs: Sequence[str],
    by_name: Sequence[str],
    numbers: Sequence[str],
) -> tuple[str, ...] | None:
    """Inputs, outputs, scalars, sizes; numbers with their own names by name; None where the counts do not fit."""
    if entry.takes_more and not names:
        return (*inputs, *outputs)
    tensors = [name for name in names if name not in by_name]
    every = [*inputs, *outputs]
    for passed in (every, [*every, *numbers], inputs, [*inputs, *numbers]):
        if len(tensors) == len(passed):
            rest = iter(passed)
            return tuple(name if name in by_name else next(rest) for name in names)
    return None


def _bind_returning(problem: Problem, entry: PythonEntry, own: Mapping[str, float | str]) -> Binding:
    """Of KernelAgent's function, which gets inputs, parameters and numbers of a Model, and returns the outputs.

    Tensors by name, or where a name is the end of one tensor's (`weight` of `linear_weight`), the others in order;
    numbers by name. `*args` gets the inputs, and the numbers that are none of the problem's sizes.
    """
    inputs = [one.name for one in problem.inputs]
    numbers = list(dict.fromkeys((*(one.name for one in problem.scalars), *problem.sizes, *_called(own))))
    required, optional = [str(name) for name in entry.parameter_names], list(entry.optional)
    returned = f"returning {', '.join(one.name for one in problem.outputs)}"
    if entry.takes_more and len(required) <= len(inputs):
        passed = (*inputs, *(name for name, one in own.items() if not isinstance(one, str)))
        return Binding(passed, f"{entry.name}({', '.join(passed)}) bound in order, {returned}", own=own)
    places = [name for name in (*required, *optional) if name not in numbers]
    found = _tensors_by_name(places, inputs)
    free = [name for name in inputs if name not in found.values()]
    unnamed = [name for name in required if name in places and name not in found]
    if len(free) != len(unnamed):
        raise _misfit(problem, entry, [*required, *optional], (*inputs, *numbers))
    # A size keeps its default, as it does where another function is called.
    kept = {*problem.sizes} - {*own}
    known = [name for name in (*required, *optional) if name in numbers and (name in required or name not in kept)]
    found |= {**dict(zip(unnamed, free, strict=True)), **{name: name for name in known}}
    given = [*required, *takewhile(found.__contains__, optional)]
    by_name = {*found, *_called(own)} - {*given}
    rest = [name for name in (*optional, *sorted(entry.defaulted)) if name in by_name]
    keywords = tuple(dict.fromkeys((*entry.keywords, *rest)))
    if any(name not in {*inputs, *numbers} or found.get(name, name) != name for name in keywords):
        raise _misfit(problem, entry, [*required, *optional, *entry.keywords], (*inputs, *numbers))
    bound = tuple(found[name] for name in given)
    told = [one if name == one else f"{name} = {one}" for name, one in zip(given, bound, strict=True)]
    said = f"{entry.name}({', '.join((*told, *keywords))}) bound by name, else in order, {returned}"
    return Binding(bound, said, keywords=keywords, own=own)


_SHORT: Final = {"w": "weight", "b": "bias"}
"""Of the parameters of layers."""


def _tensors_by_name(places: Sequence[str], inputs: Sequence[str]) -> dict[str, str]:
    """Which of the inputs each place is called after; none twice."""
    found = {name: name for name in places if name in inputs}
    for name in places:
        end = _SHORT.get(name.lower(), name)
        ends = [one for one in inputs if _ends_with(one, end) and one not in found.values()]
        if name not in found and len(ends) == 1:
            found[name] = ends[0]
    return found


def _misfit(problem: Problem, entry: PythonEntry, names: Sequence[str], has: Sequence[str]) -> LiftRefusedError:
    return LiftRefusedError(
        Status.INVALID_SUBMISSION,
        f"`{entry.name}` (line {entry.line}) takes {', '.join(names) or 'nothing'}, and {problem.id} has "
        f"{', '.join(has)}.",
        f"Write it as `{expected_python(problem, entry.name)}`.",
    )


def expected_python(problem: Problem, name: str = "run") -> str:
    """The entry function that fits the problem."""
    outputs = {one.name for one in problem.outputs} if name == RETURNING else set()
    return f"def {name}({', '.join(one for one in problem.parameter_names if one not in outputs)})"


def python_call(
    problem: Problem, binding: Binding, sizes: Sizes, scalars: Mapping[str, float], is_model: bool = False
) -> dict[str, Any]:
    """Tensors and arguments of the calls at these sizes, as `inside/record.py` reads them."""
    every = [*problem.inputs, *problem.outputs]
    types = {tensor.name: "bool" if tensor.is_bool else str(tensor.dtype) for tensor in every}
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

    own = {name: numbers[one] if isinstance(one, str) else one for name, one in binding.own.items()}

    def argument(name: str) -> list[Any]:
        if name in places:
            return ["tensor", places[name]]
        if name not in numbers and name not in own:
            return ["numbers", [own[one] for one in binding.axes(name)]]
        return ["number", numbers[name] if name in numbers else own[name]]

    return {
        "model": model if is_model else None,
        "changed": [places[tensor.name] for tensor in problem.inputs if tensor.changed],
        "tensors": [[types[tensor.name], list(tensor.shape_at(sizes))] for tensor in every],
        "arguments": [argument(name) for name in binding.names],
        "keywords": {name: argument(name) for name in binding.keywords},
        "results": []
        if {one.name for one in problem.outputs} & {*binding.names, *binding.keywords}
        else [places[one.name] for one in problem.outputs],
    }
