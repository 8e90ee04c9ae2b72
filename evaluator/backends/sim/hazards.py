"""What the shadow memory found, in words: races, and reads of what nobody wrote."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from common.contract import Fault, OtherThread
from evaluator.backends.session import Hazard, HazardKind, Notice

SHARED_SLOT: Final = 0
SHARED_BUFFER: Final = "shared memory"
"""The name of that slot."""
LOCAL_SLOT: Final = 1
SYSTEM_BUFFER: Final = "the system's shared memory"
"""Of a variable for what `%reserved_smem_offset_1` points to."""
_KINDS: Final[tuple[HazardKind, ...]] = (
    "race",
    "harmless_race",
    "unfenced",
    "undefined_read",
    "unawaited_copy",
    "race",
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
)
"""In the order of `HazardKind` in runtime/shadow.h."""
_ACTS: Final[tuple[Literal["read", "write", "atomic", "wait"], ...]] = (
    "read",
    "write",
    "write",
    "write",
    "atomic",
    "atomic",
    "wait",
)
"""In the order of `Act` in runtime/runtime.h."""
_VERBS: Final = {"read": "reads {}", "write": "writes {}", "atomic": "updates {} atomically", "wait": "waits at {}"}
_MAX_FINDINGS: Final = 16
"""As in runtime/shadow.cpp."""
_LOCAL_NAME: Final = re.compile(r"E(\d+)([A-Za-z_]\w*)$")


@dataclass(frozen=True)
class SharedVariable:
    """Where one `__shared__` variable of a kernel lies."""

    name: str
    offset: int
    size_bytes: int
    """0 for dynamic shared memory, which reaches to the end."""


def source_name(symbol: str) -> str:
    """`_ZZ9transposePKfPfiiE4tile` is called `tile` by its author (Itanium C++ ABI, section 5.1.6, local names)."""
    found = _LOCAL_NAME.search(symbol)
    if found is None:
        return symbol
    length = int(found[1])
    return found[2][:length] if length <= len(found[2]) else symbol


@dataclass(frozen=True)
class Side:
    """One of the two who met."""

    act: int
    line: int
    thread: tuple[int, int, int]
    block: tuple[int, int, int]

    @property
    def other(self) -> OtherThread:
        """As it travels."""
        line = self.line if self.line > 0 else None
        return OtherThread(thread=self.thread, block=self.block, line=line, act=_ACTS[self.act])


@dataclass(frozen=True)
class HazardRecord:
    """One record of runtime/shadow.h."""

    kind: int
    symbol: str
    here: Side
    other: Side
    slot: int
    rewrites: bool
    """Whether what is written over had been written in order before: in a later round of a loop."""
    slot_name: str
    item_bytes: int
    offset: int
    access_bytes: int
    base: int
    """Where the shared array begins from which the address was made, where it reaches another."""


def read_findings(
    number: Callable[[], int], numbers: Callable[[int], tuple[int, ...]], words: Callable[[], str]
) -> list[HazardRecord]:
    """Read them from the process's answer."""

    def side() -> Side:
        act, line, *where = numbers(8)
        return Side(act, line, (where[0], where[1], where[2]), (where[3], where[4], where[5]))

    found = []
    for _ in range(min(number(), _MAX_FINDINGS)):
        kind, symbol, here, other = number(), words(), side(), side()
        slot, rewrites, name = number(), bool(number()), words()
        item_bytes, offset, access_bytes, base = numbers(4)
        found.append(
            HazardRecord(kind, symbol, here, other, slot, rewrites, name, item_bytes, offset, access_bytes, base)
        )
    return found


def of_the_system(finding: HazardRecord, variables: tuple[SharedVariable, ...]) -> bool:
    """Whether it is about the system's shared memory: for what cooperative groups do there no submission answers."""
    return finding.slot == SHARED_SLOT and _where(finding, variables)[0] == SYSTEM_BUFFER


