"""Liveness of registers, and which writes need a lane mask.

A lane that waits at another block must find its registers as it left them: a write keeps them where it may need them.
From which shared arrays the addresses in registers are made (`SharedBases`). And behind which later accesses a load
may be performed, because nobody needs its registers before (`late_loads`). And whose value nothing but stores of some
lanes uses (`lone_stores`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import chain, pairwise
from typing import Final

from evaluator.backends.sim.codegen.blocks import Block, ControlFlow, Masks
from evaluator.backends.sim.codegen.instructions import entry_of
from evaluator.backends.sim.ptx.model import (
    Address,
    Function,
    Instruction,
    Label,
    Operand,
    Pair,
    Register,
    Special,
    Symbol,
    Vector,
    registers_in,
)


def written(instruction: Instruction) -> tuple[str, ...]:
    """Registers that an instruction writes."""
    if not entry_of(instruction).destination or not instruction.operands:
        return ()
    if isinstance(instruction.operands[0], Address):
        return ()
    return tuple(registers_in(instruction.operands[0]))


def _read(instruction: Instruction, writes: tuple[str, ...]) -> Iterator[str]:
    """Registers that an instruction reads, its guard included; a guarded write also reads its old value."""
    for operand in instruction.operands[1:] if writes else instruction.operands:
        yield from registers_in(operand)
    if instruction.guard is not None:
        yield instruction.guard.name
        yield from writes


def lane_masks(flow: ControlFlow) -> Masks:
    """Where each register lives."""
    uses: list[set[str]] = []
    kills: list[set[str]] = []
    definitions: dict[str, int] = {}
    for block in flow.blocks:
        used, killed = _touched(block, definitions)
        uses.append(used)
        kills.append(killed)
    live_in, live_out = _live(flow, uses, kills)
    return Masks(live_in, live_out, definitions, frozenset(chain.from_iterable(live_in)), flow.spins or flow.apart)


def unset_reads(flow: ControlFlow, masks: Masks) -> tuple[Instruction, ...]:
    """The first instructions that read a register which nothing has set on some way from the function's start.

    A guarded write counts as one: compilers guard what is read under the same guard.
    """
    found: dict[int, Instruction] = {}
    for name in masks.live_in[0]:
        seen, left = {0}, [0]
        while left:
            block = flow.blocks[left.pop()]
            for instruction in block.body:
                writes = written(instruction)
                operands = instruction.operands[1:] if writes else instruction.operands
                guard = instruction.guard
                if any(name in registers_in(one) for one in operands) or (guard is not None and guard.name == name):
                    found[id(instruction)] = instruction
                    break
                if name in writes:
                    break
            else:
                ahead = [s for s in block.successors if s not in seen and name in masks.live_in[s]]
                seen.update(ahead)
                left += ahead
    return tuple(found.values())


def _touched(block: Block, definitions: dict[str, int]) -> tuple[set[str], set[str]]:
    """What a block reads before it writes it, and what it writes; counts the writes."""
    used: set[str] = set()
    killed: set[str] = set()
    for instruction in block.body:
        writes = written(instruction)
        used.update(name for name in _read(instruction, writes) if name not in killed)
        killed.update(writes)
        for name in writes:
            definitions[name] = definitions.get(name, 0) + 1
    return used, killed


def _live(flow: ControlFlow, uses: list[set[str]], kills: list[set[str]]) -> tuple[list[set[str]], list[set[str]]]:
    live_in: list[set[str]] = [set() for _ in flow.blocks]
    live_out: list[set[str]] = [set() for _ in flow.blocks]
    changed = True
    while changed:
        changed = False
        for block in reversed(flow.blocks):
            out: set[str] = set()
            for successor in block.successors:
                out |= live_in[successor]
            into = uses[block.index] | (out - kills[block.index])
            if out != live_out[block.index] or into != live_in[block.index]:
                live_out[block.index], live_in[block.index] = out, into
                changed = True
    return live_in, live_out


_COMPUTED: Final = frozenset(
    {"add", "sub", "mul", "mul24", "mad", "mad24", "shl", "shr", "shf", "and", "or", "xor", "not", "neg", "lop3"}
    | {"mov", "cvta", "cvt", "bfi", "bfe", "prmt", "addc", "subc", "madc", "div", "rem", "abs", "lea"}
)
"""What makes an address from an address and numbers."""
_CHOSEN: Final = frozenset({"selp", "slct", "min", "max"})
"""What gives one of its operands."""


@dataclass(frozen=True)
class _Origin:
    """What a register may be made from."""

    arrays: frozenset[str] = frozenset()
    other: bool = False
    """Whether also from none of them."""

    def __or__(self, also: "_Origin") -> "_Origin":
        return _Origin(self.arrays | also.arrays, self.other or also.other)

    def __add__(self, also: "_Origin") -> "_Origin":
        if self == _NOTHING or also == _NOTHING:
            return _NOTHING
        return _Origin(self.arrays | also.arrays, self.other and also.other)


_NOTHING: Final = _Origin()
"""Of a register that nothing has written yet."""
_NUMBER: Final = _Origin(other=True)


class SharedBases:
    """The shared arrays behind each register of one function, as far as its text tells.

    A flow-insensitive fixpoint over registers: each may hold addresses made from some shared variables, or something
    else, of which nothing is known: a number, what was loaded or passed. An access whose address is made from shared
    variables alone must stay within one of them. What comes through memory, a call or a shuffle is never judged.
    """

    def __init__(self, flow: ControlFlow, shared: Mapping[str, object]) -> None:
        """`shared`: the names of the shared variables that the function can reach."""
        self._shared = shared
        self._origins: dict[str, _Origin] = {}
        if len(shared) < 2:  # the bounds of all shared memory are those of the one array
            return
        body = [(i, names) for block in flow.blocks for i in block.body if (names := written(i))]
        changed = True
        while changed:
            changed = False
            for instruction, names in body:
                made = self._made(instruction)
                for name in names:
                    before = self._origins.get(name, _NOTHING)
                    if (after := before | made) != before:
                        self._origins[name] = after
                        changed = True

    def of(self, operand: Operand) -> frozenset[str]:
        """The arrays that an address must lie in one of; none where it may be any address."""
        origin = self._origin(operand) if len(self._shared) > 1 else _NUMBER
        return frozenset() if origin.other else origin.arrays

    def _made(self, i: Instruction) -> _Origin:
        sources = [self._origin(operand) for operand in i.operands[1:]]
        if i.opcode in _COMPUTED and sources:
            return reduce(_Origin.__add__, sources)
        if i.opcode in _CHOSEN and len(sources) > 1:
            return sources[0] | sources[1]
        return _NUMBER

    def _origin(self, operand: Operand) -> _Origin:
        match operand:
            case Register(name):
                return self._origins.get(name, _NOTHING)
            case Symbol(name) if name in self._shared:
                return _Origin(frozenset({name}))
            case Address(base, _):
                return self._origin(base)
            case Vector(parts):
                return reduce(_Origin.__add__, map(self._origin, parts), _NUMBER)
            case Pair(first, _):
                return self._origin(first)
        return _NUMBER


_STRONG: Final = {"relaxed", "volatile"}
_ORDERED: Final = {"acquire", "release"}
_INSIDE: Final = {"shared", "shared::cta", "local", "param", "const"}


@dataclass(frozen=True)
class LateLoad:
    """A strong load at one position of a block, and the accesses that may come before it after all.

    PTX orders a relaxed or volatile load neither with the loads and stores behind it nor by what depends on other
    values (PTX ISA 9.0, section 8), and GPUs go on until somebody needs the value. So in weak memory such a load may
    be performed once more behind later accesses of its block, up to the first use of its registers.
    """

    position: int
    address: Address
    passed: dict[int, Address]
    """By position; the last of them is where it is performed at the latest."""


def late_loads(body: tuple[Instruction, ...] | list[Instruction]) -> tuple[LateLoad, ...]:
    """Of a block's instructions."""
    return tuple(_late_loads(body))


