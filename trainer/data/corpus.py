"""Kernels to warm a small model up with: right ones and typically wrong ones, each with the status that it ends in.

A pre-trained language model has seen right and wrong code; a model that starts from nothing has to be shown both, or
it would be right from the start and reinforcement learning would have nothing to do.
"""

import random
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from common.contract import Status
from trainer.data.kernels import elementwise, matrices, rows, vectors
from trainer.data.kernels.style import Flaw, Style

STYLES: Final = (*elementwise.STYLES, *vectors.STYLES, *rows.STYLES, *matrices.STYLES)
PROBLEMS: Final = tuple(dict.fromkeys(style.problem for style in STYLES))
"""Ids of the problems that there are kernels for."""


@dataclass(frozen=True)
class Example:
    """One kernel for one problem."""

    problem: str
    style: str
    flaw: str | None
    """What is wrong with it; None in a right one."""
    source: str
    """The whole text: launch lines and kernel."""
    status: Status
    """How an evaluation of it ends."""


def styles(problem: str) -> tuple[Style, ...]:
    """The right ways to solve a problem, the plainest first; empty where there are none here."""
    return tuple(style for style in STYLES if style.problem == problem)


def flaws(style: Style) -> tuple[Flaw, ...]:
    """What can go wrong in a style: its own flaws, and slips of the pen that can happen in any."""
    body = style.text.index("{\n")
    store = style.text.rindex(";\n")
    stored = style.text[style.text.rindex("\n", 0, store) : store + 2]
    declared = re.search(r"int (\S+) = ", style.text[body:])
    assert declared is not None, f"the style {style.name} of {style.problem} has an index"
    launch = re.search(r"// assay: launch KERNEL", style.text)
    assert launch is not None, f"the style {style.name} of {style.problem} says its launch"
    return (
        *style.flaws,
        Flaw("semicolon missing", stored, stored.replace(";\n", "\n"), Status.COMPILE_ERROR),
        Flaw("undeclared index", declared[0], "int thread = ", Status.COMPILE_ERROR),
        Flaw("launch of another name", launch[0], f"{launch[0]}_launch", Status.INVALID_SUBMISSION),
    )


def render_prompt(style: Style, flaw: Flaw | None = None, *, kernel: str | None = None) -> Example:
    """A style as a kernel named `kernel` (else as the problem), with a flaw or none. Raises ValueError for a flaw of
    another style.
    """
    text = style.text
    if flaw is not None:
        if flaw.old not in text:
            raise ValueError(f"`{flaw.name}` is no flaw of the style `{style.name}` of {style.problem}.")
        text = text.replace(flaw.old, flaw.new, 1)
    status = Status.PASSED if flaw is None else flaw.status
    source = text.replace("KERNEL", kernel or style.problem)
    return Example(style.problem, style.name, None if flaw is None else flaw.name, source, status)


def everything(problems: Collection[str] = PROBLEMS) -> Iterator[Example]:
    """Each style of these problems once right and once with each of its flaws."""
    for style in STYLES:
        if style.problem in problems:
            yield render_prompt(style)
            for flaw in flaws(style):
                yield render_prompt(style, flaw)


def draw_tasks(rng: random.Random, problem: str, right_share: float) -> Example:
    """A kernel for a problem, right with the probability `right_share`. Raises ValueError where there is none."""
    choices = styles(problem)
    if not choices:
        raise ValueError(f"There are no kernels for {problem} here, only for {', '.join(PROBLEMS)}.")
    style = rng.choice(choices)
    return render_prompt(style, None if rng.random() < right_share else rng.choice(flaws(style)))
