"""What the functions of an extension take, read from its text: nothing is run to learn it."""

import re
from collections.abc import Iterator
from typing import Final

from common.contract import Status
from evaluator.backends.prebuilt import ExtensionCall
from evaluator.problems.problem import Problem
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.extension.binding import (
    ExtensionFunction,
    ExtensionParameter,
    ExtensionSignature,
    bind_extension,
)
from evaluator.stages.lift.extension.model_numbers import numbers_of
from evaluator.stages.lift.triton.entry_points import MODEL, RETURNING, bind_python, python_entry
from evaluator.stages.screen.lexer import SourceText

_DEFINED: Final = re.compile(r"\.\s*def\s*\(\s*\"(?P<name>\w+)\"\s*,\s*")
_NAMED: Final = re.compile(r"(?:torch::wrap_pybind_function\s*\(\s*)?&?\s*(?:\w+\s*::\s*)*(?P<name>[A-Za-z_]\w*)")
_LAMBDA: Final = re.compile(r"\[[^\]]*\]\s*\((?P<parameters>[^(){};]*)\)")
_ARGUMENT: Final = re.compile(
    r"(\barg\s*\(\s*)?\"(?P<name>\w+)\"(?(1)\s*\)|_a\b)(?:\s*\.\s*\w+\s*\([^()]*\))*\s*(?P<default>=)?"
)
"""`py::arg("x")` and `"x"_a`, as pybind11's documentation has them ("Keyword arguments")."""
_NAME: Final = re.compile(r"([A-Za-z_]\w*)\s*(?:=[^,]*)?\Z")
_KINDS: Final = (
    (r"std::vector<(?:at::|torch::)?Tensor>|(?:at::|torch::)?TensorList", "tl"),
    (r"(?:c10|std|torch|at)?(?:::)?optional<(?:const)?(?:at::|torch::)?Tensor&?>", "to"),
    (r"(?:at::|torch::)?Tensor", "t"),
    (r"std::vector<(?:std::)?u?(?:int|long|int64_t|int32_t)>|(?:at::|torch::|c10::)?IntArrayRef", "il"),
    (r"bool", "b"),
    (
        r"(?:std::)?(?:unsigned|signed)?(?:int|short|long|longlong|longint|u?int(?:8|16|32|64)_t|s?size_t)|unsigned",
        "i",
    ),
    (r"float|double|(?:at::|torch::|c10::)?Scalar", "f"),
    (r"(?:std::)?string", "s"),
    (r"py(?:bind11)?::(?:object|handle)", "o"),
)
"""Types, without `const`, `&` and spaces, and what `ExtensionParameter.kind` calls them."""


def call_of_extension(source: str, problem: Problem) -> tuple[ExtensionCall, str]:
    """Which function is called with what, as a recording binds it; and in words. Raises LiftRefusedError."""
    binding = bind_extension(problem, source, ExtensionSignature(functions=tuple(_functions(source))))
    stated = {one.name: one.value for one in problem.entry if one.value is not None}
    own = {**stated, **numbers_of(problem)}

    def value(name: str) -> str | float:
        found = own.get(name, name)
        return found if isinstance(found, str) else float(found)

    arguments: list[tuple[str, str | float | tuple[str | float, ...] | None]] = []
    for name, parameter in zip(binding.names, binding.function.parameters, strict=False):
        kind = parameter.kind[0]
        if name is None:
            arguments.append((kind, None))
        elif isinstance(name, tuple):
            arguments.append((kind, tuple(value(one) for one in name)))
        else:
            arguments.append((kind, name if kind == "t" else value(name)))
    return ExtensionCall(binding.function.name, tuple(arguments)), binding.said


def call_of_python(source: str, problem: Problem) -> ExtensionCall | None:
    """How a function is called, as a recording binds it; None for one whose parameters are all called as the problem
    calls its own, and where that is not to be read.

    Raises LiftRefusedError where it does not fit the problem.
    """
    entry = python_entry(source)
    if entry is None or entry.name == MODEL or entry.takes_more:
        return None
    if entry.name != RETURNING and not problem.entry and set(entry.parameter_names) <= set(problem.parameter_names):
        return None
    binding = bind_python(problem, entry)
    tensors = {one.name for one in (*problem.inputs, *problem.outputs)}
    floats = {one.name for one in problem.scalars if one.dtype.is_float}
    stated = {one.name: one.value for one in problem.entry if one.value is not None}
    whole = {name: int(value) for name, value in stated.items() if float(value).is_integer()}
    own = {**stated, **whole, **binding.own}

    def argument(name: str) -> tuple[str, str | float | tuple[str | float, ...]]:
        if name in tensors:
            return "t", name
        if (axes := binding.axes(name)) and name not in own:
            return "i", tuple(own[one] for one in axes)
        value = own.get(name, name)
        if isinstance(value, str):
            return "f" if value in floats else "i", value
        return "b" if isinstance(value, bool) else "i" if isinstance(value, int) else "f", value

    return ExtensionCall(
        entry.name,
        tuple(argument(name) for name in binding.names),
        tuple((name, *argument(name)) for name in binding.keywords),
    )


def _functions(source: str) -> Iterator[ExtensionFunction]:
    code = SourceText.read(source).code
    end = 0
    for match in _DEFINED.finditer(source):
        if match.start() < end:
            continue
        end = source.find(";", match.end())
        if end < 0:
            return
        rest = source[match.end() : end]
        if found := _LAMBDA.match(rest):
            parameters = found["parameters"]
        else:
            named = _NAMED.match(rest)
            written = named and _definition(code, named["name"])
            if written is None:
                raise LiftRefusedError(
                    Status.UNSUPPORTED,
                    f"What {match['name']} takes cannot be read from the text: nothing there defines it plainly.",
                    "Define the function in this text, and bind it by its name. It was not judged, so there is no "
                    "reward.",
                )
            parameters = written
        arguments = list(_ARGUMENT.finditer(rest))
        made = []
        for at, part in enumerate(_parts(parameters)):
            said = arguments[at] if at < len(arguments) else None
            made.append(
                ExtensionParameter(
                    kind=_kind(part), name=said["name"] if said else "", has_default=bool(said and said["default"])
                )
            )
        yield ExtensionFunction(name=match["name"], parameters=tuple(made))


def _definition(code: str, name: str) -> str | None:
    """What stands between the parentheses of the first definition, or else declaration, of a function."""
    for end in (r"\{", r";"):
        if match := re.search(rf"\b{name}\s*\((?P<parameters>[^(){{}};]*)\)\s*{end}", code):
            return match["parameters"]
    return None


def _kind(parameter: str) -> str:
    plain = re.sub(r"\bconst\b|&|\s", "", _without_name(parameter))
    return next((kind for pattern, kind in _KINDS if re.fullmatch(pattern, plain)), "x")


def _without_name(parameter: str) -> str:
    """The type alone: a parameter has a name where something stands before it that is a type by itself."""
    plain = parameter.partition("=")[0].strip()
    match = _NAME.search(plain)
    before = plain[: match.start()] if match else ""
    return before if re.search(r"[\w>&]\s*$", before) and not before.strip().endswith("::") else plain


def _parts(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, character in enumerate(text):
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            yield text[start:at]
            start = at + 1
    if text.strip() and text.strip() != "void":
        yield text[start:]
