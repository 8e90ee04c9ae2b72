"""Litmus tests of the PTX memory model: a few threads, a few accesses, and which outcomes the axioms allow.

A test is text, a line for each thread; threads of one letter share a block:

    A: st.weak x 1; fence.sc.gpu; st.relaxed.gpu y 1
    B: r0 = ld.relaxed.gpu y; fence.sc.gpu; r1 = ld.weak x

Words are those of PTX without state space and type: `ld.SEM.SCOPE`, `st.SEM.SCOPE`, `atom.SEM.SCOPE.add` or `exch`,
`fence.SEM.SCOPE`, `bar`. Locations are single letters and 0 at first; all of them lie in sectors of their own.

`allowed` asks the axioms of the PTX ISA (9.0, section 8.10), execution by execution (Lustig, Sahasrabuddhe, Giroux,
"A Formal Analysis of the NVIDIA PTX Memory Consistency Model", ASPLOS 2019). `program` makes PTX of tests, to be run.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from evaluator.backends.session import Buffer, Entry, KernelLaunch, Parameter, PlanRun, Pointer, Program, Session

STRIDE_BYTES: Final = 256
"""Between locations: far more than a sector of a cache."""
MOST_REGISTERS: Final = 8
_TIME_LIMIT_S: Final = 20.0
_OPERATION: Final = re.compile(r"(?:(r\d) = )?([\w.]+)(?: (\w))?(?: (\d+))?$")

Outcome = tuple[tuple[str, int], ...]
"""What registers hold at the end, and locations: `(("r0", 1), ("x", 2))`, sorted by name."""


@dataclass(frozen=True)
class Operation:
    """One instruction of one thread."""

    thread: int
    block: str
    opcode: str
    words: frozenset[str]
    register: str = ""
    location: str = ""
    value: int = 0

    @property
    def reads(self) -> bool:
        return self.opcode in ("ld", "atom")

    @property
    def writes(self) -> bool:
        return self.opcode in ("st", "atom", "init")

    @property
    def strong(self) -> bool:
        return self.opcode in ("fence", "atom") or bool(self.words & {"relaxed", "acquire", "release", "volatile"})

    def includes(self, other: "Operation") -> bool:
        """Whether its scope includes the other's thread."""
        return "cta" not in self.words or self.block == other.block


@dataclass(frozen=True)
class LitmusTest:
    """One test, by name."""

    name: str
    text: str
    asked: str
    """The outcome that the test is about: `r0=1 r1=0`."""

    @cached_property
    def threads(self) -> tuple[tuple[Operation, ...], ...]:
        """The operations of each thread. Raises ValueError for what does not parse."""
        threads = []
        for number, line in enumerate(self.text.strip().splitlines()):
            block, _, body = line.strip().partition(": ")
            threads.append(tuple(_operation(number, block, said.strip()) for said in body.split(";")))
        return tuple(threads)

    @cached_property
    def question(self) -> Outcome:
        """What is asked, as an outcome of the registers and locations that it names."""
        return tuple(sorted((name, int(value)) for name, value in re.findall(r"(\w+)=(\d+)", self.asked)))

    @cached_property
    def locations(self) -> tuple[str, ...]:
        return tuple(sorted({o.location for thread in self.threads for o in thread if o.location}))

    def of_interest(self, outcome: Outcome) -> Outcome:
        """The part of an outcome that the question names."""
        names = {name for name, _ in self.question}
        return tuple((name, value) for name, value in outcome if name in names)


def _operation(thread: int, block: str, said: str) -> Operation:
    found = _OPERATION.match(said)
    if found is None:
        raise ValueError(f"{said!r} is no operation")
    register, words, location, value = found.groups()
    opcode, *rest = words.split(".")
    return Operation(thread, block, opcode, frozenset(rest), register or "", location or "", int(value or 0))


# The axioms

Pairs = frozenset[tuple[int, int]]
"""A relation between operations, which are numbered."""


def allowed(test: LitmusTest) -> frozenset[Outcome]:
    """All outcomes that the axioms allow, registers and final values of locations together."""
    return frozenset(itertools.chain.from_iterable(_outcomes(_Candidate(test))))


