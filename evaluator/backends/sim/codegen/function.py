"""One PTX function as a C++ function that runs one warp of it, 32 lanes at a time.

A block of the flow graph is a label. `m` holds the lanes that run now; lanes that went elsewhere wait in `pending`,
and the lowest block runs first (see control_flow.py). Lanes meet again by themselves, and a loop's early leavers wait
behind it.
"""

from collections.abc import Iterator
from typing import Protocol

from evaluator.backends.sim.codegen.blocks import Block, ControlFlow
from evaluator.backends.sim.codegen.context import Context, ModuleScope
from evaluator.backends.sim.codegen.control_flow import control_flow
from evaluator.backends.sim.codegen.instructions import entry_of, lowered
from evaluator.backends.sim.codegen.layout import signature
from evaluator.backends.sim.codegen.lowering.memory import address
from evaluator.backends.sim.codegen.masks import (
    LoneStore,
    SharedBases,
    lane_masks,
    late_loads,
    lone_stores,
    passed_accesses,
    written,
)
from evaluator.backends.sim.codegen.steps import operations, step_of
from evaluator.backends.sim.codegen.waiting import gathers, is_reducing_barrier, members_of, parts
from evaluator.backends.sim.counters import Step
from evaluator.backends.sim.ptx.model import Function, Instruction, registers_in

_MALFORMED = (AssertionError, AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError)


class CountedModule(ModuleScope, Protocol):
    """A module that also numbers what is counted."""

    @property
    def site_count(self) -> int: ...

    def begin_block(self) -> int: ...

    def note(self, step: Step) -> None: ...

    def guard(self) -> int: ...


