"""What a problem is: named tensors and sizes, inputs, a float64 oracle, tolerances and probes.

The error of an element is measured against the 2-norm of the terms that make it (not against the element, which may
cancel): an element passes when |actual - expected| <= relative * scale + absolute, where relative is the tolerance's
or, where that is less, what the very terms of the element explain. (`Expected.beyond` adds to it for scans alone.)
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from common.contract import ProblemFace, ScalarFace, TensorFace
from common.expressions import evaluate_expression
from common.wire import DType
from evaluator.problems.arrays import Array, Rng, elements_of, namespace

Arrays: TypeAlias = Mapping[str, Array]
Sizes: TypeAlias = Mapping[str, int]
Elements: TypeAlias = Mapping[str, NDArray[np.int64]]
"""Some elements of each output: flat row-major indices, in any order, a place as often as one likes."""


@dataclass(frozen=True)
class Tensor:
    """A named tensor; `shape` holds expressions over the problem's sizes."""

    name: str
    shape: tuple[str, ...]
    dtype: DType = DType.FLOAT32
    is_bool: bool = False
    """Whether its bytes are zeros and ones that PyTorch has as its own type `bool`."""
    changed: bool = False
    """Whether what states the problem changes this input in place: host code gets a copy, which it may change too."""

    def shape_at(self, sizes: Sizes) -> tuple[int, ...]:
        """The extents at `sizes`."""
        return tuple(evaluate_expression(extent, sizes) for extent in self.shape)


MOST_ELEMENTS: Final = 1 << 25
"""Of any one tensor: 128 MiB of float32, which every GPU holds several times, and whose indices fit in an int."""


@dataclass(frozen=True)
class SizeRange:
    """The sizes that a kernel must serve, as the problem's page states them."""

    most: Sizes
    """Each size is 1 to this."""
    tensors: tuple[Tensor, ...] = ()
    """Those whose elements are counted."""
    most_elements: int = MOST_ELEMENTS
    """Of any one tensor."""
    products: Mapping[str, int] = field(default_factory=dict)
    """The most that expressions over the sizes may be, where a launch would else not fit: `batch * out_channels`."""
    least: Sizes = field(default_factory=dict)
    """Each size is at least this; 1 where it is not named."""

    def admits(self, sizes: Sizes) -> bool:
        """Whether a kernel must serve `sizes`, which name all sizes of the problem and no others."""
        return (
            set(sizes) == set(self.most)
            and all(self.least.get(name, 1) <= sizes[name] <= most for name, most in self.most.items())
            and all(math.prod(tensor.shape_at(sizes)) <= self.most_elements for tensor in self.tensors)
            and all(evaluate_expression(text, sizes) <= most for text, most in self.products.items())
        )

    @property
    def text(self) -> str:
        """The range in plain words; what follows from the single sizes is left out."""
        said = [", ".join(self._reach(name) for name in self.most)]
        said += [f"{text} at most {most:,}" for text, most in self.products.items()]
        if any(math.prod(tensor.shape_at(self.most)) > self.most_elements for tensor in self.tensors):
            said.append(f"at most {self.most_elements:,} elements in a tensor")
        return "; ".join(said)

    def _reach(self, name: str) -> str:
        least, most = self.least.get(name, 1), self.most[name]
        return f"{name} {most:,}" if least == most else f"{name} from {least:,} to {most:,}"


@dataclass(frozen=True)
class Scalar:
    """A named scalar. Published trials and timing pass `value`; hidden ones pass it and `others` in turn."""

    name: str
    value: float
    dtype: DType = DType.FLOAT32
    others: tuple[float, ...] = ()


@dataclass(frozen=True)
class EntryParameter:
    """One parameter of the host function that a form of problems has its solutions define: a tensor or a number, or
    neither: an array on the device that is no tensor of the problem, as the shape of one.
    """

    name: str
    tensor: str = ""
    """The problem's tensor; empty for all else."""
    value: float | None = None
    """Of a number; one that has the name of a size is that size."""
    initial: str = ""
    """The input whose contents the tensor has at first, where it is read and written."""
    zeroed: bool = False
    """Whether the tensor holds zeros at first, as the form states it."""
    shape_of: str = ""
    """The input whose extents an array on the device holds, int64; empty for all else."""


