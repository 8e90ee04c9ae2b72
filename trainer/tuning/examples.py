"""Graded kernels as lessons, in the very words that the agents are asked with later.

A Generator's example is a task and a kernel that passed. An Optimizer's is a conversation that has begun: a task, a
kernel, the Tester's report of that kernel's verdict and the target, answered by a kernel of the same problem that
passed and is better (requirements document, "Generator Agent SFT" and "Optimizer Agent SFT"). A Tester's is a task,
a kernel and what the grader found, answered by what is wrong with it, or what makes it slow ("Tester Agent SFT").
Where the Generator writes all kernels of a conversation, half of its examples are first kernels, and half a kernel of
its own that it improves: who was only taught to begin writes no kernel when it is asked for another one.
Only kernels and tasks that may be learned from are in one: what is held out is on the other side of
`trainer.data.graded`. A fifth of the other kernels no Tester learns from either: it is asked about them.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import TypeVar

from common.contract import Status, Verdict
from trainer.conversation import prompts
from trainer.conversation.conversation import AgentName, Conversation, Flow, Message, Response, Turn
from trainer.conversation.episode import EpisodeSettings
from trainer.conversation.extraction import extract, wrapped
from trainer.conversation.rewards import immediate_reward
from trainer.conversation.tester import report, shortened
from trainer.data.graded import GradedData, GradedKernel, faster_by
from trainer.data.tasks import Task, is_held_out
from trainer.errors import ConfigurationError
from trainer.policies.sft import Lesson
from trainer.tuning.diagnosis import Diagnosis, diagnosis_of

_T = TypeVar("_T")


def is_better(new: Verdict, old: Verdict, factor: float) -> bool:
    """Whether a kernel improves on another: it passed, and the other failed or is slower by `factor` at least.

    Two that passed can only be told apart where the speed of both is known.
    """
    if new.status is not Status.PASSED:
        return False
    if old.status is not Status.PASSED:
        return old.status.carries_reward
    times = faster_by(new, old)
    return times is not None and times >= factor


@dataclass(frozen=True)
class TaughtExample:
    """A lesson and what it was made of."""

    lesson: Lesson
    agent: AgentName
    task: Task
    kernel: GradedKernel
    """What the lesson ends with; of a Tester's, what is diagnosed."""
    old: GradedKernel | None = None
    """What is improved on: of an Optimizer's, and of half of those of an agent that writes all kernels."""

    @property
    def factor(self) -> float | None:
        """How many times as fast as the old kernel the new one is; None where the old one is not right."""
        return faster_by(self.kernel.verdict, self.old.verdict) if self.old is not None else None


def examples_of(
    agent: AgentName,
    data: GradedData,
    tasks: Sequence[Task],
    settings: EpisodeSettings,
    *,
    count: int,
    seed: int,
    factor: float,
) -> tuple[TaughtExample, ...]:
    """At most `count` different examples of this agent. `factor`: as for `is_better`; of no meaning to a Generator
    that is not alone.

    Raises ConfigurationError where there are none.
    """
    if agent is AgentName.GENERATOR and settings.flow.improves_its_own:
        return single_agent_examples(data, tasks, settings, count=count, seed=seed, factor=factor)
    if agent is AgentName.GENERATOR:
        return generator_examples(data, tasks, settings, count=count, seed=seed)
    if agent is AgentName.OPTIMIZER:
        return optimizer_examples(data, tasks, settings, count=count, seed=seed, factor=factor)
    return tester_examples(data, tasks, settings, count=count, seed=seed, factor=factor)


def generator_examples(
    data: GradedData, tasks: Sequence[Task], settings: EpisodeSettings, *, count: int, seed: int
) -> tuple[TaughtExample, ...]:
    """At most `count` different examples of the Generator, as many of each problem as there are.

    Raises ConfigurationError where no kernel that passed fits a task.
    """
    groups = []
    for problem, asked in _by_problem(data, tasks):
        right = [one for one in data.training if one.problem == problem and one.passed]
        groups.append([(task, kernel) for task in asked for kernel in right])
    chosen = _spread(groups, count, seed)
    _refuse_none(chosen, "that passed")
    return tuple(
        TaughtExample(
            Lesson((*prompts.opening(AgentName.GENERATOR, task, settings.wording), answered(kernel.source))),
            AgentName.GENERATOR,
            task,
            kernel,
        )
        for task, kernel in chosen
    )


