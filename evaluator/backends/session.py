"""What every backend offers: a session, which runs a sized plan on given contents and hands back what memory holds.

A session decides nothing. It reports outputs and faults as facts; the referee (`pipeline/referee.py`) judges.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from types import TracebackType
from typing import ClassVar, Final, Literal, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from common.contract import Fault
from common.contract.counters import LaunchCounts
from common.wire import BYTES_AS_BASE64, DType
from evaluator.problems.arrays import Array
from evaluator.problems.problem import Expected, Tolerance


@dataclass(frozen=True)
class Parameter:
    """One parameter of a compiled kernel."""

    name: str
    type: str
    """As the source declares it, for example `const float*` or `long long`."""
    kind: Literal["pointer", "int", "uint", "float", "struct"]
    size_bytes: int
    offset: int
    """Byte offset in the parameter block."""
    pointee: str | None = None
    """For a pointer, the C type behind it, without const: `float`, `__half`, `float4`; `void` when unknown."""
    padding: tuple[tuple[int, int], ...] = ()
    """Stretches of bytes of a struct, by their start and end, that belong to none of its members. Host code leaves
    there what the memory held before.
    """

    @property
    def may_write(self) -> bool:
        """Of a pointer: whether its type lets its kernel write there."""
        return "const" not in self.type.split("*")[0].split()


@dataclass(frozen=True)
class Entry:
    """One `__global__` function of a compiled program."""

    symbol: str
    """Mangled name, as in the PTX."""
    name: str
    """Demangled, with namespace, template arguments and parameter types: `ns::scale<float, 4>(float const*, …)`."""
    parameters: tuple[Parameter, ...]
    line: int | None = None


@dataclass(frozen=True)
class Program:
    """What compiling gave: the one PTX text that every backend judges."""

    ptx: str
    entries: tuple[Entry, ...]
    arch: str
    cubin: bytes = b""
    __pydantic_config__: ClassVar = BYTES_AS_BASE64


@dataclass(frozen=True)
class Buffer:
    """One piece of device memory of a run."""

    name: str
    role: Literal["input", "output", "temporary"]
    size_bytes: int
    item_bytes: int
    content: Array | None
    """What it holds at the start; None is poison (outputs and temporaries)."""
    repeats: bool = False
    """`content` is a piece of whole pages (4 KiB) that repeats up to the end, None is zeros; it costs next to nothing
    however large the buffer is. Where the backend can: a write shows in all repetitions."""
    stretches: NDArray[np.int64] | None = None
    """What follows a repeated piece, [many, 2]: stretches of it, each by its first page and its pages. None is the
    piece again and again."""
    sampled: bool = False
    """An output or a repeated input that is not handed back: `RunOutcome.samples` says what is known of all its
    elements, and `PieceSession.elements` takes some. Where the backend can."""


@dataclass(frozen=True)
class Pointer:
    """An argument that is the address of a buffer, or of a byte in it."""

    buffer: str
    offset_bytes: int = 0


@dataclass(frozen=True)
class Packed:
    """An argument as its bytes, which may hold addresses of buffers: a struct with pointers in it."""

    data: bytes
    """All of the parameter, zeros where the addresses go."""
    addresses: tuple[tuple[int, Pointer], ...]
    """Each with its place among the bytes; eight bytes."""
    __pydantic_config__: ClassVar = BYTES_AS_BASE64


@dataclass(frozen=True)
class KernelLaunch:
    """A launch with every number known. `arguments` are in parameter order: pointers, or the value's bytes."""

    symbol: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    cooperative: bool
    arguments: tuple[Pointer | bytes | Packed, ...]
    cluster: tuple[int, int, int] | None = None
    """Blocks of a cluster, where the launch asks for clusters."""


@dataclass(frozen=True)
class BufferFill:
    """Repeat `pattern` over a stretch of the buffer, whose size is a multiple of the pattern's."""

    buffer: str
    pattern: bytes
    offset_bytes: int = 0
    size_bytes: int | None = None
    """None goes to the end of the buffer."""
    variable: bool = False
    """Whether `buffer` names a variable of the program; then the size is given."""


