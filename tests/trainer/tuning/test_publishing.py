"""Examples as Parquet: in the form that verl reads, the same for the same seed, nothing held out among them."""

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from graded_kernels import OF_STATUS, graded_templates, verdict_of

from common.contract import Settings, Status
from trainer.conversation.conversation import Flow
from trainer.conversation.episode import EpisodeSettings
from trainer.data.graded import DataCard, GradedData, GradedKernel, read_card, write_data
from trainer.data.operations import OPERATIONS, stated
from trainer.data.tasks import held_out_tasks, is_held_out, training_tasks
from trainer.errors import ConfigurationError
from trainer.reporting.data_picture import draw_data
from trainer.tuning.collection import fingerprint_of, operation_candidates
from trainer.tuning.diagnosis import diagnosis_of
from trainer.tuning.publishing import publish, read_published

GRADING = EpisodeSettings(grading=Settings(target_speedup=2.0))
LEARNED, HELD_OUT, ASKED = "row_norm_60x100", "row_max_60x100", "row_norm_129x65"


def as_graded(operation):
    """Each kernel as its template says; of right ones every further style is twice as fast."""
    speed = {style.name: 2.0**number for number, style in enumerate(operation.family.styles)}
    for one in operation_candidates([operation]):
        if one.expected in OF_STATUS:
            times = speed[one.provenance.place] if one.expected is Status.PASSED else None
            verdict = verdict_of(one.expected, times)
            yield GradedKernel(one.problem, one.source, fingerprint_of(one.source), one.provenance, verdict, "ev")


@pytest.fixture(scope="module")
def data():
    kernels = [one for name in (LEARNED, HELD_OUT) for one in as_graded(OPERATIONS[name])]
    relu = graded_templates("relu").kernels
    return GradedData((*kernels, *relu), frozenset({HELD_OUT, ASKED}))


@pytest.fixture(scope="module")
def tasks(faces):
    relu = next(face for face in faces if face.id == "relu")
    learned = stated(training_tasks([OPERATIONS[LEARNED].face, relu], 6))
    return learned, stated(held_out_tasks([OPERATIONS[HELD_OUT].face, OPERATIONS[ASKED].face], 8))


def published(data, tasks, into, settings=GRADING, **more):
    return publish(data, *tasks, settings, into, **{"count": 60, "seed": 3, "factor": 1.1, **more})


def rows(into, name):
    return pq.read_table(into / "examples" / f"{name}.parquet").to_pylist()


def test_files_are_the_same_where_one_agent_writes_all_kernels_for_who_reads_them_learns_every_answer(
    data, tasks, tmp_path
):
    of_two = published(data, tasks, tmp_path / "two")
    alone = replace(GRADING, flow=Flow(3, single_agent=True))
    assert published(data, tasks, tmp_path / "alone", settings=alone) == of_two
    assert rows(tmp_path / "alone", "generator-train") == rows(tmp_path / "two", "generator-train")


def test_each_agent_gets_its_examples_and_the_card_counts_them(data, tasks, tmp_path):
    said = published(data, tasks, tmp_path)
    assert said == read_published(tmp_path)
    for name, count in said.files.items():
        assert pq.read_metadata(tmp_path / "examples" / name).num_rows == count > 0
    roles = {"generator": ["system", "user", "assistant"]}
    for agent in ("generator", "optimizer", "tester"):
        for one in rows(tmp_path, f"{agent}-train"):
            assert [message["role"] for message in one["messages"]] == roles["generator"]
            assert one["problem"] in (LEARNED, "relu")
            assert one["agent"] == agent
    assert {one["status"] for one in rows(tmp_path, "generator-train")} == {"passed"}
    assert set(said.statuses["tester"]) == {
        "passed", "incorrect", "runtime_error", "compile_error", "invalid_submission"
    }  # fmt: skip
    assert said.held_out_families == ("row_max",)
    assert said.held_out_shapes == (ASKED,)
    assert set(said.families) == {"row_norm", "relu"}
    assert {one["problem"] for one in rows(tmp_path, "generator-held_out")} == {HELD_OUT}
    asked = rows(tmp_path, "prompts-held_out")
    assert {one["problem"] for one in asked} == {HELD_OUT, ASKED}
    assert all(json.loads(one["reference"])["shapes"] for one in asked)


