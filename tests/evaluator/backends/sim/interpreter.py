"""A slow and obvious interpreter of PTX: one thread at a time, one instruction at a time, on Python integers.

Written from the PTX ISA's text alone, as an oracle for the simulator. Each thread is a generator with registers and
a program counter of its own. It runs by itself until an instruction that others see (warp-wide operations, atomics,
volatile accesses, barriers), and its warp resolves those: when all lanes have stopped, the lanes at the earliest
place go on together. Registers hold unsigned integers of their width, predicates hold 0 or 1.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import tensors
import values
import words

from evaluator.backends.sim.ptx.model import (
    TYPE_BYTES,
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    Part,
    Register,
    Relocation,
    Special,
    Symbol,
    Vector,
)

REGION = 1 << 40
SHARED, LOCAL, PARAMETERS, FUNCTIONS, FIRST_GLOBAL = 1, 2, 3, 4, 16
STEP_LIMIT = 3_000_000
TOGETHER = tensors.MATRICES | {
    "bar", "shfl", "vote", "match", "redux", "elect", "activemask", "atom", "red", "mbarrier",
}  # fmt: skip


class TrapError(Exception):
    """The program did what it must not, or runs for ever."""


@dataclass
class Machine:
    """Memory and launches of one module. An address is a region's number times 2^40, plus an offset."""

    module: Module
    poison: int = 0xCD
    regions: dict[int, bytearray] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)
    barriers: dict[int, list[int]] = field(default_factory=dict)
    """Barrier objects in shared memory."""
    workspace: int = 0
    """Where the blocks of a cooperative launch meet."""
    steps: int = 0

    def __post_init__(self) -> None:
        variables = [v for v in self.module.variables.values() if v.space in ("global", "const")]
        for variable in variables:
            self.symbols[variable.name] = self.allocate(bytearray(variable.size_bytes))
        for variable in variables:
            item, start = TYPE_BYTES[variable.type], self.symbols[variable.name]
            for index, value in enumerate(variable.initial):
                number = self.initial(value)
                self.write(start + index * item, (number & (1 << 8 * item) - 1).to_bytes(item, "little"))

    def initial(self, value: "int | Symbol | Relocation") -> int:
        """An initial value as a number; all functions have addresses, at which nothing is."""
        if isinstance(value, int):
            return value
        functions = list(self.module.functions)
        where = self.symbols.get(value.name)
        if where is None:
            where = FUNCTIONS * REGION + 16 * functions.index(value.name)
        if isinstance(value, Symbol):
            return where
        return where + value.offset >> 8 * (value.byte or 0)

    def function_at(self, address: int) -> Function:
        region, offset = divmod(address, REGION)
        functions = list(self.module.functions.values())
        if region != FUNCTIONS or offset % 16 or offset // 16 >= len(functions):
            raise TrapError(f"called {address:#x}")
        return functions[offset // 16]

    def allocate(self, content: bytearray) -> int:
        """A new region that holds `content`; its address."""
        number = FIRST_GLOBAL + len([n for n in self.regions if n >= FIRST_GLOBAL])
        self.regions[number] = content
        return number * REGION

    def place(self, address: int, size: int, local: bytearray | None) -> tuple[bytearray, int]:
        number, offset = divmod(address, REGION)
        content = local if number == LOCAL else self.regions.get(number)
        if content is None or offset + size > len(content) or offset % size:
            raise TrapError(f"bad address {address:#x}")
        return content, offset

    def is_shared(self, address: int) -> bool:
        """Whether an address is one in shared memory."""
        return address // REGION == SHARED

    def read(self, address: int, size: int, local: bytearray | None = None) -> bytes:
        content, offset = self.place(address, size, local)
        return bytes(content[offset : offset + size])

    def write(self, address: int, data: bytes, local: bytearray | None = None) -> None:
        content, offset = self.place(address, len(data), local)
        content[offset : offset + len(data)] = data

    def launch(
        self,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        parameters: bytes,
        dynamic_bytes: int = 0,
        cooperative: bool = False,
    ) -> None:
        """Run all blocks, one after the other; those of a cooperative launch by turns."""
        function = self.module.functions[kernel]
        offsets, top = _layout([v for v in self._shared(function) if v.size_bytes])
        top = -(-top // 16) * 16
        self.symbols |= offsets | {v.name: top for v in self._shared(function) if not v.size_bytes}
        self.regions[PARAMETERS] = bytearray(parameters)
        self.workspace = self.allocate(bytearray(256)) if cooperative else 0
        places = [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]
        blocks = [(_Block(self, function, place, block, grid), bytearray()) for place in places]
        for _, shared in blocks:
            shared.extend([self.poison] * (top + dynamic_bytes))
        if not cooperative:
            for each, shared in blocks:
                self.regions[SHARED] = shared
                each.run()
        while cooperative and blocks:
            for each, shared in blocks:
                self.regions[SHARED] = shared
                each.take_turn()
            blocks = [(each, shared) for each, shared in blocks if each.alive]

    def _shared(self, function: Function) -> list:
        module = [v for v in self.module.variables.values() if v.space == "shared"]
        return module + [v for v in function.variables.values() if v.space == "shared"]


def _layout(variables: list) -> tuple[dict[str, int], int]:
    offsets, top = {}, 0
    for variable in sorted(variables, key=lambda v: -v.align):
        top = -(-top // variable.align) * variable.align
        offsets[variable.name] = top
        top += variable.size_bytes
    return offsets, top


@dataclass
class _Stop:
    """Where a thread waits for others. `order` is its place in the text: the earliest goes first."""

    order: tuple[int, ...]
    instruction: Instruction
    operands: tuple


def _of_the_block(i: Instruction) -> bool:
    """Whether this is a barrier of a block, not of a warp."""
    return i.opcode in ("bar", "barrier") and "warp" not in i.modifiers


class _Block:
    def __init__(self, machine: Machine, function: Function, index: tuple, size: tuple, grid: tuple) -> None:
        self.machine, self.size, self.grid, self.index = machine, size, grid, index
        count = size[0] * size[1] * size[2]
        threads = [Thread(self, number, function) for number in range(count)]
        self.warps = [threads[start : start + 32] for start in range(0, count, 32)]

    def run(self) -> None:
        """Each warp runs until all its lanes are at barriers, or for a while; then the next one has its turn."""
        while self.alive:
            self.take_turn()

    @property
    def alive(self) -> bool:
        return any(thread.alive for warp in self.warps for thread in warp)

    def take_turn(self) -> None:
        moved = [self._run_warp(warp) for warp in self.warps]
        if self.alive and not any(moved) and not self._release():
            raise TrapError("deadlock")

    def _run_warp(self, warp: list["Thread"]) -> bool:
        moved = False
        for turn in range(200):
            for thread in warp:
                moved |= thread.advance()
            ready = [t for t in warp if t.stop is not None and not _of_the_block(t.stop.instruction)]
            if not ready:
                return moved
            # Every now and then another place has its turn, so that lanes that wait for each other all get on.
            places = sorted({t.stop.order for t in ready if t.stop})
            chosen = places[turn // 20 % len(places) if turn % 20 == 19 else 0]
            group = [t for t in ready if t.stop and t.stop.order == chosen]
            results = values.together(self.machine, group)
            for thread, result in zip(group, results, strict=True):
                thread.resume(result)
        return True

    def _release(self) -> bool:
        """Open every barrier that all the threads it waits for have reached."""
        alive = [t for warp in self.warps for t in warp if t.alive]
        waiting: dict[int, list[Thread]] = {}
        for thread in alive:
            if thread.stop is not None and _of_the_block(thread.stop.instruction):
                waiting.setdefault(thread.stop.operands[0], []).append(thread)
        opened = False
        for group in waiting.values():
            sleepers = [t for t in group if t.stop and "arrive" not in t.stop.instruction.modifiers]
            expected = max(t.stop.operands[1] for t in group if t.stop) or len(alive)
            # A thread count means whole warps.
            came = 32 * len({t.number // 32 for t in group}) if any(t.stop.operands[1] for t in group) else len(group)
            if came < expected:
                continue
            votes = [t.stop.operands[2] for t in sleepers if t.stop]
            for thread in group:
                modifiers = thread.stop.instruction.modifiers if thread.stop else ()
                result = sum(votes) if "popc" in modifiers else all(votes) if "and" in modifiers else any(votes)
                thread.resume(int(result))
            opened = True
        return opened


class Thread:
    """One thread: a generator that yields a `_Stop` and is sent that operation's result."""

    def __init__(self, block: _Block, number: int, function: Function) -> None:
        self.block, self.machine, self.lane, self.number = block, block.machine, number % 32, number
        x, y = block.size[0], block.size[1]
        self.index = (number % x, number // x % y, number // x // y)
        self.local = bytearray()
        self.copies: list[tuple[int, bytes | None, int]] = []
        self.committed = 0
        self.alive = True
        self.stop: _Stop | None = None
        self.result: int | None = None
        self.code = self.call(function, {}, ())

    def advance(self) -> bool:
        """Run up to the next stop, unless the thread is at one. Whether it ran."""
        if not self.alive or self.stop is not None:
            return False
        try:
            self.stop = self.code.send(self.result)
        except StopIteration:
            self.alive = False
        self.result = None
        return True

    def resume(self, result: int) -> None:
        self.stop, self.result = None, result

    def call(self, function: Function, slots: dict[str, bytearray], path: tuple) -> Generator[_Stop, int, bool]:
        """Run a function; `slots` are its parameters and results. True when the thread is to end."""
        frame = _Frame(self, function, slots)
        body, at = function.body, 0
        labels = {item.name: index for index, item in enumerate(body) if isinstance(item, Label)}
        while at < len(body):
            i = body[at]
            at += 1
            if isinstance(i, Label):
                continue
            self.machine.steps += 1
            if self.machine.steps > STEP_LIMIT:
                raise TrapError("runs for ever")
            if i.guard is not None and frame.value(i.guard, 1) == int(i.guard_negated):
                continue
            if i.opcode == "bra":
                at = labels[i.operands[-1].name]
            elif i.opcode == "brx":
                at = labels[function.branch_targets[i.operands[1].name][frame.value(i.operands[0], 32)]]
            elif i.opcode == "ret":
                break
            elif i.opcode == "exit":
                return True
            elif i.opcode == "trap":
                raise TrapError("trap")
            elif i.opcode == "call":
                if (yield from self._called(frame, i, (*path, at))):
                    return True
            elif _of_the_block(i):
                frame.barrier_result(i, (yield _Stop((*path, at), i, frame.barrier_operands(i))))
            elif i.opcode in TOGETHER or (
                i.opcode in ("ld", "st") and {"volatile", "relaxed", "acquire"} & set(i.modifiers)
            ):
                result = yield _Stop((*path, at), i, frame.shared_operands(i))
                frame.together_result(i, result)
            else:
                frame.execute(i)
        del self.local[frame.base :]
        return False

    def _called(self, frame: "_Frame", i: Instruction, path: tuple) -> Generator[_Stop, int, bool]:
        operands = list(i.operands)
        returns = operands.pop(0).parts if isinstance(operands[0], Vector) else ()
        target = operands.pop(0)
        arguments = operands.pop(0).parts if operands and isinstance(operands[0], Vector) else ()
        if isinstance(target, Register):
            callee = self.machine.function_at(frame.value(target, 64))
            # Lanes that are in different functions are at different places.
            return (yield from self._entered(frame, callee, (*returns, *arguments), (*path, callee.name)))
        name = target.name
        if name == "vprintf":
            frame.slots[returns[0].name][:4] = bytes(4)
            return False
        if name == "__assertfail":
            raise TrapError("assert")
        if name == "malloc":
            size = int.from_bytes(frame.slots[arguments[0].name][:8], "little")
            start = self.machine.allocate(bytearray([self.machine.poison]) * size)
            frame.slots[returns[0].name][:8] = start.to_bytes(8, "little")
            return False
        if name == "free":
            start = int.from_bytes(frame.slots[arguments[0].name][:8], "little")
            if start:
                self.machine.regions[start // REGION] = bytearray()
            return False
        return (yield from self._entered(frame, self.machine.module.functions[name], (*returns, *arguments), path))

    def _entered(self, frame: "_Frame", callee: Function, given: tuple, path: tuple) -> Generator[_Stop, int, bool]:
        declared = [*callee.returns, *callee.parameters]
        slots = {v.name: frame.slots[o.name] for v, o in zip(declared, given, strict=True)}
        return (yield from self.call(callee, slots, path))


class _Frame:
    """One function's registers and variables in one thread."""

    def __init__(self, thread: Thread, function: Function, slots: dict[str, bytearray]) -> None:
        self.thread, self.machine, self.function = thread, thread.machine, function
        self.registers: dict[str, int] = {}
        self.carry = 0
        poison = self.machine.poison
        self.slots = slots | {
            v.name: bytearray([poison]) * v.size_bytes for v in function.variables.values() if v.space == "param"
        }
        self.parameters: dict[str, int] = {}
        if function.is_entry:
            top = 0
            for variable in function.parameters:
                top = -(-top // variable.align) * variable.align
                self.parameters[variable.name] = top
                top += variable.size_bytes
        self.base = len(thread.local)
        self.frame: dict[str, int] = {}
        for variable in function.variables.values():
            if variable.space == "local":
                thread.local.extend([poison] * (-len(thread.local) % variable.align))
                self.frame[variable.name] = LOCAL * REGION + len(thread.local)
                thread.local.extend([poison] * variable.size_bytes)

    # Operands

    def width(self, register: Operand) -> int:
        kind = self.function.registers[register.name]
        return 1 if kind == "pred" else 8 * TYPE_BYTES[kind]

    def value(self, operand: Operand, bits: int) -> int:
        """An operand as an unsigned number of at most `bits` bits."""
        mask = (1 << bits) - 1
        match operand:
            case Register(name):
                undefined = (1 << 64) // 255 * self.machine.poison if self.width(operand) > 1 else 1
                return self.registers.get(name, undefined & (1 << self.width(operand)) - 1) & mask
            case Negated(register):
                return 1 - self.value(register, 1)
            case Immediate(number, _):
                return int(number != 0) if bits == 1 else number & mask
            case Special(name):
                return self.special(name) & mask
            case Symbol(name):
                return self.address_of(name) & mask
            case Vector(parts):
                each = bits // len(parts)
                return sum(self.value(part, each) << n * each for n, part in enumerate(parts))
        raise NotImplementedError(operand)

    def address_of(self, name: str) -> int:
        if name in self.frame:
            return self.frame[name]
        if name in self.parameters:
            return PARAMETERS * REGION + self.parameters[name]
        return self.machine.initial(Symbol(name))

    def special(self, name: str) -> int:
        block, lane = self.thread.block, self.thread.lane
        for prefix, triple in (
            ("%tid.", self.thread.index), ("%ntid.", block.size), ("%ctaid.", block.index), ("%nctaid.", block.grid),
        ):  # fmt: skip
            if name.startswith(prefix):
                return triple["xyz".index(name[-1])]
        return {
            "%laneid": lane, "%warpid": self.thread.number // 32, "%nwarpid": len(block.warps),
            "%smid": 0, "%nsmid": 1,
            "%lanemask_eq": 1 << lane, "%lanemask_lt": (1 << lane) - 1, "%lanemask_le": (2 << lane) - 1,
            "%lanemask_gt": -(2 << lane), "%lanemask_ge": -(1 << lane),
            "%globaltimer": self.machine.steps, "%clock64": self.machine.steps,
            "%envreg1": self.machine.workspace >> 32, "%envreg2": self.machine.workspace,
        }[name]  # fmt: skip

    def set(self, operand: Operand, number: int) -> None:
        """Write a destination, cut to its width; `_` throws away."""
        if isinstance(operand, Register):
            self.registers[operand.name] = number & (1 << self.width(operand)) - 1
        elif isinstance(operand, Vector):
            each = self.width(operand.parts[0]) if isinstance(operand.parts[0], Register) else 0
            each = each or self.width(next(p for p in operand.parts if isinstance(p, Register)))
            for n, part in enumerate(operand.parts):
                self.set(part, number >> n * each)

    # Memory

    def target(self, i: Instruction, address: Address) -> int:
        space = next((m.split("::")[0] for m in i.modifiers if m.split("::")[0] in ("shared", "param")), "")
        base = self.value(address.base, 64) + address.offset
        if space == "shared" and isinstance(address.base, Register) and self.width(address.base) == 32:
            base &= 0xFFFFFFFF
        return base + (SHARED * REGION if space == "shared" else 0)

    def shape(self, i: Instruction) -> tuple[int, int]:
        return TYPE_BYTES[i.type], next((int(m[1]) for m in i.modifiers if m in ("v2", "v4")), 1)

    def load(self, i: Instruction) -> None:
        size, count = self.shape(i)
        destination, source, *_ = i.operands
        if "param" in i.modifiers and isinstance(source.base, Symbol) and source.base.name in self.slots:
            data = bytes(self.slots[source.base.name][source.offset : source.offset + size * count])
        else:
            data = self.machine.read(self.target(i, source), size * count, self.thread.local)
        registers = destination.parts if isinstance(destination, Vector) else (destination,)
        for n, register in enumerate(registers):
            item = data[n * size : (n + 1) * size]
            self.set(register, int.from_bytes(item, "little", signed=i.type[0] == "s"))

    def store(self, i: Instruction) -> None:
        size, count = self.shape(i)
        target, source, *_ = i.operands
        parts = source.parts if isinstance(source, Vector) else (source,)
        assert len(parts) == count
        data = b"".join(self.value(part, 8 * size).to_bytes(size, "little") for part in parts)
        if "param" in i.modifiers and isinstance(target.base, Symbol) and target.base.name in self.slots:
            self.slots[target.base.name][target.offset : target.offset + len(data)] = data
        else:
            self.machine.write(self.target(i, target), data, self.thread.local)

    # Instructions

    def barrier_operands(self, i: Instruction) -> tuple:
        operands = list(i.operands)
        vote = 0
        if "red" in i.modifiers:
            operands.pop(0)
            vote = self.value(operands.pop(), 1)
        numbers = [self.value(operand, 32) for operand in operands]
        return (*numbers, 0, 0)[0], (*numbers, 0, 0)[1] if len(numbers) > 1 else 0, vote

    def barrier_result(self, i: Instruction, result: int) -> None:
        if "red" in i.modifiers:
            self.set(i.operands[0], result)

    def shared_operands(self, i: Instruction) -> tuple:
        """What a warp needs to know of an operation that others see: (thread's frame, address or None, values)."""
        if i.opcode in ("bar", "ld", "st", "mbarrier"):
            return (self, None, ())
        if i.opcode in tensors.MATRICES:
            return tensors.operands(self, i)
        sources = i.operands if i.opcode == "red" else i.operands[1:]
        bits = 8 * TYPE_BYTES.get(i.type, 4)
        numbers, address = [], None
        for n, operand in enumerate(sources):
            if isinstance(operand, Address):
                address = self.target(i, operand)
            elif i.opcode == "vote" and n == 0:
                numbers.append(self.value(operand, 1))
            else:
                data = n == 0 or i.opcode in ("atom", "red")
                numbers.append(self.value(operand, bits if data else 32))
        return (self, address, tuple(numbers))

    def together_result(self, i: Instruction, result: "int | tuple[int, int]") -> None:
        if i.opcode in ("ld", "st"):
            (self.load if i.opcode == "ld" else self.store)(i)
            return
        if i.opcode == "mbarrier":
            tensors.barrier(self, i)
            return
        if i.opcode in tensors.MATRICES:
            tensors.finish(self, i, result)
            return
        if i.opcode in ("bar", "red"):
            return
        first, second = (i.operands[0].first, i.operands[0].second) if isinstance(i.operands[0], Pair) else (
            i.operands[0], None)  # fmt: skip
        number, flag = result if isinstance(result, tuple) else (result, 0)
        self.set(first, number)
        if second is not None:
            self.set(second, flag)

    def execute(self, i: Instruction) -> None:
        """Everything that one thread does by itself."""
        if i.opcode in ("ld", "ldu"):
            self.load(i)
        elif i.opcode == "st":
            self.store(i)
        elif i.opcode in ("membar", "fence", "nanosleep", "prefetch"):
            pass
        elif i.opcode in ("alloca", "stacksave", "stackrestore"):
            self.stack(i)
        elif i.opcode in words.VIDEO:
            sources = [self.value(o.operand if isinstance(o, Part) else o, 32) for o in i.operands[1:]]
            destination = i.operands[0]
            self.set(destination.operand if isinstance(destination, Part) else destination, words.video(i, sources))
        elif i.opcode == "lop3" and isinstance(i.operands[0], Pair):
            *sources, other = i.operands[1:]
            number = values.OPERATIONS["lop3"](i, *(self.value(o, 32) for o in sources))
            test, q = int(number != 0), self.value(other, 1)
            self.set(i.operands[0].first, number)
            self.set(i.operands[0].second, test & q if "and" in i.modifiers else test | q)
        elif i.opcode == "createpolicy":
            self.set(i.operands[0], 0)
        elif i.opcode == "cp":
            tensors.copy(self, i)
        elif i.opcode == "setp":
            self._setp(i)
        elif i.opcode == "mov":
            bits = 1 if i.type == "pred" else 8 * TYPE_BYTES[i.type]
            self.set(i.operands[0], self.value(i.operands[1], bits))
        elif i.opcode == "cvta":
            shared = SHARED * REGION if "shared" in i.modifiers else 0
            self.set(i.operands[0], self.value(i.operands[1], 64) + (-shared if "to" in i.modifiers else shared))
        elif i.opcode == "isspacep":
            region = self.value(i.operands[1], 64) // REGION
            wanted = {"shared": SHARED, "local": LOCAL, "param": PARAMETERS}
            outside = region not in wanted.values()
            self.set(i.operands[0], int(outside if "global" in i.modifiers else region == wanted[i.modifiers[0]]))
        elif "cc" in i.modifiers or i.opcode in ("addc", "subc", "madc"):
            sources = [self.value(o, 8 * TYPE_BYTES[i.type]) for o in i.operands[1:]]
            number, carry = values.carrying(i, sources, self.carry)
            self.set(i.operands[0], number)
            self.carry = carry if "cc" in i.modifiers else self.carry
        else:
            compute: Callable[..., int] = values.OPERATIONS[i.opcode]
            widths = values.source_bits(i, len(i.operands) - 1)
            sources = [self.value(o, bits) for o, bits in zip(i.operands[1:], widths, strict=True)]
            self.set(i.operands[0], compute(i, *sources))

    def stack(self, i: Instruction) -> None:
        """alloca, stacksave and stackrestore on the thread's local memory."""
        local = self.thread.local
        if i.opcode == "alloca":
            align = i.operands[2].bits if len(i.operands) > 2 else 8
            local.extend([self.machine.poison] * (-len(local) % align))
            self.set(i.operands[0], LOCAL * REGION + len(local))
            local.extend([self.machine.poison] * self.value(i.operands[1], 64))
        elif i.opcode == "stacksave":
            self.set(i.operands[0], len(local))
        else:
            del local[self.value(i.operands[0], 32) :]

    def _setp(self, i: Instruction) -> None:
        bits = 8 * TYPE_BYTES[i.modifiers[-1]]
        if i.type in ("f16x2", "bf16x2"):
            a, b = (self.value(operand, 32) for operand in i.operands[1:3])
            self.set(i.operands[0].first, int(values.compared(i, a & 0xFFFF, b & 0xFFFF)))
            self.set(i.operands[0].second, int(values.compared(i, a >> 16, b >> 16)))
            return
        test = values.compared(i, self.value(i.operands[1], bits), self.value(i.operands[2], bits))
        boolean = next((m for m in i.modifiers[1:] if m in ("and", "or", "xor")), None)
        other = self.value(i.operands[3], 1) if boolean else 0
        combine = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__, None: lambda a, b: a}[boolean]
        destination = i.operands[0]
        if isinstance(destination, Pair):
            self.set(destination.first, combine(int(test), other))
            self.set(destination.second, combine(1 - int(test), other))
        else:
            self.set(destination, combine(int(test), other))
