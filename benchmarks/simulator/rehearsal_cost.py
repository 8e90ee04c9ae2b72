"""What a rehearsal before a GPU takes of processors, by stage: kernels of the throughput's fleet, each in turn.

    python benchmarks/simulator/rehearsal_cost.py [--kernels 60] [--arch sm_90a]

Each program is rehearsed twice, compiled `quickly` as rehearsals are, and `as_always`, as what runs for long is.
Nothing but the runtime comes from a cache, so it is what a program costs that nobody has sent before. `compiler` and
`program` are jobs in the sandbox; `grader` is the grader's own process: translation, references, comparison. What
starts jobs is not counted. A verdict that differs between the two is a fault.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final

from rich.progress import track

from benchmarks._support.policy_fleet import FleetKernel, fleet
from benchmarks._support.record import save
from common.contract import Settings, Submission
from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.backend import QUICK_BELOW, Builds
from evaluator.pipeline.build import build
from evaluator.pipeline.grading_job import GradingJob, source_bytes
from evaluator.pipeline.referee import JudgeRequest, JudgeResult, RemoteTarget
from evaluator.pipeline.sim_referee import SimulatorReferee, rehearse
from evaluator.pipeline.stage_values import Ending
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.catalogue import find_problem
from evaluator.sandbox.sandbox import Job, JobResult, Sandbox, SandboxSession
from evaluator.settings import MachineSettings

_WAYS: Final[Mapping[str, int]] = {"quickly": QUICK_BELOW, "as_always": 0}
_STAGES: Final = ("compiler", "program", "grader")
_SECRET: Final = bytes(range(32))


class _Metered:
    """A sandbox that sums what its jobs took of processors, seconds."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox, self.used_s = sandbox, dict.fromkeys(_STAGES, 0.0)
        self.name, self.image_id, self.promises = sandbox.name, sandbox.image_id, sandbox.promises

    @property
    def root(self) -> Path:
        return self._sandbox.root

    def run(self, job: Job) -> JobResult:
        return self._sandbox.run(self._counted(job, "compiler"))

    def start(self, job: Job) -> SandboxSession:
        return self._sandbox.start(self._counted(job, "program"))

    def _counted(self, job: Job, stage: str) -> Job:
        def spent(used_s: float) -> None:
            self.used_s[stage] += used_s

        return replace(job, spent=spent)


class _OnlyOurs:
    """Keeps what is the same for all programs, and no program."""

    def __init__(self, builds: Builds) -> None:
        self._builds, self.keeps = builds, True
        self._kept: dict[str, Mapping[str, bytes]] = {}

    def get_or_make(self, key: str, make: Callable[[], Mapping[str, bytes]]) -> tuple[Mapping[str, bytes], bool]:
        if key in self._kept:
            return self._kept[key], True
        found = self._builds.get_or_make(key, make)[0] if self.keeps else make()
        if self.keeps:
            self._kept[key] = found
        return found, False


def _requests(toolbox: Toolbox, kernels: Iterator[FleetKernel], arch: str) -> Iterator[tuple[str, JudgeRequest]]:
    """Of those that compile and can be launched."""
    for kernel in kernels:
        settings = Settings(flags=kernel.flags)
        submission = Submission(problem=kernel.problem, source=kernel.source, settings=settings)
        target = RemoteTarget("gpu", "", arch)
        job = GradingJob(submission, find_problem(kernel.problem), toolbox, target, source_bytes(submission))
        planned = build(job.submitted, toolbox)
        if not isinstance(planned, Ending):
            yield (
                kernel.name,
                JudgeRequest(planned.program, planned.checked_plan, settings, local_memory=False, secret=_SECRET),
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=60)
    parser.add_argument("--arch", default="sm_90a")
    wanted = parser.parse_args()
    used_s = {way: dict.fromkeys(_STAGES, 0.0) for way in _WAYS}
    differ: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        toolbox = Toolbox(MachineSettings(Path(folder)))
        requests = list(_requests(toolbox, islice(fleet(), wanted.kernels), wanted.arch))
        simulator = toolbox.simulator
        metered, ours = _Metered(simulator.sandbox), _OnlyOurs(simulator.builds)
        simulator.sandbox, simulator.builds = metered, ours
        simulator.warm_up()
        simulator._loader()
        ours.keeps = False
        referee = SimulatorReferee(simulator, rehearses=True)
        for name, request in track(requests, description="Rehearsing", transient=True):
            statuses: list[str] = []
            for way, below in _WAYS.items():
                simulator.quick_below = below
                metered.used_s = dict.fromkeys(_STAGES, 0.0)
                began_s = time.process_time()
                found = rehearse(referee, request)
                metered.used_s["grader"] = time.process_time() - began_s
                for stage in _STAGES:
                    used_s[way][stage] += metered.used_s[stage]
                statuses.append(_status(found))
            differ += [name] if len(set(statuses)) > 1 else []
    figures: dict[str, float] = {"rehearsals": len(requests), "verdicts_that_differ": len(differ)}
    for way, stages in used_s.items():
        figures |= {f"{way}_{stage}_ms": 1000 * stages[stage] / len(requests) for stage in _STAGES}
        figures[f"{way}_ms"] = 1000 * sum(stages.values()) / len(requests)
    goals = {"verdicts_that_differ": ("<=", 0.0)}
    save("rehearsal_cost", figures, goals, details={"differ": differ, "arch": wanted.arch})


def _status(found: JudgeResult | UnsupportedError | None) -> str:
    if isinstance(found, JudgeResult):
        return found.verified.ruling.status if found.verified.ruling else "right"
    return "unsupported" if found else "says nothing"


if __name__ == "__main__":
    main()
