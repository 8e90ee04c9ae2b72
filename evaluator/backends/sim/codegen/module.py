"""A PTX module as one C++ file, and what the runtime needs to know about it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.codegen.blocks import ControlFlow
from evaluator.backends.sim.codegen.context import FREE_REGISTERS, RESERVED_SHARED, CallShape, Sizes
from evaluator.backends.sim.codegen.function import FunctionText
from evaluator.backends.sim.codegen.instructions import entry_of
from evaluator.backends.sim.codegen.layout import (
    device_address,
    function_address,
    local_frame,
    parameter_layout,
    signature,
)
from evaluator.backends.sim.codegen.masks import unset_reads
from evaluator.backends.sim.codegen.waiting import (
    depends_on_schedule,
    keeps_order,
    may_wait,
    meets,
    polls_global,
    registers_read,
    shares_memory,
)
from evaluator.backends.sim.counters import Ledger, Step
from evaluator.backends.sim.hazards import SYSTEM_BUFFER, SharedVariable
from evaluator.backends.sim.ptx.model import (
    TYPE_BYTES,
    Function,
    Instruction,
    Module,
    Prototype,
    Relocation,
    Special,
    Symbol,
    Variable,
)

MODULE_SLOTS = 2000
MAX_INSTRUCTIONS = 60_000
_LARGEST_STACK_BYTES = 4 << 20
"""Of a warp: STACK_BYTES of `runtime/coroutines.h`."""
_LOCAL_STACK_BYTES = 1 << 10
"""What a GPU gives to recursion and `alloca` unless its host asks for more, which no submission's does: the default
of cudaLimitStackSize (CUDA Runtime API)."""

_RESERVED = Variable(SYSTEM_BUFFER, "shared", "b8", 288, 16)
"""What cooperative groups expect there (details/memory.h of CUDA 13.0, `multi_warp_scratch`)."""


@dataclass(frozen=True)
class Translation:
    """C++ text that holds neither names nor source lines, so programs that differ only in those share one object.

    The runtime gets the names and lines when it starts.
    """

    text: str
    lines: tuple[int, ...]
    """Source line (0 unknown) of each place that the text mentions by number."""
    kernels: tuple[str, ...]
    """Symbols, in the order of the text's table."""
    variables: tuple[str, ...]
    ledger: Ledger
    """What the program's counts mean."""
    shared: Mapping[str, tuple[SharedVariable, ...]]
    """Shared variables by kernel."""
    free_registers: Mapping[str, int | None]
    """Special registers that the ISA leaves to the machine, and the first line that reads each."""
    unset_lines: tuple[int, ...] = ()
    """Where registers are read that nothing may have set, in rising order; what has no line is left out."""
    schedules: bool = False
    """Whether an answer may depend on the order in which warps and blocks go on."""
    shares_memory: bool = False
    """Whether blocks may share memory on purpose: by strong accesses, atomics and fences."""
    grid_wide: bool = False
    """Whether anything in it waits for the whole grid, which takes a cooperative launch."""
    frame_bytes: int = 0
    """How large a kernel's own frame may be on the stack that it gets; 0 where functions call others there."""


def translate(module: Module) -> Translation:
    """Translate the whole module. Raises UnsupportedError by the name of the first thing that cannot be run."""
    return _ModuleText(module).translation()


