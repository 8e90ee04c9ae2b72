"""A ModelNew, whichever tensors it is called with: made, and its parameters bound to inputs of the problem."""

import __future__

import ast
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluator.backends.model_binding import init_arguments, state_as_inputs
from evaluator.backends.stated_call import forward_arguments, in_order_of, returned_keys
from evaluator.foreign.inside import numbers_in_text


def executed(name: str) -> dict[str, Any]:
    """The names that a file defines."""
    names: dict[str, Any] = {"__name__": Path(name).stem, "__file__": name}
    exec(compile(Path(name).read_text(encoding="utf-8"), name, "exec"), names)
    return names


def reference_at(name: str, sizes: dict[str, int]) -> tuple[ast.Module, dict[str, Any]]:
    """The problem's file where its numbers are these, and the names that it defines there."""
    tree, constants = numbers_in_text.parsed(Path(name).read_text(encoding="utf-8-sig"))
    for size, value in sizes.items():
        if size in constants:
            constants[size].value = value
    try:
        return tree, _carried_out(tree.body, tree, name, {})
    except BaseException as error:  # also of what cannot be recorded, which no solution is to catch
        # Tables, masks and such that it makes at its top: what makes a model seldom needs them.
        failed = error
    names: dict[str, Any] = {}
    for statement in tree.body:
        with contextlib.suppress(BaseException):
            _carried_out([statement], tree, name, names)
    if "get_init_inputs" in names:
        try:
            names["get_init_inputs"]()
        except BaseException:
            raise failed from None
    return tree, names


def _carried_out(statements: list[ast.stmt], tree: ast.Module, name: str, names: dict[str, Any]) -> dict[str, Any]:
    names |= {"__name__": Path(name).stem, "__file__": name}
    late = any(isinstance(one, ast.ImportFrom) and one.module == "__future__" for one in tree.body)
    flags = __future__.annotations.compiler_flag if late else 0
    exec(compile(ast.Module(statements, []), name, "exec", flags), names)
    return names


class MadeModel:
    """A ModelNew as the problem's own file makes it and calls it."""

    def __init__(self, solution: dict[str, Any], reference: str, call: dict[str, Any]) -> None:
        """A new one for a call. `reference`: the problem's own file, where there is one of this name."""
        here = os.path.exists(reference)
        self._tree, self._names = reference_at(reference, call["sizes"]) if here else (ast.Module([], []), {})
        self._numbers = {**call["sizes"], **call["scalars"]}
        given = self._names["get_init_inputs"]() if "get_init_inputs" in self._names else []
        args, kwargs = init_arguments(given)
        self.model = solution["ModelNew"](*args, **kwargs)

    def arguments(self, inputs: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any], list[str]]:
        """What forward is called with, and the inputs among it. Raises MisfitError."""
        return forward_arguments(self._tree, self._names, self.model.forward, inputs, self._numbers)

    def called(self, arguments: Sequence[Any], by_name: Mapping[str, Any]) -> Any:
        """What forward returns: a dict in the order in which the problem's own file writes its."""
        return in_order_of(returned_keys(self._tree), self.model(*arguments, **by_name))


def bind_state(state: list[tuple[str, Any]], inputs: dict[str, Any]) -> None:
    """Have the model's parameters be inputs of the problem in the call that is under way.

    One that is none of them learns what there is to say of it, where it is used (`_unbound`).
    """
    left = dict(inputs)
    bound: set[int] = set()
    for one, name, shape in state_as_inputs(state, inputs):
        tensor = left.pop(name)
        bound.add(id(one))
        one._become(tensor if tuple(tensor.shape) == shape else tensor.view(*shape))
    inputs_left = ", ".join(f"{name} {list(one.shape)}" for name, one in left.items()) or "none"
    for name, one in state:
        if id(one) not in bound:
            one._unbound = (
                f"its parameter or buffer {name} {list(one.shape)}: of the problem's inputs that forward is not "
                f"given, none is like it by name or shape (left are {inputs_left})"
            )
