"""Does it learn? Three runs with real verl: before against after on 200 held-out prompts, each in a paired test.

    python benchmarks/training/it_learns.py                        # the whole: three seeds
    python benchmarks/training/it_learns.py --seeds 1 --steps 5    # a look

The configuration is `cpu-demo`, with one agent, one turn and GRPO: a model from nothing, warmed up only far enough
to be often wrong, against the simulator. Both evaluations draw one answer to each prompt as in training, with the
same seeds. The rewards are tested with Wilcoxon's signed ranks, right against wrong with McNemar's exact test; both
two-sided. Beside the figures stand a picture and every answer with its verdict, as JSONL.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from scipy.stats import binomtest, wilcoxon

from benchmarks._support.record import RESULTS, save
from benchmarks._support.served import served
from benchmarks._support.trained import Trained, interval, train
from trainer.conversation.conversation import Conversation

P_AT_MOST = 0.01
SETTINGS = (
    "agents.optimizer=null",
    "flow.max_turns=1",
    "algorithm.name=grpo",
    "algorithm.candidates=8",
    "algorithm.mini_batch_size=4",
    "algorithm.learning_rate=5e-4",
    "algorithm.steps=25",
    "rollout.evaluation_temperature=1.0",
    "checkpointing.evaluate_at_start=true",
    "checkpointing.evaluate_every_episodes=1000000",
    "checkpointing.every_episodes=640",
)
_COLOURS = ("#0b62a4", "#c2540a", "#1b7f4b")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--seeds", type=int, default=3, help="runs, with the seeds 1, 2, …")
    asked.add_argument("--held-out", type=int, default=200, help="prompts of each evaluation")
    asked.add_argument("--steps", type=int, help="policy steps, where not as the configuration says")
    asked.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="of the service")
    asked.add_argument("--keep", type=Path, help="folder for the runs, else they are removed")
    asked.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="other settings of the runs")
    chosen = asked.parse_args()
    with tempfile.TemporaryDirectory(prefix="assay-learns-") as scratch, served(chosen.workers) as service:
        folder = chosen.keep or Path(scratch)
        settings = [
            *SETTINGS,
            f"tasks.held_out={chosen.held_out}",
            *([f"algorithm.steps={chosen.steps}"] if chosen.steps else []),
            *chosen.settings,
        ]
        runs = [
            train(folder / f"seed-{seed}", service.url, [*settings, f"seed={seed}"])
            for seed in range(1, chosen.seeds + 1)
        ]
        found = [compared(run) for run in runs]
        RESULTS.mkdir(parents=True, exist_ok=True)
        raw = [line for run in runs for line in answers(run)]
        (RESULTS / "it_learns.jsonl").write_text("".join(json.dumps(line) + "\n" for line in raw), encoding="utf-8")
        draw([run.lines("train") for run in runs], found, RESULTS / "it_learns.svg")
        save(
            "it_learns",
            {f"{name}_seed_{seed}": value for seed, each in enumerate(found, 1) for name, value in each.items()},
            {f"p_{test}_seed_{seed}": ("<=", P_AT_MOST) for seed in range(1, len(runs) + 1) for test in TESTS},
            device="no GPU",
            details={"settings": settings, "steps": [run.lines("train") for run in runs]},
        )


TESTS = ("reward", "passed")


def compared(run: Trained) -> dict[str, float]:
    """Before against after, prompt by prompt."""
    last = run.config.algorithm.steps
    before, after = run.held_out(0), run.held_out(last)
    pairs = [(before[task], after[task]) for task in sorted(before.keys() & after.keys())]
    rewards = [(value(one), value(other)) for one, other in pairs]
    gained = sum(right(other) and not right(one) for one, other in pairs)
    lost = sum(right(one) and not right(other) for one, other in pairs)
    differences = [other - one for one, other in rewards]
    low, high = interval(differences)
    return {
        "prompts": float(len(pairs)),
        "reward_before": sum(one for one, _ in rewards) / len(pairs),
        "reward_after": sum(other for _, other in rewards) / len(pairs),
        "gain_low": low,
        "gain_high": high,
        "passed_before": sum(right(one) for one, _ in pairs) / len(pairs),
        "passed_after": sum(right(other) for _, other in pairs) / len(pairs),
        "p_reward": float(wilcoxon(differences).pvalue) if any(differences) else 1.0,
        "p_passed": float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0,
        "minutes": run.seconds / 60,
    }


def value(conversation: Conversation) -> float:
    return conversation.final_reward or 0.0


def right(conversation: Conversation) -> bool:
    return any(attempt.passed for attempt in conversation.attempts)


def answers(run: Trained) -> list[dict[str, Any]]:
    """Every held-out answer, with its verdict."""
    return [
        {
            "seed": run.config.seed,
            "step": step,
            "task": task,
            "prompt": conversation.task.text,
            "attempt": attempt.number,
            "answer": attempt.written.response.text if attempt.written.response else None,
            "status": attempt.verdict.status if attempt.verdict else None,
            "message": attempt.verdict.message if attempt.verdict else attempt.written.format_problem,
            "reward": attempt.value,
        }
        for step in (0, run.config.algorithm.steps)
        for task, conversation in sorted(run.held_out(step).items())
        for attempt in conversation.attempts
    ]


def draw(lines: Sequence[Sequence[Mapping[str, Any]]], found: Sequence[Mapping[str, float]], path: Path) -> None:
    """Reward of each step, and held-out prompts solved before and after."""
    with mpl.rc_context({"font.size": 9, "axes.titlesize": 9, "svg.fonttype": "none", "svg.hashsalt": "assay"}):
        figure = Figure(figsize=(7.2, 2.9), layout="constrained")
        left, right_ = figure.subplots(1, 2, width_ratios=(3, 2))
        for seed, (steps, each) in enumerate(zip(lines, found, strict=True), 1):
            colour = _COLOURS[(seed - 1) % len(_COLOURS)]
            left.plot(
                [line["step"] for line in steps], [line["reward/final"] for line in steps], color=colour, lw=1.3
            )
            right_.plot(
                (0, 1), (each["passed_before"], each["passed_after"]), "o-", color=colour, label=f"seed {seed}"
            )
        left.set_title("Reward of a conversation, training prompts", loc="left", fontweight="bold")
        left.set_xlabel("Policy step")
        right_.set_title("Held-out prompts solved", loc="left", fontweight="bold")
        right_.set_xticks((0, 1), ("before", "after"))
        right_.set_xlim(-0.25, 1.25)
        right_.set_ylim(0, 1)
        right_.legend(frameon=False, loc="lower right")
        for axes in (left, right_):
            axes.grid(color="#e3e6ea", linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
