"""How a problem's own file calls `forward`: also with numbers, text, None, and tensors in lists and dicts.

What is a tensor is known by the problem's inputs, and so is its name (`evaluator.foreign.inside.kernelbench`); what
else the file passes is read from its text: where `torch` is a stand-in nothing makes tensors of random numbers, and
where it is not (`gpu.host.inside`) they would take the memory and the time of the inputs once more.
"""

import ast
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from evaluator.backends.model_binding import call_arguments, init_arguments

_PLAIN: Final = (bool, int, float, str, type(None))
_CALLABLE: Final = ("abs", "bool", "float", "int", "len", "max", "min", "pow", "round", "str", "sum", "tuple", "list")
"""Functions of Python's that make a number of numbers."""


class _Tensor:
    """Where a tensor stands."""


class _UnknownError(Exception):
    """The text does not say it."""


def forward_arguments(
    tree: ast.Module,
    names: Mapping[str, Any],
    function: Callable[..., Any],
    tensors: Mapping[str, Any],
    numbers: Mapping[str, float],
) -> tuple[list[Any], dict[str, Any], list[str]]:
    """What a ModelNew's forward is called with, in order and by name, and the tensors among it.

    `tree`, `names`: the problem's own file and what it defines; both may be empty. Raises MisfitError.
    """
    stated = stated_call(tree, names, function, tensors)
    if stated is not None:
        return stated
    if (own := _own_arguments(names, function, tensors)) is not None:
        return [tensors[name] for name in own], {}, own
    arguments, used = call_arguments(function, tensors, numbers)
    return arguments, {}, used


def _own_arguments(
    names: Mapping[str, Any], function: Callable[..., Any], tensors: Mapping[str, Any]
) -> list[str] | None:
    """The tensors that the file's own `forward` takes, for one that takes any number of arguments (`*args`) and is of
    a model with parameters, which are the problem's other inputs. None for every other one.
    """
    anything = any(one.kind is one.VAR_POSITIONAL for one in inspect.signature(function).parameters.values())
    model, stated = getattr(function, "__self__", None), getattr(names.get("Model"), "forward", None)
    if not anything or stated is None or not any(True for _ in getattr(model, "named_parameters", tuple)()):
        return None
    taken = list(inspect.signature(stated).parameters)[1:]
    # One that is called as a parameter of the model has the longer name.
    own = [f"{name}_input" if f"{name}_input" in tensors else name for name in taken]
    return own if all(name in tensors for name in own) else None


def stated_call(
    tree: ast.Module, names: Mapping[str, Any], function: Callable[..., Any], tensors: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any], list[str]] | None:
    """What `function` is called with, and the tensors among it, where the file passes more than tensors one by one.

    `tree`, `names`: the file and what it defines. None where it passes nothing else, its text does not say what, or
    the function does not take it.
    """
    try:
        args, kwargs = init_arguments(_returned(tree, names))
        signature = inspect.signature(names["Model"].forward)
        signature.bind(None, *args, **kwargs)
        inspect.signature(function).bind(*args, **kwargs)
        parameters = list(signature.parameters.values())[1:]
        used: list[str] = []
        if all(isinstance(one, _Tensor) for one in (*args, *kwargs.values())):
            return None
        filled = [
            _filled(_name_of(parameters, at), one, tensors, used, several=_leaves(one) is not None)
            for at, one in enumerate(args)
        ]
        named = {
            name: _filled(name, one, tensors, used, several=_leaves(one) is not None) for name, one in kwargs.items()
        }
    except (_UnknownError, KeyError, TypeError, ValueError, AttributeError):
        return None
    return filled, named, used


def anew(value: Any) -> Any:
    """The same in other lists, tuples and dicts: a call may take something out of those that it is given."""
    if isinstance(value, Mapping):
        return {key: anew(one) for key, one in value.items()}
    return type(value)(map(anew, value)) if type(value) in (list, tuple) else value


def returned_keys(tree: ast.Module) -> list[str]:
    """Of the dict that the `forward` of the problem's own file writes in its one `return`; else none."""
    models = [one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == "Model"]
    methods = [one for model in models for one in model.body if isinstance(one, ast.FunctionDef)]
    forward = [one for each in methods if each.name == "forward" for one in ast.walk(each)]
    match [one.value for one in forward if isinstance(one, ast.Return)]:
        case [ast.Dict(keys=keys)]:
            return [str(one.value) for one in keys if isinstance(one, ast.Constant)]
    return []


