"""Attacks on a GPU and honest kernels that look suspicious there: what a file's first lines say, and how to grade it.

An attack says, beside its plan:

// problem: id                 // expect: status, or several that are equally right, separated by |
// attack: what it tries       // because: why it ends so
// rehearse: no                (left to the GPU: the simulator would end it first)
// timing: no                  // sizes: n=3000000
// run_timeout_s: 1.5          // phase: where it must be decided
// fault: kind of the fault    // message: text that the message must hold
// after: attacks to grade right before it, whose leftovers it looks for
// twin: an honest kernel at the same sizes, which the attack must not be faster than where it passes
// min_us: what its latency must at least be where it passes

An honest kernel says `problem`, `style` and, where it needs them, `flags`.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from common.contract import Settings, Status, Submission, Verdict
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox

HERE = Path(__file__).parent
TWIN_SHARE = 0.95
"""A passed attack whose latency is a smaller share than this of its twin's has gained something."""
_FIELDS = (
    "problem|attack|style|expect|because|rehearse|timing|sizes|run_timeout_s|phase|fault|message|after|twin|"
    "min_us|flags"
)


@dataclass(frozen=True)
class Case:
    """One file of the corpus."""

    path: Path
    source: str
    head: dict[str, str]

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def expected(self) -> tuple[str, ...]:
        return tuple(self.head.get("expect", "passed").split("|"))

    @property
    def marked_line(self) -> int | None:
        """The line that the fault must name, where the backend can tell it."""
        lines = enumerate(self.source.splitlines(), 1)
        return next((number for number, line in lines if line.endswith("// HERE")), None)

    def settings(self, **changes: Any) -> Settings:
        """As the file wants to be graded."""
        head = self.head
        wanted: dict[str, Any] = {
            "rehearse": head.get("rehearse") != "no",
            "timing": head.get("timing") != "no",
            "flags": tuple(head.get("flags", "").split()),
        }
        if "run_timeout_s" in head:
            wanted["run_timeout_s"] = float(head["run_timeout_s"])
        if "sizes" in head:
            wanted["sizes"] = {name: int(size) for name, size in re.findall(r"(\w+)=(\d+)", head["sizes"])}
        return Settings(**{**wanted, **changes})


def read(path: Path) -> Case:
    source = path.read_bytes().decode()
    return Case(path, source, dict(re.findall(rf"^// ({_FIELDS}): (.*?)\r?$", source, re.MULTILINE)))


def attacks() -> list[Case]:
    return [read(path) for path in sorted((HERE / "attacks").glob("*.cu"))]


def suspicious() -> list[Case]:
    """Honest kernels that only a GPU can run, or that use it in ways that look like an attack."""
    return [read(path) for path in sorted((HERE / "kernels").glob("*.cu"))]


def honest() -> list[Case]:
    """The honest kernels of all backends."""
    return [read(path) for path in sorted((HERE.parent / "kernels").glob("*.cu"))]


def attack(name: str) -> Case:
    return read(HERE / "attacks" / f"{name}.cu")


def twin() -> Case:
    """The known good kernel: what is graded right after each attack."""
    return read(HERE / "kernels" / "relu_twin.cu")


def grade(case: Case, toolbox: Toolbox, backend: Literal["gpu", "sim"] = "gpu", **changes: Any) -> Verdict:
    submission = Submission(
        problem=case.head["problem"], source=case.source, backend=backend, settings=case.settings(**changes)
    )
    return evaluate(submission, toolbox)


def next_one(toolbox: Toolbox) -> Verdict:
    """The known good kernel, quickly: what an attack must leave as it was."""
    return grade(twin(), toolbox, rehearse=False, timing=False)


def complaints(case: Case, verdict: Verdict, twin_us: float | None = None) -> list[str]:
    """What is not as the file says; `twin_us` is the latency of its twin, where it has one."""
    found = []
    head, fault = case.head, verdict.correctness.fault if verdict.correctness else None
    if verdict.status.value not in case.expected:
        found.append(f"it ended {verdict.status.value} in {verdict.phase.value}: {verdict.message}")
    if verdict.status is not Status.PASSED:
        if "phase" in head and verdict.phase.value != head["phase"]:
            found.append(f"it was decided in {verdict.phase.value}: {verdict.message}")
        if "message" in head and head["message"] not in verdict.message:
            found.append(f"the message does not say {head['message']!r}: {verdict.message}")
        if "fault" in head and (fault is None or fault.kind not in head["fault"].split("|")):
            found.append(f"the fault is {fault}")
        if case.marked_line and fault and fault.line not in (None, case.marked_line):
            found.append(f"the fault is said to be in line {fault.line}, and is in line {case.marked_line}")
        if verdict.timing is not None:
            found.append("a time was given to what did not pass")
    if verdict.timing is not None:
        latency_us = verdict.timing.latency_us
        if twin_us is not None and latency_us < TWIN_SHARE * twin_us:
            found.append(f"it gained: {latency_us:.4g} us, where its honest twin takes {twin_us:.4g} us")
        if latency_us < float(head.get("min_us", 0)):
            found.append(f"it took {latency_us:.4g} us and cannot take less than {head['min_us']} us")
    return found
