"""The kinds of a process's calls: by what each does by itself, and why some are no plan."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from common.contract import Status
from common.launch_plan import Launch, OtherOrder, Step, Temporary
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.calls.preparation import Pair
from evaluator.stages.lift.calls.recorded_steps import PlanReader
from evaluator.stages.lift.recording import ORDINALS, in_call


@dataclass(frozen=True)
class OwnSteps:
    """What a call does by itself."""

    steps: tuple[Step, ...] = ()
    temporaries: tuple[Temporary, ...] = ()
    orders: tuple[tuple[int, ...], ...] = ()
    """Others of its steps, by their indices: what is said of them names streams, which a call may make anew."""

    def does_the_same(self, other: "OwnSteps") -> bool:
        """Whether it does, in whatever order its streams may run it."""
        return (self.steps, self.temporaries) == (other.steps, other.temporaries)


class ReadCall:
    """One call, read once."""

    def __init__(self, number: int, reader: PlanReader, returned: Mapping[str, tuple[int, ...]] | None) -> None:
        """`number` is from 0 on; `returned` as `PlanReader.steps` has it. Raises LiftRefusedError."""
        self.reader = reader
        self.orders: tuple[OtherOrder, ...] = ()
        """Others of its steps; of the first call none, which what comes after it orders as well."""
        self.own = OwnSteps()
        try:
            self.steps: Final = reader.steps(returned)
        except LiftRefusedError as refusal:
            raise in_call(refusal, number) from None
        if len(self.steps) <= len(reader.initial):
            if number == 0:
                reader.plan([])
            return
        plan = reader.plan(self.steps)
        temporaries = tuple(sorted(plan.temporaries, key=lambda one: one.name))
        if number:
            self.orders = reader.orders()
        self.own = OwnSteps(plan.steps, temporaries, tuple(order.steps for order in self.orders))

    def prepare(self, pairs: Sequence[Pair] | Iterator[Pair]) -> list[Step]:
        """Steps from before the call, which are over when it begins. What was freed since then was there."""
        reader = self.reader
        freed, reader.freed = reader.freed, set()
        try:
            return reader.read(pairs)
        finally:
            reader.freed = freed


def kinds_of_later_calls(calls: Sequence[OwnSteps]) -> list[int]:
    """The call that all later ones are like, or one of each kind, first the one that does least.

    They may differ in how much they do, and in what their streams leave open. One that does as much as before,
    and something else, may do so at each call. So there are at most as many kinds as later calls. Raises
    LiftRefusedError.
    """
    last = len(calls) - 1
    later = range(1, len(calls))
    many = [len(call.steps) for call in calls]
    unlike = [
        number for number in later if many[number] == many[last] and not calls[number].does_the_same(calls[last])
    ]
    if unlike and (unlike[-1] == last - 1 or len(set(many[1:])) == 1):
        raise _unlike(unlike[-1], last, calls[unlike[-1]].steps, calls[last].steps)
    kinds = [number for number in later if calls[number] not in calls[number + 1 :]]
    return sorted(kinds, key=lambda number: (many[number], -number))


def _unlike(number: int, last: int, steps: Sequence[Step], of_last: Sequence[Step]) -> LiftRefusedError:
    at = next((i for i, pair in enumerate(zip(steps, of_last, strict=True)) if pair[0] != pair[1]), None)
    what = "its temporaries have other sizes"
    if at is not None:
        one = of_last[at]
        said = f"the launch of {one.kernel}" if isinstance(one, Launch) else f"the {one.kind}"
        what = f"step {at + 1}, {said}, is another one"
    return LiftRefusedError(
        Status.UNSUPPORTED,
        f"The host code does not do the same at each call: from its {ORDINALS[number]} to its {ORDINALS[last]} "
        f"call in one process {what}. A plan is one for all calls.",
        "Pass kernels nothing that counts calls, or let them count by themselves. It was not judged, so there is "
        "no reward.",
    )
