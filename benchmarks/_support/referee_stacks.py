"""Where a GPU's referee spends its time: the stacks that it was seen at (`evaluator.pipeline.gpu.stack_samples`)."""

import contextlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

_SHOWN: Final = 40
"""Entries of a profile that are kept."""


def read_stacks(folder: Path) -> Counter[str]:
    """What the referees that write to `folder` were seen at so far (`evaluator.pipeline.gpu.stack_samples`)."""
    seen: Counter[str] = Counter()
    for file in folder.glob("*.json"):
        with contextlib.suppress(OSError, ValueError):
            seen.update(json.loads(file.read_text()))
    return seen


def profile_of(stacks: Mapping[str, int]) -> dict[str, Any]:
    """Shares of the time in which the referee had a job: by phase, by function of ours, and by innermost call."""
    jobs = {stack: count for stack, count in stacks.items() if ":_attend:" in stack and not _waits_for_grader(stack)}
    total, all_seen = sum(jobs.values()), sum(stacks.values())
    if not total:
        return {}
    phases: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    leaves: Counter[str] = Counter()
    for stack, count in jobs.items():
        calls = stack.split(";")
        names = [call.rsplit(":", 1)[0] for call in calls]
        phases[_phase(names)] += count
        for name in {name for name in names if name.startswith("evaluator/")}:
            inside[name] += count
        own = next((name for name in reversed(names) if name.startswith("evaluator/")), "")
        leaves[f"{own} > {calls[-1].rpartition('/')[2]}" if own != names[-1] else calls[-1]] += count
    return {
        "samples": all_seen,
        "busy_share": total / all_seen,
        **{
            title: {name: round(count / total, 4) for name, count in counted.most_common(_SHOWN)}
            for title, counted in (("phases", phases), ("inside", inside), ("leaves", leaves))
        },
    }


def _waits_for_grader(stack: str) -> bool:
    """Whether it only waits for the next order, and so for no job."""
    calls = [call.split(":")[1] for call in stack.split(";")]
    return "receive" in calls and calls.index("receive") - calls.index("_attend") == 1


def _phase(names: Sequence[str]) -> str:
    for name, phase in (
        ("turns.py:_take", "turn"),
        ("verification.py:verify", "verify"),
        ("measurement.py:measure", "time"),
    ):
        if any(one.endswith(name) for one in names):
            return phase
    return "context" if any(one.endswith("session.py:open") for one in names) else "other"
