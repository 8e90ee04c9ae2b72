"""The problem that a command grades for: one of ours by its id, or one that a file of someone else states."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from evaluator.cli import arguments
from evaluator.errors import UsageError
from evaluator.problems.catalogue import find_problem
from evaluator.problems.problem import Problem

if TYPE_CHECKING:
    from evaluator.pipeline.toolbox import Toolbox


@contextmanager
def chosen_problem(
    problem_id: str | None, reference: Path | None, raw: bytes, file: Path, toolbox: "Toolbox | None"
) -> Iterator[Problem]:
    """What to grade `file` for, `raw` being what it holds. Raises UsageError, InfrastructureError.

    The problem of a reference file can be used as long as the context lasts; it needs `toolbox`.
    """
    if reference is None:
        yield find_problem(arguments.problem_of(problem_id, raw, file))
        return
    if problem_id is not None:
        raise UsageError("--reference and --problem each say what to grade for.", "Leave one of them out.")
    named = arguments.named_problem(raw)
    text = arguments.read_source(reference, "Give the path of a KernelBench file.")
    # Nobody needs it who grades for a problem of ours.
    from evaluator.foreign.loading import foreign_problem

    assert toolbox is not None
    with foreign_problem(text, reference.name, toolbox.sandbox, toolbox.cache) as problem:
        if named not in (None, problem.id):
            raise UsageError(
                f"The first line of {file} says {named}, and --reference {reference} is {problem.id}.",
                "Leave --reference out, or change the line `// problem: ID`.",
            )
        yield problem


def refuse_beside_reference(backend: str, given: dict[str, bool]) -> None:
    """Raise UsageError where an option asks for what cannot be done for a problem of someone else."""
    for option, is_given in given.items():
        if is_given:
            raise UsageError(f"{option} cannot be used with --reference.", "Leave one of them out.")
    if backend == "gpu":
        raise UsageError("A problem in a PyTorch file is graded on the simulator.", "Leave --backend out.")
