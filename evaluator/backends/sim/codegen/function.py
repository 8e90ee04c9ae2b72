"""One PTX function as a C++ function that runs one warp of it, 32 lanes at a time.

A block of the flow graph is a label. `m` holds the lanes that run now; lanes that went elsewhere wait in `pending`,
and the lowest block runs first (see ptx/control_flow.py). Lanes meet again by themselves, and a loop's early leavers
wait behind it.
"""

from collections.abc import Iterator
from itertools import accumulate

from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.codegen.instructions import COMPARISONS
from evaluator.backends.sim.codegen.operands import pair
from evaluator.backends.sim.codegen.scope import ModuleScope, signature
from evaluator.backends.sim.codegen.tensor_cores import Matrices
from evaluator.backends.sim.counters import operations, step_of
from evaluator.backends.sim.ptx.control_flow import Block, branch_labels, is_barrier, registers_in
from evaluator.backends.sim.ptx.model import TYPE_BYTES, Function, Immediate, Instruction, Register, Vector

_FENCES = {"cta", "gpu", "sys", "gl", "cluster", "sc", "acq_rel", "acquire", "release"}
_MODIFIERS: dict[str, set[str]] = {
    "setp": COMPARISONS | {"and", "or", "xor", "ftz"},
    "mov": set(),
    "trap": set(),
    "brkpt": set(),
    "pmevent": set(),
    "nanosleep": set(),
    "discard": {"global", "L2"},
    "exit": set(),
    "add": {"cc"},
    "sub": {"cc"},
    "mad": {"cc", "lo", "hi"},
    "addc": {"cc"},
    "subc": {"cc"},
    "madc": {"cc", "lo", "hi"},
    "shfl": {"sync", "up", "down", "bfly", "idx"},
    "vote": {"sync", "all", "any", "uni", "ballot"},
    "match": {"sync", "any", "all"},
    "redux": {"sync", "add", "min", "max", "and", "or", "xor"},
    "elect": {"sync"},
    "call": {"uni"},
    "bra": {"uni"},
    "brx": {"idx", "uni"},
    "ret": {"uni"},
    "bar": {"sync", "arrive", "red", "cta", "warp", "popc", "and", "or"},
    "barrier": {"sync", "arrive", "red", "cta", "aligned", "popc", "and", "or"},
    "membar": _FENCES,
    "fence": _FENCES,
    "prefetch": {"global", "local", "L1", "L2", "L2::evict_last", "L2::evict_normal"},
    "prefetchu": {"L1"},
    "griddepcontrol": {"launch_dependents", "wait"},
    "applypriority": {"global", "L2::evict_normal"},
}
"""What may stand behind an opcode that `Emitter.value` does not check, beside types."""
_MALFORMED = (AssertionError, AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError)
_SIDE_EFFECTS = {
    "ld", "ldu", "st", "atom", "red", "shfl", "vote", "match", "redux", "elect", "call", "trap", "discard",
    "mma", "wmma", "ldmatrix", "stmatrix", "movmatrix", "cp", "mbarrier",
}  # fmt: skip
_IGNORED = {"prefetch", "prefetchu", "brkpt", "nanosleep", "pmevent", "griddepcontrol", "applypriority"}


