"""Launch plans: which kernels to launch, how, and with what. As JSON, or as directives in the source.

// assay: temp partial float32 (ceil_div(n, 1024))
// assay: fill partial value=0
// assay: launch block_sums grid=(ceil_div(n, 1024)) block=(256) shared=1024 args=(x, partial, n)
// assay: launch final_sum grid=(1) block=(256) args=(partial, total, ceil_div(n, 1024))
// assay: copy x y
"""

from typing import Annotated, Literal

from pydantic import Field, StrictFloat, StrictInt, StrictStr

from common.expressions import caret
from common.wire import DType, Wire

MAX_STEPS = 256
MAX_TEMPORARIES = 256

Name = Annotated[str, Field(pattern=r"^[A-Za-z_]\w{0,63}$")]
Extent = StrictInt | Annotated[StrictStr, Field(max_length=256)]
"""An integer, or an integer expression over the problem's sizes."""
Extents = Annotated[tuple[Extent, ...], Field(min_length=1, max_length=3)]


class Temporary(Wire):
    """A scratch tensor. Contents are undefined at the start of each run of the plan, kept between its launches."""

    name: Name
    dtype: DType
    shape: Annotated[tuple[Extent, ...], Field(min_length=1, max_length=8)]


class Launch(Wire):
    """One kernel launch."""

    kind: Literal["launch"] = "launch"
    kernel: Annotated[str, Field(min_length=1, max_length=512)]
    """Qualified name, its last component where unique, `name<float, 4>`, or a full signature; demangled."""
    grid: Extents
    block: Extents
    cluster: Extents | None = None
    shared_bytes: Extent = 0
    """Dynamic shared memory per block, bytes."""
    cooperative: bool = False
    args: Annotated[tuple[StrictInt | StrictFloat | StrictStr, ...], Field(max_length=64)]
    """Each a tensor, temporary, scalar or size by name, a number, or an integer expression over the sizes."""


class Fill(Wire):
    """Set every element of an output or a temporary to one value."""

    kind: Literal["fill"] = "fill"
    target: Name
    value: StrictInt | StrictFloat = 0


class Copy(Wire):
    """Copy a tensor into an output or a temporary of the same size in bytes."""

    kind: Literal["copy"] = "copy"
    source: Name
    target: Name


Step = Annotated[Launch | Fill | Copy, Field(discriminator="kind")]


class LaunchPlan(Wire):
    """Typed steps, run in order on one stream."""

    temporaries: Annotated[tuple[Temporary, ...], Field(max_length=MAX_TEMPORARIES)] = ()
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=MAX_STEPS)]


class PlanError(ValueError):
    """A launch plan that cannot be used as it stands; the text quotes the place with a caret."""

    def __init__(self, reason: str, quoted: str | None = None, position: int = 0, line: int | None = None) -> None:
        self.reason = reason
        self.line = line
        where = f"line {line}: " if line is not None else ""
        super().__init__(f"{where}{reason}" + (f"\n{caret(quoted, position)}" if quoted is not None else ""))