def in_order_of(keys: Sequence[str], returned: Any) -> Any:
    """What a ModelNew returned: a dict of these keys, which `returned_keys` gives, in their order."""
    return {key: returned[key] for key in keys} if isinstance(returned, dict) and {*returned} == {*keys} else returned


def _returned(tree: ast.Module, names: Mapping[str, Any]) -> Any:
    """What `get_inputs` returns. Raises _UnknownError."""
    defined = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == "get_inputs"]
    if not defined:
        raise _UnknownError
    known = dict(names)
    for statement in defined[-1].body:
        if isinstance(statement, ast.Return) and statement.value is not None:
            return _value(statement.value, known)
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            value = _value(statement.value, known)
            for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                known |= _assigned(target, value)
        elif isinstance(statement, ast.Expr):
            read = (known.get(one.id) for one in ast.walk(statement) if isinstance(one, ast.Name))
            if any(isinstance(one, list | dict) for one in read):
                break  # which it may change
        elif not isinstance(statement, ast.Pass | ast.AnnAssign):
            break
    raise _UnknownError


def _assigned(target: ast.expr, value: Any) -> dict[str, Any]:
    """The names in `k`, and in `x, k` where that many values are known. Raises _UnknownError."""
    if isinstance(target, ast.Name):
        return {target.id: value}
    if not (isinstance(target, ast.Tuple) and isinstance(value, list | tuple) and len(target.elts) == len(value)):
        raise _UnknownError
    pairs = zip(target.elts, value, strict=True)
    return {name: made for one, each in pairs for name, made in _assigned(one, each).items()}


def _value(one: ast.expr, names: Mapping[str, Any]) -> Any:
    """What stands there: something plain, or a tensor."""
    if isinstance(one, ast.List | ast.Tuple):
        if any(isinstance(each, ast.Starred) for each in one.elts):
            raise _UnknownError
        held = [_value(each, names) for each in one.elts]
        return tuple(held) if isinstance(one, ast.Tuple) else held
    if isinstance(one, ast.Dict):
        keys = [each.value if isinstance(each, ast.Constant) else None for each in one.keys]
        if not all(isinstance(key, str) for key in keys):
            raise _UnknownError
        return {key: _value(each, names) for key, each in zip(keys, one.values, strict=True)}
    if isinstance(one, ast.Name) and one.id in names and _is_known(names[one.id]):
        return names[one.id]
    called = [each.func for each in ast.walk(one) if isinstance(each, ast.Call)]
    if any(isinstance(each, ast.ListComp | ast.DictComp | ast.GeneratorExp) for each in ast.walk(one)):
        raise _UnknownError
    if all(isinstance(each, ast.Name) and each.id in _CALLABLE and each.id not in names for each in called):
        try:
            made = eval(compile(ast.Expression(one), "reference.py", "eval"), dict(names))
        except Exception:
            return _Tensor()
        return made if _is_known(made) else _Tensor()
    return _Tensor()


def _is_known(value: Any) -> bool:
    """Whether it is plain, or a list, tuple or dict of what is, or of tensors."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_known(one) for key, one in value.items())
    if type(value) in (list, tuple):
        return all(map(_is_known, value))
    return type(value) in (*_PLAIN, _Tensor)


def _leaves(value: Any) -> Sequence[Any] | None:
    """What a list, tuple or dict holds; None for anything else."""
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list | tuple) else None


def _name_of(parameters: Sequence[inspect.Parameter], at: int) -> str:
    parameter = parameters[min(at, len(parameters) - 1)]
    return f"{parameter.name}_{at}" if parameter.kind is parameter.VAR_POSITIONAL else parameter.name


def _filled(name: str, value: Any, tensors: Mapping[str, Any], used: list[str], several: bool) -> Any:
    """The same with tensors in it; those of an argument that holds several are numbered. Raises _UnknownError."""
    numbers = iter(range(1 << 20))

    def put(one: Any) -> Any:
        if isinstance(one, Mapping):
            return {key: put(each) for key, each in one.items()}
        if isinstance(one, list | tuple):
            return type(one)(map(put, one))
        called = f"{name}_{next(numbers)}" if several else name
        if not isinstance(one, _Tensor):
            return one
        found = next((each for each in _names(called) if each in tensors), None)
        if found is None:
            raise _UnknownError
        used.append(found)
        return tensors[found]

    return put(value)


def _names(name: str) -> Iterator[str]:
    """What a tensor may be called: one that is called as a parameter of the model has a longer name."""
    yield name
    yield f"{name}_input"
