"""What an instruction may wait for or depend on beside its operands: other threads, other blocks, the clock."""

from collections.abc import Iterable, Iterator, Set
from typing import Final

from evaluator.backends.sim.codegen.instructions import entry_of
from evaluator.backends.sim.ptx.model import (
    Function,
    Immediate,
    Instruction,
    Operand,
    Register,
    Special,
    Symbol,
    registers_in,
)

_ORDERED_CALLS = ("vprintf", "malloc", "free")
_CLOCKS = ("%clock", "%globaltimer")
_WITHIN_BLOCK: Final = {"shared", "shared::cta", "local"}
_PRIVATE: Final = {"param", "local"}
_STRONG: Final = {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "cv", "cg"}
_ORDERING: Final = {"fence", "membar", "activemask"}
_ALL_LANES: Final = 0xFFFFFFFF
_MEMBERS: Final = {"shfl": 4, "vote": 2, "match": 2, "redux": 2, "elect": 1}
"""Which operand is the member mask."""
_ACTING: Final = {"st", "red", "call", "bar", "barrier", "mma", "wmma", "cp"}
"""What a loop does that does not only wait."""
_OPERATIONS: Final = {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"}
_COMMUTING: Final = {"add", "min", "max", "and", "or", "xor"}
"""Those that leave the same in any order where there are no others, but for roundings."""


def may_wait(instruction: Instruction) -> bool:
    """Whether a loop around this may wait for what another thread writes."""
    entry = entry_of(instruction)
    return entry.waits or not entry.waits_with.isdisjoint(instruction.modifiers)


def only_waits(loop: Iterable[Instruction]) -> bool:
    """Whether a loop of these does nothing but wait for what another thread writes: then it soon gives way."""
    loop = tuple(loop)
    return any(map(may_wait, loop)) and not any(i.opcode in _ACTING or entry_of(i).barrier for i in loop)


def polls_global(instruction: Instruction) -> bool:
    """Whether a loop around this load may wait for another block."""
    found = set(instruction.modifiers)
    return not entry_of(instruction).waits_with.isdisjoint(found) and _WITHIN_BLOCK.isdisjoint(found)


def shares_memory(functions: Iterable[Function]) -> bool:
    """Whether anything is there by which threads tell each other something, beside barriers of all of a block.

    That is a strong access to memory, an atomic (in shared memory one whose old value somebody reads), a fence, a
    barrier of some threads or one in shared memory, or to ask who is active.
    """
    functions = tuple(functions)
    read = registers_read(functions)
    return any(_tells(i, read) for i in _instructions(functions))


def _tells(instruction: Instruction, read: Set[str]) -> bool:
    words = set(instruction.modifiers)
    if instruction.opcode in ("membar", "fence"):
        return not words & {"proxy", "mbarrier_init"}
    if instruction.opcode in ("activemask", "mbarrier") or _counts(instruction):
        return True
    if instruction.opcode in ("atom", "red") and not words.isdisjoint(_WITHIN_BLOCK):
        return instruction.opcode == "atom" and _is_used(instruction, read)
    return instruction.opcode in ("atom", "red") or _is_strong(instruction)


def keeps_order(instruction: Instruction) -> bool:
    """Whether what this does may depend on which of two blocks comes first, or belongs to the whole program."""
    if entry_of(instruction).ordered:
        return not any(modifier.split("::")[0] == "shared" for modifier in instruction.modifiers)
    if instruction.opcode == "call":
        return any(isinstance(o, Symbol) and o.name in _ORDERED_CALLS for o in instruction.operands)
    clocks = any(isinstance(o, Special) and o.name.startswith(_CLOCKS) for o in instruction.operands)
    return may_wait(instruction) or clocks


def meets(instruction: Instruction, read: Set[str]) -> bool:
    """Whether a loop around this may wait for another block; `read`: the registers that anything reads.

    Beside loads that is an atomic whose old value decides something, as of a lock.
    """
    outside = instruction.opcode == "atom" and _WITHIN_BLOCK.isdisjoint(instruction.modifiers)
    return polls_global(instruction) or (outside and _is_used(instruction, read))


def registers_read(functions: Iterable[Function]) -> frozenset[str]:
    """Registers that an instruction reads, by name, of all functions together."""
    found: set[str] = set()
    for instruction in _instructions(functions):
        operands = instruction.operands[entry_of(instruction).destination :]
        found.update(name for operand in operands for name in registers_in(operand))
        if instruction.guard is not None:
            found.add(instruction.guard.name)
    return frozenset(found)


def depends_on_schedule(functions: Iterable[Function]) -> bool:
    """Whether an answer may depend on the order in which warps and blocks go on, and watching not tell.

    That takes accesses that may meet without being a race (`comes_apart`), or barriers that so many threads complete,
    whoever they are. And where there are atomics and stores a race between blocks far apart may show only so.
    """
    functions = tuple(functions)
    if any(map(_counts, _instructions(functions))) or comes_apart(functions):
        return True
    outside = [
        i.opcode
        for i in _instructions(functions)
        if _WITHIN_BLOCK.isdisjoint(i.modifiers) and "param" not in i.modifiers
    ]
    return "st" in outside and not {"atom", "red"}.isdisjoint(outside)


def _counts(instruction: Instruction) -> bool:
    is_barrier = instruction.opcode in ("bar", "barrier") and "red" not in instruction.modifiers
    return is_barrier and len(instruction.operands) > 1


def comes_apart(functions: Iterable[Function]) -> bool:
    """Whether it can matter which lanes of a warp run together, beside what watching tells.

    That takes strong and volatile accesses, atomics, or that lanes ask for or wait for some of the others only.
    Atomics of one kind whose old values nobody reads give the same in any order.
    """
    functions = tuple(functions)
    read = registers_read(functions)
    if any(map(_names_some, functions)):
        return True
    operations: set[str] = set()
    for instruction in _instructions(functions):
        opcode = instruction.opcode
        if _is_strong(instruction):
            return True
        if opcode in _ORDERING or (opcode == "atom" and _is_used(instruction, read)):
            return True
        if opcode in ("atom", "red"):
            operations |= set(instruction.modifiers) & _OPERATIONS
    return len(operations) > 1 or not operations <= _COMMUTING


def members_of(instruction: Instruction) -> Operand | None:
    """The member mask of what lanes do together; None of anything else."""
    opcode, operands = instruction.opcode, instruction.operands
    if opcode == "bar":
        return operands[0] if instruction.modifiers[:1] == ("warp",) and operands else None
    place = _MEMBERS.get(opcode)
    return operands[place] if place is not None and len(operands) > place else None


def gathers(instruction: Instruction, function: Function) -> bool:
    """Whether lanes that have parted meet before this, as far as they come here: it is one step of a warp."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if members_of(instruction) is not None or opcode == "call":
        return True
    if opcode in ("bar", "barrier"):  # others of a kernel have a place for lanes that are early
        return is_reducing_barrier(instruction) or not function.is_entry
    return "aligned" in modifiers


def is_reducing_barrier(instruction: Instruction) -> bool:
    """`__syncthreads_and` and its kin: barriers that give all threads one result made of each one's."""
    return instruction.opcode in ("bar", "barrier") and "red" in instruction.modifiers


def parts(instruction: Instruction) -> bool:
    """Whether lanes may part before this, and each find what others have done by then, or who is active."""
    return instruction.opcode in ("atom", "activemask") or _is_strong(instruction)


def _is_strong(instruction: Instruction) -> bool:
    modifiers = set(instruction.modifiers)
    access = instruction.opcode in ("ld", "st") and _PRIVATE.isdisjoint(modifiers)
    return access and not _STRONG.isdisjoint(modifiers)


def _names_some(function: Function) -> bool:
    """Whether a member mask in it may name some of the lanes only."""
    whole: dict[str, bool] = {}  # registers, by whether nothing but masks of all lanes is moved there
    masks: list[Operand] = []
    for instruction in _instructions((function,)):
        members = members_of(instruction)
        if members is not None:
            masks.append(members)
        if instruction.operands and entry_of(instruction).destination:
            moved = instruction.opcode == "mov" and all(map(_is_whole, instruction.operands[1:]))
            for name in registers_in(instruction.operands[0]):
                whole[name] = moved and whole.get(name, True)
    return not all(_is_whole(m) or (isinstance(m, Register) and whole.get(m.name, False)) for m in masks)


def _is_whole(members: Operand) -> bool:
    return isinstance(members, Immediate) and members.bits & _ALL_LANES == _ALL_LANES


def _instructions(functions: Iterable[Function]) -> Iterator[Instruction]:
    return (item for function in functions for item in function.body if isinstance(item, Instruction))


def _is_used(atom: Instruction, read: Set[str]) -> bool:
    return any(name in read for operand in atom.operands[:1] for name in registers_in(operand))
