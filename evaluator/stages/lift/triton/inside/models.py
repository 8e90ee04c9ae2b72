"""A ModelNew that launches Triton kernels: `torch.nn` on the stand-in's tensors, and what it is called with."""

import math
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final, NoReturn

from evaluator.backends.model_binding import BY_NAME_ALONE, NO_INPUT
from evaluator.stages.lift.kernelbench.inside.layers import ForwardFunction, TensorForm, layers_of
from evaluator.stages.lift.kernelbench.inside.layout import CONTIGUOUS, PRESERVE
from evaluator.stages.lift.kernelbench.inside.models import MadeModel, bind_state
from evaluator.stages.lift.kernelbench.inside.names import FILLING, INITIALISING, broadcast, class_named
from evaluator.stages.lift.kernelbench.inside.tables import tables_of
from evaluator.stages.lift.triton.inside.dtypes import DTYPES, dtype
from evaluator.stages.lift.triton.inside.memory import NotRecordedError, RecordedMemory
from evaluator.stages.lift.triton.inside.stand_in_tensor import StandInTensor
from evaluator.stages.lift.triton.inside.stand_in_torch import module_of

REFERENCE: Final = "reference.py"
_RANDOM: Final = "a tensor whose contents are random, or none of the problem's"


_PARAMETER: Final = "_parameter"
"""An attribute of a tensor that is a parameter."""
_OF_PARAMETER: Final = "_of_parameter"
"""An attribute of a tensor that a model has made of a parameter's contents."""
_MAKING: Final[list[bool]] = []
"""Not empty while a model is made: what it makes of numbers then is for parameters and buffers."""