@dataclass(frozen=True)
class BufferCopy:
    """Copy `size_bytes` of `source` into `target`; None is all of `source`."""

    source: str
    target: str
    source_offset_bytes: int = 0
    target_offset_bytes: int = 0
    size_bytes: int | None = None
    variable: bool = False
    """Whether `target` names a variable of the program; then the size is given."""


@dataclass(frozen=True)
class CallTensor:
    """A tensor that host code is called on, or gives back."""

    name: str
    role: Literal["input", "output"]
    dtype: DType
    shape: tuple[int, ...]
    is_bool: bool = False
    """Whether it is a tensor of PyTorch's type `bool`, whose bytes are those of `dtype`."""

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return prod(self.shape) * self.dtype.size_bytes

    @property
    def type_name(self) -> str:
        """PyTorch's name of its type."""
        return "bool" if self.is_bool else str(self.dtype)


@dataclass(frozen=True)
class SubmissionCall:
    """One call of a submission's own host code, in the place of a plan's steps."""

    sizes: Mapping[str, int]
    scalars: Mapping[str, float]
    tensors: tuple[CallTensor, ...]
    initial: tuple[tuple[str, str], ...] = ()
    """Inputs whose contents an output has before the call, and that output; no name is zeros."""
    reference: str = ""
    """The file that states the problem as these sizes have it, where it says how a model is made."""
    changed: tuple[str, ...] = ()
    """Inputs of which the submission gets a copy in each call, since the problem's own file changes them in place."""

    def buffers(self) -> tuple[Buffer, ...]:
        """Its tensors as pieces of memory, without their contents."""
        return tuple(Buffer(t.name, t.role, t.size_bytes, t.dtype.size_bytes, None) for t in self.tensors)


@dataclass(frozen=True)
class Watch:
    """Which blocks of a run are watched for races and reads of undefined memory."""

    share: float = 1.0
    """Of all pairs of neighbouring blocks, drawn by `seed`; above 0 the first is one of them. Reads of undefined
    tensors are seen at 1 only."""
    seed: int = 0


TYPICAL_REGISTERS: Final = 2
"""A draw of `PlanRun.registers` for runs whose answer does not matter: an H100's 132 multiprocessors."""
HazardKind = Literal[
    "race",
    "harmless_race",
    "unfenced",
    "undefined_read",
    "unawaited_copy",
    "lockstep",
    "array_overrun",
    "stale_read",
    "lost_update",
    "absent_lanes",
    "unnamed_caller",
    "mixed_masks",
    "inactive_source",
    "unnamed_source",
    "partial_matrix",
    "partial_barrier",
    "split_barrier",
    "activemask",
]
"""What no kernel may rely on; `stages/verify/findings/severity.py` says what each means for a verdict."""


@dataclass(frozen=True)
class Hazard:
    """What a watched block did that no block may rely on."""

    kind: HazardKind
    """`harmless_race`: all wrote what was there already. `unfenced`: ordered by an atomic, but without a fence.
    `unawaited_copy`: `cp.async` was under way. `lockstep`: in one warp, with only a shuffle in between."""
    fault: Fault
    """Who, where and, for a race, with whom."""
    remedy: str


@dataclass(frozen=True)
class Notice:
    """What the lanes of a warp did that no kernel may rely on; seen in every run, watched or not."""

    kind: HazardKind
    line: int | None
    message: str
    remedy: str