def test_an_optimizers_pair_states_how_many_times_as_fast_and_half_of_them_are_only_slow(data, tasks, tmp_path):
    said = published(data, tasks, tmp_path)
    found = [one for one in rows(tmp_path, "optimizer-train") if one["problem"] == LEARNED]
    slow = [one for one in found if one["old_status"] == "passed"]
    assert {one["factor"] for one in slow} == {2.0, 4.0}
    assert all(one["factor"] is None for one in found if one["old_status"] != "passed")
    assert 0.3 < len(slow) / len(found) < 0.7
    assert len(said.factors) == sum(one["factor"] is not None for one in rows(tmp_path, "optimizer-train"))
    times = published(data, tasks, tmp_path / "strict", factor=3.0)
    assert min(times.factors) >= 3.0


def test_a_tester_is_shown_a_kernel_and_answers_with_what_was_found(data, tasks, tmp_path):
    published(data, tasks, tmp_path)
    kernels = {one.fingerprint: one for one in data.kernels}
    for one in rows(tmp_path, "tester-train"):
        _, asked, answer = (message["content"] for message in one["messages"])
        kernel = kernels[one["fingerprint"]]
        assert kernel.source.strip() in asked
        assert f"The grader found:\n{one['status']}: " in asked
        beside = [other for other in data.kernels if other.problem == kernel.problem]
        assert diagnosis_of(kernel, beside, 1.1).is_named_by(answer)
        assert not is_held_out(kernel.fingerprint)


def test_the_same_seed_makes_the_same_bytes_and_another_one_others(data, tasks, tmp_path):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        (tmp_path / name).mkdir()
        published(
            replace(data, kernels=tuple(reversed(data.kernels))) if name == "b" else data,
            tasks,
            tmp_path / name,
            seed=seed,
        )
    written = {
        name: {path.name: path.read_bytes() for path in (tmp_path / name / "examples").iterdir()} for name in "abc"
    }
    assert written["a"] == written["b"] != written["c"]


def test_no_prompt_or_kernel_of_what_is_held_out_is_learned_from(data, tasks, tmp_path):
    said = published(data, tasks, tmp_path)
    assert said.contamination.prompts == 0
    assert said.contamination.highest < 0.95
    copied = next(one for one in data.kernels if one.problem == HELD_OUT and one.passed)
    more = replace(data, kernels=(*data.kernels, replace(copied, problem=LEARNED)))
    assert published(more, tasks, tmp_path).contamination.exact == 1
    assert copied.fingerprint not in {one["fingerprint"] for one in rows(tmp_path, "generator-train")}


def test_nothing_to_learn_from_is_said(tasks, tmp_path):
    with pytest.raises(ConfigurationError, match="No example came of"):
        published(GradedData((), frozenset()), tasks, tmp_path)


def test_verl_reads_the_file(data, tasks, tmp_path):
    from omegaconf import OmegaConf
    from verl.utils.dataset.multiturn_sft_dataset import MultiTurnSFTDataset

    from trainer.policies.models import ModelShape, load_model, make_tiny

    said = published(data, tasks, tmp_path)
    texts = [message["content"] for one in rows(tmp_path, "generator-train") for message in one["messages"]]
    make_tiny(tmp_path / "model", texts, seed=1, shape=ModelShape(hidden=32, layers=1, heads=2, intermediate=64))
    _, tokenizer = load_model(tmp_path / "model")
    config = OmegaConf.create({"max_length": 4096, "truncation": "error", "ignore_input_ids_mismatch": True})
    dataset = MultiTurnSFTDataset(str(tmp_path / "examples" / "generator-train.parquet"), tokenizer, config)
    assert len(dataset) == said.files["generator-train.parquet"]
    assert dataset[0]["loss_mask"].sum() > 10


def test_the_picture_shows_a_data_set(data, tasks, tmp_path):
    card = write_data(tmp_path, data, (), DataCard(()))
    assert read_card(tmp_path) == card
    families = {LEARNED: "row_norm", HELD_OUT: "row_max"}
    draw_data(card, families, ["row_max"], (1.5, 12.0), tmp_path / "card.svg")
    drawn = (tmp_path / "card.svg").read_text()
    assert all(name in drawn for name in ("row_norm", "row_max *", "relu", "incorrect", "times as fast"))
    with pytest.raises(ValueError, match="no kernels"):
        draw_data(DataCard(()), {}, (), (), tmp_path / "none.svg")
