"""A ModelNew, whichever tensors it is called with: made, and its parameters bound to inputs of the problem."""

import inspect
import os
import re
from pathlib import Path
from typing import Any

from evaluator.foreign.inside import numbers_in_text


class MisfitError(Exception):
    """The solution does not fit the problem."""


def executed(name: str) -> dict[str, Any]:
    """The names that a file defines."""
    names: dict[str, Any] = {"__name__": Path(name).stem, "__file__": name}
    exec(compile(Path(name).read_text(encoding="utf-8"), name, "exec"), names)
    return names


def reference_at(name: str, sizes: dict[str, int]) -> dict[str, Any]:
    """The names that the problem's file defines where its numbers are these, and what follows from them does."""
    tree, constants = numbers_in_text.parsed(Path(name).read_text(encoding="utf-8"))
    for size, value in sizes.items():
        if size in constants:
            constants[size].value = value
    names: dict[str, Any] = {"__name__": Path(name).stem, "__file__": name}
    exec(compile(tree, name, "exec"), names)
    return names


def made(solution: dict[str, Any], reference: str, call: dict[str, Any]) -> Any:
    """A new ModelNew for a call. `reference`: the problem's own file, where there is one of this name."""
    names = reference_at(reference, call["sizes"]) if os.path.exists(reference) else {}
    given = names["get_init_inputs"]() if "get_init_inputs" in names else []
    args, kwargs = (given, {}) if not isinstance(given, dict) else ([], given)
    if len(args) == 2 and isinstance(args[0], list | tuple) and isinstance(args[1], dict):
        args, kwargs = args
    return solution["ModelNew"](*args, **kwargs)


def arguments_of(model: Any, inputs: dict[str, Any], numbers: dict[str, float]) -> tuple[list[Any], list[str]]:
    """What forward is called with, and the inputs among it: by name, and what has another name by order."""
    parameters = list(inspect.signature(model.forward).parameters.values())
    plain = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    named = {one.name for one in plain}
    free = [name for name in inputs if name not in named]
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return list(inputs.values()), list(inputs)
    given: list[Any] = []
    used: list[str] = []
    for one in plain:
        if one.name in inputs:
            used.append(one.name)
            given.append(inputs[one.name])
        elif one.name in numbers:
            given.append(numbers[one.name])
        elif one.default is not one.empty:
            given.append(one.default)
        elif free:
            used.append(free[0])
            given.append(inputs[free.pop(0)])
        else:
            raise MisfitError(f"forward takes '{one.name}', and the problem has {', '.join((*inputs, *numbers))}")
    return given, used


def bind_state(model: Any, state: list[tuple[str, Any]], inputs: dict[str, Any]) -> None:
    """The model's parameters as inputs of the problem: by name and shape, the others by shape, in order."""
    left = dict(inputs)
    bound: list[Any] = []
    for by_name in (True, False):
        for name, one in state:
            if any(one is other for other in bound):
                continue
            plain = re.sub(r"[^A-Za-z0-9]", "_", name)
            for other, tensor in left.items():
                if (other == plain or not by_name) and tuple(one.shape) == tuple(tensor.shape):
                    one._become(left.pop(other))
                    bound.append(one)
                    break
    if left and not hasattr(model, "forward"):
        raise MisfitError(f"nothing of the model is {', '.join(left)}")
