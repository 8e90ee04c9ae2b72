"""The problem that a command grades for: one of ours by its id, or one that a file of someone else states."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pydantic import ValidationError

from common.contract import (
    FILE_OF_A_FOLDER,
    OtherSizes,
    Reference,
    foreign_problem_id,
    form_of,
    is_foreign_problem,
    name_of_file,
    sendable_name,
)
from evaluator.cli import arguments
from evaluator.errors import UsageError
from evaluator.problems.catalogue import find_problem
from evaluator.problems.problem import Problem
from evaluator.validation_messages import in_plain_words

if TYPE_CHECKING:
    from evaluator.pipeline.toolbox import Toolbox


STATED: Final = re.compile(r"(?P<form>kernelbench|leetgpu|tensara|trace):(?P<path>[^#]+)(?:#(?P<workload>.+))?")
"""A problem of others in a file, as `--problem` names it: FORM:PATH."""


@dataclass(frozen=True)
class ReferenceText:
    """What says what to grade for: a file in one of the forms of others, or an expression that becomes one."""

    name: str
    text: bytes
    option: str
    """The option that gave it, for messages."""
    expression: str = ""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Of the tensors of `expression`."""

    def as_sent(self) -> Reference:
        """As a service takes it. Raises UsageError."""
        try:
            if self.expression:
                return Reference(kind="torch", text=self.expression, shapes=dict(self.shapes))
            return Reference(name=sendable_name(self.name), text=self.text.decode())
        except UnicodeDecodeError as error:
            line = self.text[: error.start].count(b"\n") + 1
            raise UsageError(f"{self.name}:{line}: it is not text in UTF-8.") from error
        except ValidationError as error:
            raise UsageError(f"{self.name} cannot be sent: {in_plain_words(error)}") from error

    @property
    def problem_id(self) -> str:
        """The id of the problem that it states."""
        if self.expression:
            return self.as_sent().problem_id
        return foreign_problem_id(self.name, self.text)


def reference_given(
    problem_id: str | None, file: Path | None, expression: str | None, shapes: tuple[str, ...]
) -> ReferenceText | None:
    """What `--reference`, `--torch` with `--shape`, or `--problem` with a form and a path, gives; None where none is.

    Raises UsageError.
    """
    stated = STATED.fullmatch(problem_id or "")
    if stated is not None and (file is not None or expression is not None):
        raise UsageError(f"--problem {problem_id} says what to grade for.", "Leave --reference and --torch out.")
    if expression is None:
        if shapes:
            raise UsageError("--shape says how large the tensors of --torch are.", "Add --torch EXPRESSION.")
        if stated is not None:
            return _of_form(stated["form"], Path(stated["path"]), stated["workload"])
        return None if file is None else _of_file(file, "--reference")
    if file is not None:
        raise UsageError("--reference and --torch each say what to grade for.", "Leave one of them out.")
    # Nobody needs it who grades for a problem of ours.
    from evaluator.foreign.reference import EXPRESSION
    from evaluator.foreign.torch_text import kernelbench_text, shapes_of

    extents = shapes_of(shapes)
    text = kernelbench_text(expression, extents, "--shape").encode()
    return ReferenceText(EXPRESSION, text, "--torch", expression, extents)


def reference_stated(given: str | None, expression: str | None, shapes: tuple[str, ...]) -> ReferenceText | None:
    """As `reference_given`, where one option takes a file and `FORM:PATH`. Raises UsageError."""
    if given is not None and STATED.fullmatch(given):
        return reference_given(given, None, expression, shapes)
    return reference_given(None, None if given is None else Path(given), expression, shapes)


def _of_form(form: str, path: Path, workload: str | None) -> ReferenceText:
    """The file at `path`, or in the folder `path`, which must be in this form. Raises UsageError."""
    if path.is_dir() and form not in FILE_OF_A_FOLDER:
        raise UsageError(
            f"{path} is a folder, and a problem of {form} is one file.",
            f"Name the file; `assay problems --{form} {path}` says what the folder holds.",
        )
    file = path / FILE_OF_A_FOLDER[form] if path.is_dir() else path
    if workload is not None and form != "trace":
        file = file.with_name(f"{file.name}#{workload}")
    found = _of_file(file, "--problem", workload if form == "trace" else None)
    if form_of(found.text) != form:
        raise UsageError(
            f"{file} is in the form {form_of(found.text)}, and not {form}.", "Name the form that it has."
        )
    return found


def _of_file(file: Path, option: str, workload: str | None = None) -> ReferenceText:
    text = arguments.read_source(file, "Give the path of a file that states a problem.")
    if form_of(text) == "trace":
        from evaluator.foreign.sources import trace_text

        text = trace_text(file, workload)
    return ReferenceText(name_of_file(file), text, option)


@contextmanager
def chosen_problem(
    problem_id: str | None,
    reference: ReferenceText | None,
    raw: bytes,
    file: Path,
    toolbox: "Toolbox | None",
    other_sizes: OtherSizes = "reported",
    backend: Literal["auto", "gpu", "sim"] = "auto",
) -> Iterator[Problem]:
    """What to grade `file` for on `backend`, `raw` being what it holds. Raises UsageError, InfrastructureError.

    The problem of a reference can be used as long as the context lasts; it needs `toolbox`.
    """
    if reference is None:
        yield find_problem(arguments.problem_of(problem_id, raw, file))
        return
    refuse_beside_problem(reference, problem_id)
    named = arguments.named_problem(raw)
    from evaluator.foreign.loading import foreign_problem

    assert toolbox is not None
    refuse_other_name(reference, named, file)
    with foreign_problem(
        reference.text,
        reference.name,
        toolbox.sandbox,
        toolbox.cache,
        other_sizes,
        reference.problem_id,
        toolbox.cancel_token,
        toolbox.backend_for(backend),
    ) as problem:
        yield problem


def kept_at_service(problem_id: str | None, raw: bytes) -> str | None:
    """The id that `--problem` or the first line gives, where only a service that was sent its file knows it."""
    named = problem_id or arguments.named_problem(raw)
    return named if named is not None and is_foreign_problem(named) else None


def refuse_other_name(reference: ReferenceText, named: str | None, file: Path) -> None:
    """Raise UsageError where `file` itself names another problem."""
    if named not in (None, reference.problem_id):
        raise UsageError(
            f"The first line of {file} says {named}, and {reference.option} is {reference.problem_id}.",
            f"Delete that line to grade for {reference.option}, or leave {reference.option} out.",
        )


def refuse_beside_problem(reference: ReferenceText, problem_id: str | None) -> None:
    """Raise UsageError where another problem is named too."""
    if problem_id is not None and reference.option != "--problem":
        raise UsageError(f"{reference.option} and --problem each say what to grade for.", "Leave one of them out.")


def refuse_beside_reference(option: str, given: dict[str, bool]) -> None:
    """Raise UsageError where an option asks for what cannot be done for a problem of someone else."""
    for other, is_given in given.items():
        if is_given:
            raise UsageError(f"{other} cannot be used with {option}.", "Leave one of them out.")
