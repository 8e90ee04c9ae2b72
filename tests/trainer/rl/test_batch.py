"""A step that is not worth learning from: without verdicts, or with nothing to compare."""

from types import SimpleNamespace

import pytest
from scripted import TASK, kernel, played

from trainer.config.reading import load_config
from trainer.conversation.conversation import Flow
from trainer.conversation.episode import EpisodeSettings
from trainer.conversation.extraction import wrapped
from trainer.errors import OracleLostError
from trainer.rl.agent_loop import AgentSlot, ConversationResult
from trainer.rl.batch import refuse_without_verdicts, told_apart, unsupported_in_a_row
from trainer.rl.runner import _Run
from trainer.rl.sequences import credited

JUDGED = SimpleNamespace(seat=SimpleNamespace(step=3), conversation="a conversation", left_out=None)
LEFT_OUT = SimpleNamespace(seat=JUDGED.seat, conversation=None, left_out="no useful answer for 600 s")
FAILED = SimpleNamespace(seat=JUDGED.seat, conversation=None, left_out=None)


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([JUDGED] * 36 + [LEFT_OUT] * 5, "5 of 41 conversations of step 3"),
        ([JUDGED] * 17 + [LEFT_OUT] * 3, "3 of 20"),
        ([LEFT_OUT], "1 of 1"),
        ([LEFT_OUT, FAILED], "1 of 2"),
    ],
)
def test_a_step_with_too_few_verdicts_ends_the_run(outcomes, said):
    with pytest.raises(OracleLostError, match=said) as caught:
        refuse_without_verdicts(outcomes, 0.1)
    assert "allows 10%" in str(caught.value)
    assert "600 s" in str(caught.value)
    assert "checkpoint" in caught.value.remedy


@pytest.mark.parametrize(
    "outcomes", [[], [JUDGED], [FAILED], [JUDGED] * 18 + [LEFT_OUT] * 2, [JUDGED] + [LEFT_OUT] * 3]
)
def test_a_step_with_enough_of_them_goes_on(outcomes):
    refuse_without_verdicts(outcomes, 0.1)


def config(*changes):
    return load_config(
        "cpu-demo",
        [
            "agents.optimizer={}",
            "algorithm.name=grpo",
            "rollout.turn_tokens=512",
            "rollout.sequence_tokens=2048",
            *changes,
        ],
    )


def conversation(*kernels):
    """Kernels by the Generator and then the Optimizer, as `scripted.Judge` judges them by their names."""
    settings = EpisodeSettings(flow=Flow(len(kernels)), turn_tokens=10_000)
    return played([wrapped(kernel(name)) for name in kernels], settings=settings)


def group(*conversations, uid="1.0"):
    return [ConversationResult(AgentSlot(uid, number, TASK, 0, 1), one) for number, one in enumerate(conversations)]


def test_an_equal_end_after_another_beginning_teaches_the_generator():
    fixed, right_at_once = conversation("wrong_0", "pass_0"), conversation("pass_0", "pass_1")
    assert fixed.final_reward == right_at_once.final_reward
    assert told_apart(group(fixed, right_at_once), config()) == {"1.0"}
    assert told_apart(group(fixed, right_at_once), config("algorithm.advantage=turn")) == {"1.0"}


def test_a_step_of_which_the_evaluator_could_run_nothing_ends_the_run_with_what_it_says():
    unable = group(*(conversation("odd_0", "odd_1") for _ in range(10)))
    with pytest.raises(OracleLostError) as caught:
        unsupported_in_a_row(unable, 0, "http://127.0.0.1:8000")
    said = str(caught.value)
    assert "The evaluator at http://127.0.0.1:8000 ran none of the 20 kernels of step 1:" in said
    assert "for row_sum on the backend sim (evaluation ev_1), it says: wgmma is not simulated. Use mma." in said
    assert caught.value.evaluation_id == "ev_1"
    assert "evaluator.backend" in caught.value.remedy
    assert "checkpoint" in caught.value.remedy
    # Answers without a kernel are none that it ran.
    talk = played([""], settings=EpisodeSettings(flow=Flow(1)))
    with pytest.raises(OracleLostError, match="20 kernels"):
        unsupported_in_a_row([*unable, *group(talk, None)], 0, "")


