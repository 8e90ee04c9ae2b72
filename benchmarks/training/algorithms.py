"""PPO, GRPO and DAPO, each as a whole run of two agents from the same tuned checkpoints, on the CPU.

    python benchmarks/training/algorithms.py                                # eight steps each
    python benchmarks/training/algorithms.py --steps 1 --held-out 8         # a look
    python benchmarks/training/algorithms.py --keep /tmp/algorithms         # goes on with the runs that are there

The configuration is `cpu-demo`: up to three kernels, 32 conversations a step. All runs have the same seed, problems
and rates; the first one's tuned models are what the others begin with. Before and after, the same held-out prompts
are answered, drawn as in training; gains are by prompt, with 95 % intervals. It shows that each runs and learns; so
few steps of one seed rank nothing.
"""

import argparse
import os
import tempfile
from pathlib import Path
from statistics import fmean

from benchmarks._support.record import save
from benchmarks._support.served import served
from benchmarks._support.trained import Trained, planned, train
from trainer.evaluation.statistics import bootstrap_interval

ALGORITHMS = ("ppo", "grpo", "dapo")
SETTINGS = (
    "rollout.evaluation_temperature=1.0",
    "evaluator.verification=quick",
    "checkpointing.evaluate_at_start=true",
    "checkpointing.evaluate_every_episodes=1000000",
    # As for a long answer: with the default, an answer of any length would cost something.
    "algorithm.overlong_tokens=48",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--held-out", type=int, default=64, help="prompts before and after")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="of the service")
    parser.add_argument("--keep", type=Path, help="folder for the runs, else they are removed")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="other settings of the runs")
    given = parser.parse_args()
    told = [*SETTINGS, f"tasks.held_out={given.held_out}", f"algorithm.steps={given.steps}", *given.settings]
    figures: dict[str, float] = {}
    steps = {}
    with tempfile.TemporaryDirectory(prefix="assay-algorithms-") as scratch, served(given.workers) as service:
        folder = (given.keep or Path(scratch)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        first: Trained | None = None
        for name in ALGORITHMS:
            own = [*told, f"algorithm.name={name}"]
            if first is not None:
                own += [f"agents.{role}.model_name={first.start(role)}" for role in first.config.roles]
                own += ["model.warm_start.steps=0"]
            run = planned(folder / name, service.url, own)
            if not any(line["step"] == given.steps for line in run.lines("held_out")):
                run = train(folder / name, service.url, own)
            first = first or run
            figures |= {f"{name}_{figure}": value for figure, value in figures_of(run).items()}
            steps[name] = run.lines("train")
    save("algorithms", figures, {}, device="no GPU", details={"settings": told, "steps": steps})


def figures_of(run: Trained) -> dict[str, float]:
    """What a run learned from, and what it gained on held-out prompts."""
    before, after = run.held_out(0), run.held_out(run.config.algorithm.steps)
    pairs = [(before[task], after[task]) for task in sorted(before.keys() & after.keys())]
    rewards = [(one.final_reward or 0.0, other.final_reward or 0.0) for one, other in pairs]
    lines = run.lines("train")
    figures = {
        "steps": float(len(lines)),
        "conversations": sum(line["conversations"] for line in lines),
        "kernels": float(sum(len(talk.attempts) for talk in run.training())),
        "left_out": sum(line["left_out"] for line in lines),
        "prompts": float(len(pairs)),
        "reward_before": fmean(one for one, _ in rewards),
        "reward_after": fmean(other for _, other in rewards),
        "passed_before": fmean(any(attempt.passed for attempt in one.attempts) for one, _ in pairs),
        "passed_after": fmean(any(attempt.passed for attempt in other.attempts) for _, other in pairs),
    }
    found = bootstrap_interval([other - one for one, other in rewards])
    if found is not None:
        figures |= {"gain_low": found[0], "gain_high": found[1]}
    return figures


if __name__ == "__main__":
    main()
