"""Numbers that the Model of a problem in KernelBench's form is made with, as its text states them.

A function that computes what Model does is given them beside the tensors: `forward(x, weight, stride, padding)`.
"""

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from common.contract import form_of
from evaluator.foreign.inside.numbers_in_text import assigned, text_at
from evaluator.foreign.learning import origins
from evaluator.problems.problem import Problem

_NONE: Final[Mapping[str, float | str]] = MappingProxyType({})
_MOST_AXES: Final = 6
"""Of a tuple, as of the sizes in a file: a longer one is no shape."""


def text_of(problem: Problem) -> str:
    """The file that states the problem, where it has KernelBench's form; else empty."""
    if not problem.origin:
        return ""
    text = origins.load(problem.origin).text
    return text.decode("utf-8-sig") if form_of(text) == "kernelbench" else ""


def numbers_of(problem: Problem) -> Mapping[str, float | str]:
    """`numbers_of_model` of the file that states a problem: where that is made smaller, of the smaller one."""
    text = text_of(problem)
    return numbers_of_model(
        text and text_at(text, problem.example_sizes[0]),
        {*problem.sizes, *(one.name for one in problem.scalars)},
    )


def numbers_of_model(text: str, sizes: Collection[str]) -> Mapping[str, float | str]:
    """The parameters of `Model.__init__` that are numbers: each its value, or the one of `sizes` that it gets; and
    those of `Model.forward` to which `get_inputs` gives one.

    `get_init_inputs` gives those that it lists, as numbers or by their names at the file's top; the others have their
    defaults. A tuple `stride` is `stride_0`, `stride_1` … By the names by which layers are given them, too.
    """
    if not text:
        return _NONE
    tree = ast.parse(text)
    top = dict(assigned(tree.body))
    found: dict[str, float | str] = {}
    for name, given in {**_given_to_forward(tree), **_given(tree)}.items():
        called = given.id if isinstance(given, ast.Name) else ""
        value = top.get(called, given)
        several = isinstance(value, ast.Tuple | ast.List)
        for at, one in enumerate(value.elts[:_MOST_AXES] if isinstance(value, ast.Tuple | ast.List) else [value]):
            size = f"{called}_{at}" if several else called
            known = size if size in sizes else _number(one)
            if known is not None:
                found[f"{name}_{at}" if several else name] = known
    return {**{name: found[one] for name, one in _given_to_layers(tree).items() if one in found}, **found}


def _given_to_forward(tree: ast.Module) -> dict[str, ast.expr]:
    """What each parameter of `Model.forward` gets: of the inputs, those that are no tensors are numbers."""
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    model, inputs = defined.get("Model"), defined.get("get_inputs")
    methods = [one for one in model.body if isinstance(one, ast.FunctionDef)] if model else []
    called = next((one.args for one in methods if one.name == "forward"), None)
    if called is None or not isinstance(inputs, ast.FunctionDef):
        return {}
    own = _assigned_once(inputs)
    names = [one.arg for one in (*called.posonlyargs, *called.args)][1:]
    match [_followed(one.value, own) for one in ast.walk(inputs) if isinstance(one, ast.Return)]:
        case [ast.List(elts=listed) | ast.Tuple(elts=listed)] if not any(
            isinstance(one, ast.Starred | ast.List | ast.Dict) for one in listed
        ):
            return {name: _followed(one, own) for name, one in zip(names, listed, strict=False)}
    return {}


def _given_to_layers(tree: ast.Module) -> dict[str, str]:
    """What `Model.__init__` passes on by another name, and nothing else by that: `nn.Conv2d(…, groups=channels)`."""
    passed: dict[str, set[str]] = {}
    models = (one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == "Model")
    made = (one for model in models for one in model.body if isinstance(one, ast.FunctionDef))
    for call in (one for each in made if each.name == "__init__" for one in ast.walk(each)):
        for one in call.keywords if isinstance(call, ast.Call) else ():
            if one.arg is not None:
                passed.setdefault(one.arg, set()).add(one.value.id if isinstance(one.value, ast.Name) else "")
    return {name: next(iter(given)) for name, given in passed.items() if len(given) == 1}


def _given(tree: ast.Module) -> dict[str, ast.expr]:
    """What each parameter of `Model.__init__` gets, where the text says it."""
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    model, inputs = defined.get("Model"), defined.get("get_init_inputs")
    methods = [one for one in model.body if isinstance(one, ast.FunctionDef)] if model else []
    made = next((one.args for one in methods if one.name == "__init__"), None)
    if made is None:
        return {}
    names = [one.arg for one in (*made.posonlyargs, *made.args)][1:]
    with_default = names[len(names) - len(made.defaults) :]
    values: dict[str, ast.expr] = dict(zip(with_default, made.defaults, strict=True))
    values |= {one.arg: value for one, value in zip(made.kwonlyargs, made.kw_defaults, strict=True) if value}
    if inputs is None:
        return values
    returns = [one.value for one in ast.walk(inputs) if isinstance(one, ast.Return)]
    own = _assigned_once(inputs)
    match [_followed(one, {**_assigned_once(tree), **own}) for one in returns]:
        case [ast.List(elts=[ast.List(elts=listed) | ast.Tuple(elts=listed), ast.Dict(keys=keys, values=held)])]:
            pass
        case [ast.List(elts=listed) | ast.Tuple(elts=listed)]:
            keys, held = [], []
        case [ast.Dict(keys=keys, values=held)]:
            listed = []
        case _:
            # Nobody knows what is given, so that a default is none either.
            return {}
    if None in keys:
        values.clear()
    many = next((at for at, one in enumerate(listed) if isinstance(one, ast.Starred)), None)
    values |= dict(zip(names[:many], listed, strict=False))
    if many is not None:  # behind `*more` nobody knows which is whose
        values = {name: value for name, value in values.items() if name not in names[many:]}
    for key, value in zip(keys, held, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            values[key.value] = value
    ordered = {**{name: values[name] for name in names if name in values}, **values}
    return {name: _followed(value, own) for name, value in ordered.items()}


def _assigned_once(scope: ast.Module | ast.FunctionDef | ast.ClassDef) -> dict[str, ast.expr]:
    """What the scope gives each name that it gives one thing, and changes nowhere."""
    nodes = list(_of_scope(scope.body))
    stored = Counter(one.id for one in nodes if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load))
    # `args.append(3)`, `args[0] = 3`
    changed = {
        one.value.id
        for one in nodes
        if isinstance(one, ast.Attribute | ast.Subscript) and isinstance(one.value, ast.Name)
    }
    return {name: value for name, value in assigned(scope.body) if stored[name] == 1 and name not in changed}


def _of_scope(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All of it but for what is in functions and classes of its own."""
    for node in nodes:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield node
            yield from _of_scope(ast.iter_child_nodes(node))


def _followed(value: ast.expr | None, names: Mapping[str, ast.expr]) -> ast.expr:
    """What a name stands for, where it is one of these."""
    for _ in names:
        if not isinstance(value, ast.Name) or value.id not in names:
            break
        value = names[value.id]
    return value or ast.Constant(None)


def _number(value: ast.expr) -> float | None:
    negative = isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub)
    number = value.operand if isinstance(value, ast.UnaryOp) else value
    if isinstance(number, ast.Constant) and isinstance(number.value, bool | int | float):
        return -number.value if negative else number.value
    return None
