"""What is wrong with a graded kernel, or what makes it slow, as far as that is known: what a Tester learns to say.

A verdict says how an evaluation ended, and the rules' report where it showed; why, only the text says. Of a template
that is known: its flaw was put into it, and the right kernel of the same style is the cure. Of a right kernel it is
the pitfall that the evaluator's profile names first, else the style of the fastest kernel of its problem.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from trainer.data.graded import GradedKernel, faster_by


@dataclass(frozen=True)
class Diagnosis:
    """One kernel's."""

    issue: str
    """A few words, the same ones for the same fault of any kernel."""
    advice: str = ""
    """What to change, and where; empty where that is not known."""

    @property
    def lines(self) -> list[str]:
        """As a Tester says it."""
        return [f"{self.issue}.", self.advice]

    def is_named_by(self, answer: str) -> bool:
        """Whether the first line of a Tester's answer names the issue, in these words and no others."""
        return answer.strip().partition("\n")[0].strip(" .").casefold() == self.issue.casefold()


def diagnosis_of(kernel: GradedKernel, beside: Sequence[GradedKernel], factor: float) -> Diagnosis | None:
    """None for a kernel that is wrong for a reason that nobody knows, such as an agent's. `beside`: the kernels of
    its problem; `factor`: how many times as fast another one is at least, to be worth a word.
    """
    style, flaw = kernel.provenance.style, kernel.provenance.flaw
    if not kernel.passed:
        right = next((one for one in beside if one.passed and style and one.provenance.style == style), None)
        return Diagnosis(flaw, correction(kernel.source, right.source) if right else "") if flaw else None
    for pitfall in kernel.verdict.profile.pitfalls if kernel.verdict.profile else ():
        where = f"Line {pitfall.line}: " if pitfall.line else ""
        return Diagnosis(pitfall.kind.replace("_", " "), f"{where}{pitfall.remedy}")
    times = {one.provenance.style: faster_by(one.verdict, kernel.verdict) for one in beside if one.provenance.style}
    best, most = max(
        ((name, value or 0.0) for name, value in times.items()), key=lambda one: one[1], default=("", 0.0)
    )
    if most < factor:
        return Diagnosis("nothing is known to be faster")
    return Diagnosis(f"slower than {best}", f"Written so, it is {most:.3g} times as fast.")


def correction(wrong: str, right: str) -> str:
    """The first change that leads from one source to another, by its line in the wrong one, counted from 1."""
    old, new = ([line.strip() for line in text.splitlines()] for text in (wrong, right))
    for kind, start, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        if kind == "delete":
            return f"Line {start + 1}: take `{' '.join(old[start:end])}` out."
        after = f"After line {start}" if start else "Before line 1"
        place = f"Line {start + 1}" if kind == "replace" else after
        return f"{place}: write `{' '.join(new[first:last])}`."
    return ""
