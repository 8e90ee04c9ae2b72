"""Verdicts and problems as cards for the terminal.

Everything that a submission can influence is shown as plain text: control characters, terminal escapes and
direction marks become visible escapes, and rich's markup is never interpreted. Colour follows the console
(none with NO_COLOR or when the output is not a terminal); no statement is made by colour alone.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from common.contract import (
    Compilation,
    Correctness,
    Mismatch,
    Phase,
    ProblemFace,
    Profile,
    Reward,
    ScalarFace,
    Severity,
    Status,
    Verdict,
)
from common.contract.counters import Estimate
from common.demangled import without_parameters
from common.source_lines import lines_of
from evaluator.report.speed import host_code, in_short, speed

# C0 and C1 controls, zero-width and direction marks, line separators, surrogates: what changes how a line reads
# without being seen. Tab and newline are kept.
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")

TIERS = ("basic", "intermediate", "complex", "advanced")


def printable(text: str) -> str:
    r"""The text with every character that cannot be seen written out, for example `\x1b` or `\u202e`."""

    def escape(match: re.Match[str]) -> str:
        code = ord(match.group())
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

    return _UNSEEN.sub(escape, text.replace("\r\n", "\n"))


def named_as(message: str, file: str | None) -> str:
    """A compiler's message with the user's name of the file in the place of the one that it was compiled under."""
    return message if file is None else _COMPILED_AS.sub(lambda _: file, message)


_COMPILED_AS: Final = re.compile(r"^kernel\.(?:cu|py)(?=:)", re.MULTILINE)
"""`diagnostics.py` and `python_syntax.py` of the stages name a submission so: the user's own name is no part of what
is graded."""


def line_of(verdict: Verdict) -> tuple[int, int | None] | None:
    """Line and column of the source (both from 1) that the verdict is about, where it names one."""
    fault = verdict.correctness.fault if verdict.correctness else None
    if fault and fault.line:
        return fault.line, None
    if verdict.compile is None:
        return None
    if verdict.status is Status.COMPILE_ERROR:
        for diagnostic in verdict.compile.diagnostics:
            if diagnostic.severity is Severity.ERROR and diagnostic.line:
                return diagnostic.line, diagnostic.column
    if verdict.status in (Status.REJECTED, Status.INVALID_SUBMISSION):
        for finding in verdict.compile.screening.findings:
            if finding.severity is Severity.ERROR:
                return finding.line, None
    return None


def verdict_card(verdict: Verdict, source: str, title: str | None = None) -> RenderableType:
    """A verdict at a glance, for 40 columns and up. `title` names the file; the problem's id stands in for it."""
    return _Card(verdict, source, title or verdict.problem, title if title != "-" else None)


@dataclass(frozen=True)
class _Look:
    style: str
    symbol: str
    ascii_symbol: str


_LOOKS = {
    Status.PASSED: _Look("green", "✓", "+"),
    Status.INCORRECT: _Look("red", "✗", "x"),
    Status.COMPILE_ERROR: _Look("red", "✗", "x"),
    Status.RUNTIME_ERROR: _Look("red", "✗", "x"),
    Status.TIMEOUT: _Look("yellow", "◷", "o"),
    Status.OUT_OF_MEMORY: _Look("yellow", "▣", "#"),
    Status.INVALID_SUBMISSION: _Look("yellow", "?", "?"),
    Status.REJECTED: _Look("magenta", "⊘", "!"),
    Status.UNSUPPORTED: _Look("blue", "–", "-"),
    Status.CANCELLED: _Look("blue", "–", "-"),
    Status.INTERNAL_ERROR: _Look("bright_black", "!", "!"),
}


def where_it_ran(verdict: Verdict) -> str:
    """`, on a GPU` or `, on the simulator`; empty where the evaluation ended before any backend had a part in it."""
    if verdict.phase in (Phase.PROBLEM, Phase.SCREEN, Phase.LIFT, Phase.COMPILE):
        return ""
    return ", on a GPU" if verdict.backend == "gpu" else ", on the simulator"


