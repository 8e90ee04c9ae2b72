"""What a lowering is given: the operands of its instruction as C++ expressions, its names, and where its result goes.

Each C++ name is made from an index; nothing of the PTX text but numbers is copied.
"""

from dataclasses import dataclass
from typing import Protocol

from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.codegen.blocks import Block, ControlFlow, Masks
from evaluator.backends.sim.codegen.layout import (
    MAX_PARAMETER_BYTES,
    device_address,
    function_address,
    local_frame,
    parameter_layout,
    stride_of,
)
from evaluator.backends.sim.codegen.paths import Paths
from evaluator.backends.sim.ptx.model import (
    TYPE_BYTES,
    Address,
    Function,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Pair,
    Register,
    Special,
    Symbol,
)

RESERVED_SHARED = "%reserved_smem_offset_1"
"""Where the system's part of shared memory lies, of which cooperative groups take 288 bytes: first, as on a GPU."""
_SPECIALS = {
    "%tid.x": "w.tid[0]", "%tid.y": "w.tid[1]", "%tid.z": "w.tid[2]",
    "%ntid.x": "all32(LAUNCH.block[0])", "%ntid.y": "all32(LAUNCH.block[1])", "%ntid.z": "all32(LAUNCH.block[2])",
    "%ctaid.x": "all32(w.block->id[0])", "%ctaid.y": "all32(w.block->id[1])", "%ctaid.z": "all32(w.block->id[2])",
    "%nctaid.x": "all32(LAUNCH.grid[0])", "%nctaid.y": "all32(LAUNCH.grid[1])", "%nctaid.z": "all32(LAUNCH.grid[2])",
    "%laneid": "lane_ids()", "%warpid": "free_register(w, WARPID)", "%nwarpid": "free_register(w, NWARPID)",
    "%smid": "free_register(w, SMID)", "%nsmid": "free_register(w, NSMID)",
    "%clock": "narrow(clock_register(w))", "%clock_hi": "high32(clock_register(w))",
    "%lanemask_eq": "shl_b32(all32(1), lane_ids())",
    "%lanemask_lt": "sub_b32(shl_b32(all32(1), lane_ids()), all32(1))",
    "%lanemask_le": "sub_b32(shl_b32(all32(2), lane_ids()), all32(1))",
    "%lanemask_ge": "neg_b32(shl_b32(all32(1), lane_ids()))",
    "%lanemask_gt": "neg_b32(shl_b32(all32(2), lane_ids()))",
    "%globaltimer_lo": "narrow(timer_register(w))", "%globaltimer_hi": "high32(timer_register(w))",
    "%envreg1": "all32((u32)(LAUNCH.workspace >> 32))", "%envreg2": "all32((u32)LAUNCH.workspace)",
    "%dynamic_smem_size": "all32(LAUNCH.dynamic_bytes)",
    RESERVED_SHARED: "all32(0)",
    "%total_smem_size": "all32((LAUNCH.shared_bytes + 127) / 128 * 128)",
}  # fmt: skip
"""Special registers of 32 bits (PTX ISA 9.0, section 10); any other one is unsupported by name."""
_SPECIALS_64 = {
    "%clock64": "clock_register(w)",
    "%globaltimer": "timer_register(w)",
    "%gridid": "grid_register()",
}
"""Those of 64 bits."""
FREE_REGISTERS = frozenset(
    name
    for name in (*_SPECIALS, *_SPECIALS_64)
    if name.startswith(("%warpid", "%nwarpid", "%smid", "%nsmid", "%clock", "%globaltimer", "%gridid"))
)
"""Those whose values the ISA leaves to the machine, so that nothing but a schedule may depend on them."""


_TO_THE_END = 0xFFFFFFFF
"""Dynamic shared memory reaches as far as the launch says."""

Sizes = tuple[tuple[int, ...], tuple[int, ...]]
"""Bytes of a function's results, and of its parameters."""


@dataclass(frozen=True)
class CallShape:
    """What a call through a register takes for granted of the function that it reaches."""

    sizes: Sizes
    targets: frozenset[str] | None = None
    """The only functions that it may reach; None: all of these sizes."""


