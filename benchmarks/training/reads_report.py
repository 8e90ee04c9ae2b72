"""Does a tuned model read the Tester's report, or does it fix kernels from the task and the kernel alone?

    python benchmarks/training/reads_report.py                                    # a tiny model from nothing
    python benchmarks/training/reads_report.py --prompts 8 sft.epochs=1           # a look
    python benchmarks/training/reads_report.py --model smollm2 --device cuda --seeds 1,2 --control \
        sft.learning_rate=3e-4 sft.epochs=3 sft.batch_size=8 rollout.turn_tokens=512
    python benchmarks/training/reads_report.py --folder asked --answers   # no verdicts yet; without it, from there

The examples are those of `examples/training` in which a wrong kernel is fixed: a task, the kernel and the report
about it, answered by a right one. Three of ten kernels, by the hash of their texts, are not learned from: they are
what is asked. With `--control` a second model learns the same examples without a word of the report (`never`).

Asked are the same prompts with the true report, with none, and with the report about another wrong kernel, which is
drawn by the seed. Measured are the mean nats a token of the taught answer, and whether the likeliest answer is right
(the evaluator judges each different answer once). Differences are by prompt, with all seeds' answers to it: 95 %
bootstrap intervals, and for right answers of each seed McNemar's exact test. Another seed is another model, which
learns the same examples in another order; what is asked is the same.
"""

import argparse
import asyncio
import json
import os
import random
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow.parquet as pq
import torch

from benchmarks._support.record import save
from benchmarks._support.served import served
from common.client import AsyncClient
from common.contract import Status
from common.file_replacement import replace_file
from trainer.config.reading import load_config
from trainer.config.schema import TrainingConfig
from trainer.conversation.conversation import AgentName, Message
from trainer.conversation.episode import episode_settings
from trainer.conversation.extraction import canonical_source, extract
from trainer.data.operations import OPERATIONS
from trainer.data.tasks import is_held_out
from trainer.errors import OracleError
from trainer.evaluation.statistics import bootstrap_interval, mcnemar, share_interval
from trainer.evaluator.oracle import EvaluatorOracle
from trainer.policies import models
from trainer.policies.fine_tuning import fine_tune
from trainer.policies.local_policy import LocalPolicy, SamplingSettings
from trainer.policies.sft import Lesson, answer_loss, tokens_of

EXAMPLES = Path(__file__).parents[2] / "examples" / "training" / "optimizer-train.parquet"
HELD_OUT_SHARE = 0.3
SETTINGS = (
    "sft.method=full",
    "sft.learning_rate=3e-3",
    "sft.epochs=10",
    "sft.batch_size=16",
    "sft.gradient_accumulation_steps=1",
    "evaluator.verification=quick",
)
REPORTS = ("true", "none", "another")
"""What stands in the prompt of the model that learned with reports."""
_PART = re.compile(r"Report:\n(?P<report>.*?)\n(?=Target:)", re.DOTALL)


@dataclass(frozen=True)
class Asked:
    """One example: what the Optimizer is asked about a kernel, and a better one."""

    messages: tuple[Message, ...]
    problem: str
    old: str
    """The kernel to fix, without comments and layout."""

    @property
    def report(self) -> str:
        """The Tester's, of that kernel."""
        found = _PART.search(self.messages[1].text)
        return found["report"] if found else ""

    def told(self, report: str | None) -> "Asked":
        """The same with another report, or with none."""
        put = f"Report:\n{report}\n" if report is not None else ""
        user = replace(self.messages[1], text=_PART.sub(lambda _: put, self.messages[1].text, count=1))
        return replace(self, messages=(self.messages[0], user, *self.messages[2:]))

    @property
    def lesson(self) -> Lesson:
        """All of it, to learn from."""
        return Lesson(self.messages)


