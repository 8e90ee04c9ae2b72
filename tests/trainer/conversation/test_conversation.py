"""The flow of a conversation: who writes when, and when it ends."""

import asyncio
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import ANSWERS, TASK, Judge, Script, kernel, played

from common.contract import Status
from common.reward import share_of_maximum
from trainer.conversation.conversation import (
    AgentName,
    Conversation,
    ConversationPhase,
    EndReason,
    Flow,
    Response,
    Turn,
)
from trainer.conversation.episode import EpisodeSettings, play
from trainer.conversation.extraction import canonical_source, wrapped
from trainer.conversation.tester import ReportSettings
from trainer.errors import PolicyError

FLOWS = st.builds(
    Flow, max_turns=st.integers(1, 6), stop_at=st.sampled_from([0.3, 0.6, 0.8, 2.0]), single_agent=st.booleans()
)


def settings(flow):
    return EpisodeSettings(flow=flow, turn_tokens=10_000)


def beginnings(conversation):
    """The conversation as it was after each turn."""
    return [
        replace(conversation, turns=conversation.turns[:count], stopped=None)
        for count in range(len(conversation.turns) + 1)
    ]


@given(ANSWERS, FLOWS)
def test_the_flow_is_kept_whatever_is_answered(answers, flow):
    conversation = played(answers, settings=settings(flow))
    authors = [turn.agent for turn in conversation.turns[::2]]
    assert {turn.agent for turn in conversation.turns[1::2]} == {AgentName.TESTER}
    assert authors[0] is AgentName.GENERATOR
    assert set(authors[1:]) <= {AgentName.GENERATOR if flow.single_agent else AgentName.OPTIMIZER}
    assert len(conversation.turns) % 2 == 0
    assert 1 <= len(conversation.attempts) <= flow.max_turns


@given(ANSWERS, FLOWS)
def test_it_ends_for_the_first_reason_there_is_and_not_before(answers, flow):
    conversation = played(answers, settings=settings(flow))
    seen = set()
    for attempt in conversation.attempts:
        last = attempt is conversation.attempts[-1]
        source = attempt.written.source
        repeated = source is not None and canonical_source(source) in seen
        seen |= {canonical_source(source)} if source is not None else set()
        share = share_of_maximum(attempt.reward) if attempt.reward else None
        good = share is not None and share >= flow.stop_at
        reason = EndReason.REPEATED if repeated else EndReason.GOOD_ENOUGH if good else None
        if reason is None and last:
            reason = EndReason.MAX_TURNS
            assert len(conversation.attempts) == flow.max_turns
        assert (conversation.ended if last else None) is reason
        assert (attempt.repeats is not None) is repeated
    assert conversation.next_agent is None
    assert conversation.phase is ConversationPhase.ENDED


@given(ANSWERS, FLOWS)
def test_views_are_only_ever_appended_to_and_are_one_token_sequence(answers, flow):
    conversation = played(answers, settings=settings(flow))
    for agent in (AgentName.GENERATOR, AgentName.OPTIMIZER):
        views = [moment.view(agent) for moment in beginnings(conversation)]
        for earlier, later in pairwise(views):
            assert later[: len(earlier)] == earlier
        responses = [message.response for message in views[-1] if message.role == "assistant"]
        for before, after in pairwise(responses):
            whole = before.prompt_token_ids + before.token_ids
            assert after.prompt_token_ids[: len(whole)] == whole
            assert len(after.prompt_token_ids) > len(whole)
        roles = [message.role for message in views[-1]]
        assert roles == (["system"] + ["user", "assistant"] * len(responses) if responses else [])


@given(ANSWERS, FLOWS)
def test_the_state_says_what_has_happened(answers, flow):
    conversation = played(answers, settings=settings(flow))
    phases = [moment.phase for moment in beginnings(conversation)]
    assert phases[0] is ConversationPhase.GENERATION
    assert set(phases[1:-1:2]) <= {ConversationPhase.EVALUATION}
    assert set(phases[2:-1:2]) <= {ConversationPhase.OPTIMISATION}
    with_kernel = [attempt for attempt in conversation.attempts if attempt.written.source is not None]
    assert conversation.current == (with_kernel[-1] if with_kernel else None)
    values = [attempt.value for attempt in conversation.attempts if attempt.value is not None]
    for agent in AgentName:
        assert conversation.final_reward == conversation.final_reward_to(agent) == (max(values) if values else None)
    if conversation.best is not None:
        assert conversation.best.value == conversation.final_reward > 0
    failed = {failure.number for failure in conversation.failures}
    assert failed == {attempt.number for attempt in conversation.attempts if not attempt.passed}
    assert all(failure.message for failure in conversation.failures)
    assert len(conversation.compile_results) == len(conversation.trajectory) == len(conversation.attempts)
    known = [speedup for speedup in conversation.trajectory if speedup is not None]
    assert conversation.best_speedup == (max(known) if known else None)


