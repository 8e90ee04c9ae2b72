"""What is said to the agents: within its budget, and with all that they need."""

from dataclasses import replace

import pytest
from hypothesis import given
from scripted import ANSWERS, TASK, grading, kernel, played

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
REVIEW_TOKENS = {"full": 110, "brief": 32}
"""Budgets of the system text of a Tester that is a model, and of what it is asked, without kernel and report."""
NOTES_TOKENS = {"full": 120, "brief": 40}
"""Budgets of target, strategies tried and failures."""
KERNEL_TOKENS = estimated_tokens(wrapped(kernel("compile_0")))


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("wording", ["full", "brief"])
def test_a_system_text_keeps_its_budget_and_asks_for_the_form(agent, wording):
    system, user = prompts.opening(agent, TASK, wording)
    assert (system.role, user.role, user.text) == ("system", "user", TASK.text)
    assert estimated_tokens(system.text) <= SYSTEM_TOKENS[wording]
    assert "```cuda" in system.text


@pytest.mark.parametrize("wording", ["full", "brief"])
def test_a_reviewer_is_told_in_few_words_what_it_is_there_for(wording):
    system, user = prompts.review(TASK, kernel("compile_0"), "compile_error: a semicolon", wording)
    for part in (TASK.text, kernel("compile_0"), "compile_error: a semicolon"):
        assert part in user.text
    spent = estimated_tokens(system.text) + estimated_tokens(user.text)
    given = estimated_tokens(TASK.text) + KERNEL_TOKENS + estimated_tokens("compile_error: a semicolon")
    assert spent - given <= REVIEW_TOKENS[wording]


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
        budget = REQUEST_TOKENS[wording] + NOTES_TOKENS[wording] + 100
        assert spent <= budget + (KERNEL_TOKENS + others if first else 0)


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


@pytest.mark.parametrize("update_tokens", [128, 192, 512])
@given(ANSWERS)
def test_what_a_later_turn_is_told_has_a_bound(update_tokens, answers):
    """Critique, section 4: update_prompt_length 512, what a later turn is told."""
    settings = EpisodeSettings(flow=Flow(5), turn_tokens=10_000, update_tokens=update_tokens)
    for turn in played(answers, settings=settings).turns[4::2]:
        (message,) = turn.messages
        assert estimated_tokens(message.text) <= update_tokens


@pytest.mark.parametrize("wording", ["full", "brief"])
def test_who_improves_a_kernel_is_told_the_target_what_was_tried_and_what_failed(wording):
    """Requirements document, "CUDA Optimizer Agent": input "optimization targets"; critique, section 2:
    failed_attempts "to learn from failures", optimization_strategies_tried "to avoid repetition".
    """
    shared = kernel("wrong_1").replace("    y[0]", "    __shared__ float part[32];\n    y[0]")
    answers = [wrapped(source) for source in (kernel("compile_0"), shared, kernel("fast_0"), kernel("wrong_2"))]
    asked = EpisodeSettings(
        flow=Flow(4, stop_at=2.0),
        wording=wording,
        turn_tokens=10_000,
        grading=grading().model_copy(update={"target_speedup": 3.5}),
    )
    conversation = played(answers, settings=asked)
    first, *later = [turn.messages[-1].text for turn in conversation.turns[::2]]
    assert "3.5" not in first, "the first kernel is to be right"
    assert all(("Target: a speedup of 3.5" if wording == "full" else "Target: 3.5x.") in text for text in later)
    assert "Tried" not in later[0]
    assert all("Tried" in text and "shared memory" in text for text in later[1:])
    errors = [f"Kernel {number}" for number in (1, 2)]
    assert [error in later[0] for error in errors] == [False, False], "the report is about the last kernel"
    assert [error in later[1] for error in errors] == [True, False]
    assert "compile_error: " in later[1]
    assert "Kernel 2" in later[2], "what failed last is told first"
    assert wording == "brief" or later[2].index("Kernel 2") < later[2].index("Kernel 1")
    assert ("is reached" in later[2]) is (wording == "full")


def test_many_failures_do_not_take_the_room_of_the_report():
    answers = [wrapped(kernel(f"compile_{number}")) for number in range(8)]
    asked = EpisodeSettings(flow=Flow(8), turn_tokens=10_000, update_tokens=256)
    *_, last = played(answers, settings=asked).turns[::2]
    text = last.messages[-1].text
    assert played(answers, settings=asked).turns[-3].report in text
    assert "Kernel 6 failed" in text
    assert "Kernel 1 failed" not in text


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
