"""`assay-train run` with its phases, and `assay-train data`: what their options mean and what is refused."""

import json
from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from trainer.cli import training
from trainer.cli.main import main
from trainer.cli.training import RunOptions
from trainer.config.reading import load_config
from trainer.data import graded
from trainer.rl import runner, settings
from trainer.rl.runner import RunSummary
from trainer.tuning import phases


def asked(*arguments):
    return CliRunner().invoke(main, [str(each) for each in arguments])


@pytest.fixture
def run(monkeypatch):
    """What `train` was called with."""
    calls = []
    monkeypatch.setattr(training, "train", lambda *given: calls.append(given))
    return calls


def test_every_option_of_the_launcher_is_a_setting_of_a_run(run):
    options = (
        "--model models/mine --num-gpus 2 --sft-examples 1000 --num-episodes 100 --sft-batch-size 2 "
        "--rl-batch-size 128 --sft-gradient-accumulation-steps 16 --evaluator http://10.0.0.1:80 --wandb offline "
        "--skip-rl"
    )
    done = asked("run", "--config", "one-gpu", *options.split(), "seed=3")
    assert done.exit_code == 0, done.output
    ((name, overrides, given),) = run
    # Without what only a machine with two GPUs would be asked.
    config = load_config(name, [one for one in overrides if not one.startswith("resources")])
    assert "resources.gpus_per_node=2" in overrides
    assert (config.model.name, config.seed, config.algorithm.prompts_per_step) == ("models/mine", 3, 128)
    sft = config.sft
    assert (sft.examples, sft.batch_size, sft.gradient_accumulation_steps) == (1000, 2, 16)
    assert (config.evaluator.url, config.evaluator.embedded) == ("http://10.0.0.1:80", False)
    assert config.logging.wandb == "offline"
    assert given == RunOptions(skip_rl=True, episodes=100)

    assert asked("run", "--quick-test", "--skip-sft").exit_code == 0
    assert run[-1] == ("quick-test", (), RunOptions(skip_sft=True))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "needs one configuration"),
        (("--quick-test", "--config", "one-gpu"), "needs one configuration"),
        (("--quick-test", "--resume", "--fresh"), "--resume goes on"),
        (("--quick-test", "--resume"), "no run in"),
        (("--quick-test", "--skip-sft", "--skip-rl"), "nothing to do"),
        (("--config", "cpu-demo", "--skip-rl"), "nothing to do"),
        (("--quick-test", "sft.learning_rate=1e300"), "less than or equal to 1"),
        (("--quick-test", "algorithm.learning_rate=1e300"), "less than or equal to 1"),
        (("--quick-test", "algorithm.critic_learning_rate=1e300"), "less than or equal to 1"),
        (("--quick-test", "agents.optimizer.learning_rate=1e300"), "less than or equal to 1"),
        (("--config", "cpu-demo", "model.warm_start.learning_rate=1e300"), "less than or equal to 1"),
        (("--quick-test", "sft.epoch=1"), "did you mean sft.epochs?"),
        (("--config", "cpu-demo", "agents.tester.tuned=true"), "agents.tester.tuned needs examples"),
        (("--quick-test", "agents.tester.model_name=tiny"), "set agents.tester.tuned=true"),
        (("--quick-test", "agents.tester.model_name=./nowhere"), "There is no language model in nowhere"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_starts(tmp_path, arguments, said):
    where = () if not arguments else (f"checkpointing.folder={tmp_path}/{{name}}",)
    refused = asked("run", *arguments, *where)
    assert refused.exit_code == 2, refused.output
    assert said in refused.output
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("package", "told"),
    [
        ("vllm", ("rollout.name=vllm",)),
        ("sglang", ("rollout.name=sglang", "agents.optimizer=null")),
        ("cupy", ("rollout.name=hf", "resources.layout=split", "resources.gpus_per_node=8")),
    ],
    ids=["vllm", "sglang", "cupy"],
)
def test_a_package_that_is_missing_is_named_before_models_are_tuned_or_a_run_is_put_aside(
    tmp_path, monkeypatch, package, told
):
    monkeypatch.setattr(settings, "find_spec", lambda name: None if name == package else find_spec(name))
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("")
    # An evaluator that does not answer is what would be met next.
    away = ("evaluator.embedded=false", "evaluator.url=http://127.0.0.1:9", "evaluator.start_patience_s=0")
    command = ("run", "--config", "one-gpu", "--sft-examples", 10, *told, *away, f"checkpointing.folder={folder}")
    refused = asked(*command, "--fresh")
    assert (refused.exit_code, refused.exception.__class__) == (2, SystemExit), refused.output
    assert "is not installed" in " ".join(refused.output.split())
    assert f"pip install {package}" in refused.output or "cupy-cuda13x" in refused.output
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["run", "run/metrics.jsonl"]
    tuning = asked(*command, "--skip-rl")
    assert "does not answer" in tuning.output, "what only fine-tunes generates without it"


