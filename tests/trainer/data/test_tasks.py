"""Tasks: many wordings, all true, split for good."""

import subprocess
import sys

import pytest

from trainer.conversation.tester import estimated_tokens
from trainer.data.tasks import chosen, held_out_tasks, is_held_out, training_tasks
from trainer.errors import ConfigurationError


@pytest.mark.parametrize("wording", ["full", "brief"])
def test_two_hundred_held_out_prompts_stand_beside_the_training_ones(faces, wording):
    training = training_tasks(faces, 32, wording=wording)
    held_out = held_out_tasks(faces, wording=wording)
    assert len(held_out) == 200
    assert len(training) == 32 * len(faces)
    texts = {task.text for task in (*training, *held_out)}
    assert len(texts) == len({task.id for task in (*training, *held_out)}) == 200 + 32 * len(faces)
    assert all(task.held_out and is_held_out(task.id) for task in held_out)
    assert not any(task.held_out or is_held_out(task.id) for task in training)
    per_problem = [sum(task.problem == face.id for task in held_out) for face in faces]
    assert max(per_problem) - min(per_problem) <= 1


def test_a_few_problems_are_enough_for_two_hundred(faces):
    few = chosen(faces, ("relu", "vector_add", "saxpy"))
    for wording in ("full", "brief"):
        assert len({task.text for task in held_out_tasks(few, 200, wording=wording)}) == 200


def test_asking_for_more_keeps_what_was_there(faces):
    some = chosen(faces, ("softmax",))
    assert training_tasks(some, 40)[:10] == training_tasks(some, 10)
    assert held_out_tasks(some, 40)[:10] == held_out_tasks(some, 10)


def test_every_process_makes_the_same_tasks(faces):
    say = (
        "from evaluator.problems.catalogue import problems\n"
        "from trainer.data.tasks import held_out_tasks\n"
        "faces = tuple(p.face for p in problems().values())\n"
        "print(' '.join(task.id for task in held_out_tasks(faces, 60)))\n"
    )
    said = subprocess.run([sys.executable, "-c", say], capture_output=True, text=True, check=True).stdout
    assert said.split() == [task.id for task in held_out_tasks(faces, 60)]


def test_about_the_share_that_was_asked_for_is_held_out():
    ids = [f"problem-{number}" for number in range(5000)]
    for share in (0.1, 0.2, 0.5):
        assert sum(is_held_out(one, share) for one in ids) / len(ids) == pytest.approx(share, abs=0.02)
    assert {one for one in ids if is_held_out(one, 0.1)} <= {one for one in ids if is_held_out(one, 0.2)}


@pytest.mark.parametrize(("wording", "most"), [("full", 480), ("brief", 210)])
def test_a_task_says_all_that_is_needed_and_not_too_much(faces, wording, most):
    for face in faces:
        for task in training_tasks((face,), 24, wording=wording):
            assert estimated_tokens(task.text) <= most, task.text
            for tensor in (*face.inputs, *face.outputs):
                assert tensor.name in task.text
            assert "{" not in task.text.replace(face.starter.strip(), "")
            assert task.tier == face.tier
            assert "  " not in task.text.replace(face.starter.strip(), "")
            if wording == "full":
                assert face.statement in task.text


def test_problems_are_chosen_by_name_and_a_wrong_one_is_named(faces):
    assert [face.id for face in chosen(faces, ("softmax", "relu"))] == ["softmax", "relu"]
    assert chosen(faces, ()) == faces
    with pytest.raises(ConfigurationError, match="sofmax") as caught:
        chosen(faces, ("sofmax",))
    assert "softmax" in caught.value.remedy


def test_more_wordings_than_there_are_is_said(faces):
    with pytest.raises(ConfigurationError, match="only") as caught:
        training_tasks(faces[:1], 100_000, wording="brief")
    assert "tasks.variants" in caught.value.remedy
    with pytest.raises(ConfigurationError, match="no problems"):
        held_out_tasks((), 10)
