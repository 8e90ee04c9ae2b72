"""Which steps of several streams a GPU must run one after another, and in which other orders it may run the rest.

As CUDA has it (CUDA C++ Programming Guide, "Asynchronous Concurrent Execution"; CUDA Runtime API, "Stream
synchronization behavior"): the steps of a stream come in the order in which they are issued; a stream waits for what
an event stood for when it was told to wait; what the host waits for is over before all that it issues afterwards;
every blocking stream waits for the default stream, and the default stream for it, and neither for those that are
non-blocking. The default stream is the caller's, and what the caller did before the call is over.

Memory of a pool is taken and given back in the order of streams ("Stream Ordered Memory Allocator"): it may be used
behind the cudaMallocAsync that takes it, and before the cudaFreeAsync that gives it back. What was given back may be
taken again at once; where another stream takes it, the pool lets that one wait. `cudaFree` waits for nothing where
the memory is of a pool, which has it back at once; with other memory it waits for all. Where nothing was given back
before memory is taken, that memory is nobody else's, also for a step that may run before it is taken.

Sets of steps are bits of an integer, by the number of the step.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeAlias

from common.launch_plan import Copy, Fill, OtherOrder, RawArgument, Step
from evaluator.backends.session import Parameter
from evaluator.stages.lift.recording import RecordedAllocation, RecordedFree, RecordedOrder

DEFAULT_STREAM: Final = 0
MAX_OTHER_ORDERS: Final = 4
"""That a plan is judged in: two streams need one or two, and each takes a run of every trial."""

_MAX_PAIRS: Final = 64
"""Of steps that are in another order, among which one is chosen to be named: two long streams have millions."""


_VARIABLES: Final = "a variable"
"""Those of the program: any kernel may read any of them. No buffer's name has a space."""


class StreamOrder:
    """The steps of one call, given in the order in which the host issues them, and what orders them."""

    def __init__(self, non_blocking: Sequence[int]) -> None:
        self._non_blocking = frozenset(non_blocking)
        self._streams: dict[int, int] = {}
        """What is over once a stream has come to where it is now."""
        self._blocking = 0
        """What all blocking streams together are at now."""
        self._events: dict[int, int] = {}
        self._host = 0
        """What the host has waited for."""
        self.before: list[int] = []
        """Of each step, all that are over when it begins."""
        self.streams: list[int] = []
        """Of each step."""

    def add_step(self, stream: int) -> None:
        """A launch, a fill or a copy."""
        before = self._reached(stream)
        self.before.append(before)
        self._move(stream, before | 1 << len(self.streams))
        self.streams.append(stream)

    def add(self, order: RecordedOrder) -> None:
        """What orders steps, or lets the host wait. An event that was never recorded orders nothing."""
        if order.order == "record":
            self._events[order.event] = reached = self._reached(order.stream)
            if order.stream == DEFAULT_STREAM:  # as any command to it, it lets the blocking streams wait
                self._move(DEFAULT_STREAM, reached)
        elif order.order == "wait":
            self._move(order.stream, self._reached(order.stream) | self._events.get(order.event, 0))
        elif order.order == "event":
            self._host |= self._events.get(order.event, 0)
        elif order.order == "stream":
            self._host |= self._reached(order.stream)
        else:
            self._host = (1 << len(self.streams)) - 1

    @property
    def awaited(self) -> int:
        """What is over before anything that the caller does on its stream after the call."""
        return self._reached(DEFAULT_STREAM)

    def _reached(self, stream: int) -> int:
        reached = self._host | self._streams.get(stream, 0)
        if stream == DEFAULT_STREAM:
            return reached | self._blocking
        return reached if stream in self._non_blocking else reached | self._streams.get(DEFAULT_STREAM, 0)

    def _move(self, stream: int, reached: int) -> None:
        self._streams[stream] = reached
        if stream not in self._non_blocking:
            self._blocking |= reached


@dataclass(frozen=True)
class Touched:
    """A step, by what it does to memory."""

    said: str
    """In words: `a launch of k`."""
    buffers: Mapping[str, bool]
    """Each that it may read or write, and whether its type says that it may write there."""


