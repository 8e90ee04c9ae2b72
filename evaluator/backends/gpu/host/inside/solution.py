"""A submission's Python text in its own process: carried out, made for a set of sizes, and called on tensors."""

import ast
import inspect
import traceback
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from evaluator.backends.gpu.host.inside.extensions import NoCompilerError, PrebuiltModules
from evaluator.backends.gpu.host.inside.form import Form
from evaluator.backends.model_binding import (
    MisfitError,
    call_arguments,
    init_arguments,
    outputs_of,
    state_as_inputs,
)
from evaluator.backends.stated_call import anew, forward_arguments, in_order_of, returned_keys

TEXT: Final = "solution.py"
REFERENCE: Final = "reference.py"
ENTRIES: Final = ("run", "solve", "solution", "kernel_function")
"""Functions by which Triton's host code is called, as `stages.lift.triton.entry_points` has them."""
_TRUTH: Final = {torch.bool, torch.uint8}
"""A problem has the truth values that its file returns as numbers; a submission may return either."""
SEED: Final = 42
"""What parameters are drawn with that no input of the problem stands for, as KernelBench does it."""


def forbid_building() -> None:
    """Have PyTorch's builders of extensions say that nothing is built here, before a compiler is looked for."""
    from torch.utils import cpp_extension

    def build(*_: Any, **__: Any) -> None:
        raise NoCompilerError("C++ that is compiled while it runs")

    cpp_extension.load = cpp_extension.load_inline = build


class Tensors:
    """The tensors of a problem at one set of sizes, in memory that the referee shares."""

    def __init__(self, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]) -> None:
        self.inputs, self.outputs = dict(inputs), dict(outputs)


def carried_out(text: str, name: str) -> dict[str, Any]:
    """The names that a text defines; it lies in a file of this name, where the source of functions is looked for."""
    Path(name).write_text(text, encoding="utf-8")
    names: dict[str, Any] = {"__name__": Path(name).stem, "__file__": name}
    exec(compile(text, name, "exec"), names)
    return names


