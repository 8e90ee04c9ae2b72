"""What turns, a second agent, shared credit and the algorithm buy where kernels are really timed, on NVIDIA GPUs.

    python benchmarks/training/rl_variants_on_gpu.py --folder runs --only base,no_credit,single_turn,one_agent,grpo
    python benchmarks/training/rl_variants_on_gpu.py --folder runs --seconds 560   # stops then; the same goes on
    python benchmarks/training/rl_variants_on_gpu.py --folder runs --figures       # of what is there, on any machine
    python benchmarks/training/rl_variants_on_gpu.py --folder runs --simulator     # the same in small on a CPU
    python benchmarks/training/rl_variants_on_gpu.py --folder runs --evaluator-gpus 1,2,3 --at-once 10   # of four

All runs of two agents begin with the same two tuned models (`_support/timed_rl.py`), those of one agent with a third
one, which has learned to write first kernels and better ones from as many lessons as each of the two. Runs differ
from `base` in what their name says.
In each policy step every run writes about as many kernels, in as many optimizer steps, at one learning rate: one
agent alone does not learn faster than each of two, which `quick_optimizer` and `slow_agent` look at for themselves.
Runs are side by side, three at a time: a GPU takes turns between processes, so that more of them finish no sooner.
With NVIDIA's MPS (`nvidia-cuda-mps-control -d`, on a machine of your own) they share it: on an H200 four at a time
took 15 to 25 s a policy step each, where seven without it took 67 to 105 s.
Then each answers the same held-out prompts with at most three kernels, drawn as while it learned and greedily: in one
conversation, or, where it only ever wrote one kernel, drawn three times anew. An effect is the ratio to `base` on the
same prompt and seed, where both have a right kernel, with a 95 % bootstrap interval that draws prompts with all that
belongs to them; how often there is a right kernel is compared beside it.

With `--model` the agents begin with a pretrained model instead of a tiny one.
"""

import argparse
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks._support import timed_rl
from benchmarks._support.record import RESULTS
from benchmarks._support.timed_answers import Line, PromptSet, gain, over_naive
from benchmarks._support.timed_rl import KNOWN, MEASURED_S, RESERVED_S, OutOfTimeError, TimedTrial
from benchmarks._support.trained import ENDING_S, Trained, played
from trainer.config.schema import AgentRole
from trainer.conversation.conversation import Flow
from trainer.data.tasks import chosen, held_out_tasks
from trainer.evaluation.statistics import bootstrap_interval, geometric_interval, share_interval

NAME = "rl_variants_on_gpu"
SETTINGS = (
    "algorithm.candidates=4",
    "algorithm.micro_batch_size=8",
    "agents.generator.learning_rate={rate}",
    "agents.optimizer.learning_rate={rate}",
    "flow.credit=true",
    "flow.single_turn_steps=0",
    # One agent sees all three kernels.
    "rollout.sequence_tokens=1344",
)
"""Of `base`, beside those of all that learn from timed rewards: PPO, two agents, shared credit, three kernels."""
KERNELS = 3
"""Most of a conversation, and in the answers to a held-out prompt."""
RATE, PRETRAINED_RATE = 1e-4, 2e-5
"""Learning rates of every agent, of a tiny model and of a pretrained one."""
KERNELS_PER_STEP = 192
"""About as many are written in a policy step of every run: 16 prompts, 4 candidates, 3 kernels."""
CANDIDATES = 4
MINI_BATCHES = 4
"""Optimizer steps in a policy step."""
ONE_AGENT = ("agents.optimizer=null", "agents.generator.reward=speedup", "agents.generator.learning_rate={rate}")
"""One agent alone is paid for speed: nobody else is."""


@dataclass(frozen=True)
class Variant:
    """A kind of run: what differs from `base`."""

    settings: tuple[str, ...] = ()
    kernels: int = KERNELS
    """Of a conversation while it learns."""
    agents: tuple[AgentRole, ...] = ("generator", "optimizer")
    rate: float = 1.0
    """Of the learning rate, as a multiple."""

    @property
    def alone(self) -> bool:
        """Whether one agent writes all kernels."""
        return len(self.agents) == 1


