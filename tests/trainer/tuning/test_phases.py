"""All phases before the reinforcement learning with a tiny model: what comes of them, and what is made again."""

import asyncio
import json
import shutil
import sys
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from graded_kernels import TemplateJudge, verdict_of
from scripted import kernel, played

from common.contract import Status
from common.file_replacement import ASIDE
from trainer.config.reading import load_config
from trainer.conversation.extraction import wrapped
from trainer.conversation.rewards import CreditSettings
from trainer.data.graded import read_data
from trainer.data.operations import chosen_operations
from trainer.data.tasks import Task
from trainer.errors import CheckpointError, ConfigurationError, OracleLostError
from trainer.policies import models
from trainer.policies.adapters import WEIGHTS
from trainer.policies.fine_tuning import ADAPTER
from trainer.policies.local_policy import SamplingSettings
from trainer.reporting.transcripts import transcript, write_transcripts
from trainer.tuning import phases
from trainer.tuning.cross_agent import LearnedTogether

SMALL = (
    "tasks.problems=[relu,gelu,scalar_multiply]",
    "tasks.variants=4",
    "sft.held_out_problems=[gelu]",
    "sft.examples=20",
    "sft.epochs=2",
    "sft.evaluation_tasks=1",
    "sft.cross_conversations=2",
    "rollout.turn_tokens=8",
)


@pytest.fixture
def judge(faces, monkeypatch):
    """Stands for the evaluator: a real one is asked in test_collection."""
    made = TemplateJudge(faces)
    monkeypatch.setattr(phases, "_oracle", lambda config: made)
    shape = models.ModelShape(hidden=32, layers=1, heads=2, intermediate=64)
    make = models.make_tiny
    monkeypatch.setattr(models, "make_tiny", lambda into, texts, *, seed: make(into, texts, seed=seed, shape=shape))
    return made


def tuned(folder, *more):
    told = []
    return phases.tune(load_config("quick-test", [*SMALL, *more]), folder, told.append), told


def test_both_agents_are_tuned_measured_and_not_tuned_twice(judge, tmp_path):
    found, told = tuned(tmp_path)
    assert set(found) == {"generator", "optimizer"}
    for model in found.values():
        assert models.load_model(model)[0].num_parameters() > 0
    kept = json.loads((tmp_path / phases.TUNED).read_text())
    measured = [one["phase"] for one in kept["measured"]["generator"]]
    assert measured == [
        "Tuning the generator, before",
        "Tuning the generator, after epoch 1 of 2",
        "Tuning the generator, after epoch 2 of 2",
    ]
    assert [one[name]["prompts"] for one in kept["measured"]["optimizer"] for name in ("known", "new")] == [1] * 6
    assert kept["together"]["conversations"] == 2
    assert any("step 4 of 4" in line for line in told), "20 examples, 16 a step, two epochs"
    (place,) = tmp_path.glob("data-*")
    assert {one.problem for one in read_data(place).held_out} == {"gelu"}
    assert phases.tuned_before(tmp_path) == found

    asked = len(judge.asked)
    again, told = tuned(tmp_path)
    assert (again, len(judge.asked)) == (found, asked), "nothing is played, graded or measured again"
    assert not any("step" in line for line in told)
    other, _ = tuned(tmp_path, "sft.learning_rate=1e-3")
    assert other != found

    shutil.rmtree(other["generator"])
    with pytest.raises(CheckpointError, match="which the generator was tuned to"):
        phases.tuned_before(tmp_path)
    assert phases.tuned_before(tmp_path / "nothing") is None


def test_an_agent_alone_is_tuned_for_first_kernels_and_for_better_ones_and_measured_at_both(
    judge, tmp_path, monkeypatch
):
    taught = []
    tune = phases.fine_tune
    monkeypatch.setattr(
        phases,
        "fine_tune",
        lambda start, into, lessons, *more, **named: (
            taught.extend(lessons) or tune(start, into, lessons, *more, **named)
        ),
    )
    found, told = tuned(tmp_path, "agents.optimizer=null", "sft.epochs=1")
    assert list(found) == ["generator"]
    assert Counter(len(one.messages) for one in taught) == {3: 10, 5: 10}
    kept = json.loads((tmp_path / phases.TUNED).read_text())
    assert [set(one) for one in kept["measured"]["generator"]] == [{"phase", "known", "new"}] * 2
    assert all(one[kind]["improved_rate"] == 0 for one in kept["measured"]["generator"] for kind in ("known", "new"))
    assert any("improved 0% (goal 70%)" in line for line in told)


