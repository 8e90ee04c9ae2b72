"""Control flow of one function: basic blocks in reverse post-order, liveness, and which writes need a lane mask.

The translation runs the lowest pending block first. In reverse post-order that makes diverged lanes meet again at
the earliest block that both can reach, and holds lanes that left a loop until the others have left it too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.ptx.model import (
    Address,
    Function,
    Instruction,
    Label,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)

_ENDS = {"bra", "brx", "ret", "exit", "trap"}
_NO_DESTINATION = {
    "st", "bra", "brx", "ret", "exit", "trap", "bar", "barrier", "membar", "fence", "red", "prefetch", "prefetchu",
    "brkpt", "nanosleep", "pmevent", "discard", "applypriority", "bar_warp",
}  # fmt: skip


@dataclass
class Block:
    """A basic block; `successors` are indexes into the function's block list."""

    index: int
    body: list[Instruction] = field(default_factory=list)
    successors: list[int] = field(default_factory=list)
    live_in: set[str] = field(default_factory=set)
    live_out: set[str] = field(default_factory=set)
    in_cycle: bool = False


@dataclass(frozen=True)
class ControlFlow:
    """Blocks in reverse post-order; `masked` names the registers whose writes must keep inactive lanes' values."""

    blocks: list[Block]
    labels: dict[str, int]
    spins: bool
    """Whether a loop waits on memory, so that diverged lanes must take turns."""

    def needs_mask(self, block: Block, register: str) -> bool:
        """Whether a write to `register` in `block` can meet an inactive lane that still needs its old value.

        That lane waits at some other block. Where there is one definition only, it must have come through this very
        block, so the register is live at the block's end; where there are several it may hold another one's value.
        """
        if self._definitions.get(register, 0) != 1:
            return register in self._crossing
        return register in block.live_out and (block.in_cycle or self.spins)

    _definitions: dict[str, int] = field(default_factory=dict)
    _crossing: frozenset[str] = frozenset()
    """Registers that are live at the start of any block."""


def registers_in(operand: Operand) -> Iterator[str]:
    """Names of all registers that an operand mentions."""
    match operand:
        case Register(name):
            yield name
        case Negated(register):
            yield register.name
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
    if instruction.opcode in _NO_DESTINATION and not (
        instruction.opcode in ("bar", "barrier") and "red" in instruction.modifiers
    ):
        return ()
    if instruction.opcode == "call":
        return ()  # results come back through call parameters
    if not instruction.operands or isinstance(instruction.operands[0], Address):
        return ()
    return tuple(registers_in(instruction.operands[0]))


def control_flow(instruction: Instruction) -> tuple[str, ...]:
    """Registers that an instruction reads, its guard included; a guarded write also reads its old value."""
    writes = written(instruction)
    sources = instruction.operands[1:] if writes else instruction.operands
    names = [name for operand in sources for name in registers_in(operand)]
    if instruction.guard is not None:
        names += [instruction.guard.name, *writes]
    return tuple(names)


def analyse(function: Function) -> ControlFlow:
    """Build the control-flow graph of `function`. Raises UnsupportedError for a branch to nowhere."""
    blocks, labels = _split(function)
    order = _reverse_postorder(blocks)
    position = {old: new for new, old in enumerate(order)}
    ordered = [blocks[old] for old in order]
    for new, block in enumerate(ordered):
        block.index = new
        block.successors = [position[successor] for successor in block.successors]
    _mark_cycles(ordered)
    _mark_live(ordered)
    definitions: dict[str, int] = {}
    for block in ordered:
        for instruction in block.body:
            for name in written(instruction):
                definitions[name] = definitions.get(name, 0) + 1
    reachable_labels = {name: position[old] for name, old in labels.items() if old in position}
    crossing = frozenset().union(*(block.live_in for block in ordered))
    return ControlFlow(ordered, reachable_labels, any(map(_waits_on_memory, ordered)), definitions, crossing)


def _splits(instruction: Instruction) -> bool:
    """Barriers end a block too, so that lanes that wait at one can resume behind it."""
    return instruction.opcode in _ENDS or is_barrier(instruction)


def is_barrier(instruction: Instruction) -> bool:
    """Whether lanes may have to wait here for other warps."""
    return instruction.opcode in ("bar", "barrier") and "warp" not in instruction.modifiers


def _split(function: Function) -> tuple[list[Block], dict[str, int]]:
    blocks = [Block(0)]
    labels: dict[str, int] = {}
    for item in function.body:
        if isinstance(item, Label):
            if blocks[-1].body or any(index == len(blocks) - 1 for index in labels.values()):
                blocks.append(Block(len(blocks)))
            labels[item.name] = len(blocks) - 1
        else:
            blocks[-1].body.append(item)
            if _splits(item):
                blocks.append(Block(len(blocks)))
    for block in blocks:
        block.successors = list(_successors(function, block, labels, len(blocks)))
    return blocks, labels


