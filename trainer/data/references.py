"""Problems in files of others as tasks: KernelBench's, LeetGPU's, Tensara's, FlashInfer Trace's.

The evaluator reads them, says what each is (its tensors, sizes and tier) and whether it can be one; the agents get
the file's text beside that. Whether a file is trained on or held out hangs on its text alone, for good.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from common.contract import ProblemFace, Reference, name_of_file, sendable_name
from common.contract.reference import MAX_REFERENCE_BYTES
from trainer.data.tasks import Task, is_held_out
from trainer.errors import ConfigurationError

_PATTERNS: Final = ("*.py", "*.json")


@dataclass(frozen=True)
class StatedProblem:
    """A file, and what the evaluator says of it."""

    reference: Reference
    described: ProblemFace

    @cached_property
    def face(self) -> ProblemFace:
        """What agents are told of it: what the evaluator says, and the file."""
        language = "json" if self.reference.name.endswith(".json") else "python"
        statement = f"{self.described.statement}\n\n```{language}\n{self.reference.text.strip()}\n```"
        return self.described.model_copy(update={"statement": statement})

    @property
    def is_held_out(self) -> bool:
        """Whether kernels for it are only ever evaluated on."""
        return is_held_out(f"reference {self.described.id}")


def read_references(paths: Sequence[Path]) -> tuple[Reference, ...]:
    """Files, and those in folders and below them, each text once, in the order of their names.

    Raises ConfigurationError for what is not there, is no text or too long, and where there is none.
    """
    found: dict[str, Reference] = {}
    for path in paths:
        files = sorted(file for pattern in _PATTERNS for file in path.rglob(pattern)) if path.is_dir() else [path]
        if not files:
            raise ConfigurationError(f"There is no file of a problem below {path}.", "Fix tasks.references.")
        for file in files:
            one = _read(file)
            found.setdefault(one.problem_id, one)
    return tuple(found.values())


def _read(file: Path) -> Reference:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}.", "Fix tasks.references.") from error
    if not 0 < len(text.encode()) <= MAX_REFERENCE_BYTES:
        raise ConfigurationError(
            f"{file} has {len(text.encode()):,} bytes; a problem has 1 to {MAX_REFERENCE_BYTES:,}.",
            "Leave it out of tasks.references.",
        )
    return Reference(text=text, name=sendable_name(name_of_file(file)))


def with_references(tasks: Iterable[Task], problems: Iterable[StatedProblem]) -> tuple[Task, ...]:
    """The tasks, each of these problems with the file that its kernels are graded by."""
    references = {one.face.id: one.reference for one in problems}
    return tuple(
        replace(task, reference=references[task.problem]) if task.problem in references else task for task in tasks
    )
