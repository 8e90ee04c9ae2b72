"""What is known of a problem of someone else: all that leaves the sandbox beside the contents of tensors."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from common.wire import DType, Json
from evaluator.problems.problem import EntryParameter

DrawKind: TypeAlias = Literal["uniform", "normal", "integers", "permutation", "called"]
InputKind: TypeAlias = Literal["argument", "parameter", "buffer", "output"]

_MOST_TENSORS: Final = 1024
MOST_EXTENT: Final = 1 << 31
MOST_SIZES: Final = 64


@dataclass(frozen=True)
class DrawnAs:
    """How the contents of an input are drawn; `called`: only the file itself can make them."""

    kind: DrawKind
    low: float = 0.0
    """The least of `uniform` and `integers`."""
    high: float = 1.0
    """The largest, which `uniform` does not reach and `integers` does."""
    mean: float = 0.0
    std: float = 1.0


@dataclass(frozen=True)
class TensorFacts:
    """One input or output."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    draw: DrawnAs
    kind: InputKind
    longest_sum: int = 1
    """Of an output: terms of the longest sum that it was seen to be made of."""
    fixed: bool = False
    """Whether the file makes the same contents under every seed; of one value everywhere it is drawn all the same."""
    instead: DrawnAs | None = None
    """How contents like these could be drawn, where they are `fixed` and no whole numbers."""
    is_bool: bool = False
    """Whether the file has them as `torch.bool`."""
    changed: bool = False
    """Of an input: whether `forward` was seen to change it in place."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.dtype.size_bytes

    @property
    def drawn_in_words(self) -> str:
        """How a uniform or normal input is drawn: `'x' from 0 to 1`."""
        if self.draw.kind == "uniform":
            return f"'{self.name}' from {self.draw.low:g} to {self.draw.high:g}"
        centred = f" around {self.draw.mean:g}" * (self.draw.mean != 0.0)
        return f"'{self.name}'{centred} with a standard deviation of {self.draw.std:g}"


@dataclass(frozen=True)
class Description:
    """One file, as the sandbox describes it."""

    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    sizes: Mapping[str, int]
    """Whole numbers that the file names at its top."""
    flops: int
    longest_sum: int
    """Terms of the longest sum that the file was seen to make, for whatever output."""
    torch: str
    """Version of PyTorch."""
    constants: tuple[str, ...] = ()
    """Those of the sizes that the file states as a number; the others follow from them."""
    operators: int = 2
    """How many that compute the file was seen to call: of one there is no intermediate result to round."""
    products: int = 0
    """Of them those that multiply matrices, or convolve."""
    passes: int = 0
    """How often others go over an axis: once for a sum, twice for a softmax or a norm."""
    reducible: Mapping[str, int] = field(default_factory=dict)
    """Numbers that can be made smaller, as the file states them: the constants, and shares of others."""
    fixed: tuple[str, ...] = ()
    """Those of them on which a kernel may rely: they are made smaller only where the others are not enough."""
    assumed: Mapping[str, int] = field(default_factory=dict)
    """Sizes that the file leaves open, as they are taken here where nobody states them."""
    in_order: bool = False
    """Whether all sums were of a kind that can be measured with one accumulator each."""
    unordered: bool = False
    """Whether whole numbers of the answer may hang on which of equal values comes first, which nobody states."""
    entry: tuple[EntryParameter, ...] = ()
    """What the host function of a solution takes, where the form says so."""
    fault: str = ""
    """Why the answer at these sizes says nothing about a kernel, as far as a call with other inputs shows.

    Empty where nothing was found or looked for.
    """

    @property
    def tier(self) -> int:
        """How hard the problem is, by what the file was seen to compute.

        0: every element of the answer is made of single elements. 1: an axis is gone over once. 2: an axis is gone
        over more than once, or matrices are multiplied, or there is a convolution. 3: several of these products.
        """
        if self.products:
            return 3 if self.products > 1 else 2
        return min(self.passes, 2)

    @staticmethod
    def from_json(text: bytes) -> "Description":
        """Raises ValueError for what no file can be like: an untrusted process wrote it."""
        described = _descriptions.load(text)
        tensors = (*described.inputs, *described.outputs)
        names = [*(tensor.name for tensor in tensors), *described.sizes]
        if not described.outputs or len(tensors) > _MOST_TENSORS or len(described.sizes) > MOST_SIZES:
            raise ValueError(f"{len(described.inputs)} inputs and {len(described.outputs)} outputs")
        if len(set(names)) != len(names) or not all(name.isidentifier() and name.isascii() for name in names):
            raise ValueError("names that no kernel's parameters can have, or two of the same")
        for tensor in tensors:
            if not tensor.shape or not all(1 <= extent < MOST_EXTENT for extent in tensor.shape):
                raise ValueError(f"'{tensor.name}' of shape {tensor.shape}")
            for draw in (tensor.draw, *([tensor.instead] if tensor.instead else [])):
                if not all(math.isfinite(value) for value in (draw.low, draw.high, draw.mean, draw.std)):
                    raise ValueError(f"'{tensor.name}' drawn without bounds")
                if draw.low > draw.high or draw.std < 0 or (draw.kind == "permutation" and len(tensor.shape) != 1):
                    raise ValueError(f"'{tensor.name}' cannot be drawn")
        if not all(1 <= size < MOST_EXTENT for size in described.sizes.values()):
            raise ValueError("sizes out of range")
        if not set(described.constants) <= set(described.sizes):
            raise ValueError("constants that are no sizes")
        for numbers in (described.reducible, described.assumed):
            if len(numbers) > MOST_SIZES or not all(
                name.isidentifier() and name.isascii() and 1 <= value < MOST_EXTENT for name, value in numbers.items()
            ):
                raise ValueError("numbers to make smaller, or that were assumed, that are none")
        if not set(described.fixed) <= set(described.reducible):
            raise ValueError("numbers that are fixed, and not among those to make smaller")
        for one in described.entry:
            if not (one.name.isidentifier() and one.name.isascii()) or not math.isfinite(one.value or 0.0):
                raise ValueError("a parameter of the host function that is none")
            if one.tensor and one.tensor not in [tensor.name for tensor in tensors]:
                raise ValueError(f"a parameter '{one.name}' of the host function that is no tensor of the problem")
            if one.shape_of and (one.tensor or one.shape_of not in [tensor.name for tensor in described.inputs]):
                raise ValueError(f"a parameter '{one.name}' of the host function that is the shape of no input")
            if one.initial and one.initial not in [tensor.name for tensor in described.inputs]:
                raise ValueError(f"a parameter '{one.name}' of the host function that begins as no input")
            if one.zeroed and (one.initial or one.tensor not in [tensor.name for tensor in described.outputs]):
                raise ValueError(f"a parameter '{one.name}' of the host function that holds zeros and is no output")
        counted = (described.operators, described.products, described.passes)
        sums = [described.longest_sum, *(facts.longest_sum for facts in described.outputs)]
        if not (0 <= described.flops < 1 << 62 and all(1 <= one < 1 << 40 for one in sums) and min(counted) >= 0):
            raise ValueError("work out of range")
        return described

    def to_json(self) -> bytes:
        """As it is cached."""
        return _descriptions.dump(self)


_descriptions: Final = Json(Description)
