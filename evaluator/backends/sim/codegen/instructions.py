"""The instructions that the simulator knows: the table with all its families, and what it says of one instruction.

What no family of `lowering/` registers, and what has a modifier that its entry does not list, is UnsupportedError by
name.
"""

from collections.abc import Iterator
from functools import lru_cache

from evaluator.backends.sim.codegen.context import Context
from evaluator.backends.sim.codegen.lowering import FAMILIES
from evaluator.backends.sim.codegen.table import FORMS, InstructionEntry
from evaluator.backends.sim.ptx.model import TYPE_BYTES, Instruction

_REASONS = {("cp", "bulk"): "TMA"}
"""What people call that which a modifier belongs to, where no entry lists it."""
_UNKNOWN = InstructionEntry("", None)


def known_instructions() -> Iterator[tuple[str, InstructionEntry]]:
    """Every entry with its family, in the order in which they are registered."""
    for family in FAMILIES:
        for forms in FORMS.values():
            yield from ((family.__name__.rsplit(".", 1)[-1], f) for f in forms if _family(f) == family.__name__)


def _family(entry: InstructionEntry) -> str:
    return entry.lower.__module__ if entry.lower is not None else ""


def entry_of(i: Instruction) -> InstructionEntry:
    """The entry of an instruction; one without a lowering where there is none."""
    return _find(i.opcode, i.modifiers)


@lru_cache(1 << 12)
def _find(opcode: str, modifiers: tuple[str, ...]) -> InstructionEntry:
    """The form with most of its words among the modifiers; of several the one that is named first."""
    fitting = [form for form in FORMS.get(opcode, ()) if form.words <= set(modifiers)]
    return min(
        fitting, key=lambda form: (-len(form.words), sorted(map(modifiers.index, form.words))), default=_UNKNOWN
    )


def lowered(c: Context) -> Iterator[str]:
    """The C++ lines of the context's instruction, without what a guard puts around them."""
    i = c.instruction
    entry = entry_of(i)
    _check(c, i, entry)
    assert entry.lower is not None
    found = entry.lower(c, i)
    if isinstance(found, str):
        yield c.set(i.operands[0], found)
    else:
        yield from found


def _check(c: Context, i: Instruction, entry: InstructionEntry) -> None:
    """Raise UnsupportedError for what the entry does not list."""
    if entry.lower is None or i.type == "b128":
        raise c.unsupported()
    for modifier in i.modifiers:
        if modifier not in TYPE_BYTES and modifier not in entry.modifiers and modifier not in entry.words:
            raise c.unsupported(_REASONS.get((i.opcode, modifier), ""))
    if entry.types is not None and i.type not in entry.types:
        raise c.unsupported()
    if entry.operand_count is not None and len(i.operands) != entry.operand_count:
        raise c.unsupported("with a wrong number of operands")
    first = next((m for m in i.modifiers if m in TYPE_BYTES), "")
    if entry.first_types is not None and first not in entry.first_types:
        raise c.unsupported()
    if entry.result is not None:
        _check_width(c, i, entry, first)


def _check_width(c: Context, i: Instruction, entry: InstructionEntry, first: str) -> None:
    """The destination is as wide as the result: a predicate, 64 bits or less."""
    found = c.width(i.operands[0])
    kind = {"pred": "pred", "u32": "u32", "last": i.type}.get(str(entry.result), first)
    if not found or not kind:
        return
    bits = 1 if kind == "pred" else 8 * TYPE_BYTES[kind] << ("wide" in i.modifiers)
    extended = entry.result == "converted" and kind[0] in "su" and bits < 64 and found == 64
    if (found == 64, found == 1) != (bits == 64, bits == 1) and not extended:
        raise c.unsupported("into a register of another width")
