"""Lessons from graded kernels: right answers only, better than what they answer, and nothing that is held out."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
import sample_verdicts as samples
from graded_kernels import TemplateJudge, graded_kernel, graded_templates, verdict_of
from scripted import Script

from common.contract import Settings, Status
from trainer.conversation.conversation import AgentName, Flow
from trainer.conversation.episode import EpisodeSettings, play
from trainer.conversation.extraction import extract, wrapped
from trainer.data.graded import GradedData
from trainer.data.tasks import held_out_tasks, is_held_out, training_tasks
from trainer.errors import ConfigurationError
from trainer.tuning import examples as made
from trainer.tuning.examples import generator_examples, is_better, optimizer_examples

GRADING = EpisodeSettings(grading=Settings(target_speedup=2.0))
PROBLEMS = ("relu", "gelu", "softmax")
OF_ALL = {"count": 30, "seed": 1, "factor": 1.1}


@pytest.fixture(scope="module")
def tasks(faces):
    few = [face for face in faces if face.id in PROBLEMS]
    return (*training_tasks(few, 8), *held_out_tasks(few, 6))


def shown(lesson):
    """The problem of the task, by its text."""
    return lesson.messages[1].text


def test_a_generator_is_shown_right_kernels_of_problems_that_are_learned_from(tasks):
    data = graded_templates(*PROBLEMS, held_out=("relu",))
    examples = generator_examples(data, tasks, GRADING, count=20, seed=1)
    lessons = [one.lesson for one in examples]
    right = {one.source.rstrip(): one.problem for one in data.training if one.passed}
    texts = {task.text: task for task in tasks}
    assert len(lessons) == len(set(lessons)) == 20
    asked = [texts[shown(lesson)] for lesson in lessons]
    assert not any(task.held_out or task.problem == "relu" for task in asked)
    assert [right[extract(one.messages[-1].text).source.rstrip()] for one in lessons] == [
        one.problem for one in asked
    ]
    assert sorted(task.problem for task in asked) == ["gelu"] * 10 + ["softmax"] * 10
    assert examples == generator_examples(data, tasks, GRADING, count=20, seed=1)
    assert examples != generator_examples(data, tasks, GRADING, count=20, seed=2)
    # No more than there are: 8 tasks of each problem, 3 and 2 right kernels.
    assert len(generator_examples(data, tasks, GRADING, count=9999, seed=1)) == 8 * (3 + 2)


def test_an_optimizer_is_shown_a_kernel_its_report_and_the_target_and_answers_with_a_better_one(tasks):
    data = graded_templates(*PROBLEMS, held_out=("relu",))
    examples = optimizer_examples(data, tasks, GRADING, count=60, seed=1, factor=1.1)
    lessons = [one.lesson for one in examples]
    by_source = {(one.problem, one.source.rstrip()): one for one in data.training}
    failed = 0
    for lesson in lessons:
        problem = next(task.problem for task in tasks if shown(lesson).startswith(task.text))
        assert problem != "relu"
        assert "The tester's report:" in shown(lesson)
        assert "Target: a speedup of 2" in shown(lesson)
        old = by_source[problem, extract(shown(lesson)).source.rstrip()]
        new = by_source[problem, extract(lesson.messages[-1].text).source.rstrip()]
        assert new.passed
        failed += not old.passed
        assert not old.passed or new.speedup >= 1.1 * old.speedup
    assert 0 < failed < len(lessons)


ALONE = replace(GRADING, flow=Flow(3, stop_at=2.0, single_agent=True), turn_tokens=10_000)


@pytest.mark.parametrize("wording", ["full", "brief"])
def test_an_agent_alone_learns_to_begin_and_to_improve_as_it_is_asked_in_a_conversation_to_the_letter(tasks, wording):
    data = graded_templates(*PROBLEMS, held_out=("relu",))
    asked = replace(ALONE, wording=wording)
    examples = made.examples_of(AgentName.GENERATOR, data, tasks, asked, count=60, seed=1, factor=1.1)
    assert len({one.lesson for one in examples}) == 60
    assert [sum(one.old is None for one in examples), sum(one.old is not None for one in examples)] == [30, 30]
    assert {one.agent for one in examples} == {AgentName.GENERATOR}
    assert len({one.old.passed for one in examples if one.old}) == 2, "wrong ones and slow ones"
    for one in examples:
        assert not one.task.held_out
        assert one.kernel.problem == one.task.problem != "relu"
        earlier = [wrapped(one.old.source)] if one.old else []
        model = Script([*earlier, wrapped(one.kernel.source)])
        asyncio.run(play(one.task, {AgentName.GENERATOR: model}, TemplateJudge(), asked, 0))
        view = [(said.role, said.text) for said in model.views[len(earlier)]]
        assert [(said.role, said.text) for said in one.lesson.messages] == [
            *view,
            ("assistant", wrapped(one.kernel.source)),
        ]
        if one.old is not None:
            assert one.lesson.last_only, "a kernel that is to be improved is not to be learned"
            assert is_better(one.kernel.verdict, one.old.verdict, 1.1)


def test_an_agent_alone_has_more_examples_of_the_one_kind_where_there_are_too_few_of_the_other(tasks):
    slow, fast = (graded_kernel("relu", f"__global__ void k() {{ {n}; }}", speedup=n) for n in (1.0, 2.0))
    few = [task for task in tasks if task.problem == "relu" and not task.held_out][:4]
    data = GradedData((slow, fast), frozenset())
    kinds = Counter(
        one.old is not None
        for one in made.examples_of(AgentName.GENERATOR, data, few, ALONE, count=10, seed=1, factor=1.1)
    )
    assert kinds == {False: 6, True: 4}, "4 tasks, each with one pair"
    wrong = [graded_kernel("relu", f"__global__ void k() {{ {n}; }}", Status.INCORRECT) for n in range(3, 9)]
    data = GradedData((slow, *wrong), frozenset())
    kinds = Counter(
        one.old is not None
        for one in made.examples_of(AgentName.GENERATOR, data, few, ALONE, count=20, seed=1, factor=1.1)
    )
    assert kinds == {False: 4, True: 16}, "one right kernel for each of 4 tasks"


@pytest.mark.parametrize("flow", [Flow(1, single_agent=True), Flow(3)], ids=["one-kernel", "two-agents"])
def test_who_never_improves_a_kernel_of_its_own_is_not_taught_to(tasks, flow):
    data = graded_templates(*PROBLEMS)
    settings = replace(ALONE, flow=flow)
    examples = made.examples_of(AgentName.GENERATOR, data, tasks, settings, count=20, seed=1, factor=1.1)
    assert examples == generator_examples(data, tasks, settings, count=20, seed=1)
    assert not any(one.old for one in examples)


def test_an_optimizer_is_shown_the_same_whoever_writes_the_kernels_of_a_run(tasks):
    data = graded_templates(*PROBLEMS)
    shown_of = [
        optimizer_examples(data, tasks, replace(ALONE, flow=replace(ALONE.flow, single_agent=alone)), **OF_ALL)
        for alone in (False, True)
    ]
    assert shown_of[0] == shown_of[1]
    assert {one.lesson.messages[-2].role for one in shown_of[0]} == {"user"}
    assert {len(one.lesson.messages) for one in shown_of[0]} == {3}


@pytest.mark.parametrize("wording", ["full", "brief"])
def test_what_a_tester_learns_is_what_it_is_asked_in_a_conversation_to_the_letter(tasks, wording):
    data = graded_templates(*PROBLEMS, held_out=("relu",))
    asked = replace(GRADING, wording=wording, flow=Flow(2, stop_at=2.0), turn_tokens=10_000)
    examples = made.tester_examples(data, tasks, asked, count=40, seed=1, factor=1.1)
    assert len({one.kernel.fingerprint for one in examples}) >= 20
    for one in examples:
        model = Script(["…"])
        policies = {AgentName.TESTER: model, AgentName.OPTIMIZER: Script(["none"])}
        policies[AgentName.GENERATOR] = Script([wrapped(one.kernel.source)])
        asyncio.run(play(one.task, policies, TemplateJudge(), asked, 0))
        assert model.views == [one.lesson.messages[:-1]]


def test_a_tester_is_asked_about_kernels_that_none_has_learned_from(tasks):
    data = graded_templates(*PROBLEMS, held_out=("relu",))
    examples = made.tester_examples(data, tasks, GRADING, count=9999, seed=1, factor=1.1)
    assert not any(one.task.held_out or one.kernel.problem == "relu" for one in examples)
    assert not any(is_held_out(one.kernel.fingerprint) for one in examples)
    few = made.tester_examples(data, tasks, GRADING, count=25, seed=1, factor=1.1)
    assert set(Counter(one.kernel.verdict.status for one in few).values()) == {5}, "each way to end has its share"

    learned = {one.lesson.messages[1].text for one in examples}
    held_out = [task for task in tasks if task.held_out]
    prompts = made.tester_prompts(data, held_out, GRADING, seed=1, factor=1.1)
    assert learned.isdisjoint(said[1].text for said, _ in prompts)
    kernels = [extract(said[1].text).source for said, _ in prompts]
    learned_kernels = {one.kernel.source.strip() for one in examples}
    assert learned_kernels.isdisjoint(source.strip() for source in kernels)
    problems = Counter(
        next(task.problem for task in held_out if said[1].text.startswith(task.text)) for said, _ in prompts
    )
    assert problems == {"relu": 2, "gelu": 2, "softmax": 2}, "one for each task"
    assert len(set(kernels)) == 6, "kernels take turns"
    assert len({diagnosis.issue for _, diagnosis in prompts}) > 1
    assert prompts == made.tester_prompts(data, held_out, GRADING, seed=1, factor=1.1)


def test_better_is_right_instead_of_wrong_or_faster_by_the_factor():
    right, wrong = verdict_of(Status.PASSED, 1.0), verdict_of(Status.INCORRECT)
    assert is_better(right, wrong, 1.1)
    assert not is_better(wrong, right, 1.1)
    assert not is_better(wrong, wrong, 1.1)
    assert is_better(verdict_of(Status.PASSED, 1.1), right, 1.1)
    assert not is_better(verdict_of(Status.PASSED, 1.09), right, 1.1)
    assert not is_better(verdict_of(Status.PASSED), right, 1.1), "a speed that nobody knows"
    measured = samples.passed_on_gpu()
    slow, fast = verdict_of(Status.PASSED, 1e-3), verdict_of(Status.PASSED, 1e3)
    assert not is_better(measured, slow, 1.1), "one of them is measured, the other estimated"
    assert not is_better(fast, measured, 1.1)
    assert not is_better(right, verdict_of(Status.UNSUPPORTED), 1.1), "what could not be judged may have been right"


def test_data_without_anything_to_learn_is_refused(tasks):
    alone = GradedData((graded_kernel("relu", "__global__ void a() {}", speedup=1.0),), frozenset())
    assert len(generator_examples(alone, tasks, GRADING, count=3, seed=0)) == 3
    with pytest.raises(ConfigurationError, match=r"1\.5 times as fast as another"):
        optimizer_examples(alone, tasks, GRADING, count=3, seed=0, factor=1.5)
    unknown = graded_kernel("relu", "__global__ void a() {}", Status.INCORRECT, origin="rollout")
    with pytest.raises(ConfigurationError, match="no kernel with a diagnosis"):
        made.tester_examples(replace(alone, kernels=(unknown,)), tasks, GRADING, count=3, seed=0, factor=1.5)
    with pytest.raises(ConfigurationError, match="no kernel that passed"):
        generator_examples(replace(alone, held_out_problems=frozenset({"relu"})), tasks, GRADING, count=3, seed=0)
