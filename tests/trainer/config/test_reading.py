"""Configurations from files: what is ready works, what is wrong is named with its place and what was meant."""

import string

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.config.reading import ALIASES, as_yaml, described, find_config, load_config, ready_files
from trainer.config.schema import AlgorithmSection, FlowSection, TrainingConfig
from trainer.data import corpus
from trainer.errors import ConfigurationError

READY = [each.name for each in ready_files()]


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return str(path)

    return write


def refused(name, *overrides):
    with pytest.raises(ConfigurationError) as caught:
        load_config(name, overrides)
    return str(caught.value).splitlines()


def test_the_ready_files_are_those_that_are_named():
    assert sorted(READY) == sorted(ALIASES.values())
    assert sorted(each.alias for each in ready_files()) == [
        "allocation",
        "cpu-demo",
        "critique",
        "one-gpu",
        "quick-test",
        "requirements",
        "warm-start",
    ]
    assert all(each.summary.endswith(".") for each in ready_files())


@pytest.mark.parametrize("alias", ALIASES)
def test_a_ready_file_has_two_names_and_a_run_the_one_that_was_given(alias):
    named, other = load_config(ALIASES[alias]), load_config(alias)
    assert (named.name, other.name) == (ALIASES[alias], alias)
    assert named.model_copy(update={"name": alias}) == other


@pytest.mark.parametrize("name", READY)
def test_a_ready_file_is_named_by_model_algorithm_and_size(name):
    config = load_config(name)
    model, algorithm, size = name.rsplit("-", 2)
    assert config.model.name.lower().removeprefix("qwen/").removesuffix("-instruct") == model
    assert config.algorithm.name == algorithm
    assert size == (f"{config.resources.gpus_per_node}gpu" if config.resources.gpus_per_node else "cpu")


def test_the_requirements_file_says_what_the_defaults_are_but_where_a_measurement_said_otherwise():
    measured = FlowSection(credit=True, single_turn_steps=0)
    assert load_config("requirements") == TrainingConfig(name="requirements", flow=measured)
    assert (FlowSection().credit, FlowSection().single_turn_steps) == (False, 12)


@pytest.mark.parametrize("name", READY)
@pytest.mark.parametrize("changed_only", [True, False])
def test_a_configuration_that_is_shown_reads_as_the_same(name, changed_only, file):
    config = load_config(name)
    assert load_config(file(as_yaml(config, changed_only=changed_only))) == config


def test_the_values_of_the_critique_and_of_the_allocation():
    """Critique, section 4 (`verl_config`): num_ppo_epochs 8, chunk_size 4, max_prompt_length 2048,
    update_prompt_length 512, max_new_tokens 1024; "Concrete Starter Settings": 256 to 512 prompts, 4 to 8 candidates.
    """
    critique, allocation = load_config("critique"), load_config("allocation")
    assert (critique.algorithm.ppo_epochs, critique.algorithm.micro_batch_size) == (8, 4)
    assert (critique.rollout.prompt_tokens, critique.rollout.turn_tokens) == (2048, 1024)
    assert critique.rollout.update_tokens == 512
    assert 256 <= critique.algorithm.prompts_per_step <= 512
    assert 4 <= critique.algorithm.candidates <= 8
    resources = critique.resources
    assert (resources.ray_cpus, resources.gpus_per_node, resources.io_workers) == (32, 4, 8)
    assert resources.object_store_bytes == 50 << 30
    workers = allocation.resources
    assert (workers.actor_workers, workers.rollout_workers, workers.reference_workers) == (4, 2, 1)
    assert allocation.for_agent("optimizer").reward.name == "speedup"


def test_the_warm_start_of_the_critique_is_a_thousand_examples_of_three_tasks():
    """Critique, "Phase 1: Tiny SFT Warm-Start": "Tasks: elemwise, reduction, softmax", "1000 samples per task",
    "2 epochs max"; "Phase 2": max turns 5, discount 0.9, early stop threshold 0.8.
    """
    config = load_config("warm-start")
    assert config.tasks.problems == ("relu", "row_sum", "softmax")
    assert (config.sft.examples, config.sft.epochs) == (3 * 1000, 2)
    assert all(config.tasks.variants * len(corpus.styles(name)) >= 1000 for name in config.tasks.problems)
    assert (config.flow.max_turns, config.flow.discount, config.flow.early_stop_share) == (5, 0.9, 0.8)


def test_a_file_s_name_is_the_run_s_and_words_are_words(file):
    path = file("curriculum: {name: off}\nlogging: {wandb: off}\nalgorithm: {learning_rate: 1e-4}\nseed: 010\n")
    config = load_config(path)
    assert (config.name, config.curriculum.name, config.logging.wandb) == ("mine", "off", "off")
    assert (config.algorithm.learning_rate, config.seed) == (1e-4, 10)


def test_every_mistake_is_named_at_once_with_its_place_and_what_was_meant(file):
    path = file(
        "algorithm:\n  learnin_rate: 1e-4\n  name: gropo\nmax_turns: 3\n"
        "rollout: {temperature: -1}\nagents:\n  optimiser: null\nlerning: 3\nquite_other: 1\n"
    )
    said = refused(path)
    assert (
        f"{path}:2:3: algorithm.learnin_rate: there is no such setting; did you mean algorithm.learning_rate?" in said
    )
    assert f"{path}:3:3: algorithm.name: 'gropo' is none of ppo, grpo, dapo. Did you mean grpo?" in said
    assert f"{path}:4:1: max_turns: there is no such setting; did you mean flow.max_turns?" in said
    assert f"{path}:5:11: rollout.temperature: Input should be greater than or equal to 0.01; it is -1" in said
    assert f"{path}:7:3: agents.optimiser: there is no such setting; did you mean agents.optimizer?" in said
    assert any(line.startswith(f"{path}:9:1: quite_other: there is no such setting") for line in said)
    assert len(said) == 7


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2\n", ":2:1: a stands here twice"),
        ("a: [1\n", "this is no YAML"),
        ("- 1\n", "settings with names"),
        ("a: !!python/object:os.system {}\n", "this is no YAML"),
        ("a: &a [*a]\n", "this is no YAML"),
        ("seed: true\n", "seed"),
        ("\0", "this is no YAML"),
    ],
)
def test_a_text_that_is_no_configuration_is_refused(text, said, file):
    assert said in "\n".join(refused(file(text)))