def how_verified(verdict: Verdict) -> str:
    """` (quick)` where a submission passed a verification that was not full; else empty."""
    passed = verdict.correctness if verdict.status is Status.PASSED else None
    return " (quick)" if passed and passed.verification == "quick" else ""


@dataclass(frozen=True)
class _Card:
    verdict: Verdict
    source: str
    title: str
    file: str | None
    """The user's name of it; None for standard input."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        verdict, look = self.verdict, _LOOKS[self.verdict.status]
        plain = options.ascii_only
        head = _text(plain, look.ascii_symbol if plain else look.symbol, f"bold {look.style}")
        head.append(f" {verdict.status}", f"bold {look.style}")
        head.append(f"{how_verified(verdict)} in phase {verdict.phase}{where_it_ran(verdict)}", "dim")
        parts: list[RenderableType] = [head, *_paragraphs(named_as(verdict.message, self.file), plain)]
        if quoted := _quote(verdict, self.source, plain):
            parts.append(quoted)
        facts = _facts(verdict, plain)
        if facts.row_count:
            parts += [Text(), facts]
        if verdict.hint:
            hint = _text(plain, "Hint: ", "bold")
            parts += [Text(), hint.append_text(_text(plain, verdict.hint))]
        title = _text(plain, " ".join(self.title.split()), "bold")
        if verdict.problem not in self.title:
            title.append_text(_text(plain, f" · {verdict.problem}"))
        yield Panel(
            Group(*parts),
            title=title,
            title_align="left",
            border_style=look.style,
            box=box.ASCII if plain else box.ROUNDED,
        )


def _text(plain: bool, text: str, style: str = "") -> Text:
    shown = printable(text)
    if plain:
        shown = shown.translate({ord("·"): "-", ord("…"): "...", ord("↳"): "|"})
        shown = shown.encode("ascii", "backslashreplace").decode("ascii")
    return Text(shown, style)


def _paragraphs(text: str, plain: bool) -> list[RenderableType]:
    """A message's lines.

    One that quotes a source (it is indented) stays one line, with the caret below it in its place, however narrow the
    card.
    """
    parts: list[RenderableType] = []
    rows = text.split("\n")
    while rows:
        row = rows.pop(0)
        if rows and _CARET.fullmatch(rows[0]):
            mark = rows.pop(0)
            parts.append(_Excerpt(row, mark.index("^"), mark.count("^"), plain))
        else:
            parts.append(_Excerpt(row, 0, 0, plain) if row.startswith("    ") else _text(plain, row))
    return parts


_CARET: Final = re.compile(r" *\^+")


@dataclass(frozen=True)
class _Excerpt:
    """A line with marks below it. Of one that is too long for the card, the part around the marks is shown."""

    line: str
    offset: int
    """Of the first mark, in characters of the line."""
    count: int
    """Of marks; 0 for none."""
    plain: bool
    gutter: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(options.max_width - len(self.gutter), 1)
        dots = "..." if self.plain else "…"
        begun = self.line[: self.offset]
        before, shown = (_text(self.plain, part.expandtabs(4)).plain for part in (begun, self.line))
        if cell_len(shown) > room and cell_len(before) > room // 2:
            cut = dots + before[len(before) - room // 4 :]
            before, shown = cut, cut + shown[len(before) :]
        if cell_len(shown) > room:
            shown = set_cell_size(shown, max(room - len(dots), 0)) + dots
        offset = cell_len(before)
        quoted = Text(self.gutter, "dim", no_wrap=True, overflow="crop")
        quoted.append(shown, "not dim")
        if not self.count:
            yield quoted
            return
        quoted.append("\n" + self.gutter.translate(_NO_DIGITS), "dim")
        quoted.append(" " * offset + "^" * max(min(self.count, room - offset), 1), "bold not dim")
        yield quoted


_NO_DIGITS: Final = dict.fromkeys(map(ord, "0123456789"), " ")


def _quote(verdict: Verdict, source: str, plain: bool) -> RenderableType | None:
    """The source line that the verdict is about, with a caret below it."""
    place = line_of(verdict)
    lines = lines_of(source)
    if place is None or not 1 <= place[0] <= len(lines) or "\n" in verdict.message:
        return None  # a message of several lines quotes the place itself
    number, column = place
    line = lines[number - 1]
    indent = len(line) - len(line.lstrip())
    shown = line.strip()[:_MOST_QUOTED]
    offset = max(column - 1 - indent, 0) if column else 0
    return _Excerpt(shown, offset, 1 if column else len(shown), plain, f"{number:>4} | ")


_MOST_QUOTED: Final = 4000
"""Characters of a line that are read: lines of generated code can have a million."""


def _facts(verdict: Verdict, plain: bool) -> Table:
    """What was measured, a row for each part that there is."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")

    def row(name: str, lines: Iterable[str]) -> None:
        shown = "\n".join(lines)
        if shown:
            table.add_row(name, _text(plain, shown))

    if verdict.compile:
        row("Compiler", _diagnostics(verdict.compile))
        row("Kernels", _kernels(verdict))
        row("Lifted", [lifting.text for lifting in (verdict.compile.lifting,) if lifting])
        row("Host code", host_code(verdict))
    if verdict.correctness:
        row("Launch", _launch(verdict.correctness))
        row("Wrong", _wrong(verdict.correctness))
        row("Trials", _trials(verdict.correctness))
    if verdict.timing:
        row("Speed", speed(verdict.timing))
    elif verdict.profile and verdict.profile.estimate:
        row("Estimate", _estimate(verdict.profile.estimate))
    if verdict.profile:
        row("Counts", _counts(verdict.profile))
        row("Reached", _reached(verdict.profile))
        row("Costs", _costs(verdict.profile))
    if verdict.reward:
        row("Reward", _reward(verdict.reward))
    return table