@dataclass(frozen=True)
class Answered:
    """What the models of one seed did with all prompts, by the kind of report in them."""

    examples: int
    device: str
    torch: str
    nats: dict[str, list[float]]
    """Mean nats a token of each taught answer."""
    texts: dict[str, list[str]]
    """Likeliest answers to the first prompts."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="folder of a pretrained model; else a tiny one from nothing")
    parser.add_argument("--prompts", type=int, default=60, help="whose answers are judged")
    parser.add_argument("--control", action="store_true", help="a model that never saw a report, too")
    parser.add_argument("--examples", type=int, help="learn from no more than so many")
    parser.add_argument("--asked", type=int, help="ask about no more than so many kernels")
    parser.add_argument("--seeds", type=_seeds, default=(0,), help="of the models, with commas between")
    parser.add_argument("--threads", type=int, default=1, help="of the processor")
    parser.add_argument("--device", default="cpu", help="where the models are: cpu or cuda")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="of the service")
    parser.add_argument(
        "--folder", type=Path, help="keep models and answers here, and go on with those that are there"
    )
    parser.add_argument("--answers", action="store_true", help="stop before the evaluator judges them")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="other settings of the tuning")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    config = load_config("quick-test", [*SETTINGS, *given.settings])
    with tempfile.TemporaryDirectory(prefix="assay-reads-") as scratch:
        folder = given.folder or Path(scratch)
        found = [answered(given, config, seed, folder / f"seed-{seed}") for seed in given.seeds]
    if given.answers:
        return
    asked = examples(config.seed)[1][: given.asked]
    judging = asked[: given.prompts]
    with served(given.workers) as service:
        verdicts = asyncio.run(judged(service.url, judging, [one.texts for one in found], config))
    figures = {"examples": float(found[0].examples), "asked": float(len(asked)), "seeds": float(len(found))}
    figures |= differences([one.nats for one in found])
    figures |= right_answers([rights(judging, one.texts, verdicts) for one in found], given.seeds)
    for kind in found[0].texts:
        same = [a == b for one in found for a, b in zip(one.texts["true"], one.texts[kind], strict=True)]
        figures |= {} if kind == "true" else {f"same_answer_{kind}": fmean(same)}
    details = {
        "settings": [*SETTINGS, *given.settings],
        "nats": [one.nats for one in found],
        "answers": [one.texts for one in found],
    }
    name = "reads_report" if given.model is None else "reads_report_pretrained"
    save(name, figures, {}, {"torch": found[0].torch}, device=found[0].device, details=details)


def _seeds(text: str) -> tuple[int, ...]:
    return tuple(int(one) for one in text.split(","))


def answered(given: argparse.Namespace, config: TrainingConfig, seed: int, folder: Path) -> Answered:
    """What the models of one seed do, which are tuned where the folder has no answers of theirs yet."""
    kept = folder / "answers.json"
    if kept.is_file():
        return Answered(**json.loads(kept.read_text()))
    device: str = given.device
    learned, asked = examples(config.seed)
    learned, asked = learned[: given.examples], asked[: given.asked]
    started = given.model or _tiny(folder / "start", learned, seed)
    with_reports = tuned(started, folder / "with", [one.lesson for one in learned], config, seed, device)
    prompts = {kind: (with_reports, told) for kind, told in variants(asked, config.seed).items()}
    if given.control:
        lessons = [one.told(None).lesson for one in learned]
        without = tuned(started, folder / "without", lessons, config, seed, device)
        prompts["never"] = (without, [one.told(None) for one in asked])
    nats = {kind: losses(model, told, device) for kind, (model, told) in prompts.items()}
    print({kind: round(fmean(values), 4) for kind, values in nats.items()}, flush=True)
    texts = {
        kind: asyncio.run(answers(model, told[: given.prompts], config, device))
        for kind, (model, told) in prompts.items()
    }
    on = torch.cuda.get_device_name() if device == "cuda" else "no GPU"
    found = Answered(len(learned), on, torch.__version__, nats, texts)
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(kept, json.dumps(asdict(found)))
    return found


def examples(seed: int) -> tuple[list[Asked], list[Asked]]:
    """To learn from, and to ask."""
    found = []
    for row in pq.read_table(EXAMPLES).to_pylist():
        messages = tuple(Message(one["role"], one["content"]) for one in row["messages"])
        block = re.search(r"```cuda\n.*?\n```", messages[1].text, re.DOTALL)
        # Where an Optimizer is to fix a kernel there is one in its prompt; a report may have had no room.
        if row["old_status"] != Status.PASSED and block is not None and _PART.search(messages[1].text):
            found.append(Asked(messages, row["problem"], canonical_source(str(extract(block[0]).source))))
    random.Random(seed).shuffle(found)
    held_out = {one.old for one in found if is_held_out(blake2b(one.old.encode()).hexdigest(), HELD_OUT_SHARE)}
    # Each kernel is asked about once.
    asked = list({one.old: one for one in found if one.old in held_out}.values())
    return [one for one in found if one.old not in held_out], asked


def variants(asked: Sequence[Asked], seed: int) -> dict[str, list[Asked]]:
    """The same prompts with each kind of report."""
    rng = random.Random(seed)

    def others(one: Asked) -> str:
        reports = [two.report for two in asked if two.report != one.report]
        return rng.choice(reports)

    return {
        "true": list(asked),
        "none": [one.told(None) for one in asked],
        "another": [one.told(others(one)) for one in asked],
    }


def _tiny(folder: Path, learned: Sequence[Asked], seed: int) -> Path:
    if not (folder / "config.json").is_file():
        models.make_tiny(folder, [message.text for one in learned for message in one.messages], seed=seed)
    return folder


def tuned(start: Path, into: Path, lessons: Sequence[Lesson], config: TrainingConfig, seed: int, device: str) -> Path:
    """The model after its epochs."""

    def told(step: int, of: int, loss: float) -> None:
        if step == of or step % max(of // 10, 1) == 0:
            print(f"{into.parent.name}, {into.name}: step {step} of {of}, loss {loss:.3f}", flush=True)

    section = config.sft
    made = fine_tune(start, into, lessons, section, epochs=section.epochs, seed=seed, device=device, told=told)
    return made.folder


@torch.inference_mode()
def losses(folder: Path, asked: Sequence[Asked], device: str) -> list[float]:
    """Mean nats a token of each taught answer."""
    loaded, tokenizer = models.load_model(folder)
    model: Any = loaded.to(device).eval()
    return [float(answer_loss(model, [tokens_of(tokenizer, one.lesson)])) for one in asked]


async def answers(folder: Path, asked: Sequence[Asked], config: TrainingConfig, device: str) -> list[str]:
    """The likeliest answer to each prompt."""
    policy = LocalPolicy(folder, SamplingSettings(0.0, 16 if device == "cpu" else 64), device=device)
    most = config.rollout.turn_tokens
    replies = await asyncio.gather(*(policy.respond(one.messages[:-1], seed=0, max_tokens=most) for one in asked))
    return [one.text for one in replies]


async def judged(
    url: str, asked: Sequence[Asked], texts: Sequence[Mapping[str, Sequence[str]]], config: TrainingConfig
) -> dict[tuple[str, str], Status | None]:
    """The status of each different kernel; None where the evaluator failed itself."""
    settings = episode_settings(config)
    wanted = sorted(
        {
            (one.problem, source)
            for by_kind in texts
            for each in by_kind.values()
            for one, text in zip(asked, each, strict=True)
            if (source := extract(text).source) is not None
        }
    )
    print(f"{len(wanted)} different kernels to judge", flush=True)
    async with EvaluatorOracle(AsyncClient(url)) as oracle:

        async def one(problem: str, source: str) -> Status | None:
            reference = OPERATIONS[problem].reference if problem in OPERATIONS else None
            rewards = settings.reward_of(AgentName.OPTIMIZER)
            try:
                return (
                    await oracle.evaluate(settings.submission(problem, source, rewards, reference))
                ).verdict.status
            except OracleError as error:
                print(f"{problem}: {error}", flush=True)
                return None

        return dict(zip(wanted, await asyncio.gather(*(one(*each) for each in wanted)), strict=True))


def differences(nats: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, float]:
    """Mean nats over seeds, and how many more they are than with the true report."""
    figures: dict[str, float] = {}
    means = {kind: [fmean(each) for each in zip(*(one[kind] for one in nats), strict=True)] for kind in nats[0]}
    for kind, values in means.items():
        figures[f"nats_{kind}"] = fmean(values)
        if kind == "true":
            continue
        more = [value - true for value, true in zip(values, means["true"], strict=True)]
        figures |= _with_interval(f"nats_more_{kind}", fmean(more), bootstrap_interval(more))
    return figures


Rights = Mapping[str, Sequence[bool | None]]
"""Whether each answer is right, by the kind of report; None where no verdict says so."""


def rights(
    asked: Sequence[Asked], texts: Mapping[str, Sequence[str]], verdicts: Mapping[tuple[str, str], Status | None]
) -> Rights:
    """Of one seed's answers."""

    def right(one: Asked, text: str) -> bool | None:
        source = extract(text).source
        if source is None:
            return False
        status = verdicts[one.problem, source]
        return None if status is None or not status.carries_reward else status is Status.PASSED

    return {kind: [right(one, text) for one, text in zip(asked, each, strict=True)] for kind, each in texts.items()}


