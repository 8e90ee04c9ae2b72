"""The variants of reinforcement learning: what differs between them, what is said of their answers, and going on."""

import argparse
import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest
from graded_kernels import graded_templates

from benchmarks._support import effects
from benchmarks._support.timed_rl import KNOWN, NEW
from benchmarks.training import rl_variants_on_gpu as benchmark
from benchmarks.training import steps_per_hour
from evaluator.problems.catalogue import problems
from trainer.config.reading import load_config
from trainer.policies.fine_tuning import Epoch, FineTuned

KERNEL = {"compiled": True, "passed": True, "repeats": None, "speedup": 1.0, "over_naive": 1.0}
WRONG = KERNEL | {"passed": False, "speedup": None, "over_naive": None}


@pytest.fixture(scope="module")
def faces():
    return tuple(problem.face for problem in problems().values())


@pytest.mark.parametrize("pretrained", [False, True])
def test_variants_differ_in_what_their_names_say_and_in_nothing_else(pretrained):
    configs = {
        name: load_config("cpu-demo", benchmark.settings_of(name, pretrained=pretrained))
        for name in benchmark.VARIANTS
    }
    base = configs["base"]
    assert (base.flow.credit, base.flow.single_turn_steps) == (True, 0)
    for name, config in configs.items():
        algorithm, variant = config.algorithm, benchmark.VARIANTS[name]
        assert algorithm.prompts_per_step * algorithm.candidates * variant.kernels == benchmark.KERNELS_PER_STEP
        assert algorithm.prompts_per_step == benchmark.MINI_BATCHES * algorithm.mini_batch_size
        assert (variant.kernels, variant.agents) == (config.flow.max_turns, config.roles)
        assert algorithm.learns_critic == (name == "critic")
    rates = {
        name: [config.for_agent(role).algorithm.learning_rate for role in config.roles]
        for name, config in configs.items()
    }
    rate = rates["base"][0]
    changed = {"quick_optimizer": [rate, 2 * rate], "slow_agent": [rate / 2]}
    for name, found in rates.items():
        assert found == pytest.approx(changed.get(name, [rate] * len(found)))


def line(task, *kernels, asked="drawn"):
    return {"asked": asked, "task": f"row_sum-{task}", "problem": "row_sum", "attempts": list(kernels)}


def fast(speed):
    return KERNEL | {"speedup": speed, "over_naive": speed}


def test_an_effect_is_a_ratio_over_the_prompts_that_both_got_right_with_an_interval_over_prompts():
    base = [line(task, KERNEL, fast(2.0)) for task in range(4)]
    twice = [line(task, WRONG, fast(4.0)) for task in range(3)] + [line(3, WRONG)]
    left_out = [{"asked": "drawn", "left_out": True}]
    answers = {"tuned": {0: base}, "base": {1: base, 2: base}, "grpo": {1: twice, 2: twice + left_out}}
    figures = dict(benchmark.figures_of_systems(answers))
    assert figures["grpo_drawn_prompts"] == 4
    assert figures["grpo_drawn_compile_rate"] == 1
    assert figures["grpo_drawn_right"] == pytest.approx(0.75)
    assert figures["grpo_drawn_over_naive"] == pytest.approx(4)
    assert (figures["grpo_drawn_gain_count"], figures["base_drawn_gain"]) == (0, pytest.approx(2))
    over = "grpo_over_base_drawn"
    assert [figures[f"{over}_speed{end}"] for end in ("", "_low", "_high")] == pytest.approx([2, 2, 2])
    assert figures[f"{over}_speed_count"] == 6
    assert figures[f"{over}_right"] == pytest.approx(-0.25)
    assert figures[f"{over}_right_low"] < -0.25 < figures[f"{over}_right_high"] <= 0
    # All seeds began with the same models.
    assert figures["base_over_tuned_drawn_speed_count"] == 8
    assert figures["base_over_tuned_drawn_speed"] == pytest.approx(1)


