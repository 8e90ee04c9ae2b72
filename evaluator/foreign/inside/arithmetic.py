"""A module's operators carried out otherwise than the file asks for: in float64, with noise, in a lower precision, in
another order; and counted.

Each is a dispatch mode: it sees every operator that reaches PyTorch's kernels, whatever the file calls it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import flop_registry
from torch.utils.weak import WeakIdKeyDictionary

from evaluator.foreign.inside.operators import CANCELLING, Noise, SeenOperators, operator_name
from evaluator.foreign.inside.refusals import TooLargeError, current_line

NARROW: Final = (torch.float32, torch.float16, torch.bfloat16)
_MOVES: Final = frozenset(
    [
        "_unsafe_view",
        "clone",
        "copy",
        "copy_",
        "cat",
        "stack",
        "index",
        "index_select",
        "gather",
        "slice",
        "constant_pad_nd",
        "flip",
        "roll",
        "repeat",
        "lift_fresh",
        "_to_copy",
        "detach",
        "alias",
        "embedding",
        "im2col",
        "where",
        "masked_fill",
        "masked_fill_",
        "zeros_like",
        "ones_like",
    ]
)
"""Operators that compute nothing: no rounding happens in them."""
_WHOLE: Final = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32)
_ROUNDINGS: Final = ("floor", "ceil", "trunc")
_COMPARISONS: Final = ("eq", "ne", "lt", "le", "gt", "ge")


def _computes(func: Any) -> bool:
    return not func.is_view and operator_name(func) not in _MOVES


def _floats(values: Any) -> list[torch.Tensor]:
    return [
        one for one in pytree.tree_leaves(values) if isinstance(one, torch.Tensor) and one.dtype.is_floating_point
    ]


class DoubleArithmetic(SeenOperators):
    """Everything in float64, also what the file itself makes or casts in less; with `noise` each result is moved by
    a rounding of itself, up or down at random, and of what cancels in the operator.
    """

    def __init__(self, noise: Noise | None = None, exact: "DoubleArithmetic | None" = None) -> None:
        """`exact`: the same without noise, carried out before."""
        super().__init__()
        self._noise = noise
        self._exact = exact
        self._steps: list[tuple[torch.Tensor, torch.Tensor]] = []
        """Of each operator that steps, such as a floor: its result, and where its operand is on a step."""
        self._step = 0

    def __enter__(self) -> "DoubleArithmetic":
        self._before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        super().__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        torch.set_default_dtype(self._before)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = pytree.tree_map(_doubled, (args, kwargs or {}))
        if _is_step(func, args, kwargs):
            return self._at_step(func(*args, **kwargs), operator_name(func), args)
        if self._noise is None or not _computes(func) or not _floats((args, kwargs)):
            return func(*args, **kwargs)
        cancelling = CANCELLING.get(operator_name(func).removesuffix("_"))
        before = args[0].clone() if cancelling and func._schema.is_mutable else args[0]
        made = func(*args, **kwargs)
        for at, one in enumerate(_floats(made)):
            if one.dtype is torch.float64:
                self._noise.move(one)
                if cancelling and at == 0:
                    moves = self._noise.factors(one.shape) - 1.0
                    one.add_(cancelling(one, before, *args[1:], **kwargs) * moves)
        return made

    def _at_step(self, made: torch.Tensor, name: str, args: Any) -> torch.Tensor:
        """Where the exact operand is a whole number, or equals the other one, noise does not move it across: whole
        numbers are exact in float32 too.
        """
        if self._noise is None:
            other = args[1] if name in _COMPARISONS else args[0].round()
            self._steps.append((made, torch.as_tensor(args[0] == other).expand(made.shape)))
        elif self._exact is not None and self._step < len(self._exact._steps):
            exact, on_step = self._exact._steps[self._step]
            self._step += 1
            if exact.shape == made.shape:
                return torch.where(on_step, exact, made)
        return made

    def operand(self, values: torch.Tensor) -> torch.Tensor:
        """A copy of floats as this arithmetic takes them."""
        return values.to(torch.float64, copy=True) if self._noise is None else self._noise.moved(values)


def _is_step(func: Any, args: Any, kwargs: Mapping[str, Any]) -> bool:
    name = operator_name(func)
    if not args or not isinstance(args[0], torch.Tensor) or not args[0].dtype.is_floating_point:
        return False
    cut_off = name == "_to_copy" and kwargs.get("dtype") in _WHOLE
    return not func._schema.is_mutable and (cut_off or name in _ROUNDINGS or name in _COMPARISONS)


def _doubled(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype in NARROW else value
    return torch.float64 if isinstance(value, torch.dtype) and value in NARROW else value


class RoundedArithmetic(SeenOperators):
    """Floating operands and results of every operator rounded to a lower precision, computed in the file's own.

    With `products_alone` only the operands of products and convolutions, as tensor cores take them.
    """

    def __init__(
        self,
        rounding: Callable[[torch.Tensor], torch.Tensor],
        dtypes: tuple[torch.dtype, ...],
        products_alone: bool = False,
    ) -> None:
        super().__init__()
        self._rounding, self._dtypes, self.products_alone = rounding, dtypes, products_alone

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not _computes(func) or func._schema.is_mutable:
            return func(*args, **(kwargs or {}))
        if self.products_alone:
            product = func.overloadpacket in flop_registry
            factors = pytree.tree_map(self.rounded, args) if product else args
            return func(*factors, **(kwargs or {}))
        args, kwargs = pytree.tree_map(self.rounded, (args, kwargs or {}))
        return pytree.tree_map(self.rounded, func(*args, **kwargs))

    def rounded(self, value: Any) -> Any:
        """A tensor of floats with its values rounded; anything else as it is."""
        if isinstance(value, torch.Tensor) and value.dtype in self._dtypes:
            return self._rounding(value.float()).to(value.dtype)
        return value


IN_PRODUCTS: Final = " in products"
"""Behind the name of a precision: of the operands of products alone."""


def rounded_arithmetic(name: str) -> RoundedArithmetic:
    """By a name of `LOWER`, or `NAME in products`. Raises KeyError."""
    precision = name.removesuffix(IN_PRODUCTS)
    dtypes = (torch.float64,) if precision == "float32" else NARROW
    return RoundedArithmetic(LOWER[precision], dtypes, products_alone=name != precision)


def _to_tf32(values: torch.Tensor) -> torch.Tensor:
    bits = values.contiguous().view(torch.int32)
    rounded = (bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF
    return torch.where(torch.isfinite(values), rounded.view(torch.float32), values)


LOWER: Final[Mapping[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "TF32": _to_tf32,
    "bfloat16": lambda values: values.to(torch.bfloat16).float(),
    "float16": lambda values: values.to(torch.float16).float(),
    "float32": lambda values: values,
    "float8_e4m3fn": lambda values: values.to(torch.float8_e4m3fn).float(),
}
"""Lower precisions, to nearest: 10, 7, 10, 23 and 3 fraction bits, float16 and the last with a small range too.

