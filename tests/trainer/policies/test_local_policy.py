"""A policy in this process, on a real model of two layers: what it generates."""

import asyncio
from types import SimpleNamespace

import pytest
import torch
from scripted import TASK, Judge, Script, kernel

from trainer.config.schema import TrainingConfig
from trainer.conversation.conversation import AgentName, Flow, Message
from trainer.conversation.episode import EpisodeSettings, play
from trainer.conversation.extraction import wrapped
from trainer.errors import ConfigurationError, ContextFullError
from trainer.policies import models
from trainer.policies.local_policy import LocalPolicy, SamplingSettings, model_tester

SHAPE = models.ModelShape(vocabulary=300, hidden=32, layers=2, heads=2, intermediate=64, context_tokens=64)
ASKED = (Message("user", "Write a kernel."),)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("models") / "tiny"
    models.make_tiny(made, ["a kernel\n", "write { a } kernel;"], seed=3, shape=SHAPE)
    return made


def answers(agent, seeds, messages=ASKED, max_tokens=12):
    async def all_of_them():
        return await asyncio.gather(*(agent.respond(messages, seed=seed, max_tokens=max_tokens) for seed in seeds))

    return asyncio.run(all_of_them())


@torch.no_grad()
def log_probs(agent, response):
    """Of an answer's tokens, in one pass over all of it."""
    ids = torch.tensor([[*response.prompt_token_ids, *response.token_ids]])
    first = len(response.prompt_token_ids)
    scores = agent.model(input_ids=ids).logits[0, first - 1 : -1].float() / agent.settings.temperature
    return torch.log_softmax(scores, dim=-1).gather(1, ids[0, first:].unsqueeze(1)).squeeze(1)


def test_an_answer_hangs_on_its_seed_and_not_on_what_is_generated_beside_it(folder):
    agent = LocalPolicy(folder)
    together = answers(agent, range(8))
    for seed in (0, 5):
        (alone,) = answers(agent, [seed])
        assert alone.token_ids == together[seed].token_ids
        assert alone.log_probs == pytest.approx(together[seed].log_probs, abs=1e-4)
    assert len({answer.token_ids for answer in together}) == 8
    assert all(answer.cut == (answer.token_ids[-1] != agent.tokenizer.eos_token_id) for answer in together)


def test_the_recorded_log_probs_are_those_of_the_model(folder):
    agent = LocalPolicy(folder, SamplingSettings(temperature=0.7))
    drawn = answers(agent, range(3))
    for answer in drawn:
        assert log_probs(agent, answer).tolist() == pytest.approx(answer.log_probs, abs=1e-4)


def test_tokens_are_drawn_from_the_nucleus_as_a_server_of_a_run_draws_them(folder):
    """The same numbers give the same tokens and log-probs as `trainer.rl.rollout.draw_tokens`; 0 stays greedy."""
    rollout = pytest.importorskip("trainer.rl.rollout")
    logits = torch.randn(64, 50, generator=torch.Generator().manual_seed(3)) * 2
    for temperature, top_p in ((0.7, 0.6), (1.3, 0.05), (1.0, 1.0), (0.0, 0.6)):
        agent = LocalPolicy(folder, SamplingSettings(temperature, top_p=top_p))
        draws = [rollout.Draw(seed, 0, temperature, top_p) for seed in range(len(logits))]
        rows = [SimpleNamespace(dice=iter([float(rollout._chance(draw))])) for draw in draws]
        drawn, recorded = agent._draw(logits, rows)
        tokens, expected = rollout.draw_tokens(logits, draws)
        assert torch.equal(drawn, tokens)
        assert torch.allclose(recorded, expected)
        assert (drawn == logits.argmax(dim=-1)).all() == (temperature == 0 or top_p == 0.05)
    narrow = LocalPolicy(folder, SamplingSettings(1.0, top_p=1e-6))
    assert len({answer.token_ids for answer in answers(narrow, range(6))}) == 1
    assert len({answer.token_ids for answer in answers(LocalPolicy(folder), range(6))}) == 6


def test_a_view_goes_on_with_the_tokens_that_were_generated(folder):
    agent = LocalPolicy(folder)
    (first,) = answers(agent, [1])
    view = (*ASKED, Message("assistant", "another text", first), Message("user", "Again."))
    (second,) = answers(agent, [2], view)
    before = (*first.prompt_token_ids, *first.token_ids)
    assert second.prompt_token_ids[: len(before)] == before
    assert agent.tokenizer.decode(second.prompt_token_ids[len(before) :]).endswith(
        "<|im_start|>user\nAgain.<|im_end|>\n<|im_start|>assistant\n"
    )


def test_what_does_not_fit_into_the_context_is_said_and_what_nearly_does_is_cut(folder):
    agent = LocalPolicy(folder)
    with pytest.raises(ContextFullError, match="64"):
        answers(agent, [1], (Message("user", "0123456789" * 10),))
    (short,) = answers(agent, [1], max_tokens=1000)
    assert len(short.prompt_token_ids) + len(short.token_ids) <= 64


def test_a_folder_without_a_model_is_said(tmp_path):
    with pytest.raises(ConfigurationError, match="no language model"):
        LocalPolicy(tmp_path / "nothing here")


def test_a_tester_that_is_a_model_is_named_by_a_setting_and_has_its_say(folder):
    """Requirements document, "CUDA Tester Agent": rule-based system + optional small trained model."""
    assert model_tester(TrainingConfig()) is None
    config = TrainingConfig.model_validate({"agents": {"tester": {"model_name": str(folder), "temperature": 1.0}}})
    tester, asked = model_tester(config), []

    class Short:
        """What the tiny model sees is too short for a task: the last words of it will do."""

        async def respond(self, messages, *, seed, max_tokens):
            asked.append(messages[-1].text)
            return await tester.respond((Message("user", "kernel"),), seed=seed, max_tokens=8)

    policies = {AgentName.GENERATOR: Script([wrapped(kernel("compile_0"))]), AgentName.TESTER: Short()}
    settings = EpisodeSettings(flow=Flow(2, single_agent=True), turn_tokens=10_000)
    conversation = asyncio.run(play(TASK, policies, Judge(), settings, seed=1))
    assert kernel("compile_0").strip() in asked[0]
    assert conversation.turns[1].response.token_ids
    assert conversation.turns[1].report.startswith("compile_error")
    with pytest.raises(ConfigurationError, match="for the Tester"):
        model_tester(TrainingConfig.model_validate({"agents": {"tester": {"model_name": "/nowhere"}}}))
