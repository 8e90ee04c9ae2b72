"""A problem that someone else states, as the caller sends it: the text of a PyTorch file, or an expression."""

import hashlib
import json
import re
from pathlib import Path, PurePath
from typing import Annotated, Final, Literal, Self, get_args

from pydantic import Field, model_validator

from common.wire import MaxLength, Request

MAX_REFERENCE_BYTES: Final = 512 << 10
"""Of a reference's text in UTF-8: published ones have 20 KiB at the most."""
_HASH_CHARACTERS: Final = 10
"""Of a problem's id: ids are of one caller, who would have to look for two texts with the same."""
_STEM_CHARACTERS: Final = 40

ReferenceKind = Literal["kernelbench", "torch"]
"""`kernelbench`: a file with `Model`, `get_inputs` and `get_init_inputs`, or one in another form: a challenge of
LeetGPU or a problem of Tensara, known by what they import, or a definition of FlashInfer Trace with a workload, known
by being JSON. `torch`: an expression of tensors."""

ReferenceForm = Literal["kernelbench", "leetgpu", "tensara", "trace"]
FILE_OF_A_FOLDER: Final = {"leetgpu": "challenge.py", "tensara": "def.py", "trace": "definition.json"}
"""What the file is called that states a problem, where a problem is a folder."""
_LONGEST_NAME: Final = 100
# Blanks of one line, and no step back: with `\s*` a text of empty lines would take the square of its length.
_CHALLENGE: Final = re.compile(rb"^[^\S\n]*+(?:from|import) core\.challenge_base\b", re.MULTILINE)
_TENSARA: Final = re.compile(rb"^[^\S\n]*+(?:from problem import\b|import problem\b)", re.MULTILINE)


class Reference(Request):
    """What stands for a problem that the grader does not know, in the form that its author wrote it."""

    kind: ReferenceKind = "kernelbench"
    text: Annotated[str, MaxLength(MAX_REFERENCE_BYTES)] = Field(min_length=1)
    """The text of the file, at most 512 KiB, or the expression, such as `torch.add(a, b)`."""
    name: str = Field(default="reference.py", pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}$")
    """Of the file: messages and the problem's id begin with it. An expression has none."""
    shapes: Annotated[
        dict[Annotated[str, MaxLength(64)], Annotated[tuple[int, ...], MaxLength(8, minimum=1)]], MaxLength(64)
    ] = Field(default_factory=dict)
    """Of the tensors of an expression, by name; a file states its own."""

    @model_validator(mode="after")
    def _shapes_of_an_expression(self) -> Self:
        if (self.kind == "torch") != bool(self.shapes):
            raise ValueError("an expression (kind torch) needs the shapes of its tensors, and a file has its own")
        return self

    @property
    def problem_id(self) -> str:
        """The id of the problem that this is; it can be given in the place of the text once the service has it."""
        if self.kind == "torch":
            return foreign_problem_id("torch", _expression_text(self.text, self.shapes))
        return foreign_problem_id(self.name, self.text.encode("utf-8", "surrogatepass"))


def _expression_text(expression: str, shapes: dict[str, tuple[int, ...]]) -> bytes:
    return json.dumps([expression.strip(), list(shapes.items())]).encode()


def form_of(text: bytes) -> ReferenceForm:
    """In whose form a file states a problem."""
    if text.lstrip().startswith(b"{"):
        return "trace"
    if _CHALLENGE.search(text):
        return "leetgpu"
    return "tensara" if _TENSARA.search(text) else "kernelbench"


def name_of_file(file: Path) -> str:
    """The name that messages about a file begin with: its own, or its folder's where all of a form have one name."""
    folder = file.resolve().parent.name if file.name in FILE_OF_A_FOLDER.values() else ""
    return f"{folder}{file.suffix}" if folder else file.name


def sendable_name(name: str) -> str:
    """A file's name with the characters alone that `Reference.name` may have."""
    return re.sub(r"[^A-Za-z0-9_.+-]", "_", name)[-_LONGEST_NAME:].lstrip(".+-") or "reference.py"


def foreign_problem_id(name: str, text: bytes) -> str:
    """`kernelbench_relu_0123456789`: the form, the file's name as it can be sent, and a hash of its text."""
    stem = (
        re.sub(r"\W+", "_", PurePath(sendable_name(name)).stem, flags=re.ASCII).strip("_").lower()[:_STEM_CHARACTERS]
    )
    return f"{form_of(text)}_{stem}_{hashlib.sha256(text).hexdigest()[:_HASH_CHARACTERS]}"


_FOREIGN_ID: Final = re.compile(
    rf"(?:{'|'.join(get_args(ReferenceForm))})_\w*_[0-9a-f]{{{_HASH_CHARACTERS}}}", re.ASCII
)


def is_foreign_problem(problem_id: str) -> bool:
    """Whether an id has the form of those of problems that someone else states."""
    return _FOREIGN_ID.fullmatch(problem_id) is not None