def test_an_empty_file_is_the_defaults(file):
    assert load_config(file("# nothing\n")) == TrainingConfig(name="mine")


def test_overrides_are_typed_and_their_mistakes_are_theirs():
    config = load_config(
        "cpu-demo", ["algorithm.steps=3", "agents.optimizer=null", "tasks.problems=[relu]", "name=x"]
    )
    assert (config.algorithm.steps, config.agents.optimizer, config.tasks.problems) == (3, None, ("relu",))
    assert load_config("one-gpu", ["agents.optimizer.learning_rate=2e-6"]).agents.optimizer.learning_rate == 2e-6
    (said,) = refused("cpu-demo", "algorithm.steps=many")
    assert said.startswith("algorithm.steps=many (command line): algorithm.steps: ")
    assert refused("cpu-demo", "steps") == [
        "steps: write it as name=value, for example algorithm.learning_rate=3e-6."
    ]
    assert "has no parts" in refused("cpu-demo", "model.name.first=3")[0]
    assert "did you mean rollout.temperature?" in refused("cpu-demo", "rollout.temprature=3")[0]
    assert refused("cpu-demo", "algorithm=grpo") == [
        "algorithm=grpo (command line): algorithm: this is a section: write its settings, such as algorithm.name=…; "
        "it is 'grpo'"
    ]
    assert (
        "such as agents.optimizer.model_name=…, or null; it is 'nul'"
        in refused("cpu-demo", "agents.optimizer=nul")[0]
    )
    assert len(refused("cpu-demo", f"name={'X' * 10_000}")[0]) < 400


@pytest.mark.parametrize(
    ("text", "given", "where"),
    [
        ("", ["rollout.turn_tokens=100000"], "rollout.turn_tokens=100000 (command line)"),
        ("seed: 1\n", ["rollout.turn_tokens=100000", "seed=2"], "rollout.turn_tokens=100000 (command line)"),
        (
            "tasks: {wording: brief}\n",
            ["seed=2", "tasks.references=[/x, /y]"],
            "tasks.references=[/x, /y] (command line): tasks",
        ),
        # Neither alone is too many: 1024 times 8, or 64 times 128.
        (
            "algorithm: {prompts_per_step: 64, candidates: 8}\n",
            ["algorithm.prompts_per_step=1024", "seed=2", "algorithm.candidates=128"],
            "algorithm.prompts_per_step=1024, algorithm.candidates=128 (command line): algorithm",
        ),
        # Each alone.
        (
            "",
            ["rollout.turn_tokens=100000", "seed=2", "rollout.update_tokens=100000"],
            "rollout.turn_tokens=100000, rollout.update_tokens=100000 (command line)",
        ),
        # The file was as wrong before.
        ("rollout:\n  turn_tokens: 90000\n", ["rollout.turn_tokens=100000"], "{}:1:1"),
        ("seed: 1\ntasks: {wording: brief, references: [/x]}\n", ["seed=2"], "{}:2:1: tasks"),
        # What a whole list or section replaces has no place any more.
        (
            "tasks: {problems: [relu, softmax]}\n",
            ["tasks.problems=[relu, 3]"],
            "tasks.problems=[relu, 3] (command line)",
        ),
        ("flow:\n  max_turns: 3\n", ["flow={max_turns: 0}"], "flow={{max_turns: 0}} (command line)"),
    ],
)
def test_what_contradicts_another_setting_is_blamed_on_who_brought_it(text, given, where, file):
    path = file(text)
    (said,) = refused(path, *given)
    assert said.startswith(f"{where.format(path)}: ")


@pytest.mark.parametrize(
    "url", ["foo", "ftp://x", "http://127.0.0.1:99999", "http://", "http://me:hunter2@127.0.0.1:8000", "http://[::1"]
)
def test_what_is_no_address_is_refused_and_no_password_shown(url):
    (said,) = refused("cpu-demo", f"evaluator.url={url}")
    assert "address" in said
    assert "hunter2" not in said


def test_a_name_that_is_nothing_is_refused_with_the_nearest(tmp_path):
    assert refused("cpu-dem")[0].endswith("Did you mean cpu-demo?")
    assert "is a folder" in refused(str(tmp_path))[0]
    assert find_config("critique").name == "qwen2.5-coder-7b-ppo-4gpu.yaml"


WORDS = st.text(string.ascii_lowercase + "._ :#'é", max_size=6)
VALUES = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(width=16) | WORDS
NAMES = st.sampled_from([*TrainingConfig.model_fields, *AlgorithmSection.model_fields, "x", ""])


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES, max_size=3) | VALUES, max_size=4))
def test_whatever_a_file_holds_it_is_read_or_refused(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("any") / "any.yaml"
    path.write_text(yaml.safe_dump(values, allow_unicode=True), encoding="utf-8")
    try:
        config, said = load_config(str(path)), ""
    except ConfigurationError as error:
        config, said = None, str(error)
    assert isinstance(config, TrainingConfig) != (str(path) in said)


def test_every_setting_is_described_once():
    names = [name for name, *_ in described()]
    assert len(names) == len(set(names)) > 80
    assert all(meaning.endswith(".") for *_, meaning in described())
