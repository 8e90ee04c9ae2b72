"""What an entry function is called with: which tensor, size or scalar of the problem is which of its parameters."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile
from types import MappingProxyType
from typing import Final

from common.contract import Phase, Status
from common.wire import DType, Wire
from evaluator.errors import Ruling
from evaluator.problems.problem import C_TYPES, EntryParameter, Problem, Sizes
from evaluator.stages.lift.dialects import EntryFunction
from evaluator.stages.lift.extension.model_numbers import numbers_of


class LiftRefusedError(Exception):
    """Host code of which no plan can be made: becomes a Ruling before it reaches a caller of a stage."""

    def __init__(self, status: Status, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.ruling = Ruling(status, Phase.LIFT, message, hint)


class HostParameter(Wire):
    """One parameter of the entry function, as its own compiler sees it."""

    kind: str
    """`p` pointer, `i` and `u` integers, `c` char, `b` bool, `f` floating point, `x` anything else."""
    bytes: int
    behind: str
    """Of a pointer, the kind of what it points to; `v` is void."""
    bytes_behind: int
    reads: bool
    """Whether it points to const."""


class HostSignature(Wire):
    """What the entry function takes."""

    parameters: tuple[HostParameter, ...]
    count: int


@dataclass(frozen=True)
class Binding:
    """What goes into each parameter: the name of a tensor, a size or a scalar of the problem."""

    names: tuple[str, ...]
    said: str
    """In words."""
    initial: tuple[tuple[str, str], ...] = ()
    """Inputs whose contents an output has before the function is called, and that output; no name is zeros."""
    keywords: tuple[str, ...] = ()
    """Of Python: what is passed by its own name, behind what stands in `names`."""
    own: Mapping[str, float | str] = field(default_factory=dict)
    """Numbers that the problem's Model is made with, by name: each what it is, or the size that it is."""

    def axes(self, name: str) -> tuple[str, ...]:
        """`stride_0`, `stride_1` … of `own`, which are the places of the tuple `stride`."""
        return tuple(takewhile(self.own.__contains__, (f"{name}_{axis}" for axis in count())))


_WORDS: Final = {"i": "int", "u": "unsigned", "c": "char", "b": "bool", "x": "struct", "v": "void"}
_NUMBERS: Final = frozenset("iucb")
_ADDS: Final = re.compile(r"\batomic|\bred\.|(?:\]|\*[^\S\n]*\w+)[^\S\n]*(?:[-+*|&^]|<<|>>)=|\][^\S\n]*(?:\+\+|--)")
"""Atomic operations, and assignments such as `sums[i] += x`, `*total += x` and `counts[i]++`."""


def bind(problem: Problem, entry: EntryFunction, signature: HostSignature) -> Binding:
    """Raises LiftRefusedError where the function does not fit the problem."""
    parameters = signature.parameters
    known = problem.parameter_names
    if problem.entry and len(problem.entry) == len(parameters):
        return _bind_as_stated(problem, entry, parameters)
    names = entry.parameter_names if len(entry.parameter_names) == len(parameters) else (None,) * len(parameters)
    own: Mapping[str, float | str] = {}
    if all(name in known for name in names) and len(set(names)) == len(names):
        chosen = tuple(str(name) for name in names)
        said = f"{entry.name}({', '.join(chosen)}) bound by name"
    else:
        try:
            chosen = _in_order(problem, entry, parameters)
        except LiftRefusedError:
            own = {name: one for name, one in numbers_of(problem).items() if name not in known}
            if not all(name in (*known, *own) for name in names) or len(set(names)) != len(names):
                raise
            chosen = tuple(str(name) for name in names)
        pairs = zip(names, chosen, strict=True)
        told = ", ".join(what if name in (None, what) else f"{name} = {what}" for name, what in pairs)
        said = f"{entry.name}({told}) bound by {'name' if own else 'order'}"
    for number, (name, parameter) in enumerate(zip(chosen, parameters, strict=True), 1):
        if name in own:
            _check_own(problem, entry, number, name, parameter, own[name])
        else:
            _check(problem, entry, number, name, parameter)
    return Binding(chosen, said, own=own)


def _bind_as_stated(problem: Problem, entry: EntryFunction, parameters: Sequence[HostParameter]) -> Binding:
    """To what the problem's own form says that the function takes: by name where all names are those, or by order."""
    stated = {one.name: one for one in problem.entry}
    by_name = set(entry.parameter_names) == set(stated) and len(entry.parameter_names) == len(stated)
    chosen = [stated[str(name)] for name in entry.parameter_names] if by_name else list(problem.entry)
    refuse_arrays(entry.name, [one for one in chosen if not one.shape_of])
    names = tuple(one.tensor or one.name for one in chosen)
    for number, (name, parameter) in enumerate(zip(names, parameters, strict=True), 1):
        _check(problem, entry, number, name, parameter)
    changed = initial_contents(chosen)
    said = f"{entry.name}({', '.join(names)}) bound {'by name' if by_name else 'by order'}, as the problem states it"
    return Binding(names, said, changed)


