"""How much is there to gain from turns? Scripts in the place of the Optimizer: one obeys the report, others do not.

    python benchmarks/training/turns_oracle.py                                       # 80 prompts of each kind
    python benchmarks/training/turns_oracle.py --prompts 8 --right-shares 0.5        # a look

A script writes the first kernel, as warm starts are made: right with the chance `--right-shares`, else with one
typical flaw. Four more come from an Optimizer that is a script too, and all begin with the same kernels:

- `obeys` reads the words of the report, as an Optimizer gets them, and makes an edit that they point to;
- `at_random` makes one of the same edits, drawn at random;
- `ignores` writes kernels anew, as the first was written: what five answers to the prompt alone are worth.

An edit fixes a flaw of the style, puts one in, or writes the kernel in another style, as well as the first one was
written. `obeys` is not told which flaw there is: it knows what can be changed, and in which line. Both go on from the
best kernel so far. Compared is the best reward of each prompt after each number of kernels; differences are by
prompt, with 95 % bootstrap intervals. `most` is what the best of all kernels seen earns. Nothing is learned here, and
nothing is timed: the simulator judges.
"""

import argparse
import asyncio
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from pathlib import Path
from statistics import fmean
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks._support.record import RESULTS, save
from benchmarks._support.served import served
from common.client import AsyncClient
from trainer.config.reading import load_config
from trainer.conversation.conversation import AgentName, Conversation, Flow, Message, Response
from trainer.conversation.episode import EpisodeSettings, Oracle, Policy, episode_settings, play_many
from trainer.conversation.extraction import canonical_source, extract, wrapped
from trainer.data import corpus
from trainer.data.kernels.style import Flaw, Style
from trainer.data.tasks import Task, chosen, held_out_tasks
from trainer.evaluation.statistics import bootstrap_interval
from trainer.evaluator.oracle import EvaluatorOracle

KERNELS = 5
SETS = {"demo": ("vector_add", "scalar_multiply", "saxpy", "relu"), "rows": ("row_sum", "softmax")}
"""What `cpu-demo` trains on, whose right kernels earn almost the same; and problems with a ladder worth climbing."""
OPTIMIZERS = ("obeys", "at_random", "ignores")
_DRAWS = 32
_COLOURS = {"obeys": "#0b62a4", "at_random": "#1b7f4b", "ignores": "#c2540a"}
_SAID = {"obeys": "obeys the report", "at_random": "edits at random", "ignores": "answers anew"}


@dataclass(frozen=True)
class Written:
    """A kernel that a script wrote: a style with flaws in it."""

    style: Style
    flaws: frozenset[str] = frozenset()

    @property
    def source(self) -> str | None:
        """None where these flaws cannot be in one kernel."""
        text = self.style.text
        for flaw in corpus.flaws(self.style):
            if flaw.name in self.flaws:
                if flaw.old not in text:
                    return None
                text = text.replace(flaw.old, flaw.new, 1)
        return text.replace("KERNEL", self.style.problem)


@dataclass(frozen=True)
class Edit:
    """One change of a kernel."""

    after: Written
    lines: frozenset[int]
    """Of the kernel before it, from 1, that it changes or stands next to."""
    text: str
    """What it takes out and puts in; of a kernel in another style: that style's name."""
    rewrites: bool


