"""Whole kernels, ours and the corpus of honest ones, at tiny sizes: both sides leave the same bytes in memory."""

import re
from pathlib import Path

import numpy as np
import pytest
from duel import Duel

from common.contract import Settings
from evaluator.errors import Ruling
from evaluator.pipeline.build import build
from evaluator.pipeline.stage_values import PlannedProgram, SubmittedSource
from evaluator.problems.arrays import NumpyRng
from evaluator.problems.catalogue import find_problem, problems
from evaluator.problems.problem import Problem
from evaluator.stages.launch.checked_plan import SizedPlan

TOO_LONG = {"histogram_reduce_add", "reduce_sum_grid_sync"}
"""Millions of instructions at any size."""
TOGETHER_BY_CHANCE = {"histogram_aggregated_by_blog", "histogram_coalesced_leader"}
"""Ask who is active together in a loop: in the interpreter lanes of several rounds are, as PTX allows."""
LEFT_OUT = TOO_LONG | TOGETHER_BY_CHANCE
CORPUS = sorted(p for p in (Path(__file__).parents[3] / "kernels").glob("*.cu") if p.stem not in LEFT_OUT)
OURS = [(problem, kind) for problem in problems() for kind in ("naive", "fast")]
SIZES = {
    "n": 77, "rows": 3, "cols": 37, "m": 5, "k": 19, "batch": 1, "in_channels": 2, "out_channels": 2, "height": 5,
    "width": 7, "heads": 1, "seq": 5, "dim": 8,
}  # fmt: skip


def tiny(problem: Problem) -> dict[str, int]:
    sizes = {name: SIZES[name] for name in problem.sizes}
    return sizes | {"n": 7} if "m" in sizes and "n" in sizes else sizes


def prepared(source: bytes, problem: Problem, flags: tuple[str, ...], toolbox) -> tuple[Duel, SizedPlan]:
    built = build(SubmittedSource(problem, source, None, Settings(flags=flags), "sm_80"), toolbox)
    assert isinstance(built, PlannedProgram), built
    sized_plan = built.checked_plan.at(tiny(problem))
    assert not isinstance(sized_plan, Ruling), sized_plan
    return Duel(toolbox.simulator, built.program), sized_plan


def agree(source: bytes, problem: Problem, flags: tuple[str, ...], toolbox) -> None:
    duel, sized_plan = prepared(source, problem, flags, toolbox)
    with duel:
        inputs = problem.distributions[0].draw(NumpyRng(np.random.default_rng(3)), tiny(problem))
        buffers = sized_plan.buffers_with(inputs)
        outcome = duel.simulate(buffers, sized_plan.steps)
        assert outcome.fault is None, outcome.fault
        expected = duel.interpret(buffers, sized_plan.steps)
        shapes = {b.name: b for b in sized_plan.buffers}
        for name, theirs in expected.items():
            x, y = (np.frombuffer(data, str(shapes[name].dtype.value)) for data in (outcome.contents[name], theirs))
            different = np.flatnonzero(x.view(np.uint8) != y.view(np.uint8))
            assert different.size == 0, f"{name}: simulator {x[:9]}, interpreter {y[:9]}"


@pytest.mark.parametrize(("problem", "kind"), OURS)
def test_our_kernels(problem, kind, toolbox):
    found = find_problem(problem)
    agree(getattr(found, kind).source.encode(), found, (), toolbox)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_the_corpus(path, toolbox):
    source = path.read_bytes()
    head = dict(re.findall(r"^// (problem|flags): (.*?)\r?$", source.decode(), re.MULTILINE))
    agree(source, find_problem(head["problem"]), tuple(head.get("flags", "").split()), toolbox)
