"""FlashInfer Trace's form of a problem: a definition and one of its workloads, as JSON; also as SOL-ExecBench has it.

Sources: https://bench.flashinfer.ai/docs/flashinfer-trace/definition and …/workload, and docs/definition.md and
docs/workload.md of https://github.com/NVIDIA/SOL-ExecBench (axes of type `expr`, `custom_inputs_entrypoint`,
tolerances). The text is `{"definition": {…}, "workload": {…}}`, or a definition alone, whose `var` axes then have
extents that are taken here, and whose inputs are random.
"""

import ast
import inspect
import json
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NoReturn

import torch
from torch.utils import _pytree as pytree

from evaluator.foreign.inside.forms.axes import completed, extents, holds, left_open
from evaluator.foreign.inside.kernelbench import Arguments, Place, ReferenceFile, seeded
from evaluator.foreign.inside.numbers_in_text import Fixed, is_size
from evaluator.foreign.inside.on_cpu import parsed_for_cpu
from evaluator.foreign.inside.refusals import FILE, RefusedError, refused_where_it_fails

_DTYPES: Final = {
    "float64": torch.float64,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int64": torch.int64,
    "int32": torch.int32,
    "uint32": torch.uint32,
    "int16": torch.int16,
    "uint16": torch.uint16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
}
_UNSIGNED: Final = (torch.uint8, torch.uint16, torch.uint32)
_INDICES: Final = (torch.int64, torch.int32, torch.uint32)
"""Types of indices, offsets and lengths: data has fewer bits."""
_REFERENCE: Final = "_reference"
"""How the function's name ends in definitions that FlashInfer makes of its own tests, which are called by name."""
_WHOLE_REACH: Final = 1024
"""Random whole numbers lie between this and its negative."""
_TOLERANCES: Final = {
    "max_atol": math.inf,
    "max_rtol": math.inf,
    "required_matched_ratio": 1.0,
    "max_error_cap": math.inf,
}
"""Their largest values. They are checked and not used: the tolerance is calibrated."""


