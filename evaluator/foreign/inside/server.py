"""What is asked of one file: how it is described, what it draws, its answer in float64 and in other ways."""

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import torch

from evaluator.foreign.inside.arithmetic import (
    IN_PRODUCTS,
    LOWER,
    TRUNCATED,
    BoundedWork,
    CallRoom,
    CountedWork,
    DoubleArithmetic,
    PermutedOrder,
    TruncatedArithmetic,
    rounded_arithmetic,
)
from evaluator.foreign.inside.draws import (
    CALLED,
    Draw,
    WatchedDraws,
    draw_of_buffer,
    draw_of_parameter,
)
from evaluator.foreign.inside.forms.leetgpu import LeetGpuFile
from evaluator.foreign.inside.forms.tensara import TensaraFile
from evaluator.foreign.inside.forms.trace import TraceFile
from evaluator.foreign.inside.in_order import OneAccumulator
from evaluator.foreign.inside.kernelbench import (
    MODULE,
    Arguments,
    KernelBenchFile,
    ReferenceFile,
    call,
    seeded,
    state_of,
)
from evaluator.foreign.inside.numbers_in_text import varies
from evaluator.foreign.inside.operators import MeanSquare, Noise, finfo_of_float32, seed_torch
from evaluator.foreign.inside.refusals import NoOneAnswerError, RefusedError, TooLargeError, refused_where_it_fails

_NOISY_RUNS: Final = 8
"""Of Monte Carlo arithmetic: with eight, one element in a million has a scale eight times too small."""
_HONEST: Final = ("eager", "permuted 1", "one accumulator")
"""Ways in the file's own types that show where a whole number hangs on a rounding."""
DTYPES: Final = {
    torch.float64: "float64",
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.int64: "int64",
    torch.int32: "int32",
    torch.uint32: "uint32",
    torch.int16: "int16",
    torch.uint16: "uint16",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.bool: "uint8",
}
SEED: Final = 1
_MOST_RESULTS: Final = 8
"""How many times what all outputs may have a product of matrices may have: a quarter of the memory, or less."""
FORMS: Final[Mapping[str, Any]] = {
    "kernelbench": KernelBenchFile,
    "leetgpu": LeetGpuFile,
    "tensara": TensaraFile,
    "trace": TraceFile,
}
_MOST_FAULT_WORK: Final = 1 << 30
"""Operations of a call up to which it is looked at what hangs on the inputs: it is asked of sizes to judge at, on the
simulator, and at others would cost seconds."""
_HARDLY: Final = 1e-3
"""Of an answer: a norm over one element has 1e-4 of noise, which depends on the input."""


def call_room(most_bytes: int, most_output_bytes: int, most_work: int) -> CallRoom:
    """What one call may take, of inputs, of outputs and of operations."""
    return CallRoom(most_bytes, most_output_bytes, _MOST_RESULTS * most_output_bytes, most_work)