class Bases(Protocol):
    """From which shared arrays addresses are made."""

    def of(self, operand: Operand) -> frozenset[str]: ...


class ModuleScope(Protocol):
    """What the text of a function needs to know of its module."""

    slots: dict[str, int]
    """Module variables, numbered."""
    functions: list[Function]
    indexes: dict[str, int]
    """Functions by name: the numbers of their C++ names."""

    def site(self, line: int, strength: str, extents: tuple[tuple[int, int], ...], semantics: str) -> str: ...

    def place(self, line: int) -> int: ...

    def shared_offsets(self, function: Function) -> dict[str, int]: ...

    def shared_sizes(self, function: Function) -> dict[str, int]: ...

    def call_shape(self, function: Function, said: str) -> CallShape | None: ...

    def dispatcher(self, shape: CallShape) -> int: ...


class Context:
    """One function while it is translated, at one instruction of it."""

    def __init__(
        self, module: ModuleScope, function: Function, flow: ControlFlow, masks: Masks, waited_for: set[int]
    ) -> None:
        self.module = module
        self.function = function
        self.flow = flow
        self.masks = masks
        self.paths = Paths(function, flow, waited_for, module.place)
        self.registers = {
            name: (f"r{index}", 1 if kind == "pred" else 64 if TYPE_BYTES[kind] == 8 else 8 * TYPE_BYTES[kind])
            for index, (name, kind) in enumerate(function.registers.items())
        }
        """PTX register to (C++ name, width in bits; 1 for a predicate)."""
        for name, (_, width) in self.registers.items():
            if width == 128:
                raise UnsupportedError(f"the 128-bit register {name}")
        self.frame, self.frame_bytes = local_frame(function)
        self.shared = module.shared_offsets(function)
        self.shared_bytes = module.shared_sizes(function)
        self.bases: Bases | None = None
        """Known once the flow of the function is."""
        self.used: str | None = None
        """The lanes that use what the present load loads, where these are not all."""
        self.parameters, _ = parameter_layout(function) if function.is_entry else ({}, 0)
        self.slots: dict[str, tuple[str, int]] = {}
        """Call parameters: name to (C++ pointer, stride)."""
        if not function.is_entry:
            for n, variable in enumerate((*function.returns, *function.parameters)):
                self.slots[variable.name] = (f"a{n}", stride_of(variable))
        self.call_slots = [v for v in function.variables.values() if v.space == "param"]
        if sum(v.size_bytes for v in self.call_slots) > MAX_PARAMETER_BYTES:
            raise UnsupportedError(f"more than {MAX_PARAMETER_BYTES} bytes of call parameters")
        for n, variable in enumerate(self.call_slots):
            self.slots[variable.name] = (f"(u8 *)c{n}.bytes", stride_of(variable))
        self.block: Block = flow.blocks[0]
        self.block_number = 0
        """The number by which the block is counted."""
        self.instruction = Instruction("", (), (), 0)
        self.mask = "m"
        """The lanes for which the instruction runs: `g` where a guard takes some away."""

    def unsupported(self, why: str = "") -> UnsupportedError:
        """The current instruction cannot be run."""
        return UnsupportedError(self.instruction.text + (f" ({why})" if why else ""), self.instruction.line or None)

    # Operands

    def width(self, operand: Operand) -> int:
        """Bits of a register operand; 0 of anything else."""
        if isinstance(operand, Register) and operand.name in self.registers:
            return self.registers[operand.name][1]
        return 0

    def b32(self, operand: Operand) -> str:
        """A U32 expression."""
        match operand:
            case Register(name):
                text, width = self.registers[name]
                if width == 1:
                    raise self.unsupported("a predicate as a number")
                return f"narrow({text})" if width == 64 else text
            case Immediate(value, size):
                if size == 8:
                    raise self.unsupported("a double constant")
                return f"all32({value & 0xFFFFFFFF}u)"
            case Special(name):
                if name in _SPECIALS:
                    return _SPECIALS[name]
                if name in _SPECIALS_64:
                    return f"narrow({_SPECIALS_64[name]})"
                raise UnsupportedError(name, self.instruction.line or None)
            case Symbol(name):
                text, width = self.address_of(name)
                return text if width == 32 else f"narrow({text})"
        raise self.unsupported("an operand of an unexpected kind")

    def b64(self, operand: Operand) -> str:
        """A U64 expression."""
        match operand:
            case Register(name):
                text, width = self.registers[name]
                if width == 1:
                    raise self.unsupported("a predicate as a number")
                return text if width == 64 else f"widen_u({text})"
            case Immediate(value, _):
                return f"all64({value}ull)"
            case Special(name):
                return _SPECIALS_64[name] if name in _SPECIALS_64 else f"widen_u({self.b32(operand)})"
            case Symbol(name):
                text, width = self.address_of(name)
                return text if width == 64 else f"widen_u({text})"
        raise self.unsupported("an operand of an unexpected kind")

    def any(self, operand: Operand, bits: int) -> str:
        """A U32 or U64 expression by width. Nothing stands above the bits of a narrow one: -1 is 0xffff in 16."""
        if isinstance(operand, Immediate) and bits < 32:
            return f"all32({operand.bits & (1 << bits) - 1}u)"
        return self.b64(operand) if bits == 64 else self.b32(operand)

    def predicate(self, operand: Operand) -> str:
        """A u32 expression with one bit a lane."""
        match operand:
            case Register(name) if self.registers[name][1] == 1:
                return self.registers[name][0]
            case Negated(register) if self.registers[register.name][1] == 1:
                return f"~{self.registers[register.name][0]}"
            case Immediate(value, 0):
                return "~0u" if value else "0u"
        raise self.unsupported("something else where a predicate belongs")

    def guard(self, instruction: Instruction) -> str:
        """The lanes where an instruction's guard is true."""
        assert instruction.guard is not None
        text = self.registers[instruction.guard.name][0]
        return f"(~{text})" if instruction.guard_negated else text

    # Names and places

    def address_of(self, name: str) -> tuple[str, int]:
        """A symbol's address (a U64, or a U32 when 32): shared ones are offsets into their space, others generic."""
        if name in self.shared:
            return f"all32({self.shared[name]})", 32
        if name in self.frame:
            return f"add_b64(frame, all64({self.frame[name]}))", 64
        if name in self.module.slots:
            return f"all64({device_address(4 + self.module.slots[name])}ull)", 64
        if name in self.parameters:
            return f"all64(slot_address(PARAMETER_SLOT) + {self.parameters[name]})", 64
        if name in self.module.indexes and not self.module.functions[self.module.indexes[name]].is_entry:
            return f"all64({function_address(self.module.indexes[name])}ull)", 64
        raise UnsupportedError(f"the address of {name}", self.instruction.line or None)

    def place(self) -> int:
        """A number by which the text speaks of the current instruction's source line."""
        return self.module.place(self.instruction.line)

    def site(self, strength: str = "PLAIN", semantics: str = "") -> str:
        """A new site for what the current instruction does in memory; both words as in runtime/machine.h."""
        return self.module.site(self.instruction.line, strength, self._extents(), semantics)

    def _extents(self) -> tuple[tuple[int, int], ...]:
        """Where the shared arrays lie that the instruction's address is made from; none where that is not known."""
        addresses = [operand for operand in self.instruction.operands if isinstance(operand, Address)]
        if self.bases is None or len(addresses) != 1:  # a copy has two addresses, and they share a site's words
            return ()
        found = ((self.shared[name], self.shared_bytes[name]) for name in self.bases.of(addresses[0].base))
        return tuple(sorted((low, low + size if size else _TO_THE_END) for low, size in found))

    # Results

    def set(self, register: Operand | None, value: str) -> str:
        """Assign to a register, keeping the lanes that must keep their value."""
        if register is None or register == Symbol("_"):
            return f"(void)({value});"
        if not isinstance(register, Register):
            raise self.unsupported("a destination that is not a register")
        text, _ = self.registers[register.name]
        if self.mask == "g" or self.masks.needed(self.block, register.name):
            return f"{text} = pick({self.mask}, {value}, {text});"
        return f"{text} = {value};"


def pair(operand: Operand) -> tuple[Operand, Operand | None]:
    """`d|p` as its two sides."""
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)
