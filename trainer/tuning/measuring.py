"""What tuning has bought: held-out prompts answered by an agent, and each answer judged by the evaluator.

A Generator is asked for a kernel (compile rate, pass rate, speedup). An Optimizer is given a kernel of the data set
and its report, and counts where its answer is better; an agent that writes all kernels is asked both, and the kernel
that it is given is its own first answer (requirements document: "90%+ compilation", "80%+ functional
correctness", "70%+ performance improvement"). A Tester is given a kernel that it has not learned from and what the
grader found, and counts where it names what is wrong with it; nobody has to judge that.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from trainer.conversation.conversation import AgentName, Conversation, Flow, Message, Response
from trainer.conversation.episode import EpisodeSettings, Oracle, Policy, play_many
from trainer.conversation.extraction import wrapped
from trainer.data.graded import GradedData, GradedKernel
from trainer.data.tasks import Task
from trainer.errors import ContextFullError, OracleError
from trainer.evaluation.statistics import median_interval, wilson
from trainer.tuning.diagnosis import Diagnosis
from trainer.tuning.examples import is_better

GOALS: Final[Mapping[str, float]] = {"compile_rate": 0.9, "pass_rate": 0.8, "improved_rate": 0.7}
"""What the requirements document asks of tuned agents: the first two of a Generator, the last of an Optimizer."""
Ended = Callable[[int, Conversation | OracleError], None]
"""Gets each conversation as it ends, with the number of its prompt."""


@dataclass(frozen=True)
class Answered:
    """What an agent's answers to held-out prompts were worth."""

    prompts: int
    left_out: int
    """Prompts whose answer has no verdict, by the evaluator's own fault; in none of the others."""
    compile_rate: float | None
    compile_interval: tuple[float, float] | None
    """Of 95 %, as those of the other rates (Wilson 1927)."""
    pass_rate: float | None
    pass_interval: tuple[float, float] | None
    speedup: float | None
    """Median over the right kernels, over the naive kernel as estimated or, on a GPU, over the baseline."""
    speedup_interval: tuple[float, float] | None
    """Of 95 % at least, as of `median_interval`; None where too few are right."""
    improved_rate: float | None = None
    """Share of the given kernels that an Optimizer, or an agent alone, made better; None for the others."""
    improved_interval: tuple[float, float] | None = None
    named_rate: float | None = None
    """Share of the given kernels whose issue a Tester named; None for the others."""
    named_interval: tuple[float, float] | None = None


async def measure_generator(
    policy: Policy,
    tasks: Sequence[Task],
    oracle: Oracle,
    settings: EpisodeSettings,
    *,
    seed: int,
    concurrency: int = 64,
    done: Ended | None = None,
) -> Answered:
    """One answer to each task, `concurrency` at a time. Raises OracleLostError."""
    alone = replace(settings, flow=Flow(1, single_agent=True))
    asked = [(task, seed + number) for number, task in enumerate(tasks)]
    policies = {AgentName.GENERATOR: policy}
    played = await play_many(asked, policies, oracle, alone, concurrency=concurrency, done=done)
    return _answered(played.whole, AgentName.GENERATOR, played.faults)


async def measure_optimizer(
    policy: Policy,
    tasks: Sequence[Task],
    data: GradedData,
    oracle: Oracle,
    settings: EpisodeSettings,
    *,
    seed: int,
    factor: float,
    concurrency: int = 64,
    done: Ended | None = None,
) -> Answered:
    """One answer to each task for which the data set has a kernel that another one improves on, on either side; which
    of them hangs on seed and task. `factor`: as for `is_better`. Raises OracleLostError.
    """
    given = dict(_given(data, tasks, seed, factor))
    policies: dict[AgentName, Policy] = {AgentName.GENERATOR: _Given(given), AgentName.OPTIMIZER: policy}
    return await _improving(policies, given, tasks, oracle, settings, seed, factor, concurrency, done)


async def measure_single_agent(
    policy: Policy,
    tasks: Sequence[Task],
    data: GradedData,
    oracle: Oracle,
    settings: EpisodeSettings,
    *,
    seed: int,
    factor: float,
    concurrency: int = 64,
) -> Answered:
    """First kernels as of a Generator; and, for each task that has one, whether a kernel that stands there as its own
    is made better, as of an Optimizer. Raises OracleLostError.
    """
    first = await measure_generator(policy, tasks, oracle, settings, seed=seed, concurrency=concurrency)
    given = dict(_given(data, tasks, seed, factor))
    policies: dict[AgentName, Policy] = {AgentName.GENERATOR: _Given(given, policy)}
    later = await _improving(policies, given, tasks, oracle, settings, seed, factor, concurrency)
    return replace(first, improved_rate=later.improved_rate, improved_interval=later.improved_interval)


