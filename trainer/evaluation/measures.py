"""From conversations to numbers: what each was, and what many of them say, with intervals.

A conversation without a verdict by the evaluator's own fault is in none of the numbers, and counted; so is one in
which no kernel was right and one of them cannot be run by this evaluator (`unsupported`): nobody knows what it is.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Final, Literal

from common.contract import Status
from common.contract.timing import BASELINE_WORDS, BaselineName
from trainer.conversation.conversation import Attempt, Conversation, EndReason
from trainer.evaluation.answers import Answer
from trainer.evaluation.report import Figure, ProblemResult
from trainer.evaluation.statistics import (
    bootstrap_interval,
    expected_first_pass,
    median_interval,
    pass_at_k,
    share_interval,
)
from trainer.evaluation.task_sets import SetName
from trainer.reporting.metrics import compiled, regressed

NAIVE: Final = "naive"
NAIVE_TIMED: Final = "naive_timed"
"""The plainest right kernel that is known of a problem, where a GPU timed it for the same task."""
THRESHOLDS: Final = (1.0, 1.2, 2.0)
"""The p of fast_p."""
NOT_HERE: Final = "not measured here: "
NOT_TIMED: Final = f"{NOT_HERE}no GPU timed a kernel"
ClusteredBy = Literal["task", "problem"]
Unit = Literal["share", "times", "number"]

FIGURES: Final[Mapping[str, tuple[str, str, Unit]]] = {
    "compile_rate": ("Compiles", "share of the answers whose kernel compiles", "share"),
    "pass@1": ("pass@1", "share of the conversations in which a kernel is right", "share"),
    "pass_rate/first": ("First kernel is right", "share of the conversations whose first kernel is right", "share"),
    "sol_score": (
        "SOL score",
        "mean over right conversations, the best kernel of each: 0.5 is the baseline, 1 the speed of light",
        "number",
    ),
    "reward": ("Reward", "mean of what a conversation's best kernel is worth by the Generator's reward", "number"),
    "regression_rate": (
        "Regressions",
        "share of the kernels right at all published sizes tried that fail at a held-out one",
        "share",
    ),
    "turns": ("Turns", "mean number of kernels in a conversation", "number"),
    "early_stop_rate": (
        "Early stops",
        "share of the conversations that ended because a kernel was good enough",
        "share",
    ),
    "repeat_rate": ("Repeats", "share of the conversations that ended because a kernel was repeated", "share"),
    "format_error_rate": ("No kernel", "share of the answers in which there is no kernel", "share"),
    "empty_rate": ("Empty answers", "share of the answers that are empty", "share"),
    "cut_rate": ("Cut answers", "share of the answers that the length limit cut off", "share"),
    "answer_tokens": ("Tokens", "mean tokens of an answer", "number"),
    "first_pass": (
        "Conversations to the first pass",
        "mean over all orders of a problem's conversations; median over problems",
        "number",
    ),
}
"""Heading, meaning and unit of each figure whose name is always the same; docs/training.md repeats them."""


@dataclass(frozen=True)
class AnswerOutcome:
    """What one conversation came to."""

    task: str
    problem: str
    sample: int
    passed: bool
    first_passed: bool
    compiled: int
    """Kernels."""
    turns: int
    tried: int
    """Kernels that were right at all published sizes and tried at held-out ones."""
    regressed: int
    """Of these those that failed."""
    without_kernel: int
    """Answers."""
    empty: int
    cut: int
    tokens: tuple[int, ...]
    """Of each answer whose tokens are known."""
    ended: EndReason | None
    reward: float | None
    speedups: Mapping[str, float]
    """Of the best right kernel over each baseline that is known, `NAIVE` among them, which is an estimate, and
    `NAIVE_TIMED`, which is none."""
    sol_score: float | None


def named(name: str) -> tuple[str, str, Unit]:
    """Heading, meaning and unit of a figure."""
    if name in FIGURES:
        return FIGURES[name]
    kind, _, baseline = name.partition("/")
    over = _over(baseline)
    if kind == "speedup":
        said = "as the simulator estimates it" if baseline == NAIVE else "as a GPU measured it"
        return (
            f"Speedup over {over}",
            f"median over tasks of the right conversations' median; the best kernel of each, {said}",
            "times",
        )
    if kind.startswith("fast_"):
        p = kind.removeprefix("fast_")
        return (
            f"fast_{p} over {over}",
            f"share of the conversations with a right kernel that is more than {p} times as fast (KernelBench)",
            "share",
        )
    k = name.partition("@")[2]
    return f"pass@{k}", f"chance that one of {k} conversations has a right kernel (Chen et al. 2021)", "share"


def _over(baseline: str) -> str:
    if baseline in (NAIVE, NAIVE_TIMED):
        return f"the naive kernel ({'estimated' if baseline == NAIVE else 'timed'})"
    word = next((word for name, word in BASELINE_WORDS.items() if name == baseline), str(baseline))
    return word if word.startswith("torch") else f"PyTorch {word}"


def judged_outcome(answer: Answer) -> AnswerOutcome | None:
    """What a conversation came to; None where it cannot be judged."""
    talk = answer.conversation
    if talk is None or could_not_be_asked(answer):
        return None
    attempts = [attempt for attempt in talk.attempts if attempt.tested is not None]
    passed = any(attempt.passed for attempt in attempts)
    if not passed and any(_unjudged(attempt) for attempt in attempts):
        return None
    responses = [attempt.written.response for attempt in attempts if attempt.written.response]
    regressions = [regressed(attempt, talk.task.sizes) for attempt in attempts]
    scores = [
        attempt.verdict.timing.sol_score
        for attempt in attempts
        if attempt.passed and attempt.verdict and attempt.verdict.timing
    ]
    return AnswerOutcome(
        task=talk.task.id,
        problem=talk.task.problem,
        sample=answer.sample,
        passed=passed,
        first_passed=bool(attempts) and attempts[0].passed,
        compiled=sum(map(compiled, attempts)),
        turns=len(attempts),
        tried=sum(one is not None for one in regressions),
        regressed=sum(one is True for one in regressions),
        without_kernel=sum(attempt.written.format_problem is not None for attempt in attempts),
        empty=sum(not response.text.strip() for response in responses),
        cut=sum(response.cut for response in responses),
        tokens=tuple(len(response.token_ids) for response in responses if response.token_ids),
        ended=talk.ended,
        reward=talk.final_reward,
        speedups=_speedups(talk),
        sol_score=max((score for score in scores if score is not None), default=None),
    )


def could_not_be_asked(answer: Answer) -> bool:
    """Whether the first prompt left no room for an answer in the model's context."""
    return answer.conversation is not None and not answer.conversation.turns


