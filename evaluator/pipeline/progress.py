"""How far an evaluation is, as its worker reports it to the caller."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from common.contract import Phase


@dataclass(frozen=True)
class Progress:
    """What is being done now. As a text: `verify 3/17`."""

    phase: Phase
    detail: str = ""
    """How far the phase is, in words or numbers; empty where nothing is known beside the phase."""

    def __str__(self) -> str:
        return f"{self.phase} {self.detail}".rstrip()


ProgressCallback: TypeAlias = Callable[[Progress], None]


def by_trials(progress: ProgressCallback) -> Callable[[int, int], None]:
    """For a verification, which says how many of its trials are over."""
    return lambda done, planned: progress(Progress(Phase.VERIFY, f"{done}/{planned}"))


def unheard(event: Progress) -> None:
    """For work whose progress is not shown."""
