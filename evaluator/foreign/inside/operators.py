"""Operators that are seen as they are carried out, the ground of all dispatch modes here; what cancels in them; and
noise of one rounding, as Monte Carlo arithmetic moves their results.

`softplus(x)` far below 0 is `log(1 + exp(x))`: next to nothing, of a sum near 1 that is rounded. A kernel that writes
it so is as honest as one in float32 can be, but for `log1p`; from outside nothing of that sum is to be seen.

To draw noise for tensors of millions of elements, and to look how far it moved a result, is most of what an answer
takes. So each is done in one pass over blocks that stay in a core's cache, in memory that is there, by as many
threads as PyTorch has.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode


class SeenOperators(TorchDispatchMode):
    """While it is active, every operator that reaches PyTorch's kernels goes through `__torch_dispatch__`.

    Of an operator on functions, `flex_attention`, those do of which it is composed.
    """

    supports_higher_order_operators = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__torch_dispatch__" in vars(cls):
            cls.__torch_dispatch__ = _composed(cls.__torch_dispatch__)  # type: ignore[method-assign]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nobody compiles here, and to keep the compiler out PyTorch would import it: 1.4 s.
        return False


_seeded = 0


def _composed(dispatch: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(dispatch)
    def seen(self: SeenOperators, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, HigherOrderOperator):
            with self:
                return func.py_kernels[torch._C.DispatchKey.CompositeExplicitAutograd](*args, **(kwargs or {}))
        if _is_composed(func):
            with self:
                return func.decompose(*args, **(kwargs or {}))
        return dispatch(self, func, types, args, kwargs)

    return seen


@functools.cache
def _is_composed(func: Any) -> bool:
    """Of others, as `matmul` is. Within an operator on functions nobody has taken it apart before."""
    name, key = func.name(), torch._C.DispatchKey.CompositeImplicitAutograd
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


def seed_torch(seed: int) -> None:
    """As `torch.manual_seed`, which imports the compiler too; `own_seed` follows it."""
    global _seeded
    _seeded = seed
    torch.default_generator.manual_seed(seed)


@contextlib.contextmanager
def finfo_of_float32(doubled: bool) -> Iterator[None]:
    """Where a file is carried out in float64 in the place of less, `torch.finfo` speaks of float32."""
    if not doubled:
        yield
        return
    own = torch.finfo

    def finfo(dtype: torch.dtype | None = None) -> torch.finfo:
        return own(torch.float32 if dtype in (None, torch.float64) else dtype)

    torch.finfo = finfo  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        torch.finfo = own  # type: ignore[misc]


def own_seed(stated: Any) -> int:
    """What takes the place of a seed that a file states: as secret as ours, and the same for the same number."""
    return (int(stated) ^ (_seeded * _SPREAD)) & 0x7FFFFFFF


def operator_name(func: Any) -> str:
    """`add` for aten.add.Tensor."""
    return str(func.overloadpacket.__name__)


_SPREAD: Final = 0x9E3779B1
ROUNDING: Final = 2.0**-24
"""Largest relative error of one float32 rounding to nearest."""
_TINY: Final = 2.0**-1000

Cancelling = Callable[..., Any]
"""How far the result moves by one rounding of that term, in roundings: of the result and the operator's arguments."""


def _elu(
    made: torch.Tensor, x: torch.Tensor, alpha: float = 1.0, scale: float = 1.0, by: float = 1.0
) -> torch.Tensor:
    return alpha * scale * torch.exp(x.clamp(max=0.0) * by)


def _mean_square(made: torch.Tensor, x: torch.Tensor, axes: Any = None, **_: Any) -> torch.Tensor:
    """Of `mean(x**2) - mean(x)**2`."""
    return x.square().mean(axes, keepdim=True).reshape(made.shape)


def _root_mean_square(made: torch.Tensor, x: torch.Tensor, axes: Any = None, **_: Any) -> torch.Tensor:
    """The root of that: at 0 its slope has no end, and the rounding has."""
    square = _mean_square(made, x, axes)
    return torch.minimum(square / (2.0 * made.abs()).clamp_min(_TINY), (square / ROUNDING).sqrt())


CANCELLING: Final[Mapping[str, Cancelling]] = {
    "gelu": lambda made, x, **_: 0.5 * x,
    "softplus": lambda made, x, beta=1.0, threshold=20.0: (x * beta <= threshold) / beta,
    "mish": lambda made, x: x / torch.cosh(torch.nn.functional.softplus(x)).square(),
    "log_sigmoid_forward": lambda *_: 1.0,
    "log1p": lambda *_: 1.0,
    "expm1": lambda made, x: torch.exp(x),
    "elu": _elu,
    "celu": lambda made, x, alpha=1.0: _elu(made, x, alpha, 1.0, 1.0 / alpha),
    "tanh": lambda *_: 1.0,
    "sinh": lambda made, x: torch.cosh(x),
    "asinh": lambda *_: 1.0,
    "atanh": lambda *_: 1.0,
    "logsumexp": lambda *_: 1.0,
    "logaddexp": lambda *_: 1.0,
    "_log_softmax": lambda *_: 1.0,
    "binary_cross_entropy_with_logits": lambda *_, **__: 1.0,
    "var": _mean_square,
    "var_mean": _mean_square,
    "std": _root_mean_square,
}
"""By the operator's name."""