@pytest.mark.parametrize("options", [(), ("--fresh",), ("--resume",)])
def test_a_folder_that_is_something_else_is_no_run_s(tmp_path, options):
    (tmp_path / "thesis.tex").write_text("years of work")
    for place in ("/", tmp_path):
        refused = asked("run", "--quick-test", *options, f"checkpointing.folder={place}")
        assert refused.exit_code == 2, refused.output
        assert "no folder of a run" in refused.output or "no run in" in refused.output
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_disk_that_is_full_ends_a_run_and_says_what_goes_on(tmp_path, monkeypatch, service):
    def play(config, **more):
        with open("/dev/full", "w") as full:
            full.write("measures")

    monkeypatch.setattr(runner, "run", play)
    where = (f"checkpointing.folder={tmp_path}/{{name}}", "evaluator.embedded=false", f"evaluator.url={service.url}")
    ended = asked("run", "--config", "cpu-demo", *where)
    assert (ended.exit_code, ended.exception.__class__) == (1, SystemExit), ended.output
    assert "cannot be written: No space left on device." in ended.output
    assert "the same command goes on" in ended.output


def test_a_run_begins_with_the_models_that_were_tuned_and_keeps_them(tmp_path, monkeypatch, service):
    began, tuned = [], []

    def tune(config, folder, tell):
        tuned.append(folder)
        for role in ("generator", "optimizer"):
            (folder / role).mkdir(parents=True)
            (folder / role / "config.json").write_text("{}")
        (folder / phases.TUNED).write_text(
            json.dumps({"models": {"generator": "generator", "optimizer": "optimizer"}})
        )
        return phases.tuned_before(folder)

    def play(config, *, agents, **more):
        began.append((config.algorithm.steps, agents))
        return RunSummary(tmp_path, 1, None, 1, 0, 0, interrupted=False, checkpoint=None)

    monkeypatch.setattr(phases, "tune", tune)
    monkeypatch.setattr(runner, "run", play)
    where = (f"checkpointing.folder={tmp_path}/runs/{{name}}", "--evaluator", service.url)
    folder = tmp_path / "runs" / "quick-test" / "tuning"
    models = {"generator": folder / "generator", "optimizer": folder / "optimizer"}

    early = asked("run", "--quick-test", "--skip-sft", *where)
    assert "No models have been tuned" in early.output
    assert (began.pop(), tuned) == ((4, None), [])
    ended = asked("run", "--quick-test", "--skip-rl", *where)
    assert str(models["generator"]) in ended.output, ended.output
    assert (began, tuned) == ([], [folder])
    # 16 conversations a step.
    after = asked("run", "--quick-test", "--skip-sft", "--num-episodes", 33, *where)
    assert after.exit_code == 0, after.output
    assert (began, tuned) == ([(3, models)], [folder])


