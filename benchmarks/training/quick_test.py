"""`assay-train run --quick-test` from nothing in an empty folder, without a GPU: time, memory, what comes of it; and
the same run killed in every phase.

    python benchmarks/training/quick_test.py                  # about half an hour on two cores, each of the two
    python benchmarks/training/quick_test.py --small          # every phase much smaller, to see kills alone

The first run is left alone; every second its processes are counted and their memory added up, shared pages in shares
(`Pss`), the evaluator and Ray among them. The second is killed (-9, the command alone, as the kernel does it where
memory runs out) while kernels are graded, while each agent is tuned, while the tuned agents play with each other, in
the middle of a policy step, and while a checkpoint is written; each time the same command goes on. Whole is a result
with every step and every evaluation measured once, the last step's checkpoint, models that load, and a verdict for
every kernel that was written; nothing is lost where the graded kernels have the verdicts that they had before a kill,
and nothing is graded twice where all starts together graded each kernel once. In the deterministic mode, which
`--small` sets, the killed run must come to what the first one came to: models of each phase, conversations, measures.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "soak"))

from processes import Census, below

from benchmarks._support.record import save
from benchmarks._support.trained import Trained, same_model
from trainer.config.reading import load_config
from trainer.data.graded import GradedKernel, read_kernels
from trainer.policies import models
from trainer.reporting.transcripts import read_transcripts
from trainer.rl.checkpoints import Checkpoints
from trainer.tuning.measuring import GOALS

NAME = "quick_test"
SMALL = (
    "deterministic=true",
    "tasks.problems=[scalar_multiply,relu]",
    "tasks.variants=8",
    "tasks.held_out=4",
    "sft.examples=24",
    "sft.batch_size=2",
    "sft.learning_rate=2e-3",
    "sft.epochs=5",
    "sft.evaluation_tasks=2",
    "sft.cross_conversations=4",
    "algorithm.prompts_per_step=2",
    "algorithm.mini_batch_size=2",
    "algorithm.candidates=2",
    "algorithm.micro_batch_size=4",
    "flow.max_turns=2",
    "checkpointing.every_episodes=8",
    "checkpointing.evaluate_every_episodes=16",
)
"""Of `--small`: one problem is learned and one held out, two steps to a checkpoint."""
CONFIG = "quick-test"
GONE_S = 120.0
"""How long what a killed run has started may live on: Ray's agents look for their node about once a minute."""
PHASES = {
    "data": r"^Data: ",
    "generator": r"^Tuning the generator, after epoch (\d+) of \1: .* known",
    "optimizer": r"^Tuning the optimizer, after epoch (\d+) of \1: .* known",
    "together": r"^Starting the generator",
}
"""What a phase ends with, in the log; the rest is reinforcement learning."""


