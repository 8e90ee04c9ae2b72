"""What agents learn from each other: the Generator from the Optimizer's kernels, and the other way round."""

from dataclasses import replace

import pytest
from graded_kernels import TemplateJudge, verdict_of
from scripted import TASK, played

from common.contract import Status
from trainer.conversation.conversation import AgentName, Flow
from trainer.conversation.episode import EpisodeSettings
from trainer.conversation.extraction import extract, wrapped
from trainer.data import corpus
from trainer.tuning.cross_agent import learned_together

SETTINGS = EpisodeSettings(flow=Flow(4, stop_at=2.0), turn_tokens=10_000)
PLAIN, WARP = (corpus.render_prompt(style).source for style in corpus.styles("row_sum"))
"""The second is twice as fast, by the judge of these tests."""
WRONG = corpus.render_prompt(corpus.styles("row_sum")[0], corpus.styles("row_sum")[0].flaws[2]).source
NOTHING = "__global__ void row_sum() { no kernel }"


def talk(*sources, seed=1):
    return played([wrapped(source) for source in sources], settings=SETTINGS, oracle=TemplateJudge(), seed=seed)


def answers(lessons):
    return [extract(lesson.messages[-1].text).source.rstrip() for lesson in lessons]


def test_the_generator_learns_what_the_optimizer_made_of_its_kernel():
    learned = learned_together([talk(PLAIN, WARP, NOTHING, WRONG)], SETTINGS, factor=1.1)
    (lesson,) = learned.generator
    assert lesson.messages[1].text == TASK.text
    assert answers([lesson]) == [WARP.rstrip()]
    assert (learned.conversations, learned.successful, learned.improved) == (1, 1, 1)


def test_the_optimizer_learns_its_improvements_where_they_stood_and_nothing_else():
    conversation = talk(PLAIN, NOTHING, WARP, WRONG)
    learned = learned_together([conversation], SETTINGS, factor=1.1)
    (lesson,) = learned.optimizer
    view = conversation.view(AgentName.OPTIMIZER)
    assert [message.text for message in lesson.messages] == [message.text for message in view[: len(lesson.messages)]]
    assert answers([lesson]) == [WARP.rstrip()]
    assert lesson.last_only, "the answer before it, which does not compile, is not learned"
    assert sum(message.role == "assistant" for message in lesson.messages) == 2


def test_the_optimizer_learns_from_kernels_that_the_generator_wrote_elsewhere():
    learned = learned_together([talk(WRONG, NOTHING), talk(WARP, NOTHING, seed=2)], SETTINGS, factor=1.1)
    (lesson,) = learned.optimizer
    assert WRONG.rstrip() in lesson.messages[1].text
    assert "The tester's report:" in lesson.messages[1].text
    assert answers([lesson]) == [WARP.rstrip()]
    assert answers(learned.generator) == [WARP.rstrip()]
    assert (learned.conversations, learned.successful, learned.improved) == (2, 1, 0)


def test_a_kernel_that_could_not_be_judged_stands_in_the_way_of_none():
    judge = TemplateJudge(otherwise={WRONG: verdict_of(Status.UNSUPPORTED)})
    conversation = played([wrapped(one) for one in (WRONG, PLAIN, WARP)], settings=SETTINGS, oracle=judge, seed=1)
    learned = learned_together([conversation], SETTINGS, factor=1.1)
    assert (answers(learned.generator), learned.successful, learned.improved) == ([WARP.rstrip()], 1, 1)
    assert answers(learned.optimizer) == [WARP.rstrip()], "whether the first was worse nobody knows"


def test_what_went_wrong_teaches_nothing_and_held_out_tasks_are_refused():
    learned = learned_together([talk(WRONG, NOTHING)], SETTINGS, factor=1.1)
    assert (learned.generator, learned.optimizer, learned.successful) == ((), (), 0)
    slightly = learned_together([talk(PLAIN, WARP)], SETTINGS, factor=2.5)
    assert (answers(slightly.generator), slightly.optimizer) == ([PLAIN.rstrip()], ()), "not faster by the factor"
    secret = replace(talk(PLAIN), task=replace(TASK, held_out=True))
    with pytest.raises(ValueError, match="held out"):
        learned_together([secret], SETTINGS, factor=1.1)