def touched(step: Step, parameters: Sequence[Parameter], inputs: frozenset[str]) -> Touched:
    """Of a step; `parameters` of a launch's kernel. Inputs do not count: nobody writes them."""
    if isinstance(step, Fill):
        return Touched(f"a fill of {step.target}", {_VARIABLES if step.variable else step.target: True})
    if isinstance(step, Copy):
        used = {step.source: False, _VARIABLES if step.variable else step.target: True}
        return Touched(
            f"a copy to {step.target}", {name: writes for name, writes in used.items() if name not in inputs}
        )
    found: dict[str, bool] = {_VARIABLES: False}
    for argument, parameter in zip(step.args, parameters, strict=True):
        writes = parameter.kind != "pointer" or parameter.may_write
        names = [argument] if isinstance(argument, str) else []
        if isinstance(argument, RawArgument):
            names = [address.buffer for address in argument.addresses]
        found |= {name: writes or found.get(name, False) for name in names if name not in inputs}
    return Touched(f"a launch of {step.kernel}", found)


def orders_left_open(
    order: StreamOrder, steps: Sequence[Touched], outputs: Mapping[str, str]
) -> tuple[OtherOrder, ...]:
    """Orders in which steps that touch the same memory, and which nothing orders, come the other way round.

    Steps that may still run when the call returns, and touch an output, are left out of one of them. `outputs`: by
    the buffers that hold them.
    """
    left = (1 << len(steps)) - 1
    found = []
    late = _closed(
        order, [number for number in _bits(left & ~order.awaited) if outputs.keys() & steps[number].buffers.keys()]
    )
    if late:
        kept = tuple(number for number in range(len(steps)) if not late >> number & 1)
        first = next(_bits(late))
        said = f"{_named(order, steps, first)} may still be under way when the host code returns: nobody waits for it"
        if kept:
            found.append(OtherOrder(steps=kept, said=said))
    touching: dict[str, int] = {}
    written = 0
    open_pairs: dict[int, int] = {}
    for number, step in enumerate(steps):
        others = 0
        for name, writes in step.buffers.items():
            # What a kernel does to a tensor by way of `const` is not certain; two that read variables are no matter.
            others |= touching.get(name, 0) if writes or name != _VARIABLES else written
            written |= (writes and name == _VARIABLES) << number
            touching[name] = touching.get(name, 0) | 1 << number
        if others := others & ~order.before[number]:
            open_pairs[number] = others
    every = dict(open_pairs)
    for _ in range(MAX_OTHER_ORDERS):
        if not open_pairs:
            break
        turned = _extension(order, max(open_pairs))
        placed = 0
        reversed_pairs: list[tuple[int, int]] = []
        for number in turned:
            if others := open_pairs.get(number, 0):
                room = _MAX_PAIRS - len(reversed_pairs)
                reversed_pairs += [(earlier, number) for earlier in islice(_bits(others & ~placed), room)]
                open_pairs[number] = others & placed
            placed |= 1 << number
        open_pairs = {number: others for number, others in open_pairs.items() if others}
        found.append(OtherOrder(steps=turned, said=_said(order, steps, reversed_pairs)))
    side_by_side = _side_by_side(order)
    turned_pairs: list[tuple[int, int]] = []
    placed = 0
    for number in side_by_side:
        room = _MAX_PAIRS - len(turned_pairs)
        turned_pairs += [(earlier, number) for earlier in islice(_bits(every.get(number, 0) & ~placed), room)]
        placed |= 1 << number
    if turned_pairs and len(found) < MAX_OTHER_ORDERS and all(one.steps != side_by_side for one in found):
        found.append(OtherOrder(steps=side_by_side, said=_said(order, steps, turned_pairs)))
    return tuple(found)


def unawaited(order: StreamOrder, steps: Sequence[Touched], outputs: Mapping[str, str]) -> tuple[str, str] | None:
    """A step that writes an output and may do so after the call, in words, and that output."""
    for number in _bits((1 << len(steps)) - 1 & ~order.awaited):
        for name, writes in steps[number].buffers.items():
            if writes and name in outputs:
                return _named(order, steps, number), outputs[name]
    return None


@dataclass(frozen=True)
class IssuedStep:
    """A launch, a fill or a copy."""

    step: Touched
    stream: int


Issued: TypeAlias = IssuedStep | RecordedOrder | RecordedAllocation | RecordedFree
"""What the host issues, one after another."""


@dataclass(frozen=True)
class _Taken:
    """An allocation, by its place in the order, and the steps on what was given back before."""

    bit: int
    given_back: int
    at_once: int
    """Those of them on what `cudaFree` gave back, for which no pool lets anybody wait."""


