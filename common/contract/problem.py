"""A problem, as a kernel author sees it."""

from pydantic import Field

from common.wire import DType, Wire


class TensorFace(Wire):
    """One tensor of a problem, as a kernel author sees it. Contiguous, row-major, 256-byte aligned."""

    name: str
    dtype: DType
    shape: tuple[str, ...]
    """Extents as expressions over the sizes."""


class ScalarFace(Wire):
    """One scalar of a problem."""

    name: str
    dtype: DType
    value: float
    """What published trials and the timing pass."""
    varies: bool = False
    """Whether hidden trials pass other values as well."""


class ProblemFace(Wire):
    """What a kernel author needs to know about a problem; hidden sizes and seeds are not in it."""

    id: str
    version: str
    tier: int = Field(ge=0, le=3)
    title: str
    statement: str
    inputs: tuple[TensorFace, ...]
    outputs: tuple[TensorFace, ...]
    scalars: tuple[ScalarFace, ...]
    sizes: tuple[str, ...]
    example_sizes: tuple[dict[str, int], ...]
    timing_sizes: dict[str, int]
    """Sizes at which a GPU's time is measured."""
    baseline: str
    """What the time is compared with: an expression of PyTorch's eager operators (`F` is torch.nn.functional)."""
    tolerance: str
    """The tolerance and its reason, in words."""
    distributions: tuple[str, ...]
    probes: tuple[str, ...]
    starter: str
    """A source file to start from: right signature, empty body."""
    serves: str = ""
    """The sizes that a kernel must serve, in words; nothing in faces from before they were stated."""
    caveats: tuple[str, ...] = ()
    """What a verdict about this problem cannot say, and why: of problems that someone else states."""
