"""Do tuned agents learn to write faster kernels where kernels are really timed? On one machine with an NVIDIA GPU.

    python benchmarks/training/rl_on_gpu.py --folder runs                  # about 25 minutes
    python benchmarks/training/rl_on_gpu.py --folder runs --seconds 560    # stops then; the same command goes on
    python benchmarks/training/rl_on_gpu.py --folder runs --figures        # of what is there, on any machine
    python benchmarks/training/rl_on_gpu.py --folder runs --simulator      # the same in small on a CPU

In order: the templates of nine problems, and variants of the right ones in other blocks, are graded on the GPU, so
that each problem has a ladder of slow and fast kernels; two tiny models learn from those of six problems, one to
write kernels, one to make them faster (three problems are held out whole); untuned and tuned models answer held-out
prompts; both learn by PPO on timed rewards, first with one kernel of each agent in a conversation, then with two of
the Optimizer's; the models that came of it answer the same prompts.

The Generator is paid for being right and hardly for speed. The Optimizer is paid for the speedup that it gains over
the best kernel before it. Advantages compare a turn with the same turn of the other candidates of its prompt: there
is no critic. Weights, optimizer state and measures are kept in the folder. Beside the results lie the weights of both
agents and all that was measured (`rl_on_gpu.tar.gz`, a few MB): unpacked into an empty folder they are what the same
command goes on from, with a new optimizer and with these weights as what the KL term compares with.
"""

import argparse
import json
import math
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from benchmarks._support import timed_rl
from benchmarks._support.record import RESULTS
from benchmarks._support.timed_answers import PromptSet, figures_of
from benchmarks._support.timed_rl import KNOWN, MEASURED_S, NEW, RESERVED_S, ROLES, OutOfTimeError, TimedTrial
from benchmarks._support.trained import Trained, played
from trainer.config.schema import AgentRole
from trainer.conversation.conversation import Flow
from trainer.data.graded import GradedData
from trainer.data.tasks import chosen, held_out_tasks
from trainer.reporting import curves

