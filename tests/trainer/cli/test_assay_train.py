"""The command `assay-train`, as far as it needs no training: configurations, pages, pictures, the machine."""

import fcntl
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from scripted import kernel, played
from serving import Serving

import trainer.reporting
from common.client import Client
from common.contract import Submission
from trainer.cli import doctor
from trainer.cli.main import main
from trainer.config.memory import gpu_loads
from trainer.config.reading import as_yaml, load_config
from trainer.conversation.extraction import wrapped
from trainer.conversation.rewards import CreditSettings
from trainer.errors import CheckpointError
from trainer.reporting.transcripts import transcript, write_transcripts
from trainer.rl import processes, runner
from trainer.rl.checkpoints import Checkpoints
from trainer.rl.runner import RunSummary


def asked(*arguments):
    return CliRunner().invoke(main, [str(each) for each in arguments])


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "runs" / "first"
    folder.mkdir(parents=True)
    lines = [{"step": step, "kind": "train", "time_s": 0.0, "pass_rate": step / 4} for step in (1, 2)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    talk = transcript(played([wrapped(kernel("pass_a"))]), CreditSettings(), 1)
    write_transcripts(folder / "transcripts" / "train-000001.jsonl", [talk])
    return folder


HEAVY = ("httpx", "numpy", "pydantic", "rich", "torch", "common", "trainer.config", "trainer.rl")


@pytest.mark.parametrize("command", [["--help"], ["run", "--help"], ["config", "--help"], ["nonsense"]])
def test_help_of_training_imports_nothing_that_takes_long(command):
    script = (
        "import sys\nfrom trainer.cli.main import main\ntry:\n    main(sys.argv[1:])\n"
        "finally:\n    print(*sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", script, *command], capture_output=True, text=True, check=False)
    imported = set(ended.stderr.split())
    assert "trainer.cli.main" in imported
    assert imported.isdisjoint(HEAVY)


def test_configurations_are_listed_shown_and_explained():
    assert "cpu-demo" in asked("config", "list").output
    shown = asked("config", "show", "cpu-demo", "seed=7")
    assert yaml.safe_load(shown.output)["seed"] == 7
    fields = asked("config", "fields", "flow.discount")
    assert "0.9" in fields.output
    assert asked("config", "fields", "nothing").exit_code == 2


def test_what_verl_gets_is_shown_and_checked_by_verl():
    shown = asked("config", "show", "requirements", "--changed", "--verl")
    assert shown.exit_code == 0, shown.output
    assert len(re.findall("^# What verl gets for the (?:generator|optimizer)$", shown.output, re.MULTILINE)) == 2
    assert "ppo_epochs: 4" in shown.output