class _Candidate:
    """The operations of a test, and what does not depend on who reads from whom."""

    def __init__(self, test: LitmusTest) -> None:
        self.test = test
        starts = [Operation(-1, "", "init", frozenset(), location=name) for name in test.locations]
        self.operations = [*starts, *itertools.chain.from_iterable(test.threads)]
        numbered = list(enumerate(self.operations))
        self.count = len(numbered)
        self.reads = [n for n, o in numbered if o.reads]
        self.writes = {name: [n for n, o in numbered if o.writes and o.location == name] for name in test.locations}
        self.fences = [n for n, o in numbered if o.opcode == "fence"]
        self.program_order = frozenset(
            (a, b) for (a, one), (b, two) in itertools.combinations(numbered, 2) if one.thread == two.thread != -1
        )
        self.morally_strong = frozenset(
            (a, b) for (a, _), (b, _) in itertools.permutations(numbered, 2) if self._morally_strong(a, b)
        )
        self.barriers = frozenset(self._barrier_pairs())

    def _morally_strong(self, a: int, b: int) -> bool:
        one, two = self.operations[a], self.operations[b]
        if one.location and two.location and one.location != two.location:
            return False
        if one.thread == two.thread:
            return True
        return one.strong and two.strong and one.includes(two) and two.includes(one)

    def _barrier_pairs(self) -> Iterator[tuple[int, int]]:
        """Barriers of the same turn in one block synchronise, each with each."""
        turns: dict[tuple[str, int], list[int]] = {}
        passed: Counter[int] = Counter()
        for number, operation in enumerate(self.operations):
            if operation.opcode == "bar":
                turns.setdefault((operation.block, passed[operation.thread]), []).append(number)
                passed[operation.thread] += 1
        for together in turns.values():
            yield from itertools.permutations(together, 2)

    def same_location(self, a: int, b: int) -> bool:
        return bool(self.operations[a].location) and self.operations[a].location == self.operations[b].location

    def releases(self) -> Iterator[tuple[int, int]]:
        """Release patterns: where each begins, and the strong write that others observe."""
        for number, o in enumerate(self.operations):
            if not (o.writes and o.strong):
                continue
            if o.words & {"release", "acq_rel"}:
                yield number, number
            for before in (a for a, b in self.program_order if b == number):
                first = self.operations[before]
                if first.opcode == "fence" and first.words & {"release", "acq_rel", "sc"}:
                    yield before, number
                if first.writes and self.same_location(before, number) and first.words & {"release", "acq_rel"}:
                    yield before, number

    def acquires(self) -> Iterator[tuple[int, int]]:
        """Acquire patterns: the strong read that observes, and where each ends."""
        for number, o in enumerate(self.operations):
            if not (o.reads and o.strong):
                continue
            if o.words & {"acquire", "acq_rel"}:
                yield number, number
            for behind in (b for a, b in self.program_order if a == number):
                last = self.operations[behind]
                if last.opcode == "fence" and last.words & {"acquire", "acq_rel", "sc"}:
                    yield number, behind
                if last.reads and self.same_location(number, behind) and last.words & {"acquire", "acq_rel"}:
                    yield number, behind


def _outcomes(c: _Candidate) -> Iterator[Iterable[Outcome]]:
    sequential = [n for n in c.fences if "sc" in c.operations[n].words]
    fence_pairs = [pair for pair in itertools.combinations(sequential, 2) if pair in c.morally_strong]
    sources = [[w for w in c.writes[c.operations[r].location] if w != r] for r in c.reads]
    orders = [list(itertools.permutations(writes[1:])) for writes in c.writes.values()]
    for chosen in itertools.product(*sources):
        read_from = dict(zip(c.reads, chosen, strict=True))
        values = _values(c, read_from)
        if values is None:
            continue
        for turned in itertools.product((False, True), repeat=len(fence_pairs)):
            directed = zip(fence_pairs, turned, strict=True)
            fence_order = frozenset((b, a) if turn else (a, b) for (a, b), turn in directed)
            cause = _causality(c, read_from, fence_order)
            if any((b, a) in cause for a, b in fence_order):
                continue  # axiom Fence-SC
            for order in itertools.product(*orders):
                coherence = _coherence(c, order, cause)
                if coherence is not None and _consistent(c, read_from, coherence, cause):
                    yield _final(c, values, coherence)