NAME = "rl_on_gpu"
STARTED = "weights"
"""Below the folder: weights that a machine before this one left."""
SETTINGS = (
    *timed_rl.SETTINGS,
    "name=rl",
    "agents.generator.learning_rate=2e-4",
    "agents.optimizer.learning_rate=1e-4",
    "algorithm.prompts_per_step=16",
    "algorithm.candidates=8",
    "algorithm.mini_batch_size=4",
    "flow.single_turn_steps=12",
    "flow.credit=false",
    "checkpointing.every_episodes=512",
)
IN_SMALL = (
    "evaluator.verification=quick",
    "algorithm.prompts_per_step=4",
    "algorithm.candidates=4",
    "algorithm.micro_batch_size=8",
    "flow.single_turn_steps=1",
    "checkpointing.every_episodes=16",
    "tasks.held_out=8",
)
LIKELY_TURNS = 2.1
"""Kernels of a conversation, rather too few."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    timed_rl.arguments(parser)
    parser.add_argument("--kernels", type=int, default=10_000, help="that the agents write while they learn")
    parser.add_argument("--prompts", type=int, default=200, help="held-out prompts of each kind")
    parser.add_argument("--before", action="store_true", help="end before the reinforcement learning")
    given = parser.parse_args()
    Trial(given, [*SETTINGS, *(IN_SMALL if given.simulator else timed_rl.ON_GPU)]).to_the_end()


class Trial(TimedTrial):
    """Untuned, tuned and reinforced agents, in order."""

    def run(self) -> None:
        """Raises OutOfTimeError."""
        data = self.graded()
        starts, tuned = self.tuned(data, self.folder / STARTED)
        self._measured("untuned", starts, data)
        self._measured("tuned", tuned, data)
        if self.given.before:
            return
        try:
            self._reinforced(tuned)
        except OutOfTimeError as late:
            if not (self.given.last and self.lines()):
                raise
            print(f"What has been learned is measured: {late}", flush=True)
        self._measured("reinforced", {role: self._weights(role) for role in ROLES}, data)

    def _measured(self, system: str, agents: Mapping[AgentRole, Path], data: GradedData) -> None:
        """Answers to all held-out prompts."""
        known, new = (
            held_out_tasks(chosen(self.faces, names), self.given.prompts, wording="brief") for names in (KNOWN, NEW)
        )
        sets = (
            PromptSet("known", known, 0.0),
            PromptSet("new", new, 0.0),
            PromptSet("known_drawn", known, 1.0),
            PromptSet("known_given", known, 0.0, given=True),
            PromptSet("new_given", new, 0.0, given=True),
        )
        # Who has learned nothing writes no kernel: two sets say so.
        self.measured(system, agents, data, sets[:2] if system == "untuned" else sets, Flow(2, stop_at=1000.0))

    def _reinforced(self, tuned: Mapping[AgentRole, Path]) -> None:
        """Policy steps until there are enough kernels."""
        began = [f"agents.{role}.model_name={folder}" for role, folder in tuned.items()]
        began.append(f"flow.single_turn_steps={max(self.config.flow.single_turn_steps - len(self._before()), 0)}")
        while (left := self.given.kernels - self._kernels()) > 0:
            done = self._run_so_far().kept_step()
            steps = done + math.ceil(left / (self.config.episodes_per_step * LIKELY_TURNS))
            time_s = self.left_s() - RESERVED_S - (MEASURED_S if self.given.last else 0)
            if time_s < 2 * RESERVED_S:
                raise OutOfTimeError(f"{left} kernels are to be written yet.")
            told = [*self.settings, *began, f"checkpointing.folder={self.folder}/{{name}}"]
            told += [f"evaluator.url={self.url}", f"algorithm.steps={steps}", "sft.examples=0"]
            if not played(told, None if self.given.seconds is None else time_s):
                raise OutOfTimeError(f"{self.given.kernels - self._kernels()} kernels are to be written yet.")

    def _run_so_far(self) -> Trained:
        return Trained(self.config, self.folder / "rl", 0.0)

    def _weights(self, role: AgentRole) -> Path:
        """The newest of an agent that has learned by reinforcement."""
        run = self._run_so_far()
        return run.weights(role) if run.kept_step() else self.folder / STARTED / role

    def lines(self) -> list[Mapping[str, Any]]:
        """Measures of all policy steps that are kept, those on a machine before this one first."""
        old = self._before()
        run = self._run_so_far()
        new = run.lines("train") if run.folder.is_dir() else []
        past = max((line["step"] for line in old), default=0)
        return [*old, *({**line, "step": line["step"] + past} for line in new if line["step"] <= run.kept_step())]

    def _before(self) -> list[Mapping[str, Any]]:
        """Those on a machine before this one."""
        path = self.folder / STARTED / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []

    def _kernels(self) -> int:
        """Kernels that were judged for steps whose weights are kept."""
        return timed_rl.kernels_written(self.lines())

    def keep(self) -> None:
        """Weights, data and measures: what another machine goes on from."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        lines = self.lines()
        with tarfile.open(RESULTS / f"{NAME}.tar.gz", "w:gz") as tar:
            for path in (*self.folder.glob("measured_*.json"), self.folder / "data"):
                if path.exists():
                    tar.add(path, path.name)
            if not lines:
                return
            measures = self.folder / "kept.jsonl"
            measures.write_text("".join(json.dumps(line) + "\n" for line in lines))
            tar.add(measures, f"{STARTED}/metrics.jsonl")
            for role in ROLES:
                tar.add(self._weights(role), f"{STARTED}/{role}")

    def save(self, *, quiet: bool = True) -> None:
        """Figures, goals and picture of what there is."""
        figures: dict[str, float] = {}
        for system in ("untuned", "tuned", "reinforced"):
            path = self.answers_of(system)
            if path.is_file():
                figures |= dict(figures_of(system, json.loads(path.read_text())))
        if lines := self.lines():
            figures |= _training(lines) | {"kernels": self._kernels()}
            RESULTS.mkdir(parents=True, exist_ok=True)
            curves.draw_curves(lines, RESULTS / f"{NAME}.png")
        goals = {
            "kernels": (">=", 10_000.0),
            "reinforced_known_compile_rate": (">=", 0.95),
            "reinforced_known_pass_rate": (">=", 0.9),
            "reinforced_known_over_naive_ladder": (">=", 2.0),
            "reinforced_known_given_gain_low": (">=", 1.0),
            "reinforced_known_gain_low": (">=", 1.0),
        }
        shown = {name: goal for name, goal in goals.items() if name in figures}
        self.record(NAME, figures, shown, {"settings": self.settings}, quiet=quiet)


def _training(lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of the policy steps."""
    found = {
        "steps": float(len(lines)),
        "minutes_in_steps": sum(line["step_s"] for line in lines) / 60,
        "seconds_per_step": median(line["step_s"] for line in lines),
        "left_out": sum(line["left_out"] for line in lines),
    }
    for share in ("generation_share", "reward_share", "update_share"):
        found[share] = sum(line[share] * line["step_s"] for line in lines) / sum(line["step_s"] for line in lines)
    quarter = max(len(lines) // 4, 1)
    for name in ("pass_rate/generator", "pass_rate/optimizer", "compile_rate", "speedup/over_given"):
        for when, some in (("first", lines[:quarter]), ("last", lines[-quarter:])):
            values = [line[name] for line in some if name in line]
            found |= {f"{name.replace('/', '_')}_{when}_quarter": fmean(values)} if values else {}
    return found


if __name__ == "__main__":
    main()