def test_a_wrong_configuration_is_named_with_its_place(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("algorithm:\n  learnin_rate: 1\n")
    refused = asked("config", "show", path)
    assert refused.exit_code == 2
    assert f"{path}:2:3" in refused.output
    assert "did you mean algorithm.learning_rate?" in refused.output


def test_a_run_whose_folder_is_taken_or_holds_other_weights_is_refused(run):
    where = f"checkpointing.folder={run.parent}/{{name}}"
    lock = run.parent / ".first.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused = asked("run", "--config", "cpu-demo", "name=first", where)
    assert refused.exit_code == 2
    assert "Another run is under way" in refused.output
    (run / "config.yaml").write_text(as_yaml(load_config("cpu-demo", ["name=first", where, "model.name=elsewhere"])))
    step = run / "checkpoints" / "step-000003"
    step.mkdir(parents=True)
    (step / "state.json").write_text(json.dumps({"form": 1, "step": 3, "state": {}}))
    other = asked("run", "--config", "cpu-demo", "name=first", where)
    assert other.exit_code == 2
    assert "model.name changed" in other.output


def test_a_data_set_is_collected_by_one_command_at_a_time(tmp_path):
    with (tmp_path / ".graded.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        refused = asked("data", "--config", "cpu-demo", "--out", tmp_path / "graded", *AWAY)
    assert refused.exit_code == 2
    assert "Another `assay-train data` is under way in" in refused.output


AWAY = ("evaluator.embedded=false", "evaluator.url=http://127.0.0.1:9", "evaluator.start_patience_s=0")
"""An evaluator that does not answer: a run ends before it trains."""


@pytest.mark.parametrize(
    ("change", "lasting"),
    [
        ("model.lora_rank=4", True),
        ("model.warm_start.steps=3", True),
        ("agents.generator.model_name=elsewhere", True),
        ("agents.optimizer=null", True),
        ("model.offload=true", False),
        ("model.gradient_checkpointing=true", False),
        ("agents.generator.temperature=0.5", False),
        ("agents.generator.kl_coefficient=0.5", False),
        ("agents.generator.learning_rate=0.5", False),
    ],
)
def test_a_run_that_goes_on_keeps_its_weights_and_may_have_other_settings(run, change, lasting):
    told = ("name=first", f"checkpointing.folder={run.parent}/{{name}}", *AWAY)
    (run / "config.yaml").write_text(as_yaml(load_config("cpu-demo", told)))
    step = run / "checkpoints" / "step-000003"
    step.mkdir(parents=True)
    (step / "state.json").write_text(json.dumps({"form": 1, "step": 3, "state": {}}))
    found = asked("run", "--config", "cpu-demo", *told, change)
    assert found.exit_code == (2 if lasting else 1)
    assert ("began with other weights" in found.output) is lasting
    assert ("Different from the last time" in found.output) is not lasting


def test_what_a_run_without_a_checkpoint_has_measured_is_kept_under_another_name(run):
    measured = (run / "metrics.jsonl").read_text()
    (run / "models" / "generator-1").mkdir(parents=True)
    told = ("name=first", f"checkpointing.folder={run.parent}/{{name}}", *AWAY)
    found = asked("run", "--config", "cpu-demo", *told)
    assert "left no checkpoint to go on from" in found.output
    assert str(run.parent / "first.1") in found.output
    assert (run.parent / "first.1" / "metrics.jsonl").read_text() == measured
    assert (run.parent / "first.1" / "transcripts" / "train-000001.jsonl").is_file()
    assert (run / "models" / "generator-1").is_dir()
    assert not (run / "metrics.jsonl").exists()
    asked("run", "--config", "cpu-demo", *told)
    assert not (run.parent / "first.2").exists(), "there was nothing to keep"


@pytest.mark.parametrize("command", [("config", "check"), ("run", "--config")])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("reward.shaping={speling: 1}",), "reward.shaping has no speling"),
        (("curriculum.name=status", "curriculum.start_tier=3"), "curriculum.start_tier is 3"),
    ],
)
def test_what_only_a_part_can_refuse_is_refused_before_anything_starts(tmp_path, command, wrong, said):
    where = f"checkpointing.folder={tmp_path}/{{name}}"
    refused = asked(*command, "cpu-demo", where, "reward.name=components", *wrong)
    assert refused.exit_code == 2
    assert said in refused.output
    assert not list(tmp_path.iterdir())


def test_a_run_that_was_stopped_says_how_to_go_on_in_words_for_a_shell(tmp_path, monkeypatch):
    def stopped(config, **_):
        return RunSummary(tmp_path, 1, None, 8, 0, 0, interrupted=True, checkpoint=tmp_path / "step-000001")

    monkeypatch.setattr(runner, "run", stopped)
    monkeypatch.setattr(processes, "wait_for", lambda section: None)
    told = (f"checkpointing.folder={tmp_path}/{{name}}", "evaluator.embedded=false", "tasks.problems=[relu, gelu]")
    found = asked("run", "--config", "cpu-demo", *told)
    assert found.exit_code == 130
    line = next(line for line in found.output.splitlines() if line.startswith("Stopped."))
    assert shlex.split(line.partition(" with: ")[2]) == ["assay-train", "run", "--config", "cpu-demo", *told]


