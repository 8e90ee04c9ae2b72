"""Which calls one process makes: those of one set of sizes, or one behind a call at other sizes.

Who calls host code calls it at several sizes in one process. What it keeps by those of its first call, as a buffer
that is allocated once, or a grid that is computed once, shows in a call at larger ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from evaluator.problems.problem import Sizes
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.recording import TENSORS_OF_CALLS, Refusal

Scalars: TypeAlias = Mapping[str, float]
Point: TypeAlias = tuple[Sizes, Scalars]

BEHIND: Final = (1, 0)
"""The sets of tensors of a call behind one at other sizes."""
_MAX_BEHIND: Final = 3
"""Of the sizes that are recorded together, those at which a call comes behind another: what is kept by the first
call shows at any that are larger, and each has to be recorded and, where it does something else, judged."""


@dataclass(frozen=True)
class ProcessCalls:
    """The calls of one process."""

    sizes: Sizes
    scalars: Scalars
    behind: Point | None = None
    """Where its first call is at other sizes, which ones; the second is the call that counts, and the last."""

    @property
    def of_each_sizes(self) -> list[tuple[Sizes, Scalars, Sequence[int]]]:
        """Sizes and scalars, and the sets of tensors of the calls at them, one after another."""
        if self.behind is not None:
            return [(*self.behind, BEHIND[:1]), (self.sizes, self.scalars, BEHIND[1:])]
        return [(self.sizes, self.scalars, TENSORS_OF_CALLS)]

    @property
    def each(self) -> list[tuple[Sizes, Scalars, int]]:
        """Sizes and scalars of each call, and which of two sets of tensors it has."""
        return [(sizes, scalars, each_set) for sizes, scalars, sets in self.of_each_sizes for each_set in sets]

    @property
    def said(self) -> str:
        """In words, which call counts, where it comes behind one at other sizes."""
        at = self.behind[0] if self.behind is not None else {}
        return f"call behind one at {', '.join(f'{name} = {size}' for name, size in at.items())}"

    @property
    def sizes_of_sets(self) -> tuple[Sizes, Sizes]:
        """Those of both sets of tensors."""
        return self.sizes, self.sizes if self.behind is None else self.behind[0]


def calls_behind(
    points: Sequence[Point], extent: Callable[[Sizes], int], not_at: Sequence[Sizes], most: int = _MAX_BEHIND
) -> dict[int, ProcessCalls]:
    """For some of these points, by their numbers, the calls of a process that begins at a smaller one before it; and
    for one, of a process that begins at a larger one: what only grows is too large then.

    `extent`: how large sizes are. Points at the same sizes count once, and those `not_at` only as what comes before.
    Of more than `most` the largest is among those that are left, and smaller ones at equal distances.
    """
    found: dict[int, ProcessCalls] = {}
    shrinking: dict[int, ProcessCalls] = {}
    seen: list[Point] = []
    for number, (sizes, scalars) in enumerate(points):
        if any(sizes == other for other, _ in seen):
            continue
        if seen and sizes not in not_at:
            smallest, largest = (pick(seen, key=lambda one: extent(one[0])) for pick in (min, max))
            if extent(sizes) > extent(smallest[0]):
                found[number] = ProcessCalls(sizes, scalars, smallest)
            elif extent(sizes) < extent(largest[0]):
                shrinking[number] = ProcessCalls(sizes, scalars, largest)
        seen.append((sizes, scalars))
    every = max(1, -(-len(found) // most))
    largest_first = sorted(found, key=lambda number: -extent(found[number].sizes))
    chosen = {number: found[number] for number in largest_first[::every]}
    if shrinking:
        number = max(shrinking, key=lambda number: extent(shrinking[number].sizes))
        chosen[number] = shrinking[number]
    return dict(sorted(chosen.items()))


def fails_before(recorded: object) -> bool:
    """Whether the first call of such a process was refused already, at its own sizes, where it has a ruling."""
    each = recorded if isinstance(recorded, tuple) else ()
    return any(isinstance(one, Refusal) and one.call <= 1 for one in each)


@contextmanager
def refused_behind(process: ProcessCalls) -> Iterator[None]:
    """Have a LiftRefusedError say that it is of the call behind one at other sizes."""
    try:
        yield
    except LiftRefusedError as refusal:
        ruling = refusal.ruling
        message = f"{ruling.message.removesuffix('.')} (in a {process.said})."
        raise LiftRefusedError(ruling.status, message, ruling.hint) from None
