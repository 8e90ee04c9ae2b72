"""What a function of an extension is called with, and which of its results is which output."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile
from typing import Annotated, Final

from pydantic import Field

from common.contract import Status
from common.wire import DType, Wire
from evaluator.problems.problem import Problem, Sizes
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.calls.process_calls import ProcessCalls
from evaluator.stages.lift.extension.model_numbers import numbers_of
from evaluator.stages.lift.host_runs import HostCall, bytes_of_tensors
from evaluator.stages.screen.lexer import SourceText

SCALAR_TYPES: Final = {
    DType.UINT8: 0,
    DType.INT8: 1,
    DType.INT16: 2,
    DType.INT32: 3,
    DType.INT64: 4,
    DType.FLOAT16: 5,
    DType.FLOAT32: 6,
    DType.FLOAT64: 7,
    DType.BFLOAT16: 15,
    DType.UINT16: 27,
    DType.UINT32: 28,
    DType.UINT64: 29,
}
"""Numbers of c10::ScalarType."""
_BOOL: Final = 11
_NAME: Final = re.compile(r"([A-Za-z_]\w*)\s*(?:=[^,]*)?\Z")
_ENTRY: Final = "forward"
_WORDS: Final = {"t": "a tensor", "i": "an integer", "f": "a floating-point number", "b": "a bool", "s": "a text"}


class ExtensionParameter(Wire):
    """One parameter of a function, as its own compiler sees it."""

    kind: Annotated[str, Field(max_length=8)]
    """`t` tensor, `i` integer, `f` floating point, `b` bool, `s` text, `x` anything else; with `o` where it may be
    None (alone: a Python object), with `l` a list of such."""
    name: Annotated[str, Field(max_length=256)]
    """As `py::arg` says it; empty where nothing does."""
    has_default: bool


class ExtensionFunction(Wire):
    """One function that Python can call."""

    name: Annotated[str, Field(max_length=256)]
    parameters: Annotated[tuple[ExtensionParameter, ...], Field(max_length=64)]


class ExtensionSignature(Wire):
    """What the module has."""

    functions: Annotated[tuple[ExtensionFunction, ...], Field(max_length=64)]


@dataclass(frozen=True)
class ExtensionBinding:
    """What goes into each parameter: the name of a tensor, a size or a scalar; several for a list; None for None."""

    function: ExtensionFunction
    names: tuple[str | tuple[str, ...] | None, ...]
    """Shorter than the parameters where the last of them keep their defaults."""
    said: str
    own: Mapping[str, float | str] = field(default_factory=dict)
    """Numbers that the problem's Model is made with, by name: each what it is, or the size that it is."""

    def calls_of(self, problem: Problem, process: ProcessCalls) -> HostCall:
        """The calls of a process, as `recorder/extension.cpp` reads them."""
        lines: list[str] = []
        for call in process.each:
            self._write_call(lines, problem, *call)
        return HostCall(bytes_of_tensors(problem, *process.sizes_of_sets), tuple(lines))

    def _write_call(
        self, lines: list[str], problem: Problem, sizes: Sizes, scalars: Mapping[str, float], each_set: int
    ) -> None:
        """One call behind the lines so far."""
        tensors = {tensor.name: tensor for tensor in (*problem.inputs, *problem.outputs)}
        numbers: dict[str, float] = {s.name: scalars.get(s.name, s.value) for s in problem.scalars}
        numbers |= {one.name: one.value for one in problem.entry if one.value is not None}
        numbers |= sizes
        numbers |= {name: numbers[one] if isinstance(one, str) else one for name, one in self.own.items()}
        lines.append("begin 0")
        given: list[int] = []
        for name, parameter in zip(self.names, self.function.parameters, strict=False):
            if name is None:
                lines.append("none 0")
            elif isinstance(name, tuple):
                lines += [_number(parameter, numbers[one]) for one in name]
                places = range(len(lines) - len(name), len(lines))
                lines.append(f"list {len(name)} {' '.join(map(str, places))}")
            elif name in tensors:
                shape = tensors[name].shape_at(sizes)
                buffer = each_set * len(tensors) + list(tensors).index(name)
                kind = _BOOL if tensors[name].is_bool else SCALAR_TYPES[tensors[name].dtype]
                place = (buffer, kind, *shape)
                lines.append(f"tensor {len(place)} {' '.join(map(str, place))}")
                if tensors[name].changed:
                    lines.append(f"copy 1 {len(lines) - 1}")
            else:
                lines.append(_number(parameter, numbers[name]))
            given.append(len(lines) - 1)
        called = f"call {self.function.name.encode().hex()} {len(given)} {' '.join(map(str, given))}".rstrip()
        lines += [called, f"give 1 {len(lines)}"]


