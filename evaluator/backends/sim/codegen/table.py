"""The table of instructions: what may stand behind each PTX opcode, what it becomes, and what passes ask about it.

`@lowers("add", …)` above a function makes it an entry. The functions stand in `lowering/`, a module for each family;
`instructions.py` imports them all and finds the entry of an instruction.
"""

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import Literal, TypedDict, TypeVar, Unpack

from common.contract.counters import InstructionClass
from evaluator.backends.sim.codegen.context import Context
from evaluator.backends.sim.ptx.model import Instruction

Lowering = Callable[[Context, Instruction], str | Iterator[str]]
"""Gives the value of the first operand as a C++ expression, or the lines of what has no such value."""
Guarding = Literal["select", "skip", "own"]
Result = Literal["last", "first", "converted", "u32", "pred"]
Counted = InstructionClass | Literal["address"]


@dataclass(frozen=True)
class InstructionEntry:
    """One opcode, or one form of it: `mbarrier.init` and `mbarrier.try_wait` are two."""

    name: str
    """The opcode, and the modifiers that choose this form: `cp.async.wait_all`."""
    lower: Lowering | None
    """None: the simulator does not know it."""

    # What may stand in the text
    modifiers: Set[str] = frozenset()
    """All that may stand behind the name, beside types."""
    types: Set[str] | None = None
    """What the last type may be; None: any that `TYPE_BYTES` knows, or none."""
    first_types: Set[str] | None = None
    """Likewise of the first type, where the result is of another type than the operands."""
    operand_count: int | None = None
    """With the destination; None: the lowering looks itself."""
    result: Result | None = None
    """What says how wide the destination is: a type, always a u32 or a predicate; None: the lowering looks itself.

    `converted` is the first type, and an integer of it may be extended to a wider register.
    """

    # What passes ask
    guarding: Guarding = "select"
    """How a guard works. `select` computes for all lanes, and those where it is false keep their old value; `skip`
    runs for those where it is true, because it reaches beyond a lane's registers; `own` sees to it itself."""
    destination: bool = True
    """Whether it writes the registers of its first operand."""
    branches: bool = False
    """Whether it goes to a label."""
    indexed: bool = False
    """Whether each lane goes to one of a list of labels, so that lanes part without a guard."""
    ends: bool = False
    """Whether no lane goes on behind it, but for those that its guard spares."""
    barrier: bool = False
    """Whether lanes may have to wait here for other warps."""
    waits: bool = False
    """Whether a loop around it may wait for what another thread writes."""
    waits_with: Set[str] = frozenset()
    """Modifiers that make it wait so, on any space."""
    ordered: bool = False
    """Whether what it does outside shared memory may depend on which of two blocks comes first."""

    # What it counts as
    counted: Counted | None = None
    """None: its type says it; `address`: the memory that it reaches."""
    special: bool = False
    """Whether the special function unit does it, in all formats but float64."""
    flops: int = 0
    """Floating-point operations of one lane, if its type is one of floats."""
    product: bool = False
    """Whether it is a matrix product, whose shape says the operations."""

    @property
    def opcode(self) -> str:
        """The first word of the name."""
        return self.name.partition(".")[0]

    @property
    def words(self) -> frozenset[str]:
        """The modifiers that choose this form."""
        return frozenset(self.name.split(".")[1:])


class Columns(TypedDict, total=False):
    """What `lowers` takes: the columns of `InstructionEntry`."""

    modifiers: Set[str]
    types: Set[str]
    first_types: Set[str]
    operand_count: int
    result: Result
    guarding: Guarding
    destination: bool
    branches: bool
    indexed: bool
    ends: bool
    barrier: bool
    waits: bool
    waits_with: Set[str]
    ordered: bool
    counted: Counted
    special: bool
    flops: int
    product: bool


Registered = TypeVar("Registered", bound=Lowering)
FORMS: dict[str, tuple[InstructionEntry, ...]] = {}
"""The forms of each opcode, those of more words first. Ask `instructions.py`, whose import completes it."""


def lowers(*names: str, **columns: Unpack[Columns]) -> Callable[[Registered], Registered]:
    """Register a function as what these instructions become."""

    def register(lower: Registered) -> Registered:
        for name in names:
            entry = InstructionEntry(name, lower, **columns)
            known = FORMS.get(entry.opcode, ())
            assert all(entry.words != other.words for other in known), f"{name} is registered twice"
            FORMS[entry.opcode] = tuple(sorted((*known, entry), key=lambda form: -len(form.words)))
        return lower

    return register