def _unjudged(attempt: Attempt) -> bool:
    return attempt.verdict is not None and not attempt.verdict.status.carries_reward


def _speedups(talk: Conversation) -> dict[str, float]:
    best: dict[str, float] = {}
    for attempt in talk.attempts:
        verdict = attempt.verdict
        if verdict is None or verdict.status is not Status.PASSED:
            continue
        found: dict[str, float] = {}
        if verdict.profile and verdict.profile.estimated_speedup is not None:
            found[NAIVE] = verdict.profile.estimated_speedup
        if timing := verdict.timing:
            # Our own problems are compared with eager alone, which is then in no list.
            named_times = {one.name: one.latency_us for one in timing.baselines if one.latency_us is not None}
            found |= {name: time_us / timing.latency_us for name, time_us in named_times.items()}
            if not named_times:
                found["eager"] = timing.speedup
        for name, speedup in found.items():
            best[name] = max(speedup, best.get(name, 0.0))
    return best


@dataclass(frozen=True)
class MeasureSettings:
    """How outcomes are summed up."""

    samples: int = 1
    ks: tuple[int, ...] = (1,)
    """The k of pass@k."""
    clustered_by: ClusteredBy = "task"
    timed_problems: frozenset[str] = frozenset()
    """Problems of which a GPU judged a kernel of any system: only there is one that is not right also not fast."""
    baselines: tuple[BaselineName, ...] = ()
    """Those beside eager that any verdict of the evaluation has."""
    naive_timed: bool = False
    """Whether a GPU timed naive kernels beside."""
    seed: int = 0