def test_a_few_unsupported_kernels_or_such_beside_others_end_no_run():
    few = group(*(conversation("odd_0", "odd_1") for _ in range(4)))
    assert unsupported_in_a_row(few, 0, "") == 8
    assert unsupported_in_a_row(few, 8, "") == 16
    with pytest.raises(OracleLostError, match="none of the 8 kernels of step 1, nor of the 16 before them"):
        unsupported_in_a_row(few, 16, "")
    assert unsupported_in_a_row(group(None, None), 16, "") == 16
    assert unsupported_in_a_row([*few * 5, *group(conversation("wrong_0"))], 16, "") == 0
    # A kernel that was there before is not sent again.
    assert unsupported_in_a_row(group(conversation("odd_0", "odd_0")), 0, "") == 1


def test_equal_candidates_and_such_without_a_verdict_teach_nothing():
    one, other = conversation("pass_0", "wrong_0"), conversation("pass_1", "wrong_1")
    unjudged = conversation("odd_0", "odd_1")
    assert told_apart(group(one, other, unjudged, None), config()) == set()
    assert told_apart(group(one, None), config()) == set()
    # Nothing earned is nothing earned, however many attempts it took.
    short, long = conversation("cheat_0"), conversation("cheat_0", "cheat_1", "cheat_2")
    assert set(credited(long, config())) == {0.0}
    assert told_apart(group(short, long), config()) == set()


def test_what_length_costs_is_compared_as_well():
    brief = conversation("pass_0")
    source = wrapped(kernel("pass_0") + "// " + "x" * 400)
    lengthy = played([source], settings=EpisodeSettings(flow=Flow(1), turn_tokens=10_000))
    assert told_apart(group(brief, lengthy), config()) == set()
    assert told_apart(group(brief, lengthy), config("algorithm.overlong_penalty=1")) == {"1.0"}


def test_a_step_draws_anew_for_groups_that_teach_nothing_and_stops_where_too_many_are_lost():
    run = object.__new__(_Run)
    run.unsupported = 0
    run.config = config(
        "algorithm.dynamic_sampling=true",
        *(f"algorithm.{name}_size=1" for name in ("mini_batch", "micro_batch")),
        "algorithm.prompts_per_step=1",
        "algorithm.candidates=2",
    )
    forgotten, draws = [], []
    run.loop = SimpleNamespace(AgentSlot=AgentSlot, forget=forgotten.extend)
    run.training = [TASK]
    run.progress = SimpleNamespace(curriculum=SimpleNamespace(sample=lambda tasks, count, seed: tasks[:count]))

    def play(seats):
        draws.append(seats)
        found = conversation("pass_0"), conversation(("pass_1", "wrong_0")[len(draws) - 1])
        keys = [{"generator": f"{seat.uid}_{seat.candidate}_0"} for seat in seats]
        return [ConversationResult(*each) for each in zip(seats, found, keys, strict=True)], {
            "asked": 4.0,
            "waiting": 1.0,
        }

    run._play = play
    outcomes, times = run._played(3)
    assert [outcome.seat.uid for outcome in outcomes] == ["3.1.0"] * 2 + ["3.0.0"] * 2
    assert [outcome.keys is None for outcome in outcomes] == [False, False, True, True]
    assert forgotten == ["3.0.0_0_0", "3.0.0_1_0"]
    assert times == {"asked": 4.0, "waiting": 2.0}
    run._play = lambda seats: ([ConversationResult(seat, left_out="no useful answer") for seat in seats], {})
    with pytest.raises(OracleLostError, match="2 of 2 conversations of step 4"):
        run._played(4)
    run.held_out = [TASK]
    with pytest.raises(OracleLostError, match="1 of 1"):
        run._evaluate(4)


def test_steps_that_an_evaluator_can_run_nothing_of_end_the_run_before_they_are_learned_from():
    run = object.__new__(_Run)
    run.config = config("algorithm.prompts_per_step=4", "algorithm.candidates=2")
    run.loop, run.training, run.unsupported = SimpleNamespace(AgentSlot=AgentSlot), [TASK] * 4, 0
    run.progress = SimpleNamespace(curriculum=SimpleNamespace(sample=lambda tasks, count, seed: tasks[:count]))
    name = "odd_0"
    run._play = lambda seats: ([ConversationResult(seat, conversation(name)) for seat in seats], {})
    for step, so_far in ((1, 8), (2, 16)):
        assert len(run._played(step)[0]) == so_far / step
        assert run.unsupported == so_far
    name = "wrong_0"
    run._played(3)
    assert run.unsupported == 0
    name = "odd_0"
    run._played(4)
    run._played(5)
    with pytest.raises(OracleLostError, match="none of the 8 kernels of step 6, nor of the 16 before them"):
        run._played(6)
