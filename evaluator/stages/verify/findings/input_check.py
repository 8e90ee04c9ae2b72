"""Whether a run left its inputs as they were."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from common.contract import Phase, Status
from evaluator.errors import Ruling
from evaluator.problems.arrays import Array, namespace
from evaluator.problems.problem import Arrays
from evaluator.stages.launch.checked_plan import CheckedPlan


def changed_input(contents: Mapping[str, Array], inputs: Arrays, checked_plan: CheckedPlan) -> Ruling | None:
    """A ruling on the first input that does not hold what it was given; `contents` are bytes after a run."""
    changed = [
        memory.view(word) != contents[name].view(word)
        for name, given in inputs.items()
        for memory, word in [_in_words(given)]
    ]
    xp = namespace(*changed)
    if not bool(xp.any(xp.stack([xp.any(words) for words in changed]))):
        return None
    for name, given in inputs.items():
        memory = given.reshape(-1).view(xp.uint8)
        differs = memory != contents[name]
        if not bool(xp.any(differs)):
            continue
        element = int(xp.argmax(xp.astype(differs, xp.uint8))) // given.dtype.itemsize
        ruling = input_changed(name, f"{name}[{element}] is the first of the elements that differ")
        writer = checked_plan.writer_of(name)
        return replace(ruling, hint=f"{writer}. {ruling.hint}") if writer else ruling
    return None


def input_changed(name: str, how: str) -> Ruling:
    """An input that did not come back as it was."""
    return Ruling(
        Status.REJECTED,
        Phase.VERIFY,
        f"The input {name} was changed: {how}.",
        "Inputs are read only. Write results to the outputs and scratch values to a temporary "
        "(`// assay: temp NAME DTYPE (extents)`).",
    )


def _in_words(array: Array) -> tuple[Array, Any]:
    """The memory of an array as bytes, and the widest integer type that divides it: comparing is faster by words."""
    xp = namespace(array)
    memory = array.reshape(-1).view(xp.uint8)
    return memory, xp.int64 if memory.shape[0] % 8 == 0 else xp.uint8