class _ModuleText:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.globals = [v for v in module.variables.values() if v.space in ("global", "const")]
        if len(self.globals) > MODULE_SLOTS:
            raise UnsupportedError(f"more than {MODULE_SLOTS} module variables")
        self.slots = {variable.name: index for index, variable in enumerate(self.globals)}
        self.functions = [f for f in module.functions.values() if f.defined]
        self.sharing = [f for f in self.functions if any(v.space == "shared" for v in f.variables.values())]
        """Those that declare shared memory."""
        operands = (o for f in self.functions for i in f.body if isinstance(i, Instruction) for o in i.operands)
        self.reserves = any(isinstance(o, Special) and o.name == RESERVED_SHARED for o in operands)
        """Whether a function takes of the system's shared memory."""
        self.indexes = {function.name: index for index, function in enumerate(self.functions)}
        self.sites: list[str] = []
        """Their initial values."""
        self.extents: dict[tuple[tuple[int, int], ...], int] = {}
        """Sets of shared arrays that an address may be made from, and how many arrays stand before each."""
        self.lines: list[int] = []
        self.steps: list[list[Step]] = []
        self.flows: list[ControlFlow] = []
        """Of each function."""
        self.by_sizes: dict[Sizes, list[int]] = {}
        """Device functions by what they take and give."""
        for index, function in enumerate(self.functions):
            if not function.is_entry:
                self.by_sizes.setdefault(_sizes(function), []).append(index)
        self.call_shapes: dict[tuple[str, str], CallShape | None] = {}
        self.dispatchers: dict[CallShape, int] = {}
        """Calls through registers, each shape numbered."""
        self.guards = 0
        self.size = sum(len(function.body) for function in self.functions)
        if self.size > MAX_INSTRUCTIONS:
            raise UnsupportedError(f"a program of {self.size} instructions (the simulator takes {MAX_INSTRUCTIONS})")

    def site(self, line: int, strength: str, extents: tuple[tuple[int, int], ...], semantics: str) -> str:
        """A new memory instruction's site; `strength`, `extents` and `semantics` as in runtime/machine.h."""
        first = self.extents.setdefault(extents, sum(map(len, self.extents))) if extents else 0
        said = f"0, 0, {self.place(line)}, {strength}, {first}, {len(extents)}"
        self.sites.append(f"{{{said}, {semantics}}}" if semantics else f"{{{said}}}")
        return f"S[{len(self.sites) - 1}]"

    @property
    def site_count(self) -> int:
        return len(self.sites)

    def begin_block(self) -> int:
        """The number by which a block of the flow graph is counted; `note` adds its instructions."""
        self.steps.append([])
        return len(self.steps) - 1

    def note(self, step: Step) -> None:
        """Another instruction of the block that was begun last."""
        self.steps[-1].append(step)

    def guard(self) -> int:
        """The number by which a guarded instruction's lanes are counted."""
        self.guards += 1
        return self.guards - 1

    def call_shape(self, function: Function, said: str) -> CallShape | None:
        """What a label or a table says of a call through a register; None where it says nothing.

        It is found once, however many calls name it: a hostile list is long.
        """
        own = said in function.prototypes or said in function.call_targets
        key = function.name if own else "", said
        if key not in self.call_shapes:
            self.call_shapes[key] = self._call_shape(*key)
        return self.call_shapes[key]

    def _call_shape(self, function: str, said: str) -> CallShape | None:
        inside = self.module.functions.get(function)
        if inside is not None and said in inside.prototypes:
            return CallShape(_sizes(inside.prototypes[said]))
        names = inside.call_targets[said] if inside is not None else self._call_table(said)
        known = [self.module.functions.get(name) for name in names]
        if not known or not all(f is not None and f.defined and not f.is_entry for f in known):
            return None
        sizes = {_sizes(f) for f in known if f is not None}
        return CallShape(sizes.pop(), frozenset(names)) if len(sizes) == 1 else None

    def _call_table(self, name: str) -> list[str]:
        """The functions whose addresses a module variable holds at first."""
        variable = self.module.variables.get(name)
        values = () if variable is None else variable.initial
        return [value.name for value in values if isinstance(value, Symbol)]

    def dispatcher(self, shape: CallShape) -> int:
        """The number of the C++ function that makes calls of a shape."""
        return self.dispatchers.setdefault(shape, len(self.dispatchers))

    def place(self, line: int) -> int:
        """The number by which the text speaks of a source line."""
        self.lines.append(line)
        return len(self.lines) - 1

    def translation(self) -> Translation:
        bodies = []
        unset: set[int] = set()
        for function in self.functions:
            made = FunctionText(self, function)
            self.flows.append(made.flow)
            bodies.append(made.text())
            unset.update(i.line for i in unset_reads(made.flow, made.context.masks) if i.line > 0)
        declarations = [f"{signature(self.indexes[f.name], f)};" for f in self.functions if not f.is_entry]
        extents = _joined(f"{{{low}u, {high}u}}" for each in self.extents for low, high in each) or "{}"
        sites = _joined(self.sites) or "{}"
        text = "\n".join(
            [
                '#include "operations.h"',
                f"static Site S[] = {{{sites}}};",
                f"static BlockCount N[{len(self.steps) + 1}];",
                f"static u64 G[{self.guards + 1}];",
                f"static const Extent E[] = {{{extents}}};",
                *declarations,
                *map(self._dispatcher_text, self.dispatchers.items()),
                *bodies,
                *self._tables(),
            ]
        )
        kernels = tuple(function.name for function in self.functions if function.is_entry)
        ledger = Ledger(tuple(map(tuple, self.steps)))
        shared = {f.name: tuple(self._shared_variables(f)) for f in self.functions if f.is_entry}
        variables = tuple(v.name for v in self.globals)
        free = self._free_registers()
        schedules = depends_on_schedule(self.functions)
        shares = shares_memory(self.functions)
        places = tuple(self.lines)
        grid_wide = self._grid_wide()
        return Translation(
            text,
            places,
            kernels,
            variables,
            ledger,
            shared,
            free,
            tuple(sorted(unset)),
            schedules,
            shares,
            grid_wide,
            min(self._stack_bytes(), _LARGEST_STACK_BYTES) if all(f.is_entry for f in self.functions) else 0,
        )

    def _shared_variables(self, function: Function) -> Iterator[SharedVariable]:
        offsets = self.shared_offsets(function)
        for variable in self._shared(function):
            yield SharedVariable(variable.name, offsets[variable.name], variable.size_bytes)

    def _dispatcher_text(self, numbered: tuple[CallShape, int]) -> str:
        """Calls a function for each group of lanes that hold the same address, and says how many groups there were.

        An address is one of ours, or the kernel's fault: it chooses a case, and nothing ever jumps to it.
        """
        shape, number = numbered
        slots = [f"a{n}" for n in range(sum(map(len, shape.sizes)))]
        taken = ["Warp &w", "u32 m", "const U64 &f", "i32 place", *(f"u8 *{slot}" for slot in slots)]
        reached = (
            self.by_sizes.get(shape.sizes, [])
            if shape.targets is None
            else sorted(map(self.indexes.__getitem__, shape.targets))
        )
        cases = (
            f"case {function_address(index)}ull: k{index}({', '.join(['w', 'lanes', *slots])}); break;"
            for index in reached
        )
        first, beyond = function_address(0), function_address(len(self.functions))
        return "\n".join(
            [
                f"static u32 d{number}({', '.join(taken)}) {{",
                "u32 ways = 0;",
                "for (u32 left = m; left; ways++) {",
                "u64 target; u32 lanes = same_target(left, f, target); left &= ~lanes;",
                "switch (target) {",
                *cases,
                f"default: bad_call(w, lanes, target, target >= {first}ull && target < {beyond}ull, place);",
                "}",
                "}",
                "return ways; }",
            ]
        )

    def _tables(self) -> Iterator[str]:
        for index, variable in enumerate(self.globals):
            if variable.external:
                raise UnsupportedError(f"an external variable {variable.name}")
            if variable.initial:
                yield f"static const u8 v{index}[] = {{{_joined(map(str, self._content(variable)))}}};"
        rows = [
            f"{{{v.size_bytes}, {TYPE_BYTES[v.type]}, {f'v{i}' if v.initial else 'nullptr'}, "
            f"{'true' if v.space == 'const' else 'false'}}}"
            for i, v in enumerate(self.globals)
        ]
        yield f"static const ModuleVariable V[] = {{{_joined(rows) or '{}'}}};"
        facts = (self._warps_wait(), self._blocks_wait(), self._spreads(), self._blocks_meet())
        said = _joined("true" if fact else "false" for fact in facts)
        kernels = [
            f"{{k{self.indexes[f.name]}, {parameter_layout(f)[1]}, {self._shared_bytes(f)}, "
            f"{self._local_bytes()}, {self._stack_bytes()}, {said}}}"
            for f in self.functions
            if f.is_entry
        ]
        yield f"static const Kernel K[] = {{{_joined(kernels) or '{}'}}};"
        members = (
            f"K, {len(kernels)}, V, {len(rows)}, S, {len(self.sites)}, N, {len(self.steps)}, G, {self.guards}, E"
        )
        yield f"const Program assay_program = {{{members}}};"

    def _content(self, variable: Variable) -> bytes:
        """The bytes of an initialised variable, addresses of other variables and of functions included."""
        item = TYPE_BYTES[variable.type]
        content = bytearray()
        for value in variable.initial:
            if isinstance(value, Symbol):
                value = Relocation(value.name)
            if isinstance(value, Relocation):
                if item != (8 if value.byte is None else 1):
                    raise UnsupportedError(f"the initial value of {variable.name}")
                value = self._address(value, variable) >> 8 * (value.byte or 0)
            content += (value & (1 << 8 * item) - 1).to_bytes(item, "little")
        return bytes(content[: variable.size_bytes]).ljust(variable.size_bytes, b"\0")

    def _address(self, value: Relocation, variable: Variable) -> int:
        """What an initial value that names a variable or a function stands for."""
        function = self.module.functions.get(value.name)
        if value.name in self.slots:
            return device_address(4 + self.slots[value.name]) + value.offset
        if function is None or function.is_entry or not function.defined or value.offset:
            raise UnsupportedError(f"the initial value of {variable.name}")
        return function_address(self.indexes[value.name])

    def _shared(self, function: Function) -> list[Variable]:
        """Shared variables that a kernel can reach: its own, the module's and those of device functions."""
        inside = [v for f in self.sharing if f is function or not f.is_entry for v in f.variables.values()]
        module = [v for v in self.module.variables.values() if v.space == "shared"]
        own = [v for v in inside if v.space == "shared"]
        # The module's come first, so that device functions find them at the same place whatever kernel calls them.
        reserved = [_RESERVED] if self.reserves else []
        return reserved + sorted(module, key=lambda v: -v.align) + sorted(own, key=lambda v: -v.align)

    def shared_offsets(self, function: Function) -> dict[str, int]:
        """Where each shared variable lies; dynamic shared memory (size 0) follows all static ones."""
        if not function.is_entry and any(v.space == "shared" for v in function.variables.values()):
            raise UnsupportedError(f"shared memory declared in the device function {function.name}")
        offsets: dict[str, int] = {}
        top = 0
        for variable in self._shared(function):
            if variable.size_bytes:
                top = -(-top // variable.align) * variable.align
                offsets[variable.name] = top
                top += variable.size_bytes
        top = -(-top // 16) * 16
        return offsets | {v.name: top for v in self._shared(function) if not v.size_bytes}

    def shared_sizes(self, function: Function) -> dict[str, int]:
        """Bytes of each shared variable that it can reach, 0 for dynamic shared memory."""
        return {variable.name: variable.size_bytes for variable in self._shared(function)}

    def _shared_bytes(self, function: Function) -> int:
        static = [v for v in self._shared(function) if v.size_bytes]
        offsets = self.shared_offsets(function)
        end = max((offsets[v.name] + v.size_bytes for v in static), default=0)
        return -(-end // 16) * 16 if len(static) < len(self._shared(function)) else end

    def _local_bytes(self) -> int:
        """Local memory of a thread: all frames once, and room for recursion and for what `alloca` takes."""
        frames = sum(local_frame(function)[1] for function in self.functions)
        recursion = any(not f.is_entry for f in self.functions) and frames
        taken = any(isinstance(i, Instruction) and i.opcode == "alloca" for f in self.functions for i in f.body)
        return frames + (_LOCAL_STACK_BYTES if recursion or taken else 0)

    def _stack_bytes(self) -> int:
        """Room for one warp's frames: each register is 32 lanes, and the compiler spills and copies some."""
        registers = sum(max(TYPE_BYTES[kind], 4) * 32 for f in self.functions for kind in f.registers.values())
        return -(-(3 * registers + (256 << 10)) // 4096) * 4096

    def _blocks_wait(self) -> bool:
        """Whether a loop reads again and again what another block may write: then blocks start in their order."""
        return any(
            block.in_cycle and any(map(polls_global, block.body)) for flow in self.flows for block in flow.blocks
        )

    def _blocks_meet(self) -> bool:
        """Whether a loop may wait for what another block has yet to do: then those that live go on in turn."""
        read = registers_read(self.functions)
        return any(
            block.in_cycle and any(meets(i, read) for i in block.body) for flow in self.flows for block in flow.blocks
        )

    def _free_registers(self) -> dict[str, int | None]:
        found: dict[str, int | None] = {}
        for i in (i for f in self.functions for i in f.body if isinstance(i, Instruction)):
            for operand in i.operands:
                if isinstance(operand, Special) and operand.name in FREE_REGISTERS:
                    found.setdefault(operand.name, i.line or None)
        return found

    def _spreads(self) -> bool:
        """Whether blocks may run at once, in processes of their own."""
        return not any(isinstance(i, Instruction) and keeps_order(i) for f in self.functions for i in f.body)

    def _grid_wide(self) -> bool:
        """Whether any instruction asks for the cooperative launch's workspace (`%envreg1` and `%envreg2`)."""
        asked = {Special("%envreg1"), Special("%envreg2")}
        instructions = (i for f in self.functions for i in f.body if isinstance(i, Instruction))
        return any(not asked.isdisjoint(i.operands) for i in instructions if i.opcode == "mov")

    def _warps_wait(self) -> bool:
        """Whether a warp may wait for another one of its block: at a barrier, or for what that one writes."""
        return any(
            isinstance(i, Instruction) and (entry_of(i).barrier or may_wait(i))
            for f in self.functions
            for i in f.body
        )


def _sizes(function: Function | Prototype) -> Sizes:
    return tuple(v.size_bytes for v in function.returns), tuple(v.size_bytes for v in function.parameters)


def _joined(parts: "Iterator[str] | list[str] | map[str]") -> str:
    return ", ".join(parts)
