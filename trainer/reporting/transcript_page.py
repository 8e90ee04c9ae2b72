"""A run's conversations as web pages that need nothing else: no script, no network, no font.

One page lists them; each has a page of its own, turn by turn: the kernel and what changed in it, the verdict, the
Tester's report, the reward term by term. What a model wrote is hostile: jinja2 escapes it, unseen characters are
written out, and the pages' content security policy allows their one style sheet (by hash) and nothing else.
"""

import difflib
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from jinja2 import Environment
from markupsafe import Markup, escape
from pygments.lexers import CudaLexer
from pygments.token import Comment, Keyword, Name, Number, String

from common.contract import Status, Verdict
from common.source_lines import lines_of
from trainer.conversation.conversation import AgentName, Attempt, EndReason
from trainer.conversation.rewards import Credit
from trainer.errors import ConfigurationError
from trainer.reporting.environment import MAX_CHARACTERS as MAX_CHARACTERS
from trainer.reporting.environment import page_environment, visible
from trainer.reporting.transcripts import Transcript, read_transcripts

MAX_DIAGNOSTICS: Final = 5
MAX_LINES: Final = 2_000
"""Of a kernel that is compared with another."""
MAX_PAIRS: Final = 20_000
"""Of equal lines, one in each of two kernels that are compared: each pair is looked at, and not only once."""
Tone = Literal["good", "bad", "caution", "ours"]

_TONES: Final[dict[Status, Tone]] = {
    Status.PASSED: "good",
    Status.INCORRECT: "bad",
    Status.COMPILE_ERROR: "bad",
    Status.RUNTIME_ERROR: "bad",
    Status.REJECTED: "bad",
    Status.TIMEOUT: "caution",
    Status.OUT_OF_MEMORY: "caution",
    Status.INVALID_SUBMISSION: "caution",
    Status.UNSUPPORTED: "ours",
    Status.CANCELLED: "ours",
    Status.INTERNAL_ERROR: "ours",
}
_MARKS: Final[dict[Tone, str]] = {"good": "✓", "bad": "✗", "caution": "!", "ours": "–"}
_TOKENS: Final = (
    (Comment.Preproc, "p"),
    (Comment, "c"),
    (Keyword, "k"),
    (String, "s"),
    (Number, "n"),
    (Name.Function, "f"),
)
_ENDS: Final[dict[EndReason, str]] = {
    EndReason.MAX_TURNS: "all turns were used",
    EndReason.GOOD_ENOUGH: "the last kernel is good enough",
    EndReason.REPEATED: "a kernel was repeated",
    EndReason.NO_ROOM: "the next turn had no room in the context",
}


@dataclass(frozen=True)
class DiffLine:
    """One line of a difference: what it is (`+`, `-`, a space, or `@` for a gap) and its text."""

    kind: Literal["+", "-", " ", "@"]
    text: str


@dataclass(frozen=True)
class View:
    """One attempt as a page shows it."""

    attempt: Attempt
    credit: Credit | None
    difference: tuple[DiffLine, ...] | None
    """To the kernel before; None for the first one, and where there is no kernel."""

    @property
    def verdict(self) -> Verdict | None:
        return self.attempt.verdict

    @property
    def label(self) -> str:
        """The outcome in a word."""
        if self.attempt.written.format_problem is not None:
            return "no kernel"
        if self.attempt.repeats is not None:
            return f"repeats kernel {self.attempt.repeats + 1}"
        return str(self.verdict.status).replace("_", " ") if self.verdict else "not judged"

    @property
    def tone(self) -> Tone:
        """How the outcome is coloured."""
        if self.attempt.written.format_problem is not None:
            return "bad"
        return _TONES[self.verdict.status] if self.verdict else "ours"

    @property
    def mark(self) -> str:
        """The outcome without colour."""
        return _MARKS[self.tone]


