"""What the pages show and how it is put into words and HTML."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Literal, cast
from urllib.parse import urlencode

from markupsafe import Markup

from common.contract import Status
from evaluator.errors import UsageError
from evaluator.report.environment import template_environment
from evaluator.report.html import hashed, look, style
from evaluator.service.storage.evaluations import EvaluationRepository
from evaluator.service.storage.models import (
    ALIVE_WITHIN_S,
    ListedEvaluation,
    Page,
    State,
    StoredEvaluation,
    Waiting,
    WorkerFacts,
    gpu_trouble,
)
from evaluator.service.storage.workers import WorkerRepository

SILENT_AFTER_S = 20.0
"""A worker that was not seen for this long is shown as silent, before it counts as gone and is not shown."""
STATUSES = ("queued", "running", *Status)
"""What evaluations can be filtered by: the states before the end, then the verdicts."""
ROWS = 25
"""Evaluations on one page."""
CANCELLED_AT_ONCE = 100
"""Open evaluations that one form can cancel: the newest that run, and of those that wait as many as there is room."""
READ_AGAIN_S = 5.0
"""What is shown is read again after this long at the latest, for changes that `_unchanged` cannot see."""

_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
    '<rect width="16" height="16" rx="4" fill="{colour}"/>'
    '<path d="{path}" fill="none" stroke="#fff" stroke-width="2" stroke-linecap="round"/></svg>'
)
_ICONS = {
    "good": _ICON.format(colour="#1a6b3c", path="M4 8.5 7 11.5 12 5"),
    "bad": _ICON.format(colour="#a3242b", path="M5 5 11 11M11 5 5 11"),
    "caution": _ICON.format(colour="#7a5200", path="M8 4V9M8 12V12"),
    "ours": _ICON.format(colour="#3f4b5c", path="M5 8H11"),
    "": _ICON.format(colour="#2b5c9e", path="M4.5 12 8 4 11.5 12M6 9.5H10"),
}


@dataclass(frozen=True)
class Clock:
    """Times in words, at one moment. The script's `words` says the same."""

    now_s: float

    def ago(self, at: float) -> str:
        """How long ago, for example `12 s ago`."""
        seconds = max(0.0, self.now_s - at)
        return "just now" if seconds < 1.5 else f"{_rounded(seconds)} ago"

    def since(self, at: float) -> str:
        """How long since then, for example `12 s`."""
        return _rounded(max(1.0, self.now_s - at))

    def iso(self, at: float) -> str:
        """The moment as HTML wants it."""
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")

    def utc(self, at: float) -> str:
        """The moment itself, to the second."""
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _rounded(seconds: float) -> str:
    for limit, unit_s, unit in ((90, 1, "s"), (5400, 60, "min"), (129_600, 3600, "h")):
        if seconds < limit:
            return f"{round(seconds / unit_s)} {unit}"
    return f"{round(seconds / 86_400)} days"


@dataclass(frozen=True)
class Queue:
    """One queue: how many wait, since when the oldest, and whether a worker takes from it."""

    name: str
    waiting: int
    oldest_at: float | None
    workers: int


