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

    def warned(self, warnings: tuple[str, ...]) -> "Verified":
        """The same with these warnings behind its own; without a correctness there is no place for any."""
        if not warnings or self.correctness is None:
            return self
        told = self.correctness.model_copy(update={"warnings": (*self.correctness.warnings, *warnings)})
        return replace(self, correctness=told)