class FunctionText(Matrices):
    """One function as C++: its blocks, branches and barriers, and what each instruction becomes."""

    def __init__(self, module: ModuleScope, function: Function) -> None:
        super().__init__(module, function)
        self.waited_for = self._waited_for()
        self.ends = (0, *accumulate(len(block.body) for block in self.flow.blocks))

    # The whole

    def text(self) -> str:
        count = len(self.flow.blocks)
        used = {n for b in self.flow.blocks for i in b.body for o in i.operands for n in registers_in(o)}
        used |= {i.guard.name for b in self.flow.blocks for i in b.body if i.guard is not None}
        lines = [signature(self.module.indexes[self.function.name], self.function) + " {"]
        for name in sorted(used, key=lambda name: int(self.registers[name][0][1:])):
            text, width = self.registers[name]
            kind = "u32" if width == 1 else "U64" if width == 64 else "U32"
            poisoned = name in self.flow.blocks[0].live_in
            lines.append(f"{kind} {text}{self._poison(width) if poisoned else ''};")
        lines += [f"Slot<{v.size_bytes}> c{n};" for n, v in enumerate(self.call_slots)]
        start = "w.live" if self.function.is_entry else "entering"
        lines.append(f"Pending<{count}> pending; u32 m = {start}, cc = 0, returned = 0; int at = 0; u32 turns = 0;")
        lines.append("u32 bar_number = 0, bar_threads = 0; i32 bar_line = 0;")
        if not self.function.is_entry:
            lines.append("u32 local_top = w.local_top;")
            lines.append("if ((u8 *)__builtin_frame_address(0) < w.stack_limit)")
            lines.append('fault(w, m, "stack_overflow", -1, "called functions too deep");')
            lines.append(self._burn(self.ends[-1], -1))
        if self.frame_bytes:
            lines.append(f"U64 frame = local_frame(w, m, {self.frame_bytes}, -1);")
        lines.append("goto B0;")
        lines += self._dispatch(count)
        for block in self.flow.blocks:
            lines += self._block(block)
        lines.append("}")
        return "\n".join(lines)

    def _poison(self, width: int) -> str:
        pattern = "(u64)POISON * 0x0101010101010101ull"
        return " = ~0u" if width == 1 else f" = all64({pattern})" if width == 64 else f" = all32((u32)({pattern}))"

    def _waited_for(self) -> set[int]:
        """Blocks at which lanes may wait: joins, the far sides of branches, and what follows a barrier."""
        found: set[int] = set()
        arrivals: dict[int, int] = {0: 1}
        for block in self.flow.blocks:
            last = block.body[-1] if block.body else None
            for successor in block.successors:
                arrivals[successor] = arrivals.get(successor, 0) + 1
            if last is not None and is_barrier(last):
                found.update(block.successors)
            if last is not None and last.opcode == "brx":
                found.update(block.successors)
            elif len(block.successors) > 1:
                forward = [s for s in block.successors if s > block.index]
                if len(forward) == len(block.successors):
                    forward.remove(min(forward))
                found.update(forward)
        return found | {block for block, count in arrivals.items() if count > 1}

    def _dispatch(self, count: int) -> Iterator[str]:
        yield "dispatch:"
        yield f"if (pending.next == {count}) {{"
        yield "if (pending.parked & w.live) {"
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
        self.block = block
        yield f"B{block.index}: {{"
        self.number = self.module.begin_block()
        if block.body:
            yield f"enter(w, N[{self.number}], m, {len(block.body)});"
        ended = False
        for instruction in block.body:
            yield from self._instruction(instruction)
            ended = instruction.opcode in ("bra", "brx", "ret", "exit", "trap") and instruction.guard is None
        if not ended and not (block.body and self._leaves(block.body[-1])):
            following = block.successors[-1] if block.successors else None
            yield from self._go(following, block.body[-1].line if block.body else 0)
        yield "}"

    def _leaves(self, instruction: Instruction) -> bool:
        return instruction.opcode in ("bra", "brx") or is_barrier(instruction)

    # Control flow

    def _go(self, target: int | None, line: int, mask: str = "m") -> Iterator[str]:
        """Send all running lanes to one block; None is the end of the function."""
        if target is None:
            yield from self._leave(mask)
            yield "goto dispatch;"
        elif target <= self.block.index:
            yield from self._look_at_clock(line, target)
            yield f"goto B{target};"
        elif target not in self.waited_for:
            yield f"goto B{target};"
        else:
            yield f"if (__builtin_expect(pending.next > {target}, 1)) goto B{target};"
            yield f"pending.add({target}, m); goto dispatch;"

    def _look_at_clock(self, line: int, target: int) -> Iterator[str]:
        yield self._burn(self.ends[self.block.index + 1] - self.ends[target], self.module.place(line))
        if self.flow.spins:
            count = len(self.flow.blocks)
            yield f"if (pending.next != {count} && ++turns >= 256) {{ turns = 0;"
            yield f"pending.add({target}, m); m = pending.take_turn(at); goto resume; }}"
            yield f"if (pending.next <= {target}) {{ pending.add({target}, m); goto dispatch; }}"

    def _burn(self, instructions: int, place: int) -> str:
        cost = 1 + instructions // 16
        return f"if (__builtin_expect((w.fuel -= {cost}) < 0, 0)) watchdog(w, m, {place});"

    def _leave(self, mask: str) -> Iterator[str]:
        if self.function.is_entry:
            yield f"w.live &= ~({mask});"
        else:
            yield f"returned |= {mask};"

    def _end(self, instruction: Instruction) -> Iterator[str]:
        """`ret` and `exit`, guarded or not."""
        leaving = "m"
        if instruction.guard is not None:
            leaving = f"(m & {self._guard(instruction)})"
        if instruction.opcode == "exit" or self.function.is_entry:
            yield f"w.live &= ~{leaving};"
        else:
            yield f"returned |= {leaving};"
        if instruction.guard is None:
            yield "goto dispatch;"
        else:
            yield f"m &= ~{self._guard(instruction)}; if (!m) goto dispatch;"

    def _branch(self, instruction: Instruction) -> Iterator[str]:
        labels = branch_labels(self.function, instruction)
        place = self.module.place(instruction.line)
        if instruction.opcode == "brx":
            if instruction.guard is not None:
                raise self.emitter.unsupported("guarded")
            index = self.emitter.b32(instruction.operands[0])
            yield "u32 ways = 0;"
            for n, label in enumerate(labels):
                target = self.flow.labels[label]
                yield f"{{ u32 t = m & eq_b32({index}, all32({n})); if (t) {{ pending.add({target}, t); ways++; }} }}"
            yield f"N[{self.number}].diverged += ways > 1;"
            yield self._burn(self.ends[-1], place)
            yield "goto dispatch;"
            return
        taken = self.flow.labels[labels[0]]
        if instruction.guard is None:
            yield from self._go(taken, instruction.line)
            return
        here, otherwise = self.block.index, self.block.successors[-1]
        yield f"u32 taken = m & {self._guard(instruction)};"
        if taken > here and otherwise > here:
            # The lower block runs first; the lanes of the other wait there.
            first, second = min(taken, otherwise), max(taken, otherwise)
            waiting = "taken" if second == taken else "(m & ~taken)"
            yield f"u32 waiting = {waiting}; if (waiting != m) {{"
            yield f"if (waiting) {{ N[{self.number}].diverged++; pending.add({second}, waiting); m &= ~waiting; }}"
            yield from self._go(first, instruction.line)
            yield "}"
            yield from self._go(second, instruction.line)
        else:
            back, ahead = (taken, otherwise) if taken <= here else (otherwise, taken)
            looping = "taken" if back == taken else "(m & ~taken)"
            yield f"u32 looping = {looping}; if (looping) {{"
            yield f"if (looping != m) {{ N[{self.number}].diverged++;"
            yield f"pending.add({ahead}, m & ~looping); m = looping; }}"
            yield from self._go(back, instruction.line)
            yield "}"
            yield from self._go(ahead, instruction.line)

    def _barrier(self, i: Instruction) -> Iterator[str]:
        """bar.sync, bar.arrive, bar.red; lanes of a diverged warp wait for each other first."""
        if "cluster" in i.modifiers or i.guard is not None:
            raise UnsupportedError(i.text, i.line or None)
        following = self.block.successors[-1] if self.block.successors else None
        operands = list(i.operands)
        destination = operands.pop(0) if "red" in i.modifiers else None
        predicate = self.emitter.predicate(operands.pop()) if destination is not None else "0"
        place = self.module.place(i.line)
        number, threads = (
            f"of_warp(w, m, {self.emitter.b32(operands[n])}, {place})" if len(operands) > n else "0" for n in (0, 1)
        )
        count = len(self.flow.blocks)
        if "arrive" in i.modifiers:
            yield f"barrier(w, {number}, {threads}, NO_REDUCTION, 0, false, {place});"
        elif destination is not None:
            reduction = next((m.upper() for m in i.modifiers if m in ("popc", "and", "or")), "POPC")
            yield f"if (m != w.live || pending.next != {count})"
            yield f'fault(w, m, "divergent_barrier", {place}, '
            yield '"reached a reducing barrier with part of its warp");'
            yield f"u32 voted = barrier(w, {number}, {threads}, {reduction}, {predicate}, true, {place});"
            assert isinstance(destination, Register)
            value = "all32(voted)" if reduction == "POPC" else "(voted ? ~0u : 0u)"
            yield self._set(destination, value)
        elif self.function.is_entry:
            yield f"if (m == w.live && pending.next == {count}) {{"
            yield f"barrier(w, {number}, {threads}, NO_REDUCTION, 0, true, {place});"
            yield "} else {"
            if i.opcode == "bar" or "aligned" in i.modifiers:
                yield f'warn({place}, "a barrier was reached by part of a warp");'
                yield f"if (pending.parked & w.live) diverged(w, m, pending.parked & w.live, {place}, bar_line);"
            yield f"bar_number = {number}; bar_threads = {threads}; bar_line = {place};"
            yield f"pending.park({following if following is not None else 0}, m); goto dispatch; }}"
        else:
            yield f'if (m != w.live) fault(w, m, "divergent_barrier", {place}, '
            yield '"reached a barrier inside a device function with part of its warp");'
            yield f"barrier(w, {number}, {threads}, NO_REDUCTION, 0, true, {place});"
        yield from self._go(following, i.line)

    # Single instructions

    def _instruction(self, i: Instruction) -> list[str]:
        self.emitter.instruction = i
        first_site, guard = self.module.site_count, None
        try:
            lines = list(self._translated(i))
            if i.guard is not None and operations(i)[1]:
                guard = self.module.guard()
                # Before the instruction, which may write its own guard.
                lines.insert(0, f"COUNT(G[{guard}] += __builtin_popcount(m & {self._guard(i)}));")
        except _MALFORMED as error:
            # ptxas lets no such instruction pass; whatever did is still the submission's, and named.
            raise self.emitter.unsupported("in this form") from error
        self.module.note(step_of(i, range(first_site, self.module.site_count), guard))
        return lines

    def _check_modifiers(self, i: Instruction) -> None:
        if i.type == "b128":
            raise self.emitter.unsupported()
        carrying = "cc" in i.modifiers or i.opcode in ("addc", "subc", "madc")
        if i.opcode in ("add", "sub", "mad") and not carrying:
            return
        allowed = _MODIFIERS.get(i.opcode)
        if allowed is not None and not set(i.modifiers) <= allowed | TYPE_BYTES.keys():
            raise self.emitter.unsupported()

    def _translated(self, i: Instruction) -> Iterator[str]:
        self._check_modifiers(i)
        if i.opcode in ("bra", "brx"):
            yield from self._branch(i)
        elif i.opcode in ("ret", "exit"):
            yield from self._end(i)
        elif is_barrier(i):
            yield from self._barrier(i)
        elif i.guard is not None and i.opcode in _SIDE_EFFECTS:
            yield f"{{ u32 g = m & {self._guard(i)}; if (g) {{"
            self.mask = "g"
            yield from self._effect(i)
            self.mask = "m"
            yield "} }"
        elif i.opcode in _SIDE_EFFECTS:
            yield "{"
            yield from self._effect(i)
            yield "}"
        else:
            yield from self._plain_instruction(i)

    def _plain_instruction(self, i: Instruction) -> Iterator[str]:
        guarded = i.guard is not None
        if guarded:
            yield f"{{ u32 g = m & {self._guard(i)};"
        if i.opcode == "setp":
            yield from self._setp(i, guarded)
        elif i.opcode == "mov" and isinstance(i.operands[0], Vector):
            parts = i.operands[0].parts
            bits = self._moved_bits(i)
            values = self.emitter.unpacked(i.operands[1], len(parts), bits)
            kept = [f"t{n}" for n in range(len(parts))]
            yield "{ " + " ".join(f"U32 {t} = {value};" for t, value in zip(kept, values, strict=True))
            yield " ".join(self._set(p, t, guarded) for p, t in zip(parts, kept, strict=True)) + " }"
        elif i.opcode in ("add", "sub", "addc", "subc", "mad", "madc") and (
            "cc" in i.modifiers or i.opcode[-1] == "c"
        ):
            yield from self._carrying(i, guarded)
        elif i.opcode in ("membar", "fence"):
            yield "fence(w);"
        elif i.opcode == "bar":
            members = f"{'g' if guarded else 'm'}, {self.emitter.b32(i.operands[0])}"
            if isinstance(i.operands[0], Immediate) and i.operands[0].bits & 0xFFFFFFFF == 0xFFFFFFFF:
                yield f"warp_sync(w, {members});"  # which names every lane
            else:
                yield f"sync_members(w, {members}, {self.module.place(i.line)});"
        elif i.opcode in _IGNORED:
            yield ";"
        else:
            yield self._set(i.operands[0], self.emitter.value(i), guarded)
        if guarded:
            yield "}"

    def _moved_bits(self, i: Instruction) -> int:
        return TYPE_BYTES[i.type] * 8

    def _setp(self, i: Instruction, guarded: bool) -> Iterator[str]:
        first, second = pair(i.operands[0])
        plain = Instruction(
            i.opcode, tuple(m for m in i.modifiers if m not in ("and", "or", "xor")), i.operands, i.line
        )
        if i.type in ("f16x2", "bf16x2"):
            # Of packed halves the second predicate is the high half's, not the first one's opposite.
            value, opposite = self.emitter.halves_compared(plain)
        else:
            value = self.emitter.comparison(plain)
            opposite = f"~({value})"
        boolean = next((m for m in i.modifiers[1:] if m in ("and", "or", "xor")), None)
        if boolean is None:
            yield f"{{ u32 t = {value}, u = {opposite};"
            yield self._set(first, "t", guarded)
            if second is not None:
                yield self._set(second, "u", guarded)
            yield "}"
            return
        operator = {"and": "&", "or": "|", "xor": "^"}[boolean]
        other = self.emitter.predicate(i.operands[3])
        yield f"{{ u32 t = {value}, u = {opposite}, o = {other};"
        yield self._set(first, f"(t {operator} o)", guarded)
        if second is not None:
            yield self._set(second, f"(u {operator} o)", guarded)
        yield "}"

    def _carrying(self, i: Instruction, guarded: bool) -> Iterator[str]:
        """Extended precision: `cc` holds each lane's carry (PTX ISA 9.0, section 9.7.2).

        GPUs subtract by adding the complement, so what a subtraction leaves and takes is the carry of that sum, set
        where nothing was borrowed (measured). The ISA leaves that open; nvcc's 128-bit division builds on it.
        """
        bits = TYPE_BYTES[i.type] * 8
        if bits not in (32, 64):
            raise self.emitter.unsupported()
        kind = f"U{bits}"
        sources = [self.emitter.any(operand, bits) for operand in i.operands[1:]]
        name = i.opcode.removesuffix("c")
        if i.opcode in ("addc", "subc", "madc"):
            carry_in = f"pick(cc, all{bits}(1), all{bits}(0))"
        else:
            carry_in = f"all{bits}({int(name == 'sub')})"
        if name == "mad":
            product = (
                "mul_b" + str(bits) if "lo" in i.modifiers else f"mul_hi_{'s' if i.type[0] == 's' else 'u'}{bits}"
            )
            yield f"{{ {kind} x = {product}({sources[0]}, {sources[1]}), y = {sources[2]};"
        elif name == "sub":
            yield f"{{ {kind} x = {sources[0]}, y = not_b{bits}({sources[1]});"
        else:
            yield f"{{ {kind} x = {sources[0]}, y = {sources[1]};"
        yield f"{kind} t = add_b{bits}(x, y), r = add_b{bits}(t, {carry_in});"
        if "cc" in i.modifiers:
            yield f"u32 out = lt_u{bits}(t, x) | lt_u{bits}(r, t);"
            yield f"cc = pick({'g' if guarded else 'm'}, out, cc);"
        yield self._set(i.operands[0], "r", guarded) + " }"