def _number(parameter: ExtensionParameter, value: float) -> str:
    """A number for a parameter, or for one place of a list; a Python object gets the kind that the number has."""
    kind = parameter.kind[0]
    if kind == "f" or (kind == "o" and value != int(value)):
        return f"float {float(value)!r} 0"
    return f"{'bool' if kind == 'b' else 'int'} 1 {int(value)}"


def bind_extension(problem: Problem, source: str, signature: ExtensionSignature) -> ExtensionBinding:
    """Raises LiftRefusedError where no function of the module fits the problem."""
    function = _chosen(problem, signature)
    parameters = function.parameters
    written = _written_names(source, function)
    names = [parameter.name or said for parameter, said in zip(parameters, written, strict=True)]
    odd = next((i for i, one in enumerate(parameters) if not _passable(one)), None)
    if odd is not None:
        raise _misfit(problem, function, f"parameter {odd + 1} is of a type that a problem cannot fill")
    tensors, how = _tensors(problem, function, names)
    chosen: list[str | tuple[str, ...] | None] = []
    own = numbers_of(problem)
    numbers: dict[int, str | tuple[str, ...]] = {
        **_numbers(problem, function, names, own),
        **_lists(problem, function, names, own),
    }
    kept_from: int | None = None
    optional: set[int] = set()
    for at, parameter in enumerate(parameters):
        tensor = tensors.get(at)
        if tensor is not None:
            chosen.append(tensor)
        elif at in numbers:
            chosen.append(numbers[at])
        elif parameter.has_default and "o" in parameter.kind:
            optional.add(at)  # its default where nothing behind it is given, else None
            chosen.append(None)
            continue
        elif parameter.has_default:
            kept_from = at if kept_from is None else kept_from
            chosen.append(None)
            continue
        elif "o" in parameter.kind:
            chosen.append(None)
        else:
            raise _misfit(problem, function, f"nothing of the problem is parameter {at + 1}, '{names[at] or '?'}'")
        if kept_from is not None:
            raise _misfit(problem, function, f"parameter {kept_from + 1} has a default, and one behind it has none")
    given = tuple(chosen[:kept_from])
    while given and len(given) - 1 in optional:
        given = given[:-1]
    said = ", ".join(
        "None" if name is None else name if isinstance(name, str) else f"[{', '.join(name)}]" for name in given
    )
    return ExtensionBinding(function, given, f"{function.name}({said}) bound {how}", own)


def _passable(parameter: ExtensionParameter) -> bool:
    return (
        parameter.has_default or parameter.kind.rstrip("o") in ("t", "i", "f", "b") or parameter.kind in ("o", "il")
    )


def _chosen(problem: Problem, signature: ExtensionSignature) -> ExtensionFunction:
    functions = signature.functions
    for name in (_ENTRY, problem.id, "run", "solve"):
        for one in functions:
            if one.name == name:
                return one
    if len(functions) == 1:
        return functions[0]
    what = ", ".join(one.name for one in functions[:8])
    raise LiftRefusedError(
        Status.INVALID_SUBMISSION,
        f"The module has the functions {what}, and none of them is `forward`."
        if functions
        else "The module has no function.",
        f'Bind the one that is to be called: `m.def("{_ENTRY}", &{_ENTRY});`.',
    )


def _written_names(source: str, function: ExtensionFunction) -> list[str]:
    """Names of the parameters where the function that the module calls so is defined in the text; else empty ones."""
    many = len(function.parameters)
    defined = rf'\.\s*def\s*\(\s*"{re.escape(function.name)}"\s*,\s*&?\s*(?:\w+\s*::\s*)*([A-Za-z_]\w*)'
    bound = re.search(defined, source)
    name = bound[1] if bound else function.name
    if re.fullmatch(r"[A-Za-z_]\w*", name) and name in source:
        code = SourceText.read(source).code
        for match in re.finditer(rf"\b{name}\s*\((?P<parameters>[^(){{}};]*)\)\s*\{{", code):
            found = [_NAME.search(part.strip()) for part in _parts(match["parameters"])]
            if len(found) == many:
                return [one[1] if one else "" for one in found]
    return [""] * many