def passed_accesses(function: Function) -> frozenset[int]:
    """The accesses behind which some load may be performed, by their places in the function's body."""
    found: set[int] = set()
    body = function.body
    bounds = [-1, *(place for place, item in enumerate(body) if isinstance(item, Label)), len(body)]
    for before, end in pairwise(bounds):
        straight = [item for item in body[before + 1 : end] if isinstance(item, Instruction)]
        found.update(before + 1 + number for load in _late_loads(straight) for number in load.passed)
    return frozenset(found)


def _late_loads(body: tuple[Instruction, ...] | list[Instruction]) -> Iterator[LateLoad]:
    for position, i in enumerate(body):
        words = set(i.modifiers)
        if i.opcode != "ld" or not words & _STRONG or words & (_INSIDE | _ORDERED):
            continue
        source = i.operands[1] if len(i.operands) > 1 else None
        if not isinstance(source, Address):
            continue
        results = set(written(i))
        passed = _passed(body, position, source, results)
        if passed and not results & set(registers_in(source)):
            yield LateLoad(position, source, passed)


def _passed(
    body: tuple[Instruction, ...] | list[Instruction], position: int, source: Address, results: set[str]
) -> dict[int, Address]:
    found: dict[int, Address] = {}
    for number, i in enumerate(body[position + 1 :], position + 1):
        touched = {name for operand in i.operands for name in registers_in(operand)}
        touched |= {i.guard.name} if i.guard is not None else set()
        if touched & results or set(written(i)) & set(registers_in(source)) or _holds_back(i):
            break
        if i.opcode in ("ld", "st") and _INSIDE.isdisjoint(i.modifiers):
            places = [operand for operand in i.operands if isinstance(operand, Address)]
            if len(places) != 1:
                break
            found[number] = places[0]
    return found


