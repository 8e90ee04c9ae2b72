"""How many policy steps an hour a run makes, by where its parts are and by what generates. On NVIDIA GPUs.

    python benchmarks/training/steps_per_hour.py --models runs --folder ways --seconds 540   # the same goes on
    python benchmarks/training/steps_per_hour.py --models runs --folder ways --only one,vllm_eager   # on one GPU

One agent of `rl_variants_on_gpu.py`, from the tuned model that it left in `--models` (that of an agent alone, or the
Generator's where none was tuned), learns from rewards that are timed on a GPU:

- `one`: policy, learner and evaluator on one GPU, transformers generate;
- `beside`: the evaluator on a second GPU;
- `split`: the learner on the first, generation with the evaluator on the second, where new weights go over NCCL;
- `vllm`: as `one`, and vLLM generates; `vllm_eager`: without its CUDA graphs and torch.compile.

Ways that the machine has too few GPUs for, or no vLLM, are left out unless they are named. Each way that is to run
has an equal share of the seconds. Counted are the steps after the first, which also warms up.
"""

import argparse
import importlib.util
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks._support.graders import gpu_versions
from benchmarks._support.record import save
from benchmarks._support.served import served
from benchmarks._support.timed_rl import ALONE, AT_A_RATE, RESERVED_S, TUNED, names_in
from benchmarks._support.trained import Trained, played
from benchmarks.training import rl_variants_on_gpu as variants
from trainer.config.reading import load_config
from trainer.policies.fine_tuning import newest_epoch

NAME = "steps_per_hour"
VARIANT = "one_agent"
"""Two agents have two servers, for which the layout `split` would need a third GPU."""
STARTS = (f"{ALONE}{TUNED}", f"generator{TUNED}")
"""Folders of tunings, the first that is there: a Generator's model writes fewer kernels where it is alone, which is
the same in all ways."""
SPLIT = (
    "resources.gpus_per_node=2",
    "resources.layout=split",
    "resources.actor_workers=1",
    "resources.rollout_workers=1",
)
VLLM = ("resources.layout=shared", "rollout.name=vllm", "rollout.memory_share=0.1", "rollout.weights_buffer_mib=64")
"""A tiny model's cache of keys and values needs little, and the evaluator is on the same GPU."""


@dataclass(frozen=True)
class Placement:
    """What runs where, by the numbers of the machine's GPUs, and what generates."""

    trainer: str
    evaluator: str
    settings: tuple[str, ...] = ("resources.layout=shared",)

    def can_run(self) -> bool:
        """Whether this machine has what it takes."""
        numbers = {*self.trainer.split(","), *self.evaluator.split(",")}
        engine = "rollout.name=vllm" not in self.settings or importlib.util.find_spec("vllm") is not None
        return engine and torch.cuda.device_count() >= len(numbers)


WAYS: Mapping[str, Placement] = {
    "one": Placement("0", "0"),
    "beside": Placement("0", "1"),
    "split": Placement("0,1", "1", SPLIT),
    "vllm": Placement("0", "0", VLLM),
    "vllm_eager": Placement("0", "0", (*VLLM, "rollout.enforce_eager=true")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, required=True, help="the folder that rl_variants_on_gpu.py left")
    parser.add_argument("--only", type=ways_of, help="of the ways, with commas between")
    parser.add_argument("--folder", type=Path, default=Path("runs"), help="where the runs are kept, or come")
    parser.add_argument("--steps", type=int, default=5, help="policy steps of each run")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="of the evaluator")
    parser.add_argument("--seconds", type=float, help="stop after so long; a later call goes on")
    given = parser.parse_args()
    print(f"All begin with {start_in(given.models)}.", flush=True)
    given.folder.mkdir(parents=True, exist_ok=True)
    began_s = time.monotonic()
    chosen = given.only or tuple(way for way, placed in WAYS.items() if placed.can_run())
    ways = [way for way in chosen if run_of(way, given).kept_step() < given.steps]
    for number, way in enumerate(ways):
        left_s = None
        if given.seconds is not None:
            # Of what is left, one of as many shares as there are ways.
            left_s = (began_s + given.seconds - time.monotonic()) / (len(ways) - number) - RESERVED_S
        if left_s is None or left_s > RESERVED_S:
            _played(way, given, left_s)
        save_figures(given, quiet=True)
    save_figures(given)


