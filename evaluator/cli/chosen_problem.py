"""The problem that a command grades for: one of ours by its id, or one that a file of someone else states."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from common.contract import OtherSizes
from evaluator.cli import arguments
from evaluator.errors import UsageError
from evaluator.problems.catalogue import find_problem
from evaluator.problems.problem import Problem

if TYPE_CHECKING:
    from evaluator.pipeline.toolbox import Toolbox


@dataclass(frozen=True)
class ReferenceText:
    """A file in KernelBench's form that says what to grade for."""

    name: str
    text: bytes
    option: str
    """The option that gave it, for messages."""


def reference_given(file: Path | None, expression: str | None, shapes: tuple[str, ...]) -> ReferenceText | None:
    """What `--reference`, or `--torch` with `--shape`, gives; None where neither is. Raises UsageError."""
    if expression is None:
        if shapes:
            raise UsageError("--shape says how large the tensors of --torch are.", "Add --torch EXPRESSION.")
        if file is None:
            return None
        text = arguments.read_source(file, "Give the path of a KernelBench file.")
        return ReferenceText(file.name, text, "--reference")
    if file is not None:
        raise UsageError("--reference and --torch each say what to grade for.", "Leave one of them out.")
    # Nobody needs it who grades for a problem of ours.
    from evaluator.foreign.torch_text import kernelbench_text, shapes_of

    return ReferenceText("torch", kernelbench_text(expression, shapes_of(shapes)).encode(), "--torch")


@contextmanager
def chosen_problem(
    problem_id: str | None,
    reference: ReferenceText | None,
    raw: bytes,
    file: Path,
    toolbox: "Toolbox | None",
    other_sizes: OtherSizes = "reported",
) -> Iterator[Problem]:
    """What to grade `file` for, `raw` being what it holds. Raises UsageError, InfrastructureError.

    The problem of a reference can be used as long as the context lasts; it needs `toolbox`.
    """
    if reference is None:
        yield find_problem(arguments.problem_of(problem_id, raw, file))
        return
    if problem_id is not None:
        raise UsageError(f"{reference.option} and --problem each say what to grade for.", "Leave one of them out.")
    named = arguments.named_problem(raw)
    from evaluator.foreign.loading import foreign_problem

    assert toolbox is not None
    with foreign_problem(reference.text, reference.name, toolbox.sandbox, toolbox.cache, other_sizes) as problem:
        if named not in (None, problem.id):
            raise UsageError(
                f"The first line of {file} says {named}, and {reference.option} is {problem.id}.",
                f"Leave {reference.option} out, or change the line `// problem: ID`.",
            )
        yield problem


def refuse_beside_reference(option: str, backend: str, given: dict[str, bool]) -> None:
    """Raise UsageError where an option asks for what cannot be done for a problem of someone else."""
    for other, is_given in given.items():
        if is_given:
            raise UsageError(f"{other} cannot be used with {option}.", "Leave one of them out.")
    if backend == "gpu":
        raise UsageError("A problem in a PyTorch file is graded on the simulator.", "Leave --backend out.")
