"""A run of verl that is killed in mid-step and goes on equals one that never was, in the deterministic mode.

    .venv/bin/python benchmarks/resume_equals.py [--steps 4] [--kill-after 2] [--folder FOLDER]

Two agents, two turns, PPO with critics, a tiny model, a service of its own on this machine. Compared are the weights
of both agents bit by bit, and every measure that is no time. Writes benchmarks/results/resume_equals.json. A start of
verl takes about a minute on two cores, and there are three.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import torch

from trainer import metrics, models
from trainer.rl.checkpoints import Checkpoints

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
ROLES = ("generator", "optimizer")
SETTINGS = (
    "agents.optimizer={}",
    "deterministic=true",
    "algorithm.prompts_per_step=2",
    "algorithm.mini_batch_size=2",
    "algorithm.candidates=2",
    "algorithm.micro_batch_size=4",
    "flow.max_turns=2",
    "tasks.problems=[vector_add, relu]",
    "tasks.variants=4",
    "tasks.held_out=2",
    "tasks.wording=brief",
    "rollout.prompt_tokens=256",
    "rollout.turn_tokens=32",
    "rollout.sequence_tokens=768",
    "evaluator.embedded=false",
    "checkpointing.evaluate_at_start=false",
    "checkpointing.every_episodes=4",
    "logging.tensorboard=false",
)
RUN = """
import sys
from trainer.config.reading import load
from trainer.rl.runner import run
model, *config = sys.argv[1:]
print(run(load("cpu-demo", config), agents=dict.fromkeys(("generator", "optimizer"), model)))
"""
CLOCK = re.compile(r"(_s|_share|time_s)$|^oracle/")
"""Measures that are times, or counted since a start."""


@contextmanager
def service(folder: Path):
    command = [sys.executable, "-m", "evaluator", "serve", "--port", "0", "--data-dir", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    try:
        for line in process.stdout:
            found = re.search(r"http://\S+?:\d+", line)
            if found:
                break
        else:
            raise SystemExit("the service did not start")
        yield found[0]
    finally:
        process.terminate()
        process.wait()


def start(model: Path, url: str, folder: Path, steps: int) -> subprocess.Popen:
    config = [*SETTINGS, f"evaluator.url={url}", f"checkpointing.folder={folder}", f"algorithm.steps={steps}"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, "-c", RUN, str(model), *config], env=env, cwd=ROOT)


def finish(process: subprocess.Popen) -> None:
    if process.wait():
        raise SystemExit(f"a run ended with {process.returncode}")


def steps_done(folder: Path) -> int:
    return max((line["step"] for line in metrics.read(folder) if line["kind"] == "train"), default=0)


def compared(one: Path, two: Path) -> dict[str, object]:
    ends = [Checkpoints(folder / "checkpoints").newest() for folder in (one, two)]
    weights = {}
    for role in ROLES:
        first, second = (models.load(end.model(role))[0].state_dict() for end in ends)
        weights[role] = all(torch.equal(value, second[name]) for name, value in first.items())
    lines = [
        [{name: value for name, value in line.items() if not CLOCK.search(name)} for line in metrics.read(folder)]
        for folder in (one, two)
    ]
    return {"weights_equal": weights, "measures_equal": lines[0] == lines[1], "lines": len(lines[0])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--kill-after", type=int, default=2, help="kill in the step after this one")
    parser.add_argument("--folder", type=Path, help="keep the runs here")
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        model = folder / "model"
        models.make_tiny(
            model, ["__global__ void relu(const float* x, float* y, int n) { y[0] = x[0]; }"] * 3, seed=0
        )
        with service(folder / "service") as url:
            finish(start(model, url, folder / "undisturbed", asked.steps))
            killed = start(model, url, folder / "killed", asked.steps)
            while steps_done(folder / "killed") < asked.kill_after and killed.poll() is None:
                time.sleep(0.05)
            time.sleep(0.3)
            killed.send_signal(signal.SIGKILL)
            killed.wait()
            at = Checkpoints(folder / "killed" / "checkpoints").newest()
            finish(start(model, url, folder / "killed", asked.steps))
        found = compared(folder / "undisturbed", folder / "killed")
    result = {
        "steps": asked.steps,
        "went_on_after_step": at.step if at else 0,
        **found,
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    print(json.dumps(result, indent=1))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "resume_equals.json").write_text(json.dumps(result, indent=1) + "\n")
    raise SystemExit(0 if all(found["weights_equal"].values()) and found["measures_equal"] else 1)


if __name__ == "__main__":
    main()