def ways_of(text: str) -> tuple[str, ...]:
    """Ways by name, at least one."""
    names = names_in(text, WAYS)
    if not names:
        raise argparse.ArgumentTypeError(f"none is named; there are {', '.join(WAYS)}")
    return names


def start_in(models: Path) -> Path:
    """The tuned model that all runs begin with. Ends the benchmark where there is none."""
    for name in STARTS:
        if (found := newest_epoch(models.absolute() / name)) is not None and (found / "config.json").is_file():
            return found
    raise SystemExit(
        f"{models} has no tuned model: neither of {' and '.join(STARTS)} holds a finished epoch. Give --models the "
        "folder of rl_variants_on_gpu.py."
    )


def _played(way: str, given: argparse.Namespace, left_s: float | None) -> None:
    placed = WAYS[way]
    with served(given.workers, settings=AT_A_RATE | {"ASSAY_GPU": placed.evaluator}) as service:
        told = [*told_of(way, given), f"evaluator.url={service.url}"]
        try:
            played(told, left_s, {"CUDA_VISIBLE_DEVICES": placed.trainer})
        except SystemExit as failed:  # the other ways go on
            print(f"{way}: {failed}", flush=True)
    print(f"{way}: {run_of(way, given).steps_done()} steps", flush=True)


def save_figures(given: argparse.Namespace, *, quiet: bool = False) -> None:
    """What there is so far, of the ways too that were not to run this time."""
    runs = {way: run_of(way, given) for way in WAYS}
    lines = {way: run.lines("train") for way, run in runs.items() if run.folder.is_dir()}
    count = torch.cuda.device_count()
    device = f"{count} of {torch.cuda.get_device_name()}" if count else "no GPU"
    details = {"settings": {way: told_of(way, given) for way in WAYS}}
    save(
        NAME,
        figures_of(lines),
        {},
        {"torch": torch.__version__, **gpu_versions()},
        device=device,
        details=details,
        quiet=quiet,
    )


def told_of(way: str, given: argparse.Namespace) -> list[str]:
    """All settings of a run that `cpu-demo` has otherwise, but for where the evaluator listens."""
    return [
        *variants.settings_of(VARIANT),
        *WAYS[way].settings,
        f"name={way}",
        f"agents.generator.model_name={start_in(given.models)}",
        f"checkpointing.folder={given.folder.absolute()}/{{name}}",
        f"algorithm.steps={given.steps}",
        "sft.examples=0",
    ]


def run_of(way: str, given: argparse.Namespace) -> Trained:
    """One run, as far as it is."""
    return Trained(load_config("cpu-demo", told_of(way, given)), given.folder.absolute() / way, 0.0)


def figures_of(lines: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, float]:
    """Steps an hour, their parts, and how many times as many as on one GPU."""
    figures: dict[str, float] = {}
    for way, found in lines.items():
        counted = [line for line in found if line["step"] > 1]
        figures[f"{way}_steps"] = len(counted)
        if counted:
            figures[f"{way}_steps_per_hour"] = 3600 / median(line["step_s"] for line in counted)
            for part in ("generation_share", "reward_share", "update_share", "weights_s"):
                figures[f"{way}_{part}"] = median(line[part] for line in counted)
    one = figures.get("one_steps_per_hour")
    for way in lines:
        if one and way != "one" and f"{way}_steps_per_hour" in figures:
            figures[f"{way}_over_one"] = figures[f"{way}_steps_per_hour"] / one
    return figures


if __name__ == "__main__":
    main()
