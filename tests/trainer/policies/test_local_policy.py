"""The local agent on a real model of two layers: what it generates, and what a policy step does to it."""

import asyncio
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.conversation.conversation import AgentName, Conversation, Flow, Message, Response, Turn
from trainer.data.tasks import Task
from trainer.errors import CheckpointError, ConfigurationError, ContextFullError
from trainer.policies import models
from trainer.policies.local_policy import PolicySettings, Sample, TrainableAgent, clipped_objective, sample_of

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


def sample(response, advantage):
    places = range(len(response.prompt_token_ids), len(response.prompt_token_ids) + len(response.token_ids))
    return Sample(
        (*response.prompt_token_ids, *response.token_ids),
        tuple(places),
        response.log_probs,
        (advantage,) * len(response.token_ids),
    )


def test_an_answer_hangs_on_its_seed_and_not_on_what_is_generated_beside_it(folder):
    agent = TrainableAgent(folder)
    together = answers(agent, range(8))
    for seed in (0, 5):
        (alone,) = answers(agent, [seed])
        assert alone.token_ids == together[seed].token_ids
        assert alone.log_probs == pytest.approx(together[seed].log_probs, abs=1e-4)
    assert len({answer.token_ids for answer in together}) == 8
    assert all(answer.cut == (answer.token_ids[-1] != agent.tokenizer.eos_token_id) for answer in together)


def test_the_recorded_log_probs_are_those_of_the_model(folder):
    agent = TrainableAgent(folder, PolicySettings(temperature=0.7))
    drawn = answers(agent, range(3))
    again = agent.log_probs([sample(answer, 1.0) for answer in drawn])
    recorded = [value for answer in drawn for value in answer.log_probs]
    assert again.tolist() == pytest.approx(recorded, abs=1e-4)


def test_a_view_goes_on_with_the_tokens_that_were_generated(folder):
    agent = TrainableAgent(folder)
    (first,) = answers(agent, [1])
    view = (*ASKED, Message("assistant", "another text", first), Message("user", "Again."))
    (second,) = answers(agent, [2], view)
    before = (*first.prompt_token_ids, *first.token_ids)
    assert second.prompt_token_ids[: len(before)] == before
    assert agent.tokenizer.decode(second.prompt_token_ids[len(before) :]).endswith(
        "<|im_start|>user\nAgain.<|im_end|>\n<|im_start|>assistant\n"
    )


def test_what_does_not_fit_into_the_context_is_said_and_what_nearly_does_is_cut(folder):
    agent = TrainableAgent(folder)
    with pytest.raises(ContextFullError, match="64"):
        answers(agent, [1], (Message("user", "0123456789" * 10),))
    (short,) = answers(agent, [1], max_tokens=1000)
    assert len(short.prompt_token_ids) + len(short.token_ids) <= 64


def test_the_probability_of_rewarded_tokens_rises_and_of_the_others_falls(folder):
    agent = TrainableAgent(folder, PolicySettings(learning_rate=1e-3, epochs=2))
    drawn = answers(agent, range(8))
    good, bad = [sample(answer, 1.0) for answer in drawn[:4]], [sample(answer, -1.0) for answer in drawn[4:]]
    before = agent.log_probs(good).sum().item(), agent.log_probs(bad).sum().item()
    update = agent.update_parameters([*good, *bad])
    assert update.steps == 2
    assert update.gradient_norm > 0
    assert agent.log_probs(good).sum().item() > before[0]
    assert agent.log_probs(bad).sum().item() < before[1]


def test_the_ratio_is_clipped(folder):
    wild = {"learning_rate": 3e-3, "epochs": 30, "kl_coefficient": 0.0}
    moved = {}
    for clip in (0.2, 0.999):
        agent = TrainableAgent(folder, PolicySettings(clip=clip, clip_high=clip if clip < 0.5 else 1e9, **wild))
        samples = [sample(answer, 1.0) for answer in answers(agent, range(4))]
        update = agent.update_parameters(samples)
        moved[clip] = torch.exp(agent.log_probs(samples) - torch.cat([torch.tensor(s.log_probs) for s in samples]))
        assert (update.clipped_share > 0.3) == (clip == 0.2)
    assert moved[0.2].mean() < 0.2 * moved[0.999].mean()


