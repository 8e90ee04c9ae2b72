"""A PTX module as one C++ file: a function for each kernel that runs one warp of it, 32 lanes at a time.

A block of the flow graph is a label. `m` holds the lanes that run now; lanes that went elsewhere wait in `pending` and
the lowest block runs first (see flow.py). Lanes meet again by themselves, and a loop's early leavers wait behind it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from evaluator.backends.backend import Unsupported
from evaluator.backends.sim.flow import Block, Flow, analyse, branch_labels, is_barrier, may_wait, registers_in
from evaluator.backends.sim.instructions import COMPARISONS, Emitter, pair
from evaluator.backends.sim.ptx import (
    TYPE_BYTES,
    Address,
    Function,
    Immediate,
    Instruction,
    Module,
    Operand,
    Register,
    Symbol,
    Variable,
    Vector,
)

MODULE_SLOTS = 2000
MAX_INSTRUCTIONS = 60_000
_LOCAL_STACK_BYTES = 16 << 10
_BUILT_IN = ("vprintf", "__assertfail", "malloc", "free")
_ATOMICS = {
    "add": "A_ADD", "min": "A_MIN", "max": "A_MAX", "inc": "A_INC", "dec": "A_DEC",
    "and": "A_AND", "or": "A_OR", "xor": "A_XOR", "exch": "A_EXCH", "cas": "A_CAS",
}  # fmt: skip
_MEMORY_MODIFIERS = {
    "global", "shared", "local", "const", "param", "weak", "relaxed", "acquire", "release", "acq_rel", "volatile",
    "cta", "gpu", "sys", "cluster", "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "v2", "v4", "v8", "noftz", "sc",
    "unified", "entry", "func",
}  # fmt: skip
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
    "prefetch": {"global", "local", "L1", "L2"},
    "prefetchu": {"L1"},
}
"""What may stand behind an opcode that `Emitter.value` does not check, beside types."""
_MALFORMED = (AssertionError, AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError)
_MAX_PARAMETER_BYTES = 32 << 10
_SHUFFLES = {"up": "UP_", "down": "DOWN_", "bfly": "BFLY", "idx": "IDX"}


@dataclass(frozen=True)
class Translation:
    """C++ text that holds neither names nor source lines, so programs that differ only in those share one object.

    The runtime is told the names and lines when it starts.
    """

    text: str
    lines: tuple[int, ...]
    """Source line (0 unknown) of each place that the text mentions by number."""
    kernels: tuple[str, ...]
    """Symbols, in the order of the text's table."""
    variables: tuple[str, ...]


def translate(module: Module) -> Translation:
    """Translate the whole module. Raises Unsupported by the name of the first thing that cannot be run."""
    return _ModuleText(module).translation()