def initial_contents(chosen: Sequence[EntryParameter]) -> tuple[tuple[str, str], ...]:
    """`Binding.initial` of what the problem's form states."""
    return tuple((one.initial, one.tensor) for one in chosen if one.initial or one.zeroed)


def refuse_arrays(called: str, chosen: Sequence[EntryParameter]) -> None:
    """Raise LiftRefusedError where one of these is an array that is no tensor of the problem."""
    arrays = [one.name for one in chosen if not one.tensor and one.value is None]
    if arrays:
        raise LiftRefusedError(
            Status.UNSUPPORTED,
            f"`{called}` is given {arrays[0]}, an array on the device that is no tensor of the problem.",
            "Take the problem's tensors and sizes alone. It was not judged, so there is no reward.",
        )


def adds_to_memory(source: str) -> bool:
    """Whether a source has an atomic operation, or an assignment that adds to an element."""
    return _ADDS.search(source) is not None


def _in_order(problem: Problem, entry: EntryFunction, parameters: Sequence[HostParameter]) -> tuple[str, ...]:
    """Tensors for pointers, inputs before outputs; scalars and then sizes for numbers; in the problem's order."""
    inputs, outputs = [t.name for t in problem.inputs], [t.name for t in problem.outputs]
    pointers = [p for p in parameters if p.kind == "p"]
    const_output = any(p.reads for p in pointers[len(inputs) :])
    tensors = [*inputs, *outputs]
    floats = [s.name for s in problem.scalars if s.dtype.is_float]
    integers = [*(s.name for s in problem.scalars if not s.dtype.is_float), *problem.sizes]
    counts = {
        "p": (len(pointers), len(tensors)),
        "f": (sum(p.kind == "f" for p in parameters), len(floats)),
        "i": (sum(p.kind in _NUMBERS for p in parameters), len(integers)),
    }
    if any(has != needs for has, needs in counts.values()) or any(p.kind == "x" for p in parameters):
        raise LiftRefusedError(
            Status.INVALID_SUBMISSION,
            f"`{entry.name}` (line {entry.line}) takes {_described(parameters)}, and {problem.id} has "
            f"{', '.join(tensors)} for pointers and {', '.join((*floats, *integers)) or 'nothing'} for numbers.",
            f"Write it as `{expected(problem, entry.name)}`.",
        )
    if const_output:
        # Pointers to const are inputs wherever they stand.
        reading = iter(inputs)
        writing = iter([*outputs, *inputs[sum(p.reads for p in pointers) :]])
        if sum(p.reads for p in pointers) > len(inputs):
            raise LiftRefusedError(
                Status.INVALID_SUBMISSION,
                f"`{entry.name}` (line {entry.line}) takes {sum(p.reads for p in pointers)} pointers to const, and "
                f"{problem.id} has the inputs {', '.join(inputs)} alone.",
                f"Write it as `{expected(problem, entry.name)}`.",
            )
        ordered = iter([next(reading) if p.reads else next(writing) for p in pointers])
    else:
        ordered = iter(tensors)
    left = {"p": ordered, "f": iter(floats), "i": iter(integers)}
    return tuple(next(left["i" if p.kind in _NUMBERS else p.kind]) for p in parameters)


def expected(problem: Problem, name: str = "solve") -> str:
    """The entry function that fits the problem."""
    parameters = [f"const {C_TYPES[t.dtype]}* {t.name}" for t in problem.inputs]
    parameters += [f"{C_TYPES[t.dtype]}* {t.name}" for t in problem.outputs]
    parameters += [f"{C_TYPES[s.dtype]} {s.name}" for s in problem.scalars]
    parameters += [f"int {name}" for name in problem.sizes]
    return f'extern "C" void {name}({", ".join(parameters)})'


def _check(problem: Problem, entry: EntryFunction, number: int, name: str, parameter: HostParameter) -> None:
    """Raise where this tensor, size or scalar cannot go into this parameter."""
    dtypes = {one.name: DType.INT64 for one in problem.entry if one.shape_of}
    dtypes |= {tensor.name: tensor.dtype for tensor in (*problem.inputs, *problem.outputs)}
    place = f"`{entry.name}` (line {entry.line}), parameter {number} for '{name}'"
    if name in dtypes:
        if parameter.kind == "p" and _shows(parameter, dtypes[name]):
            return
        reason = f"takes {_word(parameter)}, and '{name}' is a {dtypes[name]} tensor"
        raise LiftRefusedError(
            Status.INVALID_SUBMISSION, f"{place}: it {reason}.", f"Declare it as `{C_TYPES[dtypes[name]]}*`."
        )
    floats = {scalar.name for scalar in problem.scalars if scalar.dtype.is_float}
    floats |= {one.name for one in problem.entry if isinstance(one.value, float) and not one.value.is_integer()}
    if parameter.kind == "f" and any(one.name == name for one in problem.entry):
        return
    fits = parameter.kind == "f" if name in floats else parameter.kind in _NUMBERS
    if not fits:
        what = "a floating-point number" if name in floats else "an integer"
        raise LiftRefusedError(
            Status.INVALID_SUBMISSION,
            f"{place}: it takes {_word(parameter)}, and '{name}' is {what}.",
            f"Write it as `{expected(problem, entry.name)}`.",
        )


