"""`assay-train evaluate` against a real service: scripts and tiny models, killed in the middle, and wrong input."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from trainer.cli import evaluation
from trainer.cli.main import main
from trainer.config.reading import as_yaml, load_config
from trainer.conversation.conversation import Message
from trainer.conversation.rewards import CreditSettings
from trainer.conversation.tokens import token_ids
from trainer.evaluation.report import EvaluationReport
from trainer.policies import models
from trainer.reporting.transcripts import transcript, write_transcripts
from trainer.rl.checkpoints import Checkpoints

ROOT = Path(__file__).parents[3]
SHAPE = models.ModelShape(hidden=32, layers=1, heads=2, intermediate=64)
TEXTS = ["__global__ void relu() {}"] * 3
SETTINGS = ("evaluator.verification=quick", "tasks.problems=[relu,vector_add]", "flow.max_turns=2")
AWAY = ("--evaluator", "http://127.0.0.1:9", "evaluator.start_patience_s=0")
"""An evaluator that does not answer."""


def asked(*arguments):
    return CliRunner().invoke(main, ["evaluate", *map(str, arguments)])


def report_in(folder):
    return EvaluationReport.model_validate_json((folder / "report.json").read_text())


def tiny(folder, seed=1):
    models.make_tiny(folder, TEXTS, seed=seed, shape=SHAPE)
    return folder


def run_with(folder, steps, *changes):
    """The folder of a training run with checkpoints of both agents."""
    folder.mkdir()
    told = ("evaluator.embedded=false", "rollout.turn_tokens=8", *SETTINGS, *changes)
    (folder / "config.yaml").write_text(as_yaml(load_config("cpu-demo", told)))
    checkpoints = Checkpoints(folder / "checkpoints")
    for step in steps:
        place = checkpoints.begin(step)
        for number, role in enumerate(("generator", "optimizer")):
            tiny(place / role / f"global_step_{step}" / "actor" / "huggingface", 10 * step + number)
        checkpoints.finish(step, {}, keep=9)
    return folder


def test_scripts_are_played_measured_and_compared(tmp_path, service, monkeypatch):
    out = tmp_path / "out"
    command = (
        *("--config", "cpu-demo", "--evaluator", service.url, "--out", out, "--samples", 2, "--tasks", 4),
        *("--system", "right=templates", "--system", "wrong=templates:0", "--turns", "wrong=1", *SETTINGS),
        *("--set", "wordings", "--set", "shapes"),
    )
    done = asked(*command)
    assert done.exit_code == 0, done.output
    report = report_in(out)
    right, wrong = report.systems
    assert (right.max_turns, wrong.max_turns, right.faults, right.conversations) == (2, 1, 0, 16)
    assert report.sets == {"wordings": 4, "shapes": 4}
    for name in ("wordings", "shapes"):
        assert right.sets[name]["pass@1"].value == 1.0, right.problems
        assert right.sets[name]["compile_rate"].value == 1.0
        assert wrong.sets[name]["pass@1"].value < 1.0
    assert right.figures["fast_1/eager"].why_not == "not measured here: no GPU timed a kernel"
    assert right.figures["speedup/naive"].value > 0
    assert (report.backends, report.devices) == (("sim",), ())
    first = report.comparisons[0]
    assert (first.first, first.second, first.set, first.tasks) == ("right", "wrong", None, 8)
    assert first.mcnemar.only_second == 0
    assert first.mcnemar.only_first > 0
    assert "Not measured here (no GPU timed a kernel): fast_1 over PyTorch eager, " in done.output
    assert "cards" not in {path.name for path in out.iterdir() if path.is_dir() and any(path.iterdir())}
    assert (out / "report.html").is_file()
    again = asked(*command)
    assert "conversations," not in again.output, "nothing is played twice"
    assert report_in(out).systems == report.systems
    # As where a GPU times: naive kernels are graded for the same tasks, and are no system of the report.
    monkeypatch.setattr(evaluation, "was_timed", lambda played: True)
    beside = asked(*command)
    assert "naive..kernels: 8 of 8 conversations, 8 with a right kernel." in beside.output
    assert report_in(out).systems == report.systems
    monkeypatch.undo()
    pages = CliRunner().invoke(main, ["transcripts", str(out)])
    assert pages.exit_code == 0, pages.output
    other = asked(*command, "--seed", 1)
    assert (other.exit_code, "seed was 0 and is 1" in other.output) == (2, True)
    for shaped in ("reward.format_error=-0.5", "reward.shaping.hazards_penalty=0.05"):
        other = asked(*command, shaped)
        assert (other.exit_code, "reward was generator: weighted" in other.output) == (2, True), shaped
    other = asked(*("right=templates:fast" if word == "right=templates" else word for word in command))
    assert (other.exit_code, "those of another model" in other.output) == (2, True)


def test_an_evaluation_that_is_killed_goes_on_and_ends_as_one_that_was_not(tmp_path, service):
    def command(out):
        return [
            *("evaluate", "--config", "cpu-demo", "--evaluator", service.url, "--out", str(out), "--tasks", "8"),
            *("--system", "one=templates:0.5", "--system", "two=templates", "--set", "wordings", *SETTINGS),
            "evaluator.concurrency=1",
        ]

    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = subprocess.Popen(
        [sys.executable, "-m", "trainer", *command(killed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    answers, deadline_s = killed / "answers.jsonl", time.monotonic() + 120
    while not (answers.is_file() and answers.read_bytes().count(b"\n") >= 3):
        assert process.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    left = answers.read_bytes().count(b"\n")
    assert 3 <= left < 16
    assert not (killed / "report.json").exists()
    for folder in (killed, whole):
        done = CliRunner().invoke(main, command(folder))
        assert done.exit_code == 0, done.output
    assert answers.read_bytes().count(b"\n") == 16, "nothing is asked twice"
    assert report_in(killed).systems == report_in(whole).systems
    assert report_in(killed).comparisons == report_in(whole).comparisons


def test_checkpoints_of_a_run_play_each_other_and_get_cards(tmp_path, service):
    run, out = run_with(tmp_path / "run", (4, 8)), tmp_path / "out"
    done = asked(
        *("--system", f"early={run}@4", "--system", f"late={run}", "--crossplay", "--set", "wordings"),
        *("--tasks", 2, "--evaluator", service.url, "--out", out),
    )
    # So small a model never ends an answer in eight tokens.
    assert done.exit_code == 3, done.output
    assert "early never came to an end" in done.output
    report = report_in(out)
    assert [one.origin for one in report.systems] == [
        "training run run, step 4",
        "training run run, newest checkpoint",
    ]
    assert [model.agent for model in report.systems[0].models] == ["generator", "optimizer"]
    assert [(one.generator, one.optimizer, one.conversations) for one in report.cross_play.pairings] == [
        ("early", "early", 2),
        ("early", "late", 2),
        ("late", "early", 2),
        ("late", "late", 2),
    ]
    assert report.systems[0].figures["pass@1"].value == 0
    assert report.systems[0].figures["format_error_rate"].value == 1
    assert report.systems[0].figures["cut_rate"].value == 1
    cards = {path.name: path.read_text() for path in (out / "cards").iterdir()}
    assert sorted(cards) == ["early.md", "late.md"]
    assert "Two agents, a Generator and an Optimizer" in cards["early.md"]
    assert report.systems[0].models[0].sha256 in cards["early.md"]


def test_what_a_run_learned_from_tells_how_long_the_first_pass_took(tmp_path, service):
    from scripted import kernel, played

    from trainer.conversation.extraction import wrapped

    run, out = run_with(tmp_path / "run", (4,)), tmp_path / "out"
    for step, kinds in enumerate((("wrong", "wrong"), ("compile", "pass")), 1):
        talks = [transcript(played([wrapped(kernel(f"{kind}_a"))]), CreditSettings(), step) for kind in kinds]
        write_transcripts(run / "transcripts" / f"train-{step:06d}.jsonl", talks)
    done = asked(
        *("--system", f"run={run}", "--set", "wordings", "--tasks", 1, "--evaluator", service.url, "--out", out)
    )
    assert done.exit_code == 3, done.output
    (first,) = report_in(out).first_passes
    assert (first.run, first.conversations, first.first, first.problems) == ("run", 4, 4, {"row_sum": 4})
    assert first.warm_start == "120 supervised steps on templated kernels"


BAD = [
    ((), "Missing option"),
    (("--system", "one"), "is not NAME=WHAT"),
    (("--system", "a b=templates"), "is not NAME=WHAT"),
    (("--system", "one=templates", "--system", "one=templates"), "Two systems are called one"),
    (("--system", "one=templates:2"), "is no script"),
    (("--system", f"one={'x' * 300}"), "File name too long"),
    (("--system", "one={there}/nothing"), "there is no such folder"),
    (("--system", "one={there}/nothing@3"), "no folder of a training run"),
    (("--system", "one={there}/a,{there}/b,{there}/c"), "names 3 models"),
    (("--system", "one={mute}"), "has no chat template"),
    (("--system", "one={tiny}+{there}"), "There are no adapters"),
    (("--system", "one={run}@5"), "no checkpoint of step 5"),
    (("--system", "one={run}@sft"), "has no generator after supervised fine-tuning"),
    (("--system", "one={run}/checkpoints/step-000004/generator"), "There is no language model"),
    (("--system", "one={tiny}", "--samples", "2", "rollout.evaluation_temperature=0"), "At temperature 0"),
    (("--system", "one=templates", "--k", "3"), "pass@3 needs 3 conversations"),
    (("--system", "one=templates", "--turns", "two=1"), "is not NAME=N"),
    (("--system", "one=templates", "--crossplay"), "Cross-play is between systems of two agents"),
    (("--system", "one=templates", "tasks.nonsense=1"), "there is no such setting"),
]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    there = tmp_path_factory.mktemp("places")
    mute = tiny(there / "mute")
    (mute / "chat_template.jinja").unlink()
    return {"there": there, "run": run_with(there / "run", (4,)), "tiny": tiny(there / "tiny"), "mute": mute}


@pytest.mark.parametrize(("arguments", "said"), BAD, ids=[said for _, said in BAD])
def test_what_is_wrong_is_said_before_anything_is_asked(tmp_path, places, arguments, said):
    words = [word.format(**places) for word in arguments]
    refused = asked("--config", "cpu-demo", "--out", tmp_path / "out", *AWAY, *words)
    assert (refused.exit_code, said in refused.output) == (2, True), refused.output
    assert not (tmp_path / "out" / "answers.jsonl").exists()


def test_without_a_configuration_or_a_run_nobody_knows_what_to_ask(tmp_path):
    refused = asked("--system", "one=templates", "--out", tmp_path / "out", *AWAY)
    assert (refused.exit_code, "No configuration says" in refused.output) == (2, True)
    (tmp_path / "mine.txt").write_text("precious")
    refused = asked("--config", "cpu-demo", "--system", "one=templates", "--out", tmp_path, *AWAY)
    assert (refused.exit_code, "is no folder of an evaluation" in refused.output) == (2, True)


def test_an_evaluator_that_does_not_answer_is_named(tmp_path):
    lost = asked("--config", "cpu-demo", "--system", "one=templates", "--out", tmp_path / "out", *AWAY)
    assert (lost.exit_code, "The evaluator at http://127.0.0.1:9 does not answer" in lost.output) == (1, True)


def test_empty_sets_and_folders_without_problems_are_named(tmp_path, service):
    given = (
        "--config",
        "cpu-demo",
        "--system",
        "one=templates",
        "--evaluator",
        service.url,
        "--out",
        tmp_path / "out",
    )
    empty = tmp_path / "empty"
    empty.mkdir()
    for told, said in (
        (("--set", "references"), "The set references is empty"),
        (("--set", "families", "tasks.problems=[]"), "The set families is empty"),
        ((f"tasks.references=[{empty}]", "tasks.wording=full"), "There is no file of a problem below"),
        (("tasks.problems=[nonsense]",), "The evaluator has no problem 'nonsense'"),
    ):
        refused = asked(*given, *told)
        assert (refused.exit_code, said in refused.output) == (2, True), refused.output


def test_a_kernelbench_folder_is_asked_and_graded(tmp_path, service):
    pytest.importorskip("torch")
    folder, out = tmp_path / "level1", tmp_path / "out"
    folder.mkdir()
    (folder / "1_relu.py").write_text(
        "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n\n"
        "def get_inputs():\n    return [torch.randn(16, 64)]\n\ndef get_init_inputs():\n    return []\n"
    )
    (folder / "2_broken.py").write_text("def nothing(:\n")
    model = tiny(tmp_path / "tiny")
    done = asked(
        *("--config", "cpu-demo", "--system", f"tiny={model}", "--set", "references", "--tasks", 1, "--out", out),
        *("--evaluator", service.url, f"tasks.references=[{folder}]", "tasks.wording=full", "rollout.turn_tokens=8"),
        *("rollout.evaluation_temperature=0", "flow.max_turns=1"),
    )
    assert done.exit_code == 3, done.output
    assert "2_broken.py is left out" in done.output
    report = report_in(out)
    (problem,) = {one.problem for one in report.systems[0].problems}
    assert problem.startswith("kernelbench_1_relu_")
    assert json.loads((out / "plan.json").read_text())["settings"]["wording"] == "full"


def test_tokens_are_drawn_from_the_share_that_the_configuration_names(tmp_path, service):
    model = tiny(tmp_path / "tiny")

    def command(out, top_p):
        return (
            *("--config", "cpu-demo", "--system", f"tiny={model}", "--out", out, "--tasks", 1, "--samples", 3),
            *("--set", "wordings", "--evaluator", service.url, *SETTINGS, "flow.max_turns=1"),
            *("rollout.evaluation_temperature=1", "rollout.turn_tokens=8", f"rollout.top_p={top_p}"),
        )

    for top_p, different in (("1e-9", 1), ("1", 3)):
        out = tmp_path / f"out-{top_p}"
        done = asked(*command(out, top_p))
        assert done.exit_code == 3, done.output
        lines = [json.loads(line) for line in (out / "answers.jsonl").read_text().splitlines()]
        answers = [one["conversation"]["turns"][0]["response"]["token_ids"] for one in lines]
        assert len({json.dumps(one) for one in answers}) == different
    again = asked(*command(tmp_path / "out-1", "0.5"))
    assert (again.exit_code, "temperature was 1 and is 1, top_p 0.5" in again.output) == (2, True), again.output


def test_a_model_with_a_short_context_is_asked_what_fits_and_the_others_all(tmp_path, service):
    out, changes = tmp_path / "out", (*SETTINGS, "flow.max_turns=1", "rollout.turn_tokens=8")
    command = (
        *("--config", "cpu-demo", "--evaluator", service.url, "--out", out, "--tasks", 8, "--set", "wordings"),
        *("--system", f"wide={tiny(tmp_path / 'wide')}", *changes),
    )
    assert asked(*command).exit_code == 3, "a tiny model never comes to an end"
    _, tokenizer = models.load_model(tmp_path / "wide")
    messages = [
        tuple(Message(one["role"], one["text"]) for one in json.loads(line)["conversation"]["turns"][0]["messages"])
        for line in (out / "answers.jsonl").read_text().splitlines()
    ]
    lengths = [len(token_ids(tokenizer, each)) for each in messages]
    for name, context_tokens in (("narrow", sorted(lengths)[4]), ("mute", 16)):
        shape = replace(SHAPE, context_tokens=context_tokens)
        models.make_tiny(tmp_path / name, TEXTS, seed=2, shape=shape)
        command += ("--system", f"{name}={tmp_path / name}")
    done = asked(*command)
    assert done.exit_code == 3, done.output
    wide, narrow, mute = report_in(out).systems
    too_long = sum(length >= sorted(lengths)[4] for length in lengths)
    assert 0 < too_long < 8
    assert (wide.unasked, narrow.unasked, mute.unasked) == (0, too_long, 8)
    assert (wide.judged, narrow.judged, mute.judged) == (8, 8 - too_long, 0)
    assert f"Note: narrow: {too_long} of 8 conversations are left out" in done.output
    assert "assay-train: mute could not be asked" in done.output
    assert "tasks.wording=brief" in done.output
    assert CliRunner().invoke(main, ["transcripts", str(out)]).exit_code == 0
