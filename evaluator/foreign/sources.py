"""The forms in which someone else states a problem, each as the text of a file that the sandbox runs."""

from dataclasses import dataclass

from common.contract import MAX_REFERENCE_BYTES, Reference
from evaluator.errors import UsageError
from evaluator.foreign.reference import EXPRESSION
from evaluator.foreign.torch_text import kernelbench_text


@dataclass(frozen=True)
class ForeignSource:
    """What stands for one problem."""

    problem_id: str
    name: str
    """The file's, for messages."""
    text: bytes
    """A file in one of the forms that the sandbox reads."""


def source_of(reference: Reference) -> ForeignSource:
    """What a caller sent, looked at as far as it can be without running it. Raises UsageError."""
    if reference.kind == "torch":
        return ForeignSource(
            reference.problem_id, EXPRESSION, kernelbench_text(reference.text, reference.shapes).encode()
        )
    text = reference.text.encode("utf-8", "surrogatepass")
    if len(text) > MAX_REFERENCE_BYTES:
        raise UsageError(
            f"{reference.name} has {len(text):,} bytes; a problem may have {MAX_REFERENCE_BYTES:,}.",
            "Send the reference alone, without what it does not use.",
        )
    if "\0" in reference.text:
        line = reference.text[: reference.text.index("\0")].count("\n") + 1
        raise UsageError(f"{reference.name}:{line}: a NUL is in its text.", "Send the file as text in UTF-8.")
    return ForeignSource(reference.problem_id, reference.name, text)