def test_kernels_of_runs_that_are_named_no_more_are_not_learned(judge, tmp_path, monkeypatch):
    theirs = wrapped(kernel("relu_of_theirs"))
    judge.otherwise[kernel("relu_of_theirs")] = verdict_of(Status.PASSED, 9.0)
    talk = played([theirs], task=Task("relu-1", "relu", 0, "Write relu.", held_out=False), oracle=judge)
    write_transcripts(
        tmp_path / "run" / "transcripts" / "train-000001.jsonl", [transcript(talk, CreditSettings(), 1)]
    )
    taught = []
    monkeypatch.setattr(
        phases,
        "fine_tune",
        lambda start, into, lessons, *more, **named: taught.append(lessons) or SimpleNamespace(folder=start),
    )
    monkeypatch.setattr(phases._Tuning, "_measured", lambda *of: None)
    few = ("agents.optimizer=null", "flow.max_turns=1", "sft.examples=100")
    for more, there in (((f"sft.rollouts=[{tmp_path / 'run'}]",), True), ((), False)):
        tuned(tmp_path / "tuning", *few, *more)
        answers = [lesson.messages[-1].text for lesson in taught.pop()]
        assert answers
        assert any("relu_of_theirs" in answer for answer in answers) is there


@pytest.mark.parametrize(("deterministic", "together"), [("true", 1), ("false", SamplingSettings.batch_size)])
def test_what_is_generated_beside_an_answer_changes_none_in_the_deterministic_mode(deterministic, together):
    run = SimpleNamespace(config=load_config("quick-test", [f"deterministic={deterministic}"]))
    assert phases._Tuning._sampling(run, 0.5) == SamplingSettings(0.5, together)


def test_who_writes_kernels_draws_as_in_the_run_and_a_tester_from_all_tokens(tmp_path, monkeypatch):
    monkeypatch.setattr(phases, "LocalPolicy", lambda model, sampling, device: sampling.top_p)
    for changes, shares in (((), (1.0, 1.0)), (("rollout.top_p=0.9",), (0.9, 1.0))):
        run = phases._Tuning.__new__(phases._Tuning)
        run.config = load_config("quick-test", changes)
        assert tuple(run._policy(role, tmp_path, 1.0) for role in ("optimizer", "tester")) == shares


def test_a_tester_is_tuned_measured_and_reviews_what_the_others_write_for_each_other(judge, tmp_path, monkeypatch):
    played, shown = [], []
    play_many = phases.play_many

    async def seen(asked, policies, *more):
        found = await play_many(asked, policies, *more)
        played.append(sorted(policies))
        shown.extend(found.whole)
        return found

    monkeypatch.setattr(phases, "play_many", seen)
    # Untuned agents write nothing that is a kernel.
    source = next(one.source for one in read_data_of(judge, tmp_path) if one.problem == "scalar_multiply")
    answer = phases.LocalPolicy.respond

    async def wrote(policy, messages, *, seed, max_tokens):
        found = await answer(policy, messages, seed=seed, max_tokens=max_tokens)
        return found if "Name what is wrong" in messages[0].text else replace(found, text=wrapped(source))

    monkeypatch.setattr(phases.LocalPolicy, "respond", wrote)
    tester = ("agents.tester.tuned=true", "agents.tester.model_name=tiny", "flow.report_tokens=40")
    found, told = tuned(tmp_path, *tester)
    assert list(found) == ["generator", "optimizer", "tester"]
    assert models.load_model(found["tester"])[0].num_parameters() > 0
    kept = json.loads((tmp_path / phases.TUNED).read_text())["measured"]["tester"]
    assert [one["phase"].split(", ")[1] for one in kept] == ["before", "after epoch 1 of 2", "after epoch 2 of 2"]
    assert all(0 <= one[kind]["named_rate"] <= 1 for one in kept for kind in ("known", "new"))
    assert any("Tuning the tester, before: 1 prompts of new problems: named 0%." in line for line in told)
    assert phases.tuned_before(tmp_path) == found
    assert played == [["generator", "optimizer", "tester"]]
    reviews = [turn for one in shown for turn in one.turns if turn.agent == "tester" and turn.response is not None]
    assert reviews, "the Tester has had its turn"
    again, told = tuned(tmp_path, *tester)
    assert again == found
    assert not any("step" in line or "prompts" in line for line in told)