def _holds_back(i: Instruction) -> bool:
    """Whether no load is performed behind this that stands before it."""
    if i.opcode in ("ld", "st"):
        return not _ORDERED.isdisjoint(i.modifiers)
    entry = entry_of(i)
    return entry.guarding != "select" or entry.branches or entry.ends or entry.barrier or entry.counted == "barrier"


_LANE_BY_LANE: Final = frozenset(
    {"abs", "add", "and", "bfe", "bfi", "brev", "clz", "copysign", "cvt", "div", "ex2", "fma", "lg2", "lop3", "mad"}
    | {"max", "min", "mov", "mul", "neg", "not", "or", "popc", "prmt", "rcp", "rem", "rsqrt", "selp", "set", "setp"}
    | {"shf", "shl", "shr", "sqrt", "sub", "tanh", "xor"}
)
"""What computes from a lane's own operands and does nothing else."""
_NOT_PLAIN: Final = {"volatile", "relaxed", "acquire", "release", "mmio", "cv", "cg", "nc", "param", "const", "local"}


_OF_A_THREAD: Final = ("%tid", "%ntid", "%ctaid", "%nctaid", "%laneid")
"""Special registers that hold the same all the time."""
_MAX_STEPS: Final = 16
"""Of working out a guard: Triton's takes two to five."""


@dataclass(frozen=True)
class LoneStore:
    """What uses a load's value, of all stores one, and what works out their guard where the load is not behind it."""

    store: Instruction
    guard: tuple[Instruction, ...] = ()


