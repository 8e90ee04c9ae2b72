"""A ModelNew, whichever tensors it is called with: made, and its parameters bound to inputs of the problem."""

import os
from pathlib import Path
from typing import Any

from evaluator.backends.model_binding import init_arguments, state_as_inputs
from evaluator.foreign.inside import numbers_in_text


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
    args, kwargs = init_arguments(given)
    return solution["ModelNew"](*args, **kwargs)


def bind_state(state: list[tuple[str, Any]], inputs: dict[str, Any]) -> None:
    """Have the model's parameters be inputs of the problem in the call that is under way."""
    for one, name, shape in state_as_inputs(state, inputs):
        tensor = inputs[name]
        one._become(tensor if tuple(tensor.shape) == shape else tensor.view(*shape))