def test_several_runs_of_a_kind_are_also_told_apart(tmp_path):
    slow, quick = [line(0, fast(1.0))], [line(0, fast(4.0))]
    answers = {"base": {1: slow, 2: quick}, "grpo": {1: quick, 2: slow}, "dapo": {2: quick}}
    figures = dict(benchmark.figures_of_systems(answers))
    single = {word: value for word, value in figures.items() if word.endswith("_drawn_speed") and "-" in word}
    assert single == pytest.approx(
        {
            "base-2_over_base-1_drawn_speed": 4,
            "grpo-1_over_base-1_drawn_speed": 4,
            "grpo-2_over_base-2_drawn_speed": 1 / 4,
        }
    )
    effects.draw_effects(figures, ["grpo", "dapo"], tmp_path / "effects.svg")
    text = (tmp_path / "effects.svg").read_text()
    assert "base, another seed" in text
    assert "rings are single runs" in text


def test_effects_are_drawn(tmp_path):
    answers = {"base": {1: [line(0, KERNEL)]}, "grpo": {1: [line(0, fast(2.0))]}}
    figures = dict(benchmark.figures_of_systems(answers))
    effects.draw_effects(figures, ["grpo", "dapo"], tmp_path / "effects.svg")
    text = (tmp_path / "effects.svg").read_text()
    assert "grpo" in text
    assert "dapo" not in text
    assert "rings" not in text


class Rehearsal(benchmark.Variants):
    """All but grading, tuning, learning and answering."""

    def __init__(self, given):
        super().__init__(given)
        self.asked = []

    def graded(self):
        self.faces = ()

    def tuned(self, data, started=None, model=None):
        return {}, {"generator": Path("g"), "optimizer": Path("o")}

    def tuned_alone(self, data, model=None):
        return Path("alone")

    def _asks(self, variant, agents):
        return agents, (), None

    def measured_together(self, systems, data, at_once):
        for system in systems:
            self.asked.append(system)
            self.answers_of(system).write_text(json.dumps([line(0, KERNEL)]))

    def save(self, *, quiet=True):
        """Nothing."""


def given(folder, **changed):
    asked = {"folder": folder, "simulator": True, "settings": [], "seconds": None, "last": False, "model": None}
    asked |= {"only": ("base", "grpo"), "seeds": 1, "steps": 2, "at_once": 2, "prompts": 1}
    asked |= {"ending_s": benchmark.ENDING_S}
    return argparse.Namespace(**asked | changed)


def test_a_benchmark_that_was_cut_off_goes_on_with_the_runs_that_have_steps_left(tmp_path, monkeypatch):
    told_of = []

    def checkpoint(run, step):
        place = tmp_path / run / "checkpoints" / f"step-{step:06d}"
        for role in ("generator", "optimizer"):
            (place / role / f"global_step_{step}").mkdir(parents=True)
        (place / "state.json").write_text(json.dumps({"form": 1, "step": step, "state": {}}))

    def played(told, seconds, *, ending_s):
        run = next(each.removeprefix("name=") for each in told if each.startswith("name="))
        told_of.append((run, seconds))
        assert {"agents.generator.model_name=g", "algorithm.steps=2"} <= set(told)
        cut_off = run == "grpo-1" and len(told_of) <= 2
        checkpoint(run, 1 if cut_off else 2)
        return not cut_off

    monkeypatch.setattr(benchmark, "played", played)
    with pytest.raises(benchmark.OutOfTimeError, match="1 of 2 runs have steps"):
        Rehearsal(given(tmp_path, seconds=1000.0)).run()
    assert sorted(run for run, _ in told_of) == ["base-1", "grpo-1"]
    assert all(seconds < 1000 for _, seconds in told_of)

    with pytest.raises(benchmark.OutOfTimeError):
        # A step that takes long is begun early enough to be finished.
        Rehearsal(given(tmp_path, seconds=1000.0, ending_s=950.0)).run()
    with pytest.raises(benchmark.OutOfTimeError):
        Rehearsal(given(tmp_path, seconds=1.0)).run()
    again = Rehearsal(given(tmp_path, seconds=1.0, last=True))
    again.run()
    assert "grpo-1_1" in again.asked, "what has been learned is measured"

    again = Rehearsal(given(tmp_path))
    again.run()
    assert told_of[2:] == [("grpo-1", None)]
    assert {"base-1_2", "grpo-1_2"} <= set(again.asked)
    assert set(again.answers()) == {"tuned", "base", "grpo"}, "no run has one agent, so none is tuned"
    assert again.answers()["grpo"][1] == [line(0, KERNEL)]


