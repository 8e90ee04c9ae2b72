"""Count the problems' naive kernels anew: `python -m scripts.count_naive_kernels [PROBLEM …]`.

To be run after a change of a naive kernel, of a problem's sizes or of what the simulator counts.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from common.contract import KernelResources, Settings
from common.contract.counters import Evidence
from evaluator.pipeline.build import build
from evaluator.pipeline.stage_values import Ending, SubmittedSource
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.arrays import NumpyRng
from evaluator.problems.catalogue import find_problem, problems
from evaluator.problems.problem import Problem, Sizes
from evaluator.seed import Seed
from evaluator.settings import MachineSettings
from evaluator.stages.launch.checked_plan import moved_bytes
from evaluator.stages.profile.naive_counters import FILE, NaiveCounts, source_sha256
from evaluator.stages.profile.sampled_counters import count_at

_BLOCKS = 64
_TIME_LIMIT_S = 25.0


@dataclass(frozen=True)
class Count:
    """What an estimate of one kernel at one size needs."""

    evidence: Evidence
    resources: tuple[KernelResources, ...]
    moved_bytes: tuple[int, ...]


def count_kernel(
    problem: Problem,
    source: str,
    settings: Settings,
    wanted: Sequence[tuple[Sizes, int]],
    toolbox: Toolbox,
    time_limit_s: float = _TIME_LIMIT_S,
) -> list[Count | None]:
    """A count for each (sizes, blocks; 0 for all), without lines; None where it is not to be had in time.

    Raises RuntimeError for a kernel that cannot be built, UnsupportedError, InfrastructureError.
    """
    built = build(SubmittedSource(problem, source.encode(), None, settings, toolbox.simulator.arch), toolbox)
    if isinstance(built, Ending):
        raise RuntimeError(f"A kernel for {problem.id} cannot be built: {built.ruling}")
    found: list[Count | None] = []
    for sizes, blocks in wanted:
        with toolbox.simulator.prepare(built.program, settings) as session:
            rng = NumpyRng(Seed(bytes(32)).generator())
            evidence = count_at(built.checked_plan, session, settings, rng, sizes, blocks, time_limit_s)
        if evidence is not None:
            launches = tuple(launch.model_copy(update={"lines": ()}) for launch in evidence.launches)
            evidence = evidence.model_copy(update={"launches": launches})
        moved = moved_bytes(built.checked_plan.at(sizes))
        found.append(Count(evidence, built.compiled.kernels, moved) if evidence is not None else None)
    return found


def counted(problem: Problem, toolbox: Toolbox) -> tuple[NaiveCounts, ...]:
    """At the sizes of the timing from a sample of the blocks, and at the typical sizes from all of them.

    Raises InfrastructureError; RuntimeError for a kernel that cannot be counted.
    """
    wanted = [(problem.timing_sizes, _BLOCKS), (problem.example_sizes[0], 0)]
    found = []
    for count in count_kernel(problem, problem.naive.source, Settings(), wanted, toolbox):
        if count is None:
            raise RuntimeError(f"The naive kernel of {problem.id} cannot be counted in {_TIME_LIMIT_S:g} s.")
        found.append(
            NaiveCounts(
                source_sha256=source_sha256(problem),
                evidence=count.evidence,
                resources=count.resources,
                moved_bytes=count.moved_bytes,
            )
        )
    return tuple(found)


def main(wanted: list[str]) -> None:
    """Write the counts of the named problems, or of all, and leave the others'."""
    toolbox = Toolbox(MachineSettings.from_environment())
    kept: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() and wanted else {}
    for problem in [find_problem(name) for name in wanted] or problems().values():
        kept[problem.id] = [counts.model_dump(mode="json") for counts in counted(problem, toolbox)]
        print(problem.id, flush=True)
        FILE.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