def hazard(
    finding: HazardRecord,
    kernel: str | None,
    variables: tuple[SharedVariable, ...],
    block: tuple[int, int, int],
) -> Hazard:
    """What was found, named. `block` are the extents that the kernel was launched with."""
    kind = _KINDS[finding.kind]
    buffer, element = _where(finding, variables)
    here, other = finding.here.other, finding.other.other
    what = buffer if finding.slot == LOCAL_SLOT else f"{buffer}[{element}]"
    line = _on(here.line)
    if kind == "array_overrun":
        neighbour = what
        buffer, element, past = _overrun(finding, variables)
        message = f"{_VERBS[here.act].format(f'{buffer}[{element}]')}{line}, {past}: {neighbour} lies there"
        remedy = (
            f"Make {buffer} as large as its largest index, or keep the index within it: nothing promises that "
            f"{neighbour.partition('[')[0]} lies behind it."
        )
    elif kind == "undefined_read":
        message, remedy = f"reads {what}{line}, which was never written", _REMEDY_UNDEFINED
    else:
        who = f"thread {_index(other.thread)} of " + (
            "the same block" if here.block == other.block else f"block {_index(other.block)}"
        )
        did = ("copies to {}" if kind == "unawaited_copy" else _VERBS[other.act]).format("it")
        missing = "; no fence orders the two" if kind == "unfenced" and other.act == "atomic" else _MISSING[kind]
        message = f"{_VERBS[here.act].format(what)}{line}, and {who} {did}{_on(other.line)}{missing}"
        remedy = _remedy(kind, here, other, block, finding.rewrites)
    fault = Fault(
        kind=kind if kind in _ALONE else "race",
        message=message,
        kernel=kernel,
        line=here.line,
        thread=here.thread,
        block=here.block,
        buffer=buffer,
        element=element,
        other=None if kind in _ALONE else other,
    )
    return Hazard(kind, fault, remedy)


_ALONE: Final = ("undefined_read", "array_overrun")
"""What takes one thread."""