@dataclass
class Started:
    """`assay-train run --quick-test` in a folder, and what was seen of it."""

    folder: Path
    settings: list[str]
    seconds: float = 0.0
    peak_bytes: int = 0
    processes: int = 0
    """Most at one time."""
    ended_s: dict[str, float] = field(default_factory=dict)
    """When a phase was over, from the start."""
    census: Census = field(default_factory=Census)

    @property
    def run(self) -> Path:
        """The run's own folder."""
        return self.folder / "runs" / CONFIG

    @property
    def log(self) -> Path:
        """What the command has said, all starts together."""
        return self.folder / "log"

    def go(self, kill_when: Callable[[], bool] | None = None) -> int | None:
        """Start, or go on. Ends the process when `kill_when` is true; its exit code, None where it was killed."""
        command = [sys.executable, "-m", "trainer", "run", "--quick-test", *self.settings]
        path = {"PYTHONPATH": str(Path(__file__).parents[2])}
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, env={**os.environ, **path})
        began_s, looked_s = time.monotonic(), 0.0
        while process.poll() is None:
            if kill_when is not None and kill_when():
                self.census.take([process.pid])
                process.send_signal(signal.SIGKILL)
                process.wait()
                return None
            now_s = time.monotonic() - began_s
            if now_s - looked_s >= 1.0:
                looked_s = now_s
                self._look(process.pid, now_s)
            time.sleep(0.05)
        self.seconds = time.monotonic() - began_s
        return process.returncode

    def _look(self, pid: int, now_s: float) -> None:
        self.census.take([pid])
        every = [pid, *below(pid)]
        self.processes = max(self.processes, len(every))
        self.peak_bytes = max(self.peak_bytes, sum(map(memory_bytes, every)))
        said = self.said()
        for phase, pattern in PHASES.items():
            if phase not in self.ended_s and re.search(pattern, said, re.MULTILINE):
                self.ended_s[phase] = now_s

    def said(self) -> str:
        """The log."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def trained(self) -> Trained:
        """What there is of the run."""
        return Trained(load_config(CONFIG, self.settings), self.run, self.seconds)

    def kernels(self) -> tuple[GradedKernel, ...]:
        """The graded kernels."""
        return tuple(one for place in self.run.glob("tuning/data-*") for one in read_kernels(place / "kernels.jsonl"))

    def epochs(self, role: str) -> int:
        """How many epochs of an agent's own tuning are kept."""
        kept = [path for path in self.run.glob(f"tuning/{role}-*/epochs.json") if "-together-" not in str(path)]
        return max((len(json.loads(path.read_text())) for path in kept), default=0)

    def graded_lines(self) -> int:
        """How many kernels are graded so far, those that were not kept among them."""
        places = (path for name in ("kernels", "rejected") for path in self.run.glob(f"tuning/data-*/{name}.jsonl"))
        return sum(path.read_bytes().count(b"\n") for path in places)

    def conversations(self) -> list[tuple[object, ...]]:
        """What the tuned agents and the learning ones wrote and how it was judged, without times and ids."""
        files = sorted([*self.run.glob("tuning/*/transcripts/*.jsonl"), *self.run.glob("transcripts/*.jsonl")])
        return [
            (
                path.name,
                line.conversation.task.id,
                line.conversation.seed,
                *(
                    (one.written.response and one.written.response.text, one.value)
                    for one in line.conversation.attempts
                ),
            )
            for path in files
            for line in read_transcripts(path)
        ]

    def writes_checkpoint(self) -> bool:
        """Whether one is begun and does not count yet."""
        return any(not (path / "state.json").exists() for path in self.run.glob("checkpoints/step-*"))


def memory_bytes(pid: int) -> int:
    """Of a process, what it shares counted in shares."""
    with contextlib.suppress(OSError):
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
        return int(found[1]) << 10 if found else 0
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="keep both runs here, else they are removed")
    parser.add_argument(
        "--only", choices=["undisturbed", "killed"], help="only this run; compared with the other of FOLDER"
    )
    parser.add_argument("--small", action="store_true", help="every phase much smaller, in the deterministic mode")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="other settings of the run")
    given = parser.parse_args()
    settings = [*(SMALL if given.small else ()), *given.settings]
    named = f"{NAME}_small" if given.small else NAME
    with tempfile.TemporaryDirectory(prefix="assay-quick-test-") as scratch:
        place = given.folder or Path(scratch)
        calm = Started(place / "undisturbed", settings)
        if given.only != "killed":
            calm.folder.mkdir(parents=True)
            if code := calm.go():
                raise SystemExit(f"The run ended with {code}:\n{calm.said()[-3000:]}")
            goals: dict[str, tuple[str, float]] = {"whole": (">=", 1.0)}
            if not given.small:
                goals |= {f"generator_known_{name}": (">=", GOALS[name]) for name in ("compile_rate", "pass_rate")}
                goals["optimizer_known_improved_rate"] = (">=", GOALS["improved_rate"])
            _save(
                named, measured(calm), goals, {"settings": settings, "load": os.getloadavg(), "phases": phases(calm)}
            )
        if given.only != "undisturbed":
            killed = Started(place / "killed", settings)
            killed.folder.mkdir(parents=True)
            details: dict[str, Any] = {"settings": settings}
            figures = disturbed(killed, details)
            if calm.folder.exists():
                figures |= compared(calm, killed)
            none = [name for name in figures if name.endswith(("_lost", "_left", "_twice", "_that_differ"))]
            wanted = ["whole", *(name for name in figures if name.endswith("_equal"))]
            goals = {**dict.fromkeys(wanted, (">=", 1.0)), **dict.fromkeys(none, ("<=", 0.0))}
            _save(f"{named}_killed", figures, goals, details)