class _ModuleText:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.globals = [v for v in module.variables.values() if v.space in ("global", "const")]
        if len(self.globals) > MODULE_SLOTS:
            raise Unsupported(f"more than {MODULE_SLOTS} module variables")
        self.slots = {variable.name: index for index, variable in enumerate(self.globals)}
        self.functions = [f for f in module.functions.values() if f.defined]
        self.indexes = {function.name: index for index, function in enumerate(self.functions)}
        self.sites: list[int] = []
        self.lines: list[int] = []
        self.size = sum(len(function.body) for function in self.functions)
        if self.size > MAX_INSTRUCTIONS:
            raise Unsupported(f"a program of {self.size} instructions (the simulator takes {MAX_INSTRUCTIONS})")

    def site(self, line: int) -> str:
        """A new memory instruction's site."""
        self.sites.append(self.place(line))
        return f"S[{len(self.sites) - 1}]"

    def place(self, line: int) -> int:
        """The number by which the text speaks of a source line."""
        self.lines.append(line)
        return len(self.lines) - 1

    def translation(self) -> Translation:
        bodies = [_FunctionText(self, function).text() for function in self.functions]
        declarations = [f"{_signature(self.indexes[f.name], f)};" for f in self.functions if not f.is_entry]
        sites = _joined(f"{{0, 0, {place}}}" for place in self.sites) or "{}"
        text = "\n".join(
            [
                '#include "operations.h"',
                f"static Site S[] = {{{sites}}};",
                *declarations,
                *bodies,
                *self._tables(),
            ]
        )
        kernels = tuple(function.name for function in self.functions if function.is_entry)
        return Translation(text, tuple(self.lines), kernels, tuple(variable.name for variable in self.globals))

    def _tables(self) -> Iterator[str]:
        for index, variable in enumerate(self.globals):
            if variable.external:
                raise Unsupported(f"an external variable {variable.name}")
            if variable.initial:
                yield f"static const u8 v{index}[] = {{{_joined(map(str, self._content(variable)))}}};"
        rows = [
            f"{{{v.size_bytes}, {TYPE_BYTES[v.type]}, {f'v{i}' if v.initial else 'nullptr'}, "
            f"{'true' if v.space == 'const' else 'false'}}}"
            for i, v in enumerate(self.globals)
        ]
        yield f"static const ModuleVariable V[] = {{{_joined(rows) or '{}'}}};"
        kernels = [
            f"{{k{self.indexes[f.name]}, {_parameter_layout(f)[1]}, {self._shared_bytes(f)}, "
            f"{self._local_bytes()}, {'true' if self._warps_wait() else 'false'}}}"
            for f in self.functions
            if f.is_entry
        ]
        yield f"static const Kernel K[] = {{{_joined(kernels) or '{}'}}};"
        yield f"const Program PROGRAM = {{K, {len(kernels)}, V, {len(rows)}, S, {len(self.sites)}}};"

    def _content(self, variable: Variable) -> bytes:
        """The bytes of an initialised variable, addresses of other variables included."""
        item = TYPE_BYTES[variable.type]
        content = b""
        for value in variable.initial:
            if isinstance(value, Symbol):
                if item != 8 or value.name not in self.slots:
                    raise Unsupported(f"the initial value of {variable.name}")
                value = _slot_address(4 + self.slots[value.name])
            content += (value & (1 << 8 * item) - 1).to_bytes(item, "little")
        return content[: variable.size_bytes].ljust(variable.size_bytes, b"\0")

    def _shared(self, function: Function) -> list[Variable]:
        """Shared variables that a kernel can reach: its own, the module's and those of device functions."""
        inside = [v for f in self.functions if f is function or not f.is_entry for v in f.variables.values()]
        module = [v for v in self.module.variables.values() if v.space == "shared"]
        own = [v for v in inside if v.space == "shared"]
        # The module's come first, so that device functions find them at the same place whatever kernel calls them.
        return sorted(module, key=lambda v: -v.align) + sorted(own, key=lambda v: -v.align)

    def shared_offsets(self, function: Function) -> dict[str, int]:
        """Where each shared variable lies; dynamic shared memory (size 0) follows all static ones."""
        if not function.is_entry and any(v.space == "shared" for v in function.variables.values()):
            raise Unsupported(f"shared memory declared in the device function {function.name}")
        offsets: dict[str, int] = {}
        top = 0
        for variable in self._shared(function):
            if variable.size_bytes:
                top = -(-top // variable.align) * variable.align
                offsets[variable.name] = top
                top += variable.size_bytes
        top = -(-top // 16) * 16
        return offsets | {v.name: top for v in self._shared(function) if not v.size_bytes}

    def _shared_bytes(self, function: Function) -> int:
        static = [v for v in self._shared(function) if v.size_bytes]
        offsets = self.shared_offsets(function)
        end = max((offsets[v.name] + v.size_bytes for v in static), default=0)
        return -(-end // 16) * 16 if len(static) < len(self._shared(function)) else end

    def _local_bytes(self) -> int:
        """Local memory of a thread: all frames once, and room for recursion where functions call each other."""
        frames = sum(_frame(function)[1] for function in self.functions)
        return frames + (_LOCAL_STACK_BYTES if any(not f.is_entry for f in self.functions) and frames else 0)

    def _warps_wait(self) -> bool:
        """Whether a warp may wait for another one of its block: at a barrier, or for what that one writes."""
        return any(
            isinstance(i, Instruction) and (is_barrier(i) or may_wait(i)) for f in self.functions for i in f.body
        )


def _joined(parts: "Iterator[str] | list[str] | map[str]") -> str:
    return ", ".join(parts)


def _slot_address(slot: int) -> int:
    return (1 << 44) + (slot << 34) + (1 << 33)


def _parameter_layout(function: Function) -> tuple[dict[str, int], int]:
    offsets: dict[str, int] = {}
    top = 0
    for variable in function.parameters:
        top = -(-top // variable.align) * variable.align
        offsets[variable.name] = top
        top += variable.size_bytes
    if top > _MAX_PARAMETER_BYTES:
        raise Unsupported(f"{top} bytes of parameters")
    return offsets, top


def _frame(function: Function) -> tuple[dict[str, int], int]:
    """Offsets of a function's local variables, and the frame's size."""
    offsets: dict[str, int] = {}
    top = 0
    for variable in function.variables.values():
        if variable.space == "local":
            top = -(-top // variable.align) * variable.align
            offsets[variable.name] = top
            top += variable.size_bytes
    return offsets, -(-top // 16) * 16


def _signature(index: int, function: Function) -> str:
    if function.is_entry:
        return f"static void k{index}(Warp &w)"
    slots = [f"u8 *a{n}" for n in range(len(function.returns) + len(function.parameters))]
    return f"static u32 k{index}({', '.join(['Warp &w', 'u32 entering', *slots])})"


def _stride(variable: Variable) -> int:
    return -(-variable.size_bytes // 16) * 16


class _FunctionText:
    """One function. Every C++ name is made from an index; nothing of the PTX text but numbers is copied."""

    def __init__(self, module: _ModuleText, function: Function) -> None:
        self.module = module
        self.function = function
        self.flow: Flow = analyse(function)
        self.registers = {
            name: (f"r{index}", 1 if kind == "pred" else 64 if TYPE_BYTES[kind] == 8 else 8 * TYPE_BYTES[kind])
            for index, (name, kind) in enumerate(function.registers.items())
        }
        for name, (_, width) in self.registers.items():
            if width == 128:
                raise Unsupported(f"the 128-bit register {name}")
        self.emitter = Emitter(self.registers, self.address_of)
        self.frame, self.frame_bytes = _frame(function)
        self.shared = module.shared_offsets(function)
        self.parameters, _ = _parameter_layout(function) if function.is_entry else ({}, 0)
        # Call parameters: name to (C++ pointer, stride).
        self.slots: dict[str, tuple[str, int]] = {}
        if not function.is_entry:
            for n, variable in enumerate((*function.returns, *function.parameters)):
                self.slots[variable.name] = (f"a{n}", _stride(variable))
        self.call_slots = [v for v in function.variables.values() if v.space == "param"]
        if sum(v.size_bytes for v in self.call_slots) > _MAX_PARAMETER_BYTES:
            raise Unsupported(f"more than {_MAX_PARAMETER_BYTES} bytes of call parameters")
        for n, variable in enumerate(self.call_slots):
            self.slots[variable.name] = (f"(u8 *)c{n}.bytes", _stride(variable))
        self.block = self.flow.blocks[0]
        self.waited_for = self._waited_for()
        self.mask = "m"

    # Names

    def address_of(self, name: str) -> tuple[str, int]:
        """A symbol's address: shared ones are offsets into their space, the others generic."""
        if name in self.shared:
            return f"all32({self.shared[name]})", 32
        if name in self.frame:
            return f"add_b64(frame, all64({self.frame[name]}))", 64
        if name in self.module.slots:
            return f"all64({_slot_address(4 + self.module.slots[name])}ull)", 64
        if name in self.parameters:
            return f"all64(slot_address(PARAMETER_SLOT) + {self.parameters[name]})", 64
        raise Unsupported(f"the address of {name}", self.emitter.instruction.line or None)

    # The whole

    def text(self) -> str:
        count = len(self.flow.blocks)
        used = {n for b in self.flow.blocks for i in b.body for o in i.operands for n in registers_in(o)}
        used |= {i.guard.name for b in self.flow.blocks for i in b.body if i.guard is not None}
        lines = [_signature(self.module.indexes[self.function.name], self.function) + " {"]
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
        yield "barrier(w, bar_number, bar_threads, NO_REDUCTION, 0, true, bar_line); pending.unpark(); goto dispatch; }"
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
        if block.body:
            yield f"w.executed += (u64)__builtin_popcount(m) * {len(block.body)};"
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
        yield f"if (__builtin_expect(--w.fuel < 0, 0)) watchdog(w, m, {self.module.place(line)});"
        if self.flow.spins:
            count = len(self.flow.blocks)
            yield f"if (pending.next != {count} && ++turns >= 256) {{ turns = 0;"
            yield f"pending.add({target}, m); m = pending.take_turn(at); goto resume; }}"
            yield f"if (pending.next <= {target}) {{ pending.add({target}, m); goto dispatch; }}"

    def _leave(self, mask: str) -> Iterator[str]:
        if self.function.is_entry:
            yield f"w.live &= ~({mask});"
        else:
            yield f"returned |= {mask};"

    def _end(self, instruction: Instruction) -> Iterator[str]:
        """ret and exit, guarded or not."""
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

    def _guard(self, instruction: Instruction) -> str:
        assert instruction.guard is not None
        text = self.registers[instruction.guard.name][0]
        return f"(~{text})" if instruction.guard_negated else text

    def _branch(self, instruction: Instruction) -> Iterator[str]:
        labels = branch_labels(self.function, instruction)
        place = self.module.place(instruction.line)
        if instruction.opcode == "brx":
            if instruction.guard is not None:
                raise self.emitter.unsupported("guarded")
            index = self.emitter.b32(instruction.operands[0])
            for n, label in enumerate(labels):
                yield f"{{ u32 t = m & eq_b32({index}, all32({n})); if (t) pending.add({self.flow.labels[label]}, t); }}"
            yield f"if (--w.fuel < 0) watchdog(w, m, {place});"
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
            yield f"if (waiting) {{ pending.add({second}, waiting); m &= ~waiting; }}"
            yield from self._go(first, instruction.line)
            yield "}"
            yield from self._go(second, instruction.line)
        else:
            back, ahead = (taken, otherwise) if taken <= here else (otherwise, taken)
            looping = "taken" if back == taken else "(m & ~taken)"
            yield f"u32 looping = {looping}; if (looping) {{"
            yield f"if (looping != m) {{ pending.add({ahead}, m & ~looping); m = looping; }}"
            yield from self._go(back, instruction.line)
            yield "}"
            yield from self._go(ahead, instruction.line)

    def _barrier(self, i: Instruction) -> Iterator[str]:
        """bar.sync, bar.arrive, bar.red; lanes of a diverged warp wait for each other first."""
        if "cluster" in i.modifiers or i.guard is not None:
            raise Unsupported(i.text, i.line or None)
        following = self.block.successors[-1] if self.block.successors else None
        operands = list(i.operands)
        destination = operands.pop(0) if "red" in i.modifiers else None
        predicate = self.emitter.predicate(operands.pop()) if destination is not None else "0"
        number = f"spread({self.emitter.b32(operands[0])}).e[__builtin_ctz(m)]" if operands else "0"
        threads = f"spread({self.emitter.b32(operands[1])}).e[__builtin_ctz(m)]" if len(operands) > 1 else "0"
        count = len(self.flow.blocks)
        if "arrive" in i.modifiers:
            yield f"barrier(w, {number}, {threads}, NO_REDUCTION, 0, false, {self.module.place(i.line)});"
        elif destination is not None:
            reduction = next((m.upper() for m in i.modifiers if m in ("popc", "and", "or")), "POPC")
            yield f"if (m != w.live || pending.next != {count})"
            yield f'fault(w, m, "divergent_barrier", {self.module.place(i.line)}, "reached a reducing barrier with part of its warp");'
            yield f"u32 voted = barrier(w, {number}, {threads}, {reduction}, {predicate}, true, {self.module.place(i.line)});"
            assert isinstance(destination, Register)
            value = "all32(voted)" if reduction == "POPC" else "(voted ? ~0u : 0u)"
            yield self._set(destination, value)
        elif self.function.is_entry:
            yield f"if (m == w.live && pending.next == {count}) {{"
            yield f"barrier(w, {number}, {threads}, NO_REDUCTION, 0, true, {self.module.place(i.line)});"
            yield "} else {"
            yield f'warn({self.module.place(i.line)}, "a barrier was reached by part of a warp");'
            yield f"bar_number = {number}; bar_threads = {threads}; bar_line = {self.module.place(i.line)};"
            yield f"pending.park({following if following is not None else 0}, m); goto dispatch; }}"
        else:
            yield f'if (m != w.live) fault(w, m, "divergent_barrier", {self.module.place(i.line)}, '
            yield '"reached a barrier inside a device function with part of its warp");'
            yield f"barrier(w, {number}, {threads}, NO_REDUCTION, 0, true, {self.module.place(i.line)});"
        yield from self._go(following, i.line)

    # Single instructions

    def _instruction(self, i: Instruction) -> list[str]:
        self.emitter.instruction = i
        try:
            return list(self._translated(i))
        except _MALFORMED as error:
            # ptxas lets no such instruction pass; whatever did is still the submission's, and named.
            raise self.emitter.unsupported("in this form") from error

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

    def _set(self, register: Operand | None, value: str, guarded: bool = False) -> str:
        """Assign to a register, keeping the lanes that must keep their value."""
        if register is None or register == Symbol("_"):
            return f"(void)({value});"
        if not isinstance(register, Register):
            raise self.emitter.unsupported("a destination that is not a register")
        text, width = self.registers[register.name]
        if guarded or self.mask == "g" or self.flow.needs_mask(self.block, register.name):
            return f"{text} = pick({self.mask if not guarded else 'g'}, {value}, {text});"
        return f"{text} = {value};"

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
        value = self.emitter.comparison(plain)
        boolean = next((m for m in i.modifiers[1:] if m in ("and", "or", "xor")), None)
        if boolean is None:
            yield self._set(first, value, guarded)
            if second is not None:
                yield self._set(second, f"~({value})", guarded)
            return
        operator = {"and": "&", "or": "|", "xor": "^"}[boolean]
        other = self.emitter.predicate(i.operands[3])
        yield f"{{ u32 t = {value}, o = {other};"
        yield self._set(first, f"(t {operator} o)", guarded)
        if second is not None:
            yield self._set(second, f"(~t {operator} o)", guarded)
        yield "}"

    def _carrying(self, i: Instruction, guarded: bool) -> Iterator[str]:
        """Extended precision: cc holds each lane's carry or borrow (PTX ISA 9.7.2)."""
        bits = TYPE_BYTES[i.type] * 8
        if guarded or bits not in (32, 64):
            raise self.emitter.unsupported("guarded")
        kind = f"U{bits}"
        sources = [self.emitter.any(operand, bits) for operand in i.operands[1:]]
        name = i.opcode.removesuffix("c") if i.opcode != "sub" else "sub"
        carry_in = (
            f"pick(cc, all{bits}(1), all{bits}(0))" if i.opcode in ("addc", "subc", "madc") else f"all{bits}(0)"
        )
        if name == "mad":
            product = (
                "mul_b" + str(bits) if "lo" in i.modifiers else f"mul_hi_{'s' if i.type[0] == 's' else 'u'}{bits}"
            )
            yield f"{{ {kind} x = {product}({sources[0]}, {sources[1]}), y = {sources[2]};"
        else:
            yield f"{{ {kind} x = {sources[0]}, y = {sources[1]};"
        if name == "sub":
            yield f"{kind} t = sub_b{bits}(x, y), r = sub_b{bits}(t, {carry_in});"
            yield f"u32 out = lt_u{bits}(x, y) | lt_u{bits}(t, r);"
        else:
            yield f"{kind} t = add_b{bits}(x, y), r = add_b{bits}(t, {carry_in});"
            yield f"u32 out = lt_u{bits}(t, x) | lt_u{bits}(r, t);"
        if "cc" in i.modifiers:
            yield "cc = pick(m, out, cc);"
        yield self._set(i.operands[0], "r") + " }"

    # Memory and the rest with side effects

    def _effect(self, i: Instruction) -> Iterator[str]:
        method = getattr(self, f"_do_{i.opcode}", None)
        if method is None:
            raise self.emitter.unsupported()
        yield from method(i)

    def _check_memory(self, i: Instruction) -> None:
        for modifier in i.modifiers:
            if modifier in _MEMORY_MODIFIERS or modifier in TYPE_BYTES:
                continue
            if modifier in _ATOMICS and i.opcode in ("atom", "red"):
                continue
            if (
                "::" in modifier
                and modifier.split("::")[0] in ("L1", "L2", "shared", "param")
                and "cache_hint" not in modifier
            ):
                if modifier != "shared::cluster":
                    continue
            raise self.emitter.unsupported()

    def _space(self, i: Instruction) -> str:
        for modifier in i.modifiers:
            name = modifier.split("::")[0]
            if name in ("global", "shared", "local", "const", "param"):
                return name
        return "generic"

    def _address(self, i: Instruction, operand: Operand) -> str:
        if not isinstance(operand, Address):
            raise self.emitter.unsupported("no address")
        text = self.emitter.b64(operand.base)
        offset = operand.offset
        if self._space(i) == "shared":
            return f"add_b64({text}, all64(slot_address(SHARED_SLOT) + {offset}ll))"
        if isinstance(operand.base, Symbol) and operand.base.name in self.shared:
            raise self.emitter.unsupported("a shared variable in another space")
        return f"add_b64({text}, all64((u64){offset}ll))" if offset else text

    def _shape(self, i: Instruction) -> tuple[int, int]:
        """Bytes of an element, and elements."""
        size = TYPE_BYTES[i.type]
        parts = next((int(m[1]) for m in i.modifiers if m in ("v2", "v4", "v8")), 1)
        if size == 16 or (parts == 8 and size != 4):
            raise self.emitter.unsupported()
        return size, parts

    def _loaded(self, text: str, kind: str, register: Operand) -> str:
        """Extend a loaded element to its register."""
        width = self.emitter.width(register)
        size = TYPE_BYTES[kind]
        if size == 8:
            return text
        text = self.emitter.signed(text, kind)
        if width == 64:
            return f"widen_{'s' if kind[0] == 's' else 'u'}({text})"
        return f"low16({text})" if width == 16 and kind in ("s8", "s16") else text

    def _do_ld(self, i: Instruction) -> Iterator[str]:
        self._check_memory(i)
        size, parts = self._shape(i)
        destination, source = i.operands[0], i.operands[1]
        registers = destination.parts if isinstance(destination, Vector) else (destination,)
        if not isinstance(source, Address) or len(registers) != parts:
            raise self.emitter.unsupported()
        if self._space(i) == "param" and isinstance(source.base, Symbol):
            for n, register in enumerate(registers):
                value = self._parameter(source.base.name, source.offset + n * size, size)
                yield self._set(register, self._loaded(value, i.type, register))
            return
        kind = "U64" if size == 8 else "U32"
        address = self._address(i, source)
        yield f"{kind} t[{parts}]; load<{size}, {parts}>(w, {self.mask}, {address}, {self.module.site(i.line)}, t);"
        for n, register in enumerate(registers):
            yield self._set(register, self._loaded(f"t[{n}]", i.type, register))

    _do_ldu = _do_ld

    def _parameter(self, name: str, offset: int, size: int) -> str:
        if name in self.slots:
            pointer, stride = self.slots[name]
            if offset < 0 or offset + size > stride:
                raise self.emitter.unsupported("outside a parameter")
            return f"slot_load{64 if size == 8 else 32}({pointer}, {stride}, {offset}, {size})"
        if name not in self.parameters:
            raise self.emitter.unsupported("an unknown parameter")
        declared = next(p for p in self.function.parameters if p.name == name)
        if offset < 0 or offset + size > declared.size_bytes:
            raise self.emitter.unsupported("outside a parameter")
        bits = 64 if size == 8 else 32
        cast = "" if size == 8 else "(u32)"
        return f"all{bits}({cast}parameter<{size}>(w, {self.parameters[name] + offset}))"

    def _do_st(self, i: Instruction) -> Iterator[str]:
        self._check_memory(i)
        size, parts = self._shape(i)
        target, source = i.operands
        values = source.parts if isinstance(source, Vector) else (source,)
        if not isinstance(target, Address) or len(values) != parts:
            raise self.emitter.unsupported()
        texts = [self.emitter.b64(v) if size == 8 else self.emitter.b32(v) for v in values]
        if self._space(i) == "param" and isinstance(target.base, Symbol) and target.base.name in self.slots:
            pointer, stride = self.slots[target.base.name]
            for n, text in enumerate(texts):
                offset = target.offset + n * size
                if offset < 0 or offset + size > stride:
                    raise self.emitter.unsupported("outside a parameter")
                yield f"slot_store({pointer}, {stride}, {offset}, {size}, {self.mask}, {text});"
            return
        kind = "U64" if size == 8 else "U32"
        yield f"{kind} t[{parts}] = {{{', '.join(texts)}}};"
        address = self._address(i, target)
        yield f"store<{size}, {parts}>(w, {self.mask}, {address}, {self.module.site(i.line)}, t);"

    def _do_atom(self, i: Instruction) -> Iterator[str]:
        self._check_memory(i)
        destination, target, *values = i.operands
        operation = next((m for m in i.modifiers if m in _ATOMICS), "")
        size = TYPE_BYTES[i.type]
        if not operation or size not in (2, 4, 8) or any(isinstance(v, Vector) for v in values):
            raise self.emitter.unsupported()
        name = _ATOMICS[operation]
        if i.type in ("f32", "f64", "f16", "f16x2", "bf16", "bf16x2"):
            halves = {"f16": "A_HADD", "f16x2": "A_H2ADD", "bf16": "A_BADD", "bf16x2": "A_B2ADD"}
            if operation != "add":
                raise self.emitter.unsupported()
            name = halves.get(i.type, "A_FADD")
        elif i.type[0] == "s" and operation in ("min", "max"):
            name = f"A_S{operation.upper()}"
        bits = 64 if size == 8 else 32
        texts = [self.emitter.any(v, bits) for v in values]
        texts += [f"all{bits}(0)"] * (2 - len(texts))
        address = self._address(i, target)
        call = (
            f"atomic{size * 8}(w, {self.mask}, {address}, {self.module.site(i.line)}, {name}, {texts[0]}, {texts[1]})"
        )
        yield self._set(destination, call)

    def _do_red(self, i: Instruction) -> Iterator[str]:
        yield from self._do_atom(Instruction("red", i.modifiers, (Symbol("_"), *i.operands), i.line))

    def _do_shfl(self, i: Instruction) -> Iterator[str]:
        if i.modifiers[0] != "sync" or i.modifiers[1] not in _SHUFFLES:
            raise self.emitter.unsupported("a shuffle without .sync" if i.modifiers[0] != "sync" else "")
        first, second = pair(i.operands[0])
        value, b, c, members = (self.emitter.b32(operand) for operand in i.operands[1:5])
        mode = _SHUFFLES[i.modifiers[1]]
        yield f"u32 valid; U32 r = shuffle(w, {self.mask}, {mode}, {value}, {b}, {c}, {members}, &valid, {self.module.place(i.line)});"
        yield self._set(first, "r")
        if second is not None:
            yield self._set(second, "valid")

    def _do_vote(self, i: Instruction) -> Iterator[str]:
        if i.modifiers[0] != "sync":
            raise self.emitter.unsupported("a vote without .sync")
        mode = i.modifiers[1].upper()
        predicate, members = self.emitter.predicate(i.operands[1]), self.emitter.b32(i.operands[2])
        call = f"vote(w, {self.mask}, {mode}, {predicate}, {members}, {self.module.place(i.line)})"
        yield self._set(i.operands[0], f"all32({call})" if mode == "BALLOT" else call)

    def _do_match(self, i: Instruction) -> Iterator[str]:
        first, second = pair(i.operands[0])
        bits = TYPE_BYTES[i.type] * 8
        value, members = self.emitter.any(i.operands[1], bits), self.emitter.b32(i.operands[2])
        if "any" in i.modifiers:
            yield self._set(first, f"match_any(w, {self.mask}, {value}, {members})")
            return
        yield f"u32 same; U32 r = match_all(w, {self.mask}, {value}, {members}, &same);"
        yield self._set(first, "r")
        if second is not None:
            yield self._set(second, "same")

    def _do_redux(self, i: Instruction) -> Iterator[str]:
        operation = next((m for m in i.modifiers if m in _ATOMICS), "")
        if operation not in ("add", "min", "max", "and", "or", "xor") or i.type[0] == "f":
            raise self.emitter.unsupported()
        name = f"A_{'S' if i.type == 's32' and operation in ('min', 'max') else ''}{operation.upper()}"
        value, members = (self.emitter.b32(operand) for operand in i.operands[1:3])
        yield self._set(
            i.operands[0], f"reduce(w, {self.mask}, {name}, {value}, {members}, {self.module.place(i.line)})"
        )

    def _do_elect(self, i: Instruction) -> Iterator[str]:
        first, second = pair(i.operands[0])
        yield self._set(first, f"all32(__builtin_ctz({self.mask}))")
        if second is not None:
            yield self._set(second, f"first_lane({self.mask})")

    def _do_trap(self, i: Instruction) -> Iterator[str]:
        yield f'fault(w, {self.mask}, "trap", {self.module.place(i.line)}, "executed a trap");'

    def _do_call(self, i: Instruction) -> Iterator[str]:
        operands = [operand for operand in i.operands if not isinstance(operand, Immediate)]
        returns = operands.pop(0).parts if isinstance(operands[0], Vector) else ()  # type: ignore[union-attr]
        target = operands[0]
        arguments = operands[1].parts if len(operands) > 1 and isinstance(operands[1], Vector) else ()
        if not isinstance(target, Symbol):
            raise self.emitter.unsupported("through a function pointer")
        slots = []
        for operand in (*returns, *arguments):
            if not isinstance(operand, Symbol) or operand.name not in self.slots:
                raise self.emitter.unsupported("an argument that is not a parameter variable")
            slots.append(self.slots[operand.name])
        if target.name in _BUILT_IN:
            yield from self._built_in(i, target.name, slots)
            return
        if target.name not in self.module.indexes:
            raise self.emitter.unsupported(f"an unknown function {target.name}")
        callee = self.module.functions[self.module.indexes[target.name]]
        if callee.is_entry:
            raise self.emitter.unsupported("of a kernel: dynamic parallelism")
        declared = (*callee.returns, *callee.parameters)
        if [_stride(v) for v in declared] != [stride for _, stride in slots]:
            raise self.emitter.unsupported("with other parameters than declared")
        pointers = ", ".join(["w", self.mask, *(pointer for pointer, _ in slots)])
        yield f"u32 back = k{self.module.indexes[target.name]}({pointers}); (void)back;"
        yield "m &= w.live; if (!m) goto dispatch;"

    def _built_in(self, i: Instruction, name: str, slots: list[tuple[str, int]]) -> Iterator[str]:
        def value(n: int) -> str:
            pointer, stride = slots[n]
            return f"slot_load64({pointer}, {stride}, 0, 8)"

        if name == "vprintf":
            yield f"U32 n; device_printf(w, {self.mask}, {value(1)}, {value(2)}, &n);"
            yield f"slot_store({slots[0][0]}, {slots[0][1]}, 0, 4, {self.mask}, n);"
        elif name == "malloc":
            yield f"U64 p = device_malloc(w, {self.mask}, {value(1)});"
            yield f"slot_store({slots[0][0]}, {slots[0][1]}, 0, 8, {self.mask}, p);"
        elif name == "free":
            yield f"device_free(w, {self.mask}, {value(0)});"
        else:
            pointers = ", ".join(pointer for pointer, _ in slots)
            strides = ", ".join(str(stride) for _, stride in slots)
            yield f"const u8 *texts[] = {{{pointers}}}; const u32 strides[] = {{{strides}}};"
            yield f"device_assert(w, {self.mask}, texts, strides, {self.module.place(i.line)});"


_SIDE_EFFECTS = {
    "ld", "ldu", "st", "atom", "red", "shfl", "vote", "match", "redux", "elect", "call", "trap",
}  # fmt: skip
_IGNORED = {"membar", "fence", "prefetch", "prefetchu", "brkpt", "nanosleep", "bar", "barrier", "pmevent", "discard"}
