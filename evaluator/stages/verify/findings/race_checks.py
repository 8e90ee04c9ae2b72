"""Which runs are watched for races and undefined reads, and what their findings mean.

Watching costs ten to fifty times the time of a run, so it is spent where it shows most: on small trials every block,
on larger ones pairs of neighbouring blocks, chosen at random.
"""

from dataclasses import dataclass
from typing import Final

from common.contract import Fault, HazardWarning, Phase, Status
from evaluator.backends.session import Hazard, HazardKind, RunOutcome, Watch
from evaluator.errors import Ruling
from evaluator.stages.verify.findings.severity import RULES

_MAX_INSTRUCTIONS: Final = 4_000_000
"""Thread-instructions of watched blocks, in one run."""
WITHOUT_END: Final = frozenset({"watchdog", "instruction_limit", "endless_wait"})
"""Faults whose other thread is one of another block that goes on as well."""
_MAX_IN_ALL: Final = 6_000_000
_MAX_TO_EXPLAIN: Final = 20_000_000
_MIN_SHARE: Final = 1 / 4096


@dataclass(frozen=True)
class Seen:
    """What a watched run showed."""

    warnings: tuple[str, ...]
    hazards: tuple[HazardWarning, ...] = ()
    """What was warned of."""
    ruling: Ruling | None = None
    """For a race that can change the result."""
    fault: Fault | None = None
    """That race."""


class Watching:
    """What is watched in one evaluation, what was seen, and what it cost."""

    def __init__(self, seed: int) -> None:
        """`seed` draws the blocks that are watched."""
        self.seed = seed
        self.spent = 0
        self.undefined: Hazard | None = None
        """The last run's first read of undefined memory."""
        self._told: set[tuple[str, frozenset[int]]] = set()
        self._watched: dict[str, tuple[int, int]] = {}

    def plan(self, thread_instructions: int, explains: bool = False) -> Watch | None:
        """How to watch a run that costs so much; None where enough was watched.

        `explains`: something is wrong, and it is worth more to know what.
        """
        room = _MAX_TO_EXPLAIN if explains else min(_MAX_INSTRUCTIONS, _MAX_IN_ALL - self.spent)
        share = min(1.0, room / max(thread_instructions, 1))
        if share < _MIN_SHARE:
            return None
        self.seed += 2  # another draw, that pairs the same neighbours
        return Watch(share, self.seed)

    def look(self, outcome: RunOutcome, place: str, source_lines: int) -> Seen:
        """What a watched run showed."""
        watched, ran = outcome.watched_blocks
        self.spent += outcome.thread_instructions * watched // max(ran, 1)
        before = self._watched.get(place, (0, 0))
        self._watched[place] = (before[0] + watched, before[1] + ran)
        by_kind: dict[HazardKind, list[Hazard]] = {}
        for found in outcome.hazards:
            by_kind.setdefault(found.kind, []).append(found)
        self.undefined = next(iter(by_kind.get("undefined_read", ())), None)
        races = tuple(
            found for kind, each in by_kind.items() if RULES[kind].severity == "incorrect" for found in each
        )
        races = tuple(sorted(races, key=lambda found: found.kind != "unawaited_copy"))
        warned = [
            HazardWarning(
                kind=found.kind,
                message=("a race that changed nothing: " if found.kind == "harmless_race" else "")
                + sentence(found.fault, source_lines),
                line=found.fault.line,
                remedy=found.remedy,
            )
            for found in outcome.hazards
            if RULES[found.kind].severity == "warning"
            and not (races and found.kind == "harmless_race")
            and self._is_new(found)
        ]
        warnings = tuple(
            said.message if said.kind == "harmless_race" else f"{said.message}. {said.remedy}" for said in warned
        )
        if not races:
            return Seen(warnings, tuple(warned))
        first, *others = races
        lines = sorted(set().union(*map(_lines, others)) - _lines(first))
        plural = "s" * (len(lines) > 1)
        more = f" Other races were seen on line{plural} {', '.join(map(str, lines))}." if lines else ""
        message = f"At {place} two threads race: {sentence(first.fault, source_lines)}.{more}"
        ruling = Ruling(Status.INCORRECT, Phase.VERIFY, message, first.remedy)
        return Seen(warnings, tuple(warned), ruling, first.fault)

    def _is_new(self, found: Hazard) -> bool:
        said = (found.kind, frozenset(_lines(found.fault)))
        new = said not in self._told
        self._told.add(said)
        return new

    @property
    def said(self) -> tuple[str, ...]:
        """What was watched, size by size: `n=1000: 4 of 4 blocks`."""
        return tuple(f"{place}: {watched} of {ran} blocks" for place, (watched, ran) in self._watched.items() if ran)


def _lines(found: Hazard | Fault) -> set[int]:
    fault = found.fault if isinstance(found, Hazard) else found
    return {line for line in (fault.line, fault.other and fault.other.line) if line}


def sentence(fault: Fault, source_lines: int) -> str:
    """`scale: thread 3 of block (1, 2, 0) wrote y[8], one past the end, line 7`; 0 lines are an unknown number."""
    kernel = f"{fault.kernel}: " if fault.kernel else ""
    who = f"thread {_place(fault.thread)} of block {_place(fault.block)} " if fault.thread and fault.block else ""
    line = (
        f", line {fault.line}" if fault.line and fault.kind not in ("race", "undefined_read", "array_overrun") else ""
    )
    if fault.line and 0 < source_lines < fault.line:
        line += f" by the source's own #line (the file has {source_lines})"
    return f"{kernel}{who}{fault.message}{line}{_as_another(fault)}"


def _as_another(fault: Fault) -> str:
    """`, and so was thread 0 of block 1, line 9`, of a block that does not end either."""
    if fault.kind not in WITHOUT_END or fault.other is None:
        return ""
    verb = "was" if fault.message.startswith("was ") else "does"
    line = f", line {fault.other.line}" if fault.other.line else ""
    return f", and so {verb} thread {_place(fault.other.thread)} of block {_place(fault.other.block)}{line}"


def _place(index: tuple[int, int, int]) -> str:
    """`3` where the other two coordinates are 0, else `(3, 1, 0)`."""
    return str(index[0]) if index[1] == index[2] == 0 else str(index)
