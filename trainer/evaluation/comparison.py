"""Two systems on the same tasks: paired differences by cluster, and McNemar's test of the first answers."""

from collections.abc import Callable, Mapping, Sequence
from statistics import median

from trainer.evaluation.measures import (
    NAIVE,
    THRESHOLDS,
    AnswerOutcome,
    MeasureSettings,
    by,
    speedups_of_tasks,
)
from trainer.evaluation.report import Figure, McNemarResult, PairedFigure, SystemComparison
from trainer.evaluation.statistics import bootstrap_interval, geometric_interval, holm, mcnemar, pass_at_k
from trainer.evaluation.task_sets import SetName

OfTask = Callable[[Sequence[AnswerOutcome]], float | None]
"""What a measure is on one task; None where it says nothing of it."""


def compared(
    names: tuple[str, str],
    first: Sequence[AnswerOutcome],
    second: Sequence[AnswerOutcome],
    settings: MeasureSettings,
    *,
    asked: int,
    task_set: SetName | None = None,
) -> SystemComparison:
    """What the second does otherwise than the first. `asked`: tasks that both were asked. The p of McNemar's test is
    adjusted by `adjusted`, once all comparisons are known.
    """
    ours, theirs = by(first, "task"), by(second, "task")
    both = [task for task in ours if task in theirs]
    problems = {one.task: one.problem for one in first}
    clusters = {task: task if settings.clustered_by == "task" else problems[task] for task in both}
    figures = []
    for name, of_task in _measures(settings).items():
        pairs = {task: (of_task(ours[task]), of_task(theirs[task])) for task in both}
        known = {task: (a, b) for task, (a, b) in pairs.items() if a is not None and b is not None}
        if known:
            figures.append(_difference(name, known, clusters, settings.seed))
    for baseline in (NAIVE, "eager", *settings.baselines):
        one, other = speedups_of_tasks(first, baseline), speedups_of_tasks(second, baseline)
        if solved := {task: (one[task], other[task]) for task in one if task in other}:
            figures.append(_ratio(f"speedup/{baseline}", solved, clusters, settings.seed))
    return SystemComparison(
        first=names[0],
        second=names[1],
        set=task_set,
        tasks=len(both),
        left_out=asked - len(both),
        figures=tuple(figures),
        mcnemar=_mcnemar(ours, theirs),
    )


def adjusted(comparisons: Sequence[SystemComparison]) -> tuple[SystemComparison, ...]:
    """The comparisons with the p of their tests adjusted for all of them together."""
    ps = holm([one.mcnemar.p for one in comparisons])
    return tuple(
        one.model_copy(update={"mcnemar": one.mcnemar.model_copy(update={"p_adjusted": p})})
        for one, p in zip(comparisons, ps, strict=True)
    )


def _measures(settings: MeasureSettings) -> dict[str, OfTask]:
    found: dict[str, OfTask] = {
        "compile_rate": lambda each: _share(sum(one.compiled for one in each), sum(one.turns for one in each)),
        **{f"pass@{k}": _pass_at(k) for k in settings.ks},
        "pass_rate/first": lambda each: _share(sum(one.first_passed for one in each), len(each)),
    }
    for baseline in ("eager", *settings.baselines):
        for p in THRESHOLDS:
            found[f"fast_{p:g}/{baseline}"] = _fast(p, baseline, settings)
    return found | {
        "reward": lambda each: _mean([one.reward for one in each]),
        "turns": lambda each: _mean([one.turns for one in each]),
    }


def _pass_at(k: int) -> OfTask:
    return lambda each: pass_at_k(len(each), sum(one.passed for one in each), k) if len(each) >= k else None


def _fast(p: float, baseline: str, settings: MeasureSettings) -> OfTask:
    def of_task(each: Sequence[AnswerOutcome]) -> float | None:
        known = [
            one
            for one in each
            if one.problem in settings.timed_problems and (not one.passed or baseline in one.speedups)
        ]
        return _share(sum(one.passed and one.speedups[baseline] > p for one in known), len(known))

    return of_task


def _share(part: int, of: int) -> float | None:
    return part / of if of else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _grouped(values: Mapping[str, float], clusters: Mapping[str, str]) -> tuple[list[float], list[float]]:
    """Sum and count of the tasks of each cluster."""
    sums: dict[str, list[float]] = {}
    for task, value in values.items():
        sums.setdefault(clusters[task], []).append(value)
    return [sum(each) for each in sums.values()], [float(len(each)) for each in sums.values()]


def _difference(
    name: str, known: Mapping[str, tuple[float, float]], clusters: Mapping[str, str], seed: int
) -> PairedFigure:
    sums, counts = _grouped({task: b - a for task, (a, b) in known.items()}, clusters)
    low, high = bootstrap_interval(sums, counts, seed=seed) or (None, None)
    return PairedFigure(
        name=name,
        first=sum(a for a, _ in known.values()) / len(known),
        second=sum(b for _, b in known.values()) / len(known),
        difference=Figure(value=sum(sums) / len(known), low=low, high=high, of=len(known)),
    )


def _ratio(
    name: str, solved: Mapping[str, tuple[float, float]], clusters: Mapping[str, str], seed: int
) -> PairedFigure:
    groups: dict[str, list[float]] = {}
    for task, (a, b) in solved.items():
        groups.setdefault(clusters[task], []).append(b / a)
    middle, interval = geometric_interval(list(groups.values()), seed=seed)
    low, high = interval or (None, None)
    return PairedFigure(
        name=name,
        first=median(a for a, _ in solved.values()),
        second=median(b for _, b in solved.values()),
        difference=Figure(value=middle, low=low, high=high, of=len(solved)),
    )


def _mcnemar(
    ours: Mapping[str, Sequence[AnswerOutcome]], theirs: Mapping[str, Sequence[AnswerOutcome]]
) -> McNemarResult:
    """Of the conversations with the number 0, one of each task: more of them would not be independent."""
    firsts = [
        {one.task: one.passed for each in side.values() for one in each if one.sample == 0} for side in (ours, theirs)
    ]
    pairs = [(firsts[0][task], firsts[1][task]) for task in firsts[0] if task in firsts[1]]
    only_first, only_second = pairs.count((True, False)), pairs.count((False, True))
    p = mcnemar(only_first, only_second)
    return McNemarResult(
        both=pairs.count((True, True)),
        only_first=only_first,
        only_second=only_second,
        neither=pairs.count((False, False)),
        p=p,
        p_adjusted=p,
    )