def _parts(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == "," and not depth:
            yield text[start:at]
            start = at + 1
    if text.strip():
        yield text[start:]


def _tensors(
    problem: Problem, function: ExtensionFunction, names: Sequence[str]
) -> tuple[dict[int, str | None], str]:
    """What goes into each parameter that takes a tensor, by its place; and how that was found, in words."""
    inputs, outputs = [t.name for t in problem.inputs], [t.name for t in problem.outputs]
    places = [at for at, one in enumerate(function.parameters) if one.kind in ("t", "to", "o")]
    required = [at for at in places if function.parameters[at].kind == "t"]
    known = {*inputs, *outputs}
    by_name = {at: names[at] for at in places if names[at] in known}
    if (
        set(required) <= set(by_name)
        and len(set(by_name.values())) == len(by_name)
        and set(inputs) <= {*by_name.values()}
    ):
        return {at: by_name.get(at) for at in places}, "by name"
    everything = [*inputs, *outputs]
    # One that may be None is none of the problem's rather than an output; so is a bias where the problem has none.
    biases = {at for at in places if "o" in function.parameters[at].kind and "bias" in names[at].lower()}
    unbiased = [at for at in places if at not in biases or any("bias" in name for name in inputs)]
    tried = (
        *((places, inputs), (required, inputs), (unbiased, inputs)),
        *((places, everything), (required, everything), (unbiased, everything)),
    )
    for some, tensors in tried:
        if len(some) == len(tensors):
            ordered = dict(zip(some, tensors, strict=True))
            return {at: ordered.get(at) for at in places}, "by order"
    raise _misfit(problem, function, f"it takes {len(places)} tensors")


def _numbers(
    problem: Problem, function: ExtensionFunction, names: Sequence[str], own: Mapping[str, float | str]
) -> dict[int, str]:
    """What goes into each parameter that takes a number: by name, or where none is known, by order."""
    stated = {one.name: one.value for one in problem.entry if one.value is not None}
    floats = [s.name for s in problem.scalars if s.dtype.is_float]
    integers = [*(s.name for s in problem.scalars if not s.dtype.is_float), *problem.sizes]
    known = {*floats, *integers, *stated, *own}
    stated |= {name: one for name, one in own.items() if not isinstance(one, str)}
    places = {at: one for at, one in enumerate(function.parameters) if one.kind[0] in "ifbo" and one.kind != "il"}
    # An object that is called as a switch of Model, such as `bias`, is a tensor or None.
    switches = {name for name, one in own.items() if isinstance(one, bool)}
    found = {at: names[at] for at, one in places.items() if names[at] in known}
    found = {at: name for at, name in found.items() if places[at].kind != "o" or name not in switches}
    for at, name in found.items():
        value = stated.get(name, 0)
        if places[at].kind[0] in "ib" and (name in floats or (value is not None and value != int(value))):
            raise _misfit(problem, function, f"parameter {at + 1}, '{name}', takes an integer")
    for kind, available in (("f", floats), ("i", integers)):
        left = [at for at, one in places.items() if one.kind[0] == kind and at not in found and not one.has_default]
        free = [name for name in available if name not in found.values()]
        if left and len(left) == len(free):
            found |= dict(zip(left, free, strict=True))
    return found


def _lists(
    problem: Problem, function: ExtensionFunction, names: Sequence[str], own: Mapping[str, float | str]
) -> dict[int, tuple[str, ...]]:
    """What goes into each parameter that takes a list of integers, such as a stride along each axis.

    `stride_0`, `stride_1` … where the problem has those. One number `stride` stands for each axis behind the first
    two of the first input, which are the batch and the channels: so PyTorch's convolutions and pools hold it.
    """
    axes = len(problem.inputs[0].shape) - 2
    found: dict[int, tuple[str, ...]] = {}
    for at, (parameter, name) in enumerate(zip(function.parameters, names, strict=True)):
        if parameter.kind != "il" or not name:
            continue
        known = {*problem.sizes, *own}
        several = tuple(takewhile(known.__contains__, (f"{name}_{axis}" for axis in count())))
        if several or (name in known and axes > 0):
            found[at] = several or (name,) * axes
    return found


def expected_function(problem: Problem) -> str:
    """The function that fits the problem."""
    parameters = [f"torch::Tensor {t.name}" for t in problem.inputs]
    parameters += [f"double {s.name}" if s.dtype.is_float else f"int64_t {s.name}" for s in problem.scalars]
    many = len(problem.outputs)
    returns = "torch::Tensor" if many == 1 else "std::vector<torch::Tensor>"
    return f"{returns} {_ENTRY}({', '.join(parameters)})"


def _misfit(problem: Problem, function: ExtensionFunction, why: str) -> LiftRefusedError:
    takes = ", ".join(_word(one) for one in function.parameters) or "nothing"
    known = dict.fromkeys((*(s.name for s in problem.scalars), *problem.sizes, *numbers_of(problem)))
    scalars = ", ".join(known) or "nothing"
    tensors = ", ".join(tensor.name for tensor in problem.inputs)
    return LiftRefusedError(
        Status.INVALID_SUBMISSION,
        f"`{function.name}` takes {takes}, and {problem.id} has {tensors} for tensors and {scalars} for numbers: "
        f"{why}.",
        f"Write it as `{expected_function(problem)}`; it returns {', '.join(t.name for t in problem.outputs)}.",
    )


def _word(parameter: ExtensionParameter) -> str:
    kind = parameter.kind
    word = "a Python object" if kind == "o" else _WORDS.get(kind[0], "something else")
    return (
        f"a list ({word} each)"
        if kind.endswith("l")
        else f"{word} or None"
        if kind != "o" and kind.endswith("o")
        else word
    )