Tensors are float32 where they are rounded; `float32` is what float64 is rounded to.
"""
TRUNCATED: Final = "truncated bfloat16"


class TruncatedArithmetic(SeenOperators):
    """Every operator with a result in bfloat16, casts among them, computed in float32 and cut off to its 7 bits."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        made = func(*args, **kwargs)
        results = [one for one in pytree.tree_leaves(made) if isinstance(one, torch.Tensor)]
        if func.is_view or func._schema.is_mutable or all(one.dtype is not torch.bfloat16 for one in results):
            return made
        args, kwargs = pytree.tree_map(_widened, (args, kwargs))
        wide = func(*args, **kwargs)
        return pytree.tree_map(_cut_off_like, made, wide)


def _widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype is torch.bfloat16 else value
    return torch.float32 if value is torch.bfloat16 else value


def _cut_off_like(made: Any, wide: Any) -> Any:
    if not isinstance(made, torch.Tensor) or made.dtype is not torch.bfloat16:
        return made
    bits = wide.float().contiguous().view(torch.int32) & -0x10000
    cut_off = torch.where(torch.isnan(wide), wide.float(), bits.view(torch.float32))
    return cut_off.to(torch.bfloat16)


class PermutedOrder(SeenOperators):
    """Sums and products of matrices with their terms in another order."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        factors = FACTORS.get(operator_name(func))
        if factors is not None:
            left, right = (args[at] for at in factors)
            order = torch.randperm(left.shape[-1], generator=self._generator)
            changed = list(args)
            changed[factors[0]] = left[..., order]
            changed[factors[1]] = right.index_select(-1 if right.ndim == 1 else -2, order)
            return func(*changed, **(kwargs or {}))
        if operator_name(func) in ("sum", "mean") and args[0].ndim:
            axes = axes_of(func, args) or tuple(range(args[0].ndim))
            return func(args[0].flip(axes), *args[1:], **(kwargs or {}))
        return func(*args, **(kwargs or {}))


FACTORS: Final = {"mm": (0, 1), "bmm": (0, 1), "mv": (0, 1), "addmm": (1, 2), "baddbmm": (1, 2), "addmv": (1, 2)}
"""Where products of matrices have their factors."""
IN_ORDER: Final = frozenset(FACTORS) | {
    *("sum", "mean", "var", "var_mean", "std", "std_mean", "linalg_vector_norm"),
    *("_softmax", "_log_softmax", "native_layer_norm", "native_group_norm"),
}
"""Operators that `in_order` carries out with one accumulator for each sum."""


def axes_of(func: Any, args: Any) -> tuple[int, ...]:
    """The axes that a sum goes over; none where it goes over all."""
    given = args[1] if len(args) > 1 and func._overloadname != "default" else None
    listed = [given] if isinstance(given, int) else list(given or ())
    return tuple(axis % args[0].ndim for axis in listed)


_TWO_PASSES: Final = frozenset(
    (
        *("_softmax", "_log_softmax", "_safe_softmax", "logsumexp", "var", "var_mean", "std", "std_mean"),
        *("native_layer_norm", "native_group_norm", "native_batch_norm", "_native_batch_norm_legit"),
    )
)
"""Operators that go over an axis twice."""
_SORTING: Final = frozenset(["sort", "argsort", "topk", "kthvalue", "median", "mode"])
"""Of equal values nobody states which these put first, unless they are asked to."""
_REDUCING: Final = frozenset(["amax", "amin", "max", "min", "aminmax", "cummax", "cummin", "argmax", "argmin"])
_ONE_PASS: Final = _SORTING | _REDUCING
"""Operators that go over an axis and add up nothing."""


class CountedWork(SeenOperators):
    """Counts operations and the longest sum, and where random numbers are drawn."""

    def __init__(self, most_bytes: int = 1 << 62) -> None:
        """`most_bytes`: a product of matrices that has more ends in TooLargeError, before it takes minutes."""
        super().__init__()
        self._most_bytes = most_bytes
        self.flops = 0
        self.longest_sum = 1
        self._sums: WeakIdKeyDictionary = WeakIdKeyDictionary()
        self._hidden_sum = 1
        """The longest of what was written into a part of another tensor, which may have other names."""
        self.operators = 0
        self.products = 0
        """Operators that multiply matrices, or convolve."""
        self.passes = 0
        """Times that another operator goes over an axis to add up, or to take the largest."""
        self.in_order = True
        """Whether every sum is in an operator whose sums can be computed in order."""
        self.unordered = False
        """Whether something was sorted of which nobody states which of equal values comes first."""
        self.reads = 0
        """Numbers that are read out of tensors: a loop may wait for one."""
        self.random: list[tuple[str, int | None]] = []
        """Operators that draw random numbers, and the lines of the file that call them."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.reads += operator_name(func) == "_local_scalar_dense"
        factors = FACTORS.get(operator_name(func))
        if factors is not None:
            left, right = (args[at] for at in factors)
            rows = left.numel() // max(1, left.shape[-1])
            found_bytes = rows * (1 if right.ndim == 1 else right.shape[-1]) * left.element_size()
            if found_bytes > self._most_bytes:
                raise TooLargeError(found_bytes, self._most_bytes, current_line(), "products")
        made = func(*args, **(kwargs or {}))
        given = [
            self._sums.get(one, 1) for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)
        ]
        longest = max(given, default=1)
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.random.append((operator_name(func), current_line()))
        if operator_name(func) in _SORTING and not (kwargs or {}).get("stable") and True not in args[1:2]:
            self.unordered = True
        read, written = _floats((args, kwargs)), _floats(made)
        if not _computes(func) or not read:
            return self._with_sums(made, longest, func)
        self.operators += 1
        elements = max((one.numel() for one in (*read, *written)), default=0)
        if func.overloadpacket in flop_registry and not isinstance(made, tuple):
            self.flops += int(flop_registry[func.overloadpacket](*args, **(kwargs or {}), out_val=made))
        elif operator_name(func).startswith("_scaled_dot_product"):
            self.flops += 4 * int(args[0].numel()) * int(args[1].shape[-2])
        else:
            self.flops += elements
        terms = _terms(operator_name(func), args, made)
        self.longest_sum = max(self.longest_sum, terms)
        self.in_order = self.in_order and (terms == 1 or operator_name(func) in IN_ORDER)
        if func.overloadpacket in flop_registry:
            self.products += 1
        elif terms > 1 or operator_name(func) in _ONE_PASS:
            self.passes += 1 + (operator_name(func) in _TWO_PASSES)
        return self._with_sums(made, max(longest, terms), func)

    def _with_sums(self, made: Any, longest: int, func: Any) -> Any:
        """`made`, of which it is remembered how long the longest sum is that is in it."""
        for one in pytree.tree_leaves(made):
            if isinstance(one, torch.Tensor):
                self._sums[one] = longest
                if func._schema.is_mutable and one._is_view():
                    self._hidden_sum = max(self._hidden_sum, longest)
        return made

    def longest_sum_in(self, tensor: torch.Tensor) -> int:
        """Terms of the longest sum that a tensor was seen to be made of."""
        return int(max(self._hidden_sum, self._sums.get(tensor, self.longest_sum)))


