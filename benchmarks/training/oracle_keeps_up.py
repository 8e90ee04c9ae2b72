"""Does the evaluator keep up? 512 conversations in flight on the CPU demo: what share of a step waits for it.

python benchmarks/training/oracle_keeps_up.py                     # 64 prompts of 8 conversations, 3 steps
python benchmarks/training/oracle_keeps_up.py --steps 1 --prompts 4

One agent and one turn, by GRPO: with two agents and three turns, the generation of one step had not ended after 13
minutes on two cores, and a run that waits that long for tokens never waits for a verdict.
"""

import argparse
import os
import tempfile
from pathlib import Path

from benchmarks._support.record import save
from benchmarks._support.served import served
from benchmarks._support.trained import train

SHARE_AT_MOST = 0.2
_CANDIDATES = 8


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--prompts", type=int, default=64, help="tasks of a step, of 8 conversations each")
    asked.add_argument("--steps", type=int, default=3)
    asked.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="of the service")
    asked.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="other settings of the run")
    chosen = asked.parse_args()
    in_flight = chosen.prompts * _CANDIDATES
    settings = [
        "agents.optimizer=null",
        "flow.max_turns=1",
        "algorithm.name=grpo",
        f"algorithm.steps={chosen.steps}",
        f"algorithm.prompts_per_step={chosen.prompts}",
        f"algorithm.mini_batch_size={chosen.prompts}",
        f"algorithm.candidates={_CANDIDATES}",
        f"rollout.concurrency={in_flight}",
        f"evaluator.concurrency={in_flight}",
        "checkpointing.evaluate_at_start=false",
        "tasks.held_out=8",
        *chosen.settings,
    ]
    with tempfile.TemporaryDirectory(prefix="assay-keeps-up-") as scratch, served(chosen.workers) as service:
        run = train(Path(scratch, "run"), service.url, settings)
        steps = run.lines("train")
        spent_s = sum(line["step_s"] for line in steps)
        asked_for = steps[-1]["oracle/asked"]
        save(
            "oracle_keeps_up",
            {
                "in_flight": in_flight,
                "steps": len(steps),
                "waiting_share": sum(line["reward_share"] * line["step_s"] for line in steps) / spent_s,
                "waiting_share_last_step": steps[-1]["reward_share"],
                "generation_share": sum(line["generation_share"] * line["step_s"] for line in steps) / spent_s,
                "update_share": sum(line["update_share"] * line["step_s"] for line in steps) / spent_s,
                "evaluations": asked_for,
                "evaluations_per_second": asked_for / spent_s,
                "repeats_share": steps[-1]["oracle/repeats"] / asked_for,
                "left_out": sum(line["left_out"] for line in steps),
                "seconds_per_step": spent_s / len(steps),
            },
            {"waiting_share": ("<=", SHARE_AT_MOST), "left_out": ("<=", 0.0)},
            device="no GPU",
            details={"workers": chosen.workers, "settings": settings},
        )


if __name__ == "__main__":
    main()
