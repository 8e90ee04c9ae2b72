"""What becomes of a run's rewards while its evaluator is killed: they must equal those of an undisturbed run.

    python benchmarks/training/no_reward_lost.py [--steps 50] [--kills 10]

Two runs of real verl in the deterministic mode with the same beginning, each against a service of its own. That of
the second is killed (-9, with its workers and whatever they run) in the middle of steps and started again on the same
port and data. Compared is the reward of every kernel.
"""

import argparse
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "soak"))

from processes import below, kill

from benchmarks._support.record import save
from benchmarks._support.trained import Trained, begun
from trainer.conversation.conversation import Conversation

ROOT = Path(__file__).parents[2]
SETTINGS = (
    "deterministic=true",
    "agents.optimizer=null",
    "flow.max_turns=1",
    "algorithm.name=grpo",
    "algorithm.prompts_per_step=4",
    "algorithm.mini_batch_size=4",
    "algorithm.candidates=2",
    "algorithm.micro_batch_size=8",
    "tasks.held_out=4",
    "checkpointing.evaluate_at_start=false",
    "checkpointing.every_episodes=400",
    "logging.tensorboard=false",
)


class Service:
    """`assay serve` on a fixed port, that can be killed with all that it has started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "evaluator", "serve", "--port", str(self.port), "--data-dir", self.folder]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def kill(self) -> None:
        """Everything of it at once: the process, its workers, compilers and sandboxes."""
        for pid in [self.process.pid, *below(self.process.pid)]:
            kill(pid)
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(120)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--steps", type=int, default=50)
    asked.add_argument("--kills", type=int, default=10)
    given = asked.parse_args()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="assay-rewards-") as scratch:
        settings = [*SETTINGS, f"algorithm.steps={given.steps}"]
        calm, _ = played(Path(scratch, "undisturbed"), settings, given.steps, 0)
        settings += [f"model.name={calm.start('generator')}", "model.warm_start.steps=0"]
        disturbed, kills = played(Path(scratch, "disturbed"), settings, given.steps, given.kills)
        one, other = rewards(calm), rewards(disturbed)
        retried = disturbed.lines("train")[-1]["oracle/retried"]
    save(
        "no_reward_lost",
        {
            "steps": given.steps,
            "kills": kills,
            "kernels": len(one),
            "kernels_judged": sum(value is not None for value in one.values()),
            "rewards_that_differ": sum(one.get(key) != other.get(key) for key in one.keys() | other.keys()),
            "mean_reward": sum(value or 0.0 for value in one.values()) / len(one),
            "retried": retried,
            "left_out": sum(line["left_out"] for line in disturbed.lines("train")),
            "minutes": (time.monotonic() - began_s) / 60,
        },
        {"kills": (">=", given.kills), "rewards_that_differ": ("<=", 0.0), "left_out": ("<=", 0.0)},
        device="no GPU",
        details={"settings": SETTINGS},
    )


def played(folder: Path, settings: list[str], steps: int, kills: int) -> tuple[Trained, int]:
    """A run to its end, and how often its service was killed: spread over the steps, each time within a step."""
    service = Service(folder.with_name(f"{folder.name}-service"))
    rng = random.Random(1)
    at = [1 + round((number + 0.5) * (steps - 1) / kills) for number in range(kills)]
    done = 0
    try:
        run, process = begun(folder, service.url, settings)
        while process.poll() is None:
            time.sleep(0.1)
            if done < kills and run.steps_done() >= at[done]:
                time.sleep(rng.uniform(0, 2))
                service.kill()
                service.start()
                done += 1
        if process.returncode:
            raise SystemExit(f"The run in {folder} ended with {process.returncode}.")
    finally:
        service.stop()
    return run, done


def rewards(run: Trained) -> dict[tuple[str, int], float | None]:
    """The reward of each kernel, by conversation and attempt."""
    found: dict[tuple[str, int], float | None] = {}
    conversation: Conversation
    for conversation in run.training():
        for attempt in conversation.attempts:
            found[conversation.id, attempt.number] = attempt.value
    return found


if __name__ == "__main__":
    main()