_MOST_MOVED: Final = math.sqrt(3.0) * ROUNDING
_BLOCK: Final = 1 << 15
"""Elements: with a factor for each they take half a MiB, which the second cache of a core holds."""
_PIECE: Final = 1 << 20
"""Elements of which one thread has some milliseconds of work; fewer are not worth waking another one."""

_Flat: TypeAlias = NDArray[Any]


class Noise:
    """Moves values by `ROUNDING` of themselves, up or down at random, in the mean square.

    Each by any size up to its root of 3: of two terms that cancel, moves of one size would cancel too in every second
    run, and in one of 256 elements in all eight. The same from the same seed, however many threads there are.
    """

    def __init__(self, seed: int) -> None:
        self._draws = np.random.Generator(np.random.SFC64(seed))

    def move(self, values: torch.Tensor) -> None:
        """Move each element of a float64 tensor, in place."""
        plain = values.layout is torch.strided and values.device.type == "cpu"
        if plain and values.is_contiguous() and not values.is_neg():
            flat = values.detach().reshape(-1).numpy()
            self._multiply(flat, flat)
        else:
            values.mul_(self.factors(values.shape))

    def moved(self, values: torch.Tensor) -> torch.Tensor:
        """The same elements in float64, moved."""
        source = values if values.dtype in (torch.float32, torch.float64) else values.double()
        made = torch.empty(source.shape, dtype=torch.float64)
        self._multiply(_flat(source), _flat(made))
        return made

    def factors(self, shape: torch.Size) -> torch.Tensor:
        """1, moved, for each element."""
        factors = torch.empty(shape, dtype=torch.float64)
        flat = _flat(factors)
        self._in_pieces(flat.size, lambda draws, start, stop: _draw(draws, flat[start:stop]))
        return factors

    def _multiply(self, source: _Flat, target: _Flat) -> None:
        def multiply(draws: np.random.Generator, start: int, stop: int) -> None:
            factors = np.empty(min(_BLOCK, stop - start))
            for at in range(start, stop, _BLOCK):
                end = min(at + _BLOCK, stop)
                some = factors[: end - at]
                _draw(draws, some)
                np.multiply(source[at:end], some, out=target[at:end])

        self._in_pieces(source.size, multiply)

    def _in_pieces(self, count: int, work: Callable[[np.random.Generator, int, int], None]) -> None:
        starts = range(0, count, _PIECE)
        if len(starts) == 1:
            draws = [self._draws]
        else:
            seeds = self._draws.integers(1 << 62, size=len(starts)).tolist()
            draws = [np.random.Generator(np.random.SFC64(seed)) for seed in seeds]
        _over(count, lambda start, stop: work(draws[start // _PIECE], start, stop))


def _draw(draws: np.random.Generator, factors: _Flat) -> None:
    """24 random bits for each: a move is a thousandth of a thousandth of a rounding more or less then."""
    for at in range(0, factors.size, _BLOCK):
        some = factors[at : at + _BLOCK]
        np.multiply(draws.random(some.size, dtype=np.float32), 2.0 * _MOST_MOVED, out=some, dtype=np.float64)
        some += 1.0 - _MOST_MOVED


class MeanSquare:
    """How far several results are from an exact one, element by element: the mean of the squares."""

    def __init__(self, exact: torch.Tensor, results: int) -> None:
        """`results`: how many there will be."""
        self._exact, self._weight = _flat(exact.double()), 1.0 / results
        self._squares = torch.zeros(exact.shape, dtype=torch.float64)

    def add(self, result: torch.Tensor) -> None:
        """Take account of one."""
        sums, exact, found = _flat(self._squares), self._exact, _flat(result.double())

        def add(start: int, stop: int) -> None:
            for at in range(start, stop, _BLOCK):
                here = slice(at, min(at + _BLOCK, stop))
                moved = found[here] - exact[here]
                moved[found[here] == exact[here]] = 0.0  # of infinities too
                moved *= moved
                moved *= self._weight
                sums[here] += moved

        _over(sums.size, add)

    def scale(self) -> torch.Tensor:
        """The exact result, and beside it how many roundings it was moved by: the 2-norm of both.

        The object is used up by it.
        """
        sums, exact = _flat(self._squares), self._exact

        def scale(start: int, stop: int) -> None:
            for at in range(start, stop, _BLOCK):
                here = slice(at, min(at + _BLOCK, stop))
                np.hypot(exact[here], np.sqrt(sums[here]) / ROUNDING, out=sums[here])

        _over(sums.size, scale)
        return self._squares


def _flat(values: torch.Tensor) -> _Flat:
    """All elements in one row: where they are, if they lie so."""
    flat: _Flat = values.detach().resolve_neg().contiguous().reshape(-1).numpy()
    return flat


def _over(count: int, work: Callable[[int, int], None]) -> None:
    """`work` on 0 to `count`, from one number to another: more than a piece by several threads."""

    def piece(start: int) -> None:
        with np.errstate(all="ignore"):  # of what is not finite the caller speaks; each thread has its own
            work(start, min(start + _PIECE, count))

    if count > _PIECE:
        list(_threads().map(piece, range(0, count, _PIECE)))
    elif count:
        piece(0)


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(torch.get_num_threads(), "noise")