@dataclass(frozen=True)
class Expected:
    """What one output should be. Both arrays are float64 (int64 for integer outputs) of the output's shape.

    They are of the inputs' namespace, on the inputs' device.
    """

    value: Array
    scale: Array
    """2-norm of the terms that make each element, a sum itself among them; broadcast to the output's shape. 0 asks
    for exactness."""
    relative: Array | float = math.inf
    """The share of the scale by which an honest answer to these very inputs may be off, broadcast likewise.

    The tolerance's relative part holds for sums as long as its chain, this for those at hand: see error_bounds.py.
    """
    longer: Array | float = 1.0
    """How many times the tolerance's relative part holds where there are more terms than its chain: `longer_sums`."""
    beyond: Array | float = 0.0
    """How much further off it may be: what honest ways lose that pass through sums of more than the element's own."""
    whole: "Callable[[], Expected] | None" = field(default=None, kw_only=True)
    """The same with the whole scale, which takes long, where this one has the least that each can be: an answer that
    is right by the least is right."""

    def at(self, places: NDArray[np.int64]) -> "Expected":
        """What is expected at these flat row-major places, 1-D, in their order."""

        def some(values: Array | float) -> Array | float:
            if isinstance(values, float | int):
                return values
            if values.shape != self.value.shape:
                values = namespace(self.value, values).broadcast_to(values, self.value.shape)
            return elements_of(values, places)

        parts, whole = (self.scale, self.relative, self.longer, self.beyond), self.whole
        found = Expected(elements_of(self.value, places), *(some(part) for part in parts))
        return found if whole is None else replace(found, whole=lambda: whole().at(places))

    def shaped(self, shape: tuple[int, ...]) -> "Expected":
        """The same of 1-D arrays that hold every element, in row-major order."""

        def every(values: Array | float) -> Array | float:
            return values if isinstance(values, float | int) else values.reshape(shape)

        parts, whole = (self.value, self.scale, self.relative, self.longer, self.beyond), self.whole
        found = Expected(*(every(part) for part in parts))
        return found if whole is None else replace(found, whole=lambda: whole().shaped(shape))


@dataclass(frozen=True)
class Tolerance:
    """How far an element may be from the oracle."""

    relative: float
    """Share of the element's scale. Admits any order of summation with chains up to the length in `reason`."""
    absolute: float
    """Admits flushed denormals and the output type's smallest step."""
    reason: str
    any_length: bool = False
    """Whether it holds for sums of any length as it is: no roundings of sums are in it."""

    def allowed(self, expected: Expected) -> Array:
        """By how much each element may be off: float64, of the scale's shape or one that broadcasts with it."""
        longer = 1.0 if self.any_length else expected.longer
        limits = self.relative * longer, expected.relative
        arrays = [limit for limit in limits if not isinstance(limit, float | int)]
        if not arrays:
            relative = min(limits)
        elif len(arrays) == 2:
            relative = namespace(*arrays).minimum(*arrays)
        else:
            (other,) = (limit for limit in limits if isinstance(limit, float | int))
            relative = namespace(arrays[0]).clip(arrays[0], None, other)
        return relative * expected.scale + expected.beyond + self.absolute

    @property
    def rule(self) -> str:
        """What an element must meet, as a formula."""
        if self.relative == self.absolute == 0:
            return "actual = expected."
        return f"|actual - expected| <= {self.relative:g} * scale + {self.absolute:g}."


DistributionRole: TypeAlias = Literal["hostile", "structured", "partial", "mixed"]
"""Of those that are not the typical one. `hostile`: has a trial of its own at one of the hidden sizes, each in turn.
`structured`: ordinary values in a special arrangement; a few are drawn to stand in for the typical one. `partial`:
needs room for what it arranges, and has its trial at the largest hidden size. `mixed`: all of them in one tensor, for
sizes that are tried once or twice."""


@dataclass(frozen=True)
class Distribution:
    """One way to draw the inputs.

    `draw(dice, sizes)` gives every input by name, contiguous, in its dtype and shape. Values are finite.
    """

    name: str
    reason: str
    draw: Callable[[Rng, Sizes], dict[str, Array]]
    as_published: bool = False
    """Whether it is made for the published values of the scalars, and loses its point with others."""
    role: DistributionRole = "hostile"
    squares_fit: bool = True
    """Whether no value's square overflows, which a right kernel may compute on its way. Else the problem's statement
    says how far values go."""


@dataclass(frozen=True)
class Probe:
    """Extra inputs that a lower precision inside the kernel cannot survive, dense as all others are.

    One term of each output element outweighs all others together, and needs every bit of its mantissa, so that an
    honest kernel is exact to a few roundings whatever its order of summation.
    """

    distribution: Distribution
    tolerance: Tolerance
    sizes: Sizes
    """Empty where any will do."""


@dataclass(frozen=True)
class Sketch:
    """One output judged by random combinations of each row, where the whole oracle would take too long."""

    output: str
    passed: bool
    worst_ratio: float
    """Largest residual of a row over what an honest row may have; infinite where a value is not finite."""
    worst_row: int