@dataclass(frozen=True)
class Overview:
    """What the first page shows."""

    queues: tuple[Queue, ...]
    workers: tuple[WorkerFacts, ...]
    page: Page
    read_at_s: float
    """When the page was read, on the monotonic clock."""

    @property
    def busy(self) -> int:
        """How many workers work."""
        return sum(worker.busy_with is not None for worker in self.workers)

    @property
    def key(self) -> object:
        """Changes when the page should."""
        queues = tuple((q.name, q.waiting, q.workers, q.oldest_at and round(q.oldest_at / 4)) for q in self.queues)
        workers = tuple(replace(worker, seen_at=worker.seen_at // SILENT_AFTER_S) for worker in self.workers)
        return queues, workers, tuple((item.id, item.version) for item in self.page.items)


@dataclass(frozen=True)
class Filters:
    """Which evaluations the first page shows. `status` is a verdict's, or a state; empty is any."""

    status: str = ""
    problem: str = ""
    cursor: str = ""

    def __post_init__(self) -> None:
        if self.status and self.status not in STATUSES:
            raise UsageError(f"There is no status {self.status!r}.", f"There are {', '.join(STATUSES)}.")

    def query(self, **other: str) -> str:
        """As the query of an address, with some of it changed."""
        return urlencode({name: value for name, value in {**asdict(self), **other}.items() if value})

    def page(self, evaluations: EvaluationRepository, tenant: str | None, limit: int | None = None) -> Page:
        """The page of evaluations that these let through. Raises UsageError for a cursor that is none."""
        state = cast(State, self.status) if self.status in ("queued", "running") else None
        status = Status(self.status) if self.status and not state else None
        return evaluations.list(
            tenant,
            state=state,
            status=status,
            problem=self.problem or None,
            cursor=self.cursor or None,
            limit=limit or ROWS,
        )


@dataclass(frozen=True)
class OpenEvaluations:
    """What has no verdict yet and can be cancelled."""

    items: tuple[ListedEvaluation, ...]
    more: bool
    """Whether there are others beside these."""


def open_evaluations(evaluations: EvaluationRepository, tenant: str | None, problem: str) -> OpenEvaluations:
    """The open evaluations of `tenant` (None: of all), of one problem where it is named."""
    items: list[ListedEvaluation] = []
    more = False
    states: tuple[State, ...] = ("running", "queued")
    for state in states:
        room = CANCELLED_AT_ONCE - len(items)
        page = evaluations.list(tenant, state=state, problem=problem or None, limit=max(1, room))
        items += [one for one in page.items if one.wanted][:room]
        more |= page.next_cursor is not None or (not room and bool(page.items))
    return OpenEvaluations(tuple(items), more)


def overview(
    evaluations: EvaluationRepository,
    workers: WorkerRepository,
    tenant: str | None,
    filters: Filters,
    before: Overview | None = None,
) -> Overview:
    """What the first page shows to `tenant` (None: to one who sees all).

    `before` is what it showed last: reading a page of verdicts again costs tens of milliseconds, finding that nothing
    in it has changed costs few.
    """
    fleet = workers.fleet()
    queues = tuple(_queues(evaluations.depth(), fleet))
    now_s = time.monotonic()
    if before and now_s - before.read_at_s < READ_AGAIN_S and _unchanged(evaluations, tenant, filters, before):
        return replace(before, queues=queues, workers=fleet)
    return Overview(queues, fleet, filters.page(evaluations, tenant), now_s)


def _unchanged(evaluations: EvaluationRepository, tenant: str | None, filters: Filters, before: Overview) -> bool:
    items = before.page.items
    first = filters.page(evaluations, tenant, limit=1).items
    if [item.id for item in first] != [item.id for item in items[:1]]:
        return False
    found = evaluations.watch([item.id for item in items])
    return all(found.get(item.id, (-1, ""))[0] == item.version for item in items)


def _queues(depth: Mapping[str, Waiting], workers: Sequence[WorkerFacts]) -> Iterator[Queue]:
    now_s = time.time()
    order = ("compile", "sim", "gpu")
    served = {name for worker in workers for name in worker.queues}
    for name in sorted({*depth, *served}, key=lambda name: (order.index(name) if name in order else 9, name)):
        waiting = depth.get(name, Waiting(0, 0.0))
        oldest_at = now_s - waiting.oldest_age_s if waiting.count else None
        yield Queue(name, waiting.count, oldest_at, sum(name in worker.queues for worker in workers))


_STEPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Waiting", ()),
    ("Compile", ("problem", "screen", "lift", "compile")),
    ("Verify", ("launch", "verify")),
    ("Time", ("time", "profile")),
)


def steps(stored: StoredEvaluation) -> list[tuple[str, Literal["past", "now", ""]]]:
    """The parts of an evaluation in order, and which of them is being done."""
    phase = (stored.progress or "").split(" ")[0].rstrip(":")
    if stored.state == "queued":
        now = 2 if stored.stage == "judge" else 0
    else:
        begun = 2 if stored.stage == "judge" else 1
        now = next((i for i, (_, phases) in enumerate(_STEPS) if phase in phases), begun)
    return [(name, "past" if i < now else "now" if i == now else "") for i, (name, _) in enumerate(_STEPS)]


def trouble(workers: WorkerRepository, stored: StoredEvaluation) -> str | None:
    """Why an evaluation that is not done may wait for long: no GPU that could judge it can be used."""
    if stored.state == "done" or stored.submission.backend == "sim":
        return None
    return gpu_trouble(workers.fleet())


@dataclass(frozen=True)
class Dress:
    """What every page wears: style sheet and script, and the policy that lets in these and no others."""

    sheet: Markup
    script: Markup

    @property
    def policy(self) -> str:
        """The content security policy."""
        return (
            f"default-src 'none'; style-src {hashed(self.sheet)}; script-src {hashed(self.script)}; "
            "connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )


@cache
def dress() -> Dress:
    """The one that there is."""
    made = [
        Markup(template_environment("evaluator.service.web").get_template(f"pages.{kind}").render())
        for kind in ("css", "js")
    ]
    return Dress(style() + made[0], made[1])


def part(name: str, **values: object) -> str:
    """The HTML of one template, to stand in a page."""
    limits = {"silent_after_s": SILENT_AFTER_S, "alive_within_s": ALIVE_WITHIN_S}
    shown = {"clock": Clock(time.time()), "look": look, **limits, **values}
    return template_environment("evaluator.service.web").get_template(f"{name}.html.j2").render(shown)


def html_page(name: str, tone: str = "", **values: object) -> str:
    """A whole page. `tone` chooses its icon: that of a verdict's status, or empty."""
    return part(name, style=dress().sheet, script=dress().script, icon=_ICONS[tone], **values)
