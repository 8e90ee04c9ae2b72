"""Whole episodes against a real evaluator, played by scripts; it is also killed under them."""

import asyncio
import threading
import time

import pytest
from scripted import Judge, Recording, Script, kernel, without_times
from serving import Serving
from small_service import Road

from common.client import AsyncClient
from common.contract import Settings, Status
from evaluator.problems.catalogue import problems
from trainer.config.schema import TrainingConfig
from trainer.conversation import prompts
from trainer.conversation.conversation import AgentName, Conversation, EndReason, Flow, Response
from trainer.conversation.episode import EpisodeSettings, episode_settings, play, play_many
from trainer.conversation.extraction import wrapped
from trainer.conversation.rewards import CreditSettings, credits_of
from trainer.conversation.tester import ReportSettings, estimated_tokens
from trainer.data.tasks import chosen, training_tasks
from trainer.errors import ConfigurationError, ContextFullError, OracleError, OracleLostError
from trainer.evaluator.oracle import EvaluatorOracle, OracleSettings

NAIVE = problems()["relu"].naive.source
FAST = problems()["relu"].fast.source
WRONG = NAIVE.replace("i < n", "i < n - 1")
BROKEN = NAIVE.replace(";", "", 1)
SETTINGS = EpisodeSettings(
    grading=Settings(verification="quick", estimate_for="H100"), backend="sim", turn_tokens=4000
)


@pytest.fixture(scope="module")
def task(faces):
    return training_tasks(chosen(faces, ("relu",)), 1)[0]


def both(*answers):
    """The Generator gives the first, the Optimizer the others in turn."""
    return {AgentName.GENERATOR: Script(list(answers[:1])), AgentName.OPTIMIZER: Script(list(answers[1:]))}


def run(url, task, policies, settings=SETTINGS, seed=0, patience_s=60):
    async def whole():
        async with EvaluatorOracle(AsyncClient(url, patience_s=patience_s)) as oracle:
            return await play(task, policies, oracle, settings, seed)

    return asyncio.run(whole())


def test_a_whole_episode_from_garbage_to_a_fast_kernel(service, task):
    answers = ["I would rather not.", wrapped(BROKEN), wrapped(WRONG), wrapped(NAIVE), wrapped(FAST)]
    conversation = run(service.url, task, both(*answers))
    statuses = [attempt.verdict.status if attempt.verdict else None for attempt in conversation.attempts]
    assert statuses == [None, Status.COMPILE_ERROR, Status.INCORRECT, Status.PASSED, Status.PASSED]
    values = [attempt.value for attempt in conversation.attempts]
    assert values == sorted(values)
    assert conversation.final_reward == values[-1] > 0.5
    assert conversation.ended in (EndReason.MAX_TURNS, EndReason.GOOD_ENOUGH)
    for attempt in conversation.attempts:
        verdict = attempt.verdict
        assert attempt.tested.report
        if verdict is None:
            assert attempt.tested.evaluation_id is None
            continue
        assert attempt.tested.evaluation_id
        assert 0 < attempt.tested.oracle_s <= attempt.tested.duration_s
        # The trainer reckons the reward from the verdict's facts; it is the evaluator's own.
        assert attempt.reward == verdict.reward
    reports = [attempt.tested.report for attempt in conversation.attempts]
    assert "no fenced block" in reports[0]
    assert "kernel.cu:" in reports[1]
    assert "never written" in reports[2]
    assert "times as fast as a simple kernel" in reports[3]
    assert conversation.turns[2].messages[1].text.startswith(task.text)
    credits = credits_of(conversation, CreditSettings())
    assert all(credit is not None for credit in credits)
    recording = Recording(conversation)
    agents = dict.fromkeys((AgentName.GENERATOR, AgentName.OPTIMIZER), recording)
    again = asyncio.run(play(task, agents, recording, SETTINGS, 0, conversation_id=conversation.id))
    assert without_times(again) == without_times(conversation)


def test_one_agent_can_take_every_turn_and_copying_ends_it(service, task):
    settings = EpisodeSettings(Flow(single_agent=True), grading=SETTINGS.grading, backend="sim", turn_tokens=4000)
    script = Script([wrapped(WRONG), wrapped(NAIVE), wrapped("// faster now\n" + NAIVE)])
    conversation = run(service.url, task, {AgentName.GENERATOR: script}, settings)
    assert conversation.ended is EndReason.REPEATED
    assert [attempt.passed for attempt in conversation.attempts] == [False, True, True]
    assert {turn.agent for turn in conversation.turns[::2]} == {AgentName.GENERATOR}


