"""Data sets of graded kernels: sides, copies, and what a folder holds."""

import pytest
from graded_kernels import graded_kernel, graded_templates, verdict_of
from sample_verdicts import passed_on_gpu

from common.contract import Status
from trainer.data import graded
from trainer.data.graded import DataCard, GradedData, Provenance, RejectedKernel
from trainer.errors import ConfigurationError

SOURCE = "__global__ void a(float* y) { y[0] = 1.0f; }\n"


def test_a_problem_is_on_one_side_whatever_others_there_are(faces):
    ids = [face.id for face in faces]
    held_out = graded.sides(ids)
    assert 0 < len(held_out) < len(ids) / 2
    assert graded.sides(ids[: len(ids) // 2]) == held_out & set(ids[: len(ids) // 2])
    assert graded.sides(ids, ["relu"]) == {"relu"}
    with pytest.raises(ConfigurationError, match="no kernels for rellu"):
        graded.sides(ids, ["rellu"])
    with pytest.raises(ConfigurationError, match="All of relu, gelu are held out"):
        graded.sides(["relu", "gelu"], ["gelu", "relu"])


def test_no_kernel_is_there_twice_for_its_problem_or_on_both_sides():
    relu, other = graded_kernel("relu", SOURCE), graded_kernel("relu", SOURCE.replace("1.0f", "2.0f"))
    renamed = graded_kernel("gelu", SOURCE.replace(" a(", " b(").replace("{ y", "{ // one\n y"))
    data, out = GradedData((relu, relu, other, renamed), frozenset({"gelu"})).without_copies()
    assert data.kernels == (other, renamed)
    assert [(one.problem, one.reason) for one in out] == [("relu", "also a kernel of a problem that is held out")]
    assert {one.fingerprint for one in data.training}.isdisjoint(one.fingerprint for one in data.held_out)
    # Whether it is right may differ from problem to problem: both keep it where both are learned from.
    both, none = GradedData((relu, renamed), frozenset()).without_copies()
    assert (both.kernels, none) == ((relu, renamed), ())


def test_a_speed_is_the_measured_one_then_the_estimated_one_and_only_of_a_right_kernel():
    assert graded.speedup_of(passed_on_gpu()) == 1.55
    assert graded.speedup_of(verdict_of(Status.PASSED, 1.25)) == 1.25
    assert graded.speedup_of(verdict_of(Status.PASSED)) is None
    assert graded.speedup_of(verdict_of(Status.INCORRECT)) is None


def test_what_is_written_is_read_back_and_counted(tmp_path):
    data = graded_templates("relu", "gelu", held_out=("gelu",))
    out = [RejectedKernel("relu", "f", Provenance("template", "x"), "could not be judged: unsupported")]
    card = graded.write_data(tmp_path, data, out, DataCard((), "sim", duplicates=2))
    again = graded.read_data(tmp_path)
    assert sorted(map(repr, again.kernels)) == sorted(map(repr, data.kernels))
    assert again.held_out_problems == {"gelu"}
    assert card == graded.read_card(tmp_path)
    assert (card.kernels, card.training, card.held_out) == (
        len(data.kernels),
        sum(one.problem == "relu" for one in data.kernels),
        sum(one.problem == "gelu" for one in data.kernels),
    )
    assert card.problems["relu"]["passed"] == 3
    assert card.rejected == {"could not be judged: unsupported": 1}
    assert (card.evaluators, card.duplicates, card.origins) == (("0.1.0",), 2, {"template": len(data.kernels)})
    assert graded.read_rejected(tmp_path / graded.REJECTED) == tuple(out)


def test_a_line_that_was_interrupted_is_passed_over_and_another_is_named(tmp_path):
    line = graded.kernel_line(graded_kernel("relu", SOURCE))
    path = tmp_path / graded.KERNELS
    path.write_bytes(line + line[:40])
    assert len(graded.read_kernels(path)) == 1
    path.write_bytes(line + b'{"problem": 1}\n')
    with pytest.raises(ConfigurationError, match="line 2 does not belong"):
        graded.read_kernels(path)
    with pytest.raises(ConfigurationError, match="no data set"):
        graded.read_data(tmp_path)
    (tmp_path / graded.CARD).write_text("{}")
    with pytest.raises(ConfigurationError, match="is not the card"):
        graded.read_data(tmp_path)