def _values(c: _Candidate, read_from: dict[int, int]) -> dict[int, int] | None:
    """What each operation writes or, for a load, reads; None where a value would come out of thin air."""
    values: dict[int, int] = {}

    def value_read(number: int, on_the_way: frozenset[int]) -> int | None:
        source = read_from[number]
        if source in on_the_way:
            return None
        o = c.operations[source]
        if o.opcode != "atom":
            return o.value
        before = value_read(source, on_the_way | {source})
        return None if before is None else before + o.value if "add" in o.words else o.value

    for number in c.reads:
        found = value_read(number, frozenset({number}))
        if found is None:
            return None
        values[number] = found
    return values


def _closure(pairs: Iterable[tuple[int, int]], count: int) -> Pairs:
    reach = np.zeros((count, count), bool)
    for a, b in pairs:
        reach[a, b] = True
    for middle in range(count):
        reach |= reach[:, middle : middle + 1] & reach[middle : middle + 1, :]
    return frozenset((int(a), int(b)) for a, b in np.argwhere(reach))


def _causality(c: _Candidate, read_from: dict[int, int], fence_order: Pairs) -> Pairs:
    """Causality order (section 8.9.5): program order and what synchronises, and what was observed before."""
    seen = [(w, r) for r, w in read_from.items() if (w, r) in c.morally_strong]
    # Through an atomic, which is one operation here, what it reads precedes whoever reads from it.
    observed = _closure(seen, c.count)
    synchronised = (
        (start, end)
        for start, write in c.releases()
        for read, end in c.acquires()
        if (write, read) in observed and (start, end) in c.morally_strong
    )
    base = _closure([*c.program_order, *synchronised, *fence_order, *c.barriers], c.count)
    return base | frozenset((a, y) for a, b in observed for x, y in base if x == b)


def _coherence(c: _Candidate, order: Sequence[Sequence[int]], cause: Pairs) -> Pairs | None:
    """The least coherence order that agrees with `order` where writes are morally strong; None where none does."""
    pairs: set[tuple[int, int]] = set()
    for writes, chosen in zip(c.writes.values(), order, strict=True):
        pairs.update((writes[0], w) for w in writes[1:])
        pairs.update(p for p in itertools.combinations(chosen, 2) if p in c.morally_strong)
        pairs.update(p for p in itertools.permutations(writes, 2) if p in cause)  # axiom Coherence
    closed = _closure(pairs, c.count)
    return None if any(a == b for a, b in closed) else closed


def _consistent(c: _Candidate, read_from: dict[int, int], coherence: Pairs, cause: Pairs) -> bool:
    before = frozenset((r, w) for r, source in read_from.items() for w in range(c.count) if (source, w) in coherence)
    before -= {(r, r) for r in read_from}
    reading = frozenset((w, r) for r, w in read_from.items())
    if any((b, a) in cause for a, b in reading | before):
        return False  # axiom Causality
    for number in c.reads:  # axiom Atomicity
        if c.operations[number].opcode == "atom" and any(
            (number, w) in before & c.morally_strong and (w, number) in coherence & c.morally_strong
            for w in range(c.count)
        ):
            return False
    local = {(a, b) for a, b in c.program_order if c.same_location(a, b)}
    meeting = _closure(local | ((reading | before | coherence) & c.morally_strong), c.count)
    return not any(a == b for a, b in meeting)  # axiom SC-per-Location


def _final(c: _Candidate, values: dict[int, int], coherence: Pairs) -> Iterator[Outcome]:
    """Registers, and for each location the value of a write that no other one comes after."""
    registers = [(c.operations[n].register, value) for n, value in values.items() if c.operations[n].register]
    last = []
    for name, writes in c.writes.items():
        ends = [w for w in writes if not any((w, other) in coherence for other in writes)]
        last.append([(name, _written(c, values, w)) for w in ends])
    for chosen in itertools.product(*last):
        yield tuple(sorted([*registers, *chosen]))


def _written(c: _Candidate, values: dict[int, int], write: int) -> int:
    o = c.operations[write]
    return o.value + (values[write] if o.opcode == "atom" and "add" in o.words else 0)


# Running them

_ORDERS: Final = ("weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc")
_SCOPES: Final = ("cta", "gpu", "sys")
_HOW: Final = ("add", "exch")
_HEADER: Final = ".version 8.0\n.target sm_80\n.address_size 64\n"


def program(tests: Sequence[LitmusTest]) -> Program:
    """All tests as one program: kernel `k0` runs the first."""
    text = _HEADER + "\n".join(_kernel(number, test) for number, test in enumerate(tests))
    parameters = (Parameter("memory", "int*", "pointer", 8, 0), Parameter("found", "int*", "pointer", 8, 8))
    entries = tuple(Entry(f"k{n}", f"k{n}(int*, int*)", parameters) for n in range(len(tests)))
    return Program(text, entries, "sm_80")


