"""Kernels to warm a small model up with: right ones and typically wrong ones, each with the status that it ends in.

A pre-trained language model has seen right and wrong code; a model that starts from nothing has to be shown both, or
it would be right from the start and reinforcement learning would have nothing to do.
"""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from string import Template
from typing import Final

from common.contract import Status
from trainer.kernels import elementwise, matrices, rows, vectors
from trainer.kernels.style import Flaw, Style

STYLES: Final = (*elementwise.STYLES, *vectors.STYLES, *rows.STYLES, *matrices.STYLES)
PROBLEMS: Final = tuple(dict.fromkeys(style.problem for style in STYLES))
"""Ids of the problems that there are kernels for."""

INDEXES: Final = ("i", "idx")
BLOCKS: Final = (128, 256, 512)


@dataclass(frozen=True)
class Example:
    """One kernel for one problem."""

    problem: str
    style: str
    flaw: str | None
    """What is wrong with it; null in a right one."""
    source: str
    """The whole text: launch lines and kernel."""
    status: Status
    """How an evaluation of it ends."""

    @property
    def answer(self) -> str:
        """The source as a model is to give it: one fenced block."""
        return f"```cuda\n{self.source}```"


def styles(problem: str) -> tuple[Style, ...]:
    """The right ways to solve a problem, the plainest first; empty where there are none here."""
    return tuple(style for style in STYLES if style.problem == problem)


def flaws(style: Style) -> tuple[Flaw, ...]:
    """What can go wrong in a style: its own flaws, and slips of the pen that can happen in any."""
    body = style.text.index("{\n")
    store = style.text.rindex(";\n")
    stored = style.text[style.text.rindex("\n", 0, store) : store + 2]
    declared = re.search(r"int (\S+) = ", style.text[body:])
    assert declared is not None, "every kernel here has an index"
    launch = style.text[style.text.index("// assay: launch ") :].splitlines()[0]
    return (
        *style.flaws,
        Flaw("semicolon missing", stored, stored.replace(";\n", "\n"), Status.COMPILE_ERROR),
        Flaw("undeclared index", declared[0], "int thread = ", Status.COMPILE_ERROR),
        Flaw(
            "launch of another name",
            launch,
            launch.replace("launch $kernel", "launch ${kernel}_launch"),
            Status.INVALID_SUBMISSION,
        ),
    )


def render(
    style: Style, flaw: Flaw | None = None, *, kernel: str | None = None, index: str = "i", block: int = 256
) -> Example:
    """A style as a kernel named `kernel` (else as the problem), with a flaw or none. Raises ValueError for a flaw of
    another style."""
    text = style.text
    if flaw is not None:
        if flaw.old not in text:
            raise ValueError(f"`{flaw.name}` is no flaw of the style `{style.name}` of {style.problem}.")
        text = text.replace(flaw.old, flaw.new, 1)
    source = Template(text).substitute(kernel=kernel or style.problem, i=index, block=block)
    status = Status.PASSED if flaw is None else flaw.status
    return Example(style.problem, style.name, None if flaw is None else flaw.name, source, status)


def everything(problems: Sequence[str] = PROBLEMS) -> Iterator[Example]:
    """Each style once right and once with each of its flaws."""
    for style in STYLES:
        if style.problem in problems:
            yield render(style)
            for flaw in flaws(style):
                yield render(style, flaw)


def draw(dice: random.Random, problem: str, right_share: float, kernel: str | None = None) -> Example:
    """A kernel for a problem, right with the probability `right_share`; style, flaw, names and block are drawn too."""
    style = dice.choice(styles(problem))
    flaw = None if dice.random() < right_share else dice.choice(flaws(style))
    return render(style, flaw, kernel=kernel, index=dice.choice(INDEXES), block=dice.choice(BLOCKS))
