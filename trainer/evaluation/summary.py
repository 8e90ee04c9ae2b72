"""From kept answers to the report: every system, every comparison, and what a reader should know of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import combinations, product
from typing import Final

from common.contract import Verdict
from common.contract.timing import BASELINE_WORDS
from trainer.conversation.conversation import AgentName, Conversation, Flow
from trainer.errors import OracleError
from trainer.evaluation.answers import Answer, Answers
from trainer.evaluation.comparison import adjusted, compared
from trainer.evaluation.measures import (
    NAIVE_TIMED,
    AnswerOutcome,
    ClusteredBy,
    MeasureSettings,
    could_not_be_asked,
    figures_of,
    judged_outcome,
    pass_curve,
    problem_results,
)
from trainer.evaluation.report import (
    CrossPlayResult,
    EvaluationReport,
    FirstPasses,
    ModelFacts,
    PairingResult,
    SystemComparison,
    SystemResult,
)
from trainer.evaluation.systems import System, TemplateSettings
from trainer.evaluation.task_sets import SetName, TaskSet
from trainer.policies.crossplay import pairing_of, specialisation

FEW_TASKS: Final = 20
"""Fewer tasks, and an interval by resampling them is a rough one."""
_NAIVE: Final = "naive..kernels"
"""The name of the script that `naive_kernels` gives, beside those of systems."""
_BETWEEN: Final = "..with.."
"""Between the names of two systems in the name of the pair that plays one's Generator with the other's Optimizer."""


@dataclass(frozen=True)
class SystemAnswers:
    """The answers of one system to all tasks."""

    system: System
    answers: tuple[Answer, ...]
    naive: Mapping[str, float] = field(default_factory=dict)
    """How many times as fast as PyTorch eager the naive kernel is, by task, where a GPU timed it."""

    def outcomes(self, tasks: frozenset[str] | None = None) -> list[AnswerOutcome]:
        """Of those that can be judged, about these tasks or all."""
        asked = (one for one in self.answers if tasks is None or one.task in tasks)
        return [self._over_naive(found) for one in asked if (found := judged_outcome(one)) is not None]

    def _over_naive(self, outcome: AnswerOutcome) -> AnswerOutcome:
        naive, speedup = self.naive.get(outcome.task), outcome.speedups.get("eager")
        if naive is None or speedup is None:
            return outcome
        # Both were timed in turns with the same baseline, so what the GPU's clock did in between is in neither.
        return replace(outcome, speedups={**outcome.speedups, NAIVE_TIMED: speedup / naive})


def naive_kernels(flow: Flow) -> System:
    """A script that writes the plainest right kernel of each task once, for what others are compared with."""
    plain = TemplateSettings(style="plain")
    return System(_NAIVE, "naive kernels", replace(flow, max_turns=1, single_agent=True), templates=plain)


def was_timed(played: Sequence[SystemAnswers]) -> bool:
    """Whether a GPU timed any kernel."""
    return any(v.timing is not None for each in played for v in _verdicts(_talks(each.answers)))


def crossed(systems: Sequence[System]) -> tuple[System, ...]:
    """Each Generator with the Optimizer of every other system. Of systems with two agents."""
    found = []
    for one, other in product(systems, repeat=2):
        if one is not other:
            models = {
                AgentName.GENERATOR: one.models[AgentName.GENERATOR],
                AgentName.OPTIMIZER: other.models[AgentName.OPTIMIZER],
            }
            name, origin = f"{one.name}{_BETWEEN}{other.name}", f"{one.name}'s Generator, {other.name}'s Optimizer"
            found.append(System(name, origin, one.flow, models))
    return tuple(found)


def played_of(system: System, answers: Answers, tasks: Sequence[str], samples: int) -> SystemAnswers:
    """What is kept of one system about these tasks. Raises OracleError where nothing of it could be judged by the
    evaluator's own fault.
    """
    kept = answers.of(system.name)
    asked = [(task, sample) for task in tasks for sample in range(samples)]
    found = tuple(kept[key] for key in asked if key in kept)
    if found and all(one.conversation is None for one in found):
        raise OracleError(
            f"None of the {len(found)} conversations of {system.name} has a verdict; the last error: "
            f"{found[-1].fault}",
            "Look at the logs of the evaluator; the same command asks again.",
        )
    return SystemAnswers(system, found)


def report_of(
    played: Sequence[SystemAnswers],
    sets: Sequence[TaskSet],
    *,
    evaluator: str,
    settings: Mapping[str, str],
    samples: int,
    temperature: float,
    ks: Sequence[int],
    clustered_by: ClusteredBy = "task",
    seed: int = 0,
    crosses: Sequence[SystemAnswers] = (),
    first_passes: Sequence[FirstPasses] = (),
    naive: SystemAnswers | None = None,
) -> EvaluationReport:
    """Everything that these answers say. `crosses`: what `crossed` systems answered, with one conversation a task;
    `naive`: what `naive_kernels` did, where a GPU times.
    """
    conversations = [talk for each in (*played, *crosses) for talk in _talks(each.answers)]
    measured = _measure_settings(conversations, samples, ks, clustered_by, seed)
    if naive is not None:
        times = {one.task: one.speedups["eager"] for one in naive.outcomes() if "eager" in one.speedups}
        played = [replace(each, naive=times) for each in played]
        measured = replace(measured, naive_timed=bool(times))
    places = {task.id: one.name for one in sets for task in one.tasks}
    results = tuple(_result(each, sets, measured, samples * len(places)) for each in played)
    report = EvaluationReport(
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        evaluator=evaluator,
        backends=tuple(sorted({verdict.backend for verdict in _verdicts(conversations)})),
        devices=tuple(sorted({v.timing.device.name for v in _verdicts(conversations) if v.timing is not None})),
        seed=seed,
        samples=samples,
        temperature=temperature,
        verification=settings.get("verification", "full"),
        clustered_by=measured.clustered_by,
        settings=dict(settings),
        sets={one.name: len(one.tasks) for one in sets},
        tasks=places,
        systems=results,
        comparisons=_comparisons(played, sets, measured),
        cross_play=_cross_play(played, crosses),
        first_passes=tuple(first_passes),
    )
    return report.model_copy(update={"warnings": (*_of_other_versions(conversations), *_warnings(report))})


def _of_other_versions(conversations: Sequence[Conversation]) -> Iterator[str]:
    """A warning where the evaluator became another one while it was asked."""
    receipts = (verdict.receipt for verdict in _verdicts(conversations))
    versions = sorted({receipt.grader_version for receipt in receipts if receipt is not None})
    if len(versions) > 1:
        yield (
            f"Kernels were judged by different versions of the evaluator, {', '.join(versions)}: what differs "
            "between systems may be theirs."
        )


def _talks(answers: Sequence[Answer]) -> list[Conversation]:
    return [one.conversation for one in answers if one.conversation is not None]


def _verdicts(conversations: Sequence[Conversation]) -> Iterator[Verdict]:
    for talk in conversations:
        for attempt in talk.attempts:
            if attempt.verdict is not None:
                yield attempt.verdict


def _measure_settings(
    conversations: Sequence[Conversation], samples: int, ks: Sequence[int], clustered_by: ClusteredBy, seed: int
) -> MeasureSettings:
    timings = [(talk.task.problem, v) for talk in conversations for v in _verdicts([talk]) if v.backend == "gpu"]
    others = {one.name for _, v in timings if v.timing for one in v.timing.baselines if one.latency_us is not None}
    return MeasureSettings(
        samples=samples,
        ks=tuple(ks),
        clustered_by=clustered_by,
        timed_problems=frozenset(problem for problem, _ in timings),
        baselines=tuple(name for name in BASELINE_WORDS if name != "eager" and name in others),
        seed=seed,
    )


def _result(each: SystemAnswers, sets: Sequence[TaskSet], settings: MeasureSettings, asked: int) -> SystemResult:
    system, outcomes = each.system, each.outcomes()
    faults = sum(one.conversation is None for one in each.answers)
    unasked = sum(map(could_not_be_asked, each.answers))
    by_set = {one.name: each.outcomes(frozenset(task.id for task in one.tasks)) for one in sets}
    return SystemResult(
        name=system.name,
        origin=system.origin,
        models=tuple(
            ModelFacts(
                agent="generator" if agent is AgentName.GENERATOR else "optimizer",
                folder=model.folder.name,
                sha256=model.sha256,
                parameters=model.parameters,
            )
            for agent, model in system.models.items()
        ),
        agents=1 if system.flow.single_agent else 2,
        max_turns=system.flow.max_turns,
        conversations=asked,
        judged=len(outcomes),
        faults=faults,
        unsupported=len(each.answers) - faults - unasked - len(outcomes),
        unasked=unasked,
        figures=figures_of(outcomes, settings),
        sets={name: figures_of(found, settings) for name, found in by_set.items()},
        problems=tuple(result for name, found in by_set.items() for result in problem_results(found, name)),
        pass_at=pass_curve(outcomes, settings),
    )


def _comparisons(
    played: Sequence[SystemAnswers], sets: Sequence[TaskSet], settings: MeasureSettings
) -> tuple[SystemComparison, ...]:
    """Each two systems, on each set and, where there are several, on all together."""
    whole: list[tuple[SetName | None, frozenset[str]]] = [
        (one.name, frozenset(task.id for task in one.tasks)) for one in sets
    ]
    if len(whole) > 1:
        whole.insert(0, (None, frozenset().union(*(tasks for _, tasks in whole))))
    found = []
    for name, tasks in whole:
        outcomes = [each.outcomes(tasks) for each in played]
        for (one, first), (other, second) in combinations(zip(played, outcomes, strict=True), 2):
            names = one.system.name, other.system.name
            found.append(compared(names, first, second, settings, asked=len(tasks), task_set=name))
    return adjusted(found)


def _cross_play(played: Sequence[SystemAnswers], crosses: Sequence[SystemAnswers]) -> CrossPlayResult | None:
    if not crosses:
        return None
    same = {each.system.name: (each, each) for each in played if len(each.system.models) == 2}
    named = {f"{one}{_BETWEEN}{other}": (one, other) for one, other in product(same, repeat=2)}
    pairings = []
    for each in [*(each for each, _ in same.values()), *crosses]:
        one, other = named.get(each.system.name, (each.system.name, each.system.name))
        answers = [answer for answer in each.answers if answer.sample == 0]
        talks = _talks([answer for answer in answers if not could_not_be_asked(answer)])
        pairings.append(pairing_of(one, other, talks, len(answers) - len(talks)))
    order = list(same)
    pairings.sort(key=lambda pair: (order.index(pair.generator), order.index(pair.optimizer)))
    return CrossPlayResult(
        pairings=tuple(
            PairingResult(
                generator=pair.generator,
                optimizer=pair.optimizer,
                reward=pair.final_reward,
                pass_rate=pair.pass_rate,
                gain=pair.gain,
                conversations=pair.conversations,
                left_out=pair.left_out,
            )
            for pair in pairings
        ),
        specialisation=specialisation(pairings),
    )


def _warnings(report: EvaluationReport) -> Iterator[str]:
    for one in report.systems:
        if one.faults:
            yield (
                f"{one.name}: {one.faults} of {one.conversations} conversations are left out, since an evaluation "
                "failed on the evaluator's side; the same command asks them again."
            )
        if one.unsupported:
            yield (
                f"{one.name}: {one.unsupported} of {one.conversations} conversations are left out, since the "
                "evaluator cannot run a kernel of theirs and none was right."
            )
        if 0 < one.unasked < one.conversations:
            yield (
                f"{one.name}: {one.unasked} of {one.conversations} conversations are left out, since their first "
                "prompt leaves no room for an answer in the model's context; tasks.wording=brief has shorter ones."
            )
        missing = one.conversations - one.judged - one.faults - one.unsupported - one.unasked
        if missing:
            yield f"{one.name}: {missing} of {one.conversations} conversations were not played."
        if (said := silent(one)) is not None:
            yield said
    for name, tasks in report.sets.items():
        if tasks < FEW_TASKS:
            yield f"The set {name} has {tasks} tasks: intervals over so few are rough."
    if report.clustered_by == "problem":
        yield "Intervals are by problem; McNemar's test takes the tasks of a problem as independent all the same."
    if report.verification == "quick":
        yield "Verification was quick: a kernel that is wrong above the published sizes may have passed."
    if len({one.max_turns for one in report.systems}) > 1:
        yield "Systems were asked for different numbers of kernels: compare pass@k with so many turns."


def silent(system: SystemResult) -> str | None:
    """What to say of a system that wrote nothing, or never ended; None of another one."""
    if 0 < system.unasked == system.conversations:
        return (
            f"{system.name} could not be asked: none of the {system.unasked} first prompts leaves room for an answer "
            "in its model's context."
        )
    found = system.figures
    empty, cut = (found[name].value if name in found else None for name in ("empty_rate", "cut_rate"))
    if empty == 1:
        return f"{system.name} wrote nothing: each of its answers is empty."
    if cut == 1:
        return f"{system.name} never came to an end: the length limit cut each of its answers off."
    return None