VARIANTS: Mapping[str, Variant] = {
    "base": Variant(),
    "no_credit": Variant(("flow.credit=false",)),
    "single_turn": Variant(("flow.max_turns=2",), kernels=2),
    "one_agent": Variant(ONE_AGENT, agents=("generator",)),
    "grpo": Variant(("algorithm.name=grpo", "algorithm.advantage=auto")),
    "dapo": Variant(("algorithm.name=dapo", "algorithm.advantage=auto", "algorithm.dynamic_sampling_rounds=2")),
    # Of a critic that knows nothing yet, less would blame the first tokens of every answer.
    "critic": Variant(("algorithm.advantage=gae", "algorithm.lam=1.0", "algorithm.critic_learning_rate=1e-3")),
    "quick_optimizer": Variant(("agents.optimizer.learning_rate={double}",)),
    "slow_agent": Variant(ONE_AGENT, agents=("generator",), rate=0.5),
    "one_agent_single_turn": Variant((*ONE_AGENT, "flow.max_turns=1"), kernels=1, agents=("generator",)),
}
IN_SMALL = ("evaluator.verification=quick", "tasks.held_out=2", "sft.examples=64", "sft.epochs=2")
IN_WORDS = (
    "model.dtype=bfloat16",
    "model.attention=sdpa",
    "model.gradient_checkpointing=true",
    "algorithm.micro_batch_size=4",
    "rollout.prompt_tokens=768",
    "rollout.turn_tokens=384",
    "rollout.update_tokens=512",
    # One agent sees all three kernels.
    "rollout.sequence_tokens=2944",
    "sft.learning_rate=3e-4",
    "sft.epochs=1",
)
"""Of a pretrained model, whose tokens are shorter: of SmolLM2's the templates' kernels take at most 343, and an
Optimizer's first prompt at most 634. Its vocabulary of 49,152 is what fills a micro batch.
"""
SETS = ("drawn", "greedy")
ANSWERED_S = 20.0
"""That the answers of one run are given beside those of the others: alone they took 40 s on an H100."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    timed_rl.arguments(parser)
    parser.add_argument("--only", type=names_of, default=tuple(VARIANTS), help="of the variants, with commas between")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each variant")
    parser.add_argument("--steps", type=int, default=12, help="policy steps of each run")
    parser.add_argument("--prompts", type=int, default=100, help="held-out prompts that all answer")
    parser.add_argument(
        "--ending-s", type=float, default=ENDING_S, help="that a step under way and its checkpoint have at the end"
    )
    parser.add_argument("--at-once", type=int, default=3, help="runs side by side")
    parser.add_argument("--model", type=Path, help="folder of a pretrained model to begin with; else a tiny one")
    parser.add_argument("--name", default=NAME, help="of the results, where others are kept beside them")
    Variants(parser.parse_args()).to_the_end()


def names_of(text: str) -> tuple[str, ...]:
    """Variants by name; `base` is always among them."""
    return timed_rl.names_in(f"base,{text}", VARIANTS)


def settings_of(name: str, *, small: bool = False, pretrained: bool = False) -> list[str]:
    """All settings of a kind of run that `cpu-demo` has otherwise, but for its name and seed."""
    variant = VARIANTS[name]
    rate = (PRETRAINED_RATE if pretrained else RATE) * variant.rate
    told = [each.format(rate=rate, double=2 * rate) for each in (*SETTINGS, *variant.settings)]
    # One with a single agent has no settings for another.
    told = [each for each in told if "optimizer" in variant.agents or not each.startswith("agents.optimizer.")]
    common = [each for each in timed_rl.SETTINGS if "optimizer" in variant.agents or "agents.optimizer." not in each]
    prompts = KERNELS_PER_STEP // (CANDIDATES * variant.kernels)
    sizes = [f"algorithm.prompts_per_step={prompts}", f"algorithm.mini_batch_size={prompts // MINI_BATCHES}"]
    sizes.append(f"checkpointing.every_episodes={2 * prompts * CANDIDATES}")
    if small:
        # Two steps of the optimizer on as few conversations as can be compared with each other.
        few = max(prompts // 8, 2)
        sizes = [f"algorithm.prompts_per_step={few}", f"algorithm.mini_batch_size={few}"]
        sizes += ["algorithm.candidates=2", "algorithm.micro_batch_size=2", "checkpointing.every_episodes=1"]
    placed = IN_SMALL if small else timed_rl.ON_GPU
    return [*common, *told, *(IN_WORDS if pretrained else ()), *sizes, *placed]


class Variants(TimedTrial):
    """The tuned models, and the runs that began with them."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.how = {"small": given.simulator, "pretrained": given.model is not None}
        super().__init__(given, settings_of("base", **self.how))
        self.runs = [(name, seed) for seed in range(1, given.seeds + 1) for name in given.only]

    def run(self) -> None:
        """Raises OutOfTimeError."""
        data = self.graded()
        _, tuned = self.tuned(data, model=self.given.model)
        begun: dict[str, Mapping[AgentRole, Path]] = dict.fromkeys(self.given.only, tuned)
        systems = {"tuned": self._asks("base", tuned)}
        if by_one := [name for name in self.given.only if VARIANTS[name].alone]:
            # A Generator that was only taught to begin has no second kernel to compare with the Optimizer's.
            alone: dict[AgentRole, Path] = {"generator": self.tuned_alone(data, model=self.given.model)}
            begun |= dict.fromkeys(by_one, alone)
            systems["tuned_one_agent"] = self._asks("one_agent", alone)
        try:
            self._learned(begun)
        except OutOfTimeError as late:
            if not self.given.last:
                raise
            print(f"What has been learned is measured: {late}", flush=True)
        for name, seed in self.runs:
            run = self._run_of(name, seed)
            if step := run.kept_step():
                weights: dict[AgentRole, Path] = {role: run.weights(role) for role in VARIANTS[name].agents}
                systems[f"{name}-{seed}_{step}"] = self._asks(name, weights)
        self.measured_together(systems, data, self.given.at_once)

    def _run_of(self, name: str, seed: int) -> Trained:
        """One run, as far as it is."""
        return Trained(self.config_of(*self._told(name, seed)), self.folder / f"{name}-{seed}", 0.0)

    def _told(self, name: str, seed: int) -> list[str]:
        return [*settings_of(name, **self.how), *self.given.settings, f"name={name}-{seed}", f"seed={seed}"]

    def _learned(self, begun: Mapping[str, Mapping[AgentRole, Path]]) -> None:
        """All policy steps of all runs, side by side; `begun`: what each kind of run begins with, by its name. Raises
        OutOfTimeError.
        """
        # None is begun with less than MEASURED_S.
        for_answers_s = max(ANSWERED_S * len(self.runs), MEASURED_S) if self.given.last else 0.0

        def learned(name: str, seed: int) -> bool:
            began = [f"agents.{role}.model_name={begun[name][role]}" for role in VARIANTS[name].agents]
            told = [*self._told(name, seed), *began, f"checkpointing.folder={self.folder}/{{name}}"]
            told += [f"evaluator.url={self.url}", f"algorithm.steps={self.given.steps}", "sft.examples=0"]
            if self._run_of(name, seed).kept_step() >= self.given.steps:
                return True
            ending_s: float = self.given.ending_s
            time_s = self.left_s() - RESERVED_S - (ending_s - ENDING_S) - for_answers_s
            if time_s < 2 * RESERVED_S:
                return False
            try:
                done = played(told, None if self.given.seconds is None else time_s, ending_s=ending_s)
            except SystemExit as failed:  # the others go on, and are measured
                print(f"{name}-{seed}: {failed}", flush=True)
                done = False
            print(
                f"{name}-{seed}: {self._run_of(name, seed).kept_step()} steps, {self.left_s():.0f} s left", flush=True
            )
            return done

        with ThreadPoolExecutor(self.given.at_once) as pool:
            done = [pool.submit(learned, name, seed) for name, seed in self.runs]
        if left := sum(not one.result() for one in done):
            raise OutOfTimeError(f"{left} of {len(self.runs)} runs have steps that are to be done yet.")

    def _asks(
        self, variant: str, agents: Mapping[AgentRole, Path]
    ) -> tuple[dict[AgentRole, Path], tuple[PromptSet, ...], Flow]:
        """What these models are asked: held-out prompts, for as many kernels as all write."""
        of, prompts = (
            VARIANTS[variant],
            held_out_tasks(chosen(self.faces, KNOWN), self.given.prompts, wording="brief"),
        )
        anew = KERNELS if of.kernels == 1 else 1
        sets = (PromptSet(SETS[0], prompts, 1.0, times=anew), PromptSet(SETS[1], prompts, 0.0))
        flow = Flow(1 if of.kernels == 1 else KERNELS, stop_at=1000.0, single_agent=of.alone)
        return {role: agents[role] for role in of.agents}, sets, flow

    def answers(self) -> dict[str, dict[int, list[Line]]]:
        """The newest of each system, by seed; those of the models that all began with have the seed 0."""
        found: dict[str, dict[int, list[Line]]] = {}
        for system in ("tuned", "tuned_one_agent"):
            if (path := self.answers_of(system)).is_file():
                found[system] = {0: json.loads(path.read_text())}
        for name, seed in self.runs:
            paths = self.folder.glob(f"measured_{name}-{seed}_*.json")
            newest = max(paths, key=lambda path: int(path.stem.rpartition("_")[2]), default=None)
            if newest is not None:
                found.setdefault(name, {})[seed] = json.loads(newest.read_text())
        return found

    def lines(self, name: str, seed: int) -> list[Mapping[str, Any]]:
        """Measures of the policy steps of a run."""
        run = self._run_of(name, seed)
        return run.lines("train") if run.folder.is_dir() else []

    def keep(self) -> None:
        """All answers and measures, without weights: what figures are made of."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        with tarfile.open(RESULTS / f"{self.given.name}.tar.gz", "w:gz") as tar:
            for path in sorted((*self.folder.glob("measured_*.json"), *self.folder.glob("*-*/metrics.jsonl"))):
                tar.add(path, path.relative_to(self.folder))

    def save(self, *, quiet: bool = True) -> None:
        """Figures and picture of what there is."""
        answers = self.answers()
        figures = dict(figures_of_systems(answers))
        lines = {f"{name}-{seed}": self.lines(name, seed) for name, seed in self.runs}
        figures |= {f"{run}_kernels": timed_rl.kernels_written(each) for run, each in lines.items() if each}
        figures |= {f"{run}_steps": len(each) for run, each in lines.items() if each}
        if any(f"{name}_over_base_{SETS[0]}_speed" in figures for name in VARIANTS):
            RESULTS.mkdir(parents=True, exist_ok=True)
            from benchmarks._support.effects import draw_effects

            draw_effects(figures, [name for name in VARIANTS if name != "base"], RESULTS / f"{self.given.name}.svg")
        details = {"settings": {name: settings_of(name, **self.how) for name in self.given.only}}
        self.record(self.given.name, figures, {}, details, quiet=quiet)


def figures_of_systems(answers: Mapping[str, Mapping[int, Sequence[Line]]]) -> Iterator[tuple[str, float]]:
    """Rates and speeds of each system, and what it has over `base` and over the models that it began with."""
    found = {system: {one: _by_prompt(by_seed, one) for one in SETS} for system, by_seed in answers.items()}
    for system, sets in found.items():
        variant = VARIANTS.get(system)
        start = "tuned_one_agent" if variant and variant.alone else "tuned"
        for name, prompts in sets.items():
            yield from _rates(f"{system}_{name}", prompts)
            for other in ("base", start):
                if other != system and other in found and variant:
                    yield from _effects(f"{system}_over_{other}_{name}", prompts, found[other][name])
        yield from _effects_of_runs(system, by_seed=answers[system], base=answers.get("base", {}))


def _effects_of_runs(
    system: str, by_seed: Mapping[int, Sequence[Line]], base: Mapping[int, Sequence[Line]]
) -> Iterator[tuple[str, float]]:
    """Of several runs of a kind: each alone against `base` of its seed, and `base` against its own first seed, which
    is how far two runs are apart that nothing but their seed tells apart.
    """
    for seed, lines in by_seed.items():
        to = min(base, default=None) if system == "base" else seed
        if len(by_seed) < 2 or to not in base or (system, seed) == ("base", to):
            continue
        word = f"{system}-{seed}_over_base-{to}"
        for one in SETS:
            yield from _effects(f"{word}_{one}", _by_prompt({0: lines}, one), _by_prompt({0: base[to]}, one))


Prompts = Mapping[str, Mapping[int, Sequence[Line]]]
"""Conversations by prompt and seed."""


def _by_prompt(by_seed: Mapping[int, Sequence[Line]], asked: str) -> Prompts:
    found: dict[str, dict[int, list[Line]]] = {}
    for seed, lines in by_seed.items():
        for line in lines:
            if line["asked"] == asked and "attempts" in line:
                found.setdefault(line["task"], {}).setdefault(seed, []).append(line)
    return found


def _rates(word: str, prompts: Prompts) -> Iterator[tuple[str, float]]:
    """Of one system: answers that compile, prompts with a right kernel, and speeds, by prompt."""
    yield f"{word}_prompts", len(prompts)
    if not prompts:
        return
    lines = [[line for each in seeds.values() for line in each] for seeds in prompts.values()]
    compiles = [[bool(one["compiled"]) for line in each for one in line["attempts"]] for each in lines]
    right = [[_right(each) for each in seeds.values()] for seeds in prompts.values()]
    for name, found in (("compile_rate", compiles), ("right", right)):
        sums, counts = [float(sum(each)) for each in found], [float(len(each)) for each in found]
        yield f"{word}_{name}", sum(sums) / sum(counts)
        low, high = share_interval(sums, counts)
        yield from ((f"{word}_{name}_low", low), (f"{word}_{name}_high", high))
    for name, measure in (("over_naive", _best), ("gain", _gain)):
        values = [
            [value for each in seeds.values() if (value := measure(each)) is not None] for seeds in prompts.values()
        ]
        yield from _ratio(f"{word}_{name}", values)


def _effects(word: str, prompts: Prompts, others: Prompts) -> Iterator[tuple[str, float]]:
    """Of one system against another, on the same prompts and seeds."""
    pairs = [
        [(each, other) for seed, each in seeds.items() if (other := _of_seed(others.get(task, {}), seed)) is not None]
        for task, seeds in prompts.items()
    ]
    for name, measure in (("speed", _best), ("gain", _gain)):
        both = [[(measure(one), measure(other)) for one, other in each] for each in pairs]
        yield from _ratio(f"{word}_{name}", [[a / b for a, b in each if a and b] for each in both])
    differences = [[float(_right(one)) - _right(other) for one, other in each] for each in pairs if each]
    if differences:
        sums, counts = [sum(each) for each in differences], [float(len(each)) for each in differences]
        yield f"{word}_right", sum(sums) / sum(counts)
        if (interval := bootstrap_interval(sums, counts)) is not None:
            yield from ((f"{word}_right_low", interval[0]), (f"{word}_right_high", interval[1]))


def _of_seed(found: Mapping[int, Sequence[Line]], seed: int) -> Sequence[Line] | None:
    """The same seed's, or those of the models that all seeds began with."""
    return found.get(seed, found.get(0))


def _right(lines: Sequence[Line]) -> bool:
    return any(one["passed"] for line in lines for one in line["attempts"])


def _best(lines: Sequence[Line]) -> float | None:
    return max((value for line in lines if (value := over_naive(line)) is not None), default=None)


def _gain(lines: Sequence[Line]) -> float | None:
    return next((value for line in lines if (value := gain(line)) is not None), None)


def _ratio(word: str, values: Sequence[Sequence[float]]) -> Iterator[tuple[str, float]]:
    """The geometric mean of ratios by prompt, with its interval; only a count of none."""
    yield f"{word}_count", sum(map(len, values))
    if any(values):
        middle, interval = geometric_interval([each for each in values if each])
        yield word, middle
        if interval is not None:
            yield from ((f"{word}_low", interval[0]), (f"{word}_high", interval[1]))


if __name__ == "__main__":
    main()