def _diagnostics(compilation: Compilation) -> list[str]:
    worst_first = sorted(compilation.diagnostics, key=lambda d: d.severity is not Severity.ERROR)
    shown = [
        f"{d.severity}{f' line {d.line}' if d.line else ''}: {in_short(d.text)}"
        for d in worst_first[:3]
        if d.severity is not Severity.NOTE
    ]
    left = len(worst_first) - 3
    return shown + ([f"and {left} more"] if shown and left > 0 else [])


def _estimate(found: Estimate) -> list[str]:
    """One line for the plan, one for each of the most expensive launches: never to be taken for a measurement."""
    sizes = ", ".join(f"{name}={size}" for name, size in found.sizes.items()) or "the problem's own shapes"
    said = f"about {found.latency_us:.3g} us on {found.gpu} at {sizes}, from counts"
    if found.speedup is not None:
        said += f"; {found.speedup:.3g} times as fast as the naive kernel"
    costliest = sorted(found.launches, key=lambda launch: -launch.latency_us)[:3]
    return [said] + [
        f"{in_short(launch.kernel, 40)}: {launch.latency_us:.3g} us, limited by {launch.limited_by} ("
        + ", ".join(f"{name} {term:.3g} us" for name, term in _largest(launch.terms_us))
        + ")"
        for launch in costliest
    ]