def read_data_of(judge, folder):
    """The kernels that a tuning in another folder has graded."""
    asyncio.run(phases.collect_data(load_config("quick-test", SMALL), folder / "other", print))
    return read_data(folder / "other").kernels


def test_weights_in_4_bits_are_refused_before_anything_is_graded(judge, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(ConfigurationError, match="bitsandbytes"):
        tuned(tmp_path, "sft.method=qlora")
    assert not judge.asked
    assert not any(tmp_path.iterdir())


def test_other_settings_are_played_and_measured_anew(judge, tmp_path):
    def measured():
        kept = json.loads((tmp_path / phases.TUNED).read_text())["measured"]["generator"]
        return [(one["phase"].split(", ")[1], one["known"]["prompts"]) for one in kept]

    few = ("sft.epochs=1", "sft.examples=4")
    tuned(tmp_path, *few)
    assert measured() == [("before", 1), ("after epoch 1 of 1", 1)]
    _, told = tuned(tmp_path, *few, "sft.evaluation_tasks=3")
    assert measured() == [("before", 3), ("after epoch 1 of 1", 3)]
    assert not any("step" in line or "Playing" in line for line in told), "nothing is tuned or played again"
    _, told = tuned(tmp_path, *few, "rollout.temperature=0.5")
    assert any("Playing" in line for line in told)
    assert len([*tmp_path.glob("together-*")]) == 2


def test_what_a_kill_left_half_written_is_not_gone_on_with(judge, tmp_path, monkeypatch):
    few = ("sft.epochs=1", "sft.examples=4", "sft.cross_conversations=0")
    save = models.PreTrainedTokenizerFast.save_pretrained

    def killed(tokenizer, folder, *more, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(models.PreTrainedTokenizerFast, "save_pretrained", killed)
    with pytest.raises(KeyboardInterrupt):
        tuned(tmp_path, *few)
    monkeypatch.setattr(models.PreTrainedTokenizerFast, "save_pretrained", save)
    found, _ = tuned(tmp_path, *few)

    replaced = phases.replace_file

    def cut(path, content, **named):
        if path.name != phases.TUNED:
            return replaced(path, content, **named)
        (path.parent / f"{ASIDE}half").write_text(content[:20])
        raise KeyboardInterrupt

    monkeypatch.setattr(phases, "replace_file", cut)
    with pytest.raises(KeyboardInterrupt):
        tuned(tmp_path, *few, "seed=5")
    assert phases.tuned_before(tmp_path) == found


def test_adapters_are_tuned_kept_and_go_on_being_tuned_on_what_both_have_learned(judge, tmp_path, monkeypatch):
    shown = []
    tune = phases.fine_tune

    def seen(start, into, taught, section, **more):
        shown.append((start, section, more["adapter"]))
        return tune(start, into, taught, section, **more)

    monkeypatch.setattr(phases, "fine_tune", seen)
    # Untuned agents write nothing that is right, so what they learn from each other is given.
    taught = []

    def together(conversations, settings, *, factor):
        lessons = tuple(taught[0])
        return LearnedTogether(lessons, lessons, len(conversations), 1, 1)

    monkeypatch.setattr(phases, "learned_together", together)
    examples = phases.examples.generator_examples

    def noted(*given, **more):
        found = examples(*given, **more)
        taught.append([one.lesson for one in found])
        return found

    monkeypatch.setattr(phases.examples, "generator_examples", noted)
    found, _ = tuned(tmp_path, "sft.method=lora", "sft.lora.rank=2", "agents.optimizer={}")
    generator, optimizer, *rest = shown
    assert [adapter for _, _, adapter in (generator, optimizer)] == [None, None]
    for (start, section, _), (again, later, adapter) in zip((generator, optimizer), rest, strict=True):
        assert start == again, "over the model that the adapters belong to"
        assert adapter.parent.parent.parent == tmp_path
        assert later.learning_rate == pytest.approx(0.1 * section.learning_rate)
    for model in found.values():
        assert "-together-" in model.parent.name
        assert (model / ADAPTER / WEIGHTS).is_file()
        assert models.load_model(model)[0].num_parameters() > 0
    other, _ = tuned(tmp_path, "sft.method=lora", "sft.lora.rank=3")
    assert not {*other.values()} & {*found.values()}, "another rank is another tuning"


def test_a_tuning_that_an_evaluator_stops_goes_on_where_it_was(judge, tmp_path):
    sent = judge.evaluate
    count = 0

    async def dying(submission):
        nonlocal count
        count += 1
        if count > 60:
            raise OracleLostError("the evaluator is gone")
        return await sent(submission)

    judge.evaluate = dying
    with pytest.raises(OracleLostError):
        tuned(tmp_path)
    assert phases.tuned_before(tmp_path) is None
    judge.evaluate = sent
    found, _ = tuned(tmp_path)
    (place,) = tmp_path.glob("data-*")
    count = len(read_data(place).kernels)
    assert len(set(judge.asked[:count])) == count, "no kernel was graded twice"
    assert phases.tuned_before(tmp_path) == found


def test_a_folder_of_rollouts_that_is_not_there_is_named(judge, tmp_path):
    with pytest.raises(ConfigurationError, match="is no folder of a run"):
        tuned(tmp_path, f"sft.rollouts=[{tmp_path / 'gone'}]")


def test_rollouts_on_operations_are_graded_and_those_that_nobody_asked_for_are_counted(judge, tmp_path):
    operation, other = chosen_operations(["row_norm"])[0], chosen_operations(["silu"])[0]
    mine, *sources = (kernel(name) for name in ("fast_1", "wrong_1", "fast_2"))
    talks = [
        played([wrapped(mine)], task=Task("a", operation.name, 1, "Write it.", False, operation.reference)),
        played([wrapped(source) for source in sources], task=Task("b", other.name, 1, "Write it.", False)),
    ]
    lines = [transcript(one, CreditSettings(), 1) for one in talks]
    write_transcripts(tmp_path / "run" / "transcripts" / "train-000001.jsonl", lines)
    asked = [*SMALL, "tasks.operations=[row_norm]", f"sft.rollouts=[{tmp_path / 'run'}]"]
    told = []
    card = asyncio.run(phases.collect_data(load_config("quick-test", asked), tmp_path / "data", told.append))
    assert card.origins["rollout"] == 1
    (kept,) = [one for one in read_data(tmp_path / "data").kernels if one.provenance.origin == "rollout"]
    assert (kept.problem, kept.source) == (operation.name, mine)
    left_out = sum(attempt.written.source is not None for attempt in talks[1].attempts)
    (said,) = [line for line in told if "left out" in line]
    assert said.startswith(f"{left_out} of {left_out + len(talks[0].attempts)} kernels in the transcripts")
    assert f"they are for {other.name}, which neither tasks.problems nor tasks.operations" in said


def test_operations_are_graded_published_and_asked_by_families_and_shapes(judge, tmp_path):
    config = load_config("quick-test", [*SMALL, "tasks.operations=[row_norm,row_max]"])
    card = asyncio.run(phases.collect_data(config, tmp_path, print))
    learned, held_out = {"row_norm_60x100", "row_norm_500x301"}, {"row_max_60x100", "row_max_500x301"}
    assert {*card.problems} == {"relu", "gelu", "scalar_multiply", *learned, *held_out}
    assert {*card.held_out_problems} - {"gelu", "row_max_129x65", "row_norm_129x65"} == held_out
    assert asyncio.run(phases.collect_data(config, tmp_path, print)).evaluations == 0
    said = asyncio.run(phases.publish_data(config, tmp_path, print, count=30))
    assert set(said.families) == {"relu", "scalar_multiply", "row_norm"}
    assert said.held_out_families == ("gelu", "row_max")
    assert said.held_out_shapes == ("row_max_129x65", "row_norm_129x65")
    assert said.contamination.prompts == 0
    with pytest.raises(ConfigurationError, match="the simulator alone judges"):
        asyncio.run(
            phases.collect_data(
                load_config("quick-test", [*SMALL, "tasks.operations=[all]", "evaluator.backend=gpu"]),
                tmp_path,
                print,
            )
        )