@settings(deadline=None)
@given(ratio=st.floats(0.1, 4), advantage=st.floats(-3, 3), low=st.floats(0.05, 0.5), high=st.floats(0.05, 0.9))
def test_the_objective_is_equation_seven_and_has_no_gradient_where_it_binds(ratio, advantage, low, high):
    new = torch.tensor([math.log(ratio)], dtype=torch.float64, requires_grad=True)
    objective, binding = clipped_objective(
        new, torch.zeros(1, dtype=torch.float64), torch.tensor([advantage], dtype=torch.float64), low, high
    )
    kept = min(max(ratio, 1 - low), 1 + high)
    assert objective.item() == pytest.approx(min(ratio * advantage, kept * advantage), abs=1e-9)
    (slope,) = torch.autograd.grad(objective.sum(), new)
    assert slope.item() == pytest.approx(0.0 if binding.item() else ratio * advantage, abs=1e-9)


def test_the_distance_to_the_reference_holds_the_policy_back(folder):
    moved = {}
    for weight in (0.0, 5.0):
        agent = TrainableAgent(folder, PolicySettings(learning_rate=1e-3, epochs=8, kl_coefficient=weight))
        samples = [sample(answer, 1.0) for answer in answers(agent, range(4))]
        before = agent.log_probs(samples).sum().item()
        moved[weight] = agent.update_parameters(samples), agent.log_probs(samples).sum().item() - before
    assert moved[0.0][0].kl == 0.0
    assert moved[5.0][0].kl > 0.0
    assert 0 < moved[5.0][1] < moved[0.0][1]


def test_what_was_saved_goes_on_as_if_it_had_never_stopped(folder, tmp_path):
    chosen = PolicySettings(learning_rate=1e-3, epochs=1, mini_batch_size=2)
    agent = TrainableAgent(folder, chosen)
    samples = [sample(answer, (-1.0) ** at) for at, answer in enumerate(answers(agent, range(6)))]
    agent.update_parameters(samples)
    agent.save(tmp_path / "kept")
    resumed = TrainableAgent(tmp_path / "kept", chosen, reference=folder)
    for each in (agent, resumed):
        each.update_parameters(samples)
    assert torch.equal(agent.log_probs(samples), resumed.log_probs(samples))
    assert [answer.token_ids for answer in answers(agent, range(4))] == [
        answer.token_ids for answer in answers(resumed, range(4))
    ]


def test_a_broken_checkpoint_is_said(folder, tmp_path):
    TrainableAgent(folder).save(tmp_path / "kept")
    (tmp_path / "kept" / "optimizer.pt").write_bytes(b"no optimizer")
    with pytest.raises(CheckpointError, match=r"optimizer\.pt"):
        TrainableAgent(tmp_path / "kept")
    with pytest.raises(ConfigurationError, match="no language model"):
        TrainableAgent(tmp_path / "nothing here")


def conversation(*texts):
    task = Task("relu-0", "relu", 0, "Write relu.", False)
    said = Conversation("c", task, Flow(single_agent=True), 0)
    prompt = (1, 2, 3)
    for at, text in enumerate(texts):
        response = Response(text, prompt, (10 + at, 20 + at), (-0.5, -0.25))
        said = said.with_turn(
            Turn(2 * at, AgentName.GENERATOR, ASKED, response, format_problem="The answer has no fenced block.")
        ).with_turn(Turn(2 * at + 1, AgentName.TESTER, report="No kernel."))
        prompt = (*prompt, *response.token_ids, 4, 5)
    return said


def test_a_conversation_is_one_sample_whose_learned_tokens_are_those_generated():
    one = sample_of(conversation("a", "b", "c"), AgentName.GENERATOR, (0.5, None, -1.0))
    assert one.token_ids == (1, 2, 3, 10, 20, 4, 5, 11, 21, 4, 5, 12, 22)
    assert [one.token_ids[place] for place in one.learned] == [10, 20, 12, 22]
    assert one.advantages == (0.5, 0.5, -1.0, -1.0)
    assert one.log_probs == (-0.5, -0.25) * 2
    assert sample_of(conversation("a"), AgentName.GENERATOR, (None,)) is None
    with pytest.raises(ValueError, match="2 advantages for the 1 turns"):
        sample_of(conversation("a"), AgentName.GENERATOR, (1.0, 2.0))