def _places(test: LitmusTest) -> list[tuple[int, int]]:
    """Block and warp of each thread."""
    blocks: dict[str, int] = {}
    places = []
    for thread in test.threads:
        block = list(dict.fromkeys([*blocks, thread[0].block])).index(thread[0].block)
        places.append((block, blocks.get(thread[0].block, 0)))
        blocks[thread[0].block] = places[-1][1] + 1
    return places


def _kernel(number: int, test: LitmusTest) -> str:
    lines = [
        f".visible .entry k{number}(.param .u64 memory, .param .u64 found) {{",
        f".reg .b64 %m, %f; .reg .b32 %t, %b, %l, %z, %r<{MOST_REGISTERS}>; .reg .pred %p;",
        "ld.param.u64 %m, [memory]; ld.param.u64 %f, [found]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x;",
        # One lane of each warp takes part. The barrier makes the blocks of a cooperative launch take turns.
        "bar.sync 0; and.b32 %l, %t, 31; setp.ne.u32 %p, %l, 0; @%p exit; shr.u32 %t, %t, 5;",
        "shl.b32 %b, %b, 5; or.b32 %t, %b, %t;",
    ]
    places = _places(test)
    for thread, (block, warp) in enumerate(places):
        lines.append(f"setp.eq.u32 %p, %t, {block << 5 | warp}; @%p bra T{thread};")
    lines.append("exit;")
    for thread, operations in enumerate(test.threads):
        lines.append(f"T{thread}:")
        lines += [_instruction(test, operation) for operation in operations]
        registers = [o.register for o in operations if o.register]
        lines += [f"st.global.u32 [%f+{4 * int(r[1:])}], %{r};" for r in registers]
        lines.append("exit;")
    return "\n".join([*lines, "}"])


def _instruction(test: LitmusTest, o: Operation) -> str:
    place = f"[%m+{STRIDE_BYTES * test.locations.index(o.location)}]" if o.location else ""
    order, scope, how = (
        "".join(f".{word}" for word in words if word in o.words) for words in (_ORDERS, _SCOPES, _HOW)
    )
    match o.opcode:
        case "ld":
            return f"ld{order}{scope}.global{'.nc' * ('nc' in o.words)}.u32 %{o.register}, {place};"
        case "st":
            return f"st{order}{scope}.global.u32 {place}, {o.value};"
        case "atom":
            kind = "b32" if how == ".exch" else "u32"
            return f"atom{order}{scope}.global{how}.{kind} %{o.register or 'z'}, {place}, {o.value};"
        case "fence":
            return f"fence{order}{scope};"
        case _:
            return "barrier.sync 0;"


def observe(session: Session, number: int, test: LitmusTest, draws: Iterable[int]) -> Counter[Outcome]:
    """Run a test once for each draw of weak memory; what came out, and how often."""
    places = _places(test)
    grid = 1 + max(block for block, _ in places)
    warps = 1 + max(warp for _, warp in places)
    memory = np.zeros(len(test.locations) * STRIDE_BYTES // 4, np.uint32)
    buffers = (
        Buffer("memory", "input", memory.nbytes, 4, memory),
        Buffer("found", "input", 4 * MOST_REGISTERS, 4, np.zeros(MOST_REGISTERS, np.uint32)),
    )
    pointers = (Pointer("memory"), Pointer("found"))
    launch = KernelLaunch(f"k{number}", (grid, 1, 1), (32 * warps, 1, 1), 0, True, pointers)
    registers = sorted({o.register for thread in test.threads for o in thread if o.register})
    outcomes: Counter[Outcome] = Counter()
    for draw in draws:
        run = PlanRun(buffers, (launch,), 0x5B, _TIME_LIMIT_S, weak_memory=draw, backwards=bool(draw & 1))
        outcome = session.run(run)
        assert outcome.fault is None, f"{test.name}: {outcome.fault}"
        words = {name: np.asarray(outcome.contents[name]).view(np.uint32) for name in ("memory", "found")}
        found = [(r, int(words["found"][int(r[1:])])) for r in registers]
        found += [(x, int(words["memory"][n * STRIDE_BYTES // 4])) for n, x in enumerate(test.locations)]
        outcomes[tuple(sorted(found))] += 1
    return outcomes