def misuse(issued: Sequence[Issued], names: Sequence[str | None], non_blocking: Sequence[int]) -> str | None:
    """Memory of streams that a step of another may use when it is not its own, in words.

    `names`: of the buffers, by their number; those that no step uses have none.
    """
    if not any(isinstance(one, RecordedAllocation | RecordedFree) for one in issued):
        return None
    order = StreamOrder(non_blocking)
    said: list[str] = []
    users: dict[str, int] = defaultdict(int)
    taken: dict[str, _Taken] = {}
    given_back = at_once = steps = 0
    for one in issued:
        number = len(said)
        if isinstance(one, RecordedOrder):
            order.add(one)
        elif isinstance(one, IssuedStep):
            order.add_step(one.stream)
            said.append(_step_in_words(steps, one.step, one.stream))
            steps += 1
            for name in one.step.buffers:
                users[name] |= 1 << number
                if name not in taken:
                    continue
                before, memory = order.before[number], taken[name]
                others = memory.at_once if before & memory.bit else memory.given_back
                if late := others & ~before:
                    return (
                        f"{said[number]} may use '{name}' while {_first(said, late)} still uses memory that was "
                        "given back before, which it may be: no event and no wait orders them"
                    )
        else:
            buffer = one.allocate if isinstance(one, RecordedAllocation) else one.free
            used = names[buffer] if buffer < len(names) else None
            if used is None:
                continue
            if one.stream is None:
                at_once |= users[used]
                given_back |= users[used]
                continue
            order.add_step(one.stream)
            said.append("")
            if isinstance(one, RecordedAllocation):
                taken[used] = _Taken(1 << number, given_back, at_once)
                continue
            if late := users[used] & ~order.before[number]:
                return (
                    f"{_first(said, late)} may still use '{used}' when cudaFreeAsync gives it back on "
                    f"{_stream_in_words(one.stream)}: no event and no wait orders them"
                )
            given_back |= users[used]
    return None


def _extension(order: StreamOrder, first: int) -> tuple[int, ...]:
    """All steps, each behind those before it: `first` as early as can be, then the last ones before the others."""
    found: list[int] = []
    placed = 0
    for number in (first, *range(len(order.before) - 1, -1, -1)):
        if placed >> number & 1:
            continue
        needed = order.before[number] & ~placed | 1 << number
        found += _bits(needed)
        placed |= needed
    return tuple(found)


def _side_by_side(order: StreamOrder) -> tuple[int, ...]:
    """All steps, the first of each stream before the second of any: what one stream puts into a buffer that another
    uses too is then not what the first finds there.
    """
    depth: list[int] = []
    for before in order.before:
        deepest = 0
        while before:
            last = before.bit_length() - 1
            deepest = max(deepest, depth[last])
            before &= ~(order.before[last] | 1 << last)
        depth.append(1 + deepest)
    return tuple(sorted(range(len(depth)), key=lambda number: (depth[number], number)))


def _closed(order: StreamOrder, numbers: Sequence[int]) -> int:
    """These steps, and all that come behind one of them."""
    late = sum(1 << number for number in numbers)
    for number, before in enumerate(order.before):
        if before & late:
            late |= 1 << number
    return late


def _said(order: StreamOrder, steps: Sequence[Touched], pairs: Sequence[tuple[int, int]]) -> str:
    """Two steps that nothing orders: best the first two of which one writes what the other only reads."""

    def plainly(pair: tuple[int, int]) -> bool:
        one, other = (steps[number].buffers for number in pair)
        return any(one[name] != other[name] for name in one.keys() & other.keys())

    pair = next(filter(plainly, pairs), pairs[0])
    one, other = (steps[number].buffers for number in pair)
    shared = sorted(one.keys() & other.keys(), key=lambda name: one[name] == other[name])[0]
    earlier, later = (_named(order, steps, number) for number in pair)
    used = shared if shared == _VARIABLES else f"'{shared}'"
    return f"{later} may run before {earlier}, and both use {used}: no event and no wait orders them"


def _named(order: StreamOrder, steps: Sequence[Touched], number: int) -> str:
    return _step_in_words(number, steps[number], order.streams[number])


def _step_in_words(number: int, step: Touched, stream: int) -> str:
    """A step of a stream; `number` from 0 on."""
    return f"step {number + 1} ({step.said} on {_stream_in_words(stream)})"


def _stream_in_words(stream: int) -> str:
    """As messages have it."""
    return "the default stream" if stream == DEFAULT_STREAM else f"stream {stream}"


def _bits(mask: int) -> Iterator[int]:
    """The numbers in a set, in their order."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _first(said: Sequence[str], numbers: int) -> str:
    return said[(numbers & -numbers).bit_length() - 1]
