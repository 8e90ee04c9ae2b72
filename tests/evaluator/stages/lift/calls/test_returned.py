"""What host code says that it returns, as it might come from anybody."""

import json

import pytest

from common.contract import Status
from common.launch_plan import Copy, Fill
from evaluator.problems.catalogue import find_problem
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.calls.recorded_steps import PlanReader
from evaluator.stages.lift.recording import recording_of

RELU = find_problem("relu")
SHAPES = {"y": (16,)}


def tensor(address: int, **other) -> dict:
    made = {"address": address, "type": "Float", "shape": [16], "contiguous": True, "on_device": True}
    return made | other


def plan(returned, size=64, steps=lambda base: []):
    """Of two recordings with a third buffer of `size` bytes behind those of x and y."""
    found = []
    for base in (1 << 39, 1 << 40):
        buffers = [{"base": n * base + 4096, "bytes": 64 if n < 3 else size} for n in (1, 2, 3)]
        told = {"buffers": buffers, "steps": steps(base), "streams": 1}
        told["calls"] = [{"first_step": 0, "returned": returned(base)}]
        found.append(recording_of(json.dumps(told).encode()).call(0))
    reader = PlanReader(RELU, (), *found)
    return reader.plan(reader.steps(SHAPES))


def third(base: int) -> int:
    return 3 * base + 4096


def filled(base: int) -> list:
    return [{"fill": third(base), "data": "00", "bytes": 64, "stream": 0}]


def test_an_allocation_that_is_returned_whole_is_the_output():
    found = plan(lambda base: [tensor(third(base))], steps=filled)
    assert found.temporaries == ()
    assert [(type(step), step.target) for step in found.steps] == [(Fill, "y")]


@pytest.mark.parametrize(
    ("returned", "size", "source", "offset"),
    [
        (lambda base: [tensor(third(base) + 64)], 256, "scratch1", 64),
        (lambda base: [tensor(base + 4096)], 64, "x", 0),
    ],
    ids=["a part", "the input"],
)
def test_anything_else_is_copied_into_the_output(returned, size, source, offset):
    (step,) = plan(returned, size=size).steps
    assert isinstance(step, Copy)
    assert (step.source, step.target, step.source_offset_bytes, step.size_bytes) == (source, "y", offset, 64)


@pytest.mark.parametrize(
    ("returned", "status", "said"),
    [
        (lambda base: [], Status.INVALID_SUBMISSION, "returns no tensor"),
        (lambda base: [tensor(third(base))] * 2, Status.INVALID_SUBMISSION, "returns 2 tensors"),
        (lambda base: [tensor(third(base), type="Double")], Status.INVALID_SUBMISSION, "of type Double"),
        (lambda base: [tensor(third(base), type="Nonsense")], Status.INVALID_SUBMISSION, "of type Nonsense"),
        (lambda base: [tensor(third(base), shape=[4, 4])], Status.INVALID_SUBMISSION, "shape"),
        (lambda base: [tensor(third(base), on_device=False)], Status.RUNTIME_ERROR, "on the host"),
        (lambda base: [tensor(third(base), contiguous=False)], Status.UNSUPPORTED, "not contiguous"),
        (lambda base: [tensor(third(base) + 4)], Status.REJECTED, "beyond the end"),
        (lambda base: [tensor(1 << 20)], Status.REJECTED, "no buffer's address"),
        (lambda base: [tensor(third(base))][: base >> 40], Status.REJECTED, "another number of tensors"),
        (lambda base: [tensor(third(base), shape=[base >> 36])], Status.REJECTED, "another tensor"),
    ],
    ids=["none", "two", "type", "no type", "shape", "host", "strided", "beyond", "nowhere", "unstable", "sizes"],
)
def test_what_is_no_output_is_said(returned, status, said):
    with pytest.raises(LiftRefusedError) as caught:
        plan(returned)
    assert caught.value.ruling.status is status
    assert said in caught.value.ruling.message
    assert caught.value.ruling.hint
