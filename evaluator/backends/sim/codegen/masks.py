"""Liveness of registers, and which writes need a lane mask.

A lane that waits at another block must find its registers as it left them: a write keeps them where it may need them.
"""

from collections.abc import Iterator
from itertools import chain

from evaluator.backends.sim.codegen.blocks import Block, ControlFlow, Masks
from evaluator.backends.sim.codegen.instructions import entry_of
from evaluator.backends.sim.ptx.model import Address, Instruction, Negated, Operand, Pair, Part, Register, Vector


def registers_in(operand: Operand) -> Iterator[str]:
    """Names of all registers that an operand mentions."""
    match operand:
        case Register(name):
            yield name
        case Negated(register):
            yield register.name
        case Part(whole):
            yield from registers_in(whole)
        case Address(base, _):
            if isinstance(base, Register):
                yield base.name
        case Vector(parts):
            for part in parts:
                yield from registers_in(part)
        case Pair(first, second):
            yield from registers_in(first)
            yield from registers_in(second)


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
    return Masks(live_in, live_out, definitions, frozenset(chain.from_iterable(live_in)), flow.spins)


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