def optimizer_examples(
    data: GradedData, tasks: Sequence[Task], settings: EpisodeSettings, *, count: int, seed: int, factor: float
) -> tuple[TaughtExample, ...]:
    """At most `count` different examples of the Optimizer, as many of each problem as there are. `factor`: as for
    `is_better`.

    Raises ConfigurationError where no kernel is better than another.
    """
    two = replace(settings, flow=replace(settings.flow, single_agent=False))
    return _improvements(AgentName.OPTIMIZER, data, tasks, two, count=count, seed=seed, factor=factor)


def single_agent_examples(
    data: GradedData, tasks: Sequence[Task], settings: EpisodeSettings, *, count: int, seed: int, factor: float
) -> tuple[TaughtExample, ...]:
    """At most `count` different examples of an agent that writes all kernels of a conversation: half of them are a
    Generator's, half improve on a kernel that it wrote itself, so that it learns from as many as each of two agents.
    Of the one it has more where there are too few of the other. `factor`: as for `is_better`.

    Raises ConfigurationError where no kernel passed, or none is better than another.
    """
    alone = replace(settings, flow=replace(settings.flow, single_agent=True))
    first = generator_examples(data, tasks, alone, count=count, seed=seed)
    later = _improvements(AgentName.GENERATOR, data, tasks, alone, count=count, seed=seed, factor=factor)
    first = first[: max(count - count // 2, count - len(later))]
    return (*first, *later[: count - len(first)])


def _improvements(
    agent: AgentName,
    data: GradedData,
    tasks: Sequence[Task],
    settings: EpisodeSettings,
    *,
    count: int,
    seed: int,
    factor: float,
) -> tuple[TaughtExample, ...]:
    groups = []
    for problem, asked in _by_problem(data, tasks):
        kernels = [one for one in data.training if one.problem == problem]
        pairs = [(old, new) for old in kernels for new in kernels if is_better(new.verdict, old.verdict, factor)]
        # As many of what is only slow as of what is wrong: there are far more ways to be wrong.
        for slow in (True, False):
            groups.append([(task, pair) for task in asked for pair in pairs if pair[0].passed is slow])
    chosen = _spread(groups, count, seed)
    _refuse_none(chosen, f"that is {factor:g} times as fast as another, or right where the other is wrong,")
    return tuple(
        TaughtExample(improvement(task, old.source, old.verdict, new.source, settings), agent, task, new, old)
        for task, (old, new) in chosen
    )


def tester_examples(
    data: GradedData, tasks: Sequence[Task], settings: EpisodeSettings, *, count: int, seed: int, factor: float
) -> tuple[TaughtExample, ...]:
    """At most `count` different examples of a Tester that is a model: what it is asked about a kernel in a
    conversation, answered by its diagnosis. Each way to end has the same share, as far as there are kernels that end
    so. `factor`: as for `diagnosis_of`.

    Raises ConfigurationError where nothing is known to be wrong with any kernel for a task.
    """
    by_end: dict[Status, list[tuple[Task, GradedKernel, Diagnosis]]] = {}
    for problem, asked in _by_problem(data, tasks):
        for kernel, diagnosis in _diagnosed(data, problem, factor):
            if not is_held_out(kernel.fingerprint):
                group = by_end.setdefault(kernel.verdict.status, [])
                group += [(task, kernel, diagnosis) for task in asked]
    chosen = _spread([by_end[status] for status in sorted(by_end)], count, seed)
    _refuse_none(chosen, "with a diagnosis")
    return tuple(
        TaughtExample(
            Lesson((*_review(task, kernel, settings), Message("assistant", _said(diagnosis, settings)))),
            AgentName.TESTER,
            task,
            kernel,
        )
        for task, kernel, diagnosis in chosen
    )


def tester_prompts(
    data: GradedData, tasks: Sequence[Task], settings: EpisodeSettings, *, seed: int, factor: float
) -> tuple[tuple[tuple[Message, ...], Diagnosis], ...]:
    """What a Tester is asked about a kernel that no Tester has learned from, and what should be named: one for each
    task whose problem has such kernels, which take turns, each way to end too.
    """
    found = []
    for problem in sorted({task.problem for task in tasks}):
        by_end: dict[Status, list[tuple[GradedKernel, Diagnosis]]] = {}
        for kernel, diagnosis in _diagnosed(data, problem, factor):
            if problem in data.held_out_problems or is_held_out(kernel.fingerprint):
                by_end.setdefault(kernel.verdict.status, []).append((kernel, diagnosis))
        turns = _spread([by_end[status] for status in sorted(by_end)], len(data.kernels), seed)
        own = [task for task in tasks if task.problem == problem] if turns else []
        for task, (kernel, diagnosis) in zip(own, cycle(turns), strict=False):
            found.append((_review(task, kernel, settings), diagnosis))
    return tuple(found)


def _diagnosed(data: GradedData, problem: str, factor: float) -> Iterator[tuple[GradedKernel, Diagnosis]]:
    kernels = [one for one in data.kernels if one.problem == problem]
    for kernel in kernels:
        if (diagnosis := diagnosis_of(kernel, kernels, factor)) is not None:
            yield kernel, diagnosis


def _review(task: Task, kernel: GradedKernel, settings: EpisodeSettings) -> tuple[Message, ...]:
    return prompts.review(task, kernel.source, report(kernel.verdict, None, settings.tester), settings.wording)


def _said(diagnosis: Diagnosis, settings: EpisodeSettings) -> str:
    return shortened(diagnosis.lines, settings.tester.report_tokens)


def improvement(task: Task, old: str, verdict: Verdict, new: str, settings: EpisodeSettings) -> Lesson:
    """The source `old` with the report of its verdict, answered by the source `new`: an Optimizer's example, or that
    of the agent that wrote `old` too, where `settings` has but one. Only `new` is learned.
    """
    return Lesson((*_request(task, old, verdict, settings), answered(new)), last_only=settings.flow.single_agent)


def answered(source: str) -> Message:
    """An agent's answer that holds a source and nothing else."""
    return Message("assistant", wrapped(source))


def _request(task: Task, old: str, verdict: Verdict, settings: EpisodeSettings) -> tuple[Message, ...]:
    """All that is said to, and by, the agent whose turn it is where the Generator's first kernel was `old`."""
    text = wrapped(old)
    rewards = settings.reward_of(AgentName.GENERATOR)
    written = Turn(
        0,
        AgentName.GENERATOR,
        prompts.opening(AgentName.GENERATOR, task, settings.wording),
        Response(text),
        source=old,
        plan=extract(text).plan,
    )
    tested = Turn(
        1,
        AgentName.TESTER,
        verdict=verdict,
        report=report(verdict, None, settings.tester),
        reward=immediate_reward(verdict, rewards, settings.grading),
    )
    # A kernel that is good enough would end a conversation here, and is improved all the same.
    flow = Flow(2, stop_at=2.0, single_agent=settings.flow.single_agent)
    begun = Conversation(task.id, task, flow, 0).with_turn(written).with_turn(tested)
    said = prompts.due(
        begun,
        settings.wording,
        target_speedup=settings.grading.target_speedup,
        update_tokens=settings.update_tokens,
    )
    return (*begun.view(flow.author(1)), *said)


def _by_problem(data: GradedData, tasks: Sequence[Task]) -> Iterator[tuple[str, list[Task]]]:
    allowed = [task for task in tasks if not task.held_out and task.problem not in data.held_out_problems]
    for problem in sorted({task.problem for task in allowed}):
        yield problem, [task for task in allowed if task.problem == problem]


def _spread(groups: Sequence[list[_T]], count: int, seed: int) -> list[_T]:
    """`count` of all, in turn from each group until it is empty; drawn by the seed."""
    rng = random.Random(seed)
    left = [rng.sample(group, len(group)) for group in groups if group]
    chosen: list[_T] = []
    while left and len(chosen) < count:
        chosen += [group.pop() for group in left][: count - len(chosen)]
        left = [group for group in left if group]
    return chosen


def _refuse_none(chosen: Sequence[object], what: str) -> None:
    if not chosen:
        raise ConfigurationError(
            f"The data set has no kernel {what} for any of the problems that are trained on.",
            "Name more problems in tasks.problems, or collect kernels of a run into it (sft.rollouts).",
        )
