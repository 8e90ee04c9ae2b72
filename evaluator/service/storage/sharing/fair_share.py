"""Whose turn it is: start-time fair queueing of processor time between tenants. Pure: no clock, no database.

Each tenant has a *tag*: the processor seconds that were charged to it, on a scale of virtual time that all share. The
tenant whose next evaluation would end at the smallest tag goes first: its tag, and what it has running, and what the
next one is expected to take. So who used less lately goes first, and short work before long work. The virtual time is
the largest tag at which anything was begun; a tenant that was idle starts at most `CREDIT_S` behind it.

Two more rules keep long work, which nobody can foresee, from shutting anyone out where there are several workers:
a tenant that holds several hands the youngest back as soon as one waits that holds none (`is_to_yield`), and what is
known to be long does not get the last free worker while others are about (`leaves_the_last`).
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

CREDIT_S: Final = 10.0
"""Processor seconds that a tenant which was idle may get ahead of the others: some ten ordinary evaluations. More,
and who comes back with thousands would shut out who worked all the time."""
SHORTEST_S: Final = 0.1
"""The least that is charged, and what is expected of the first evaluation of a key: what any takes of a worker.
Little, so that a newcomer goes before what is known to be long."""
LONGEST_S: Final = 120.0
"""The most that is charged at once: all limits of a job together. More comes of a time of day that was set."""
LONG_S: Final = 2.0
"""What is expected to take more is long: twice an ordinary evaluation."""
YIELD_AFTER_S: Final = 1.0
"""What has run for less is not taken from its worker: an ordinary evaluation ends by itself."""
OTHERS_S: Final = 60.0
"""For so long after its last evaluation a tenant counts as about: as long as people take from one try to the next."""
_NEWEST: Final = 0.5
"""Weight of the newest evaluation in what is expected of the next: one that is long is believed at once."""


@dataclass(frozen=True)
class Line:
    """A tenant with something waiting."""

    tenant: str
    tag_s: float
    turn: int
    """Grows with each evaluation that is begun; decides between equals, smallest first."""
    next_s: float = SHORTEST_S
    """What its oldest evaluation is expected to take, processor seconds."""
    yielded: bool = False
    """Whether that was taken from a worker before."""


@dataclass(frozen=True)
class Running:
    """An evaluation that a worker works on."""

    seq: int
    tenant: str
    worker: str
    ran_s: float
    expected_s: float = SHORTEST_S


def charged_s(used_s: float) -> float:
    """What is charged for an evaluation that took so much, processor seconds."""
    return min(LONGEST_S, max(SHORTEST_S, used_s))


def expected_s(before_s: float | None, used_s: float) -> float:
    """What is expected of the next one after `used_s`; `before_s`: what was expected of this one, by experience."""
    return used_s if before_s is None else before_s + _NEWEST * (used_s - before_s)


def tag_now(tag_s: float, virtual_s: float) -> float:
    """A tenant's tag at this virtual time."""
    return max(tag_s, virtual_s - CREDIT_S)


def start_tag(line: Line, running: Iterable[Running], virtual_s: float) -> float:
    """The tag at which the next evaluation of a tenant begins; what runs is charged as far as it has come."""
    held_s = sum(charged_s(max(one.ran_s, one.expected_s)) for one in running if one.tenant == line.tenant)
    return tag_now(line.tag_s, virtual_s) + held_s


def in_turn(lines: Iterable[Line], running: Collection[Running], virtual_s: float) -> list[tuple[Line, float]]:
    """The tenants that wait, whose turn it is first, each with its start tag."""
    starts = [(line, start_tag(line, running, virtual_s)) for line in lines]
    return sorted(starts, key=lambda one: (one[1] + charged_s(one[0].next_s), one[0].turn, one[0].tenant))


def leaves_the_last(line: Line, crew: Collection[str], running: Iterable[Running], others: bool) -> bool:
    """Whether a tenant has to leave the last free worker of `crew` (ids, the claimer's among them) to others.

    It has, with an evaluation that is known to be long, where it holds all the rest and others are about: the next of
    them to come finds a worker. Alone it may use all.
    """
    holders = {one.worker: one.tenant for one in running if one.worker in crew}
    fills_the_rest = len(holders) + 1 >= len(crew) >= 2 and set(holders.values()) == {line.tenant}
    return fills_the_rest and others and (line.yielded or line.next_s > LONG_S)


def is_to_yield(seq: int, waiting: Iterable[str], crew: Collection[str], running: Collection[Running]) -> bool:
    """Whether the running evaluation `seq` is to be handed back for one of the tenants in `waiting`.

    It is, where no worker of `crew` is free, one waits that holds none, and its own tenant holds several, more than
    which nobody holds; of these, the one that began last loses least.
    """
    held = [one for one in running if one.worker in crew]
    mine = next((one for one in held if one.seq == seq), None)
    if mine is None or len({one.worker for one in held}) < len(crew):
        return False
    counts = Counter(one.tenant for one in held)
    most = max(counts.values())
    youngest = min((one for one in held if one.tenant == mine.tenant), key=lambda one: (one.ran_s, -one.seq))
    # Of several that hold equally many one is enough.
    tenant = min(name for name, count in counts.items() if count == most)
    return most >= 2 and mine.tenant == tenant and youngest is mine and any(name not in counts for name in waiting)