def measured(calm: Started) -> dict[str, float]:
    """Time, memory and result of the run that was left alone."""
    size = sum(path.stat().st_size for path in calm.run.rglob("*") if path.is_file())
    times = [0.0, *calm.ended_s.values(), calm.seconds]
    names = [*calm.ended_s, "reinforcement"]
    figures = {"minutes": calm.seconds / 60}
    figures |= {
        f"minutes_{name}": (end - start) / 60 for name, start, end in zip(names, times, times[1:], strict=False)
    }
    figures |= {
        "peak_memory_gib": calm.peak_bytes / (1 << 30),
        "processes": calm.processes,
        "disk_mib": size / (1 << 20),
        "whole": float(not what_is_missing(calm)),
        "graded_kernels": len(calm.kernels()),
    }
    last = {role: found[-1] for role, found in tuned(calm)["measured"].items()}
    for role, name in (
        ("generator", "compile_rate"),
        ("generator", "pass_rate"),
        ("optimizer", "compile_rate"),
        ("optimizer", "pass_rate"),
        ("optimizer", "improved_rate"),
    ):
        figures[f"{role}_known_{name}"] = last[role]["known"][name]
    for line in calm.trained().lines("held_out"):
        figures[f"pass_rate_at_step_{line['step']}"] = line["pass_rate"]
    return figures


def phases(calm: Started) -> Mapping[str, object]:
    """What was measured on the way, by agent and phase."""
    return {
        role: {
            one["phase"]: {
                kind: {name: one[kind][name] for name in GOALS if one[kind].get(name) is not None}
                for kind in ("known", "new")
                if kind in one
            }
            for one in found
        }
        for role, found in tuned(calm)["measured"].items()
    }


def disturbed(killed: Started, details: dict[str, Any]) -> dict[str, float]:
    """The run that is killed in every phase, and whether it is whole."""
    began_s, graded = time.monotonic(), 0
    kept: dict[tuple[str, str], str | None] = {}
    done: list[dict[str, Any]] = []
    lost = 0
    for phase, when in moments(killed):
        code = killed.go(when)
        if code is not None:
            raise SystemExit(f"The run ended with {code} before it was killed in {phase}:\n{killed.said()[-3000:]}")
        # A line that was half written is none, and nothing that was read.
        now = {(one.problem, one.fingerprint): one.evaluation_id for one in killed.kernels()}
        lost += sum(now.get(key) != evaluation for key, evaluation in kept.items())
        kept = now
        graded = graded or killed.graded_lines()
        done.append({"phase": phase, "graded_kernels": len(kept), "load": os.getloadavg()})
        print(f"Killed: {phase}; {len(kept)} kernels were graded.", flush=True)
    details["kills"] = done
    code = killed.go()
    details["missing"] = what_is_missing(killed)
    details["processes_left"] = _left(killed)
    now = {(one.problem, one.fingerprint): one.evaluation_id for one in killed.kernels()}
    lost += sum(now.get(key) != evaluation for key, evaluation in kept.items())
    graded += sum(int(number) for number in re.findall(r"; (\d+) graded now", killed.said()))
    return {
        "kills": len(done),
        "whole": float(code == 0 and not details["missing"]),
        "verdicts_lost": lost,
        "graded_twice": graded - killed.graded_lines(),
        "processes_left": len(details["processes_left"]),
        **{f"pass_rate_at_step_{line['step']}": line["pass_rate"] for line in killed.trained().lines("held_out")},
        "minutes": (time.monotonic() - began_s) / 60,
    }