def test_models_that_say_nothing_or_never_stop_are_turns_like_others(service, task):
    settings = EpisodeSettings(Flow(4), grading=SETTINGS.grading, backend="sim", turn_tokens=300)
    endless = "```cuda\n" + "__global__ void k() { /* and so on */ }\n" * 1000
    conversation = run(service.url, task, both("", endless, "<think>" + "hm " * 5000, "\x00\x01\x02"), settings)
    problems_said = [attempt.written.format_problem for attempt in conversation.attempts]
    assert "empty" in problems_said[0]
    assert "length limit" in problems_said[1]
    assert "reasoning" in problems_said[2]
    assert all(attempt.value == 0 for attempt in conversation.attempts)
    assert conversation.ended is EndReason.MAX_TURNS
    assert all(len(turn.response.token_ids) <= 300 for turn in conversation.turns[::2])


def test_an_evaluator_that_is_killed_in_mid_step_changes_nothing(tmp_path, faces, toolbox):
    tasks = training_tasks(chosen(faces, ("relu", "vector_add")), 3)
    asked = [(task, number) for number, task in enumerate(tasks)]
    serving = Serving(tmp_path)
    road = Road(serving.start())

    def answers(problem):
        naive = problems()[problem].naive.source
        return both(wrapped(naive.replace("i < n", "i < n - 1")), wrapped(naive))

    async def step(url, told):
        async with EvaluatorOracle(AsyncClient(url, patience_s=120), OracleSettings(concurrency=4)) as oracle:
            await oracle.wait_until_ready(lambda said: None)
            found = {}
            for problem in ("relu", "vector_add"):
                mine = [one for one in asked if one[0].problem == problem]
                settings = EpisodeSettings(Flow(2), grading=SETTINGS.grading, backend="sim", turn_tokens=4000)
                played = await play_many(mine, answers(problem), oracle, settings, concurrency=4, done=told)
                assert played.faults == 0
                found[problem] = played.whole
            return [[attempt.value for attempt in one.attempts] for ones in found.values() for one in ones], oracle

    try:
        with road.open() as url:
            killing = []

            def kill_once(index, conversation):
                if not killing:
                    killing.append(threading.Thread(target=again))
                    killing[0].start()

            def again():
                serving.kill()
                time.sleep(1)
                road.port = serving.start()

            disturbed, oracle = asyncio.run(step(url, kill_once))
            killing[0].join()
            undisturbed, _ = asyncio.run(step(url, None))
        assert oracle.counts.faults == 0
        assert disturbed == undisturbed
        assert all(right > wrong for wrong, right in disturbed)
    finally:
        serving.stop()


def test_many_are_played_in_order_and_what_fails_on_our_side_is_left_out(task):
    class Sometimes(Judge):
        async def evaluate(self, submission):
            if "wrong_1" in submission.source:
                raise OracleError("the disk is full", evaluation_id="ev_9")
            return await super().evaluate(submission)

    class Named:
        async def respond(self, messages, *, seed, max_tokens):
            return Response(wrapped(kernel(f"wrong_{int(messages[-1].text[-1])}")))

    asked = [(task_named(task, number), number) for number in (0, 1, 2, 1)]
    settings = EpisodeSettings(Flow(1, single_agent=True))
    seen = []
    played = asyncio.run(
        play_many(
            asked,
            {AgentName.GENERATOR: Named()},
            Sometimes(),
            settings,
            concurrency=2,
            done=lambda index, one: seen.append(index),
        )
    )
    assert [isinstance(one, Conversation) for one in played.conversations] == [True, False, True, False]
    assert (played.faults, len(played.whole), sorted(seen)) == (2, 2, [0, 1, 2, 3])
    assert played.conversations[1].evaluation_id == "ev_9"
    assert [one.task.text[-1] for one in played.whole] == ["0", "2"]


def task_named(task, number):
    return type(task)(f"{task.id}-{number}", task.problem, task.tier, f"Task {number}", held_out=False)


def test_a_lost_oracle_ends_them_all(task):
    class Lost:
        async def evaluate(self, submission):
            raise OracleLostError("too many faults")

    settings = EpisodeSettings(Flow(1))
    policies = both(wrapped(NAIVE))
    with pytest.raises(OracleLostError, match="too many"):
        asyncio.run(play_many([(task, 0), (task, 1)], policies, Lost(), settings))


def test_a_context_that_is_full_ends_a_conversation_but_not_the_first_turn(task):
    class Small(Script):
        async def respond(self, messages, *, seed, max_tokens):
            if len(messages) > self.most:
                raise ContextFullError("4,000 tokens are 200 too many")
            return await super().respond(messages, seed=seed, max_tokens=max_tokens)

    settings = EpisodeSettings(Flow(5, single_agent=True), turn_tokens=4000)
    small = Small([wrapped(kernel("wrong_0")), wrapped(kernel("wrong_1")), wrapped(kernel("wrong_2"))])
    small.most = 4
    conversation = asyncio.run(play(task, {AgentName.GENERATOR: small}, Judge(), settings, 0))
    assert conversation.ended is EndReason.NO_ROOM
    assert len(conversation.attempts) == 2
    assert len(credits_of(conversation, CreditSettings())) == 2
    small.most = 1
    with pytest.raises(ConfigurationError, match="no room for an answer") as caught:
        asyncio.run(play(task, {AgentName.GENERATOR: small}, Judge(), settings, 0))
    assert "rollout.prompt_tokens" in caught.value.remedy