@dataclass(frozen=True)
class PlanRun:
    """One run of a plan at one size on one set of contents."""

    buffers: tuple[Buffer, ...]
    steps: tuple[KernelLaunch | BufferFill | BufferCopy, ...]
    poison: int
    """Byte that undefined memory is made of: outputs, temporaries, shared and local memory, registers."""
    time_limit_s: float
    backwards: bool = False
    """Run blocks and warps last first, where the backend can choose; a right kernel is right either way."""
    look: bool = True
    """Hand back what memory holds, and look for writes outside of it; else a later run that looks finds those."""
    count: bool = False
    """Count what each launch and each source line does, where the backend can."""
    sample_blocks: int = 0
    """Run at most so many blocks of each launch, chosen at random, where the backend can; 0 runs all. What memory
    holds afterwards is then only a part of the answer, and counts are scaled up."""
    sample_seed: int = 0
    """Which blocks those are: below 2^63."""
    watch: Watch | None = None
    """Look for races and undefined reads, where the backend can; it costs much time."""
    jitter: int = 0
    """Where within their documented error the results of approximate instructions lie, on a backend that computes
    them itself: below 2^64; 0 computes them accurately."""
    registers: int = 0
    """Draws special registers that PTX leaves to the machine (`%smid`, clocks, …), on a backend that makes them up:
    below 2^64; 0 is the plainest machine."""
    schedule: int = 0
    """Draws in which order warps and blocks go on, where the backend can choose: below 2^64; the same draw gives the
    same order again. 0: blocks one after another, as far as they do not wait for each other."""
    weak_memory: int = 0
    """Draws what each block sees of global memory, within what the PTX ISA allows, where the backend can: stores that
    stay with their multiprocessor, lines that are read again from there. Below 2^64; 0 is one memory for all."""
    poison_elsewhere: int | None = None
    """The byte that all else undefined is made of, where the backend can: temporaries, shared and local memory, heap,
    registers; None: `poison` too."""
    keeps: bool = False
    """Undefined memory holds what the run before this one left there (shared and local memory: the block before),
    where the backend can."""
    wanted: "Callable[[], Wanted] | None" = None
    """What the outputs should be, where the session may look at that by itself (`Session.looks`). It is called once,
    while the program runs, or after it where the run is `quiet`."""
    same_as: Mapping[str, Array] | None = None
    """Outputs of an earlier run to be compared with, bit for bit, where the session looks at that."""
    same_as_before: bool = False
    """In the place of `same_as`, of runs that are launched together: the outputs of the one right before it."""
    following: "Callable[[], tuple[PlanRun, ...]] | None" = None
    """The run that comes next if all is well, or the runs that are launched together then, for a session that looks
    by itself: where memory is as it should be, it writes what they begin with by the same wait. It is called once,
    after `wanted`; any run may come instead."""
    quiet: bool = False
    """Nothing else goes on on the device while the program runs: its time counts."""
    host_call: SubmissionCall | None = None
    """In the host tier, in the place of `steps`."""
    instruction_limit: int = 0
    """Thread-instructions after which the run ends, where the backend counts them; 0 for no such end. A warp's
    instruction counts for eight of them at least, however few lanes execute it: so much time it takes."""


@dataclass(frozen=True)
class Wanted:
    """What the outputs of a run should be, computed from its inputs alone."""

    expected: Mapping[str, Expected]
    tolerance: Tolerance
    shaped: Mapping[str, tuple[DType, tuple[int, ...]]]
    """Each output's element type and shape."""


@dataclass(frozen=True)
class Looked:
    """What a session saw of memory by itself after a run, all at once."""

    inputs_kept: bool
    """Whether every bit of every input is as it was given."""
    poisoned: bool
    """Whether an element of an output consists of the byte `PlanRun.poison` alone."""
    worst: Mapping[str, float] | None
    """Of each output the largest error over the allowed one, NaN where an element's is none; None where that is for
    others to compute."""
    same: bool | None
    """Whether all outputs are those of `PlanRun.same_as`, bit for bit; None where there are none."""


@dataclass(frozen=True)
class BufferSample:
    """What is known of a buffer that stayed where it was."""

    changed: int | None = None
    """Of an input: the first element of its piece that is another one now."""
    unwritten: NDArray[np.bool_] | None = None
    """Of an output: which elements hold nothing but poison; None where there is none."""


