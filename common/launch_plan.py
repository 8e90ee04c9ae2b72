"""Launch plans: which kernels to launch, how, and with what. As JSON here; `launch_directives` has their other form.

Most plans name tensors and hold expressions over the problem's sizes. One that was recorded (of one set of sizes) may
also hold arguments as bytes with addresses in them, and move stretches of buffers.
"""

import math
import re
from collections.abc import Iterator
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StrictFloat, StrictInt, StrictStr, model_validator

from common.expressions import ExpressionError, caret, names_in
from common.wire import DType, MaxLength, Request

MAX_STEPS = 256
MAX_TEMPORARIES = 256
MAX_RECORDED_STEPS: Final = 4096
"""Of a plan that nobody had to write: a loop of host code over heads, or over digits, has soon more than 256."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
Extent = StrictInt | Annotated[StrictStr, Field(max_length=256)]
"""An integer, or an integer expression over the problem's sizes."""
Extents = Annotated[tuple[Extent, ...], MaxLength(3, minimum=1)]
MAX_ARGUMENT_BYTES: Final = 32764
"""What all parameters of a kernel may take together, since CUDA 12.1 on every GPU from sm_70 on."""
MAX_DATA_BYTES: Final = 1 << 16
"""What all fills of a plan may bring together: a table of factors, and no input."""
Data = Annotated[str, Field(max_length=2 * MAX_DATA_BYTES, pattern=r"^(?:[0-9a-f]{2})+$")]
"""Bytes in hexadecimal."""


class Temporary(Request):
    """A scratch tensor. Contents are undefined at the start of each run of the plan, kept between its launches."""

    name: Name
    dtype: DType
    shape: Annotated[tuple[Extent, ...], MaxLength(8, minimum=1)]


class AddressInArgument(Request):
    """An address among the bytes of an argument."""

    at: Annotated[StrictInt, Field(ge=0, lt=MAX_ARGUMENT_BYTES)]
    """Which byte of the argument is its first; the eight there are 0."""
    buffer: Name
    offset_bytes: Annotated[StrictInt, Field(ge=0, lt=1 << 40)] = 0
    """How far behind the start of the buffer it points."""


class RawArgument(Request):
    """An argument of any type as its bytes: a struct, or a pointer into the middle of a buffer."""

    data: Annotated[str, Field(max_length=2 * MAX_ARGUMENT_BYTES, pattern=r"^(?:[0-9a-f]{2})+$")]
    """All bytes of the parameter, in hexadecimal."""
    addresses: Annotated[tuple[AddressInArgument, ...], MaxLength(64)] = ()


class Launch(Request):
    """One kernel launch."""

    kind: Literal["launch"] = "launch"
    kernel: Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\x00-\x1f\x7f]+$")]
    """Qualified name, its last component where unique, `name<float, 4>`, or a full signature; demangled."""
    grid: Extents
    block: Extents
    cluster: Extents | None = None
    shared_bytes: Extent = 0
    """Dynamic shared memory per block, bytes."""
    cooperative: bool = False
    args: Annotated[tuple[StrictInt | StrictFloat | StrictStr | RawArgument, ...], MaxLength(64)]
    """Each a tensor, temporary, scalar or size by name, a number, an integer expression over the sizes, or bytes."""


Bytes = Annotated[StrictInt, Field(ge=0, lt=1 << 40)]


class Fill(Request):
    """Set every element of an output or a temporary to one value, or a stretch of its bytes to a pattern."""

    kind: Literal["fill"] = "fill"
    target: Name
    value: StrictInt | StrictFloat = 0
    data: Data | None = None
    """In place of `value`: bytes that are repeated over the stretch, whose size is a multiple of theirs."""
    offset_bytes: Bytes = 0
    """Where the stretch begins."""
    size_bytes: Annotated[StrictInt, Field(ge=1, lt=1 << 40)] | None = None
    """Of the stretch; null goes to the end of the target."""
    variable: bool = False
    """Whether the target is a `__device__` or `__constant__` variable of the program, by its name in the PTX."""


class Copy(Request):
    """Copy a tensor into an output or a temporary of the same size in bytes, or a stretch of one into another."""

    kind: Literal["copy"] = "copy"
    source: Name
    target: Name
    source_offset_bytes: Bytes = 0
    target_offset_bytes: Bytes = 0
    size_bytes: Annotated[StrictInt, Field(ge=1, lt=1 << 40)] | None = None
    """Of the stretch; null is all of both."""
    variable: bool = False
    """Whether the target is a `__device__` or `__constant__` variable of the program, by its name in the PTX."""


Step = Annotated[Launch | Fill | Copy, Field(discriminator="kind")]


class PlanError(ValueError):
    """A launch plan that cannot be used as it stands; the text quotes the place with a caret."""

    def __init__(self, reason: str, quoted: str | None = None, position: int = 0, line: int | None = None) -> None:
        self.reason = reason
        self.line = line
        where = f"line {line}: " if line is not None else ""
        super().__init__(f"{where}{reason}" + (f"\n{caret(quoted, position)}" if quoted is not None else ""))