def _overrun(finding: HazardRecord, variables: tuple[SharedVariable, ...]) -> tuple[str, int, str]:
    """The array from which the address was made, the element of it that it would be, and how far that is outside."""
    variable = next(v for v in variables if v.offset == finding.base)
    element = (finding.offset - variable.offset) // finding.access_bytes
    return source_name(variable.name), element, outside(element, variable.size_bytes // finding.access_bytes)


def in_array(
    message: str,
    offset: int,
    access_bytes: int,
    base: int,
    variables: tuple[SharedVariable, ...],
    dynamic_bytes: int,
) -> tuple[str, int, str]:
    """A fault at a byte of shared memory: array, element and message, by the array that was probably meant.

    That is the one at `base`, from which the address was made; where that is unknown (-1) the last one before.
    """
    made_from = [v for v in variables if v.offset == base]
    before = sorted((v for v in variables if v.offset <= offset), key=lambda v: v.offset)
    if not variables:
        return SHARED_BUFFER, offset, message
    variable = (made_from or before[-1:] or list(variables))[0]
    name, element = source_name(variable.name), (offset - variable.offset) // access_bytes
    verb, _, rest = message.partition(f" {SHARED_BUFFER}[{offset}]")
    if "behind a multiple" not in rest:
        rest = f", {outside(element, (variable.size_bytes or dynamic_bytes) // access_bytes)}"
    return name, element, f"{verb} {name}[{element}]{rest}"


def outside(element: int, count: int) -> str:
    """How far an element lies outside of an array of `count`."""
    if element < 0:
        return "before its start"
    if element < count:
        return "which reaches past the end"
    return "one past the end" if element == count else f"{element - count + 1} past the end"


_NOTICE_REMEDIES: Final[dict[HazardKind, str]] = {
    "absent_lanes": "Take the operation out of the branch, or name in its mask only the lanes that execute it: "
    "`__ballot_sync(~0u, condition)` before the branch gives them.",
    "unnamed_caller": "Each lane's mask must name the lane itself.",
    "mixed_masks": "All lanes that one mask names must execute the operation with that same mask.",
    "inactive_source": "Have every lane that is read from execute the shuffle, or use the value only where its "
    "source takes part.",
    "unnamed_source": "Name in the mask every lane that is read from.",
    "partial_matrix": "Have all 32 lanes execute it.",
    "partial_barrier": "Move `__syncthreads()` out of the condition: every thread of the block must reach it.",
    "split_barrier": "Put one `__syncthreads()` behind the condition, where both branches meet.",
    "activemask": "Make the mask with `__ballot_sync` where all lanes still run together, or use "
    "`cooperative_groups::coalesced_threads()` and its `sync()`.",
}


def read_notices(lines: list[str]) -> tuple[tuple[str, ...], tuple[Notice, ...]]:
    """Every warning as text, and those that are of a kind; a line is `kind line message`."""
    texts, notices = [], []
    for text in lines:
        number, place, message = text.split(" ", 2)
        line = int(place) if int(place) > 0 else None
        texts.append(f"line {line}: {message}" if line else message)
        if int(number) < len(_KINDS):
            kind = _KINDS[int(number)]
            notices.append(Notice(kind, line, message, _NOTICE_REMEDIES[kind]))
    return tuple(texts), tuple(notices)


def _where(finding: HazardRecord, variables: tuple[SharedVariable, ...]) -> tuple[str, int]:
    """The buffer's name and the element in it; in shared memory elements are as wide as the access."""
    if finding.slot != SHARED_SLOT:
        return finding.slot_name, finding.offset // (finding.item_bytes or 1)
    for variable in variables:
        inside = finding.offset - variable.offset
        if inside >= 0 and (inside < variable.size_bytes or not variable.size_bytes):
            return source_name(variable.name), inside // finding.access_bytes
    return finding.slot_name, finding.offset


def _index(index: tuple[int, int, int]) -> str:
    return str(index[0]) if index[1] == index[2] == 0 else str(index)


def _on(line: int | None) -> str:
    return f" on line {line}" if line else ""


def _warp(thread: tuple[int, int, int], block: tuple[int, int, int]) -> int:
    return (thread[0] + block[0] * (thread[1] + block[1] * thread[2])) // 32


_MISSING: Final = {
    "race": ", with nothing in between that orders the two",
    "harmless_race": ", with nothing in between that orders the two; the value is the same",
    "lockstep": ", with only a shuffle or a vote in between, which orders no memory",
    "unfenced": "; an atomic stands between, but no fence before it",
    "unawaited_copy": " with a cp.async that nobody has waited for",
    "stale_read": ", which it does not see: no fence between the two, or none of sufficient scope, makes it",
    "lost_update": " after the value was read from which it is made, so that is lost",
}
_REMEDY_UNDEFINED: Final = (
    "Write it first, for every index that is read: variables, shared memory, local arrays, temporaries and outputs "
    "are undefined at the start."
)

_OF_THE_GPU: Final = (
    "Use atomics whose scope is the GPU (`atomicAdd`, not `atomicAdd_block`): other blocks update it."
)


def _remedy(kind: str, here: OtherThread, other: OtherThread, block: tuple[int, int, int], rewrites: bool) -> str:
    """What to do; `other` came first."""
    if kind == "unfenced":
        if other.act == "atomic":
            if here.act == "write":
                return f"Make both atomics whose scope is the GPU: the write{_on(here.line)}, say, an `atomicExch`."
            return _OF_THE_GPU
        return f"Put `__threadfence()` between the access{_on(other.line)} and the atomic that announces it."
    if kind == "stale_read":
        if here.act == other.act == "atomic":
            return _OF_THE_GPU
        return (
            f"Put `__threadfence()` after the write{_on(other.line)}, before what announces it, and another one "
            f"where the announcement has been read, before the read{_on(here.line)}. `__threadfence_block()`, "
            "`__syncthreads()` and atomics of a block's scope order nothing for other blocks."
        )
    if kind == "lost_update":
        return "Use an atomic (`atomicAdd` …): a read and a write are two steps, `volatile` or not."
    if kind == "lockstep":
        lines = sorted({line for line in (here.line, other.line) if line})
        between = f" between line {lines[0]} and line {lines[1]}" if len(lines) == 2 else ""
        return f"Put `__syncwarp()`{between}: it orders memory, and a shuffle, a vote or a match does not."
    if kind == "unawaited_copy":
        return (
            f"Wait for the copy{_on(other.line)} before its target is touched: `cp.async.wait_group` "
            "(`__pipeline_wait_prior`), and a barrier where other threads read it. If it is waited for, it "
            f"is the next turn's copy that comes too soon: put `__syncthreads()` after the last use{_on(here.line)}, "
            "before the next copy begins."
        )
    if here.line is not None and here.line == other.line:
        if here.block == other.block and here.act != other.act and "atomic" not in (here.act, other.act):
            return (
                f"Several threads meet at one element{_on(here.line)}. Where they take turns in a loop, as in a "
                "reduction by halves, put `__syncthreads()` at the end of each turn, outside of conditions; where "
                "all change the same element, use an atomic (`atomicAdd` …) or give each thread elements of its own."
            )
        return (
            f"Several threads meet at one element{_on(here.line)}: give each thread elements of its own, use an "
            "atomic (`atomicAdd` …), or let one thread alone do it."
        )
    if here.block != other.block:
        return (
            "Nothing orders the blocks of a launch. Give each block elements of its own, use an atomic "
            "(`atomicAdd` …), or leave this part to a second launch."
        )
    same_warp = _warp(here.thread, block) == _warp(other.thread, block)
    # One of the lines may stand inside a condition, where such a barrier would be undefined.
    block_barrier = "`__syncthreads()` (all threads of the block must reach it)"
    barrier = "`__syncwarp()` (or `__syncthreads()`)" if same_warp else block_barrier
    if here.line is None or other.line is None:
        return f"Put {barrier} between the two."
    if rewrites and here.line < other.line:
        return f"Put {barrier} after line {other.line}, before line {here.line} comes round again."
    first, second = sorted((here.line, other.line))
    return (
        f"Put {barrier} between line {first} and line {second}. If one stands there, in a loop, put one after line "
        f"{second} too, before line {first} comes round again."
    )
