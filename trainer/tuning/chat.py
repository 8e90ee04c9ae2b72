"""Examples as Parquet files in the chat form that verl's supervised fine-tuning reads (`messages`), one for each
agent and side, with what each example is about beside it.

A row's `messages` are what the agent was asked and answered; other trainers that know chats read it as well.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from common.file_replacement import replace_file_with
from trainer.conversation.conversation import Message
from trainer.data.operations import OPERATIONS
from trainer.data.tasks import Task
from trainer.errors import ConfigurationError
from trainer.tuning.examples import TaughtExample

_MESSAGES: Final = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
EXAMPLES: Final = pa.schema(
    [
        ("messages", _MESSAGES),
        ("agent", pa.string()),
        ("task", pa.string()),
        ("problem", pa.string()),
        ("family", pa.string()),
        ("tier", pa.int8()),
        ("status", pa.string()),
        ("old_status", pa.string()),
        ("factor", pa.float64()),
        ("origin", pa.string()),
        ("place", pa.string()),
        ("fingerprint", pa.string()),
    ]
)
"""`status`, `origin`, `place` and `fingerprint` are of the kernel that the example ends with, of a Tester's of the
one that is diagnosed; `old_status` of the kernel that an Optimizer improves on, `factor` how many times as fast the
new one is, where both are right."""
PROMPTS: Final = pa.schema(
    [
        ("messages", _MESSAGES),
        ("task", pa.string()),
        ("problem", pa.string()),
        ("family", pa.string()),
        ("tier", pa.int8()),
        ("reference", pa.string()),
    ]
)
"""Prompts without an answer; `reference` is the JSON to send in a submission, empty for the evaluator's problems."""


def family_of(problem: str) -> str:
    """The family of an operation; a problem of the evaluator's is its own."""
    return OPERATIONS[problem].family.name if problem in OPERATIONS else problem


def write_examples(path: Path, examples: Sequence[TaughtExample]) -> None:
    """One file. Raises ConfigurationError where it cannot be written."""
    rows = [
        {
            "messages": _said(one.lesson.messages),
            "agent": one.agent.value,
            "task": one.task.id,
            "problem": one.task.problem,
            "family": family_of(one.task.problem),
            "tier": one.task.tier,
            "status": one.kernel.verdict.status.value,
            "old_status": one.old.verdict.status.value if one.old else None,
            "factor": one.factor,
            "origin": one.kernel.provenance.origin,
            "place": one.kernel.provenance.place,
            "fingerprint": one.kernel.fingerprint,
        }
        for one in examples
    ]
    _write(path, pa.Table.from_pylist(rows, schema=EXAMPLES))


def write_prompts(path: Path, prompts: Sequence[tuple[Task, tuple[Message, ...]]]) -> None:
    """One file of what is only asked. Raises as `write_examples`."""
    rows = [
        {
            "messages": _said(messages),
            "task": task.id,
            "problem": task.problem,
            "family": family_of(task.problem),
            "tier": task.tier,
            "reference": task.reference.model_dump_json() if task.reference else "",
        }
        for task, messages in prompts
    ]
    _write(path, pa.Table.from_pylist(rows, schema=PROMPTS))


def _said(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": one.role, "content": one.text} for one in messages]


def _write(path: Path, table: pa.Table) -> None:
    try:
        replace_file_with(path, lambda file: pq.write_table(table, file, compression="zstd"))
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error}.", "Name another folder.") from error