@dataclass(frozen=True)
class Work:
    """The least that the problem must move and do at given sizes: what bounds the time from below."""

    read_bytes: int
    written_bytes: int
    flops: int


@dataclass(frozen=True)
class Kernel:
    """One of our own kernels for a problem: complete source text with its launch directives."""

    name: str
    source: str
    remark: str
    """What makes it naive or fast."""


Oracle: TypeAlias = Callable[..., dict[str, Expected]]
"""`oracle(inputs, sizes, **scalars)`; a scalar that is not given has its published value."""

Sampler: TypeAlias = Callable[[Oracle, Arrays, Sizes, Elements, Mapping[str, Any]], dict[str, Expected]]
"""`sampler(oracle, inputs, sizes, elements, scalars)`: what the oracle says of just these elements, as 1-D arrays."""


@dataclass(frozen=True)
class Problem:
    """One problem. Every function in it is pure; randomness comes in as dice or a generator."""

    id: str
    tier: int
    title: str
    statement: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    sizes: tuple[str, ...]
    example_sizes: tuple[Sizes, ...]
    """Published; the first is the typical one. Small enough for the simulator (about 2e8 thread-instructions)."""
    hidden_sizes: Callable[[np.random.Generator], tuple[Sizes, ...]]
    """Sizes that only the referee knows: 1, odd, prime, one off a multiple of 32 and 256, and random ones."""
    serves: SizeRange
    """Published. All other sizes of the problem are within it."""
    edge_sizes: Callable[[np.random.Generator], tuple[Sizes, ...]]
    """Sizes that only the referee knows, larger than all published ones and where kernels are known to break.

    In each one size passes an edge and the others are small, so that all together cost little.
    """
    distributions: tuple[Distribution, ...]
    """The first is the typical one, the others are hostile (large, tiny, cancellation, signed zeros, constant)."""
    probes: tuple[Probe, ...]
    tolerance: Tolerance
    oracle: Oracle
    """Each output's expected value, computed in float64 (int64 for integers)."""
    work: Callable[[Sizes], Work]
    naive: Kernel | None
    """None where we have none of our own."""
    fast: Kernel | None
    timing_sizes: Sizes
    """Published: where a GPU's time is measured. So large that a launch's own cost hardly counts."""
    baseline: str
    """What the time is compared with: an expression of PyTorch's eager operators that gives the output.

    Its names are the inputs, the sizes, the scalars (as Python numbers), `torch` and `F` (torch.nn.functional). It is
    to be run without TF32.
    """
    scalars: tuple[Scalar, ...] = ()
    sketch: Callable[[Rng, Arrays, Arrays, Sizes, Tolerance], Sketch] | None = None
    """`sketch(dice, inputs, outputs, sizes, tolerance)`: a much cheaper check than the oracle, of known power."""
    sampler: Sampler | None = None
    """How the oracle is asked for some elements alone; without it, everything is computed and the elements taken."""
    mixture: Distribution | None = None
    """What a trial at an edge or at the timed size holds in place of the typical one; None where nothing mixes."""
    edge_probes: tuple[Probe, ...] = ()
    """Those that tell a lower precision at any size; they have none of their own."""
    version: str = "1"
    caveats: tuple[str, ...] = ()
    """What a verdict on this problem cannot promise: each becomes a warning of every verdict."""
    varied_sizes: Callable[[np.random.Generator], tuple[Sizes, ...]] | None = None
    """Sizes that a kernel need not serve: whether it does is a fact of its own. None where that is no question."""
    work_is_least: bool = True
    """Whether no right answer can be had with less than `work`: of a reference that is unknown, so nothing is too
    fast."""
    origin: bytes = b""
    """What another process of ours states it from (`foreign.loading.restated`); empty for those in the catalogue."""
    entry: tuple[EntryParameter, ...] = ()
    """What the host function of a solution takes, where a form says so; else it is tensors, scalars and sizes."""
    too_large: str = ""
    """The sizes for which a kernel is meant, in words, where it is tried at smaller ones that it need not serve."""

    def oracle_at(self, inputs: Arrays, sizes: Sizes, elements: Elements, **scalars: Any) -> dict[str, Expected]:
        """What `oracle` says of just these elements of each output: 1-D arrays, in the order of the indices.

        Work and memory are in proportion to what these elements need, not to the output, but for sums and counts of
        everything, which are made in pieces. At least one index of each output.
        """
        if self.sampler is not None:
            return self.sampler(self.oracle, inputs, sizes, elements, scalars)
        whole = self.oracle(inputs, sizes, **scalars)
        return {name: expected.at(elements[name]) for name, expected in whole.items()}

    @property
    def every_distribution(self) -> tuple[Distribution, ...]:
        """Of all trials: the ordinary ones, the mixture and those of probes."""
        probes = (probe.distribution for probe in (*self.probes, *self.edge_probes))
        return (*self.distributions, *((self.mixture,) if self.mixture is not None else ()), *probes)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Inputs, outputs, scalars, sizes: the order in which an inferred plan binds parameters."""
        tensors = tuple(tensor.name for tensor in (*self.inputs, *self.outputs))
        return (*tensors, *(scalar.name for scalar in self.scalars), *self.sizes)

    @property
    def published_scalars(self) -> dict[str, float]:
        """The values that scalars have where a trial does not vary them."""
        return {scalar.name: scalar.value for scalar in self.scalars}

    def scalars_of_turn(self, turn: int) -> dict[str, float]:
        """The scalars of the hidden trial with this number: the published values, then each of the others in turn."""
        chosen: dict[str, float] = {}
        for scalar in self.scalars:
            values = (scalar.value, *scalar.others)
            chosen[scalar.name] = values[turn % len(values)]
        return chosen

    @property
    def face(self) -> ProblemFace:
        """What a kernel author may see, as it travels on the wire."""
        return ProblemFace(
            id=self.id,
            version=self.version,
            tier=self.tier,
            title=self.title,
            statement=self.statement,
            inputs=tuple(TensorFace(name=t.name, dtype=t.dtype, shape=t.shape) for t in self.inputs),
            outputs=tuple(TensorFace(name=t.name, dtype=t.dtype, shape=t.shape) for t in self.outputs),
            scalars=tuple(
                ScalarFace(name=s.name, dtype=s.dtype, value=s.value, varies=bool(s.others)) for s in self.scalars
            ),
            sizes=self.sizes,
            example_sizes=tuple(dict(sizes) for sizes in self.example_sizes),
            timing_sizes=dict(self.timing_sizes),
            baseline=self.baseline,
            tolerance=f"{self.tolerance.rule} {self.tolerance.reason}",
            distributions=tuple(f"{d.name}: {d.reason}" for d in self.distributions),
            probes=tuple(f"{p.distribution.name}: {p.distribution.reason}" for p in self.probes),
            starter=starter(self),
            serves=self.serves.text,
            caveats=self.caveats,
        )


C_TYPES: Final = {
    DType.FLOAT64: "double",
    DType.FLOAT32: "float",
    DType.FLOAT16: "__half",
    DType.BFLOAT16: "__nv_bfloat16",
    DType.INT64: "long long",
    DType.UINT64: "unsigned long long",
    DType.INT32: "int",
    DType.UINT32: "unsigned",
    DType.INT16: "short",
    DType.UINT16: "unsigned short",
    DType.INT8: "signed char",
    DType.UINT8: "unsigned char",
}
"""How an element is written in CUDA C++."""
_HEADERS: Final = {DType.FLOAT16: "cuda_fp16.h", DType.BFLOAT16: "cuda_bf16.h"}


def sizes_in_words(sizes: Sizes, equals: str = "=") -> str:
    """`m=64, n=3`; in words where a problem is known at its own shapes only, and has no sizes."""
    return ", ".join(f"{name}{equals}{size}" for name, size in sizes.items()) or "its own shapes"


def starter(problem: Problem) -> str:
    """A source file to start from: the problem's name, the right signature, a launch directive, an empty body."""
    parameters = [f"const {C_TYPES[t.dtype]}* {t.name}" for t in problem.inputs]
    parameters += [f"{C_TYPES[t.dtype]}* {t.name}" for t in problem.outputs]
    parameters += [f"{C_TYPES[s.dtype]} {s.name}" for s in problem.scalars]
    parameters += [f"int {name}" for name in problem.sizes]
    elements = " * ".join(extent if extent.isalnum() else f"({extent})" for extent in problem.outputs[0].shape)
    arguments = ", ".join(problem.parameter_names)
    used = {t.dtype for t in (*problem.inputs, *problem.outputs)}
    include = "".join(f"#include <{header}>\n" for dtype, header in _HEADERS.items() if dtype in used)
    include += "\n" if include else ""
    return (
        f"// problem: {problem.id}\n"
        f"// {problem.title}\n"
        f"// assay: launch {problem.id}_kernel grid=(ceil_div({elements}, 256)) block=(256) args=({arguments})\n\n"
        f"{include}"
        f'extern "C" __global__ void {problem.id}_kernel(\n    {f",{chr(10)}    ".join(parameters)})\n'
        "{\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        f"    // one thread for each element of {problem.outputs[0].name}; change the launch line as you like\n"
        "}\n"
    )