def lone_stores(flow: ControlFlow) -> Mapping[int, LoneStore]:
    """The plain loads whose values reach only stores under one guard, by `id`.

    Where a tensor has fewer elements than a program has threads, Triton has all threads load it, and of those that
    hold the same element one store it, under a predicate. What the others have loaded goes nowhere: that it may be
    old or new is no race.
    That guard holds the same for a lane at the load and at the store: where it is false, the value is not used.
    """
    loads = [
        (block, position)
        for block in flow.blocks
        for position, i in enumerate(block.body)
        if i.opcode == "ld" and _NOT_PLAIN.isdisjoint(i.modifiers) and written(i)
    ]
    if not loads or not any(i.opcode == "st" and i.guard is not None for i in _instructions(flow)):
        return {}
    readers: dict[str, list[Instruction]] = {}
    for i in _instructions(flow):
        operands = [*(i.operands[1:] if written(i) else i.operands), *((i.guard,) if i.guard is not None else ())]
        for name in {name for operand in operands for name in registers_in(operand)}:
            readers.setdefault(name, []).append(i)
    guards = _Guards(flow)
    found: dict[int, LoneStore] = {}
    for block, position in loads:
        store = _only_store(block.body[position], readers)
        if store is None or store.guard is None:
            continue
        steps = guards.steps(store.guard.name, block, position)
        if steps is not None:
            found[id(block.body[position])] = LoneStore(store, steps)
    return found


class _Guards:
    """How a register that always holds the same for a lane is worked out from what a place in the function knows."""

    def __init__(self, flow: ControlFlow) -> None:
        self._before = _dominators(flow)
        self._definitions: dict[str, list[tuple[Block, int]]] = {}
        for block in flow.blocks:
            for position, i in enumerate(block.body):
                for name in written(i):
                    self._definitions.setdefault(name, []).append((block, position))

    def steps(self, name: str, block: Block, position: int) -> tuple[Instruction, ...] | None:
        """The instructions, in their order; None where it may change, or takes more than computing."""
        found: list[Instruction] = []
        return tuple(found) if self._add(name, block, position, found) else None

    def _add(self, name: str, block: Block, position: int, found: list[Instruction]) -> bool:
        definitions = self._definitions.get(name, ())
        if len(definitions) != 1:
            return False
        ((decided, place),) = definitions
        i = decided.body[place]
        if i.guard is not None:
            return False
        is_behind = place < position if decided is block else decided.index in self._before[block.index]
        if (is_behind and not decided.in_cycle) or i in found:
            return True
        if i.opcode not in _LANE_BY_LANE or len(found) >= _MAX_STEPS:
            return False
        specials = [one.name for one in i.operands if isinstance(one, Special)]
        if not all(one.startswith(_OF_A_THREAD) for one in specials):
            return False
        if not all(
            self._add(one, block, position, found) for operand in i.operands[1:] for one in registers_in(operand)
        ):
            return False
        found.append(i)
        return True


def _instructions(flow: ControlFlow) -> Iterator[Instruction]:
    return (i for block in flow.blocks for i in block.body)


def _only_store(load: Instruction, readers: Mapping[str, list[Instruction]]) -> Instruction | None:
    """A store of those that use what is loaded, where nothing but stores under the same guard does."""
    store: Instruction | None = None
    reached, left = set(written(load)), [*written(load)]
    while left:
        for i in readers.get(left.pop(), ()):
            if i.guard is not None and i.guard.name in reached:
                return None
            if i.opcode == "st" and i.operands:
                address, *values = i.operands
                same = store is None or (store.guard, store.guard_negated) == (i.guard, i.guard_negated)
                if (
                    i.guard is None
                    or "param" in i.modifiers
                    or not same
                    or not reached.isdisjoint(registers_in(address))
                    or not values
                ):
                    return None
                store = i
            elif i.opcode in _LANE_BY_LANE and entry_of(i).guarding == "select":
                left += [name for name in written(i) if name not in reached]
                reached.update(written(i))
            else:
                return None
    return store


def _dominators(flow: ControlFlow) -> list[set[int]]:
    """The blocks that every way to a block goes through, itself included."""
    count = len(flow.blocks)
    into: list[list[int]] = [[] for _ in range(count)]
    for block in flow.blocks:
        for successor in block.successors:
            into[successor].append(block.index)
    found = [set(range(count)) for _ in range(count)]
    found[0] = {0}
    changed = True
    while changed:
        changed = False
        for number in range(1, count):
            after = {number} | set.intersection(set(range(count)), *(found[one] for one in into[number]))
            if after != found[number]:
                found[number], changed = after, True
    return found