class LoadedText:
    """One program: what it defines, and what is called at the sizes that it was last made for."""

    def __init__(
        self,
        form: Form,
        text: str,
        device: torch.device,
        modules: PrebuiltModules,
        call: Sequence[Any] = (),
    ) -> None:
        """`text`: empty for a baseline that the problem's own file is. `call`: of an extension, or of a function that
        was bound beforehand, its name and what it is given, in order and by name, as `ExtensionCall` has it; of the
        null submission, the outputs that it does not return.

        Raises whatever the texts raise, and MisfitError.
        """
        self._form, self._device, self._modules, self._call = form, device, modules, call
        self._names = carried_out(text, TEXT) if text and form != "torch-extension" else {}
        wanted = {"kernelbench": ("ModelNew",), "triton": ENTRIES}.get(form, ())
        self._entry = next((name for name in wanted if name in self._names), "")
        if text and wanted and not self._entry:
            raise MisfitError(f"it defines no {wanted[0]}")
        self._called: Any = None
        self._arguments: list[Any] = []
        self._by_name: Mapping[str, Any] = {}
        self._outputs: list[torch.Tensor] = []
        self._keys: Sequence[str] = ()
        self._copies: list[tuple[torch.Tensor, torch.Tensor]] = []

    @torch.no_grad()
    def prepare(
        self,
        tensors: Tensors,
        sizes: Mapping[str, int],
        scalars: Mapping[str, float],
        reference: str = "",
        changed: Sequence[str] = (),
    ) -> str:
        """Make it for these sizes; what is called, in words. Raises whatever it raises, and MisfitError.

        `reference`: the file that states the problem, at these sizes, where it says how a model is made. `changed`:
        inputs that it changes in place: each call gets a copy.
        """
        self._outputs = list(tensors.outputs.values())
        numbers = {**sizes, **scalars}
        if self._form == "null":
            # As much as an answer needs and no more: tensors of the right shapes, with anything in them.
            self._returns_all_but([name for _, name in self._call[1]], tensors)
            made = [torch.zeros_like(one) for one in self._outputs]
            # The device must turn to this process for whatever it launches, which costs more than all the rest; where
            # no output is copied, one addition of one number makes it turn to the null submission too.
            one = torch.zeros(1, device=self._device)
            self._called, self._arguments = (lambda: made) if made else (lambda: one.add_(1)), []
            return "nothing"
        copied = {name: torch.empty_like(tensors.inputs[name]) for name in changed}
        self._copies = [(one, tensors.inputs[name]) for name, one in copied.items()]
        tensors = Tensors({**tensors.inputs, **copied}, tensors.outputs)
        if self._form == "triton" and self._call:
            return self._bound(self._names[self._call[0]], tensors, numbers)
        if self._form == "triton":
            self._called = self._names[self._entry]
            named = {**tensors.inputs, **tensors.outputs}
            self._arguments, used = call_arguments(self._called, named, numbers)
            self._returns_all_but(used, tensors)
            return _in_words(self._entry, self._called)
        if self._form == "torch-extension":
            return self._extension(tensors, numbers)
        tree, stated = ast.parse(reference), carried_out(reference, REFERENCE) if reference else {}
        self._called = self._model(stated)
        self._keys = returned_keys(tree)
        forward = self._called.forward
        self._arguments, self._by_name, used = forward_arguments(tree, stated, forward, tensors.inputs, numbers)
        share_state(self._called, {name: one for name, one in tensors.inputs.items() if name not in used})
        return _in_words("ModelNew.forward", forward)

    @torch.no_grad()
    def call(self) -> Any:
        """Call it. Raises whatever it raises."""
        for copy, given in self._copies:
            copy.copy_(given)
        return self._called(*anew(self._arguments), **anew(self._by_name))

    @torch.no_grad()
    def deliver(self, returned: Any) -> None:
        """Copy what it returned to where the referee takes it. Raises MisfitError."""
        if not self._outputs:
            return
        found = outputs_of(in_order_of(self._keys, returned))
        if len(found) != len(self._outputs):
            raise MisfitError(f"it returns {len(found)} outputs, and the problem has {len(self._outputs)}")
        for at, (one, place) in enumerate(zip(found, self._outputs, strict=True)):
            if not isinstance(one, torch.Tensor):
                raise MisfitError(f"it returns a {type(one).__name__} where a tensor belongs (place {at})")
            if one.dtype is not place.dtype and not {one.dtype, place.dtype} <= _TRUTH:
                raise MisfitError(f"output {at} is {_short(one.dtype)}, and must be {_short(place.dtype)}")
            if one.shape != place.shape and not one.numel() == place.numel() == 1:
                raise MisfitError(f"output {at} has shape {tuple(one.shape)}, and must have {tuple(place.shape)}")
            place.copy_(one.reshape(place.shape))

    def _returns_all_but(self, given: Sequence[str], tensors: Tensors) -> None:
        """It writes the outputs that it is given, and returns the others."""
        self._outputs = [one for name, one in tensors.outputs.items() if name not in given]

    def _extension(self, tensors: Tensors, numbers: Mapping[str, float]) -> str:
        name = self._call[0]
        module = self._modules.only()
        if not hasattr(module, name):
            raise MisfitError(f"the module has no function {name}")
        return self._bound(getattr(module, name), tensors, numbers)

    def _bound(self, function: Any, tensors: Tensors, numbers: Mapping[str, float]) -> str:
        name, wanted, by_name = self._call
        everything = {**tensors.inputs, **tensors.outputs}

        def value(kind: str, what: Any) -> Any:
            if isinstance(what, list):
                return tuple(value(kind, one) for one in what)
            if what is None or what in everything:
                return None if what is None else everything[what]
            number = numbers[what] if isinstance(what, str) else what
            whole = kind == "i" or (kind == "o" and number == int(number))
            return bool(number) if kind == "b" else int(number) if whole else float(number)

        keywords = {each: value(kind, what) for each, kind, what in by_name}
        self._called, self._arguments = partial(function, **keywords), [value(kind, what) for kind, what in wanted]
        given = [*(what for _, what in wanted), *(what for _, _, what in by_name)]
        self._returns_all_but([what for what in given if isinstance(what, str)], tensors)
        return f"{name}({', '.join(map(str, given))})"

    def _model(self, stated: Mapping[str, Any]) -> torch.nn.Module:
        """As the problem's own file, which defines `stated`, makes its."""
        args, kwargs = init_arguments(stated["get_init_inputs"]() if "get_init_inputs" in stated else [])
        torch.manual_seed(SEED)
        made = (self._names["ModelNew"] if self._names else stated["Model"])(*args, **kwargs)
        return made.to(self._device) if isinstance(made, torch.nn.Module) else made


def share_state(model: Any, inputs: Mapping[str, torch.Tensor]) -> None:
    """Let the model's parameters and buffers be inputs of the problem."""
    if not isinstance(model, torch.nn.Module):
        return
    for one, name, shape in state_as_inputs((*model.named_parameters(), *model.named_buffers()), inputs):
        one.data = inputs[name].view(shape)


def line_of_text(error: BaseException) -> int | None:
    """The last line of the submission that an error went through."""
    if isinstance(error, SyntaxError) and error.filename == TEXT:
        return error.lineno
    frames = traceback.extract_tb(error.__traceback__)
    lines: Sequence[int | None] = [one.lineno for one in frames if one.filename == TEXT]
    return lines[-1] if lines else None


def _in_words(name: str, function: Any) -> str:
    return f"{name}({', '.join(inspect.signature(function).parameters)})"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
