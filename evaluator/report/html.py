"""Verdicts as one HTML file that needs nothing else: no network, no script, no font.

Everything that a submission can influence is hostile: jinja2 escapes it, unseen characters are written out, and the
page's content security policy allows its one style sheet (by hash) and nothing else.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal

from markupsafe import Markup
from pygments.lexers import CudaLexer, PythonLexer
from pygments.token import Comment, Keyword, Name, Number, String

from common.contract import Mismatch, Reward, RewardTerm, Severity, Status, Timing, Verdict
from common.contract.counters import Pitfall
from common.demangled import without_parameters
from common.source_lines import lines_of
from evaluator.report import charts, line_costs
from evaluator.report.environment import template_environment
from evaluator.report.heat_map import HeatMap
from evaluator.report.line_costs import Access, LineCosts, Mark, Room
from evaluator.report.svg import COLOURS
from evaluator.report.terminal import NOT_JUDGED, how_verified, line_of, named_as, where_it_ran
from evaluator.stages.lift.dialects import is_triton

MAX_LINES = 3000
"""A longer source is shown around its remarks only."""
LINES_AROUND = 12
MAX_PICTURES = 4
"""Of one kind: a plan of many launches repeats itself."""
MAX_LINE_CHARACTERS = 2000
MAX_HIGHLIGHTED_CHARACTERS = 200_000

Tone = Literal["good", "bad", "caution", "ours"]

_TONES: dict[Status, tuple[Tone, str]] = {
    Status.PASSED: ("good", "✓"),
    Status.INCORRECT: ("bad", "✗"),
    Status.COMPILE_ERROR: ("bad", "✗"),
    Status.RUNTIME_ERROR: ("bad", "✗"),
    Status.TIMEOUT: ("caution", "◷"),
    Status.OUT_OF_MEMORY: ("caution", "▣"),
    Status.INVALID_SUBMISSION: ("caution", "?"),
    Status.REJECTED: ("bad", "⊘"),
    Status.UNSUPPORTED: ("ours", "–"),
    Status.CANCELLED: ("ours", "–"),
    Status.INTERNAL_ERROR: ("ours", "!"),
}

_TOKENS = ((Comment.Preproc, "p"), (Comment, "c"), (Keyword, "k"), (String, "s"), (Number, "n"), (Name.Function, "f"))

STANDARD_INPUT: Final = "standard input"
"""The title of what came from no file."""


def render(verdict: Verdict, source: str, title: str | None = None) -> str:
    """One verdict as a complete HTML page. `source` is the text that was graded, `title` the file's name."""
    return _page(title or verdict.problem, [_View("v1", title or verdict.problem, verdict, source)])


def render_many(items: Sequence[tuple[str, Verdict, str]]) -> str:
    """Several graded files on one page: a summary table, then each verdict. `items`: title, verdict, source."""
    return _page("Graded kernels", [_View(f"v{i}", *item) for i, item in enumerate(items, 1)], many=True)


def article(verdict: Verdict, source: str) -> Markup:
    """The report of one verdict without the page around it, for a page with a heading and `style()` of its own."""
    return _part("sections", _View("verdict", verdict.problem, verdict, source))


def listing(source: str, label: str) -> Markup:
    """A source text with line numbers and colours. `label` says to screen readers what it is."""
    return _part("numbered", _lines(source, (), None), label)


def _part(macro: str, *arguments: object) -> Markup:
    made: Markup = getattr(template_environment().get_template("verdict.html.j2").module, macro)(*arguments)
    return made


def look(status: Status) -> tuple[Tone, str]:
    """The class that colours a status, and the sign that stands before it."""
    return _TONES[status]


def style() -> Markup:
    """The style sheet that `article` needs."""
    return Markup(
        template_environment().get_template("report.css").render(colours=COLOURS, metrics=line_costs.METRICS)
    )


