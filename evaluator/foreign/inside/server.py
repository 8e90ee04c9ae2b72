"""The process of one file: it reads requests and answers them, until there are no more.

A request is the lengths of a JSON text and of what follows it (8 bytes each, little-endian), that text, and the bytes
of the tensors that its `tensors` list by name, dtype and shape, in that order; an answer has the first length alone.
"""

import json
import math
import struct
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import IO, Any, Final

import torch

from evaluator.foreign.inside.arithmetic import (
    IN_PRODUCTS,
    LOWER,
    ROUNDING,
    TRUNCATED,
    CallRoom,
    CountedWork,
    DoubleArithmetic,
    PermutedOrder,
    TruncatedArithmetic,
    rounded_arithmetic,
)
from evaluator.foreign.inside.by_shapes import ByShapes, known_by_shapes
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
from evaluator.foreign.inside.kernelbench import KernelBenchFile, ReferenceFile, call, initialize
from evaluator.foreign.inside.numbers_in_text import Fixed, varies
from evaluator.foreign.inside.operators import finfo_of_float32, seed_torch
from evaluator.foreign.inside.refusals import NoOneAnswerError, RefusedError, TooLargeError, refused_where_it_fails

_NOISY_RUNS: Final = 8
"""Of Monte Carlo arithmetic: with eight, one element in a million has a scale eight times too small."""
_HONEST: Final = ("eager", "permuted 1", "one accumulator")
"""Ways in the file's own types that show where a whole number hangs on a rounding."""
_DTYPES: Final = {
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
_BY_NAME: Final = {name: dtype for dtype, name in _DTYPES.items() if dtype is not torch.bool}
_SEED: Final = 1
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
_MOST_KEPT: Final = 8
"""Sizes of which module and inputs are kept: what one evaluation has."""


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
        self._most_output_bytes = most_output_bytes
        self._file: ReferenceFile = FORMS[form](text, sizes)
        watched = WatchedDraws(most_bytes)
        with watched:
            self._model = self._file.model(_SEED)
            self._arguments = self._file.arguments(self._model, _SEED)
            initialize(self._model, self._arguments)
        self._file.forget_made(self._model)  # what it is made with is remembered
        self._draws = {name: watched.of(tensor) for name, tensor in self._arguments.tensors.items()}
        self._parameters = {name: one.detach() for name, one in self._model.named_parameters()}
        self._state = {
            **self._parameters,
            **{name: one.detach() for name, one in self._model.named_buffers()},
        }
        given = {**self._arguments.tensors, **self._state}
        for name, tensor in given.items():
            _check_tensor(f"the input '{name}'", tensor)
        total = sum(one.numel() * one.element_size() for one in given.values())
        if total > most_bytes:
            raise TooLargeError(total, most_bytes)

    def _first_call(self) -> tuple[list[torch.Tensor], CountedWork]:
        counted = CountedWork(_MOST_RESULTS * self._most_output_bytes)
        with refused_where_it_fails("forward"):
            seed_torch(_SEED)
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
            seed_torch(_SEED + 1)
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

    def _call(self, changed: Mapping[str, torch.Tensor]) -> list[Any]:
        """What forward returns for the file's own contents but for those `changed`, by the file's names."""
        tensors = {name: changed.get(name, one).clone() for name, one in self._arguments.tensors.items()}
        state = {name: changed.get(name, one).clone() for name, one in self._state.items()}
        return call(self._model, state, self._arguments, tensors)

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

    def describe(self, least_flops: int = 0) -> dict[str, Any]:
        """All that is known of the file, as JSON. Raises RefusedError.

        `least_flops`: what is known before of its operations, some of which are one operator to the processor: LSTMs.
        """
        found, work = self._first_call()
        used = self._that_matter([name for name in self._state if name not in self._parameters], found)
        names, fixed = self._names(), self._fixed()
        inputs = []
        for name, tensor in self._arguments.tensors.items():
            # Of one value everywhere it is drawn as a parameter is: a kernel could leave it out.
            one_value = name in fixed and _is_constant(tensor)
            draw = draw_of_parameter(tensor) if one_value else self._draws[name]
            told = _described(names[name], tensor, draw, "argument")
            instead = draw_of_parameter(tensor) if name in fixed and not one_value else CALLED
            inputs.append(told | {"fixed": name in fixed, "instead": None if instead is CALLED else instead})
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

    def _fixed(self) -> set[str]:
        """The arguments that only the file can make, and makes the same under another seed."""
        made = [name for name, draw in self._draws.items() if draw["kind"] == "called"]
        if not made:
            return set()
        other = self._file.arguments(self._file.model(_SEED + 1), _SEED + 1).tensors
        return {name for name in made if _alike([self._arguments.tensors[name]], [other.get(name)])}

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
        model = self._file.model(seed)
        arguments = self._file.arguments(model, seed)
        initialize(model, arguments)
        state = {name: one.detach() for name, one in (*model.named_parameters(), *model.named_buffers())}
        return {name: {**state, **arguments.tensors}[given] for given, name in self._names().items()}

    def answered(self, given: Mapping[str, torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Each output in float64, and its scale. Raises RefusedError."""
        plainly = DoubleArithmetic()
        exact = self._run(given, plainly)
        squares = [torch.zeros(one.shape, dtype=torch.float64) for one in exact]
        generator = torch.Generator().manual_seed(_SEED)
        for _ in range(_NOISY_RUNS):
            noisy = self._run(given, DoubleArithmetic(generator, plainly))
            shapes = [tuple(one.shape) for one in noisy]
            if shapes != [tuple(one.shape) for one in exact]:
                raise RefusedError(f"forward gives outputs of other shapes with other contents: {shapes}")
            for at, (one, other) in enumerate(zip(exact, noisy, strict=True)):
                if one.dtype.is_floating_point:
                    moved = (other - one).masked_fill_(one == other, 0.0)  # of infinities too
                    squares[at].addcmul_(moved, moved, value=1.0 / _NOISY_RUNS)
        scales = [
            torch.hypot(one.double(), torch.sqrt(square) / ROUNDING) if one.dtype.is_floating_point else square
            for one, square in zip(exact, squares, strict=True)
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
            if not doubled or not values.dtype.is_floating_point:
                return values.clone()
            values = values.to(torch.float64, copy=True)
            return values.mul_(mode.factors(values.shape)) if mode.noisy else values

        self._file.forget_made(self._model)
        with refused_where_it_fails("forward on drawn inputs"), finfo_of_float32(doubled):
            seed_torch(_SEED)
            tensors = {name: own(name, one) for name, one in self._arguments.tensors.items()}
            state = {name: own(name, one) for name, one in self._state.items()}
            with mode:
                found = call(self._model, state, self._arguments, tensors)
        return list(found)


def _check_tensor(what: str, tensor: torch.Tensor) -> None:
    # Of the device meta there are shapes alone, and what they are compared by is whatever lies in memory.
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        raise RefusedError(f"{what} has no contents in memory: it is on {tensor.device}, {tensor.layout}")
    if tensor.dtype not in _DTYPES:
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
    """The same with each element another, within a half of what it was."""
    return tensor + torch.linspace(-0.5, 0.5, tensor.numel(), dtype=tensor.dtype).reshape(tensor.shape)


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
    return {"name": name, "dtype": _DTYPES[tensor.dtype], "shape": shape, "draw": draw, "kind": kind}


def _encoded(named: Mapping[str, torch.Tensor]) -> tuple[list[dict[str, Any]], list[bytes]]:
    listed, contents = [], []
    for name, tensor in named.items():
        listed.append({"name": name, "dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape)})
        # numpy has no bfloat16: the bytes are taken as they are.
        contents.append(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return listed, contents


def _reply(servers: "_Servers", request: Mapping[str, Any], given: Mapping[str, torch.Tensor]) -> Any:
    """The JSON value and the tensors of an answer."""
    asked, sizes = request["ask"], request["sizes"]
    if asked == "describe":
        told = servers.described(sizes, request["most_work"])
        taken = {one["name"] for one in (*told["inputs"], *told["outputs"])}
        return {
            **told,
            "reducible": {name: size for name, size in servers.constants.items() if name not in taken},
            "fixed": [name for name in servers.fixed if name not in taken],
        }, {}
    server = servers.at(sizes)
    if asked == "draw":
        drawn = server.drawn(request["seed"])
        return {}, {name: drawn[name] for name in request["names"]}
    if asked == "compute":
        found = server.computed(given, request["how"])
        return {}, {f"value_{at}": one for at, one in enumerate(found)}
    exact, scales = server.answered(given)
    named = {f"value_{at}": one for at, one in enumerate(exact)}
    return {}, {**named, **{f"scale_{at}": one for at, one in enumerate(scales)}}


class _Servers:
    """Of one file, for the sizes that were asked for last."""

    def __init__(self, text: str, most_bytes: int, most_output_bytes: int, form: str) -> None:
        self._text, self._most_bytes, self._most_output_bytes = text, most_bytes, most_output_bytes
        self._form = form
        self._kept: dict[tuple[tuple[str, int], ...], ReferenceServer] = {}
        self._told: bool | None = None

    @cached_property
    def _places(self) -> dict[str, Any]:
        return dict(FORMS[self._form].parsed(self._text)[1])

    @property
    def constants(self) -> dict[str, int]:
        """Those of the file, with its own numbers."""
        return {name: place.value for name, place in self._places.items()}

    @property
    def fixed(self) -> list[str]:
        """Those of them on which a kernel may rely."""
        return [name for name, place in self._places.items() if isinstance(place, Fixed)]

    def described(self, sizes: Mapping[str, int], most_work: int) -> dict[str, Any]:
        """Raises RefusedError."""
        found = self._by_shapes(sizes, most_work)
        try:
            return self.at(sizes).describe(found.operations)
        except TooLargeError as too_large:
            # It may fail at these sizes however large it may be: not so where shapes alone say nothing of this file.
            if sizes and found.failed and self._known_by_shapes(most_work):
                raise RefusedError(found.failed) from too_large
            raise

    def _known_by_shapes(self, most_work: int) -> bool:
        if self._told is None:
            try:
                self._told = not self._by_shapes({}, most_work).failed
            except TooLargeError:
                self._told = True
        return self._told

    def _by_shapes(self, sizes: Mapping[str, int], most_work: int) -> ByShapes:
        most_output_bytes = self._most_output_bytes
        room = CallRoom(self._most_bytes, most_output_bytes, _MOST_RESULTS * most_output_bytes, most_work)
        return known_by_shapes(lambda: FORMS[self._form](self._text, sizes), room, _SEED)

    def at(self, sizes: Mapping[str, int]) -> ReferenceServer:
        """Raises RefusedError."""
        key = tuple(sorted(sizes.items()))
        found = self._kept.pop(key, None)
        found = found or ReferenceServer(self._text, self._most_bytes, sizes, self._most_output_bytes, self._form)
        self._kept[key] = found
        if len(self._kept) > _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return found


def serve_reference(
    source: IO[bytes], sink: IO[bytes], text: str, most_bytes: int, most_output_bytes: int, form: str
) -> None:
    """Answer each request about the file `text` in turn until `source` ends."""
    servers = _Servers(text, most_bytes, most_output_bytes, form)
    while header := source.read(16):
        request = json.loads(source.read(struct.unpack("<QQ", header)[0]))
        given = {}
        for one in request["tensors"]:
            dtype = _BY_NAME[one["dtype"]]
            data = bytearray(source.read(math.prod(one["shape"]) * dtype.itemsize))
            given[one["name"]] = torch.frombuffer(data, dtype=dtype).reshape(one["shape"])
        contents: list[bytes] = []
        try:
            reply, named = _reply(servers, request, given)
            reply["tensors"], contents = _encoded(named)
        except RefusedError as refused:
            reply = {"refused": refused.reason, "line": refused.line, "tensors": []}
            if form == "trace" and refused.line is not None:  # of the code that stands in one line of the file
                reply |= {"refused": f"line {refused.line} of its reference: {refused.reason}", "line": None}
            if isinstance(refused, NoOneAnswerError):
                reply["at"] = "calibrating"
            if isinstance(refused, TooLargeError):
                reply |= {"constants": servers.constants, "fixed": servers.fixed}
                reply |= {"found": refused.found, "of": refused.of}
        encoded = json.dumps(reply).encode()
        sink.write(struct.pack("<Q", len(encoded)) + encoded)
        for content in contents:
            sink.write(content)
        sink.flush()
