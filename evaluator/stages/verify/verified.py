"""What verification gives."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from common.contract import Correctness
from evaluator.errors import Ruling


@dataclass(frozen=True)
class Verified:
    """The ruling that ends an evaluation, if there is one, and everything seen."""

    ruling: Ruling | None
    correctness: Correctness | None
    thread_instructions: int = 0
    facts: Mapping[str, int] | None = None
    hardly_told: tuple[str, ...] = ()
    """Which outputs no trial told much about, as warnings. Of trials that are some of all it says nothing."""

    def warned_of_what_hardly_tells(self) -> "Verified":
        """The same with these warnings where it passed: one that failed was told."""
        return self if self.ruling is not None else self.warned(self.hardly_told)

    def warned(self, warnings: tuple[str, ...]) -> "Verified":
        """The same with these warnings behind its own; without a correctness there is no place for any."""
        if not warnings or self.correctness is None:
            return self
        told = self.correctness.model_copy(update={"warnings": (*self.correctness.warnings, *warnings)})
        return replace(self, correctness=told)
