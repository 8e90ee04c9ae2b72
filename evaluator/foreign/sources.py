"""The forms in which someone else states a problem, each as the text of a file that the sandbox runs.

Of definitions and workloads of FlashInfer Trace each definition becomes one text with one workload. A dataset of
FlashInfer has `definitions/…/NAME.json` and `workloads/…/NAME.jsonl`, whose lines name their definition, and had
`traces/workloads/…/NAME.workload.jsonl`; SOL-ExecBench has a folder for each problem with `definition.json` and
`workload.jsonl`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from common.contract import MAX_REFERENCE_BYTES, Reference
from evaluator.errors import UsageError
from evaluator.foreign.reference import EXPRESSION
from evaluator.foreign.torch_text import kernelbench_text

_MOST_BYTES: Final = 64 << 20
"""Of a file of workloads."""
_ROOTS: Final = 4
"""Folders above a definition in which its dataset's folder `workloads` is looked for."""


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


def definitions_in(folder: Path) -> list[Path]:
    """The definitions in a folder and those below it."""
    return [file for file in sorted(folder.rglob("*.json")) if _is_definition(file)]


def trace_text(definition: Path, workload: str | None = None) -> bytes:
    """A definition with the workload of this uuid, or with the first that there is. Raises UsageError."""
    stated = _json(definition, _read(definition, MAX_REFERENCE_BYTES))
    if "definition" in stated:  # one text already
        if workload is not None:
            raise UsageError(f"{definition.name} has its own workload.", f"Leave out #{workload[:80]}.")
        return _read(definition, MAX_REFERENCE_BYTES)
    seen = []
    for found in _workloads(definition, str(stated.get("name"))):
        seen.append(str(found.get("uuid")))
        if workload in (None, seen[-1]):
            return json.dumps({"definition": stated, "workload": found}, indent=1, ensure_ascii=False).encode()
    if workload is not None:
        known = f"There are: {', '.join(seen[:5])} …" if seen else "There is none."
        raise UsageError(f"No workload of {definition.name} has the uuid {workload[:80]}.", known)
    return json.dumps({"definition": stated}, indent=1, ensure_ascii=False).encode()


def _workloads(definition: Path, name: str) -> Iterator[dict[str, Any]]:
    beside = [definition.with_name("workload.jsonl"), definition.with_name("workloads.jsonl")]
    roots = definition.resolve().parents[:_ROOTS]
    above = [root / folder for root in roots for folder in ("workloads", "traces/workloads")]
    names = (f"{name}.jsonl", f"{name}.workload.jsonl")
    named = (file for root in above if root.is_dir() for file in sorted(root.rglob("*.jsonl")) if file.name in names)
    for file in (*(one for one in beside if one.is_file()), *named):
        for at, line in enumerate(_read(file, _MOST_BYTES).splitlines(), 1):
            record = _json(file, line, at) if line.strip() else {}
            if "axes" in record:
                yield record
            elif record.get("definition") == name and isinstance(record.get("workload"), dict):
                yield record["workload"]


def _is_definition(file: Path) -> bool:
    """Whether it looks like one: what is wrong with it is said when it is read."""
    try:
        start = file.read_bytes()[: MAX_REFERENCE_BYTES + 1]
    except OSError:
        return False
    return b'"reference"' in start and (b'"axes"' in start)


def _json(file: Path, text: bytes, line: int | None = None) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        at = line if line is not None else getattr(error, "lineno", 1)
        raise UsageError(f"{file.name}:{at}: it is not JSON: {str(error)[:200]}.") from error
    if not isinstance(found, dict):
        raise UsageError(f"{file.name}:{line or 1}: it is no JSON object.")
    return found


def _read(file: Path, most_bytes: int) -> bytes:
    try:
        with file.open("rb") as opened:
            text = opened.read(most_bytes + 1)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from error
    if len(text) > most_bytes:
        raise UsageError(f"{file.name} has more than {most_bytes:,} bytes, which is more than it may have.")
    return text