class DrawnTensor(StandInTensor):
    """A tensor of random numbers: as a parameter it is an input of the problem, elsewhere nothing to be judged by."""

    _place: int | None = None

    @property
    def _address(self) -> int:
        if self._place is None:
            raise NotRecordedError(_RANDOM)
        return self._place

    @_address.setter
    def _address(self, address: int | None) -> None:
        self._place = address

    def __getattr__(self, name: str) -> Any:
        # Python asks here once more for a property that raised an AttributeError.
        if name == "_address":
            raise NotRecordedError(_RANDOM)
        return super().__getattr__(name)

    def _itself(self, *_: Any, **__: Any) -> "DrawnTensor":
        # What it is later is the problem's, and so is what a parameter is.
        if not _MAKING or _PARAMETER in vars(self) or _OF_PARAMETER in vars(self):
            raise NotRecordedError("an operator of a parameter or a buffer")
        return self

    def _another(self, other: Any = None, *_: Any, **__: Any) -> "DrawnTensor":
        """What an operator makes: two tables that are made of one are two."""
        both = [self._itself()]
        if isinstance(other, DrawnTensor):
            both.append(other._itself())
        made = self._of_shape(broadcast(*(one.shape for one in both)))
        if any(BY_NAME_ALONE in vars(one) for one in both):
            made.__dict__[BY_NAME_ALONE] = True
        return made

    def _filled_anew(self, *_: Any, **__: Any) -> "DrawnTensor":
        if not _MAKING:
            raise NotRecordedError("an operator of a parameter or a buffer")
        return self

    def copy_(self, source: StandInTensor, non_blocking: bool = False) -> StandInTensor:
        if not _MAKING:
            return super().copy_(source, non_blocking)
        if isinstance(source, StandInTensor) and NO_INPUT in vars(source):
            self.__dict__[NO_INPUT] = True
        return self

    def _of_shape(self, shape: Sequence[int], moved: bool = False) -> "DrawnTensor":
        made = DrawnTensor(self._memory, self.dtype, shape, 0)
        made._place = None
        flags = (BY_NAME_ALONE, NO_INPUT, _OF_PARAMETER)
        made.__dict__ |= {name: one for name, one in self.__dict__.items() if name in flags}
        if _PARAMETER in vars(self):
            made.__dict__[_OF_PARAMETER] = True
        if moved and _OF_PARAMETER in vars(made):
            made.__dict__[NO_INPUT] = True
        return made

    def clone(self, memory_format: Any = PRESERVE) -> StandInTensor:
        return self._of_shape(self.shape) if _MAKING else super().clone(memory_format)

    def permute(self, *dims: Any) -> StandInTensor:
        if not _MAKING:
            return super().permute(*dims)
        order = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
        return self._of_shape([self.shape[one] for one in order], moved=True)

    def view(self, *shape: Any) -> Any:
        if not _MAKING:
            return super().view(*shape)
        extents = list(shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape)
        rest = math.prod(one for one in extents if one != -1)
        return self._of_shape([self.numel() // rest if one == -1 else one for one in extents])

    def contiguous(self, memory_format: Any = CONTIGUOUS) -> StandInTensor:
        if not _MAKING or self.is_contiguous(memory_format):
            return super().contiguous(memory_format)
        made = self._of_shape(self.shape)
        made.__dict__[NO_INPUT] = True
        return made

    def to(self, *args: Any, **kwargs: Any) -> Any:
        # What a type is while a model is made, its parameter's input says.
        return self.contiguous(kwargs.get("memory_format", CONTIGUOUS)) if _MAKING else super().to(*args, **kwargs)

    __rtruediv__ = __rsub__ = __pow__ = __rpow__ = _another  # type: ignore[assignment]
    __mul__ = __rmul__ = __truediv__ = __add__ = __radd__ = __sub__ = __neg__ = _another  # type: ignore[assignment]
    cos = sin = exp = log = sqrt = rsqrt = abs = reciprocal = _another
    mul_ = div_ = add_ = sub_ = clamp_ = _itself


for _name in FILLING:
    setattr(DrawnTensor, _name, DrawnTensor._filled_anew)


class MadeTensor(StandInTensor):
    """A tensor that was allocated while a model is made: filled with anything, it is one of such contents."""

    def _drawn(self, *_: Any, **__: Any) -> DrawnTensor:
        if not _MAKING:
            raise NotRecordedError("an operator of a parameter or a buffer")
        del self.__dict__["_address"]
        self.__class__ = DrawnTensor
        self._place = None
        return self

    def _another(self, other: Any = None, *_: Any) -> DrawnTensor:
        if not _MAKING or any(_PARAMETER in vars(one) for one in (self, other) if isinstance(one, StandInTensor)):
            raise NotRecordedError("an operator of a parameter or a buffer")
        shapes = [one.shape for one in (self, other) if isinstance(one, StandInTensor)]
        made = DrawnTensor(self._memory, self.dtype, broadcast(*shapes), 0)
        made._place = None
        return made

    __mul__ = __rmul__ = __truediv__ = __add__ = __radd__ = __sub__ = __rsub__ = __neg__ = _another  # type: ignore[assignment]


for _name in FILLING:
    if _name not in ("zero_", "fill_"):
        setattr(MadeTensor, _name, MadeTensor._drawn)


def _while_made(allocate: Any) -> Any:
    def called(*args: Any, **kwargs: Any) -> Any:
        made = allocate(*args, **kwargs)
        if _MAKING:
            made.__class__ = MadeTensor
        return made

    return called


def _initialiser(name: str) -> Any:
    """Of `torch.nn.init`: what it fills a parameter with is nothing that is judged."""
    if name.startswith("__"):
        raise AttributeError(name)
    known = {"zeros_": 0.0, "ones_": 1.0}

    def called(tensor: Any, *values: Any, **named: Any) -> Any:
        if isinstance(tensor, MadeTensor):
            value = known.get(name, (values[0] if values else named.get("val")) if name == "constant_" else None)
            return tensor.fill_(value) if value is not None else tensor._drawn()
        return tensor

    return called


def add_modules(torch: ModuleType, memory: RecordedMemory) -> None:
    """Have `import torch.nn` and what goes with it find modules that hold parameters."""

    def drawn(*shape: Any, size: Any = None, dtype: dtype | None = None, **_: Any) -> DrawnTensor:
        given = size if size is not None else shape
        extents = given[0] if len(given) == 1 and not isinstance(given[0], int) else given
        made_one = DrawnTensor(memory, dtype or DTYPES["float32"], extents, 0)
        made_one._place = None
        return made_one

    def refuse(name: str) -> NoReturn:
        raise NotRecordedError(f"the operator {name}")

    def module(name: str, held: dict[str, Any]) -> ModuleType:
        one = module_of(name)
        one.__path__ = []
        vars(one).update(held)
        sys.modules[name] = one
        return one

    for name in ("empty", "zeros", "ones", "full", "empty_like", "zeros_like", "ones_like", "full_like"):
        setattr(torch, name, _while_made(getattr(torch, name)))

    def of_sizes(*sizes: Any) -> StandInTensor:
        if not all(isinstance(one, int) for one in sizes):
            refuse("torch.Tensor")
        made: StandInTensor = torch.empty(*sizes)
        return made

    vars(torch).update(tables_of(drawn, refuse, lambda: not _MAKING))
    parameter = class_named("Parameter", lambda one: _PARAMETER in getattr(one, "__dict__", {}), _parameter)
    form = TensorForm(StandInTensor, parameter, drawn, torch.zeros, torch.ones, refuse)
    nn = module("torch.nn", layers_of(form))
    init = module("torch.nn.init", dict(INITIALISING))
    vars(init)["__getattr__"] = _initialiser
    parts = {"parameter": module("torch.nn.parameter", {"Parameter": parameter}), "init": init}
    vars(nn).update(parts, functional=module("torch.nn.functional", {}))
    autograd = module("torch.autograd", {"Function": ForwardFunction})
    torch.__path__ = []
    torch.Tensor = class_named("Tensor", lambda one: isinstance(one, StandInTensor), of_sizes)  # type: ignore[attr-defined]
    vars(torch).update(nn=nn, autograd=autograd, randn=drawn, rand=drawn, manual_seed=lambda _: None)


def _parameter(data: StandInTensor, requires_grad: bool = True) -> StandInTensor:
    for flag in (BY_NAME_ALONE, _OF_PARAMETER):
        data.__dict__.pop(flag, None)
    data.__dict__[_PARAMETER] = True
    return data


class Model:
    """One ModelNew, for all calls of a process."""

    def __init__(self, solution: dict[str, Any], call: dict[str, Any]) -> None:
        """`call`: sizes, scalars, and the names of the inputs."""
        self.call = call
        _MAKING.append(True)
        try:
            self.made = MadeModel(solution, REFERENCE, call)
        finally:
            _MAKING.clear()
        self.state: list[tuple[str, StandInTensor]] = list(self.made.model.named_parameters())

    def __call__(self, tensors: list[StandInTensor]) -> Any:
        """What forward returns for the first of these as inputs, its parameters among them."""
        inputs = dict(zip(self.call["inputs"], tensors, strict=False))
        arguments, by_name, used = self.made.arguments(inputs)
        bind_state(self.state, {name: one for name, one in inputs.items() if name not in used})
        return self.made.called(arguments, by_name)
