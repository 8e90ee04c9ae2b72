"""What each finding of verification means for the verdict: the one rule, finding by finding.

A verdict is `incorrect` where what the ISA or CUDA leaves undefined can change an answer. What is undefined or
fragile, but changed nothing in any schedule that was seen and cannot be shown to change anything, is a warning, and
the default rewards charge for it. docs/verification.md shows the same table to people.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from evaluator.backends.session import HazardKind


@dataclass(frozen=True)
class SeverityRule:
    """What one kind of finding means."""

    severity: Literal["incorrect", "warning", "explains"]
    """`explains`: no finding of its own; it says why outputs differ between two runs, where they do."""
    why: str


RULES: Final[Mapping[HazardKind, SeverityRule]] = MappingProxyType(
    {
        "race": SeverityRule("incorrect", "Another order of the two gives another value."),
        "unawaited_copy": SeverityRule("incorrect", "What is read is there only if the copy was quick."),
        "undefined_read": SeverityRule(
            "explains",
            "Two runs with different undefined memory decide: outputs that differ are `incorrect`. What is read and "
            "then not used, such as the rest of a vector, changes nothing.",
        ),
        "harmless_race": SeverityRule("warning", "All write what is there already, so no order changes anything."),
        "unfenced": SeverityRule(
            "warning", "An atomic orders the two in every run here; without a fence nothing must."
        ),
        "lockstep": SeverityRule(
            "warning",
            "A shuffle or a vote stands between a write and a read of one warp: it orders no memory, but as compiled "
            "and run here it did.",
        ),
        "array_overrun": SeverityRule(
            "warning",
            "An access behind the end of one shared array reached another one: nothing promises which array lies "
            "there.",
        ),
        "stale_read": SeverityRule(
            "explains",
            "Memory as the PTX ISA allows it decides: an answer that some run makes wrong is `incorrect`. Who polls "
            "may read what is old, and a right kernel looks again.",
        ),
        "lost_update": SeverityRule(
            "warning",
            "A strong read and a strong write of one word, with another block's write in between: seen, but the "
            "answer was right.",
        ),
        "absent_lanes": SeverityRule(
            "warning", "The operation waits for lanes that are elsewhere; here, and on today's GPUs, it went on."
        ),
        "unnamed_caller": SeverityRule("warning", "A lane that its own mask does not name: undefined."),
        "mixed_masks": SeverityRule("warning", "Lanes of one operation with different overlapping masks: undefined."),
        "inactive_source": SeverityRule(
            "warning", "The value is undefined; every GPU that was measured gives 0, and so does the simulator."
        ),
        "unnamed_source": SeverityRule(
            "warning", "A lane outside of the mask gives its value only if it happens to run at the same time."
        ),
        "partial_matrix": SeverityRule("warning", "A matrix instruction needs all lanes of the warp."),
        "partial_barrier": SeverityRule(
            "warning", "`__syncthreads()` in a condition that not all threads of a warp evaluate alike: undefined."
        ),
        "split_barrier": SeverityRule(
            "warning",
            "`__syncthreads()` in both branches: undefined in CUDA, although GPUs since Volta count arrivals only.",
        ),
        "activemask": SeverityRule(
            "warning", "Who is active together is chance: lanes of one branch need not run together."
        ),
    }
)


def table() -> str:
    """The rules as rows of Markdown, as docs/verification.md has them."""
    return "".join(f"| `{kind}` | {rule.severity} | {rule.why} |\n" for kind, rule in RULES.items())