def right_answers(found: Sequence[Rights], seeds: Sequence[int]) -> dict[str, float]:
    """Shares of right answers, and what they are less with another report than the true one."""
    places = range(len(found[0]["true"]))
    whole = [place for place in places if all(each[place] is not None for one in found for each in one.values())]
    figures = {"judged": float(len(whole)), "left_out": float(len(places) - len(whole))}
    counts = [float(len(found))] * len(whole)
    sums = {kind: [float(sum(bool(one[kind][place]) for one in found)) for place in whole] for kind in found[0]}
    for kind, values in sums.items():
        figures |= _with_interval(f"right_{kind}", sum(values) / sum(counts), share_interval(values, counts))
        if kind == "true":
            continue
        less = [true - value for true, value in zip(sums["true"], values, strict=True)]
        lost = sum(less) / sum(counts)
        figures |= _with_interval(f"right_less_{kind}", lost, bootstrap_interval(less, counts))
        for seed, one in zip(seeds, found, strict=True):
            word = f"{kind}_seed_{seed}" if len(found) > 1 else kind
            gained = sum(bool(one["true"][place]) and not one[kind][place] for place in whole)
            missed = sum(bool(one[kind][place]) and not one["true"][place] for place in whole)
            figures[f"only_with_true_not_{word}"], figures[f"only_with_{word}"] = float(gained), float(missed)
            figures[f"p_true_against_{word}"] = mcnemar(gained, missed)
    if len(found) > 1:
        for seed, one in zip(seeds, found, strict=True):
            for kind, each in one.items():
                figures[f"right_{kind}_seed_{seed}"] = fmean(bool(each[place]) for place in whole)
    return figures


def _with_interval(name: str, value: float, interval: tuple[float, float] | None) -> dict[str, float]:
    ends = {} if interval is None else {f"{name}_low": interval[0], f"{name}_high": interval[1]}
    return {name: value, **ends}


if __name__ == "__main__":
    main()