def compared(calm: Started, killed: Started) -> dict[str, float]:
    """Whether the killed run came to the same as the one that was left alone; what hangs on draws in the
    deterministic mode only.
    """
    one, other = (
        {(kernel.problem, kernel.fingerprint): kernel.verdict.status for kernel in started.kernels()}
        for started in (calm, killed)
    )
    figures: dict[str, float] = {
        "graded_kernels_that_differ": len([key for key in {*one, *other} if one.get(key) != other.get(key)]),
        "tuned_models_equal": float(all(same(calm, killed, role) for role in ("generator", "optimizer"))),
    }
    whole, resumed = calm.trained(), killed.trained()
    if whole.config.deterministic:
        played = zip_longest(calm.conversations(), killed.conversations())
        figures |= {
            "conversations": len(calm.conversations()),
            "conversations_that_differ": sum(before != after for before, after in played),
            "final_models_equal": float(all(whole.same_weights(resumed, role) for role in whole.config.roles)),
            "measures": sum(map(len, whole.measures())),
            "measures_that_differ": whole.measures_that_differ(resumed),
        }
    return figures


def moments(killed: Started) -> Iterator[tuple[str, Callable[[], bool]]]:
    """The phases, and when each of them is under way; with sft.examples=0 those of reinforcement learning alone."""
    if killed.trained().config.sft.examples:
        yield "data", lambda: killed.graded_lines() >= 20
        yield "tuning the generator", lambda: killed.epochs("generator") >= 2
        yield "tuning the optimizer", lambda: killed.epochs("optimizer") >= 2
        yield "learning from each other", lambda: "\nPlaying " in killed.said()
    yield "a checkpoint", killed.writes_checkpoint
    yield "a policy step", lambda: "\nstep 3 of " in killed.said()


def what_is_missing(started: Started) -> list[str]:
    """What a whole run has, and this one has not."""
    run, missing = started.trained(), []
    steps = run.config.algorithm.steps
    evaluated = [0, steps] if run.config.checkpointing.evaluate_at_start else [steps]
    for kind, expected in (("train", list(range(1, steps + 1))), ("held_out", evaluated)):
        found = [line["step"] for line in run.lines(kind)]
        if found != expected:
            missing.append(f"measures of {kind}: {found}, not {expected}")
    newest = Checkpoints(run.folder / "checkpoints").newest()
    if newest is None or newest.step != steps:
        missing.append(f"the checkpoint of step {steps}")
    else:
        for role in run.config.roles:
            with contextlib.suppress(Exception):
                models.load_model(newest.model(role))
                continue
            missing.append(f"the {role} of step {steps}")
    played = run.training()
    if len(played) != steps * run.config.episodes_per_step:
        missing.append(f"conversations: {len(played)}, not {steps * run.config.episodes_per_step}")
    without = sum(
        attempt.verdict is None
        for one in played
        for attempt in one.attempts
        if attempt.written.source is not None and attempt.repeats is None
    )
    if without:
        missing.append(f"verdicts of {without} kernels")
    return missing


def tuned(started: Started) -> Mapping[str, Any]:
    """What the fine-tuning came to."""
    found: Mapping[str, Any] = json.loads((started.run / "tuning" / "tuned.json").read_text(encoding="utf-8"))
    return found


def same(calm: Started, killed: Started, role: str) -> bool:
    """Whether the models that an agent was tuned to on its own examples are equal, bit by bit."""
    folders = [
        next(path.parent for path in one.run.glob(f"tuning/{role}-*/epochs.json") if "-together-" not in str(path))
        for one in (calm, killed)
    ]
    return same_model(*(max(one.glob("epoch-*")) for one in folders))


def _left(killed: Started) -> list[str]:
    """Processes of all its starts that are still there after `GONE_S`."""
    until_s = time.monotonic() + GONE_S
    while (left := killed.census.alive()) and time.monotonic() < until_s:
        time.sleep(0.5)
    return [words[:200] for words in left]


def _save(
    name: str, figures: Mapping[str, float], goals: Mapping[str, tuple[str, float]], details: Mapping[str, object]
) -> None:
    save(name, figures, goals, {"torch": torch.__version__}, device="no GPU", details=details)


if __name__ == "__main__":
    main()
