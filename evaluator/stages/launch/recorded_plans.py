"""The plans of host code that was recorded anew for each set of sizes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from common.contract import Status
from common.launch_plan import OtherOrder, RecordedLaunchPlan
from common.wire import SentAs
from evaluator.backends.session import Program
from evaluator.errors import InfrastructureError, Ruling
from evaluator.problems.problem import Sizes
from evaluator.stages.launch.calls import Call

_MAX_REFUSALS: Final = 6
"""Points at which host code may be refused before those left have the last ruling: each takes a sandbox and
maybe some seconds. A judge asks in an order of its own, and may come to a point past the first refusal."""


@dataclass(frozen=True)
class RecordedPlan:
    """What host code launches at one set of sizes, checked against the kernels."""

    plan: RecordedLaunchPlan
    calls: Mapping[int, Call]
    """By the index of the step."""
    orders: tuple[OtherOrder, ...] = ()
    """Others in which a GPU may run the steps."""
    prepared: int = 0
    """How many steps a call that follows at once does without."""
    call: str = ""
    """Which call of a process it is of, in words, where it does not do the same at each."""
    others: tuple["RecordedPlan", ...] = ()
    """Those of other calls of the same process, one of each kind; they have none."""


Point: TypeAlias = tuple[Sizes, Mapping[str, float]]
"""Sizes and scalars."""
Recorder: TypeAlias = Callable[[Sequence[Point]], Sequence[RecordedPlan | Ruling]]
"""Records at each of these, up to the first that cannot be, whose ruling is the last."""
Rebuild: TypeAlias = "Callable[[Sequence[Point]], tuple[Program, RecordedPlans] | Ruling]"
"""The same submission, built with the kernels that these need behind its own first ones."""


class RecordedPlans:
    """The plans of one program by the sizes that they were recorded at. It travels without what records others."""

    def __init__(self, known: Mapping[str, RecordedPlan | Ruling], record: Recorder | None = None) -> None:
        """`known` is by `sizes_key`. `record` is asked for the sizes that are not in it."""
        self.known = dict(known)
        self._record = record
        self.rebuild: Rebuild | None = None
        """Where each point may need kernels of its own, as Triton's do, and they can be compiled here."""

    def at(self, sizes: Sizes, scalars: Mapping[str, float]) -> RecordedPlan | Ruling:
        """The plan there. Raises InfrastructureError where there is none and none can be recorded."""
        key = sizes_key(sizes, scalars)
        if key not in self.known:
            if self._record is None:
                raise InfrastructureError(f"The host code was not recorded at {key}.", "Please report it.")
            self.record([(sizes, scalars)])
        return self.known[key]

    def knows(self, points: Sequence[Point]) -> bool:
        """Whether all of these were recorded, or refused."""
        return all(sizes_key(*point) in self.known for point in points)

    def record(self, points: Sequence[Point]) -> None:
        """Record at all of these that are not known, together, which costs less than one after another.

        Raises InfrastructureError.
        """
        if self._record is None:
            return
        missing = {key: point for point in points if (key := sizes_key(*point)) not in self.known}
        refusals = 0
        while missing:
            found = dict(zip(missing, self._record(list(missing.values())), strict=False))
            if not found:
                raise InfrastructureError("Recording host code gave nothing.", "Please report it.")
            self.known.update(found)
            missing = {key: point for key, point in missing.items() if key not in found}
            refusals += 1
            last = list(found.values())[-1]
            if refusals == _MAX_REFUSALS or (isinstance(last, Ruling) and last.status is Status.TIMEOUT):
                # Whatever is asked for is among these, and host code that can be recorded nowhere costs little.
                self.known.update(dict.fromkeys(missing, last))
                return


def sizes_key(sizes: Mapping[str, int], scalars: Mapping[str, float]) -> str:
    """Sizes and scalars as one text."""
    return ", ".join(f"{name} = {value!r}" for name, value in sorted({**sizes, **scalars}.items()))


AS_TABLE: Final = SentAs(dict[str, RecordedPlan | Ruling], lambda plans: plans.known, RecordedPlans)
"""`RecordedPlans` travel as what is known of them."""
