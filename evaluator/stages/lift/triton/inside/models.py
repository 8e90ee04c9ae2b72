"""A ModelNew that launches Triton kernels: `torch.nn` on the stand-in's tensors, and what it is called with."""

import math
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final, NoReturn

from evaluator.backends.model_binding import BY_NAME_ALONE
from evaluator.stages.lift.kernelbench.inside.layers import ForwardFunction, TensorForm, layers_of, tensor_type
from evaluator.stages.lift.kernelbench.inside.models import MadeModel, bind_state
from evaluator.stages.lift.kernelbench.inside.tables import tables_of
from evaluator.stages.lift.kernelbench.inside.tensors import RANDOM
from evaluator.stages.lift.triton.inside.dtypes import DTYPES, dtype
from evaluator.stages.lift.triton.inside.memory import NotRecordedError, RecordedMemory
from evaluator.stages.lift.triton.inside.stand_in_tensor import StandInTensor
from evaluator.stages.lift.triton.inside.stand_in_torch import module_of

REFERENCE: Final = "reference.py"
_MAKING: Final[list[bool]] = []
"""Not empty while a model is made: what it makes of numbers then is for parameters and buffers."""


class DrawnTensor(StandInTensor):
    """A tensor of random numbers: as a parameter it is an input of the problem, elsewhere nothing to be judged by."""

    _place: int | None = None
    _unbound = ""

    @property
    def _address(self) -> int:
        if self._place is None:
            raise NotRecordedError(self._unbound or RANDOM)
        return self._place

    @_address.setter
    def _address(self, address: int | None) -> None:
        self._place = address

    def __getattr__(self, name: str) -> Any:
        # Python asks here once more for a property that raised an AttributeError.
        if name == "_address":
            raise NotRecordedError(self._unbound or RANDOM)
        return super().__getattr__(name)

    def _itself(self, *_: Any, **__: Any) -> "DrawnTensor":
        if not _MAKING:  # what it is then is the problem's
            raise NotRecordedError("an operator of a parameter or a buffer")
        return self

    def _another(self, *_: Any, **__: Any) -> "DrawnTensor":
        """Of the same shape: two tables that are made of one are two."""
        return self._itself()._of_shape(self.shape)

    def _of_shape(self, shape: Sequence[int]) -> "DrawnTensor":
        made = DrawnTensor(self._memory, self.dtype, shape, 0)
        made._place = None
        made.__dict__ |= {name: one for name, one in self.__dict__.items() if name == BY_NAME_ALONE}
        return made

    def view(self, *shape: Any) -> Any:
        if not _MAKING:
            return super().view(*shape)
        extents = list(shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape)
        rest = math.prod(one for one in extents if one != -1)
        return self._of_shape([self.numel() // rest if one == -1 else one for one in extents])

    def to(self, *args: Any, **kwargs: Any) -> Any:
        return self if _MAKING else super().to(*args, **kwargs)

    __rtruediv__ = __rsub__ = __pow__ = __rpow__ = _another  # type: ignore[assignment]
    __mul__ = __rmul__ = __truediv__ = __add__ = __radd__ = __sub__ = __neg__ = _another  # type: ignore[assignment]
    cos = sin = exp = log = sqrt = rsqrt = abs = reciprocal = _another
    mul_ = div_ = add_ = normal_ = uniform_ = clamp_ = zero_ = fill_ = _itself


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

    vars(torch).update(tables_of(drawn, refuse, lambda: not _MAKING))
    form = TensorForm(StandInTensor, _parameter, drawn, torch.zeros, torch.ones, refuse)
    vars(torch)["Tensor"] = tensor_type(form)
    nn = module("torch.nn", layers_of(form))
    init = module("torch.nn.init", {})
    vars(init)["__getattr__"] = lambda name: lambda tensor, *_, **__: tensor
    parts = {"parameter": module("torch.nn.parameter", {"Parameter": _parameter}), "init": init}
    vars(nn).update(parts, functional=module("torch.nn.functional", {}))
    autograd = module("torch.autograd", {"Function": ForwardFunction})
    torch.__path__ = []
    vars(torch).update(nn=nn, autograd=autograd, randn=drawn, rand=drawn, manual_seed=lambda _: None)


def _parameter(data: StandInTensor, requires_grad: bool = True) -> StandInTensor:
    data.__dict__.pop(BY_NAME_ALONE, None)
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
