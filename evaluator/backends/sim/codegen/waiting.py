"""What an instruction may wait for or depend on beside its operands: other threads, other blocks, the clock."""

from evaluator.backends.sim.codegen.instructions import entry_of
from evaluator.backends.sim.ptx.model import Instruction, Special, Symbol

_ORDERED_CALLS = ("vprintf", "malloc", "free")
_INSIDE = {"shared", "shared::cta", "local"}
_STRONG = {"volatile", "relaxed", "acquire", "release"}
_CLOCKS = ("%clock", "%globaltimer")


def may_wait(instruction: Instruction) -> bool:
    """Whether a loop around this may wait for what another thread writes."""
    entry = entry_of(instruction)
    return entry.waits or not entry.waits_with.isdisjoint(instruction.modifiers)


def polls_global(instruction: Instruction) -> bool:
    """Whether a loop around this load may wait for another block."""
    found = set(instruction.modifiers)
    return not entry_of(instruction).waits_with.isdisjoint(found) and _INSIDE.isdisjoint(found)


def shares_memory(instruction: Instruction) -> bool:
    """Whether this is there for what blocks say to each other: a strong access to global memory, or a fence."""
    words = set(instruction.modifiers)
    if instruction.opcode in ("membar", "fence"):
        return not words & {"proxy", "mbarrier_init"}
    strong = instruction.opcode in ("atom", "red") or bool(words & _STRONG)
    return instruction.opcode in ("ld", "st", "atom", "red") and strong and words.isdisjoint(_INSIDE)


def keeps_order(instruction: Instruction) -> bool:
    """Whether what this does may depend on which of two blocks comes first, or belongs to the whole program."""
    if entry_of(instruction).ordered:
        return not any(modifier.split("::")[0] == "shared" for modifier in instruction.modifiers)
    if instruction.opcode == "call":
        return any(isinstance(o, Symbol) and o.name in _ORDERED_CALLS for o in instruction.operands)
    clocks = any(isinstance(o, Special) and o.name.startswith(_CLOCKS) for o in instruction.operands)
    return may_wait(instruction) or clocks
