"""Sets of tasks: what is in none of a training's prompts, and what is asked at other sizes."""

import asyncio

import pytest

from trainer.config.reading import load_config
from trainer.data.references import StatedProblem
from trainer.data.tasks import is_held_out, training_tasks
from trainer.errors import ConfigurationError
from trainer.evaluation.task_sets import other_sizes, task_sets

KERNELBENCH = """\
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.randn(16, 64)]

def get_init_inputs():
    return []
"""


class Shelf:
    """An evaluator's list of problems."""

    def __init__(self, faces, refuses=False):
        self.faces, self.refuses = faces, refuses

    async def problems(self):
        return self.faces

    async def described(self, references, tell):
        if self.refuses:
            return ()
        face = next(face for face in self.faces if face.id == "relu")
        return tuple(
            StatedProblem(one, face.model_copy(update={"id": one.problem_id, "title": one.name}))
            for one in references
        )


def made(faces, *told, count=6, wanted=(), refuses=False):
    config = load_config("cpu-demo", told)
    found = asyncio.run(task_sets(config, Shelf(faces, refuses), count, wanted, tell=lambda text: None))
    return {one.name: one.tasks for one in found}


def test_what_is_asked_was_in_no_prompt_of_the_training(faces):
    found = made(faces, "tasks.problems=[relu,row_sum]")
    assert list(found) == ["wordings", "shapes", "families"]
    assert all(len(tasks) == 6 for tasks in found.values())
    learned = training_tasks([face for face in faces if face.id in ("relu", "row_sum")], 200, wording="brief")
    assert not {task.text for task in learned} & {task.text for task in found["wordings"]}
    assert {task.problem for task in found["wordings"]} == {"relu", "row_sum"}
    assert not {task.problem for task in found["families"]} & {"relu", "row_sum"}
    assert all(is_held_out(task.id) for task in (*found["wordings"], *found["families"]))
    ids = [task.id for tasks in found.values() for task in tasks]
    assert len(set(ids)) == len(ids)
    assert found == made(faces, "tasks.problems=[relu,row_sum]"), "the same whenever the same is asked"


def test_other_shapes_are_no_published_ones_and_kernels_are_graded_at_them(faces):
    for backend in ("sim", "auto"):
        found = made(faces, f"evaluator.backend={backend}", "tasks.problems=[]", count=40, wanted=["shapes"])
        published = {face.id: (*face.example_sizes, face.timing_sizes) for face in faces}
        assert {task.problem for task in found["shapes"]} == set(published)
        assert all(task.sizes not in published[task.problem] for task in found["shapes"])
        assert all(size % 2 for task in found["shapes"] for size in task.sizes.values())
    assert other_sizes({"n": 262144, "m": 1}) == {"n": 196609, "m": 1}


def test_problems_that_tuning_holds_out_are_a_set_of_their_own(faces):
    told = ("tasks.problems=[relu,row_sum]", "sft.held_out_problems=[relu]")
    found = made(faces, *told, "sft.examples=8", count=18)
    assert {task.problem for task in found["wordings"]} == {"row_sum"}
    assert {task.problem for task in found["untaught"]} == {"relu"}
    # Reinforcement asks for it.
    assert "relu" not in {task.problem for task in found["families"]}
    assert "untaught" not in made(faces, *told), "nothing was tuned"


def test_operations_stand_in_the_set_that_their_names_say(faces):
    found = made(faces, "tasks.problems=[relu]", "tasks.operations=[all]", count=200)
    assert all(task.reference is not None for task in found["shapes"] if task.problem != "relu")
    families = {name: {task.problem for task in tasks} for name, tasks in found.items()}
    assert not families["wordings"] & families["shapes"] - {"relu"}
    assert not families["wordings"] & families["families"]
    with pytest.raises(ConfigurationError, match="the simulator alone judges"):
        made(faces, "tasks.operations=[all]", "evaluator.backend=gpu")


def test_files_of_others_are_a_set(faces, tmp_path):
    (tmp_path / "relu.py").write_text(KERNELBENCH)
    told = (f"tasks.references=[{tmp_path}]", "tasks.wording=full", "tasks.problems=[relu]")
    found = made(faces, *told, wanted=["references"])
    assert all(task.reference.text == KERNELBENCH for task in found["references"])
    assert "get_inputs" in found["references"][0].text
    with pytest.raises(ConfigurationError, match=r"can grade none of tasks\.references"):
        made(faces, *told, refuses=True)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ConfigurationError, match="no file of a problem below"):
        made(faces, f"tasks.references=[{empty}]", "tasks.wording=full")


@pytest.mark.parametrize(
    ("told", "wanted", "said"),
    [
        ((), ["references"], "The set references is empty"),
        (("tasks.problems=[]",), ["families"], "The set families is empty"),
        (("tasks.problems=[nonsense]",), (), "no problem 'nonsense'"),
        (("tasks.problems=[relu]",), (), None),
    ],
)
def test_an_empty_set_is_named(faces, told, wanted, said):
    if said is None:
        with pytest.raises(ConfigurationError, match="no problem"):
            made((), *told)
        return
    with pytest.raises(ConfigurationError, match=said):
        made(faces, *told, wanted=wanted)