class FunctionText:
    """One function as C++: its variables, its dispatch, and its blocks."""

    def __init__(self, module: CountedModule, function: Function) -> None:
        self.module = module
        self.function = function
        self.flow = control_flow(function, passed_accesses(function))
        self.waited_for = set(range(len(self.flow.blocks))) if self.flow.apart else _waited_for(self.flow)
        self.context = Context(module, function, self.flow, lane_masks(self.flow), self.waited_for)
        self.context.bases = SharedBases(self.flow, self.context.shared)
        self.lone_stores = lone_stores(self.flow)
        self._uses = 0

    def text(self) -> str:
        c = self.context
        count = len(self.flow.blocks)
        used = {n for b in self.flow.blocks for i in b.body for o in i.operands for n in registers_in(o)}
        used |= {i.guard.name for b in self.flow.blocks for i in b.body if i.guard is not None}
        lines = [signature(self.module.indexes[self.function.name], self.function) + " {"]
        for name in sorted(used, key=lambda name: int(c.registers[name][0][1:])):
            text, width = c.registers[name]
            kind = "u32" if width == 1 else "U64" if width == 64 else "U32"
            poisoned = name in c.masks.live_in[0]
            lines.append(f"{kind} {text}{self._poison(width) if poisoned else ''};")
        lines += [f"Slot<{v.size_bytes}> c{n};" for n, v in enumerate(c.call_slots)]
        start = "w.live" if self.function.is_entry else "entering"
        kind = "Apart" if self.flow.apart else "Pending"
        lines.append(f"{kind}<{count}> pending; u32 m = {start}, cc = 0, returned = 0; int at = 0; u32 turns = 0;")
        lines.append("u32 bar_number = 0, bar_threads = 0, missing = 0; i32 bar_line = 0;")
        if not self.function.is_entry:
            lines.append("u32 local_top = w.local_top;")
            lines.append("if ((u8 *)__builtin_frame_address(0) < w.stack_limit)")
            lines.append('fault(w, m, "stack_overflow", -1, "called functions too deep");')
            first = next((i.line for b in self.flow.blocks for i in b.body), 0)
            lines.append(c.paths.burn_all(self.module.place(first)))
        if c.frame_bytes:
            lines.append(f"U64 frame = local_frame(w, m, {c.frame_bytes}, -1);")
        lines.append("goto B0;")
        lines += self._dispatch(count)
        for block in self.flow.blocks:
            lines += self._block(block)
        lines.append("}")
        return "\n".join(lines)

    def _poison(self, width: int) -> str:
        pattern = "undefined_word()"
        return " = ~0u" if width == 1 else f" = all64({pattern})" if width == 64 else f" = all32((u32)({pattern}))"

    def _dispatch(self, count: int) -> Iterator[str]:
        yield "dispatch:"
        yield f"if (pending.next == {count}) {{"
        if self.flow.apart:
            yield "if ((m = pending.give_up(at))) goto resume;"
        yield "if (pending.parked & w.live) {"
        yield "if (missing & ~pending.parked) partial_barrier(missing & ~pending.parked, bar_line);"
        yield "missing = 0;"
        yield "barrier(w, bar_number, bar_threads, NO_REDUCTION, 0, true, bar_line);"
        yield "pending.unpark(); goto dispatch; }"
        if self.function.is_entry:
            yield "return; }"
        else:
            yield "w.local_top = local_top; return returned & w.live; }"
        yield "m = pending.take(at);"
        yield "resume:"
        yield "m &= w.live; if (!m) goto dispatch;"
        cases = " ".join(f"case {n}: goto B{n};" for n in sorted(self.waited_for))
        yield f"switch (at) {{ {cases} default: __builtin_unreachable(); }}"

    def _block(self, block: Block) -> Iterator[str]:
        c = self.context
        c.block = block
        yield f"B{block.index}: {{"
        c.block_number = self.module.begin_block()
        if self.flow.apart and block.body and gathers(block.body[0], self.function):
            yield from self._meet(block)
        elif self.flow.apart and block.body and parts(block.body[0]):
            yield f"if (LANES_APART) m = pending.part({block.index}, m);"
        if block.body:
            yield f"enter(w, N[{c.block_number}], m, {len(block.body)});"
        late = late_loads(block.body)
        for position, instruction in enumerate(block.body):
            for load in late:
                if position in load.passed:
                    here, there = (address(c, instruction, place) for place in (load.address, load.passed[position]))
                    yield f"late{load.position} &= apart({here}, {there});"
            yield from self._instruction(instruction)
            for load in late:
                if position == load.position:
                    lanes = "m" if instruction.guard is None else f"m & {c.guard(instruction)}"
                    yield f"u32 late{position} = late_lanes({lanes});"
                elif position == max(load.passed):
                    yield from self._performed_late(block.body[load.position], load.position)
        if not (block.body and _leaves(block.body[-1])):
            following = block.successors[-1] if block.successors else None
            yield from c.paths.go(block.index, following, block.body[-1].line if block.body else 0)
        yield "}"

    def _meet(self, block: Block) -> Iterator[str]:
        """Have lanes that have parted wait here for those that the first instruction needs."""
        c, first = self.context, block.body[0]
        c.instruction = first
        members = members_of(first) if first.guard is None else None
        named = "all32(~0u)" if members is None else c.b32(members)
        if is_reducing_barrier(first):
            # In any run lanes of a loop that waits go on by turns, and one result is made of all of a warp.
            came = f"pending.meet({block.index}, m, {named}, w.live)"
            yield f"if ((m != w.live || pending.all_came) && !(m = {came})) goto dispatch;"
            return
        awaited = "w.live & ~w.leaving"
        came = f"pending.meet({block.index}, m, {named}, {awaited})"
        apart = "LANES_APART"
        if self.flow.spins and members is not None:
            # In any run lanes that wait here get a turn before those that still spin on what other blocks do.
            apart = f"(LANES_APART || m != ({awaited}) || pending.all_came)"
        yield f"if ({apart} && !(m = {came})) goto dispatch;"

    def _performed_late(self, i: Instruction, position: int) -> Iterator[str]:
        """A load once more, for the lanes that are drawn; in one memory for all there are none."""
        c = self.context
        c.instruction, c.mask = i, "g"
        yield f"if (__builtin_expect(late{position}, 0)) {{ u32 g = m & late{position};"
        yield from lowered(c)
        yield "}"
        c.mask = "m"

    def _lanes_that_use(self, lone: LoneStore, load: Instruction) -> Iterator[str]:
        """Have the context know the lanes that use what is loaded; a guard that comes later is worked out ahead."""
        c = self.context
        if not lone.guard:
            c.used = c.guard(lone.store)
            return
        registers, names = c.registers, {name for i in lone.guard for name in written(i)}
        ahead = {name: (f"ahead_{registers[name][0]}", registers[name][1]) for name in names}
        self._uses += 1
        used = f"used{self._uses}"
        yield f"u32 {used}; {{"
        try:
            c.registers = {**registers, **ahead}
            for text, width in ahead.values():
                kind = "u32" if width == 1 else "U64" if width == 64 else "U32"
                yield f"{kind} {text} = {'0' if width == 1 else 'all64(0)' if width == 64 else 'all32(0)'};"
            for i in lone.guard:
                c.instruction = i
                yield from _guarded(c)
            yield f"{used} = {c.guard(lone.store)}; }}"
        finally:
            c.registers, c.instruction = registers, load
        c.used = used

    def _instruction(self, i: Instruction) -> list[str]:
        c = self.context
        c.instruction = i
        first_site, guard = self.module.site_count, None
        try:
            before: list[str] = []
            if (lone := self.lone_stores.get(id(i))) is not None:
                before = list(self._lanes_that_use(lone, i))
            lines = [*before, *_guarded(c)]
            if i.guard is not None and operations(i)[1]:
                guard = self.module.guard()
                # Before the instruction, which may write its own guard.
                lines.insert(0, f"COUNT(G[{guard}] += __builtin_popcount(m & {c.guard(i)}));")
        except _MALFORMED as error:
            # ptxas lets no such instruction pass; whatever did is still the submission's, and named.
            raise c.unsupported("in this form") from error
        finally:
            c.used = None
        self.module.note(step_of(i, range(first_site, self.module.site_count), guard))
        return lines


