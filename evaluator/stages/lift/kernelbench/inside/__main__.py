"""Reads a solution and writes what its forward passes on at each set of sizes: `found.json`.

The request is JSON in `request.json`: for each process, and for each of the sizes that it is called at, sizes,
scalars, the problem's tensors; and the device. `solution.py` is the
text, `reference.py` the problem's own, where it has one.
"""

import ast
import json
import traceback
from pathlib import Path
from typing import Any, Final

from evaluator.backends.model_binding import MisfitError, outputs_of
from evaluator.stages.lift.kernelbench.inside import torch_module
from evaluator.stages.lift.kernelbench.inside.models import MadeModel, bind_state, executed
from evaluator.stages.lift.kernelbench.inside.script import CURRENT, DTYPES, Script, UnrecordableError
from evaluator.stages.lift.kernelbench.inside.tensors import PassedTensor

_TEXT: Final = "solution.py"
_REFERENCE: Final = "reference.py"
_OUTPUT: Final = "found.json"


def trace(script: Script, made: MadeModel, call: dict[str, Any]) -> None:
    """Write all calls of forward, of one model: each gets the tensors of one set, its parameters too."""
    CURRENT[:] = [script]
    state: list[tuple[str, PassedTensor]] | None = None
    for first in call["first_buffers"]:
        script.add("begin")
        inputs: dict[str, PassedTensor] = {}
        for at, one in enumerate(call["inputs"], first):
            dtype = DTYPES[one["type"]]
            line = script.add("tensor", at, dtype.number, *one["shape"])
            given = PassedTensor(one["shape"], dtype, line)
            inputs[one["name"]] = given.clone() if one["changed"] else given
        arguments, by_name, used = made.arguments(inputs)
        if state is None:
            # What forward keeps in the model is its own, and no parameter.
            state = list(made.model.named_parameters())
        bind_state(state, {name: one for name, one in inputs.items() if name not in used})
        outputs = outputs_of(made.called(arguments, by_name))
        if not outputs:
            raise MisfitError("forward returns nothing")
        for one in outputs:
            if not isinstance(one, PassedTensor):
                raise MisfitError(f"forward returns a {type(one).__name__} where a tensor belongs")
            script.add("give", one.ref())


def answer(solution: dict[str, Any], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """The script of the calls of a process, which has a model for each set of sizes, or why there is none."""
    script = Script()
    try:
        for call in calls:
            CURRENT.clear()
            trace(script, MadeModel(solution, _REFERENCE, call), call)
        return {"lines": script.lines}
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
    torch_module.install_torch(request["device"])
    found: dict[str, Any] = {"modules": [], "calls": []}
    try:
        solution = executed(_TEXT)
        if "ModelNew" not in solution:
            raise MisfitError("it defines no class ModelNew")
        found["calls"] = [answer(solution, calls) for calls in request["calls"]]
    except UnrecordableError as refused:
        found |= refused_call(refused.why, refused.what, refused)
    except MisfitError as misfit:
        found |= refused_call("misfit", str(misfit), misfit)
    except SyntaxError as error:
        # Of the text itself; what the text has parsed while it runs is an exception like any other.
        if error.filename == _TEXT:
            found |= {"refusal": {"why": "syntax", "what": error.msg[:300], "line": error.lineno or 1}}
        else:
            found |= refused_call("error", f"{type(error).__name__}: {error}", error)
    except ImportError as error:
        found |= refused_call("other", f"imports {error.name}", error)
    except Exception as error:
        found |= refused_call("error", f"{type(error).__name__}: {error}", error)
    # Also where it went no further: what it compiles may be wanted all the same.
    for module in torch_module.MODULES:
        module["lines"] = first_lines_of(module["sources"])
    found["modules"] = torch_module.MODULES
    Path(_OUTPUT).write_text(json.dumps(found), encoding="utf-8")


main()
