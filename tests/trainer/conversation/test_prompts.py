"""What is said to the agents: within its budget, and with all that they need."""

from dataclasses import replace

import pytest
from hypothesis import given
from scripted import ANSWERS, TASK, kernel, played

from trainer.conversation import prompts
from trainer.conversation.conversation import AgentName, Flow
from trainer.conversation.episode import EpisodeSettings
from trainer.conversation.extraction import wrapped
from trainer.conversation.tester import ReportSettings, estimated_tokens

AGENTS = (AgentName.GENERATOR, AgentName.OPTIMIZER)
SYSTEM_TOKENS = {"full": 340, "brief": 40}
"""Budgets of the system texts, by `estimated_tokens`."""
REQUEST_TOKENS = {"full": 70, "brief": 24}
"""Budgets of what is asked for in a later turn, without kernel and report."""
REVIEW_TOKENS = 110
"""Budget of the system text of a Tester that is a model, and of what it is asked, without kernel and report."""
KERNEL_TOKENS = estimated_tokens(wrapped(kernel("compile_0")))


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("wording", ["full", "brief"])
def test_a_system_text_keeps_its_budget_and_asks_for_the_form(agent, wording):
    system, user = prompts.opening(agent, TASK, wording)
    assert (system.role, user.role, user.text) == ("system", "user", TASK.text)
    assert estimated_tokens(system.text) <= SYSTEM_TOKENS[wording]
    assert "```cuda" in system.text


def test_a_reviewer_is_told_in_few_words_what_it_is_there_for():
    begun = replace(played([wrapped(kernel("compile_0"))] * 2), turns=())
    begun = begun.with_turn(played([wrapped(kernel("compile_0"))] * 2).turns[0])
    system, user = prompts.review(begun, "compile_error: a semicolon")
    for part in (TASK.text, kernel("compile_0"), "compile_error: a semicolon"):
        assert part in user.text
    spent = estimated_tokens(system.text) + estimated_tokens(user.text)
    given = estimated_tokens(TASK.text) + KERNEL_TOKENS + estimated_tokens("compile_error: a semicolon")
    assert spent - given <= REVIEW_TOKENS


def test_the_two_agents_are_told_different_things():
    assert prompts.opening(AGENTS[0], TASK) != prompts.opening(AGENTS[1], TASK)


@pytest.mark.parametrize("wording", ["full", "brief"])
@given(ANSWERS)
def test_a_later_turn_costs_a_report_a_kernel_and_little_more(wording, answers):
    settings = EpisodeSettings(flow=Flow(4), wording=wording, tester=ReportSettings(100), turn_tokens=10_000)
    for turn in played(answers, settings=settings).turns[2::2]:
        first = turn.messages[0].role == "system"
        others = max(len(kernel(name)) for name in ("compile_0",)) + 20 if first else 0
        spent = estimated_tokens(turn.messages[-1].text) - (estimated_tokens(TASK.text) if first else 0)
        assert spent <= REQUEST_TOKENS[wording] + 100 + (KERNEL_TOKENS + others if first else 0)


def test_the_optimizer_begins_with_the_task_the_kernel_and_the_report():
    conversation = played([wrapped(kernel("compile_0")), wrapped(kernel("pass_0"))])
    text = conversation.turns[2].messages[-1].text
    assert conversation.turns[2].agent is AgentName.OPTIMIZER
    for part in (TASK.text, wrapped(kernel("compile_0")), conversation.turns[1].report, "Fix this first"):
        assert part in text
    assert text.index(TASK.text) < text.index(kernel("compile_0")) < text.index(conversation.turns[1].report)


def test_an_agent_is_not_shown_again_what_it_wrote_itself():
    answers = [wrapped(kernel(name)) for name in ("wrong_0", "pass_0", "wrong_1")]
    conversation = played(answers, settings=EpisodeSettings(flow=Flow(4, stop_at=2.0), turn_tokens=10_000))
    (message,) = conversation.turns[4].messages
    assert kernel("pass_0") not in message.text
    assert conversation.turns[3].report in message.text
    assert "Make it faster" in message.text
    (after,) = conversation.turns[6].messages
    assert "Your attempt 1 is still the best" in after.text


def test_nothing_of_another_mans_garbage_is_shown():
    conversation = played(["rubbish of the first", wrapped(kernel("pass_0"))])
    text = conversation.turns[2].messages[-1].text
    assert "rubbish" not in text
    assert "no kernel" in text


def test_what_cannot_run_is_to_be_done_in_another_way():
    conversation = played([wrapped(kernel("odd_0")), wrapped(kernel("pass_0"))])
    assert "in another way" in conversation.turns[2].messages[-1].text


def test_nobody_is_asked_for_a_kernel_when_none_is_due():
    conversation = played([wrapped(kernel("pass_0"))], settings=EpisodeSettings(flow=Flow(1), turn_tokens=10_000))
    with pytest.raises(ValueError, match="no agent"):
        prompts.due(conversation)
    with pytest.raises(ValueError, match="no agent"):
        prompts.due(replace(conversation, turns=conversation.turns[:1]))