def _check_own(
    problem: Problem, entry: EntryFunction, number: int, name: str, parameter: HostParameter, value: float | str
) -> None:
    """The same of a number that the problem's Model is made or called with; of a size it has the name."""
    whole = isinstance(value, str) or float(value).is_integer()
    if parameter.kind == "f" or (whole and parameter.kind in _NUMBERS):
        return
    raise LiftRefusedError(
        Status.INVALID_SUBMISSION,
        f"`{entry.name}` (line {entry.line}), parameter {number} for '{name}': it takes {_word(parameter)}, and "
        f"'{name}' of {problem.id} is {'an integer' if whole else 'a floating-point number'}.",
        f"Declare it as `{'int' if whole else 'float'}`.",
    )


def _shows(parameter: HostParameter, dtype: DType) -> bool:
    """Whether a pointer of this type may be given a tensor of `dtype`. Types of the submission's own may."""
    if parameter.behind in "vx" or parameter.bytes_behind == 1:
        return True
    if parameter.behind == "f":
        return dtype.is_float and parameter.bytes_behind == dtype.size_bytes
    return parameter.bytes_behind == dtype.size_bytes


def call_values(
    problem: Problem,
    names: Sequence[str],
    parameters: Sequence[HostParameter],
    sizes: Sizes,
    scalars: Mapping[str, float],
    set_of_tensors: int = 0,
    own: Mapping[str, float | str] = MappingProxyType({}),
) -> list[str]:
    """What is passed at `sizes`, as `recorder/entry.cpp` reads it. Raises LiftRefusedError.

    `set_of_tensors`: which of those that a process has, one behind another. `own`: of `Binding`.
    """
    tensors = [tensor.name for tensor in (*problem.inputs, *problem.outputs)]
    numbers: dict[str, float] = {s.name: scalars.get(s.name, s.value) for s in problem.scalars}
    numbers |= {one.name: one.value for one in problem.entry if one.value is not None}
    numbers |= sizes
    numbers |= {name: numbers[one] if isinstance(one, str) else one for name, one in own.items()}
    shapes = {tensor.name: tensor.shape_at(sizes) for tensor in problem.inputs}
    extents = {one.name: shapes[one.shape_of] for one in problem.entry if one.shape_of}
    values = []
    for name, parameter in zip(names, parameters, strict=True):
        if parameter.kind == "p" and name in extents and name not in tensors:
            values.append(f"a {b''.join(extent.to_bytes(8, 'little') for extent in extents[name]).hex()}")
        elif parameter.kind == "p":
            values.append(f"p {set_of_tensors * len(tensors) + tensors.index(name)}")
        elif parameter.kind == "f":
            values.append(f"f {float(numbers[name])!r}")
        else:
            values.append(_integer(name, int(numbers[name]), parameter))
    return values


def _integer(name: str, value: int, parameter: HostParameter) -> str:
    signed = parameter.kind in "ic"
    bits = 8 * parameter.bytes - signed
    if not -(1 << bits if signed else 0) <= value < 1 << bits:
        raise LiftRefusedError(
            Status.INVALID_SUBMISSION,
            f"{name} = {value} does not fit into the parameter of {parameter.bytes} bytes that takes it.",
            "Take sizes as `int`, and products of them as `long long` or `size_t`.",
        )
    return f"{'i' if signed else 'u'} {value}"


def _described(parameters: Sequence[HostParameter]) -> str:
    return ", ".join(_word(parameter) for parameter in parameters) or "nothing"


def _word(parameter: HostParameter) -> str:
    if parameter.kind != "p":
        return _plain(parameter.kind, parameter.bytes)
    return f"{'const ' if parameter.reads else ''}{_plain(parameter.behind, parameter.bytes_behind)}*"


def _plain(kind: str, size_bytes: int) -> str:
    if kind == "f":
        return {4: "float", 8: "double"}.get(size_bytes, f"{8 * size_bytes}-bit float")
    if kind in "iu" and size_bytes != 4:
        return f"{'unsigned ' if kind == 'u' else ''}{8 * size_bytes}-bit integer"
    return _WORDS.get(kind, "something else")