def _successors(function: Function, block: Block, labels: dict[str, int], count: int) -> Iterator[int]:
    last = block.body[-1] if block.body else None
    if last is not None and last.opcode in ("bra", "brx"):
        targets = branch_labels(function, last)
        for target in targets:
            if target not in labels:
                raise UnsupportedError(f"a branch to an unknown label {target}", last.line or None)
            yield labels[target]
    falls = last is None or last.opcode not in _ENDS or last.guard is not None
    if falls and block.index + 1 < count:
        yield block.index + 1


def branch_labels(function: Function, instruction: Instruction) -> tuple[str, ...]:
    """The labels that a `bra` or `brx.idx` can go to."""
    target = instruction.operands[-1] if instruction.operands else None
    if not isinstance(target, Symbol):
        raise UnsupportedError(f"{instruction.text} through a register", instruction.line or None)
    if instruction.opcode == "brx":
        if target.name not in function.branch_targets:
            raise UnsupportedError("brx without a list of targets", instruction.line or None)
        return function.branch_targets[target.name]
    return (target.name,)


def _reverse_postorder(blocks: list[Block]) -> list[int]:
    """Depth-first from the entry; successors are taken so that a loop's body comes before its exit where possible."""
    seen = {0}
    postorder: list[int] = []
    stack: list[tuple[int, Iterator[int]]] = [(0, iter(_exits_first(blocks[0])))]
    while stack:
        index, successors = stack[-1]
        following = next((s for s in successors if s not in seen), None)
        if following is None:
            postorder.append(index)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(_exits_first(blocks[following]))))
    return postorder[::-1]


def _exits_first(block: Block) -> list[int]:
    # In post-order what is visited first comes last in the result. Text order is the compiler's own layout, in which
    # loop bodies precede exits, so visiting the textually last successor first keeps that layout.
    return sorted(block.successors, reverse=True)


def _mark_cycles(blocks: list[Block]) -> None:
    """A block is in a cycle when its strongly connected component has other blocks, or it follows itself."""
    index_of: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    component: list[int] = []
    for root in range(len(blocks)):
        if root in index_of:
            continue
        work = [(root, iter(blocks[root].successors))]
        index_of[root] = low[root] = len(index_of)
        component.append(root)
        on_stack.add(root)
        while work:
            node, successors = work[-1]
            advanced = False
            for successor in successors:
                if successor not in index_of:
                    index_of[successor] = low[successor] = len(index_of)
                    component.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(blocks[successor].successors)))
                    advanced = True
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index_of[successor])
            if advanced:
                continue
            work.pop()
            if work:
                parent = work[-1][0]
                low[parent] = min(low[parent], low[node])
            if low[node] == index_of[node]:
                members = []
                while True:
                    member = component.pop()
                    on_stack.discard(member)
                    members.append(member)
                    if member == node:
                        break
                for member in members:
                    blocks[member].in_cycle = len(members) > 1 or member in blocks[member].successors


def _mark_live(blocks: list[Block]) -> None:
    uses: list[set[str]] = []
    kills: list[set[str]] = []
    for block in blocks:
        used: set[str] = set()
        killed: set[str] = set()
        for instruction in block.body:
            used.update(name for name in control_flow(instruction) if name not in killed)
            killed.update(written(instruction))
        uses.append(used)
        kills.append(killed)
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            out: set[str] = set()
            for successor in block.successors:
                out |= blocks[successor].live_in
            into = uses[block.index] | (out - kills[block.index])
            if out != block.live_out or into != block.live_in:
                block.live_out, block.live_in = out, into
                changed = True


def _waits_on_memory(block: Block) -> bool:
    """A loop with an atomic, volatile or acquiring access may be a lock: its lanes must take turns."""
    return block.in_cycle and any(map(may_wait, block.body))


def may_wait(instruction: Instruction) -> bool:
    """Whether a loop around this access may wait for what another thread writes."""
    waits = {"volatile", "acquire", "relaxed", "mmio", "acq_rel"}
    if instruction.opcode == "mbarrier":
        return bool({"test_wait", "try_wait"} & set(instruction.modifiers))
    return instruction.opcode == "atom" or (instruction.opcode == "ld" and bool(waits & set(instruction.modifiers)))


def polls_global(instruction: Instruction) -> bool:
    """Whether a loop around this load may wait for another block."""
    waits = {"volatile", "acquire", "relaxed", "mmio"}
    return (
        instruction.opcode == "ld"
        and bool(waits & set(instruction.modifiers))
        and not {
            "shared",
            "shared::cta",
            "local",
        }
        & set(instruction.modifiers)
    )