def test_data_is_collected_by_a_command_and_by_the_same_again_only_what_is_new(tmp_path, service, monkeypatch):
    from trainer.data import corpus

    few = tuple(style for style in corpus.STYLES if style.problem == "relu")[:1]
    monkeypatch.setattr(corpus, "STYLES", tuple(type(one)(one.problem, one.name, one.text, ()) for one in few))
    told = ("tasks.problems=[relu,gelu]", "sft.held_out_problems=[gelu]", f"evaluator.url={service.url}")
    command = ("data", "--config", "cpu-demo", "--out", tmp_path / "set", "evaluator.embedded=false", *told)
    done = asked(*command)
    assert done.exit_code == 0, done.output
    card = graded.read_card(tmp_path / "set")
    # The style once right, and once with each slip of the pen that any style can have.
    assert (card.kernels, card.training, card.evaluations) == (4, 4, 4)
    assert card.problems == {"relu": {"compile_error": 2, "invalid_submission": 1, "passed": 1}}
    assert "4 kernels, 4 to learn from, 0 held out" in done.output
    again = asked(*command)
    assert "0 graded now" in again.output
    assert "4 there already" in again.output
    taught = asked(*command, "--examples", 4)
    assert taught.exit_code == 0, taught.output
    assert f"4 rows: {tmp_path / 'set' / 'examples' / 'generator-train.parquet'}" in taught.output
    assert "Contamination: 0 kernels" in taught.output
    assert (tmp_path / "set" / "card.png").stat().st_size > 1000
    (tmp_path / "level_1.parquet").write_text("nothing")
    strange = asked(*command, "--archive", tmp_path / "level_1.parquet")
    assert (strange.exit_code, "no Parquet file" in strange.output) == (2, True)
    unknown = asked(*command, "--operations", "row_nrom")
    assert (unknown.exit_code, "no family of operations 'row_nrom'" in unknown.output) == (2, True)
    other = asked(*command, "sft.held_out_problems=[relu]")
    assert (other.exit_code, "holds out gelu" in other.output) == (2, True)
    nowhere = asked(*command[:3], "--out", "/dev/null/x", *command[5:])
    assert (nowhere.exit_code, "--out" in nowhere.output) == (2, True)


def test_a_run_takes_the_tester_that_was_tuned_and_says_where_there_is_none(tmp_path, monkeypatch, service):
    played = []

    def tune(config, folder, tell):
        for role in config.tuned_roles:
            (folder / role).mkdir(parents=True, exist_ok=True)
            (folder / role / "config.json").write_text("{}")
        models = {role: role for role in config.tuned_roles}
        (folder / phases.TUNED).write_text(json.dumps({"models": models}))
        return phases.tuned_before(folder)

    def play(config, *, agents, **more):
        played.append((config.agents.tester.model_name, sorted(agents)))
        return RunSummary(tmp_path, 1, None, 1, 0, 0, interrupted=False, checkpoint=None)

    monkeypatch.setattr(phases, "tune", tune)
    monkeypatch.setattr(runner, "run", play)
    where = (f"checkpointing.folder={tmp_path}/runs/{{name}}", "--evaluator", service.url)
    tester = ("agents.tester.model_name=tiny", "agents.tester.tuned=true")
    folder = tmp_path / "runs" / "quick-test" / "tuning"

    assert asked("run", "--quick-test", *where, "--skip-rl").exit_code == 0
    without = asked("run", "--quick-test", *where, "--skip-sft", *tester)
    assert "No Tester has been tuned in" in without.output
    shown = asked("run", "--quick-test", *where, "--skip-rl", *tester)
    assert str(folder / "tester") in shown.output
    for again in ((), ("--skip-sft",)):
        assert asked("run", "--quick-test", *where, *again, *tester).exit_code == 0
    writers = ["generator", "optimizer"]
    assert played == [("tiny", writers), *[(str(folder / "tester"), writers)] * 2]
    # What is kept names the model that it was tuned from.
    assert load_config(str(folder.parent / "config.yaml")).agents.tester.model_name == "tiny"