class TraceFile(ReferenceFile):
    """A definition at the extents of its workload, or at others."""

    def __init__(self, text: str, sizes: Mapping[str, int] = MappingProxyType({})) -> None:
        """`sizes`: values in the place of those that the workload gives `var` axes. Raises RefusedError."""
        with refused_where_it_fails("reading the definition"):
            self._definition, self._workload = _record(text)
            tree, constants = self.parsed(text)
        super().__init__(tree, constants, sizes)
        given = {name: place.value for name, place in self.constants.items()}
        axes, constraints = _object(self._definition, "axes"), _constraints(self._definition)
        self.sizes = extents(axes, given if self._workload else completed(axes, constraints, given))
        if not self._workload:
            self.assumed = left_open(axes, constraints)
        for at, constraint in enumerate(constraints):
            if holds(str(constraint), self.sizes) is False:
                told = f"constraints[{at}]: {str(constraint)[:80]} does not hold for "
                raise RefusedError(told + ("this workload" if self._workload else _needed(_listed(self.assumed))))
        self._inputs, self._outputs = _object(self._definition, "inputs"), _object(self._definition, "outputs")
        self.output_names = list(self._outputs)
        if not self._outputs:
            raise RefusedError("outputs: there is none")
        self._run: Any = self._names.get("run")
        named = [one for one in self._names if one.endswith(_REFERENCE) and callable(self._names[one])]
        self._by_name = not callable(self._run) and len(named) == 1
        if self._by_name:
            self._run = self._names[named[0]]
        elif not callable(self._run):
            raise RefusedError("reference: it has no function `run`, nor one alone whose name ends in `_reference`")
        for name, spec in (*self._inputs.items(), *self._outputs.items()):
            field = f"{'inputs' if name in self._inputs else 'outputs'}.{name}"
            if not isinstance(spec, dict):
                raise RefusedError(f"{field}: it is no object")
            self._shape(field, spec)
            if self._left_out(name, spec):
                continue
            if spec.get("shape") is not None and spec.get("dtype") not in _DTYPES:
                raise RefusedError(f"{field}.dtype: {spec.get('dtype')} cannot be an input or output here")

    @staticmethod
    def parsed(text: str) -> tuple[ast.Module, dict[str, Any]]:
        """The reference, and the extents that the workload gives. Raises SyntaxError, RefusedError."""
        definition, workload = _record(text)
        reference = definition.get("reference")
        if not isinstance(reference, str):
            raise RefusedError("reference: it is no text (JSON is read as a definition of FlashInfer Trace)")
        axes, given = _object(definition, "axes"), _object(workload, "axes", "workload.")
        for name in given:
            if not (isinstance(axes.get(name), dict) and axes[name].get("type") == "var"):
                raise RefusedError(f"workload.axes.{name}: the definition has no var axis of this name")
        if not workload:
            given = left_open(axes, _constraints(definition))
        fixed = {
            name: Fixed(one["value"])
            for name, one in axes.items()
            if isinstance(one, dict) and one.get("type") == "const" and is_size(one.get("value"))
        }
        return parsed_for_cpu(reference, FILE), {name: ast.Constant(value) for name, value in given.items()} | fixed

    def model(self, seed: int) -> torch.nn.Module:
        """`run` as a module of the tensors among its inputs. Raises RefusedError."""
        scalars = {
            name: self._scalar(name) if spec.get("shape") is None else self._default(name)
            for name, spec in self._inputs.items()
            if spec.get("shape") is None or self._left_out(name, spec)
        }
        names = list(self._inputs)
        with refused_where_it_fails("run"):
            signature = inspect.signature(self._run)
            by_name = self._by_name
            if by_name:  # what is left out is not passed at all
                names = [name for name in names if scalars.get(name, 0) is not None]
                try:
                    signature.bind(**dict.fromkeys(names))
                except TypeError:
                    by_name, names = False, list(self._inputs)
            if not by_name:
                signature.bind(*names)
        return _Run(self._run, names, scalars, by_name, self._as_stated, not self._workload)

    def arguments(self, model: torch.nn.Module, seed: int) -> Arguments:
        """As the workload says that they are made, under this seed. Raises RefusedError."""
        seeded(seed)
        told = _object(self._workload, "inputs", "workload.")
        custom = self._custom(told)
        tensors: dict[str, torch.Tensor] = {}
        for name, spec in self._inputs.items():
            if spec.get("shape") is None or self._left_out(name, spec):
                continue
            field = f"workload.inputs.{name}"
            way = told.get(name, {"type": "random" if self._workload or name not in custom else "custom"})
            kind = way.get("type") if isinstance(way, dict) else way
            if kind == "random" and not self._workload and _DTYPES[spec["dtype"]] in _INDICES:
                whole = f"inputs.{name}: it holds whole numbers ({spec['dtype']}), such as indices or lengths, and "
                raise RefusedError(whole + _needed("random ones say nothing"))
            if kind == "random":
                tensors[name] = _random(self._shape(f"inputs.{name}", spec), _DTYPES[spec["dtype"]])
            elif kind == "custom":
                tensors[name] = self._checked(field, custom.get(name), f"inputs.{name}", spec).detach()
            elif kind == "safetensors":
                raise RefusedError(f"{field}: its contents lie in another file, which is not part of this text")
            else:
                raise RefusedError(f"{field}.type: it is {str(kind)[:40]!r}, and a tensor is random or custom")
        places: Sequence[Any] = [Place(name) for name in tensors]
        return Arguments(tensors, places, pytree.tree_flatten((list(tensors), {}))[1])

    def _custom(self, told: Mapping[str, Any]) -> Mapping[str, Any]:
        entry = self._definition.get("custom_inputs_entrypoint")
        asked = any(isinstance(way, dict) and way.get("type") == "custom" for way in told.values())
        if not asked and (self._workload or entry is None):
            return {}
        make = self._names.get(str(entry))
        if not callable(make):
            raise RefusedError(f"custom_inputs_entrypoint: the reference has no function {str(entry)[:60]!r}")
        scalars = {name: self._scalar(name) for name, spec in self._inputs.items() if spec.get("shape") is None}
        with refused_where_it_fails(str(entry)):
            made = make({**self.sizes, **scalars}, torch.device("cpu"))
        if not isinstance(made, Mapping):
            raise RefusedError(f"custom_inputs_entrypoint: {entry} returns a {type(made).__name__}, and not a dict")
        return made

    def _left_out(self, name: str, spec: Mapping[str, Any]) -> bool:
        """Whether it is an input that need not be given, and no workload gives it."""
        if self._workload or name not in self._inputs or spec.get("optional") is not True:
            return False
        return self._default(name) is not inspect.Parameter.empty

    def _default(self, name: str) -> Any:
        """What `run` takes by itself; None where it has no parameter of that name."""
        parameter = inspect.signature(self._run).parameters.get(name)
        return None if parameter is None else parameter.default

    def _scalar(self, name: str) -> int | float | bool | None:
        if not self._workload:
            return self._scalar_without_workload(name)
        way = _object(self._workload, "inputs", "workload.").get(name)
        value = way.get("value") if isinstance(way, dict) and way.get("type") == "scalar" else None
        if not isinstance(value, int | float):
            raise RefusedError(f"workload.inputs.{name}: a number is needed here: {{'type': 'scalar', 'value': …}}")
        return value

    def _scalar_without_workload(self, name: str) -> int | float | bool | None:
        """The extent of the axis of that name, or what `run` takes by itself."""
        default = self.sizes.get(name, self._default(name))
        if isinstance(default, int | float) or default is None:
            return default
        raise RefusedError(f"inputs.{name}: " + _needed("it is a number that only a workload gives"))

    def _shape(self, field: str, spec: Mapping[str, Any]) -> tuple[int, ...]:
        shape = spec.get("shape")
        if shape is None:
            if field.startswith("outputs."):
                raise RefusedError(f"{field}.shape: an output is a tensor")
            return ()
        for name in shape if isinstance(shape, list) else [shape]:
            if not isinstance(name, str) or name not in self.sizes:
                raise RefusedError(f"{field}.shape: {str(name)[:60]!r} is no axis")
        return tuple(self.sizes[name] for name in shape)

    def _checked(self, what: str, tensor: Any, field: str, spec: Mapping[str, Any]) -> torch.Tensor:
        if not isinstance(tensor, torch.Tensor):
            raise RefusedError(f"{what}: it is a {type(tensor).__name__} where a tensor should be")
        shape, dtype = self._shape(field, spec), _DTYPES[spec["dtype"]]
        if tuple(tensor.shape) != shape:
            raise RefusedError(f"{what}: its shape is {tuple(tensor.shape)}, and {field}.shape says {shape}")
        if tensor.dtype not in (dtype, torch.float64 if dtype.is_floating_point else dtype):
            raise RefusedError(f"{what}: it is {tensor.dtype}, and {field}.dtype says {spec['dtype']}")
        return tensor

    def _as_stated(self, returned: Any) -> tuple[torch.Tensor, ...]:
        """What `run` returned, by the names of the outputs."""
        if isinstance(returned, Mapping):
            found = [returned.get(name) for name in self._outputs]
        else:
            found = list(returned) if isinstance(returned, list | tuple) else [returned]
        if len(found) != len(self._outputs):
            raise RefusedError(f"run returns {len(found)} values for the {len(self._outputs)} outputs")
        told = zip(self._outputs.items(), found, strict=True)
        return tuple(
            self._checked(f"what run returns as {name}", one, f"outputs.{name}", spec) for (name, spec), one in told
        )


