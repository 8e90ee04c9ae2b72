"""What turns, a second agent and shared credit are worth, at the same number of evaluations.

    python benchmarks/training/turns_and_agents.py                        # four kinds of runs, three seeds
    python benchmarks/training/turns_and_agents.py --seeds 1 --kernels 300 --held-out 20
    python benchmarks/training/turns_and_agents.py --folder /tmp/turns --seconds 3000   # stops; the same goes on

Each run stops in the step in which the evaluator has judged `--kernels` kernels for it. Afterwards each answers the
same held-out prompts with at most five kernels: in one conversation of five turns, or, where it learned single turns,
in five conversations of one. Compared is the best reward of each prompt, as a mean difference with a 95 % bootstrap
interval over prompts and seeds, whatever it is. The runs with one agent begin with the same weights, and so do those
with two; what all begin with is measured too (`one_agent_start`, `two_agents_start`, `single_turn_start`).
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import torch

from benchmarks._support.record import save
from benchmarks._support.served import served
from benchmarks._support.trained import Trained, begun, interval, planned
from common.client import AsyncClient
from trainer.config.schema import AgentRole
from trainer.conversation.conversation import AgentName, Flow
from trainer.conversation.episode import Policy, episode_settings, play_many
from trainer.data.tasks import chosen, held_out_tasks
from trainer.evaluator.oracle import EvaluatorOracle
from trainer.policies.local_policy import LocalPolicy, SamplingSettings
from trainer.reporting import transcripts

KERNELS = 5
ROOM = ["rollout.prompt_tokens=384", "rollout.update_tokens=192", "rollout.sequence_tokens=2048"]
"""Five kernels of one agent, in what the tiny model sees."""
STEPS = 100_000
"""More than any run takes: each is stopped after its share of kernels."""
KINDS = {
    "two_agents": ["agents.optimizer={}", "flow.credit=true"],
    "no_credit": ["agents.optimizer={}", "flow.credit=false"],
    "one_agent": ["agents.optimizer=null", "flow.credit=true"],
    "single_turn": ["agents.optimizer=null", "flow.max_turns=1"],
}
CHAINS = (("two_agents", "no_credit"), ("one_agent", "single_turn"))
"""One after another; the second begins with the first's weights."""
BEGINNINGS = {"two_agents": "two_agents", "one_agent": "one_agent", "single_turn": "one_agent"}
"""Kinds that are measured before they have learned too, and whose first weights they then play with."""
PAIRS = (
    *((kind, f"{kind}_start") for kind in BEGINNINGS),
    ("one_agent", "single_turn"),
    ("two_agents", "one_agent"),
    ("two_agents", "no_credit"),
)


@dataclass(frozen=True)
class Asked:
    """What the command line says, and where the service is."""

    folder: Path
    url: str
    kernels: int
    settings: Sequence[str]
    stopping: threading.Event


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kernels", type=int, default=2000, help="judged for each run while it learns")
    parser.add_argument("--held-out", type=int, default=100, help="prompts that all answer afterwards")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="of the service")
    parser.add_argument("--at-once", type=int, default=1, help="runs side by side")
    parser.add_argument("--folder", type=Path, help="keep the runs here, and go on with those that are there")
    parser.add_argument("--seconds", type=float, help="stop all runs after so long; the same command goes on")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="other settings of all runs")
    given = parser.parse_args()
    stopping = threading.Event()
    if given.seconds:
        clock = threading.Timer(given.seconds, stopping.set)
        clock.daemon = True
        clock.start()
    with _kept(given.folder) as folder, served(given.workers) as service:
        asked = Asked(folder, service.url, given.kernels, given.settings, stopping)
        with ThreadPoolExecutor(given.at_once) as pool:
            chains = [
                pool.submit(chain, kinds, seed, asked) for seed in range(1, given.seeds + 1) for kinds in CHAINS
            ]
            try:
                runs = {name: run for each in chains for name, run in each.result().items()}
            except BaseException:
                stopping.set()
                raise
        if stopping.is_set():
            for name, run in sorted(runs.items()):
                print(f"{name}: {run.kept_step()} steps, {kernels(run)} kernels")
            raise SystemExit(f"Stopped after {given.seconds:.0f} s; the same command goes on.")
        print("All have learned; now they answer.", flush=True)
        players = {name: (run, {role: run.weights(role) for role in run.config.roles}) for name, run in runs.items()}
        for seed in range(1, given.seeds + 1):
            for kind, first in BEGINNINGS.items():
                run, began = runs[f"{kind}-{seed}"], runs[f"{first}-{seed}"]
                players[f"{kind}_start-{seed}"] = run, {role: began.start(role) for role in run.config.roles}
        with ProcessPoolExecutor(given.at_once, multiprocessing.get_context("spawn")) as processes:
            answers = {
                name: processes.submit(answered, run, folders, asked.url, given.held_out)
                for name, (run, folders) in players.items()
            }
            best = {name: each.result() for name, each in answers.items()}
    figures = _figures(best, {name: kernels(run) for name, run in runs.items()}, given.seeds)
    details = {"best": best, "steps": {name: run.kept_step() for name, run in runs.items()}}
    asked_for = {name: value for name, value in vars(given).items() if name != "folder"}
    device = torch.cuda.get_device_name() if "resources.device=cuda" in given.settings else "no GPU"
    save("turns_and_agents", figures, {}, device=device, details={**details, "asked": asked_for})