class LaunchPlan(Request):
    """Typed steps, run in order on one stream."""

    temporaries: Annotated[tuple[Temporary, ...], MaxLength(MAX_TEMPORARIES, goes_on=True)] = ()
    steps: Annotated[tuple[Step, ...], MaxLength(MAX_STEPS, minimum=1, goes_on=True)]

    @model_validator(mode="after")
    def _readable(self) -> Self:
        """Every expression parses, every number is finite, and no two temporaries share a name."""
        names = [temporary.name for temporary in self.temporaries]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise PlanError(f"temporaries[{index}]: there is already a temporary named '{name}'")
        _check_stretches(self)
        for place, value in _values(self):
            if isinstance(value, float):
                if not math.isfinite(value):
                    raise PlanError(f"{place}: {NOT_FINITE}")
                continue
            try:
                names_in(value)
            except ExpressionError as error:
                hint = " (write a number without quotes)" if NUMBER.fullmatch(str(value)) else ""
                raise PlanError(f"{place}: {error.reason}{hint}", error.text, error.position) from None
        return self


class OtherOrder(Request):
    """Another order in which a GPU may run the steps of a plan whose host code gave them to several streams."""

    steps: tuple[StrictInt, ...]
    """By their indices; those that may run too late to count are not among them."""
    said: str
    """Why it may, in words."""


class RecordedLaunchPlan(LaunchPlan):
    """A plan that was recorded at one set of sizes."""

    steps: Annotated[tuple[Step, ...], MaxLength(MAX_RECORDED_STEPS, minimum=1)]
    orders: Annotated[tuple[OtherOrder, ...], Field(exclude=True)] = ()
    """Beside that of the steps; not of the plan as it can be submitted, which has one order."""
    prepared: Annotated[StrictInt, Field(ge=0, exclude=True)] = 0
    """How many of the steps stand for what earlier calls of a process did, where the call behind them changes what
    they prepared: a later call meets it as the one before left it. 0 where there is nothing of that kind."""
    call: Annotated[str, Field(exclude=True)] = ""
    """Which call of a process it is of, in words, where it does not do the same at each."""
    others: Annotated[tuple["RecordedLaunchPlan", ...], Field(exclude=True)] = ()
    """Those of other calls of the same process, one of each kind; they have none."""


def _values(plan: LaunchPlan) -> Iterator[tuple[str, int | float | str]]:
    """Each number and expression of a plan, with its place as a JSON path."""
    for index, temporary in enumerate(plan.temporaries):
        yield from ((f"temporaries[{index}].shape[{axis}]", extent) for axis, extent in enumerate(temporary.shape))
    for index, step in enumerate(plan.steps):
        place = f"steps[{index}]"
        if isinstance(step, Fill) and isinstance(step.value, float):
            yield f"{place}.value", step.value
        if isinstance(step, Launch):
            lists: dict[str, tuple[int | float | str | RawArgument, ...]]
            lists = {"grid": step.grid, "block": step.block, "cluster": step.cluster or (), "args": step.args}
            for key, items in lists.items():
                for axis, item in enumerate(items):
                    if not isinstance(item, RawArgument):
                        yield f"{place}.{key}[{axis}]", item
            yield f"{place}.shared_bytes", step.shared_bytes


def _check_stretches(plan: LaunchPlan) -> None:
    """Raise PlanError for bytes that have no place, and a stretch that the pattern does not fit."""
    brought = 0
    for index, step in enumerate(plan.steps):
        place = f"steps[{index}]"
        if isinstance(step, Launch):
            for number, argument in enumerate(step.args):
                if isinstance(argument, RawArgument):
                    _check_addresses(f"{place}.args[{number}]", argument)
            continue
        if isinstance(step, Copy):
            if step.size_bytes is None and (step.source_offset_bytes or step.target_offset_bytes):
                raise PlanError(f"{place}: a copy of a stretch needs size_bytes")
            continue
        if step.data is None:
            if step.offset_bytes or step.size_bytes is not None or step.variable:
                raise PlanError(f"{place}: a fill of a stretch, or of a variable, needs data, not a value")
            continue
        many = len(step.data) // 2
        brought += many
        if step.size_bytes is not None and step.size_bytes % many:
            raise PlanError(f"{place}: {step.size_bytes} bytes cannot be filled with a pattern of {many}")
        if step.size_bytes != many and (many not in (1, 2, 4, 8) or step.offset_bytes % many):
            raise PlanError(
                f"{place}: a pattern that is repeated has 1, 2, 4 or 8 bytes, and begins at a multiple of them"
            )
    if brought > MAX_DATA_BYTES:
        raise PlanError(f"the data of all fills has {brought} bytes, and {MAX_DATA_BYTES} are allowed")


def _check_addresses(place: str, argument: RawArgument) -> None:
    taken = 0
    for address in argument.addresses:
        if address.at < taken or address.at % 8:
            raise PlanError(f"{place}: addresses stand in order at multiples of 8, each in bytes of its own")
        taken = address.at + 8
        held = argument.data[2 * address.at : 2 * taken]
        if held != "0" * 16:
            raise PlanError(f"{place}: the 8 bytes from byte {address.at} on must be 0, and are '{held}'")


NUMBER: Final = re.compile(r"-?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][+-]?[0-9]+)?")
"""A floating-point number as a directive has it."""
NOT_FINITE: Final = (
    "a number must be finite: take the least or largest float32, -3.4028234e38 or 3.4028234e38, or set an infinity "
    "or a NaN in a kernel"
)