def test_pages_and_picture_are_made_from_a_run_s_folder(run):
    made = asked("transcripts", run)
    assert made.output.strip() == f"1 conversations: {run / 'pages' / 'index.html'}"
    assert (run / "pages" / "0001.html").is_file()
    assert asked("picture", run).output.strip() == str(run / "learning.png")
    assert (run / "learning.png").read_bytes().startswith(b"\x89PNG")
    nothing = asked("transcripts", run / "transcripts" / "..", "--out", run / "x")
    assert nothing.exit_code == 0
    (run / "empty").mkdir()
    assert asked("transcripts", run / "empty").exit_code == 2
    assert asked("picture", run / "empty").exit_code == 2


def test_without_what_draws_curves_a_picture_says_what_to_install(run, monkeypatch):
    monkeypatch.delitem(sys.modules, "trainer.reporting.curves", raising=False)
    monkeypatch.delattr(trainer.reporting, "curves", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused = asked("picture", run)
    assert refused.exit_code == 2
    assert "pip install 'assay[curves]'" in refused.output
    assert not (run / "learning.png").exists()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("picture", "--out", "/dev/null/x.png"), "/dev/null/x.png cannot be written"),
        (("picture", "--out", "x.gif"), "x.gif is no picture's name"),
        (("transcripts", "--out", "/dev/null/x"), "/dev/null/x cannot be written"),
    ],
)
def test_a_place_that_cannot_be_written_is_named(run, command, said):
    refused = asked(*command, run)
    assert (refused.exit_code, refused.exception.__class__) == (2, SystemExit)
    assert said in refused.output


def test_a_run_s_folder_that_cannot_be_made_is_named():
    refused = asked("run", "--config", "cpu-demo", "checkpointing.folder=/dev/null/x")
    assert (refused.exit_code, refused.exception.__class__) == (2, SystemExit)
    assert "/dev/null/x cannot be written: File exists" in refused.output or "Not a directory" in refused.output
    assert "checkpointing.folder" in refused.output


def test_a_folder_without_a_model_is_refused_by_check_and_doctor(tmp_path):
    told = ("cpu-demo", f"model.name={tmp_path}")
    checked = asked("config", "check", *told)
    assert (checked.exit_code, checked.exception.__class__) == (2, SystemExit)
    assert f"There is no language model in {tmp_path}" in checked.output
    found = asked("doctor", "--config", *told)
    assert found.exit_code == 1
    assert f"✗ memory     there is no language model in {tmp_path}" in found.output


@pytest.mark.parametrize("name", ["/nowhere/a-model", "./a-model"])
def test_a_model_s_folder_that_is_not_there_is_refused_before_anything_starts(tmp_path, name):
    told = ("cpu-demo", f"model.name={name}", f"checkpointing.folder={tmp_path}/run")
    for command in (("config", "check"), ("run", "--config")):
        refused = asked(*command, *told)
        assert (refused.exit_code, refused.exception.__class__) == (2, SystemExit)
        assert f"There is no language model in {Path(name)}" in refused.output
    assert asked("doctor", "--config", *told).exit_code == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [(), ("--operations", "nosuch"), ("--rollouts", "{}/other")])
def test_data_that_cannot_be_made_is_refused_before_an_evaluator_starts(tmp_path, wrong):
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    into = other if not wrong else tmp_path / "data"
    refused = asked("data", "--config", "cpu-demo", "--out", into, *(one.format(tmp_path) for one in wrong))
    assert (refused.exit_code, refused.exception.__class__) == (2, SystemExit)
    assert "evaluator" not in refused.output
    assert sorted(tmp_path.rglob("*")) == [other, other / "notes.txt"]


