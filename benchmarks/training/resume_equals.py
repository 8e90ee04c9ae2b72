"""A run of verl that is killed in mid-step and goes on equals one that never was, in the deterministic mode.

    python benchmarks/training/resume_equals.py [--steps 4] [--kill-after 2]

Two agents, two turns, PPO with critics, warmed up far enough that some kernels are right. The second run begins with
the weights of the first, is killed (-9) in the step after `--kill-after`, and started again. Compared are the weights
of both agents bit by bit, and every measure that is no time. A start of verl takes about a minute on two cores, and
there are three.
"""

import argparse
import signal
import tempfile
import time
from pathlib import Path

from benchmarks._support.record import save
from benchmarks._support.served import served
from benchmarks._support.trained import begun, train
from trainer.rl.checkpoints import Checkpoints

SETTINGS = (
    "deterministic=true",
    "algorithm.prompts_per_step=4",
    "algorithm.mini_batch_size=4",
    "algorithm.candidates=2",
    "algorithm.micro_batch_size=8",
    "flow.max_turns=2",
    "tasks.held_out=4",
    "checkpointing.evaluate_at_start=false",
    "checkpointing.every_episodes=8",
    "logging.tensorboard=false",
)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--steps", type=int, default=4)
    asked.add_argument("--kill-after", type=int, default=2, help="kill in the step after this one")
    asked.add_argument("--keep", type=Path, help="folder for the runs, else they are removed")
    given = asked.parse_args()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="assay-resume-") as scratch, served(2) as service:
        folder = given.keep or Path(scratch)
        settings = [*SETTINGS, f"algorithm.steps={given.steps}"]
        whole = train(Path(folder, "undisturbed"), service.url, settings)
        settings += [
            "model.warm_start.steps=0",
            *(f"agents.{role}.model_name={whole.start(role)}" for role in whole.config.roles),
        ]
        run, process = begun(Path(folder, "killed"), service.url, settings)
        while run.steps_done() < given.kill_after and process.poll() is None:
            time.sleep(0.05)
        time.sleep(1.0)
        process.send_signal(signal.SIGKILL)
        process.wait()
        found = Checkpoints(run.folder / "checkpoints").newest()
        killed = train(run.folder, service.url, settings)
        same = {role: whole.same_weights(killed, role) for role in whole.config.roles}
        lines = whole.measures()
        figures = {
            "steps": given.steps,
            "went_on_after_step": found.step if found else 0,
            **{f"{role}_weights_equal": float(value) for role, value in same.items()},
            "measures": sum(len(line) for line in lines),
            "measures_that_differ": whole.measures_that_differ(killed),
            "mean_reward": sum(line["reward/final"] for line in lines) / len(lines),
            "minutes": (time.monotonic() - began_s) / 60,
        }
    save(
        "resume_equals",
        figures,
        {**{f"{role}_weights_equal": (">=", 1.0) for role in same}, "measures_that_differ": ("<=", 0.0)},
        device="no GPU",
        details={"settings": SETTINGS},
    )


if __name__ == "__main__":
    main()
