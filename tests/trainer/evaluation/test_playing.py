"""Systems asked, stopped in the middle, and asked on: scripts and a judge whose answers are known."""

import asyncio
from contextlib import contextmanager

import pytest
from evaluated import SETTINGS, task
from scripted import Judge, Script, kernel

from trainer.conversation.conversation import AgentName, EndReason, Flow
from trainer.conversation.extraction import wrapped
from trainer.errors import ContextFullError, OracleError, OracleLostError
from trainer.evaluation import playing
from trainer.evaluation.answers import Answers
from trainer.evaluation.measures import could_not_be_asked
from trainer.evaluation.playing import PlayPlan, play_system, seed_of
from trainer.evaluation.systems import System, TemplateSettings

TASKS = [task(number) for number in range(4)]
PLAN = PlayPlan(seed=3, samples=2, concurrency=1)
ONE = System("one", "a script", Flow(1, single_agent=True), templates=TemplateSettings())


class Faulty(Judge):
    """Raises what stands for the number of an evaluation."""

    def __init__(self, faults):
        super().__init__()
        self.faults = faults

    async def evaluate(self, submission):
        found = await super().evaluate(submission)
        if (fault := self.faults.get(len(self.sources))) is not None:
            raise fault
        return found


def play(folder, oracle, monkeypatch, system=ONE, plan=PLAN, told=None):
    script = Script([wrapped(kernel("pass_a"))])

    @contextmanager
    def opened(*asked, **more):
        yield {AgentName.GENERATOR: script}

    monkeypatch.setattr(playing, "opened", opened)
    answers = Answers(folder, {"seed": "3"}, {system.name: system.identity})
    tell = (told if told is not None else []).append
    try:
        asyncio.run(play_system(system, TASKS, answers, oracle, SETTINGS, plan, tell))
    finally:
        found = answers.of(system.name)
    return found, script


def test_every_task_is_asked_so_many_times_with_seeds_of_its_own(tmp_path, monkeypatch):
    oracle, told = Judge(), []
    found, script = play(tmp_path, oracle, monkeypatch, told=told)
    assert set(found) == {(one.id, sample) for one in TASKS for sample in range(2)}
    assert len(set(script.seeds)) == 8
    assert [answer.conversation.seed for answer in found.values()] == [
        seed_of(3, one, sample) for sample in range(2) for one in TASKS
    ]
    assert told[-1] == "one: 8 of 8 conversations, 8 with a right kernel."
    again, script = play(tmp_path, oracle, monkeypatch)
    assert (again.keys(), script.seeds) == (found.keys(), []), "nothing is asked twice"


def test_what_was_stopped_asks_only_what_is_missing(tmp_path, monkeypatch):
    lost = OracleLostError("The evaluator is gone", "Start it.")
    with pytest.raises(OracleLostError):
        play(tmp_path, Faulty({4: lost}), monkeypatch)
    found, script = play(tmp_path, Judge(), monkeypatch)
    assert (len(found), len(script.seeds)) == (8, 5)


def test_a_fault_is_kept_as_one_and_asked_again_the_next_time(tmp_path, monkeypatch):
    found, _ = play(tmp_path, Faulty({2: OracleError("busy"), 5: OracleError("busy")}), monkeypatch)
    faults = [key for key, answer in found.items() if answer.conversation is None]
    assert faults == [(TASKS[1].id, 0), (TASKS[0].id, 1)]
    assert found[faults[0]].fault == "busy"
    again, script = play(tmp_path, Judge(), monkeypatch)
    assert len(script.seeds) == 2
    assert all(answer.conversation is not None for answer in again.values())


def test_a_task_that_does_not_fit_into_a_context_ends_nothing_and_is_not_asked_again(tmp_path, monkeypatch):
    class Narrow(Script):
        async def respond(self, messages, **more):
            answer = await super().respond(messages, **more)
            if TASKS[1].text in messages[-1].text:
                raise ContextFullError("The view has 70 tokens, and the model sees 64.")
            return answer

    monkeypatch.setattr("test_playing.Script", Narrow)
    found, _ = play(tmp_path, Judge(), monkeypatch)
    assert len(found) == 8
    unasked = {key for key, answer in found.items() if could_not_be_asked(answer)}
    assert unasked == {(TASKS[1].id, 0), (TASKS[1].id, 1)}
    assert all(found[key].conversation.ended is EndReason.NO_ROOM for key in unasked)
    again, script = play(tmp_path, Judge(), monkeypatch)
    assert (script.seeds, again.keys()) == ([], found.keys())


def test_seeds_hang_on_task_and_sample_alone():
    seeds = {seed_of(3, one, sample) for one in TASKS for sample in range(50)}
    assert len(seeds) == 200
    assert all(0 <= seed < 1 << 31 for seed in seeds)
    assert seed_of(3, TASKS[0], 1) == seed_of(3, TASKS[0], 1) != seed_of(4, TASKS[0], 1)