def hashed(text: str) -> str:
    """What a content security policy calls an inline style sheet or script, to let in this one and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _page(title: str, views: list["_View"], many: bool = False) -> str:
    policy = f"default-src 'none'; style-src {hashed(style())}; base-uri 'none'; form-action 'none'"
    template = template_environment().get_template("report.html.j2")
    return template.render(title=title, views=views, many=many, style=style(), policy=policy)


@dataclass(frozen=True)
class _Remark:
    """Something said about one line of the source."""

    severity: Severity
    origin: str
    text: str


@dataclass
class _Line:
    number: int
    pieces: list[tuple[str, str]] = field(default_factory=list)
    """Token class (empty for none) and text."""
    remarks: list[_Remark] = field(default_factory=list)
    decisive: bool = False
    """The verdict is about this line."""
    skipped: int = 0
    """Lines left out before this one."""
    marks: tuple[Mark, ...] = ()
    """Its share of what was counted."""


@dataclass(frozen=True)
class _View:
    """What the template needs to know about one verdict."""

    anchor: str
    title: str
    verdict: Verdict
    source: str

    @property
    def tone(self) -> Tone:
        return _TONES[self.verdict.status][0]

    @property
    def symbol(self) -> str:
        return _TONES[self.verdict.status][1]

    @property
    def message(self) -> str:
        """The verdict's, with the file's own name."""
        return named_as(
            self.verdict.message, None if self.title in (self.verdict.problem, STANDARD_INPUT) else self.title
        )

    @property
    def not_judged(self) -> str:
        """What it means that a size was left out; empty where none was."""
        return NOT_JUDGED if self.verdict.correctness and self.verdict.correctness.left_out else ""

    @property
    def how_verified(self) -> str:
        return how_verified(self.verdict)

    @property
    def where(self) -> str:
        return where_it_ran(self.verdict)

    @property
    def other_warnings(self) -> list[str]:
        """Those that are not shown with the verdict as hazards."""
        seen = self.verdict.correctness
        if seen is None:
            return []
        shown = [hazard.message for hazard in seen.hazards]
        return [warning for warning in seen.warnings if not any(message in warning for message in shown)]

    @property
    def lines(self) -> list[_Line]:
        return _lines(self.source, _remarks(self.verdict), line_of(self.verdict), self.costs.marks)

    @property
    def elsewhere(self) -> list[_Remark]:
        """Remarks that have no line in the source."""
        count = len(lines_of(self.source))
        return [remark for line, remark in _remarks(self.verdict) if line is None or not 1 <= line <= count]

    @property
    def mismatches(self) -> list[tuple[int, Mismatch]]:
        trials = self.verdict.correctness.trials if self.verdict.correctness else ()
        return [(number, trial.mismatch) for number, trial in enumerate(trials, 1) if trial.mismatch]

    @property
    def next_steps(self) -> list[str]:
        return list(_next_steps(self.verdict))

    @cached_property
    def costs(self) -> LineCosts:
        """What each line of the source costs, where that was counted."""
        return line_costs.line_costs(self.verdict.profile)

    @property
    def rooms(self) -> list[tuple[Room, Markup | None]]:
        """What limits the occupancy of each launch, with a picture where the architecture is known."""
        found = line_costs.rooms(self.verdict.profile, self.verdict.compile)
        return [(room, _drawn(room)) for room in found[:MAX_PICTURES]]

    @property
    def roofline(self) -> tuple[Markup, str] | None:
        """The picture, and what it says."""
        found = line_costs.roofline_data(self.verdict)
        return (charts.roofline_chart(found.roof, (found.point,)), found.note) if found else None

    @property
    def race(self) -> Markup | None:
        found = line_costs.racers(self.verdict.correctness.fault if self.verdict.correctness else None)
        return charts.race(*found) if found else None

    @property
    def accesses(self) -> list[tuple[Access, Markup]]:
        """The requests of warps that waste most, and their pictures."""
        wasteful = line_costs.accesses(self.verdict.profile)[:MAX_PICTURES]
        return [(one, charts.access(one.space, one.offsets, one.lane_bytes)) for one in wasteful]

    @property
    def times(self) -> tuple[Markup, list[str]] | None:
        """Histograms of the raw samples where the verdict carries them, and what they do not show."""
        timing = self.verdict.timing
        named = (("submission", timing.samples_us), ("baseline", timing.baseline_samples_us)) if timing else ()
        samples = tuple((name, samples_us) for name, samples_us in named if samples_us)
        return (charts.times(samples), list(_beyond(samples))) if samples else None

    @property
    def pitfalls(self) -> list[Pitfall]:
        profile = self.verdict.profile
        return sorted(profile.pitfalls, key=lambda pitfall: -pitfall.weight) if profile else []

    @property
    def time_bars(self) -> list[tuple[str, float, float, str]]:
        """Name, microseconds, percent of the longest, and kind of each time that can be compared."""
        timing = self.verdict.timing
        return list(_time_bars(timing)) if timing else []

    def heat(self, mismatch: Mismatch) -> HeatMap:
        return HeatMap(mismatch)

    def bar(self, reward: Reward, term: RewardTerm) -> dict[str, float]:
        """Where a term's bar lies, in percent: zero is where the reward's deepest penalty leaves it."""
        lowest = min(0.0, *(t.weight for t in reward.terms)) if reward.terms else 0.0
        highest = max([abs(t.contribution) for t in reward.terms] + [abs(t.weight) for t in reward.terms] + [1e-9])
        span = highest - lowest
        zero = -lowest / span * 100
        width = abs(term.contribution) / span * 100
        return {"zero": zero, "x": zero if term.contribution >= 0 else zero - width, "width": width}


def _remarks(verdict: Verdict) -> list[tuple[int | None, _Remark]]:
    found: list[tuple[int | None, _Remark]] = []
    if verdict.compile:
        for finding in verdict.compile.screening.findings:
            text = f"{finding.text}: {finding.why}"
            found.append((finding.line, _Remark(finding.severity, f"screen, {finding.rule}", text)))
        for diagnostic in verdict.compile.diagnostics:
            foreign = diagnostic.file is not None and diagnostic.file not in ("kernel.cu", "kernel.py")
            column = f", column {diagnostic.column}" if diagnostic.column and not foreign else ""
            origin = f"compiler{column}" + (f", {diagnostic.code}" if diagnostic.code else "")
            if foreign:
                origin += f", {diagnostic.file}" + (f":{diagnostic.line}" if diagnostic.line else "")
            line = None if foreign else diagnostic.line
            found.append((line, _Remark(diagnostic.severity, origin, diagnostic.text)))
    fault = verdict.correctness.fault if verdict.correctness else None
    if fault:
        kernel = f"{fault.kernel}: " if fault.kernel else ""
        who = line_costs.who(fault.thread, fault.block)
        said = " ".join(filter(None, (who, fault.message)))
        kind = fault.kind.replace("_", " ")
        found.append((fault.line, _Remark(Severity.ERROR, f"run, {kind}", f"{kernel}{said}")))
    return found


def _lines(
    source: str,
    remarks: Iterable[tuple[int | None, _Remark]],
    place: tuple[int, int | None] | None,
    marks: Mapping[int, tuple[Mark, ...]] = MappingProxyType({}),
) -> list[_Line]:
    """The source line by line; of a long one only what lies around remarks and costly lines, and its beginning."""
    texts = lines_of(source)
    lines = [_Line(number) for number in range(1, len(texts) + 1)]
    for number, remark in remarks:
        if number is not None and 1 <= number <= len(lines):
            lines[number - 1].remarks.append(remark)
    if place and 1 <= place[0] <= len(lines):
        lines[place[0] - 1].decisive = True
    for line, pieces in zip(lines, _highlighted(texts), strict=True):
        line.pieces, line.marks = pieces, marks.get(line.number, ())
    if len(lines) <= MAX_LINES:
        return lines
    wanted = set(range(min(200, len(lines))))
    hot = (line for line in lines if line.remarks or line.decisive or any(mark.shade > 1 for mark in line.marks))
    for line in list(hot)[:100]:
        wanted.update(range(max(line.number - 1 - LINES_AROUND, 0), min(line.number + LINES_AROUND, len(lines))))
    shown, before = [], -1
    for index in sorted(wanted):
        lines[index].skipped = index - before - 1
        shown.append(lines[index])
        before = index
    return shown


def _highlighted(texts: list[str]) -> list[list[tuple[str, str]]]:
    """Each line as pieces of token class and text."""
    cut = [text if len(text) <= MAX_LINE_CHARACTERS else text[:MAX_LINE_CHARACTERS] + " …" for text in texts]
    whole = "\n".join(cut)
    if len(whole) > MAX_HIGHLIGHTED_CHARACTERS:
        return [[("", text)] for text in cut]
    lines: list[list[tuple[str, str]]] = [[]]
    # The lexer's own options would strip leading lines and so shift every number.
    lexer = PythonLexer if is_triton(whole) else CudaLexer
    for token, value in lexer(stripnl=False, ensurenl=False).get_tokens(whole):
        kind = _token_class(token)
        for index, part in enumerate(value.split("\n")):
            if index:
                lines.append([])
            if part:
                lines[-1].append((kind, part))
    # A lexer that saw other line ends than ours must not shift remarks to a wrong line.
    return lines if len(lines) == len(cut) else [[("", text)] for text in cut]


def _token_class(token: Any) -> str:
    return next((kind for parent, kind in _TOKENS if token in parent), "")


def _time_bars(timing: Timing) -> Iterator[tuple[str, float, float, str]]:
    others = [(f"PyTorch, {one.words}", one.latency_us) for one in timing.baselines if one.latency_us is not None]
    others = others if len(others) > 1 else []
    longest = max(timing.latency_us, timing.baseline_us, timing.sol_us or 0, *(time_us for _, time_us in others))
    yield "This submission", timing.latency_us, timing.latency_us / longest * 100, "fill"
    yield timing.compared_with, timing.baseline_us, timing.baseline_us / longest * 100, "other"
    for name, time_us in others:
        yield name, time_us, time_us / longest * 100, "other"
    if timing.sol_us is not None:
        yield "Speed of light of this device", timing.sol_us, timing.sol_us / longest * 100, "light"


def _drawn(room: Room) -> Markup | None:
    launch = room.launch
    return charts.occupancy_chart(room.allowed, launch.limited_by, launch.max_warps) if room.allowed else None


def _beyond(samples: Iterable[tuple[str, tuple[float, ...]]]) -> Iterator[str]:
    """Times that lie outside a histogram's axis."""
    axis = [(name, samples_us, charts.long_axis(samples_us)) for name, samples_us in samples]
    reach_us = max(end_us for _, _, end_us in axis)
    for name, samples_us, _ in axis:
        if strays := [time_us for time_us in samples_us if time_us > reach_us]:
            yield (
                f"Not drawn: {len(strays)} of the {name}'s {len(samples_us)} lie further right, the longest at "
                f"{max(strays):.5g} µs. They count all the same."
            )