def _terms(name: str, args: Any, made: Any) -> int:
    """How many terms one element of an operator's result adds up."""
    if name in FACTORS:
        return int(args[FACTORS[name][0]].shape[-1])
    if name == "convolution":
        weight, transposed = args[1], args[6]
        return int(weight.numel() // weight.shape[1 if transposed else 0])
    if name in ("_softmax", "_log_softmax", "_safe_softmax", "cumsum", "logcumsumexp", "cumprod"):
        return int(args[0].shape[args[1]]) if args[0].ndim else 1
    if name == "native_layer_norm":
        return int(np.prod(args[1]))
    if name in _CHOOSING:
        return 1
    if name.startswith("nll_loss"):
        return int(args[1].numel())
    if name in ("bilinear", "_trilinear"):
        return int(args[0].shape[-1] * args[1].shape[-1])
    if name.startswith("_fft_"):
        return int(np.prod([args[0].shape[axis] for axis in args[1]]))
    if name.startswith("_scaled_dot_product"):
        return int(max(args[0].shape[-1], args[1].shape[-2]))
    read = max((one.numel() for one in _floats(args)), default=1)
    results = [one.numel() for one in _floats(made) if one.numel()]
    return max(1, read // min(results)) if results else 1


_CHOOSING: Final = _ONE_PASS | {
    *("maximum", "minimum", "any", "all", "take", "masked_select", "nonzero"),
    *("max_pool2d_with_indices", "max_pool3d_with_indices", "fractional_max_pool2d", "fractional_max_pool3d"),
    *("adaptive_max_pool2d", "adaptive_max_pool3d"),
}
"""Operators that look at many values and give one of them: nothing is added up."""
_MOST_OPERATORS: Final = 2000
"""A network of 200 layers has 700. A calibration carries out each some 200 times, at a tenth of a millisecond and
more; what has more is recurrent, and has fewer in shorter sequences."""
_MOST_READ: Final = 1000
"""Numbers that are read out of tensors, for which there is nothing: a loop that waits for another would not end."""


@dataclass(frozen=True)
class CallRoom:
    """What a file may take."""

    input_bytes: int
    output_bytes: int
    result_bytes: int
    """Of one product of matrices."""
    work: int
    """Operations. Without end where a file is judged as it is: then its operators are not counted either."""


class NumbersRead(SeenOperators):
    """Where a file reads a number out of a tensor, as rates of a schedule are, it is 1."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operator_name(func) != "_local_scalar_dense" or args[0].device.type != "meta":
            return func(*args, **(kwargs or {}))
        self.count += 1
        if self.count > _MOST_READ:
            raise RuntimeError("it hangs on contents")
        return torch.ones((), dtype=args[0].dtype, device="cpu").item()


class BoundedWork(CountedWork):
    """Ends in TooLargeError where there are too many operators; not in a loop that may wait for a number."""

    def __init__(self, room: CallRoom) -> None:
        super().__init__(room.result_bytes)
        self._bounded = room.work < 1 << 60

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = super().__torch_dispatch__(func, types, args, kwargs)
        if self._bounded and not self.reads and self.operators > _MOST_OPERATORS:
            what = "sums, products and others"
            raise TooLargeError(self.operators, _MOST_OPERATORS, what=what, unit="operators", counted=False)
        return made
