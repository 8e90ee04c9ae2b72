"""Answers to held-out prompts, judged and timed where the evaluator runs, and what is said of them: for the
benchmarks in which agents learn from timed rewards.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Any

from trainer.config.schema import AgentRole
from trainer.conversation.conversation import AgentName, Attempt, Flow, Message, Response
from trainer.conversation.episode import EpisodeSettings, Oracle, Policy, play_many
from trainer.conversation.extraction import wrapped
from trainer.data import corpus
from trainer.data.graded import GradedData, GradedKernel, faster_by
from trainer.data.tasks import Task
from trainer.evaluation.statistics import geometric_interval, median_interval, wilson
from trainer.policies.local_policy import LocalPolicy, SamplingSettings
from trainer.reporting.metrics import compiled

CONCURRENCY = 256
"""Conversations under way while prompts are answered: as many as keep a GPU and its evaluator busy."""
MIN_GAIN = 1.3
"""A kernel that the Optimizer is given to improve: another one is so many times as fast."""
LADDERS = ("row_sum", "softmax", "transpose", "histogram", "matvec")
"""Problems of which a template is at least twice as fast as the plainest one."""
FASTER = 1.05
"""A kernel counts as faster than another from so many times its speed on: less may be gone in a second timing."""

Line = Mapping[str, Any]
"""One conversation, as it is kept: `asked`, `task`, `problem` and `attempts`; or `asked` and `left_out`."""


@dataclass(frozen=True)
class PromptSet:
    """One set of held-out prompts, and how they are asked."""

    name: str
    tasks: tuple[Task, ...]
    temperature: float
    given: bool = False
    """Whether the first kernel is a slow one of the data set, not the Generator's."""
    times: int = 1
    """Conversations for each prompt."""


@dataclass(frozen=True)
class Giving:
    """A Generator that gives the kernel that was chosen for a prompt."""

    kernels: Mapping[str, str]
    """Sources by the task's text."""

    async def respond(self, messages: tuple[Message, ...], *, seed: int, max_tokens: int) -> Response:
        return Response(wrapped(self.kernels[messages[-1].text]))


async def answers(
    sets: Sequence[PromptSet],
    agents: Mapping[AgentRole, Path],
    data: GradedData,
    oracle: Oracle,
    episodes: EpisodeSettings,
    flow: Flow,
    *,
    cuda: bool,
) -> list[dict[str, Any]]:
    """A line for each conversation: what the models in these folders answer to all sets, played as `flow` says."""
    naive = {kernel.problem: kernel for kernel in data.kernels if _is_naive(kernel)}
    lines: list[dict[str, Any]] = []
    for asked in sets:
        sampling = SamplingSettings(asked.temperature, CONCURRENCY if cuda else 16)
        device = "cuda" if cuda else "cpu"
        policies: dict[AgentName, Policy] = {
            AgentName(role): LocalPolicy(folder, sampling, device=device) for role, folder in agents.items()
        }
        tasks: Sequence[Task] = asked.tasks
        if asked.given:
            slow = dict(_slow(data, tasks))
            policies[AgentName.GENERATOR] = Giving(slow)
            tasks = [task for task in tasks if task.text in slow]
        played = await play_many(
            [(task, asked.times * number + n) for number, task in enumerate(tasks) for n in range(asked.times)],
            policies,
            oracle,
            replace(episodes, flow=flow),
            concurrency=CONCURRENCY,
        )
        print(f"  {asked.name}: {len(played.whole)} conversations, {played.faults} faults", flush=True)
        for one in played.whole:
            line = {"asked": asked.name, "task": one.task.id, "problem": one.task.problem}
            reference = naive.get(one.task.problem)
            lines.append(line | {"attempts": [_kept(each, reference) for each in one.attempts]})
        lines += [{"asked": asked.name, "left_out": True}] * played.faults
    return lines


def _is_naive(kernel: GradedKernel) -> bool:
    styles = corpus.styles(kernel.problem)
    return kernel.passed and bool(styles) and kernel.provenance.place == styles[0].name