@dataclass(frozen=True)
class Repertoire:
    """All that the scripts can write for some tasks, and what they have written."""

    tasks: Mapping[str, str]
    """Problems by the texts of their tasks."""
    right_share: float
    written: dict[str, Written] = field(default_factory=dict)

    def problem(self, messages: Sequence[Message]) -> str:
        """Of the task that is asked."""
        asked = next(message.text for message in messages if message.role == "user")
        return next(problem for text, problem in self.tasks.items() if asked.startswith(text))

    def drawn(self, style: Style, rng: random.Random) -> Written:
        """A kernel in this style, right with the chance `right_share`."""
        wrong = rng.random() >= self.right_share
        return Written(style, frozenset({rng.choice(corpus.flaws(style)).name} if wrong else ()))

    def edits(self, kernel: Written, rng: random.Random) -> Iterator[Edit]:
        """All changes of a kernel; another style is written as well as it is at all."""
        before = str(kernel.source)
        for flaw in corpus.flaws(kernel.style):
            after = Written(kernel.style, kernel.flaws ^ {flaw.name})
            if after.source is not None and after.source != before:
                yield Edit(after, _lines(before, after.source), _words(flaw), rewrites=False)
        for style in corpus.styles(kernel.style.problem):
            if style != kernel.style:
                yield Edit(self.drawn(style, rng), frozenset(), style.name, rewrites=True)

    def answer(self, kernel: Written) -> Response:
        """Its text, which is known again when it comes back."""
        self.written[_canonical(kernel)] = kernel
        return Response(wrapped(str(kernel.source)))


def _words(flaw: Flaw) -> str:
    return f"{flaw.name}\n{flaw.old}\n{flaw.new}"


def _lines(before: str, after: str) -> frozenset[int]:
    """Lines of the text before that a change touches, from 1."""
    old, new = before.split("\n"), after.split("\n")
    touched: set[int] = set()
    for kind, first, last, _, _ in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            touched |= set(range(first + 1, max(last, first + 1) + 1))
    return frozenset(touched)


@dataclass(frozen=True)
class Generator:
    """Writes a kernel in any style."""

    repertoire: Repertoire

    async def respond(self, messages: tuple[Message, ...], *, seed: int, max_tokens: int) -> Response:
        """One that is not in the view: the same again would end a conversation."""
        rng, said = random.Random(seed), set(_said(messages))
        styles = corpus.styles(self.repertoire.problem(messages))
        for _ in range(_DRAWS):
            kernel = self.repertoire.drawn(rng.choice(styles), rng)
            if kernel.source is not None and _canonical(kernel) not in said:
                break
        return self.repertoire.answer(kernel)


@dataclass(frozen=True)
class Optimizer:
    """Makes one edit of the best kernel in the view: one that its report points to, or any."""

    repertoire: Repertoire
    obeys: bool

    async def respond(self, messages: tuple[Message, ...], *, seed: int, max_tokens: int) -> Response:
        """The kernel with an edit that leads to none of those in the view; any kernel where there is no such edit."""
        rng, said = random.Random(seed), _said(messages)
        reports = [_report(one) for one in messages if one.role == "user"]
        # The first of equals: what an edit has not made better is taken back.
        best = max(range(len(reports)), key=lambda number: (_rank(reports[number]), -number))
        kernel = self.repertoire.written[said[best]]
        edits = [one for one in self.repertoire.edits(kernel, rng) if _canonical(one.after) not in said]
        if not edits:
            return await Generator(self.repertoire).respond(messages, seed=seed, max_tokens=max_tokens)
        if self.obeys:
            edits = pointed_to(edits, reports[best])
        return self.repertoire.answer(rng.choice(edits).after)


def _said(messages: Sequence[Message]) -> list[str]:
    """All kernels of a view, in order."""
    blocks = (block for one in messages for block in re.findall(r"```cuda\n.*?\n```", one.text, re.DOTALL))
    return [canonical_source(str(extract(block).source)) for block in blocks]


def _report(message: Message) -> str:
    """Without the notes that follow it: target, what was tried, and what failed before."""
    return message.text.partition("Report:\n")[2].partition("\nTarget:")[0]


def _canonical(kernel: Written) -> str:
    return canonical_source(str(kernel.source))


def _rank(report: str) -> int:
    """Right, wrong, or not even run."""
    return 2 if report.startswith("passed") else 0 if re.match("compile_error|invalid_submission", report) else 1