def test_early_stop_is_at_four_fifths_of_the_maximum_by_default():
    assert Flow() == Flow(max_turns=5, stop_at=0.8, single_agent=False)
    conversation = played([wrapped(kernel("pass_0"))] * 2, settings=settings(Flow(stop_at=0.3)))
    assert conversation.ended is EndReason.GOOD_ENOUGH
    assert len(conversation.attempts) == 1


def test_a_repeat_up_to_comments_and_space_ends_it_and_is_not_evaluated_again():
    oracle = Judge()
    again = "// the very same\n" + kernel("wrong_0").replace("\n", "\n\n").replace("    ", "  ")
    conversation = played([wrapped(kernel("wrong_0")), wrapped(again), wrapped(kernel("pass_0"))], oracle=oracle)
    assert conversation.ended is EndReason.REPEATED
    assert len(oracle.sources) == 1
    first, second = conversation.attempts
    assert second.repeats == 0
    assert second.verdict == first.verdict
    assert second.value == 0 < first.value
    assert conversation.final_reward == first.value


def test_another_launch_is_another_kernel():
    launch = "// assay: launch wrong_0 grid=(1) block=({}) args=(x, y, rows, cols)\n"
    answers = [wrapped(launch.format(block) + kernel("wrong_0")) for block in (32, 64)]
    conversation = played(answers, settings=settings(Flow(max_turns=2)))
    assert conversation.ended is EndReason.MAX_TURNS
    assert conversation.attempts[1].written.plan.steps[0].block == (64,)


def test_what_cannot_be_judged_has_no_reward_and_goes_on():
    conversation = played([wrapped(kernel("odd_0")), wrapped(kernel("pass_0"))], settings=settings(Flow(2)))
    first, second = conversation.attempts
    assert first.verdict.status is Status.UNSUPPORTED
    assert (first.reward, first.value) == (None, None)
    assert second.value == conversation.final_reward > 0
    assert played([wrapped(kernel("odd_0"))], settings=settings(Flow(1))).final_reward is None


def test_strategies_are_named_once_and_only_for_what_is_code():
    shared = kernel("wrong_0").replace("y[0] =", "__shared__ float s[32]; y[0] =")
    shuffled = kernel("pass_0").replace("x[0]", "__shfl_down_sync(~0u, x[0], 1)") + "// __ldg atomicAdd\n"
    conversation = played([wrapped(shared), wrapped(shuffled)], settings=settings(Flow(2)))
    assert conversation.strategies_tried == ("shared memory", "warp shuffles")


def test_a_turn_out_of_turn_is_refused():
    conversation = Conversation("c", TASK, Flow(), 0)
    test = Turn(index=0, agent=AgentName.TESTER)
    with pytest.raises(ValueError, match="generator"):
        conversation.with_turn(test)
    with pytest.raises(ValueError, match="stands where"):
        Conversation("c", TASK, Flow(), 0, (test,))
    with pytest.raises(ValueError, match="not what a turn"):
        Turn(index=0, agent=AgentName.GENERATOR, response=Response("x"))
    ended = played([wrapped(kernel("pass_0"))], settings=settings(Flow(1)))
    with pytest.raises(ValueError, match="nobody is next"):
        ended.with_turn(Turn(index=2, agent=AgentName.OPTIMIZER, response=Response("x"), format_problem="no"))


@pytest.mark.parametrize("log_probs", [(0.0,), (0.0, float("nan")), (0.0, float("-inf"))])
def test_a_response_with_broken_log_probabilities_is_the_policys_fault(log_probs):
    with pytest.raises(PolicyError, match="log-prob"):
        Response("ab", (1,), (2, 3), log_probs)


@pytest.mark.parametrize("wrong", [{"max_turns": 0}, {"stop_at": 0.0}, {"stop_at": float("nan")}])
def test_limits_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="must be positive"):
        Flow(**wrong)


def test_every_turn_has_a_seed_of_its_own():
    script = Script([wrapped(kernel("wrong_0")), wrapped(kernel("wrong_1")), wrapped(kernel("wrong_2"))])
    single = EpisodeSettings(flow=Flow(3, single_agent=True), tester=ReportSettings(64), turn_tokens=10_000)
    asyncio.run(play(TASK, {AgentName.GENERATOR: script}, Judge(), single, 3))
    assert len(set(script.seeds)) == 3
    again = Script(script.answers)
    asyncio.run(play(TASK, {AgentName.GENERATOR: again}, Judge(), single, 3))
    assert again.seeds == script.seeds
