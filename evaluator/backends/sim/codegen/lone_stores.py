"""Loads whose value nothing but stores of some lanes uses.

Where a tensor has fewer elements than a program has threads, Triton has all threads load it, and of those that hold
the same element one store it, under a predicate. What the others have loaded goes nowhere: that it may be old or new
is no race.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from evaluator.backends.sim.codegen.blocks import Block, ControlFlow
from evaluator.backends.sim.codegen.instructions import entry_of
from evaluator.backends.sim.codegen.masks import written
from evaluator.backends.sim.ptx.model import Instruction, Special, registers_in

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
