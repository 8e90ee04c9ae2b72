"""Measures of conversations, the files they are written to, and the picture of them."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import sample_verdicts as samples
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import ANSWERS, Judge, kernel, played

from trainer.config.schema import TrainingConfig
from trainer.conversation.conversation import Flow
from trainer.conversation.episode import EpisodeSettings
from trainer.conversation.extraction import wrapped
from trainer.reporting import curves, metrics
from trainer.reporting.metrics import MEASURES, MetricsError, MetricsWriter, shares_of_time, training_measures

ROOT = Path(__file__).parents[3]


def config(**logging):
    return TrainingConfig.model_validate({"name": "first", "logging": {"tensorboard": False, **logging}})


def conversation(*names):
    return played([wrapped(kernel(name)) if name else "no kernel" for name in names])


def test_the_measures_of_a_few_conversations_by_hand():
    right = conversation("compile_a", "wrong_b", "pass_c")
    repeated = conversation("wrong_a", "wrong_a")
    silent = conversation("")
    found = training_measures([right, repeated, silent], left_out=2)
    answers = 3 + 2 + len(silent.attempts)
    assert (found["conversations"], found["left_out"]) == (3, 2)
    assert found["pass_rate"] == pytest.approx(1 / 3)
    assert found["pass_rate/first"] == 0
    assert found["pass_rate/generator"] == 0
    assert found["pass_rate/optimizer"] == pytest.approx(1 / (answers - 3))
    assert found["compile_rate"] == pytest.approx(4 / answers)
    assert found["format_error_rate"] == pytest.approx(len(silent.attempts) / answers)
    assert found["turns"] == pytest.approx(answers / 3)
    assert found["repeat_rate"] == pytest.approx(1 / 3)
    assert found["early_stop_rate"] == pytest.approx(1 / 3)
    assert found["reward/final"] == pytest.approx(sum(one.final_reward for one in (right, repeated, silent)) / 3)


class Speeds(Judge):
    """Kernels that are right, or wrong, at the speedups that their names end in."""

    async def evaluate(self, submission):
        judged = await super().evaluate(submission)
        speedup = float(re.search(r"_(\d+)\(", submission.source)[1])
        profile = samples.passed().profile.model_copy(update={"estimated_speedup": speedup})
        return replace(judged, verdict=judged.verdict.model_copy(update={"profile": profile}))


def test_a_gain_is_over_the_kernel_that_was_given_where_both_are_right():
    def gains(*names):
        endless = EpisodeSettings(flow=Flow(len(names), stop_at=1000), turn_tokens=10_000)
        one = played([wrapped(kernel(name)) for name in names], settings=endless, oracle=Speeds())
        return list(metrics.gains(one)), training_measures([one]).get("speedup/over_given")

    assert gains("pass_2", "pass_6", "pass_3") == ([3.0, 0.5], pytest.approx(1.5**0.5))
    assert gains("pass_2", "pass_8", "wrong_4", "pass_1") == ([4.0], pytest.approx(4)), "none over a wrong one"
    assert gains("pass_2", "pass_2") == ([1.0], pytest.approx(1)), "a repeat is as fast"
    assert gains("wrong_2", "pass_4") == ([], None)


def test_a_kernel_that_fails_at_a_held_out_size_only_is_a_regression():
    rates = {
        name: training_measures([conversation(f"{name}_a")]).get("regression_rate")
        for name in ("pass", "wrong", "compile")
    }
    assert rates["pass"] == 0
    assert rates["wrong"] == 1
    assert rates["compile"] is None


@settings(max_examples=40, deadline=None)
@given(st.lists(ANSWERS, max_size=3))
def test_measures_are_known_finite_and_shares_are_shares(many):
    found = training_measures([played(answers) for answers in many])
    assert set(found) <= set(MEASURES)
    for name, value in found.items():
        assert isinstance(value, float)
        assert value == value
        if "rate" in name or "share" in name:
            assert 0 <= value <= 1, name
    if not many:
        assert found == {"conversations": 0, "left_out": 0}


def test_shares_of_time():
    assert shares_of_time(2, 1, 4, 10) == {"generation_share": 0.2, "reward_share": 0.1, "update_share": 0.4}
    assert shares_of_time(1, 1, 1, 0) == {}


def test_lines_are_written_at_once_and_read_as_they_were(tmp_path):
    with MetricsWriter(tmp_path / "run", config()) as writer:
        writer.write(1, {"pass_rate": 0.25, "odd": float("nan")})
        writer.write(1, {"pass_rate": 0.5}, kind="held_out")
        lines = metrics.read_measures(tmp_path / "run")
    assert [(line["step"], line["kind"], line["pass_rate"]) for line in lines] == [
        (1, "train", 0.25),
        (1, "held_out", 0.5),
    ]
    assert "odd" not in lines[0]


def test_what_came_after_the_checkpoint_is_dropped_when_a_run_goes_on(tmp_path):
    with MetricsWriter(tmp_path, config()) as writer:
        for step in range(1, 6):
            writer.write(step, {"turns": step})
    with (tmp_path / metrics.FILE).open("a") as file:
        file.write('{"step": 6, "tur')
    assert len(metrics.read_measures(tmp_path)) == 5, "a last line that was cut off does not count"
    with MetricsWriter(tmp_path, config(), resumed_step=3) as writer:
        writer.write(4, {"turns": 40})
    assert [line["turns"] for line in metrics.read_measures(tmp_path)] == [1, 2, 3, 40]
    MetricsWriter(tmp_path, config()).close()
    assert metrics.read_measures(tmp_path) == []


def test_a_line_that_is_none_is_named(tmp_path):
    good = '{"step": 1, "kind": "train"}\n'
    for bad, why in (
        ("nonsense", "line 2"),
        ("[]", "it has no step"),
        ('{"step": 2}', "line 2.*its kind is None"),
        ('{"step": 2, "kind": "train", "reward/final": "x"}', "reward/final is no number"),
    ):
        (tmp_path / metrics.FILE).write_text(f"{good}{bad}\n{good}")
        with pytest.raises(MetricsError, match=why):
            metrics.read_measures(tmp_path)
    (tmp_path / metrics.FILE).write_bytes(good.encode() + b'{"step": 2, "k\xff\xfe\x00')
    assert len(metrics.read_measures(tmp_path)) == 1, "a last line of other bytes was not written to its end"
    (tmp_path / "file").write_text("")
    with pytest.raises(MetricsError, match="cannot be written"):
        MetricsWriter(tmp_path / "file", config())


def test_tensorboard_and_wandb_get_the_same_numbers_offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    with MetricsWriter(tmp_path, config(tensorboard=True, wandb="offline")) as writer:
        for step in (1, 2, 3):
            writer.write(step, {"pass_rate": step / 4})
    with MetricsWriter(tmp_path, config(tensorboard=True), resumed_step=2) as writer:
        writer.write(3, {"pass_rate": 1.0})
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(one.step, one.value) for one in events.Scalars("train/pass_rate")] == [(1, 0.25), (2, 0.5), (3, 1.0)]
    (written,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    assert b"train/pass_rate" in written.read_bytes()


def lines_of_a_run():
    for step in range(1, 41):
        share = step / 50
        rates = {"compile_rate": share, "pass_rate": share / 2, "turns": 5 - share}
        rewards = {"reward/final": share, "reward/generator": share / 3, "reward/optimizer": share / 2}
        yield {"step": step, "kind": "train", **rates, **rewards}
    yield {"step": 40, "kind": "held_out", "pass_rate": 0.4, "reward/final": 0.7}


def test_the_picture_is_one_of_a_telephone_s_width_and_names_its_curves(tmp_path):
    curves.draw_curves(list(lines_of_a_run()), tmp_path / "learning.svg", "cpu-demo")
    svg = (tmp_path / "learning.svg").read_text()
    for words in ("cpu-demo", "Reward", "Share", "Kernels per conversation", "answers that compile", "Step"):
        assert words in svg
    sizes = [float(size) for size in re.findall(r"font-size: ([0-9.]+)px", svg)]
    width_pt = float(re.search(r'viewBox="0 0 ([0-9.]+)', svg)[1])
    assert min(sizes) / width_pt * 360 >= 8, "letters are at least 8 px high on a screen of 360"
    curves.draw_curves(list(lines_of_a_run())[:1], tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="no measures to draw"):
        curves.draw_curves([], tmp_path / "none.png")


def test_the_training_page_lists_every_measure():
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `([a-z_/]+)` \| (.*) \|$", page.split("## Measures")[1], re.MULTILINE))
    assert listed == dict(MEASURES)


def test_lines_are_json_of_one_line_each(tmp_path):
    with MetricsWriter(tmp_path, config()) as writer:
        writer.write(7, {"a": 1})
    (line,) = (tmp_path / metrics.FILE).read_text().splitlines()
    assert json.loads(line)["step"] == 7