def _guarded(c: Context) -> Iterator[str]:
    """The lines of the context's instruction, and what its guard puts around them."""
    i, guarding = c.instruction, entry_of(c.instruction).guarding
    if guarding == "own" or (guarding == "select" and i.guard is None):
        yield from lowered(c)
    elif i.guard is None:
        yield "{"
        yield from lowered(c)
        yield "}"
    else:
        yield f"{{ u32 g = m & {c.guard(i)};" + (" if (g) {" if guarding == "skip" else "")
        c.mask = "g"
        yield from lowered(c)
        c.mask = "m"
        yield "} }" if guarding == "skip" else "}"


def _leaves(last: Instruction) -> bool:
    """Whether no lane goes on behind the last instruction of a block by itself."""
    entry = entry_of(last)
    return entry.branches or entry.barrier or (entry.ends and last.guard is None)


def _waited_for(flow: ControlFlow) -> set[int]:
    """Blocks at which lanes may wait: joins, the far sides of branches, and what follows a barrier."""
    found: set[int] = set()
    arrivals: dict[int, int] = {0: 1}
    for block in flow.blocks:
        last = block.body[-1] if block.body else None
        for successor in block.successors:
            arrivals[successor] = arrivals.get(successor, 0) + 1
        if last is not None and entry_of(last).barrier:
            found.update(block.successors)
        if last is not None and entry_of(last).indexed:
            found.update(block.successors)
        elif len(block.successors) > 1:
            forward = [s for s in block.successors if s > block.index]
            if len(forward) == len(block.successors):
                forward.remove(min(forward))
            found.update(forward)
    return found | {block for block, count in arrivals.items() if count > 1}
