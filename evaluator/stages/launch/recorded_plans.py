"""The plans of host code that was recorded anew for each set of sizes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from common.launch_plan import RecordedLaunchPlan
from common.wire import SentAs
from evaluator.errors import InfrastructureError, Ruling
from evaluator.problems.problem import Sizes
from evaluator.stages.launch.calls import Call


@dataclass(frozen=True)
class RecordedPlan:
    """What host code launches at one set of sizes, checked against the kernels."""

    plan: RecordedLaunchPlan
    calls: Mapping[int, Call]
    """By the index of the step."""


Point: TypeAlias = tuple[Sizes, Mapping[str, float]]
"""Sizes and scalars."""
Recorder: TypeAlias = Callable[[Sequence[Point]], Sequence[RecordedPlan | Ruling]]
"""Records at each of these, up to the first that cannot be, whose ruling is the last."""


class RecordedPlans:
    """The plans of one program by the sizes that they were recorded at. It travels without what records others."""

    def __init__(self, known: Mapping[str, RecordedPlan | Ruling], record: Recorder | None = None) -> None:
        """`known` is by `sizes_key`. `record` is asked for the sizes that are not in it."""
        self.known = dict(known)
        self._record = record

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
        missing = {key: point for point in points if (key := sizes_key(*point)) not in self.known}
        if missing and self._record is not None:
            self.known.update(zip(missing, self._record(list(missing.values())), strict=False))


def sizes_key(sizes: Mapping[str, int], scalars: Mapping[str, float]) -> str:
    """Sizes and scalars as one text."""
    return ", ".join(f"{name} = {value!r}" for name, value in sorted({**sizes, **scalars}.items()))


AS_TABLE: Final = SentAs(dict[str, RecordedPlan | Ruling], lambda plans: plans.known, RecordedPlans)
"""`RecordedPlans` travel as what is known of them."""
