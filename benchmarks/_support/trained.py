"""Real training runs, for the benchmarks of the trainer: `assay-train run` in a process of its own."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from trainer.config.reading import load_config
from trainer.config.schema import AgentRole, TrainingConfig
from trainer.conversation.conversation import Conversation
from trainer.policies import models
from trainer.reporting import metrics, transcripts
from trainer.rl.checkpoints import Checkpoints

_CLOCK = re.compile(r"(_s|_share|time_s)$|^oracle/")
"""Measures that are times, or counted since a start."""
_ROOT = Path(__file__).parents[2]
ENDING_S = 30.0
"""For a run that was asked to stop."""
_KILLED_S = 5.0
_INTERRUPTED = 130
"""Exit code of a run that was asked to stop, and can go on."""


@dataclass(frozen=True)
class Trained:
    """A run that is over."""

    config: TrainingConfig
    folder: Path
    seconds: float
    """Of the whole command, warm start included."""

    def lines(self, kind: str) -> list[Mapping[str, Any]]:
        """The measures of each step (`train`) or evaluation (`held_out`)."""
        return [line for line in metrics.read_measures(self.folder) if line["kind"] == kind]

    def steps_done(self) -> int:
        """The last step whose measures are written; the run may go on meanwhile."""
        return max((line["step"] for line in self.lines("train")), default=0)

    def kept_step(self) -> int:
        """The step of the newest checkpoint; 0 without any."""
        newest = Checkpoints(self.folder / "checkpoints").newest()
        return newest.step if newest else 0

    def held_out(self, step: int) -> dict[str, Conversation]:
        """The evaluation after a step, by task."""
        found = transcripts.read_transcripts(self.folder / "transcripts" / f"held_out-{step:06d}.jsonl")
        return {one.conversation.task.id: one.conversation for one in found}

    def training(self) -> list[Conversation]:
        """All conversations that were learned from, in order."""
        files = sorted((self.folder / "transcripts").glob("train-*.jsonl"))
        return [one.conversation for file in files for one in transcripts.read_transcripts(file)]

    def weights(self, role: AgentRole) -> Path:
        """The Hugging Face folder of an agent, as the newest checkpoint has it."""
        newest = Checkpoints(self.folder / "checkpoints").newest()
        if newest is None:
            raise SystemExit(f"The run in {self.folder} has no checkpoint.")
        return newest.model(role)

    def same_weights(self, other: "Trained", role: AgentRole) -> bool:
        """Whether the newest weights of an agent are those of another run, bit by bit."""
        return same_model(self.weights(role), other.weights(role))

    def measures(self) -> list[dict[str, object]]:
        """Those of each step and evaluation that are no times."""
        return [
            {name: value for name, value in line.items() if not _CLOCK.search(name)}
            for kind in ("train", "held_out")
            for line in self.lines(kind)
        ]

    def measures_that_differ(self, other: "Trained") -> int:
        """How many are not those of another run; all of a line that only one of them has."""
        lines = zip_longest(self.measures(), other.measures(), fillvalue={})
        return sum(one.get(name) != two.get(name) for one, two in lines for name in one.keys() | two.keys())

    def start(self, role: AgentRole) -> Path:
        """The folder that an agent began with, warmed up."""
        return next((self.folder / "models").glob(f"{role}-*"))


def same_model(one: Path, other: Path) -> bool:
    """Whether two folders hold the same weights, bit by bit."""
    first, second = (models.load_model(folder)[0].state_dict() for folder in (one, other))
    return first.keys() == second.keys() and all(torch.equal(value, second[name]) for name, value in first.items())


def planned(folder: Path, url: str, settings: Sequence[str], *, config: str = "cpu-demo") -> Trained:
    """What there is of a run in a folder, against the service at `url`: nothing, where it was never begun."""
    return Trained(load_config(config, _told(folder, url, settings)), folder, 0.0)


def begun(
    folder: Path, url: str, settings: Sequence[str], *, config: str = "cpu-demo"
) -> tuple[Trained, subprocess.Popen[bytes]]:
    """A run that was just started in a folder, against the service at `url`, and its process."""
    command = [sys.executable, "-m", "trainer", "run", "--config", config, *_told(folder, url, settings)]
    return planned(folder, url, settings, config=config), subprocess.Popen(command, cwd=_ROOT)


def _told(folder: Path, url: str, settings: Sequence[str]) -> list[str]:
    return [
        *settings,
        f"name={folder.name}",
        f"checkpointing.folder={folder.parent}/{{name}}",
        "evaluator.embedded=false",
        f"evaluator.url={url}",
    ]


def train(folder: Path, url: str, settings: Sequence[str], *, config: str = "cpu-demo") -> Trained:
    """A run in a folder, against the service at `url`, to its end. Ends the benchmark where it fails."""
    began_s = time.monotonic()
    run, process = begun(folder, url, settings, config=config)
    if process.wait():
        raise SystemExit(f"The run in {folder} ended with {process.returncode}.")
    return replace(run, seconds=time.monotonic() - began_s)


def interval(differences: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """A 95 % interval of the mean, by the bootstrap (Efron 1979, percentiles of 10,000 resamples)."""
    values = np.asarray(differences)
    drawn = np.random.default_rng(seed).integers(len(values), size=(10_000, len(values)))
    low, high = np.percentile(values[drawn].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def played(
    told: Sequence[str],
    seconds: float | None,
    environment: Mapping[str, str] = MappingProxyType({}),
    ending_s: float = ENDING_S,
) -> bool:
    """Train until all steps are done (True), or the time is up: the step under way and its checkpoint then have
    `ending_s`. `environment`: variables of the run's own. Ends the benchmark where it fails.
    """
    command = [sys.executable, "-m", "trainer", "run", "--config", "cpu-demo", *told]
    with subprocess.Popen(command, env={**os.environ, **environment}) as process:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(ending_s)
            except subprocess.TimeoutExpired:
                # Its last checkpoint stays; what it started ends with it.
                process.terminate()
                try:
                    process.wait(_KILLED_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                return False
    if process.returncode not in (0, _INTERRUPTED):
        raise SystemExit(f"The run ended with {process.returncode}.")
    return process.returncode == 0