def test_a_tokenizer_without_a_chat_template_is_refused_before_anything_is_loaded(tmp_path):
    for name in ("config.json", "model.safetensors", "tokenizer_config.json"):
        (tmp_path / name).write_text("{}")
    for command in (("config", "check", "cpu-demo"), ("run", "--config", "cpu-demo")):
        refused = asked(*command, f"model.name={tmp_path}", f"checkpointing.folder={tmp_path}/runs/{{name}}")
        assert (refused.exit_code, refused.exception.__class__) == (2, SystemExit)
        assert f"The tokenizer of {tmp_path} has no chat template" in refused.output
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    doctor.refuse_without_model(tmp_path)


def test_a_run_that_is_finished_says_so_at_once(run, monkeypatch):
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("nothing is left to do"))
    checkpoints = Checkpoints(run / "checkpoints")
    checkpoints.begin(2)
    checkpoints.finish(2, {}, keep=1)
    with (run / "metrics.jsonl").open("a") as lines:
        lines.write(json.dumps({"step": 2, "kind": "held_out", "time_s": 0.0, "pass_rate": 0.5}) + "\n")
    told = (f"checkpointing.folder={run.parent}/{{name}}", "name=first", "evaluator.embedded=false")
    ended = asked("run", "--config", "cpu-demo", *told, "algorithm.steps=2")
    assert ended.exit_code == 0, ended.output
    assert "All 2 steps are done." in ended.output


def test_a_start_that_is_refused_leaves_the_configuration_that_the_run_has(run, monkeypatch):
    def refused(config, **_):
        raise CheckpointError("The checkpoint has no critic.", "Start over with --fresh.")

    told = ("run", "--config", "cpu-demo", f"checkpointing.folder={run.parent}/{{name}}", "name=first", *AWAY)
    checkpoints = Checkpoints(run / "checkpoints")
    checkpoints.begin(1)
    checkpoints.finish(1, {}, keep=1)
    monkeypatch.setattr(processes, "wait_for", lambda section: None)
    ended = RunSummary(run, 1, None, 8, 0, 0, interrupted=False, checkpoint=None)
    monkeypatch.setattr(runner, "run", lambda *_, **__: ended)
    assert asked(*told).exit_code == 0
    before = (run / "config.yaml").read_text()
    monkeypatch.setattr(runner, "run", refused)
    assert asked(*told, "algorithm.name=grpo", "algorithm.advantage=auto").exit_code != 0
    assert (run / "config.yaml").read_text() == before


@pytest.fixture(scope="module")
def service_with_keys(tmp_path_factory):
    serving = Serving(tmp_path_factory.mktemp("keys"))
    command, options = serving.assay("keys", "add", "trainer", capture_output=True, check=True)
    serving.key = subprocess.run(command, **options).stdout.strip()
    serving.start()
    yield serving
    serving.stop()


@pytest.mark.parametrize("key", [None, "assay_wrong", "of two lines\n and é"])
def test_the_doctor_lets_the_service_judge_the_key(service_with_keys, monkeypatch, key):
    told = ("--config", "cpu-demo", "evaluator.embedded=false", f"evaluator.url={service_with_keys.url}")
    monkeypatch.setenv("ASSAY_KEY", service_with_keys.key)
    assert "✓ key        ASSAY_KEY is set; the service answers" in asked("doctor", *told).output
    monkeypatch.delenv("ASSAY_KEY")
    if key:
        monkeypatch.setenv("ASSAY_KEY", key)
    found = asked("doctor", *told)
    assert found.exit_code == 1
    assert "✗ key        ASSAY_KEY is " in found.output


WITHOUT_GPU = pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there is a GPU here")


@WITHOUT_GPU
@pytest.mark.parametrize("backend", ["auto", "gpu"])
def test_the_doctor_asks_whether_the_evaluator_takes_what_a_run_sends(service, backend):
    with Client(service.url) as client:  # whose worker is there once it has judged something
        client.evaluate(Submission(problem="relu", source="not CUDA"))
    away = ("evaluator.embedded=false", f"evaluator.url={service.url}", f"evaluator.backend={backend}")
    found = asked("doctor", "--config", "cpu-demo", *away)
    if backend == "auto":
        assert f"✓ evaluator  {service.url}: assay" in found.output
        return
    assert found.exit_code == 1
    refused = f"✗ evaluator  {service.url} takes nothing for evaluator.backend gpu: No worker with a GPU is alive."
    assert refused in found.output
    assert "or set evaluator.backend to auto or sim;" in found.output
    assert "✓ key        ASSAY_KEY is not set: right for a service without keys; the service answers" in found.output