def _slow(data: GradedData, tasks: Sequence[Task]) -> Iterator[tuple[str, str]]:
    """A right kernel for each task, drawn by it, than which another one is `MIN_GAIN` times as fast."""
    for task in tasks:
        right = [one for one in data.kernels if one.problem == task.problem and one.passed]
        able = [one for one in right if any((faster_by(b.verdict, one.verdict) or 0) >= MIN_GAIN for b in right)]
        if able:
            yield task.text, Random(task.id).choice(able).source


def _kept(attempt: Attempt, naive: GradedKernel | None) -> dict[str, Any]:
    """What is kept of an attempt."""
    verdict = attempt.verdict
    return {
        "status": verdict.status if verdict else None,
        "compiled": compiled(attempt),
        "passed": attempt.passed,
        "repeats": attempt.repeats,
        "speedup": attempt.speedup,
        "over_naive": faster_by(verdict, naive.verdict) if verdict and naive else None,
    }


def over_naive(line: Line) -> float | None:
    """How many times as fast as the naive kernel the best right one of a conversation is; None without one."""
    return max((one["over_naive"] for one in line["attempts"] if one["over_naive"]), default=None)


def gain(line: Line) -> float | None:
    """How many times as fast the second kernel of a conversation is as the first; None where one has no speed."""
    first, *rest = line["attempts"]
    return rest[0]["speedup"] / first["speedup"] if rest and rest[0]["speedup"] and first["speedup"] else None


def figures_of(system: str, lines: Sequence[Line]) -> Iterator[tuple[str, float]]:
    """Rates and speeds of one system on each set of prompts."""
    for name in dict.fromkeys(line["asked"] for line in lines):
        own = [line for line in lines if line["asked"] == name and "attempts" in line]
        word = f"{system}_{name}"
        yield f"{word}_prompts", len(own)
        yield f"{word}_left_out", sum(line["asked"] == name and "left_out" in line for line in lines)
        if not own:
            continue
        last = [line["attempts"][-1] for line in own]
        if not name.endswith("_given"):
            first = [line["attempts"][0] for line in own]
            yield from share(f"{word}_compile_rate", [one["compiled"] for one in first])
            yield from share(f"{word}_pass_rate", [one["passed"] for one in first])
            yield from share(f"{word}_any_pass_rate", [any(o["passed"] for o in line["attempts"]) for line in own])
        second = [line["attempts"][1] if len(line["attempts"]) > 1 else None for line in own]
        yield from share(f"{word}_optimizer_compile_rate", [bool(one and one["compiled"]) for one in second])
        yield from share(f"{word}_optimizer_pass_rate", [bool(one and one["passed"]) for one in second])
        yield f"{word}_optimizer_repeat_rate", fmean(one["repeats"] is not None for one in last)
        gains = [found for line in own if (found := gain(line)) is not None]
        yield from speed(f"{word}_gain", gains)
        yield from share(f"{word}_faster_rate", [found >= FASTER for found in gains])
        best = [(line["problem"], found) for line in own if (found := over_naive(line)) is not None]
        yield from speed(f"{word}_over_naive", [value for _, value in best])
        yield from speed(f"{word}_over_naive_ladder", [value for problem, value in best if problem in LADDERS])


def share(name: str, found: Sequence[bool]) -> Iterator[tuple[str, float]]:
    """A share with its 95 % interval; nothing of nothing."""
    if found:
        low, high = wilson(sum(found), len(found))
        yield from ((name, fmean(found)), (f"{name}_low", low), (f"{name}_high", high))


def speed(name: str, ratios: Sequence[float]) -> Iterator[tuple[str, float]]:
    """Geometric mean and median of independent ratios, with 95 % intervals."""
    yield f"{name}_count", len(ratios)
    if not ratios:
        return
    middle, bounds = geometric_interval([[ratio] for ratio in ratios])
    yield name, middle
    yield f"{name}_median", median(ratios)
    for word, interval in ((name, bounds), (f"{name}_median", median_interval(ratios))):
        if interval:
            yield from ((f"{word}_low", interval[0]), (f"{word}_high", interval[1]))