def chain(kinds: Sequence[str], seed: int, asked: Asked) -> dict[str, Trained]:
    """The runs of these kinds with this seed, one after another; or what there is of them when all are to stop."""
    runs: dict[str, Trained] = {}
    for kind in kinds:
        settings = [
            f"flow.max_turns={KERNELS}",
            "flow.single_turn_steps=0",
            *ROOM,
            *KINDS[kind],
            *asked.settings,
            f"seed={seed}",
        ]
        settings += ["tasks.held_out=8", "checkpointing.evaluate_at_start=false", f"algorithm.steps={STEPS}"]
        if runs:
            first = runs[f"{kinds[0]}-{seed}"]
            settings += [f"agents.{role}.model_name={first.start(role)}" for role in first.config.roles]
            settings += ["model.warm_start.steps=0"]
        name = f"{kind}-{seed}"
        run = runs[name] = learned(asked.folder / name, settings, asked)
        print(f"{name}: {run.kept_step()} steps, {kernels(run)} kernels", flush=True)
        if asked.stopping.is_set():
            break
    return runs


def learned(folder: Path, settings: Sequence[str], asked: Asked) -> Trained:
    """A run that is stopped, as by Ctrl-C, in the step that brings it to its kernels; or where all are to stop."""
    run = planned(folder, asked.url, settings)
    while kernels(run) < asked.kernels and not asked.stopping.is_set():
        _, process = begun(folder, asked.url, settings)
        judged: dict[int, int] = {}
        with process:
            try:
                while process.poll() is None:
                    time.sleep(0.5)
                    steps = run.steps_done()
                    judged |= {step: _judged(folder, step) for step in range(1, steps + 1) if not judged.get(step)}
                    # The step under way is finished before a run stops.
                    under_way = judged[steps] if steps else 0
                    if asked.stopping.is_set() or sum(judged.values()) + under_way >= asked.kernels:
                        break
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
        if process.returncode not in (0, 130):
            raise SystemExit(f"The run in {folder} ended with {process.returncode}.")
    return run


def kernels(run: Trained) -> int:
    """Kernels that the evaluator has judged while it learned what its newest checkpoint knows."""
    return sum(_judged(run.folder, step) for step in range(1, run.kept_step() + 1))


def _judged(folder: Path, step: int) -> int:
    path = folder / "transcripts" / f"train-{step:06d}.jsonl"
    if not path.is_file():  # removed by a run that goes on from before that step
        return 0
    return sum(
        attempt.repeats is None and attempt.verdict is not None
        for found in transcripts.read_transcripts(path)
        for attempt in found.conversation.attempts
    )


def answered(run: Trained, folders: Mapping[AgentRole, Path], url: str, count: int) -> list[float]:
    """The best reward of each held-out prompt, in at most five kernels, with the weights in these folders."""
    torch.set_num_threads(1)
    sampling = SamplingSettings()
    policies: dict[AgentName, Policy] = {
        AgentName(role): LocalPolicy(folder, sampling) for role, folder in folders.items()
    }
    return asyncio.run(_answered(run, policies, url, count))


async def _answered(run: Trained, policies: Mapping[AgentName, Policy], url: str, count: int) -> list[float]:
    settings = episode_settings(run.config)
    single = settings.flow.max_turns == 1
    # All five kernels are counted, also of conversations that began well.
    settings = replace(settings, flow=Flow(settings.flow.max_turns, 2.0, single_agent=settings.flow.single_agent))
    async with EvaluatorOracle(AsyncClient(url)) as oracle:
        faces = chosen(await oracle.problems(), run.config.tasks.problems)
        tasks = held_out_tasks(faces, count, wording=run.config.tasks.wording)
        each = KERNELS if single else 1
        played = await play_many(
            [(task, 1000 * place + number) for place, task in enumerate(tasks) for number in range(each)],
            policies,
            oracle,
            settings,
        )
    if played.faults:
        raise SystemExit(f"{played.faults} evaluations failed on our side; the comparison would be of other prompts.")
    values = [one.final_reward or 0.0 for one in played.whole]
    return [max(values[at : at + each]) for at in range(0, len(values), each)]


def _figures(best: Mapping[str, Sequence[float]], judged: Mapping[str, int], seeds: int) -> dict[str, float]:
    """Mean rewards, kernels that were learned from, and the differences with their intervals."""
    whole: dict[str, list[float]] = {}
    for name, values in best.items():
        whole.setdefault(name.rsplit("-", 1)[0], []).extend(values)
    figures = {f"{kind}_reward": fmean(values) for kind, values in whole.items()}
    figures |= {f"{kind}_kernels": fmean(judged[f"{kind}-{seed}"] for seed in range(1, seeds + 1)) for kind in KINDS}
    for one, other in PAIRS:
        differences = [a - b for a, b in zip(whole[one], whole[other], strict=True)]
        name = f"{one}_over_{other}"
        figures[name] = fmean(differences)
        figures[f"{name}_low"], figures[f"{name}_high"] = interval(differences)
    return figures


@contextlib.contextmanager
def _kept(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="assay-turns-") as scratch:
        yield Path(scratch)


if __name__ == "__main__":
    main()