def _largest(terms_us: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(terms_us.items(), key=lambda term: -term[1])[:3]


def _kernels(verdict: Verdict) -> list[str]:
    launches = {launch.kernel: launch for launch in verdict.profile.occupancy} if verdict.profile else {}
    lines = []
    kernels = verdict.compile.kernels if verdict.compile else ()
    for kernel in kernels[:4]:
        spills = kernel.spill_store_bytes + kernel.spill_load_bytes
        said = f"{in_short(without_parameters(kernel.kernel), 40)}: {kernel.registers} registers"
        said += f", {spills} bytes of spills" if spills else ""
        if launch := launches.get(kernel.kernel):
            said += f", occupancy {launch.occupancy:.0%} (limited by {launch.limited_by})"
        lines.append(said)
    return lines + ([f"and {len(kernels) - 4} more"] if len(kernels) > 4 else [])


def _counts(profile: Profile) -> list[str]:
    launches = profile.evidence.launches if profile.evidence else ()
    lines = []
    for launch in launches[:4]:
        said = [f"{launch.warp_instructions:,} warp-instructions"]
        moved = launch.loads.unique_sectors + launch.stores.unique_sectors
        if launch.memory_efficiency is not None:
            said.append(f"{32 * moved:,} bytes, {launch.memory_efficiency:.0%} of the sectors used")
        if launch.bank_conflict_ways is not None and launch.bank_conflict_ways >= 1.05:
            said.append(f"{launch.bank_conflict_ways:.3g} ways of bank conflicts")
        if launch.lane_efficiency is not None:
            said.append(f"{launch.lane_efficiency:.0%} of the lanes")
        lines.append(f"{in_short(launch.kernel, 40)}: {', '.join(said)}")
    return lines + ([f"and {len(launches) - 4} more"] if len(launches) > 4 else [])


def _reached(profile: Profile) -> list[str]:
    """What a GPU's own profiler read, and what it could not."""
    shares = (
        ("occupancy", profile.achieved_occupancy),
        ("multiprocessors", profile.sm_share),
        ("device memory", profile.dram_share),
    )
    said = ", ".join(f"{name} {share:.0%}" for name, share in shares if share is not None)
    return [*([said] if said else []), *(f"not measured: {in_short(why)}" for why in profile.not_measured[:2])]


def _costs(profile: Profile) -> list[str]:
    return [
        f"{pitfall.weight:.0%} of the time, {pitfall.kind.replace('_', ' ')}"
        f"{f' in line {pitfall.line}' if pitfall.line else ''}: {in_short(pitfall.cost)}"
        for pitfall in profile.pitfalls[:2]
    ]


def _launch(correctness: Correctness) -> list[str]:
    """How a kernel without a launch plan was launched: its time may be another with a plan."""
    inferred = correctness.plan_source == "inferred" and correctness.binding
    return [f"no launch plan: {in_short(correctness.binding or '', 400)}"] if inferred else []


def _wrong(correctness: Correctness) -> list[str]:
    for trial in correctness.trials:
        if trial.mismatch:
            m = trial.mismatch
            index = ", ".join(map(str, m.index))
            return [
                f"{m.output}[{index}] is {in_short(m.actual, 40)}, expected {in_short(m.expected, 40)}",
                in_short(which_are_wrong(m)),
            ]
    return []


def which_are_wrong(mismatch: Mismatch) -> str:
    """How many elements are wrong, and which: the pattern alone where it says both."""
    if str(mismatch.count) in mismatch.pattern.split():
        return mismatch.pattern
    return f"{mismatch.wrong_count:,} of {mismatch.count:,} elements are wrong: {mismatch.pattern}"


def _trials(correctness: Correctness) -> list[str]:
    good = sum(trial.passed for trial in correctness.trials)
    said = f"{good} of {correctness.planned_trials} passed"
    if correctness.worst_error is not None:
        said += f", worst error {correctness.worst_error:.2g} of the allowed"
    if correctness.deterministic is not None:
        said += ", same bits each run" if correctness.deterministic else ", bits differ from run to run"
    left_out = [f"not judged at {in_short(said)}" for said in correctness.left_out[:2]]
    if left_out:
        left_out.append(NOT_JUDGED)
    if correctness.passed and correctness.verification == "quick":
        left_out.insert(0, "quick: no sizes above the published ones")
    others = correctness.generalisation
    if others is not None:
        # Those before the last one were right.
        shown = others.sizes if others.passed else others.sizes[-1:]
        where = "; ".join(", ".join(f"{name}={size}" for name, size in sizes.items()) for sizes in shown)
        left_out.append(f"at other sizes: {'right' if others.passed else 'wrong'} ({in_short(where)})")
    # Whole: what decides whether it matters may stand at its end.
    left_out += [f"warning: {in_short(warning, 1000)}" for warning in correctness.warnings[:_MOST_WARNINGS]]
    if correctness.warnings[_MOST_WARNINGS:]:
        left_out.append(f"warnings beside these: {len(correctness.warnings) - _MOST_WARNINGS} (--json has all)")
    return [said, *left_out]


_MOST_WARNINGS: Final = 4
NOT_JUDGED: Final = "What was not judged counts neither for the kernel nor against it."


def _reward(reward: Reward) -> list[str]:
    if reward.value is None:
        return [f"none ({reward.name}). {reward.reason}"]
    counted = sorted((term for term in reward.terms if term.contribution), key=lambda term: -term.contribution)
    told = ", ".join(f"{term.name} {term.contribution:+.3g}" for term in counted)
    left_out = sum(term.value is None for term in reward.terms)
    said = f"{reward.value:.3g} of {reward.maximum:.3g} ({reward.name})" + (f": {told}" if told else "")
    return [said + (f"; not measured here: {left_out} of {len(reward.terms)} terms" if left_out else "")]


def _scalar(scalar: ScalarFace) -> str:
    varies = "; other values in hidden trials" if scalar.varies else ""
    return f"{scalar.name} = {scalar.value:g} {scalar.dtype}{varies}"


def problem_card(face: ProblemFace) -> RenderableType:
    """One problem as a kernel author needs it: statement, tensors, tolerance and a file to start from."""
    return _Fitted(lambda plain: _problem(face, plain))


def problem_table(faces: Sequence[ProblemFace]) -> RenderableType:
    """All problems, one a row, in order of tier."""
    return _Fitted(lambda plain: _problems(faces, plain))


@dataclass(frozen=True)
class _Fitted:
    """Something that is built when it is known whether the terminal takes more than ASCII."""

    build: Callable[[bool], RenderableType]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.build(options.ascii_only)


def _problem(face: ProblemFace, plain: bool) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, tensors in (("Inputs", face.inputs), ("Outputs", face.outputs)):
        shapes = (f"{t.name}[{', '.join(t.shape)}] {t.dtype}" for t in tensors)
        table.add_row(name, _text(plain, "\n".join(shapes)))
    if face.scalars:
        table.add_row("Scalars", _text(plain, "\n".join(map(_scalar, face.scalars))))
    table.add_row("Sizes", _text(plain, face.serves or ", ".join(face.sizes) or "none: its shapes are fixed"))
    examples = (", ".join(f"{name}={size}" for name, size in sizes.items()) for sizes in face.example_sizes)
    timed = ", ".join(f"{name}={size}" for name, size in face.timing_sizes.items())
    if timed:
        table.add_row("Examples", _text(plain, "\n".join(examples)))
        table.add_row("Timed at", _text(plain, timed))
    table.add_row("Baseline", _text(plain, face.baseline))
    table.add_row("Tolerance", _text(plain, face.tolerance))
    if face.caveats:
        table.add_row("Cannot say", _text(plain, "\n".join(face.caveats)))
    table.add_row("Tested with", _text(plain, "\n".join((*face.distributions, *face.probes))))
    starter = _text(plain, face.starter.rstrip())
    return Panel(
        Group(
            _text(plain, face.title, "bold"),
            _text(plain, face.statement),
            Text(),
            table,
            Text("\nStart from (--starter prints it whole):", "bold"),
            starter,
        ),
        title=_text(plain, f"{face.id} · tier {face.tier} {TIERS[face.tier]} · version {face.version}"),
        title_align="left",
        box=box.ASCII if plain else box.ROUNDED,
    )


def _problems(faces: Sequence[ProblemFace], plain: bool) -> RenderableType:
    table = Table(box=box.ASCII2 if plain else box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("Problem", no_wrap=True)
    table.add_column("Tier", no_wrap=True)
    table.add_column("What it computes", overflow="fold")
    for face in sorted(faces, key=lambda face: face.tier):
        tier = _text(plain, f"{face.tier} {TIERS[face.tier]}", "dim")
        table.add_row(_text(plain, face.id, "bold"), tier, _text(plain, face.title))
    return table