CLUES: Final = (
    ("Guard the access", "guard|bound|tail"),
    ("never written|ever written", "grid|launch line|within the block|each block|no tail"),
    ("every element must be written", "grid|launch line|no tail"),
    ("semicolon", "semicolon"),
    ("no kernel named", "launch of another name"),
    ("declared but never referenced", "undeclared"),
    ("No trial has passed", "formula|divided|left out|summed|over the warp|starts at|rows for columns"),
    ("never set", "cleared"),
    ("large inputs", "maximum"),
    ("neighbouring threads", "warp"),
)
"""Words of a report, and words of the edits that they point to."""


def pointed_to(edits: Sequence[Edit], report: str) -> list[Edit]:
    """The edits for which most of a report's words speak: of a wrong kernel repairs, of a right one other styles."""
    wanted = [edit for edit in edits if edit.rewrites is report.startswith("passed")] or list(edits)
    lines = {int(number) for number in re.findall(r"\bline (\d+)", report)}
    names = re.findall(r'"(\w+)"', report)

    def votes(edit: Edit) -> int:
        clues = sum(bool(re.search(said, report) and re.search(means, edit.text)) for said, means in CLUES)
        named = any(re.search(rf"\b{name}\b", edit.text) for name in names)
        near = any(abs(line - number) <= 1 for line in edit.lines for number in lines)
        return 2 * clues + named + near + bool(edit.lines & lines)

    most = max(map(votes, wanted))
    return [edit for edit in wanted if votes(edit) == most]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prompts", type=int, default=80, help="held-out prompts of each set of problems")
    parser.add_argument("--right-shares", type=float, nargs="+", default=[0.5, 0.1], help="of kernels written anew")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="of the service")
    given = parser.parse_args()
    with served(given.workers) as service:
        played = asyncio.run(all_played(service.url, given.prompts, given.right_shares))
    figures: dict[str, float] = {}
    for (name, share), talks in played.items():
        figures |= figures_of(f"{name}_{round(100 * share)}", talks)
    best = {
        f"{name}, {share:.0%} right": {kind: [best_so_far(one) for one in each] for kind, each in talks.items()}
        for (name, share), talks in played.items()
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    draw(best, RESULTS / "turns_oracle.svg")
    save("turns_oracle", figures, {}, device="no GPU", details={"sets": SETS, "best": best})


Talks = Mapping[str, Sequence[Conversation]]
"""Conversations by kind of Optimizer, prompt by prompt."""


async def all_played(url: str, prompts: int, shares: Sequence[float]) -> dict[tuple[str, float], Talks]:
    """By set of problems and share of right kernels."""
    found: dict[tuple[str, float], Talks] = {}
    async with EvaluatorOracle(AsyncClient(url)) as oracle:
        faces = await oracle.problems()
        for name, problems in SETS.items():
            config = load_config(
                "cpu-demo", [f"tasks.problems=[{','.join(problems)}]", "evaluator.verification=quick"]
            )
            tasks = held_out_tasks(chosen(faces, problems), prompts, wording=config.tasks.wording)
            # All kernels are counted, also of conversations that began well.
            settings = replace(episode_settings(config), flow=Flow(KERNELS, 2.0))
            for share in shares:
                found[name, share] = {kind: await talked(kind, tasks, oracle, settings, share) for kind in OPTIMIZERS}
                print(f"{name}, {share:.0%} right: played.", flush=True)
    return found


async def talked(
    kind: str, tasks: Sequence[Task], oracle: Oracle, settings: EpisodeSettings, share: float
) -> list[Conversation]:
    """One conversation for each task."""
    repertoire = Repertoire({task.text: task.problem for task in tasks}, share)
    first = Generator(repertoire)
    policies: dict[AgentName, Policy] = {
        AgentName.GENERATOR: first,
        AgentName.OPTIMIZER: first if kind == "ignores" else Optimizer(repertoire, kind == "obeys"),
    }
    played = await play_many(list(zip(tasks, range(len(tasks)), strict=True)), policies, oracle, settings)
    if played.faults:
        raise SystemExit(f"{played.faults} evaluations failed on our side; the comparison would be of other prompts.")
    return list(played.whole)


def best_so_far(talk: Conversation) -> list[float]:
    """The best reward after each number of kernels, up to `KERNELS`; a conversation that ended keeps its best."""
    found, best = [], 0.0
    for number in range(KERNELS):
        if number < len(talk.attempts):
            best = max(best, talk.attempts[number].value or 0.0)
        found.append(best)
    return found


def right_by(talk: Conversation, kernels: int) -> bool:
    """Whether one of the first kernels is right."""
    return any(attempt.passed for attempt in talk.attempts[:kernels])


def figures_of(name: str, talks: Talks) -> dict[str, float]:
    """What each kind of Optimizer reaches, and the differences, of all prompts and of those that began wrong."""
    prompts = range(len(talks["ignores"]))
    wrong = [place for place in prompts if not talks["ignores"][place].attempts[0].passed]
    figures = {f"{name}_prompts": float(len(prompts)), f"{name}_began_wrong": float(len(wrong))}
    most: dict[str, float] = {}
    for each in talks.values():
        for talk in each:
            most[talk.task.problem] = max(most.get(talk.task.problem, 0.0), best_so_far(talk)[-1])
    figures[f"{name}_most"] = fmean(most[talk.task.problem] for talk in talks["ignores"])
    rewards = {kind: [best_so_far(talk)[-1] for talk in each] for kind, each in talks.items()}
    figures[f"{name}_first_reward"] = fmean(best_so_far(talk)[0] for talk in talks["ignores"])
    for kind, each in talks.items():
        figures[f"{name}_{kind}_reward"] = fmean(rewards[kind])
        for kernels in (2, KERNELS):
            figures[f"{name}_{kind}_right_by_{kernels}"] = fmean(right_by(talk, kernels) for talk in each)
        if wrong:
            figures[f"{name}_{kind}_mended_next"] = fmean(right_by(each[place], 2) for place in wrong)
    for other in ("ignores", "at_random"):
        for places, said in ((prompts, ""), (wrong, "_began_wrong")):
            differences = [rewards["obeys"][place] - rewards[other][place] for place in places]
            found = bootstrap_interval(differences) if differences else None
            if found is not None:
                title = f"{name}_obeys_over_{other}{said}"
                figures |= {title: fmean(differences), f"{title}_low": found[0], f"{title}_high": found[1]}
    return figures


def draw(best: Mapping[str, Mapping[str, Sequence[Sequence[float]]]], path: Path) -> None:
    """The best reward after each number of kernels, by title and kind of Optimizer."""
    with mpl.rc_context({"font.size": 9, "axes.titlesize": 9, "svg.fonttype": "none", "svg.hashsalt": "assay"}):
        figure = Figure(figsize=(2.0 * len(best) + 0.4, 2.6), layout="constrained")
        for axes, (title, kinds) in zip(figure.subplots(1, len(best), squeeze=False)[0], best.items(), strict=True):
            for kind, each in kinds.items():
                means = [fmean(column) for column in zip(*each, strict=True)]
                axes.plot(range(1, KERNELS + 1), means, "o-", ms=3, color=_COLOURS[kind], lw=1.3, label=_SAID[kind])
            axes.set_title(title, loc="left", fontweight="bold")
            axes.set_xlabel("Kernels")
            axes.set_xticks(range(1, KERNELS + 1))
            axes.set_ylim(0, None)
            axes.grid(color="#e3e6ea", linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
        figure.axes[0].set_ylabel("Best reward so far")
        figure.axes[0].legend(frameon=False, loc="lower right")
        figure.savefig(path, metadata=None if path.suffix == ".png" else {"Date": None})


if __name__ == "__main__":
    main()