@pytest.mark.parametrize("embedded", [False, True])
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("tasks.problems=[relu, rellu]", "The evaluator has no problem 'rellu'."),
        ("tasks.operations=[nosuch]", "There is no family of operations 'nosuch'."),
        ("tasks.references=[/nowhere/x.py]", "/nowhere/x.py cannot be read"),
        ("tasks.problems=[relu]", None),
    ],
    ids=["no problem", "no operation", "no file", "right"],
)
def test_the_doctor_looks_at_the_tasks_that_a_run_would_be_refused_for(service, wrong, said, embedded):
    where = "evaluator.embedded=true" if embedded else f"evaluator.url={service.url}"
    told = ("cpu-demo", "evaluator.embedded=false", where, "evaluator.backend=auto", "tasks.wording=full", wrong)
    found, checked = asked("doctor", "--config", *told), asked("config", "check", *told)
    if said is None:
        assert "✓ tasks      1 of the evaluator's 20 problems\n" in found.output
    else:
        assert f"✗ tasks      {said}" in found.output
        assert found.exit_code == 1
    if "problems" in wrong:
        assert (checked.exit_code, "evaluator has of tasks.problems is not asked here;" in checked.output) == (
            0,
            True,
        )
    else:
        assert (checked.exit_code, said in checked.output) == (2, True)


@WITHOUT_GPU
def test_the_doctor_asks_whether_an_evaluator_beside_the_run_would_have_a_gpu():
    found = asked("doctor", "--config", "cpu-demo", "evaluator.embedded=true", "evaluator.backend=gpu")
    assert found.exit_code == 1
    assert "✗ evaluator  evaluator.backend is gpu, and the one beside the run" in found.output
    assert "evaluator.backend=auto or sim" in found.output


def test_the_doctor_names_what_is_missing_and_how_to_mend_it():
    found = asked("doctor", "--config", "requirements", "evaluator.url=http://127.0.0.1:9", "model.attention=eager")
    assert found.exit_code == 1
    assert re.search("✗ evaluator +http://127.0.0.1:9 does not answer", found.output)
    assert "assay serve" in found.output
    assert re.search("✓ libraries +Python", found.output)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("Qwen/Qwen2.5-Coder-7B-Instruct", 7e9),
        ("Qwen/Qwen2.5-Coder-1.5B-Instruct", 1.5e9),
        ("smollm2-135m", 134.5e6),
        ("HuggingFaceTB/SmolLM2-360M", 360e6),
        ("somewhere/my-model", None),
    ],
)
def test_a_model_s_size_is_read_from_its_name(name, count):
    assert doctor.parameters_of(name) == count


def test_memory_counts_every_copy_of_every_agent():
    two, one = load_config("requirements"), load_config("requirements", ["agents.optimizer=null"])
    assert doctor.memory_bytes(two) == 2 * doctor.memory_bytes(one)
    grpo = load_config("requirements", ["agents.optimizer=null", "algorithm.name=grpo", "algorithm.kl_coefficient=0"])
    assert doctor.memory_bytes(grpo) == 7_000_000_000 * (16 + 2)
    assert doctor.memory_bytes(one) - doctor.memory_bytes(grpo) == 7_000_000_000 * (16 + 2)
    adapters = load_config("requirements", ["agents.optimizer=null", "model.lora_rank=32"])
    assert doctor.memory_bytes(adapters) == 7_000_000_000 * (2 + 2 + 2 + 16), "the critic is trained whole"
    alone = load_config(
        "requirements", ["agents.optimizer=null", "algorithm.advantage=turn", "algorithm.kl_coefficient=0"]
    )
    assert doctor.memory_bytes(alone) == doctor.memory_bytes(grpo), "an advantage of groups needs no critic"