@dataclass(frozen=True)
class RunOutcome:
    """What a run left behind."""

    contents: Mapping[str, Array]
    """Memory of every input and output after the run, uint8[size_bytes], in the namespace of the arrays that the run
    was given; empty when the run faulted. Inputs may be where the next run's will be, outputs are the caller's."""
    fault: Fault | None = None
    warnings: tuple[str, ...] = ()
    printed: str = ""
    thread_instructions: int = 0
    own_s: float | None = None
    """Of the time that the run took, what the submission's program is to be charged; None: all of it."""
    times_us: tuple[float, float, float] | None = None
    """By events on the device, by the launching host, by the referee; None where the backend has no clocks."""
    hazards: tuple[Hazard, ...] = ()
    """What watching found, in the order in which it was seen; at most one for each pair of lines."""
    notices: tuple[Notice, ...] = ()
    """Those of the warnings that are of a kind; at most one of each kind for each line."""
    first_unwritten: Mapping[str, int | None] = field(default_factory=dict)
    """Of inputs and outputs, the first element without a defined value (None: there is none), if all is watched."""
    watched_blocks: tuple[int, int] = (0, 0)
    """How many blocks were watched, and how many ran."""
    facts: Mapping[str, int] = field(default_factory=dict)
    """Counts that the backend took, for example `shuffles`."""
    counts: tuple[LaunchCounts, ...] = ()
    """Of each launch, where the run asked for them and the backend can count."""
    samples: Mapping[str, BufferSample] = field(default_factory=dict)
    """Of each buffer that was `sampled`; empty when the run faulted."""
    looked: Looked | None = None
    """None where the session does not look by itself: then `contents` say it all."""


@dataclass(frozen=True)
class OutcomesTogether:
    """What runs left behind that were launched one after another, with nobody looking in between."""

    outcomes: tuple[RunOutcome, ...]
    """Of each run, in order, up to the first that did not end well: the last one has its fault then, and no run of
    the session can follow."""
    outside: tuple[int, Fault] | None = None
    """What was written outside of all buffers or into an output before its own run, behind the number of the first
    run that may have done so."""


class UnsupportedError(Exception):
    """The backend cannot run the program: names the instruction or feature, and where."""

    def __init__(self, feature: str, line: int | None = None, remedy: str | None = None) -> None:
        """`remedy`: what to do, where that is not to write the program without the feature."""
        super().__init__(feature)
        self.feature = feature
        self.line = line
        self.remedy = remedy


class Session(Protocol):
    """One program, loaded and isolated, for all runs of one evaluation. Module state lives as long as it does."""

    @property
    def reorders(self) -> bool:
        """Whether `PlanRun.backwards` has an effect here."""

    @property
    def free_registers(self) -> Mapping[str, int | None]:
        """Special registers that the program reads and `PlanRun.registers` draws, with a line of each.

        Empty where the backend draws none.
        """

    @property
    def unset_lines(self) -> tuple[int, ...]:
        """Source lines where the program reads a register that nothing may have set; empty where nobody looked."""

    @property
    def schedules(self) -> bool:
        """Whether `PlanRun.schedule` may have an effect on the program's answers."""

    @property
    def shares_memory(self) -> bool:
        """Whether the program's blocks may share memory on purpose, and `PlanRun.weak_memory` has an effect here."""

    @property
    def looks(self) -> bool:
        """Whether it looks by itself at what `PlanRun.wanted` and `PlanRun.same_as` ask for."""

    @property
    def counts_instructions(self) -> bool:
        """Whether `PlanRun.instruction_limit` has an effect here; else only its time ends a run that has no end."""

    def run(self, run: PlanRun) -> RunOutcome:
        """Run a plan. Raises InfrastructureError for our own failures only."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class RunsTogether(Protocol):
    """A session that can launch several runs one after another, and looks at all of them at once."""

    def most_together(self, runs: Sequence[PlanRun]) -> int:
        """How many of `runs`, from the first, can be launched together; their contents do not matter."""

    def run_together(
        self,
        runs: tuple[PlanRun, ...],
        limit_s: float,
        wanted: Callable[[], Sequence[Wanted | None]],
        following: Callable[[], tuple[PlanRun, ...]],
    ) -> OutcomesTogether:
        """Write what all begin with, launch one after another, and look at all of them.

        `limit_s`: for all; each has its own limit too. `wanted`: what the outputs of each should be, None where that
        is not asked; it is called once, while they run, and then `following`, as `PlanRun.following` is. Runs that
        are launched together have no temporaries. Raises InfrastructureError.
        """


class PieceSession(Session, Protocol):
    """A session that takes inputs as repeated pieces, and keeps what is too large to be handed back."""

    def elements(self, buffer: str, chosen: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The bytes of these elements of a buffer of the last run, which did not fault: uint8[chosen, item_bytes].

        Raises InfrastructureError.
        """

    def renew(self) -> None:
        """Begin again, with a process that has run nothing: after a fault, or what leaves a state behind."""