def test_a_tester_that_is_a_model_adds_words_and_decides_nothing(task):
    answers = [wrapped(kernel("wrong_0")), "nothing", wrapped(kernel("wrong_1"))]
    settings = EpisodeSettings(Flow(3), turn_tokens=4000)
    by_rules = asyncio.run(play(task, both(*answers), Judge(), settings, 0))
    model = Script(["Guard the tail in line 3.\n\nThen use float4."])
    policies = {**both(*answers), AgentName.TESTER: model}
    conversation = asyncio.run(play(task, policies, Judge(), settings, 0))
    assert [a.reward for a in conversation.attempts] == [a.reward for a in by_rules.attempts]
    assert [a.verdict for a in conversation.attempts] == [a.verdict for a in by_rules.attempts]
    first, second, third = (attempt.tested.report for attempt in conversation.attempts)
    status = by_rules.attempts[0].tested.report.split("\n")[0]
    assert first == f"{status}\nGuard the tail in line 3.\nThen use float4."
    assert second == by_rules.attempts[1].tested.report, "there is no kernel to say anything about"
    assert third == by_rules.attempts[2].tested.report, "nobody reads it any more"
    assert first in conversation.turns[2].messages[-1].text
    findings = by_rules.attempts[0].tested.report
    assert model.views == [prompts.review(task, kernel("wrong_0"), findings)]
    assert kernel("wrong_0") in model.views[0][1].text
    assert findings in model.views[0][1].text
    recording = Recording(conversation)
    again = asyncio.run(play(task, dict.fromkeys(AgentName, recording), recording, settings, 0))
    assert without_times(again) == without_times(conversation)


def test_a_tester_that_is_a_model_is_asked_about_each_kernel_anew_and_in_the_room_of_a_report(task):
    answers = [wrapped(kernel(name)) for name in ("wrong_0", "compile_0", "odd_0", "pass_0", "wrong_1")]
    settings = EpisodeSettings(Flow(5, stop_at=2.0), tester=ReportSettings(40), turn_tokens=4000)
    model = Script(["line 3. " * 100])
    policies = {**both(*answers), AgentName.TESTER: model}
    conversation = asyncio.run(play(task, policies, Judge(), settings, 0))
    assert [len(view) for view in model.views] == [2, 2, 2]
    asked = [attempt for attempt in conversation.attempts if attempt.tested.response is not None]
    assert [attempt.number for attempt in asked] == [0, 1, 3], "not what could not be judged, nor the last kernel"
    for attempt, view in zip(asked, model.views, strict=True):
        assert attempt.written.source in view[1].text
        assert len(attempt.tested.response.token_ids) == 40
        assert estimated_tokens(attempt.tested.report) <= 40
    recording = Recording(conversation)
    again = asyncio.run(play(task, dict.fromkeys(AgentName, recording), recording, settings, 0))
    assert without_times(again) == without_times(conversation)


def test_who_is_missing_is_said(task):
    with pytest.raises(ConfigurationError, match="no policy for the optimizer"):
        asyncio.run(play(task, {AgentName.GENERATOR: Script(["no"])}, Judge(), EpisodeSettings(), 0))


def test_a_configuration_says_how_episodes_go():
    settings = episode_settings(TrainingConfig())
    assert settings.flow == Flow()
    assert set(settings.rewards) == {AgentName.GENERATOR, AgentName.OPTIMIZER}
    one = episode_settings(
        TrainingConfig.model_validate(
            {
                "agents": {"optimizer": None},
                "reward": {"name": "gated", "target_speedup": 3, "format_error": -0.5},
                "flow": {"max_turns": 2, "report_tokens": 50},
                "evaluator": {"backend": "sim", "verification": "quick"},
                "tasks": {"wording": "brief"},
            }
        )
    )
    assert one.flow == Flow(2, single_agent=True)
    reward = one.reward_of(AgentName.GENERATOR)
    assert (reward.name, reward.format_error) == ("gated", -0.5)
    assert one.reward_of(AgentName.OPTIMIZER) == reward, "two agents may be played with this configuration as well"
    assert (one.grading.target_speedup, one.backend, one.wording, one.tester.report_tokens) == (3, "sim", "brief", 50)