def test_runs_of_one_agent_begin_with_the_model_that_was_tuned_for_both_deeds(tmp_path, monkeypatch):
    began = {}

    def played(told, seconds, *, ending_s):
        run = next(each.removeprefix("name=") for each in told if each.startswith("name="))
        began[run] = sorted(each for each in told if ".model_name=" in each)
        return True

    monkeypatch.setattr(benchmark, "played", played)
    trial = Rehearsal(given(tmp_path, only=tuple(benchmark.VARIANTS)))
    trial.run()
    two = ["agents.generator.model_name=g", "agents.optimizer.model_name=o"]
    alone = {"one_agent-1", "slow_agent-1", "one_agent_single_turn-1"}
    assert began == {
        f"{name}-1": ["agents.generator.model_name=alone"] if f"{name}-1" in alone else two
        for name in benchmark.VARIANTS
    }
    assert set(trial.asked) == {"tuned", "tuned_one_agent"}, "no run has a checkpoint"


class Tuned(benchmark.Variants):
    """All but grading, with the templates' verdicts by heart."""

    def __init__(self, given, faces):
        super().__init__(given)
        self.faces = faces


def test_an_agent_alone_is_tuned_on_as_many_lessons_as_each_of_two_half_of_them_better_kernels(
    tmp_path, faces, monkeypatch
):
    counts = {}

    def tuned(start, into, lessons, section, *, epochs, **more):
        counts[into.name] = (Counter(len(one.messages) for one in lessons), epochs)
        return FineTuned(into / "epoch-1", (Epoch(1, len(lessons), 0, 1, 0.0),))

    monkeypatch.setattr("benchmarks._support.timed_rl.fine_tune", tuned)
    data = graded_templates(*KNOWN, held_out=NEW)
    trial = Tuned(given(tmp_path), faces)
    _, two = trial.tuned(data)
    alone = trial.tuned_alone(data)
    of_each, epochs = trial.config.sft.examples, trial.config.sft.epochs
    assert counts == {
        "generator-tuned": ({3: of_each}, epochs),
        "optimizer-tuned": ({3: of_each}, epochs),
        "one_agent-tuned": ({3: of_each / 2, 5: of_each / 2}, epochs),
    }
    assert alone not in two.values()
    assert (tmp_path / "one_agent-start" / "config.json").is_file()


def left_by_variants(folder, name, epoch=2):
    """A tuning as `fine_tune` leaves it; the epoch after the last finished one was begun."""
    for number in (epoch, epoch + 1):
        (folder / name / f"epoch-{number}").mkdir(parents=True)
        (folder / name / f"epoch-{number}" / "config.json").write_text("{}")
    done = [asdict(Epoch(number, 1, 0, 1, 0.5)) for number in range(1, epoch + 1)]
    (folder / name / "epochs.json").write_text(json.dumps(done))
    return folder / name / f"epoch-{epoch}"


def test_two_gpus_begin_with_the_newest_finished_epoch_of_what_the_other_benchmark_left(tmp_path):
    generator = left_by_variants(tmp_path, "generator-tuned", epoch=4)
    assert steps_per_hour.start_in(tmp_path) == generator
    alone = left_by_variants(tmp_path, "one_agent-tuned")
    assert steps_per_hour.start_in(tmp_path) == alone


