"""Operators that are seen as they are carried out, the ground of all dispatch modes here, and what cancels in them.

`softplus(x)` far below 0 is `log(1 + exp(x))`: next to nothing, of a sum near 1 that is rounded. A kernel that writes
it so is as honest as one in float32 can be, but for `log1p`; from outside nothing of that sum is to be seen.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class SeenOperators(TorchDispatchMode):
    """While it is active, every operator that reaches PyTorch's kernels goes through `__torch_dispatch__`."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Nobody compiles here, and to keep the compiler out PyTorch would import it: 1.4 s.
        return False


_seeded = 0


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
_ROUNDING: Final = 2.0**-24
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
    return torch.minimum(square / (2.0 * made.abs()).clamp_min(_TINY), (square / _ROUNDING).sqrt())


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
