"""A conversation in verl's agent loop: servers that follow a script, and a Tester that is a model."""

import asyncio
import pickle
from types import SimpleNamespace

import pytest
from ray.exceptions import ActorDiedError, RayTaskError
from scripted import TASK, Judge, Script, kernel

from trainer.config.reading import load_config
from trainer.conversation.conversation import AgentName, Message
from trainer.conversation.extraction import wrapped
from trainer.errors import OracleError, OracleLostError, PolicyError
from trainer.policies import models
from trainer.rl.agent_loop import (
    AgentPool,
    AgentSlot,
    ConversationLoop,
    ConversationWorker,
    failed_result,
    settings_of,
)
from trainer.rl.ray_session import ProcessLostError

SETTINGS = ("agents.optimizer={}", "flow.max_turns=2", "rollout.turn_tokens=400", "rollout.sequence_tokens=9000")


class Server:
    """Answers as verl's client of a server does, with one text over and over."""

    def __init__(self, ids):
        self.ids, self.asked = ids, []

    async def generate(self, *, request_id, prompt_ids, sampling_params):
        self.asked.append(request_id)
        return SimpleNamespace(token_ids=list(self.ids), log_probs=[-0.5] * len(self.ids))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    models.make_tiny(folder, [wrapped(kernel("wrong_a"))], seed=0)
    return models.load_model(folder)[1]


def converse(tokenizer, answer, tester):
    config = load_config("cpu-demo", list(SETTINGS))
    server = Server(tokenizer.encode(answer, add_special_tokens=False))
    pool = AgentPool(config, dict.fromkeys(config.roles, server), dict.fromkeys(config.roles, tokenizer), tester)
    pool.oracle = Judge()
    slot = AgentSlot("u", 0, TASK, seed=3, step=1)
    finished = asyncio.run(ConversationLoop(pool).run({}, seat=slot))
    return finished, [turn for turn in finished.conversation.turns if turn.agent is AgentName.TESTER]


def test_a_tester_that_is_a_model_is_asked_about_a_kernel_once(tokenizer):
    tester = Script(["Nothing is summed.\nLine 3."])
    finished, (first, again) = converse(tokenizer, wrapped(kernel("wrong_a")), tester)
    assert len(tester.views) == 1
    assert first.verdict.status == "incorrect"
    assert first.response.token_ids
    assert "Nothing is summed." in first.report
    assert again.response is None, "the Optimizer has written the same kernel"
    assert all(len(one.rewards) == len(one.response_ids) for one in finished.sequences)


def test_where_there_is_no_kernel_nobody_asks_a_model_what_is_wrong_with_it(tokenizer):
    tester = Script(["Nothing is summed."])
    _, turns = converse(tokenizer, "I cannot do that.", tester)
    assert turns
    assert all(turn.verdict is None and turn.response is None for turn in turns)
    assert not tester.views


def test_without_such_a_model_the_rules_alone_report(tokenizer):
    _, turns = converse(tokenizer, wrapped(kernel("wrong_a")), None)
    assert all(turn.response is None and turn.report for turn in turns)


OWN_FAULT = RuntimeError("a fault of the loop's own")
NO_MEMORY = PolicyError("transformers could not generate: CUDA out of memory", "Lower rollout.concurrency.")


@pytest.mark.parametrize(
    ("error", "fatal", "said"),
    [
        (ActorDiedError(), ProcessLostError, "A process of the run died"),
        (RayTaskError("generate", "a stack", ActorDiedError()).as_instanceof_cause(), ProcessLostError, "run died"),
        (RayTaskError("generate", "a stack", NO_MEMORY).as_instanceof_cause(), PolicyError, "CUDA out of memory"),
        (OracleLostError("it stays away"), OracleLostError, "it stays away"),
        (OracleError("its disk is full"), None, "its disk is full"),
        (OWN_FAULT, None, "RuntimeError: a fault of the loop's own"),
    ],
)
def test_a_server_that_dies_or_has_no_memory_ends_the_run_and_one_conversation_does_not(error, fatal, said):
    result = pickle.loads(pickle.dumps(failed_result(AgentSlot("u", 0, TASK, seed=0, step=1), error)))
    assert (None if result.fatal is None else type(result.fatal)) is fatal
    assert said in (result.failure or result.left_out)
    assert "a stack" not in (result.failure or result.left_out)
    assert (result.left_out is None) is not isinstance(error, OracleError)
    assert fatal in (None, OracleLostError) or result.fatal.remedy, "what to do comes over from the worker"


@pytest.mark.parametrize(("agents", "single"), [("{}", 2), ("null", 1)])
def test_a_run_begins_with_one_kernel_of_each_agent_for_as_many_steps_as_it_is_told(agents, single):
    told = [f"agents.optimizer={agents}", "flow.max_turns=4", "flow.single_turn_steps=3"]
    config = load_config("cpu-demo", [*told, "rollout.sequence_tokens=2048"])

    def turns(step, evaluating=False):
        return settings_of(config, AgentSlot("u", 0, TASK, seed=0, step=step, evaluating=evaluating)).flow.max_turns

    assert [turns(step) for step in (1, 3, 4, 99)] == [single, single, 4, 4]
    assert turns(1, evaluating=True) == 4, "what is measured is what will be played"
    assert settings_of(config, AgentSlot("u", 0, TASK, seed=0, step=1)).flow.stop_at == config.flow.early_stop_share


def test_an_agents_requests_have_one_id_in_a_conversation_and_another_in_every_other(tokenizer):
    """verl sends what has one id to one server."""
    config = load_config("cpu-demo", list(SETTINGS))
    server = Server(tokenizer.encode("I cannot do that.", add_special_tokens=False))
    pool = AgentPool(
        config, {"generator": server, "optimizer": Server(server.ids)}, dict.fromkeys(config.roles, tokenizer)
    )
    slots = [AgentSlot(uid, candidate, TASK, seed=3, step=1) for uid in ("1.0.0", "1.0.1") for candidate in (0, 1)]
    messages = (Message("user", "Write a kernel."),)
    later = (*messages, Message("assistant", "No."), Message("user", "Again."))

    async def ask():
        for slot in slots:
            for view in (messages, later):
                policy = pool.policies(slot)[AgentName.GENERATOR]
                await policy.respond(view, seed=3, max_tokens=8)

    asyncio.run(ask())
    firsts, seconds = server.asked[::2], server.asked[1::2]
    assert firsts == seconds
    assert len(set(firsts)) == len(slots)


def test_a_worker_counts_right_kernels_where_it_is_told_and_says_where():
    worker = object.__new__(ConversationWorker)
    worker._config = load_config("cpu-demo", list(SETTINGS))
    worker._key, worker._oracle, worker._ran_on = None, None, {"relu": "gpu"}
    worker._company = AgentPool(worker._config, {}, {})
    assert asyncio.run(worker.play([]))[2] == {"relu": "gpu"}
    assert worker._company.oracle.ran_on == {"relu": "gpu"}