def figures_of(outcomes: Sequence[AnswerOutcome], settings: MeasureSettings) -> dict[str, Figure]:
    """Every figure of these conversations, in the order of a report."""
    if not outcomes:
        names = ("compile_rate", *(f"pass@{k}" for k in settings.ks))
        return {name: Figure(value=None, why_not="no conversation could be judged") for name in names}
    summed = _Summed(outcomes, settings)
    found: dict[str, Figure] = {
        "compile_rate": summed.share(lambda one: (one.compiled, one.turns)),
        **{f"pass@{k}": summed.pass_at(k) for k in settings.ks},
        "pass_rate/first": summed.share(lambda one: (one.first_passed, 1)),
    }
    for baseline in ("eager", *settings.baselines):
        for p in THRESHOLDS:
            found[f"fast_{p:g}/{baseline}"] = summed.fast(p, baseline)
    naive = (NAIVE, NAIVE_TIMED) if settings.naive_timed else (NAIVE,)
    for other in (*naive, "eager", *dict.fromkeys(("compile", *settings.baselines))):
        found[f"speedup/{other}"] = summed.speedup(other)
    return found | {
        "sol_score": summed.mean(
            lambda one: one.sol_score, "no score is known" if settings.timed_problems else NOT_TIMED
        ),
        "reward": summed.mean(lambda one: one.reward, "no reward is known"),
        "regression_rate": summed.share(lambda one: (one.regressed, one.tried)),
        "turns": summed.mean(lambda one: one.turns, ""),
        "early_stop_rate": summed.share(lambda one: (one.ended is EndReason.GOOD_ENOUGH, 1)),
        "repeat_rate": summed.share(lambda one: (one.ended is EndReason.REPEATED, 1)),
        "format_error_rate": summed.share(lambda one: (one.without_kernel, one.turns)),
        "empty_rate": summed.share(lambda one: (one.empty, one.turns)),
        "cut_rate": summed.share(lambda one: (one.cut, one.turns)),
        "answer_tokens": summed.mean(
            lambda one: sum(one.tokens) / len(one.tokens) if one.tokens else None, "no tokens: a script answered"
        ),
        "first_pass": summed.first_pass(),
    }


