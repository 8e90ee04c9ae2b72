"""Control flow of one function: basic blocks in reverse post-order.

The translation runs the lowest pending block first. In reverse post-order that makes diverged lanes meet again at
the earliest block that both can reach, and holds lanes that left a loop until the others have left it too. A loop
with several ways back to its head gets an empty block, the latch, through which all of them go: lanes that are early
wait there for those that are not, as a `shfl.sync` at the loop's head needs it.
"""

from collections import defaultdict
from collections.abc import Iterator, Set

from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.codegen.blocks import Block, ControlFlow
from evaluator.backends.sim.codegen.instructions import entry_of
from evaluator.backends.sim.codegen.lowering.calls import goes_through_register
from evaluator.backends.sim.codegen.lowering.control import branch_labels
from evaluator.backends.sim.codegen.waiting import comes_apart, gathers, may_wait, only_waits, parts
from evaluator.backends.sim.ptx.model import Function, Instruction, Label


def control_flow(function: Function, passed: Set[int] = frozenset()) -> ControlFlow:
    """Build the control-flow graph of `function`. Raises UnsupportedError for a branch to nowhere.

    `passed`: accesses, by their places in the function's body, that stay in one block with what stands before them.
    """
    apart = comes_apart((function,))
    blocks, labels = _split(function, apart, passed)
    _add_latches(blocks)
    order = _reverse_postorder(blocks)
    position = {old: new for new, old in enumerate(order)}
    ordered = [blocks[old] for old in order]
    for new, block in enumerate(ordered):
        block.index = new
        block.successors = [position[successor] for successor in block.successors]
    _mark_cycles(ordered)
    reachable_labels = {name: position[old] for name, old in labels.items() if old in position}
    spins = any(map(_waits_on_memory, ordered))
    return ControlFlow(ordered, reachable_labels, spins, apart, frozenset(_waiting(ordered)))


def _splits(instruction: Instruction) -> bool:
    """Barriers end a block too, so that lanes that wait at one can resume behind it.

    And so do calls through registers, since how often lanes part is counted by block.
    """
    entry = entry_of(instruction)
    return entry.ends or entry.barrier or goes_through_register(instruction)


def _split(function: Function, apart: bool, passed: Set[int]) -> tuple[list[Block], dict[str, int]]:
    blocks = [Block(0)]  # in text order
    labels: dict[str, int] = {}
    for place, item in enumerate(function.body):
        if isinstance(item, Label):
            if blocks[-1].body or any(index == len(blocks) - 1 for index in labels.values()):
                blocks.append(Block(len(blocks)))
            labels[item.name] = len(blocks) - 1
        else:
            begins = (parts(item) and place not in passed) or gathers(item, function)
            if apart and begins and blocks[-1].body:
                blocks.append(Block(len(blocks)))
            blocks[-1].body.append(item)
            if _splits(item):
                blocks.append(Block(len(blocks)))
    for block in blocks:
        block.text_place = block.index
        block.successors = list(_successors(function, block, labels, len(blocks)))
    return blocks, labels


def _successors(function: Function, block: Block, labels: dict[str, int], count: int) -> Iterator[int]:
    last = block.body[-1] if block.body else None
    if last is not None and entry_of(last).branches:
        targets = branch_labels(function, last)
        for target in targets:
            if target not in labels:
                raise UnsupportedError(f"a branch to an unknown label {target}", last.line or None)
            yield labels[target]
    falls = last is None or not entry_of(last).ends or last.guard is not None
    if falls and block.index + 1 < count:
        yield block.index + 1


def _add_latches(blocks: list[Block]) -> None:
    """One way back for each loop that has several."""
    position = {block: place for place, block in enumerate(_reverse_postorder(blocks))}
    back: defaultdict[int, list[Block]] = defaultdict(list)
    for block in blocks:
        if block.index in position:
            for head in {s for s in block.successors if position[s] <= position[block.index]}:
                back[head].append(block)
    for head, ends in back.items():
        if len(ends) < 2:
            continue
        latch = Block(len(blocks), successors=[head], text_place=max(end.text_place for end in ends) + 0.5)
        blocks.append(latch)
        for end in ends:
            end.successors = [latch.index if s == head else s for s in end.successors]


def _reverse_postorder(blocks: list[Block]) -> list[int]:
    """Depth-first from the entry; successors are taken so that a loop's body comes before its exit where possible."""

    def exits_first(block: Block) -> Iterator[int]:
        # In post-order what is visited first comes last in the result. Text order is the compiler's own layout, in
        # which loop bodies precede exits, so visiting the textually last successor first keeps that layout.
        return iter(sorted(block.successors, key=lambda s: blocks[s].text_place, reverse=True))

    seen = {0}
    postorder: list[int] = []
    stack: list[tuple[int, Iterator[int]]] = [(0, exits_first(blocks[0]))]
    while stack:
        index, successors = stack[-1]
        following = next((s for s in successors if s not in seen), None)
        if following is None:
            postorder.append(index)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, exits_first(blocks[following])))
    return postorder[::-1]


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


def _waiting(blocks: list[Block]) -> Iterator[tuple[int, int]]:
    for block in blocks:
        for head in block.successors:
            if head <= block.index and only_waits(i for each in blocks[head : block.index + 1] for i in each.body):
                yield block.index, head


def _waits_on_memory(block: Block) -> bool:
    """A loop with an atomic, volatile or acquiring access may be a lock: its lanes must take turns."""
    return block.in_cycle and any(map(may_wait, block.body))