def _next_steps(verdict: Verdict) -> Iterator[str]:
    """What to look at next, beyond the hint, from what was measured."""
    profile, compilation = verdict.profile, verdict.compile
    spilling = (
        [k.kernel for k in compilation.kernels if k.spill_store_bytes + k.spill_load_bytes] if compilation else []
    )
    if spilling:
        name = without_parameters(spilling[0])
        yield f"{name} spills registers to memory: keep fewer values alive, or raise -maxrregcount."
    counted = profile is not None and profile.evidence is not None
    low = [launch for launch in profile.occupancy if launch.occupancy < 0.5] if profile and not counted else []
    if low:
        launch = low[0]
        yield (
            f"{without_parameters(launch.kernel)} reaches an occupancy of {launch.occupancy:.0%}, limited by "
            f"{launch.limited_by}: use less of it, or give each thread more independent work."
        )
    timing = verdict.timing
    if timing and timing.sol_share is not None and timing.sol_share < 0.5:
        yield (
            f"It takes {1 / timing.sol_share:.3g} times as long as this device needs at least "
            f"({timing.sol_us:.4g} µs): look for bytes that move twice, idle multiprocessors, or waiting."
        )
    if verdict.correctness and verdict.correctness.deterministic is False:
        yield "Two runs on the same input differ in their bits: look for atomics or a missing barrier."
    if verdict.status is Status.PASSED and verdict.backend == "sim":
        seen = verdict.correctness
        if seen and seen.hazards:
            yield "Its answers were right. Fix what the hazard names: it costs reward, and may be wrong elsewhere."
        if seen and seen.verification == "quick":
            yield "It was verified quickly: grade it in full for the sizes above the published ones."
        yield "To learn how fast it is, grade it with --backend gpu on a machine that has one."