class _Summed:
    """Outcomes by cluster."""

    def __init__(self, outcomes: Sequence[AnswerOutcome], settings: MeasureSettings) -> None:
        self.outcomes, self.settings = outcomes, settings
        self.clusters = tuple(by(outcomes, settings.clustered_by).values())

    def share(self, counted: Callable[[AnswerOutcome], tuple[int, int]]) -> Figure:
        """`counted`: how many of how many of an outcome."""
        pairs = [[counted(one) for one in cluster] for cluster in self.clusters]
        sums, counts = (
            [sum(part for part, _ in each) for each in pairs],
            [sum(of for _, of in each) for each in pairs],
        )
        if not sum(counts):
            return Figure(value=None, why_not="no kernel came so far")
        low, high = share_interval(sums, counts)
        return Figure(value=sum(sums) / sum(counts), low=low, high=high, of=sum(counts))

    def pass_at(self, k: int) -> Figure:
        estimates = _pass_at(self.outcomes, k)
        if not estimates:
            return Figure(value=None, why_not=f"fewer than {k} answers to each task")
        clusters: dict[str, list[float]] = defaultdict(list)
        problems = {one.task: one.problem for one in self.outcomes}
        for task, value in estimates.items():
            clusters[task if self.settings.clustered_by == "task" else problems[task]].append(value)
        sums, counts = [sum(one) for one in clusters.values()], [len(one) for one in clusters.values()]
        answers = sum(one.task in estimates for one in self.outcomes)
        if k == 1:
            # As shares of answers, which Wilson's interval is about.
            return self.share(lambda one: (one.passed, 1))
        low, high = share_interval(sums, counts, answers)
        return Figure(value=sum(sums) / sum(counts), low=low, high=high, of=sum(counts))

    def fast(self, p: float, baseline: str) -> Figure:
        there = [one for one in self.outcomes if one.problem in self.settings.timed_problems]
        if not there:
            return Figure(value=None, why_not=NOT_TIMED)
        known = [one for one in there if not one.passed or baseline in one.speedups]
        if not known:
            return Figure(value=None, why_not=f"{NOT_HERE}no right kernel was timed beside this baseline")
        timed = _Summed(known, self.settings)
        return timed.share(lambda one: (one.passed and one.speedups[baseline] > p, 1))

    def speedup(self, baseline: str) -> Figure:
        of_tasks = speedups_of_tasks(self.outcomes, baseline)
        if not of_tasks:
            right = any(one.passed for one in self.outcomes)
            not_known = NOT_TIMED if baseline != NAIVE else f"{NOT_HERE}no estimate"
            if self.settings.timed_problems and baseline != NAIVE:
                not_known = f"{NOT_HERE}no verdict has this baseline"
            return Figure(value=None, why_not=not_known if right else "no kernel is right")
        values = list(of_tasks.values())
        if self.settings.clustered_by == "problem":
            problems = {one.task: one.problem for one in self.outcomes}
            grouped: dict[str, list[float]] = defaultdict(list)
            for task, value in of_tasks.items():
                grouped[problems[task]].append(value)
            values = [median(each) for each in grouped.values()]
        low, high = median_interval(values) or (None, None)
        return Figure(value=median(values), low=low, high=high, of=len(values))

    def mean(self, value: Callable[[AnswerOutcome], float | None], why_not: str) -> Figure:
        found = [[known for one in cluster if (known := value(one)) is not None] for cluster in self.clusters]
        sums, counts = [float(sum(each)) for each in found], [float(len(each)) for each in found]
        of = round(sum(counts))
        if not of:
            return Figure(value=None, why_not=why_not)
        low, high = bootstrap_interval(sums, counts, seed=self.settings.seed) or (None, None)
        return Figure(value=sum(sums) / of, low=low, high=high, of=of)

    def first_pass(self) -> Figure:
        problems = by(self.outcomes, "problem").values()
        firsts = [expected_first_pass(len(each), sum(one.passed for one in each)) or inf for each in problems]
        middle = median(firsts)
        if middle == inf:
            never = sum(first == inf for first in firsts)
            return Figure(
                value=None, of=len(firsts), why_not=f"no right kernel for {never} of {len(firsts)} problems"
            )
        return Figure(value=middle, of=len(firsts))


def by(outcomes: Sequence[AnswerOutcome], cluster: ClusteredBy) -> dict[str, list[AnswerOutcome]]:
    """The outcomes of each task or problem."""
    found: dict[str, list[AnswerOutcome]] = defaultdict(list)
    for one in outcomes:
        found[one.task if cluster == "task" else one.problem].append(one)
    return dict(found)


def _pass_at(outcomes: Sequence[AnswerOutcome], k: int) -> dict[str, float]:
    """pass@k of each task with so many answers."""
    return {
        task: pass_at_k(len(each), sum(one.passed for one in each), k)
        for task, each in by(outcomes, "task").items()
        if len(each) >= k
    }


def pass_curve(outcomes: Sequence[AnswerOutcome], settings: MeasureSettings) -> tuple[Figure, ...]:
    """pass@1, pass@2 and so on, as far as there are answers."""
    most = max((len(each) for each in by(outcomes, "task").values()), default=0)
    summed = _Summed(outcomes, settings)
    return tuple(summed.pass_at(k) for k in range(1, most + 1))


def speedups_of_tasks(outcomes: Sequence[AnswerOutcome], baseline: str) -> dict[str, float]:
    """Median speedup of the right conversations about each task, where one is known."""
    found = {
        task: [one.speedups[baseline] for one in each if baseline in one.speedups]
        for task, each in by(outcomes, "task").items()
    }
    return {task: median(values) for task, values in found.items() if values}


def problem_results(outcomes: Sequence[AnswerOutcome], name: SetName) -> tuple[ProblemResult, ...]:
    """What came of each problem of a set."""
    results = []
    for problem, each in by(outcomes, "problem").items():
        speedups = [one.speedups.get("eager", one.speedups.get(NAIVE)) for one in each if one.passed]
        known = [speedup for speedup in speedups if speedup is not None]
        passed = sum(one.passed for one in each)
        speedup = median(known) if known else None
        results.append(
            ProblemResult(set=name, problem=problem, conversations=len(each), passed=passed, speedup=speedup)
        )
    return tuple(results)
