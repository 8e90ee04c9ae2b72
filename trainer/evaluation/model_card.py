"""A model card: what a model is, what it was measured on, and what that does not say, as Markdown beside its weights.

The form is Hugging Face's: a head in YAML, whose `model-index` lists results that tools read. Source: Mitchell et al.
2019, "Model cards for model reporting".
"""

import json
from collections.abc import Iterator

from trainer.evaluation.measures import named
from trainer.evaluation.page import figure_text, p_value, written_change, written_value
from trainer.evaluation.report import EvaluationReport, Figure, SystemResult
from trainer.evaluation.task_sets import MEANINGS
from trainer.reporting.environment import visible


def model_card(report: EvaluationReport, system: SystemResult) -> str:
    """The card of one system of a report."""
    return "\n".join([*_head(report, system), "", *_body(report, system)]) + "\n"


def _head(report: EvaluationReport, system: SystemResult) -> Iterator[str]:
    """JSON is YAML, and nothing in it can be taken for something else."""
    results = [
        {
            "task": {"type": "text-generation", "name": "CUDA kernels"},
            "dataset": {"type": f"assay-{name}", "name": f"Assay: {MEANINGS[name]}"},
            "metrics": [
                {"type": metric, "name": named(metric)[0], "value": round(figure.value, 4)}
                for metric, figure in figures.items()
                if figure.value is not None and metric.startswith(("pass@", "compile_rate", "fast_", "speedup/"))
            ],
        }
        for name, figures in system.sets.items()
    ]
    yield "---"
    yield "library_name: transformers"
    yield "pipeline_tag: text-generation"
    yield 'tags: ["cuda", "code", "assay"]'
    yield f"model-index: {json.dumps([{'name': system.name, 'results': results}])}"
    yield "---"


def _body(report: EvaluationReport, system: SystemResult) -> Iterator[str]:
    yield f"# {_plain(system.name)}"
    yield ""
    agents = "Two agents, a Generator and an Optimizer," if system.agents == 2 else "One model"
    verb = "write" if system.agents == 2 else "writes"
    turns = f"at most {system.max_turns} kernels a conversation" if system.max_turns > 1 else "one kernel a task"
    yield f"{agents} that {verb} CUDA kernels for stated problems, {turns}. Origin: {_plain(system.origin)}."
    yield ""
    yield "| agent | folder | parameters | SHA-256 |"
    yield "| --- | --- | --- | --- |"
    for one in system.models:
        count = f"{one.parameters:,}" if one.parameters is not None else "not known"
        yield f"| {one.agent} | {_plain(one.folder)} | {count} | `{one.sha256}` |"
    yield ""
    yield "## Evaluation"
    yield ""
    where = ", ".join(report.devices) or ("Assay's simulator, without a GPU" if report.backends else "nothing")
    yield (
        f"Judged by Assay {_plain(report.evaluator)} on {_plain(where)}, {report.made_at}: {report.samples} "
        f"conversation{'s' * (report.samples != 1)} for each task, temperature {report.temperature:g}, seed "
        f"{report.seed}, verification {report.verification}. Kernels are judged at sizes that the prompt does not "
        f"say. In brackets stand 95 % intervals by {report.clustered_by}."
    )
    for name, figures in system.sets.items():
        yield ""
        yield f"### {name.capitalize()}"
        yield ""
        yield f"{report.sets[name]} tasks: {MEANINGS[name]}."
        yield ""
        yield "| measure | value | what it is |"
        yield "| --- | --- | --- |"
        for metric, figure in figures.items():
            heading, meaning, _ = named(metric)
            yield f"| {heading} | {_shown(metric, figure)} | {meaning} |"
    yield ""
    yield (
        f"Of {system.conversations} conversations {system.judged} could be judged; {system.faults} are left out for "
        f"faults of the evaluator, {system.unsupported} because it cannot run their kernels"
        + (f", {system.unasked} because their prompts do not fit into its context." if system.unasked else ".")
    )
    yield from _beside(report, system)
    yield ""
    yield "## What this does not say"
    yield ""
    for limit in (
        "Only the problems above were asked; what a kernel does at other problems is not known.",
        *(() if report.devices else ("No kernel was timed: speedups are a simulator's estimates, or not measured.",)),
        "A kernel that passed was right at the sizes and contents that were tried.",
        *report.warnings,
    ):
        yield f"- {_plain(limit)}"


def _beside(report: EvaluationReport, system: SystemResult) -> Iterator[str]:
    others = [one for one in report.comparisons if system.name in (one.first, one.second)]
    if not others:
        return
    yield ""
    yield "### Beside other systems"
    yield ""
    yield "| on | against | pass@1 | theirs | second less first, points | McNemar's p | adjusted |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for comparison in others:
        figure = next((one for one in comparison.figures if one.name == "pass@1"), None)
        if figure is None:
            continue
        mine = figure.second if comparison.second == system.name else figure.first
        theirs = figure.first if comparison.second == system.name else figure.second
        against = comparison.first if comparison.second == system.name else comparison.second
        test = comparison.mcnemar
        change = written_change(figure)
        if figure.difference.low is not None:
            change += f" ({written_change(figure, 'low')} to {written_change(figure, 'high')})"
        if comparison.first == system.name:
            change += f", {_plain(against)} being second"
        yield (
            f"| {comparison.set or 'all sets'} | {_plain(against)} | {written_value('pass@1', mine)} | "
            f"{written_value('pass@1', theirs)} | {change} | {p_value(test.p)} | {p_value(test.p_adjusted)} |"
        )


def _shown(name: str, figure: Figure) -> str:
    return _plain(figure_text(name, figure))


def _plain(text: str) -> str:
    """Text of others in which nothing is Markdown's or HTML's."""
    shown_text = visible(text).replace("\n", " ")
    return "".join(f"\\{one}" if one in "\\`*_[]<>|#" else one for one in shown_text)
