"""Submissions whose host code runs, one file each: how it ends, and that the next one is graded rightly.

A header says the problem, what is tried, how it must end (`passed|…`) and why. `needs: a pids control group` is for
what forks without end: without one it is not run here at all, though a process may start threads only then.
`timed_at: {…}`: it is timed too, at these sizes.
"""

import contextlib
import json
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "evaluator"))

from host_tier import host_toolbox

from common.contract import Settings, Status, Submission
from evaluator.foreign.loading import foreign_problem
from evaluator.pipeline.pipeline import evaluate
from evaluator.sandbox.host.task_group import TaskGroup

FOLDER = Path(__file__).parent / "host"
FILES = sorted(FOLDER.glob("*.py"))
ENDS = {status.value for status in Status} - {"internal_error", "cancelled"}
NEXT = (FOLDER / "honest_plain.py").read_text()


def header(source: str) -> dict[str, str]:
    return dict(
        re.findall(
            r"^# (problem|attack|dialect|expect|because|needs|run_timeout_s|timed_at): (.*)$", source, re.MULTILINE
        )
    )


@pytest.fixture(scope="module")
def toolbox(tmp_path_factory):
    made = host_toolbox(tmp_path_factory.mktemp("host"))
    with contextlib.closing(made.gpu.runtime):
        yield made


def graded(toolbox, source, run_timeout_s=30.0):
    head = header(source)
    # `always`: what the text does while it is recorded is not what is tried here.
    settings = Settings(
        host_tier="always",
        verification="quick",
        timing="timed_at" in head,
        sizes=json.loads(head.get("timed_at", "null")),
        estimate_for=None,
        run_timeout_s=run_timeout_s,
        max_launches=10,
    )
    submission = Submission(
        problem=head["problem"], source=source, dialect=head.get("dialect", "kernelbench"), settings=settings
    )
    return evaluate(submission, toolbox)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_host_code_ends_as_it_must_and_the_next_job_is_right(path, toolbox):
    source = path.read_text()
    head = header(source)
    if "needs" in head:
        group = TaskGroup.made(1)
        if group is None:
            pytest.skip(f"there can be no {head['needs'].removeprefix('a ')} here")
        group.close()
    verdict = graded(toolbox, source, float(head.get("run_timeout_s", 30)))
    told = f"{verdict.status} in {verdict.phase}: {verdict.message}\nexpected {head['expect']}: {head['because']}"
    assert verdict.status.value in head["expect"].split("|"), told
    assert verdict.compile is not None
    assert verdict.compile.tier == ("device" if verdict.phase == "screen" else "host")
    assert (verdict.reward is None) == (verdict.status is Status.UNSUPPORTED)
    if verdict.status is not Status.PASSED:
        assert verdict.hint
    else:
        assert verdict.compile.host.times_include
    # Each evaluation begins with importing PyTorch: the others of the list are graded after this one as well.
    if verdict.status not in (Status.PASSED, Status.INCORRECT, Status.INVALID_SUBMISSION):
        following = graded(toolbox, NEXT)
        assert following.status is Status.PASSED, f"the next job: {following.status}: {following.message}"


def test_the_corpus_says_what_each_file_tries():
    heads = {path.stem: header(path.read_text()) for path in FILES}
    assert sum(name.startswith("honest") for name in heads) >= 25
    assert sum(not name.startswith("honest") for name in heads) >= 40
    for name, head in heads.items():
        assert head.keys() >= {"problem", "attack", "expect", "because"}, name
        assert ENDS.issuperset(head["expect"].split("|")), name
        assert head["expect"] in ("passed", "unsupported") or not name.startswith("honest"), name


REFERENCE = """
import torch
import torch.nn as nn

batch = 16
features = 64
outputs = 48
given = [features, outputs]

class Model(nn.Module):
    def __init__(self, many, others):
        super().__init__()
        self.linear = nn.Linear(many, others)

    def forward(self, x):
        return torch.relu(self.linear(x))

def get_inputs():
    return [torch.randn(batch, features)]

def get_init_inputs():
    return given
"""


PASSED_ON = """
import torch
import torch.nn as nn

many = 300

class Model(nn.Module):
    def forward(self, pair, *, scale: float, steps: int, mode="sum", mask=None):
        total = scale * pair["one"] + pair["two"][0] if mode == "sum" and mask is None else pair["one"]
        return {"total": total, "other": [pair["one"] - steps * pair["two"][0]], "left_out": ~pair["kept"]}

def get_inputs():
    kept = torch.randint(0, 2, (many,)).bool()
    pair, scale = {"one": torch.randn(many), "two": (torch.randn(many),), "kept": kept}, 2.5
    return [[pair], {"scale": scale, "steps": many // 50, "mode": "sum", "mask": None}]
"""
OTHER_ORDER = """
import torch

class ModelNew(torch.nn.Module):
    def forward(self, tensors, scale, steps, mode, mask):
        one, (two,) = tensors.pop("one"), tensors.pop("two")
        assert mode == "sum" and mask is None and isinstance(steps, int)
        assert tensors["kept"].dtype is torch.bool
        return {"left_out": ~tensors["kept"], "other": (one - steps * two,), "total": scale * one + two}
"""
IN_PLACE = (Path(__file__).parents[1] / "kernels/kernelbench/references/changed_in_place.py").read_text()
SAME_IN_PLACE = IN_PLACE.partition("def get_inputs")[0].replace("class Model(", "class ModelNew(")
MADE = REFERENCE.partition("def get_inputs")[0].replace("class Model(", "class ModelNew(")


@pytest.mark.parametrize(
    ("reference", "source"),
    [(REFERENCE, MADE), (PASSED_ON, OTHER_ORDER), (IN_PLACE, SAME_IN_PLACE)],
    ids=["linear", "dicts", "in place"],
)
def test_a_model_is_made_and_called_as_the_problems_file_does_it_at_each_of_its_sizes(toolbox, reference, source):
    """What follows from the file's numbers has other values too, here the list that `get_init_inputs` returns."""
    settings = Settings(
        host_tier="always",
        verification="quick",
        timing=False,
        estimate_for=None,
        other_sizes="required",
    )
    with foreign_problem(
        reference.encode(), "linear.py", toolbox.sandbox, toolbox.cache, other_sizes="required"
    ) as problem:
        submission = Submission(problem=problem.id, source=source, dialect="kernelbench", settings=settings)
        verdict = evaluate(submission, toolbox, problem=problem)
    assert verdict.status is Status.PASSED, verdict.message
    assert len({tuple(trial.sizes.items()) for trial in verdict.correctness.trials}) > 2
