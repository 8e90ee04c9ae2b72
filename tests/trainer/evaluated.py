"""Answers of scripted systems whose outcomes are known, for tests of what is made of them."""

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path

import sample_verdicts as samples
from scripted import KINDS, Script, kernel

from trainer.conversation.conversation import AgentName, Conversation, EndReason, Flow
from trainer.conversation.episode import EpisodeSettings, Judged, play
from trainer.conversation.extraction import wrapped
from trainer.data.tasks import Task
from trainer.evaluation.answers import Answer
from trainer.evaluation.summary import SystemAnswers, report_of
from trainer.evaluation.systems import AgentModel, System
from trainer.evaluation.task_sets import TaskSet

SETTINGS = EpisodeSettings(turn_tokens=10_000, flow=Flow(3, single_agent=True))


def task(number, problem="row_sum"):
    return Task(f"{problem}-{number}", problem, 1, f"Write kernel {number} for {problem}.", held_out=True)


def timed(speedup=1.62, **baselines_us):
    """A verdict of a GPU; `baselines_us`: of a problem that someone else states."""
    found = samples.passed_on_gpu()
    timing = samples.timing(speedup=speedup, speedup_low=0.9 * speedup, speedup_high=1.1 * speedup)
    if baselines_us:
        made = tuple({"name": name, "latency_us": time_us, "launches": 60} for name, time_us in baselines_us.items())
        timing = type(timing).model_validate(timing.model_dump() | {"baselines": made})
    return found.model_copy(update={"timing": timing})


def estimated(speedup):
    found = samples.passed()
    return found.model_copy(update={"profile": found.profile.model_copy(update={"estimated_speedup": speedup})})


def on_gpu(verdict):
    return verdict.model_copy(update={"backend": "gpu"})


@dataclass
class Book:
    """An oracle that gives the verdict that is written beside a kernel's name."""

    verdicts: dict = field(default_factory=dict)

    async def evaluate(self, submission):
        await asyncio.sleep(0)
        named = next((name for name in self.verdicts if f"{name}(" in submission.source), None)
        return Judged(self.verdicts[named] if named else samples.incorrect(), "ev_1")


def answered(asked, *kernels, sample=0, system="one", settings=SETTINGS):
    """What a system answered to a task. `kernels`: verdicts, names of `scripted.KINDS`, or texts without a kernel
    that begin with a space.
    """
    book, texts = Book(), []
    for number, one in enumerate(kernels):
        if isinstance(one, str) and (one.startswith(" ") or not one):
            texts.append(one)
            continue
        name = f"kernel_{number}"
        book.verdicts[name] = KINDS[one]() if isinstance(one, str) else one
        texts.append(wrapped(kernel(name)))
    settings = replace(settings, flow=replace(settings.flow, max_turns=len(texts)))
    policies = {AgentName.GENERATOR: Script(texts), AgentName.OPTIMIZER: Script(texts[1:] or texts)}
    talk = asyncio.run(play(asked, policies, book, settings, 7, clock=lambda: 5.0))
    return Answer(system, asked.id, sample, talk)


def failed(asked, sample=0, system="one"):
    return Answer(system, asked.id, sample, None, "the evaluator was down")


def unasked(asked, sample=0, system="one"):
    """A task whose prompt does not fit into the model's context."""
    talk = Conversation(f"{asked.id}-7", asked, SETTINGS.flow, 7).stop(EndReason.NO_ROOM)
    return Answer(system, asked.id, sample, talk)


def system_named(name, *, models=1):
    agents = (AgentName.GENERATOR, AgentName.OPTIMIZER)[:models]
    return System(
        name,
        f"made for a test: {name}",
        Flow(3, single_agent=models < 2),
        {agent: AgentModel(Path("models") / agent, "ab" * 32, 1_100_000) for agent in agents},
    )


def reported(answers, tasks, *, families=(), **more):
    """The report of systems, by name."""
    sets = [TaskSet("wordings", tuple(tasks)), *([TaskSet("families", tuple(families))] if families else ())]
    played = [SystemAnswers(system_named(name), tuple(each)) for name, each in answers.items()]
    told = {"evaluator": "0.1.0", "verification": "full"}
    given = {"samples": 1, "temperature": 1.0, "ks": (1,), **more}
    return report_of(played, sets, evaluator="0.1.0", settings=told, **given)
