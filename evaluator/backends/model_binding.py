"""What a `ModelNew` is made and called with: one rule for all that carries host code out, whatever its tensors are.

It runs in sandboxes that read no other code of ours (`gpu.host.inside`, `stages.lift.*.inside`).
"""

import inspect
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

BY_NAME_ALONE: Final = "_by_name_alone"
"""An attribute of a table that a model makes: it is the problem's input of its name, and no other of its shape."""

NO_INPUT: Final = "_no_input"
"""An attribute of a tensor that a model has made of a parameter, as another layout of it: it is no input itself."""


class MisfitError(Exception):
    """The submission does not fit the problem: the text says how."""


def init_arguments(given: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Positional and keyword arguments as `get_init_inputs` gives them: a list, a dict, or `[[...], {...}]`."""
    if isinstance(given, Mapping):
        return (), given
    if not isinstance(given, list | tuple):
        return (given,), {}
    if len(given) == 2 and isinstance(given[0], list | tuple) and isinstance(given[1], dict):
        return given[0], given[1]
    return given, {}


def call_arguments(
    function: Callable[..., Any], tensors: Mapping[str, Any], numbers: Mapping[str, float]
) -> tuple[list[Any], list[str]]:
    """What a function is called with, and the tensors among it: by name, and what has another name by order.

    Raises MisfitError.
    """
    parameters = list(inspect.signature(function).parameters.values())
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return list(tensors.values()), list(tensors)
    plain = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    named = {one.name for one in plain}
    free = [name for name in tensors if name not in named]
    given: list[Any] = []
    used: list[str] = []
    for one in plain:
        if one.name in tensors:
            used.append(one.name)
            given.append(tensors[one.name])
        elif one.name in numbers:
            given.append(numbers[one.name])
        elif one.default is not one.empty:
            given.append(one.default)
        elif free:
            used.append(free[0])
            given.append(tensors[free.pop(0)])
        else:
            called = getattr(function, "__name__", "it")
            raise MisfitError(f"{called} takes '{one.name}', and the problem has {', '.join((*tensors, *numbers))}")
    return given, used


def outputs_of(returned: Any) -> list[Any]:
    """What a model returns, one by one in order, also out of lists, tuples and dicts, as with a reference."""
    if isinstance(returned, Mapping):
        return [leaf for one in returned.values() for leaf in outputs_of(one)]
    if isinstance(returned, list | tuple):
        return [leaf for one in returned for leaf in outputs_of(one)]
    return [] if returned is None else [returned]


def state_as_inputs(
    state: Iterable[tuple[str, Any]], inputs: Mapping[str, Any]
) -> Iterator[tuple[Any, str, tuple[int, ...]]]:
    """Which of the model's parameters and buffers are which inputs: each with its own shape.

    By name, where both have as many elements; the others by shape, in order, of the same type before those of another
    floating-point type. One that is no input is left as it is.
    """
    held = [(name, one, tuple(one.shape)) for name, one in state if NO_INPUT not in vars(one)]
    left = {name: (one, tuple(one.shape)) for name, one in inputs.items()}
    bound: set[int] = set()

    def of_name(name: str, _: Any, shape: tuple[int, ...], other: str) -> bool:
        return other == re.sub(r"[^A-Za-z0-9]", "_", name) and math.prod(shape) == math.prod(left[other][1])

    def of_shape_and_type(_: str, one: Any, shape: tuple[int, ...], other: str) -> bool:
        if BY_NAME_ALONE in vars(one):  # a table of the submission's own, where none is called so
            return False
        return shape == left[other][1] and one.dtype == left[other][0].dtype

    def of_shape(_: str, one: Any, shape: tuple[int, ...], other: str) -> bool:
        if BY_NAME_ALONE in vars(one):
            return False
        types = one.dtype, left[other][0].dtype
        return shape == left[other][1] and all(each.is_floating_point for each in types)

    for fits in (of_name, of_shape_and_type, of_shape):
        for name, one, shape in held:
            if id(one) in bound:
                continue
            match = next((other for other in left if fits(name, one, shape, other)), None)
            if match is not None:
                del left[match]
                bound.add(id(one))
                yield one, match, shape
