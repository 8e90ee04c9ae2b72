"""Reads a solution and writes what its forward passes on at each set of sizes: `found.json`.

The request is JSON in `request.json`: for each call, sizes, scalars, the problem's tensors. `solution.py` is the
text, `reference.py` the problem's own, where it has one.
"""

import ast
import inspect
import json
import os
import re
import traceback
from pathlib import Path
from typing import Any, Final

from evaluator.foreign.inside import stated_sizes
from evaluator.stages.lift.kernelbench.inside import tensors, torch_module
from evaluator.stages.lift.kernelbench.inside.tensors import DTYPES, PassedTensor, Script, UnrecordableError

_TEXT: Final = "solution.py"
_REFERENCE: Final = "reference.py"
_OUTPUT: Final = "found.json"


class MisfitError(Exception):
    """The solution does not fit the problem."""


def executed(name: str) -> dict[str, Any]:
    """The names that a file defines."""
    names: dict[str, Any] = {"__name__": Path(name).stem, "__file__": name}
    exec(compile(Path(name).read_text(encoding="utf-8"), name, "exec"), names)
    return names


def reference_at(sizes: dict[str, int]) -> dict[str, Any]:
    """The names that the problem's file defines where its numbers are these, and what follows from them does."""
    tree, constants = stated_sizes.parsed(Path(_REFERENCE).read_text(encoding="utf-8"))
    for name, value in sizes.items():
        if name in constants:
            constants[name].value = value
    names: dict[str, Any] = {"__name__": Path(_REFERENCE).stem, "__file__": _REFERENCE}
    exec(compile(tree, _REFERENCE, "exec"), names)
    return names


def made(solution: dict[str, Any], call: dict[str, Any]) -> Any:
    """A new ModelNew for a call."""
    reference = reference_at(call["sizes"]) if os.path.exists(_REFERENCE) else None
    given = reference["get_init_inputs"]() if reference and "get_init_inputs" in reference else []
    args, kwargs = (given, {}) if not isinstance(given, dict) else ([], given)
    if len(args) == 2 and isinstance(args[0], list | tuple) and isinstance(args[1], dict):
        args, kwargs = args
    return solution["ModelNew"](*args, **kwargs)


def traced(model: Any, call: dict[str, Any]) -> list[str]:
    """The script of one call of forward."""
    script = Script()
    tensors.CURRENT[:] = [script]
    inputs: dict[str, PassedTensor] = {}
    for at, one in enumerate(call["inputs"]):
        dtype = DTYPES[one["type"]]
        inputs[one["name"]] = PassedTensor(one["shape"], dtype, script.add("tensor", at, dtype.number, *one["shape"]))
    arguments, used = arguments_of(model, inputs, {**call["sizes"], **call["scalars"]})
    bind_state(model, {name: one for name, one in inputs.items() if name not in used})
    returned = model(*arguments)
    for one in returned if isinstance(returned, list | tuple) else [returned]:
        if not isinstance(one, PassedTensor):
            raise MisfitError(f"forward returns a {type(one).__name__} where a tensor belongs")
        script.add("give", one.ref())
    return script.lines


def arguments_of(
    model: Any, inputs: dict[str, PassedTensor], numbers: dict[str, float]
) -> tuple[list[Any], list[str]]:
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


def bind_state(model: Any, inputs: dict[str, PassedTensor]) -> None:
    """The model's parameters as inputs of the problem: by name and shape, the others by shape, in order."""
    state = list(model.named_parameters())
    left = dict(inputs)
    for by_name in (True, False):
        for name, one in state:
            if one._ref is not None:
                continue
            plain = re.sub(r"[^A-Za-z0-9]", "_", name)
            for other, tensor in left.items():
                if (other == plain or not by_name) and one._shape == tensor._shape:
                    one._ref = left.pop(other)._ref
                    break
    if left and not hasattr(model, "forward"):
        raise MisfitError(f"nothing of the model is {', '.join(left)}")


def answer(solution: dict[str, Any], call: dict[str, Any]) -> dict[str, Any]:
    """The script of a call, or why there is none."""
    tensors.CURRENT.clear()
    try:
        return {"lines": traced(made(solution, call), call)}
    except UnrecordableError as refused:
        return refused_call(refused.why, refused.what, refused)
    except MisfitError as misfit:
        return refused_call("misfit", str(misfit), misfit)
    except Exception as error:
        return refused_call("error", f"{type(error).__name__}: {error}", error)


def first_lines_of(texts: list[str]) -> list[int]:
    """Where each text begins in the solution; 0 where it is made in another way."""
    tree = ast.parse(Path(_TEXT).read_text(encoding="utf-8"))
    held = [one for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    places = {one.value: one.lineno for one in held}
    return [places.get(text, 0) for text in texts]


def refused_call(why: str, what: str, error: BaseException) -> dict[str, Any]:
    """What went wrong, and in which line of the solution."""
    lines = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == _TEXT]
    return {"refusal": {"why": why, "what": what[:300], "line": lines[-1] if lines else 0}}


def main() -> None:
    """Answer the request."""
    request = json.loads(Path("request.json").read_text(encoding="utf-8"))
    torch_module.install_torch()
    found: dict[str, Any] = {"modules": [], "calls": []}
    try:
        solution = executed(_TEXT)
        if "ModelNew" not in solution:
            raise MisfitError("it defines no class ModelNew")
        found["calls"] = [answer(solution, call) for call in request["calls"]]
        for module in torch_module.MODULES:
            module["lines"] = first_lines_of(module["sources"])
        # Some compile when a model is made: the same for each of them.
        found["modules"] = [
            one for at, one in enumerate(torch_module.MODULES) if one not in torch_module.MODULES[:at]
        ]
    except UnrecordableError as refused:
        found |= refused_call(refused.why, refused.what, refused)
    except MisfitError as misfit:
        found |= refused_call("misfit", str(misfit), misfit)
    except SyntaxError as error:
        found |= {"refusal": {"why": "misfit", "what": f"it is no Python: {error.msg}", "line": error.lineno or 0}}
    except ImportError as error:
        found |= refused_call("other", f"imports {error.name}", error)
    except Exception as error:
        found |= refused_call("error", f"{type(error).__name__}: {error}", error)
    Path(_OUTPUT).write_text(json.dumps(found), encoding="utf-8")


main()