class ReferenceServer:
    """Answers requests about one file."""

    def __init__(
        self,
        text: str,
        most_bytes: int,
        sizes: Mapping[str, int] = MappingProxyType({}),
        most_output_bytes: int = 1 << 30,
        form: str = "kernelbench",
    ) -> None:
        """`sizes`: for the file's constants, in the place of its own numbers. Raises RefusedError."""
        self._most_bytes, self._most_output_bytes = most_bytes, most_output_bytes
        self._read = lambda: FORMS[form](text, sizes)
        self._file: ReferenceFile = self._read()
        watched = WatchedDraws(most_bytes)
        with watched:
            self._model, self._arguments = self._file.made(SEED)
        self._file.forget_made(self._model)  # what it is made with is remembered
        self._draws = watched.of(self._arguments.tensors)
        self._parameters = {name: one.detach() for name, one in self._model.named_parameters()}
        self._state = state_of(self._model)
        self._changed: set[str] = set()
        given = {**self._arguments.tensors, **self._state}
        for name, tensor in given.items():
            _check_tensor(f"the input '{name}'", tensor)
        total = sum(one.numel() * one.element_size() for one in given.values())
        if total > most_bytes:
            raise TooLargeError(total, most_bytes)

    def _first_call(self, most_work: int) -> tuple[list[torch.Tensor], CountedWork]:
        counted = BoundedWork(call_room(self._most_bytes, self._most_output_bytes, most_work))
        with refused_where_it_fails("forward"):
            seed_torch(SEED)
            with counted:
                first = self._call({})
        if not first:
            raise RefusedError("forward returns nothing")
        for at, one in enumerate(first):
            if not isinstance(one, torch.Tensor):
                raise RefusedError(f"forward returns a {type(one).__name__} where a tensor should be (place {at})")
            _check_tensor(f"output {at}", one)
        found_bytes = sum(one.numel() * one.element_size() for one in first)
        if found_bytes > self._most_output_bytes:
            raise TooLargeError(found_bytes, self._most_output_bytes, what="outputs")
        with refused_where_it_fails("a second call of forward"):
            seed_torch(SEED + 1)
            second = self._call({})
        if not _alike(first, second):
            if counted.random:
                name, line = counted.random[0]
                raise NoOneAnswerError(
                    f"forward draws random numbers (aten.{name}), so its answer is no one answer", line
                )
            raise NoOneAnswerError("forward gives another answer with each call")
        self._file.check_torch()
        return first, counted

    def _made_anew(self, answer: Sequence[torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """The arguments that the file makes when it is carried out anew under another seed.

        Raises RefusedError where it answers otherwise then to the same tensors: `answer` hangs on what it draws
        beside inputs, parameters and buffers.
        """
        before = sys.modules[MODULE]
        try:
            with refused_where_it_fails("carrying out the file a second time"):
                seeded(SEED + 1)
                model, arguments = self._read().made(SEED + 1)
            with refused_where_it_fails("forward of a Model made anew"):
                seed_torch(SEED)
                other = self._called(model, arguments, {})
        finally:
            sys.modules[MODULE] = before
        if not _alike(answer, other):
            raise RefusedError(
                "its answer hangs on what it draws itself and no kernel is given, such as tensors that `Model` keeps "
                "in a list or a dict, or that the file makes at its top: make them parameters or buffers "
                "(`register_buffer`), or inputs"
            )
        made: Mapping[str, torch.Tensor] = arguments.tensors
        return made

    def _call(self, changed: Mapping[str, torch.Tensor]) -> list[Any]:
        """What forward returns for the file's own contents but for those `changed`, by the file's names."""
        if changed:
            self._file.forget_made(self._model)
        return self._called(self._model, self._arguments, changed)

    def _called(self, model: torch.nn.Module, arguments: Arguments, changed: Mapping[str, torch.Tensor]) -> list[Any]:
        tensors = {name: changed.get(name, one).clone() for name, one in self._arguments.tensors.items()}
        state = {name: changed.get(name, one).clone() for name, one in self._state.items()}
        found = call(model, state, arguments, tensors)
        self._changed |= {name for name, one in tensors.items() if not one.is_inference() and one._version}
        return found

    def _that_matter(self, names: Sequence[str], outputs: Sequence[torch.Tensor]) -> list[str]:
        """The buffers on which the answer, `outputs`, depends. Those that forward only writes are no inputs.

        Where it depends on none of them, as on the statistics of batch norms in training, one call says so of all.
        """
        if not names:
            return []
        other = {}
        for name in names:
            values = self._state[name]
            other[name] = ~values if values.dtype is torch.bool else values.flip(tuple(range(values.ndim))) * 2 + 1
        try:
            if _alike(outputs, self._call(other)):
                return []
        except Exception:
            pass
        if len(names) == 1:
            return list(names)
        half = len(names) // 2
        return self._that_matter(names[:half], outputs) + self._that_matter(names[half:], outputs)

    def _fault(self, outputs: Sequence[torch.Tensor]) -> str:
        """Why the answer says nothing about a kernel; empty where it may. `outputs`: to the file's own contents."""
        if not all(one.isfinite().all() for one in outputs if one.dtype.is_floating_point):
            return "the answer is not finite"
        # As an evaluation draws them: beside a bias of zeros even noise would seem to be an answer.
        state = {name: _told_apart(one) for name, one in self._parameters.items() if _is_constant(one)}
        outputs = self._call(state) if state else outputs
        for name, values in self._arguments.tensors.items():
            if values.dtype.is_floating_point:
                try:
                    found = self._call({**state, name: values.flip(tuple(range(values.ndim))) * 2 + 1})
                except Exception:  # what it fails for it depends on
                    continue
                if all(map(_hardly_moved, outputs, found)):
                    return f"no output depends on '{name}'"
        return ""

    def describe(self, least_flops: int = 0, most_work: int = 1 << 62) -> dict[str, Any]:
        """All that is known of the file, as JSON. Raises RefusedError.

        `least_flops`: what is known before of its operations, some of which are one operator to the processor: LSTMs.
        `most_work`: as in a `CallRoom`.
        """
        found, work = self._first_call(most_work)
        used = self._that_matter([name for name in self._state if name not in self._parameters], found)
        anew, names = self._made_anew(found), self._names()
        only_made = {name for name, draw in self._draws.items() if draw["kind"] == "called"}
        fixed = {name for name in only_made if _alike([self._arguments.tensors[name]], [anew.get(name)])}
        inputs = []
        for name, tensor in self._arguments.tensors.items():
            # Of one value everywhere it is drawn as a parameter is: a kernel could leave it out.
            one_value = name in fixed and _is_constant(tensor)
            draw = draw_of_parameter(tensor) if one_value else self._draws[name]
            told = _described(names[name], tensor, draw, "argument")
            instead = draw_of_parameter(tensor) if name in fixed and not one_value else CALLED
            told |= {"fixed": name in fixed, "instead": None if instead is CALLED else instead}
            inputs.append(told | ({"changed": True} if name in self._changed else {}))
        for name, tensor in self._parameters.items():
            inputs.append(_described(names[name], tensor, draw_of_parameter(tensor), "parameter"))
        for name in used:
            inputs.append(_described(names[name], self._state[name], draw_of_buffer(self._state[name]), "buffer"))
        fault = self._fault(found) if work.flops <= _MOST_FAULT_WORK else ""
        several = len(found) > 1
        taken = {one["name"] for one in inputs}
        outputs = []
        for at, tensor in enumerate(found):
            name = (*self._file.output_names[at : at + 1], f"out_{at}" if several else "out")[0]
            told = _described(name + "_" * (name in taken), tensor, CALLED, "output")
            outputs.append({**told, "longest_sum": work.longest_sum_in(tensor)})
        taken |= {one["name"] for one in outputs}
        written = dict(zip(self._file.output_names, (one["name"] for one in outputs), strict=False))
        sizes = {name: value for name, value in self._file.sizes.items() if name not in taken}
        constants = self._file.constants
        return {
            "inputs": inputs,
            "outputs": outputs,
            "sizes": sizes,
            "assumed": dict(self._file.assumed),
            "entry": self._file.entry_by(names, written),
            "constants": [name for name in sizes if name in constants and varies(constants[name])],
            "flops": max(work.flops, least_flops),
            "longest_sum": work.longest_sum,
            "operators": work.operators,
            "products": work.products,
            "passes": work.passes,
            "in_order": work.in_order,
            "torch": torch.__version__,
            "fault": fault,
            "unordered": work.unordered and not all(one.dtype.is_floating_point for one in found),
        }

    def _names(self) -> dict[str, str]:
        """What a kernel's parameter is called, by the file's own name."""
        chosen: dict[str, str] = {}
        for name in (*self._arguments.tensors, *self._state):
            plain = "".join(each if each.isascii() and each.isalnum() else "_" for each in name)
            plain = plain if plain[:1].isalpha() else f"t_{plain}"
            while plain in chosen.values():
                plain += "_"
            chosen[name] = plain
        return chosen

    def drawn(self, seed: int) -> dict[str, torch.Tensor]:
        """What the file itself makes of its inputs and buffers under a seed. Raises RefusedError."""
        model, arguments = self._file.made(seed)
        state = state_of(model)
        return {name: {**state, **arguments.tensors}[given] for given, name in self._names().items()}

    def valued(self, given: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        """Each output in float64. Raises RefusedError."""
        return self._run(given, DoubleArithmetic())

    def stays_finite(self, given: Mapping[str, torch.Tensor], exact: Sequence[torch.Tensor]) -> bool:
        """Whether the answer is finite, of the same shapes as `exact`, with everything moved by a rounding: a root of
        what cancels may have none then. Raises RefusedError.
        """
        moved = self._run(given, DoubleArithmetic(Noise(SEED)))
        alike = [tuple(one.shape) for one in moved] == [tuple(one.shape) for one in exact]
        return alike and all(bool(one.isfinite().all()) for one in moved)

    def answered(self, given: Mapping[str, torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Each output in float64, and its scale. Raises RefusedError."""
        plainly = DoubleArithmetic()
        exact = self._run(given, plainly)
        floats = {at: one for at, one in enumerate(exact) if one.dtype.is_floating_point}
        moved = {at: MeanSquare(one, _NOISY_RUNS) for at, one in floats.items()}
        noise = Noise(SEED)
        for _ in range(_NOISY_RUNS):
            noisy = self._run(given, DoubleArithmetic(noise, plainly))
            shapes = [tuple(one.shape) for one in noisy]
            if shapes != [tuple(one.shape) for one in exact]:
                raise RefusedError(
                    f"the shapes of its answer hang on roundings of what its inputs hold: {shapes} with other ones"
                )
            for at, square in moved.items():
                square.add(noisy[at])
        scales = [
            moved[at].scale() if at in moved else torch.zeros(one.shape, dtype=torch.float64)
            for at, one in enumerate(exact)
        ]
        whole = [at for at, one in enumerate(exact) if not one.dtype.is_floating_point]
        for how in _HONEST if whole else ():
            found = self.computed(given, how)
            for at in whole:  # a value that lies where a rounding decides has more than one right answer
                scales[at] = torch.maximum(scales[at], (found[at].double() - exact[at].double()).abs())
        return exact, scales

    def computed(self, given: Mapping[str, torch.Tensor], how: str) -> list[torch.Tensor]:
        """Each output as it is computed `how`: a key of `LOWER`, that `in products`, `TRUNCATED`, `eager`,
        `one accumulator`, or `permuted N`.
        """
        if how.removesuffix(IN_PRODUCTS) in LOWER:
            rounded = rounded_arithmetic(how)
            if rounded.products_alone:
                return self._run(given, rounded)
            # What no operator computes, a kernel may round too: inputs that are only moved, and the result.
            found = self._run({name: rounded.rounded(one) for name, one in given.items()}, rounded)
            return [rounded.rounded(one) for one in found]
        if how == TRUNCATED:
            return self._run(given, TruncatedArithmetic())
        if how == "one accumulator":
            return self._run(given, OneAccumulator())
        if how.startswith("permuted "):
            return self._run(given, PermutedOrder(int(how.split()[1])))
        return self._run(given, CountedWork())

    def _run(self, given: Mapping[str, torch.Tensor], mode: Any) -> list[torch.Tensor]:
        names = self._names()
        doubled = isinstance(mode, DoubleArithmetic)

        def own(name: str, like: torch.Tensor) -> torch.Tensor:
            # What `forward` only writes, such as running means in training, is no input.
            values = given[names[name]].reshape(like.shape) if names[name] in given else like
            values = values.to(torch.bool) if like.dtype is torch.bool else values
            return mode.operand(values) if doubled and values.dtype.is_floating_point else values.clone()

        self._file.forget_made(self._model)
        with refused_where_it_fails("forward on drawn inputs"), finfo_of_float32(doubled):
            seed_torch(SEED)
            tensors = {name: own(name, one) for name, one in self._arguments.tensors.items()}
            state = {name: own(name, one) for name, one in self._state.items()}
            with mode:
                found = call(self._model, state, self._arguments, tensors)
        return list(found)


def _check_tensor(what: str, tensor: torch.Tensor) -> None:
    # Of the device meta there are shapes alone, and what they are compared by is whatever lies in memory.
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        raise RefusedError(f"{what} has no contents in memory: it is on {tensor.device}, {tensor.layout}")
    if tensor.dtype not in DTYPES:
        raise RefusedError(
            f"{what} is {str(tensor.dtype).removeprefix('torch.')}, which no input or output can be here"
        )
    if tensor.numel() == 0:
        raise RefusedError(f"{what} has no element: its shape is {tuple(tensor.shape)}")


def _alike(one: Sequence[torch.Tensor], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(
        (isinstance(second, torch.Tensor) and first.shape == second.shape and torch.equal(first, second))
        or (first.dtype.is_floating_point and torch.allclose(first, second, 1e-5, 1e-6, equal_nan=True))
        for first, second in zip(one, other, strict=True)
    )


def _is_constant(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point and bool((tensor == tensor.reshape(-1)[0]).all())


def _told_apart(tensor: torch.Tensor) -> torch.Tensor:
    """Of one value: the same with each element another, from a half of it to one and a half."""
    value = float(tensor.reshape(-1)[0])
    reach = 0.5 * abs(value) or 0.5
    ends = (value - reach, value + reach) if tensor.numel() > 1 else (value + 0.5 * reach, value + reach)
    return torch.linspace(*ends, tensor.numel(), dtype=tensor.dtype).reshape(tensor.shape)


def _hardly_moved(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two answers differ by what roundings make of terms that cancel, or less."""
    if one.shape != other.shape:
        return False
    if not one.dtype.is_floating_point:
        return torch.equal(one, other)
    exact = one.double()
    return bool((other.double() - exact).norm() <= _HARDLY * exact.norm())


def _described(name: str, tensor: torch.Tensor, draw: Draw, kind: str) -> dict[str, Any]:
    shape = list(tensor.shape) or [1]
    facts = {"name": name, "dtype": DTYPES[tensor.dtype], "shape": shape, "draw": draw, "kind": kind}
    return {**facts, "is_bool": True} if tensor.dtype is torch.bool and kind != "output" else facts
