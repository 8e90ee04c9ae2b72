"""What a style is, and a flaw in it."""

from dataclasses import dataclass

from common.contract import Status


@dataclass(frozen=True)
class Flaw:
    """What typically goes wrong in a style: the first `old` in its text becomes `new`, and it ends with `status`."""

    name: str
    old: str
    new: str
    status: Status


@dataclass(frozen=True)
class Style:
    """One right way to solve a problem.

    In `text`, KERNEL stands for the kernel's name.
    """

    problem: str
    name: str
    text: str
    flaws: tuple[Flaw, ...]
