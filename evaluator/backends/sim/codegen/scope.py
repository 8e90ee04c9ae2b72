"""Where the variables of a function lie, and how its C++ text names and assigns them."""

from typing import Protocol

from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.codegen.instructions import Emitter
from evaluator.backends.sim.counters import Step
from evaluator.backends.sim.ptx.control_flow import ControlFlow, analyse
from evaluator.backends.sim.ptx.model import TYPE_BYTES, Function, Instruction, Operand, Register, Symbol, Variable

MAX_PARAMETER_BYTES = 32 << 10


def device_address(slot: int) -> int:
    """Where a slot's content begins; the same as `slot_address` of runtime/machine.h."""
    return (1 << 44) + (slot << 34) + (1 << 33)


def parameter_layout(function: Function) -> tuple[dict[str, int], int]:
    """Offsets of a kernel's parameters, and the size of the whole block."""
    offsets: dict[str, int] = {}
    top = 0
    for variable in function.parameters:
        top = -(-top // variable.align) * variable.align
        offsets[variable.name] = top
        top += variable.size_bytes
    if top > MAX_PARAMETER_BYTES:
        raise UnsupportedError(f"{top} bytes of parameters")
    return offsets, top


def local_frame(function: Function) -> tuple[dict[str, int], int]:
    """Offsets of a function's local variables, and the frame's size."""
    offsets: dict[str, int] = {}
    top = 0
    for variable in function.variables.values():
        if variable.space == "local":
            top = -(-top // variable.align) * variable.align
            offsets[variable.name] = top
            top += variable.size_bytes
    return offsets, -(-top // 16) * 16


def signature(index: int, function: Function) -> str:
    """The C++ signature: a device function gets the entering lanes and returns those that still live."""
    if function.is_entry:
        return f"static void k{index}(Warp &w)"
    slots = [f"u8 *a{n}" for n in range(len(function.returns) + len(function.parameters))]
    return f"static u32 k{index}({', '.join(['Warp &w', 'u32 entering', *slots])})"


def stride_of(variable: Variable) -> int:
    """Bytes from one lane's copy of a call parameter to the next."""
    return -(-variable.size_bytes // 16) * 16


class ModuleScope(Protocol):
    """What the text of a function needs to know of its module."""

    slots: dict[str, int]
    """Module variables, numbered."""
    functions: list[Function]
    indexes: dict[str, int]
    """Functions by name: the numbers of their C++ names."""

    def site(self, line: int, strength: str = "PLAIN") -> str: ...

    @property
    def site_count(self) -> int: ...

    def place(self, line: int) -> int: ...

    def begin_block(self) -> int: ...

    def note(self, step: Step) -> None: ...

    def guard(self) -> int: ...

    def shared_offsets(self, function: Function) -> dict[str, int]: ...


class FunctionScope:
    """Names of one function. Each C++ name is made from an index; nothing of the PTX text but numbers is copied."""

    def __init__(self, module: ModuleScope, function: Function) -> None:
        self.module = module
        self.function = function
        self.flow: ControlFlow = analyse(function)
        self.registers = {
            name: (f"r{index}", 1 if kind == "pred" else 64 if TYPE_BYTES[kind] == 8 else 8 * TYPE_BYTES[kind])
            for index, (name, kind) in enumerate(function.registers.items())
        }
        for name, (_, width) in self.registers.items():
            if width == 128:
                raise UnsupportedError(f"the 128-bit register {name}")
        self.emitter = Emitter(self.registers, self.address_of)
        self.frame, self.frame_bytes = local_frame(function)
        self.shared = module.shared_offsets(function)
        self.parameters, _ = parameter_layout(function) if function.is_entry else ({}, 0)
        # Call parameters: name to (C++ pointer, stride).
        self.slots: dict[str, tuple[str, int]] = {}
        if not function.is_entry:
            for n, variable in enumerate((*function.returns, *function.parameters)):
                self.slots[variable.name] = (f"a{n}", stride_of(variable))
        self.call_slots = [v for v in function.variables.values() if v.space == "param"]
        if sum(v.size_bytes for v in self.call_slots) > MAX_PARAMETER_BYTES:
            raise UnsupportedError(f"more than {MAX_PARAMETER_BYTES} bytes of call parameters")
        for n, variable in enumerate(self.call_slots):
            self.slots[variable.name] = (f"(u8 *)c{n}.bytes", stride_of(variable))
        self.block = self.flow.blocks[0]
        self.mask = "m"

    # Names

    def address_of(self, name: str) -> tuple[str, int]:
        """A symbol's address: shared ones are offsets into their space, the others generic."""
        if name in self.shared:
            return f"all32({self.shared[name]})", 32
        if name in self.frame:
            return f"add_b64(frame, all64({self.frame[name]}))", 64
        if name in self.module.slots:
            return f"all64({device_address(4 + self.module.slots[name])}ull)", 64
        if name in self.parameters:
            return f"all64(slot_address(PARAMETER_SLOT) + {self.parameters[name]})", 64
        raise UnsupportedError(f"the address of {name}", self.emitter.instruction.line or None)

    def _guard(self, instruction: Instruction) -> str:
        assert instruction.guard is not None
        text = self.registers[instruction.guard.name][0]
        return f"(~{text})" if instruction.guard_negated else text

    def _set(self, register: Operand | None, value: str, guarded: bool = False) -> str:
        """Assign to a register, keeping the lanes that must keep their value."""
        if register is None or register == Symbol("_"):
            return f"(void)({value});"
        if not isinstance(register, Register):
            raise self.emitter.unsupported("a destination that is not a register")
        text, _ = self.registers[register.name]
        if guarded or self.mask == "g" or self.flow.needs_mask(self.block, register.name):
            return f"{text} = pick({self.mask if not guarded else 'g'}, {value}, {text});"
        return f"{text} = {value};"
