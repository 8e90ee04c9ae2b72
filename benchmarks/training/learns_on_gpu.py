"""Does it learn where kernels are really timed? Policy, learner and evaluator on one machine with an NVIDIA GPU.

    python benchmarks/training/learns_on_gpu.py --folder runs                 # a run of 90 steps
    python benchmarks/training/learns_on_gpu.py --folder runs --seconds 300   # stops then; the same command goes on
    python benchmarks/training/learns_on_gpu.py --folder runs --figures       # of a run that is there, on any machine

The configuration is `cpu-demo` with its model and its learner on the GPU, one agent, one turn, GRPO, and problems in
whose templates there is something to gain in speed. Held-out prompts are answered before, during and after; before
and after are compared prompt by prompt with Wilcoxon's signed ranks.
"""

import argparse
import shutil
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

from benchmarks._support.record import RESULTS, save
from benchmarks._support.trained import Trained, played
from benchmarks.training.it_learns import compared
from trainer.config.reading import load_config
from trainer.conversation.conversation import Conversation
from trainer.reporting import curves, transcripts

PROBLEMS = ("vector_add", "relu", "saxpy", "row_sum", "transpose")
SETTINGS = (
    "name=learns-on-gpu",
    "agents.optimizer=null",
    "flow.max_turns=1",
    f"tasks.problems=[{','.join(PROBLEMS)}]",
    "tasks.held_out=100",
    "model.warm_start.steps=150",
    "algorithm.name=grpo",
    "algorithm.candidates=8",
    "algorithm.mini_batch_size=4",
    "algorithm.learning_rate=5e-4",
    "rollout.evaluation_temperature=1.0",
    "evaluator.backend=gpu",
    "evaluator.concurrency=32",
    "evaluator.timing_precision=0.03",
    "checkpointing.every_episodes=640",
    "checkpointing.evaluate_every_episodes=1280",
    "resources.device=cuda",
    "resources.gpus_per_node=1",
    "resources.threads=4",
)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--folder", type=Path, default=Path("runs"), help="where the run's folder is, or comes")
    asked.add_argument("--steps", type=int, default=90)
    asked.add_argument("--seconds", type=float, help="ask the run to stop after so long; a later call goes on")
    asked.add_argument("--figures", action="store_true", help="only the figures of a run that is there")
    asked.add_argument("--device", default="", help="with --figures: what it ran on, GPU, processor and system")
    given = asked.parse_args()
    told = [*SETTINGS, f"algorithm.steps={given.steps}", f"checkpointing.folder={given.folder.absolute()}/{{name}}"]
    config = load_config("cpu-demo", told)
    if not given.figures and not played(told, given.seconds):
        return
    run = Trained(config, Path(config.run_folder), 0.0)
    lines = run.lines("train")
    # What is counted of the evaluator begins anew with each start.
    counts = [line["oracle/asked"] for line in lines]
    starts = 1 + sum(later < earlier for earlier, later in pairwise(counts))
    figures = {
        **{name: value for name, value in compared(run).items() if name != "minutes"},
        "steps": len(lines),
        "starts": starts,
        "minutes_in_steps": sum(line["step_s"] for line in lines) / 60,
        "seconds_per_step": median(line["step_s"] for line in lines),
        "waiting_share": sum(line["reward_share"] * line["step_s"] for line in lines)
        / sum(line["step_s"] for line in lines),
        "kernels": sum(line["conversations"] for line in lines),
        "left_out": sum(line["left_out"] for line in lines),
        "pass_rate_first_five_steps": sum(line["pass_rate"] for line in lines[:5]) / 5,
        "pass_rate_last_five_steps": sum(line["pass_rate"] for line in lines[-5:]) / 5,
    }
    quarter = len(lines) // 4
    conversations = [
        [
            one.conversation
            for step in steps
            for one in transcripts.read_transcripts(run.folder / "transcripts" / f"train-{step:06d}.jsonl")
        ]
        for steps in (range(1, quarter + 1), range(len(lines) - quarter + 1, len(lines) + 1))
    ]
    for problem in PROBLEMS:
        for when, played_ones in zip(("first", "last"), conversations, strict=True):
            found = speedups(played_ones, problem)
            figures |= {f"speedup_{problem}_{when}_quarter": median(found)} if found else {}
    curves.draw_curves(
        [line for kind in ("train", "held_out") for line in run.lines(kind)], RESULTS / "learns_on_gpu.png"
    )
    goals = {"p_reward": ("<=", 0.01), "p_passed": ("<=", 0.01), "left_out": ("<=", 0.0)}
    details = {"settings": told}
    device, here = given.device or gpu(), not given.device
    save("learns_on_gpu", figures, goals, device=device, measured_here=here, details=details)


def speedups(conversations: Sequence[Conversation], problem: str) -> list[float]:
    """Lower ends of the measured speedups of right kernels over the baseline."""
    return [
        attempt.verdict.timing.speedup_low
        for one in conversations
        if one.task.problem == problem
        for attempt in one.attempts
        if attempt.verdict and attempt.verdict.timing and attempt.passed
    ]


def gpu() -> str:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "an unknown GPU"
    asked = [tool, "--query-gpu=name", "--format=csv,noheader"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip().splitlines()[0]


if __name__ == "__main__":
    main()