def test_two_gpus_without_a_tuned_model_say_so_before_a_service_is_started(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(steps_per_hour, "served", lambda *more, **named: started.append(more))
    (tmp_path / "generator-tuned" / "epoch-1").mkdir(parents=True)
    monkeypatch.setattr(
        "sys.argv", ["steps_per_hour.py", "--models", str(tmp_path), "--folder", str(tmp_path / "two")]
    )
    with pytest.raises(SystemExit, match=r"no tuned model.*rl_variants_on_gpu\.py"):
        steps_per_hour.main()
    assert not started


def test_only_the_ways_that_are_named_run_and_figures_are_of_all_that_lie_in_the_folder(tmp_path, monkeypatch):
    played, models = [], tmp_path / "models"
    left_by_variants(models, "one_agent-tuned")
    monkeypatch.setattr(steps_per_hour, "_played", lambda way, given, left_s: played.append((way, left_s)))
    monkeypatch.setattr("benchmarks._support.record.RESULTS", tmp_path)
    shares = dict.fromkeys(("generation_share", "reward_share", "update_share", "weights_s"), 0.25)
    for way, took_s in (("one", 60.0), ("split", 30.0)):
        (tmp_path / way).mkdir()
        lines = [{"kind": "train", "step": step, "step_s": took_s, **shares} for step in (1, 2)]
        (tmp_path / way / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = ["steps_per_hour.py", "--models", str(models), "--folder", str(tmp_path), "--seconds", "500"]
    monkeypatch.setattr("sys.argv", [*told, "--only", "beside,one"])
    steps_per_hour.main()
    assert [way for way, _ in played] == ["beside", "one"]
    # Half of the seconds, not a third.
    assert played[0][1] == pytest.approx(250 - steps_per_hour.RESERVED_S, abs=5)
    figures = json.loads((tmp_path / "steps_per_hour.json").read_text())["figures"]
    assert figures["split_over_one"] == pytest.approx(2)
    for wrong in ("third", ","):
        monkeypatch.setattr("sys.argv", [*told, "--only", wrong])
        with pytest.raises(SystemExit):
            steps_per_hour.main()


@pytest.mark.parametrize(
    ("gpus", "has_vllm", "ways"),
    [
        (0, True, set()),
        (1, False, {"one"}),
        (1, True, {"one", "vllm", "vllm_eager"}),
        (2, False, {"one", "beside", "split"}),
    ],
    ids=["no_gpu", "one_gpu", "one_gpu_vllm", "two_gpus"],
)
def test_ways_that_a_machine_has_not_enough_for_are_left_out(monkeypatch, gpus, has_vllm, ways):
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: has_vllm or None)
    assert {way for way, placed in steps_per_hour.WAYS.items() if placed.can_run()} == ways


def test_two_gpus_are_used_in_the_ways_that_are_compared_and_only_whole_steps_count(tmp_path):
    start = left_by_variants(tmp_path, "generator-tuned")
    asked = argparse.Namespace(models=tmp_path, folder=tmp_path, steps=3)
    configs = {way: load_config("cpu-demo", steps_per_hour.told_of(way, asked)) for way in steps_per_hour.WAYS}
    placed = {way: (one.resources.gpus_per_node, one.resources.layout) for way, one in configs.items()}
    shared = dict.fromkeys(("one", "beside", "vllm", "vllm_eager"), (1, "shared"))
    assert placed == shared | {"split": (2, "split")}
    engines = {way: (one.rollout.name, one.rollout.enforce_eager) for way, one in configs.items()}
    assert engines["one"] == engines["split"] == ("hf", False)
    assert (engines["vllm"], engines["vllm_eager"]) == (("vllm", False), ("vllm", True))
    for way, where in steps_per_hour.WAYS.items():
        assert len(where.trainer.split(",")) == configs[way].resources.gpus_per_node
        assert configs[way].agents.generator.model_name == str(start)
    shares = dict.fromkeys(("generation_share", "reward_share", "update_share", "weights_s"), 0.25)
    lines = {
        way: [{"step": step, "step_s": took_s, **shares} for step, took_s in enumerate([900.0, took, took], start=1)]
        for way, took in {"one": 60.0, "beside": 40.0}.items()
    }
    figures = steps_per_hour.figures_of(lines | {"split": []})
    assert figures["one_steps_per_hour"] == pytest.approx(60)
    assert figures["beside_over_one"] == pytest.approx(1.5)
    assert "split_over_one" not in figures
