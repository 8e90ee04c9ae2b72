"""Rows of the AI CUDA Engineer's archive as kernels to grade, from a Parquet file on this machine.

Columns and splits are those of the archive as published (SakanaAI/AI-CUDA-Engineer-Archive). Nothing of a row is
believed: `Correct`, runtimes and speedups are what its authors measured, and a kernel is learned from only as the
evaluator judges it, for the problem that `PyTorch_Code_Module` states. A row's CUDA_Code is a PyTorch extension,
whose host part Assay does not run: what is graded are its device functions, where they are one kernel that needs no
launch of its own (`device_part` says of each row whether that is so). One that is not right so is not kept: it may be
right with its host code.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from common.contract import MAX_REFERENCE_BYTES, Reference, Status
from trainer.data.graded import Provenance
from trainer.data.tasks import Task, is_held_out
from trainer.errors import ConfigurationError
from trainer.tuning.collection import UngradedKernel

_TEXT: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_null)
_NUMBER: Final = (pa.types.is_floating, pa.types.is_integer, pa.types.is_null)
_TRUTH: Final = (pa.types.is_boolean,)
COLUMNS: Final[Mapping[str, tuple[Any, ...]]] = {
    "Op_Name": _TEXT,
    "Level_ID": _NUMBER,
    "Task_ID": _NUMBER,
    "Kernel_Name": _TEXT,
    "CUDA_Runtime": _NUMBER,
    "PyTorch_Native_Runtime": _NUMBER,
    "PyTorch_Compile_Runtime": _NUMBER,
    "CUDA_Speedup_Native": _NUMBER,
    "CUDA_Speedup_Compile": _NUMBER,
    "CUDA_Code": _TEXT,
    "PyTorch_Code_Module": _TEXT,
    "PyTorch_Code_Functional": _TEXT,
    "Correct": _TRUTH,
    "Max_Diff": _NUMBER,
    "Error": _TEXT,
    "NCU_Profile": _TEXT,
    "Torch_Profile": _TEXT,
    "Clang_Tidy": _TEXT,
}
"""Every column of the archive, and what it may hold."""
LEVELS: Final = (1, 2, 3)
"""Of `Level_ID`, one for each split, `level_1` to `level_3`."""
_INDEX: Final = re.compile(r"__index_level_\d+__")
"""What pandas adds when it writes a file."""


@dataclass(frozen=True)
class ArchiveRow:
    """What is used of a row."""

    operation: str
    level: int
    task: int
    kernel: str
    code: str
    module: str
    place: str
    """File and row."""

    @property
    def reference(self) -> Reference:
        """The problem that it is for."""
        name = re.sub(r"\W+", "_", self.operation, flags=re.ASCII).strip("_")[:60] or "operation"
        return Reference(kind="kernelbench", text=self.module, name=f"level{self.level}_{self.task}_{name}.py")

    @property
    def problem(self) -> str:
        """Its name in a data set."""
        return self.reference.problem_id

    @property
    def held_out(self) -> bool:
        """Whether kernels of its task are only ever evaluated on: by level and task alone."""
        return is_held_out(f"archive {self.level} {self.task}")


@dataclass(frozen=True)
class Archive:
    """The rows of some splits, and what can be made of them."""

    rows: tuple[ArchiveRow, ...] = ()

    @cached_property
    def candidates(self) -> tuple[UngradedKernel, ...]:
        """As `archive_candidates`."""
        return tuple(archive_candidates(self.rows))

    @property
    def held_out_problems(self) -> frozenset[str]:
        """Those of the held-out rows."""
        return frozenset(row.problem for row in self.rows if row.held_out)

    def tasks(self, *, held_out: bool) -> tuple[Task, ...]:
        """As `archive_tasks`, of one side."""
        return archive_tasks([row for row in self.rows if row.held_out is held_out])


def read_archive(path: Path) -> tuple[ArchiveRow, ...]:
    """The rows of one split. Raises ConfigurationError for a file of another form, which names the column."""
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise ConfigurationError(f"{path} is no Parquet file that can be read: {error}.", "Fix --archive.") from error
    _refuse_other_columns(path, schema)
    wanted = ["Op_Name", "Level_ID", "Task_ID", "Kernel_Name", "CUDA_Code", "PyTorch_Code_Module"]
    found = []
    try:
        rows = pq.read_table(path, columns=wanted).to_pylist()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"The rows of {path} cannot be read: {error}.", "Fetch the file again.") from error
    for number, row in enumerate(rows, 1):
        # A number that pandas left out of a column of floats is none that equals itself.
        empty = next((name for name in wanted if row[name] in (None, "") or row[name] != row[name]), None)
        if empty is not None:
            continue
        if row["Level_ID"] not in LEVELS:
            raise ConfigurationError(
                f"{path}, row {number}: Level_ID is {row['Level_ID']}, and there are levels 1 to 3.",
                "Name a split of the archive: level_1, level_2 or level_3.",
            )
        if row["Task_ID"] != int(row["Task_ID"]):
            raise ConfigurationError(
                f"{path}, row {number}: Task_ID is {row['Task_ID']}, which numbers no task.",
                "Take the file as it is published.",
            )
        place = f"{path.name}, row {number}"
        found.append(
            ArchiveRow(
                row["Op_Name"],
                int(row["Level_ID"]),
                int(row["Task_ID"]),
                row["Kernel_Name"],
                row["CUDA_Code"],
                row["PyTorch_Code_Module"],
                place,
            )
        )
    return tuple(found)


def _refuse_other_columns(path: Path, schema: pa.Schema) -> None:
    names = [name for name in schema.names if not _INDEX.fullmatch(name)]
    missing = [name for name in COLUMNS if name not in names]
    strange = [name for name in names if name not in COLUMNS]
    if missing or strange:
        said = [f"has no column {name}" for name in missing] + [
            f"has a column {name} that is none" for name in strange
        ]
        raise ConfigurationError(
            f"{path} is not of the form of the AI CUDA Engineer archive: it {', '.join(said)}.",
            f"Its columns are {', '.join(COLUMNS)}.",
        )
    for name, kinds in COLUMNS.items():
        kind = schema.field(name).type
        if not any(fits(kind) for fits in kinds):
            raise ConfigurationError(
                f"{path}: the column {name} holds {kind}, which the archive's does not.",
                "Take the file as it is published.",
            )


def device_part(code: str) -> str | None:
    """The device functions of a PyTorch extension without its host part; None where there is not exactly one kernel,
    or it cannot be told from the host part: a template, or one that names types of PyTorch's.
    """
    bare = re.sub(r"//[^\n]*|/\*.*?\*/", " ", code, flags=re.DOTALL)
    if len(re.findall(r"\b__global__\b", bare)) != 1:
        return None
    kept = [
        line.strip()
        for line in bare.splitlines()
        if re.match(r"\s*#\s*define\b", line) or re.match(r"\s*#\s*include\s*<cuda_(?:fp16|bf16)\.h>", line)
    ]
    for found in re.finditer(r"(?:^|(?<=[;}\n]))[^;{}#]*?\b__(?:global|device|constant)__\b[^;{}]*", bare):
        end = _closed(bare, found.end())
        if end is None:
            return None
        kept.append(" ".join(found[0].split()) + bare[found.end() : end])
    text = "\n".join(kept) + "\n"
    return None if re.search(r"\btemplate\b|\bscalar_t\b|\btorch::|\bat::|\bc10::|\bPYBIND", text) else text


def _closed(text: str, at: int) -> int | None:
    """Where what begins here ends: after a semicolon, or after the braces that open here."""
    if at >= len(text):
        return None
    if text[at] == ";":
        return at + 1
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] == "{") - (text[place] == "}")
        if depth == 0:
            return place + 1
    return None


def archive_candidates(rows: Iterable[ArchiveRow]) -> Iterator[UngradedKernel]:
    """The kernels that can be graded, problem by problem."""
    for row in sorted(rows, key=lambda one: (one.level, one.task, one.problem)):
        source = device_part(row.code)
        if source is not None and len(row.module.encode()) <= MAX_REFERENCE_BYTES:
            provenance = Provenance("archive", f"{row.place}: {row.kernel}")
            yield UngradedKernel(row.problem, source, provenance, Status.PASSED, row.reference)


def archive_tasks(rows: Sequence[ArchiveRow]) -> tuple[Task, ...]:
    """What is asked for each problem of the rows: its module, in the words of the requirements' Generator."""
    found: dict[str, Task] = {}
    for row in rows:
        text = (
            f"Generate a CUDA kernel for this PyTorch module ({row.operation}). It gets the arguments of forward, "
            f"then parameters and buffers, then `out`.\n\n```python\n{row.module.strip()}\n```"
        )
        task_id = f"{row.problem}-{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"
        found.setdefault(row.problem, Task(task_id, row.problem, row.level - 1, text, False, row.reference))
    return tuple(found.values())
