"""One token sequence for each agent, exactly as it was generated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import ANSWERS, played

from trainer.conversation.conversation import AgentName, Flow, Response
from trainer.conversation.episode import EpisodeSettings
from trainer.conversation.rewards import CreditSettings, credits_of
from trainer.errors import PolicyError
from trainer.rl.sequences import overlong_penalty, sequence_of

SINGLE = st.booleans()


def conversation_of(answers, single):
    return played(answers, settings=EpisodeSettings(flow=Flow(single_agent=single), turn_tokens=10_000))


def values_of(conversation):
    return [None if credit is None else credit.value for credit in credits_of(conversation, CreditSettings())]


@given(ANSWERS, SINGLE)
def test_a_sequence_is_what_was_said_to_an_agent_and_what_it_said(answers, single):
    conversation = conversation_of(answers, single)
    values = values_of(conversation)
    for agent in (AgentName.GENERATOR, AgentName.OPTIMIZER):
        found = sequence_of(conversation, agent, values)
        own = [attempt for attempt in conversation.attempts if attempt.written.agent is agent]
        counting = [attempt for attempt in own if values[attempt.number] is not None]
        counting = [attempt for attempt in counting if attempt.written.response.token_ids]
        if not counting:
            assert found is None
            continue
        whole = found.prompt_ids + found.response_ids
        last = counting[-1].written.response
        assert whole == last.prompt_token_ids + last.token_ids
        assert len(found.response_mask) == len(found.response_ids) == len(found.rewards) == len(found.log_probs)
        generated = [token for token, here in zip(found.response_ids, found.response_mask, strict=True) if here]
        assert generated == [token for attempt in counting for token in attempt.written.response.token_ids]
        assert found.turns == len(counting)
        written = [attempt.number for attempt in counting for _ in attempt.written.response.token_ids]
        assert [number for number in found.attempts if number >= 0] == written
        assert [number >= 0 for number in found.attempts] == [here == 1 for here in found.response_mask]


@given(ANSWERS, SINGLE)
def test_rewards_lie_on_the_last_tokens_of_turns_and_sum_up_to_the_credits(answers, single):
    conversation = conversation_of(answers, single)
    values = values_of(conversation)
    found = [sequence_of(conversation, agent, values) for agent in (AgentName.GENERATOR, AgentName.OPTIMIZER)]
    counted = sum(
        value
        for attempt, value in zip(conversation.attempts, values, strict=True)
        if value is not None and attempt.written.response.token_ids
    )
    assert sum(sum(sequence.rewards) for sequence in found if sequence) == pytest.approx(counted)
    for sequence in filter(None, found):
        mask = (*sequence.response_mask, 0)
        for place, reward in enumerate(sequence.rewards):
            assert reward == 0 or (mask[place], mask[place + 1]) == (1, 0)


def test_an_answer_that_was_not_judged_stays_in_the_text_and_out_of_the_loss():
    conversation = conversation_of(["one", "two", "three"], True)
    found = sequence_of(conversation, AgentName.GENERATOR, [1.0, None, 2.0, None, None][: len(conversation.attempts)])
    texts = [attempt.written.response for attempt in conversation.attempts]
    assert sum(found.response_mask) == len(texts[0].token_ids) + len(texts[2].token_ids)
    assert bytes(found.response_ids).decode().count("two") == 1


def test_a_prompt_that_does_not_go_on_from_what_was_generated_is_a_fault(monkeypatch):
    conversation = conversation_of(["one", "two", "three"], True)
    second = conversation.turns[2]
    broken = Response("two", tuple(reversed(second.response.prompt_token_ids)), second.response.token_ids)
    object.__setattr__(second, "response", broken)
    with pytest.raises(PolicyError, match="does not begin with"):
        sequence_of(conversation, AgentName.GENERATOR, [1.0] * len(conversation.attempts))


@given(st.integers(0, 4000), st.integers(1, 2048), st.integers(1, 2048), st.floats(0, 1))
def test_the_penalty_of_length_grows_from_nothing_to_its_most(length, limit, soft, most):
    found = overlong_penalty(length, limit, soft, most)
    assert 0 <= found <= most
    assert found <= overlong_penalty(length + 1, limit, soft, most)
    if length <= limit - soft:
        assert found == 0
    if length >= limit:
        assert found == most