def write_pages(folder: Path, out: Path, *, last: int = 200) -> int:
    """Write `out/index.html` and a page for each of the newest `last` conversations; how many these are.

    `folder`: of a run, or a file of transcripts. Raises ConfigurationError where there is none.
    """
    files = [folder] if folder.is_file() else sorted((folder / "transcripts").glob("*.jsonl"))
    found: deque[tuple[str, Transcript]] = deque(maxlen=last)
    for file in sorted(files, key=lambda file: _kind_and_step(file)[1]):
        found.extend((_kind_and_step(file)[0], one) for one in read_transcripts(file))
    if not found:
        raise ConfigurationError(
            f"There are no transcripts in {folder}.",
            "Name the folder of a run, such as runs/cpu-demo; logging.transcripts_share=0 keeps none.",
        )
    out.mkdir(parents=True, exist_ok=True)
    entries = []
    for number, (kind, one) in enumerate(found, 1):
        name = f"{number:04}.html"
        views = tuple(views_of(one))
        entries.append((name, kind, one, views))
        page = _render("conversation.html.j2", one=one, kind=kind, views=views, ended=_ends(one), number=number)
        (out / name).write_text(page, encoding="utf-8")
    whole = _render("conversations.html.j2", entries=entries, run=folder.stem)
    (out / "index.html").write_text(whole, encoding="utf-8")
    return len(entries)


def _kind_and_step(file: Path) -> tuple[str, int]:
    """`held_out-000042.jsonl`: what its conversations were for, and the step."""
    kind, _, step = file.stem.rpartition("-")
    return (kind, int(step)) if kind and step.isdecimal() else (file.stem, 0)


def views_of(one: Transcript) -> Iterator[View]:
    """The attempts of a conversation, each with its difference to the kernel before."""
    before: str | None = None
    for attempt in one.conversation.attempts:
        source = attempt.written.source
        difference = None
        if source is not None and before is not None:
            difference = tuple(difference_of(before, source))
        credit = one.credits[attempt.number] if attempt.number < len(one.credits) else None
        yield View(attempt, credit, difference)
        before = source if source is not None else before


def difference_of(old: str, new: str, around: int = 3) -> Iterator[DiffLine]:
    """What changed from one text to another, line by line, with `around` lines of what did not. Empty for equal
    texts; one row that says so where a comparison would take too long.
    """
    before, after = lines_of(old), lines_of(new)
    counted = Counter(after)
    if max(len(before), len(after)) > MAX_LINES or sum(counted[line] for line in before) > MAX_PAIRS:
        yield DiffLine("@", "too long to be compared line by line")
        return
    groups = difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(around)
    for number, group in enumerate(groups):
        if number or group[0][1] > 0:
            yield DiffLine("@", f"line {group[0][3] + 1}")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (DiffLine(" ", line) for line in before[i1:i2])
                continue
            yield from (DiffLine("-", line) for line in before[i1:i2])
            yield from (DiffLine("+", line) for line in after[j1:j2])


def coloured(source: str) -> Markup:
    """CUDA with its tokens in spans."""
    parts = []
    for kind, text in CudaLexer(stripnl=False, ensurenl=False).get_tokens(visible(source)):
        name = next((short for token, short in _TOKENS if kind in token), None)
        parts.append(Markup('<span class="t{}">{}</span>').format(name, text) if name else escape(text))
    return Markup("").join(parts)


def _ends(one: Transcript) -> str:
    return _ENDS[one.conversation.ended] if one.conversation.ended else "not over"


def _agent(name: AgentName) -> str:
    return name.value.capitalize()


@cache
def _environment() -> Environment:
    made = page_environment("trainer.reporting", "transcripts.css")
    made.filters.update(coloured=coloured, agent=_agent)
    made.globals.update(max_diagnostics=MAX_DIAGNOSTICS)
    return made


def _render(template: str, **values: object) -> str:
    return _environment().get_template(template).render(**values)