class _Run(torch.nn.Module):
    """Calls `run` with all inputs in order, or by their names."""

    def __init__(
        self,
        run: Any,
        names: Sequence[str],
        scalars: Mapping[str, Any],
        by_name: bool,
        stated: Any,
        at_random: bool,
    ) -> None:
        """`stated`: what checks what it returns. `at_random`: whether no workload says how its inputs are made."""
        super().__init__()
        self.at_random = at_random
        self.run, self.names, self.scalars, self.by_name, self.stated = run, names, scalars, by_name, stated

    def forward(self, *given: torch.Tensor) -> Any:
        """The outputs."""
        tensors = iter(given)
        inputs = {name: self.scalars[name] if name in self.scalars else next(tensors) for name in self.names}
        try:
            returned = self.run(**inputs) if self.by_name else self.run(*inputs.values())
        except RefusedError:
            raise
        except Exception as failed:
            if self.at_random:
                failed.args = (f"{failed} (" + _needed("random inputs, as it has here, may not fit it") + ")",)
            raise
        return self.stated(returned)


def _needed(why: str) -> str:
    return f"{why}: a workload is needed"


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _constraints(definition: Mapping[str, Any]) -> list[Any]:
    found = definition.get("constraints") or []
    if not isinstance(found, list):
        raise RefusedError("constraints: they are no list")
    return found


def _random(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape, dtype=dtype)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, dtype=dtype)
    reach = {torch.int8: 128, torch.uint8: 256}.get(dtype, _WHOLE_REACH)
    return torch.randint(0 if dtype in _UNSIGNED else -reach, reach, shape, dtype=dtype)


def _record(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The definition and the workload. Raises RefusedError."""

    def no_number(name: str) -> NoReturn:
        raise RefusedError(f"it is not JSON: {name} is no number")

    try:
        found = json.loads(text, parse_constant=no_number)
    except ValueError as error:
        raise RefusedError(f"it is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise RefusedError("it is no object with a definition")
    definition = found.get("definition", found)
    workload = (found.get("workload") if "definition" in found else None) or {}
    if not isinstance(definition, dict) or not isinstance(workload, dict):
        raise RefusedError("definition and workload: they are no objects")
    tolerance = workload.get("tolerance") or {}
    if not isinstance(tolerance, dict):
        raise RefusedError("workload.tolerance: it is no object")
    for name, most in _TOLERANCES.items():
        value = tolerance.get(name)
        if value is not None and not (isinstance(value, int | float) and 0 <= value <= most):
            raise RefusedError(f"workload.tolerance.{name}: it cannot be {str(value)[:40]}")
    return definition, workload


def _object(whole: Mapping[str, Any], name: str, above: str = "") -> dict[str, Any]:
    found = whole.get(name) or {}
    if not isinstance(found, dict):
        raise RefusedError(f"{above}{name}: it is no object")
    return found