async def _improving(
    policies: Mapping[AgentName, Policy],
    given: Mapping[str, GradedKernel],
    tasks: Sequence[Task],
    oracle: Oracle,
    settings: EpisodeSettings,
    seed: int,
    factor: float,
    concurrency: int,
    done: Ended | None = None,
) -> Answered:
    """Of the second kernels of conversations whose first one is given."""
    # No kernel is so good that nobody is asked to improve it.
    pair = replace(settings, flow=Flow(2, stop_at=2.0, single_agent=len(policies) == 1))
    asked = [(task, seed + number) for number, task in enumerate(tasks) if task.text in given]
    played = await play_many(asked, policies, oracle, pair, concurrency=concurrency, done=done)
    found = _answered(played.whole, AgentName.OPTIMIZER, played.faults)
    if not played.whole:
        return found
    improved = sum(_improved(one, factor) for one in played.whole)
    count = len(played.whole)
    return replace(found, improved_rate=improved / count, improved_interval=wilson(improved, count))


async def measure_tester(
    policy: Policy, asked: Sequence[tuple[tuple[Message, ...], Diagnosis]], settings: EpisodeSettings, *, seed: int
) -> Answered:
    """One answer to each of `trainer.tuning.examples.tester_prompts`."""

    async def named(number: int, said: tuple[Message, ...], diagnosis: Diagnosis) -> bool:
        try:
            answer = await policy.respond(said, seed=seed + number, max_tokens=settings.tester.report_tokens)
        except ContextFullError:
            return False
        return diagnosis.is_named_by(answer.text)

    count = len(asked)
    right = sum(await asyncio.gather(*(named(number, *one) for number, one in enumerate(asked))))
    nothing = Answered(count, 0, None, None, None, None, None, None)
    return replace(nothing, named_rate=right / count, named_interval=wilson(right, count)) if count else nothing


@dataclass(frozen=True)
class _Given:
    """A policy that answers each task with the kernel that was chosen for it."""

    kernels: Mapping[str, GradedKernel]
    """By the task's text."""
    then: Policy | None = None
    """Whose words these kernels stand for: it answers what comes after."""

    async def respond(self, messages: tuple[Message, ...], *, seed: int, max_tokens: int) -> Response:
        """The kernel of the task that is asked, or what comes after it."""
        if self.then is not None and any(message.role == "assistant" for message in messages):
            return await self.then.respond(messages, seed=seed, max_tokens=max_tokens)
        return Response(wrapped(self.kernels[messages[-1].text].source))


def _given(data: GradedData, tasks: Sequence[Task], seed: int, factor: float) -> Iterator[tuple[str, GradedKernel]]:
    for task in tasks:
        kernels = [one for one in data.kernels if one.problem == task.problem]
        able = [old for old in kernels if any(is_better(new.verdict, old.verdict, factor) for new in kernels)]
        if able:
            yield task.text, random.Random(f"{seed} {task.id}").choice(able)


def _improved(conversation: Conversation, factor: float) -> bool:
    verdicts = [attempt.verdict for attempt in conversation.attempts]
    if len(verdicts) < 2 or verdicts[0] is None or verdicts[1] is None:
        return False
    return is_better(verdicts[1], verdicts[0], factor)


def _answered(conversations: Sequence[Conversation], agent: AgentName, left_out: int) -> Answered:
    number = 0 if agent is AgentName.GENERATOR else 1
    own = [one.attempts[number] for one in conversations if len(one.attempts) > number]
    passed = sum(attempt.passed for attempt in own)
    # A conversation with no room for an answer counts: there was a prompt, and no kernel.
    count = len(conversations)
    compiled = sum(
        bool(attempt.verdict and attempt.verdict.compile and attempt.verdict.compile.succeeded) for attempt in own
    )
    speedups = [attempt.speedup for attempt in own if attempt.speedup is not None]
    return Answered(
        count + left_out,
        left_out,
        compiled / count if count else None,
        wilson(compiled, count) if count else None,
        passed / count if count else None,
        wilson(passed, count) if count else None,
        median(speedups) if speedups else None,
        median_interval(speedups),
    )