def test_the_doctor_counts_a_tester_and_asks_for_what_its_tuning_needs(monkeypatch):
    without = load_config("quick-test")
    tester = load_config("quick-test", ["agents.tester.tuned=true", "agents.tester.model_name=tiny"])
    assert doctor.memory_bytes(tester) - doctor.memory_bytes(without) == 4 * doctor.parameters_of("tiny")
    assert doctor.parameters_of_agents(tester) == dict.fromkeys(tester.tuned_roles, doctor.parameters_of("tiny"))
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    found = {check.name: check.remedy for check in doctor._packages(load_config("requirements"))}
    assert found["vllm"] == "pip install vllm==0.24.0", "verl is for no other"
    missing = {check.name for check in doctor._packages(load_config("quick-test", ["sft.method=qlora"]))}
    assert {"peft", "bitsandbytes"} <= missing
    assert "bitsandbytes" not in {check.name for check in doctor._packages(load_config("cpu-demo"))}


def memory_of(name, gib, count=8, host_gib=2048, monkeypatch=None):
    monkeypatch.setattr(doctor, "_host_bytes", lambda: host_gib << 30)
    return doctor._memory(load_config(name), (gib << 30,) * count)


def test_memory_is_looked_at_gpu_by_gpu(monkeypatch):
    """Requirements document, "VERL Configuration": 8 GPUs, of which 2 update both policies and 2 both critics."""
    found = memory_of("requirements", 80, monkeypatch=monkeypatch)
    assert found.ok is False
    assert "2 GPUs update the generator and the optimizer: each needs 104 GiB" in found.detail
    assert "a GPU has 80 GiB" in found.detail
    assert found.remedy == "model.offload=true"
    assert memory_of("requirements", 141, monkeypatch=monkeypatch).ok
    # The host has no room for what would be kept there: the next way is named.
    assert memory_of("requirements", 80, host_gib=64, monkeypatch=monkeypatch).remedy == (
        "resources.layout=shared algorithm.name=grpo"
    )
    assert memory_of("requirements", 8, monkeypatch=monkeypatch).remedy == "a smaller model, or more GPUs"
    assert memory_of("allocation", 80, monkeypatch=monkeypatch).ok
    small = memory_of("allocation", 80, host_gib=16, monkeypatch=monkeypatch)
    assert (small.ok, "26.1 GiB of each node" in small.detail) == (False, True)


def test_what_a_remedy_names_is_a_configuration_that_fits():
    config = load_config("allocation")
    counts = doctor.parameters_of_agents(config)
    way = doctor.way_to_fit(config, counts, 24 << 30, 2048 << 30)
    assert way == "model.lora_rank=32 resources.reference_workers=0"
    changed = load_config("allocation", way.split())
    assert all(load.fits(24 << 30) for load in gpu_loads(changed, counts))


def test_fine_tuning_that_does_not_fit_says_where_and_what_to_change(monkeypatch):
    monkeypatch.setattr(doctor, "_host_bytes", lambda: 2048 << 30)
    config = load_config("allocation", ["sft.examples=100"])
    found = doctor._memory(config, (80 << 30,) * 8)
    assert found.ok is False
    assert "1 GPU (tune one agent after the other (sft)): needs 104 GiB" in found.detail
    assert found.remedy == "sft.method=lora"
    assert doctor._memory(load_config("allocation", ["sft.examples=100", found.remedy]), (80 << 30,) * 8).ok


def test_service_here_the_smallest_that_would_do_is_named(monkeypatch):
    found = doctor._memory(load_config("requirements"), ())
    assert found.ok is None
    assert "2 to update the generator and the optimizer: 116 GiB at least" in found.detail


def test_the_cluster_file_is_printed_as_it_is():
    assert yaml.safe_load(asked("cluster").output)["cluster_name"] == "assay-train"
