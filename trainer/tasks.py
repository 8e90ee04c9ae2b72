"""What is asked of the agents: the problems of an evaluator in many different words, split for good by a hash.

A task is one prompt: a problem, said in one of many ways. Whether it is for training or held out hangs on the hash of
its id alone, so the same prompt is on the same side in every run, however many others are asked for.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """One prompt."""

    id: str
    """The problem's id and a hash of the text."""
    problem: str
    """Id of the problem at the evaluator."""
    tier: int
    """Of the problem: 0 basic, 1 intermediate, 2 complex, 3 advanced."""
    text: str
    """What is asked, whole."""
    held_out: bool
    """Never trained on."""
