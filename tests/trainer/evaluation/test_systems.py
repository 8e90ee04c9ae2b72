"""Who is evaluated: folders of every layout, scripts, and names."""

import asyncio
import shutil

import pytest
import torch
from evaluated import task
from safetensors.torch import load_file, save_file

from trainer.conversation.conversation import AgentName, Flow, Message
from trainer.conversation.extraction import extract
from trainer.data import corpus
from trainer.data.operations import OPERATIONS
from trainer.errors import ConfigurationError
from trainer.evaluation.systems import System, TemplatePolicy, opened, read_model, template_settings
from trainer.policies import models

SHAPE = models.ModelShape(hidden=32, layers=1, heads=2, intermediate=64)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    models.make_tiny(folder, ["__global__ void relu() {}"] * 3, seed=1, shape=SHAPE)
    return folder


@pytest.fixture
def model(made, tmp_path):
    return shutil.copytree(made, tmp_path / "tiny")


def test_a_model_is_known_by_its_bytes_and_its_parameters_are_counted(made, model):
    found = read_model(made)
    loaded, _ = models.load_model(made)
    assert found.parameters == sum(one.numel() for one in set(loaded.parameters()))
    assert read_model(model).sha256 == found.sha256, "the same bytes in another folder"
    weights = load_file(model / "model.safetensors")
    first = next(iter(weights))
    save_file(weights | {first: weights[first] + 1}, model / "model.safetensors", metadata={"format": "pt"})
    assert read_model(model).sha256 != found.sha256


@pytest.mark.parametrize(
    ("change", "said", "remedy"),
    [
        (lambda folder: shutil.rmtree(folder), "there is no such folder", "Hugging Face folder"),
        (lambda folder: (folder / "config.json").unlink(), "which holds", "Hugging Face folder"),
        (lambda folder: (folder / "model.safetensors").unlink(), "no weights", "Hugging Face folder"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\xff" * 99), "no file of safetensors", "again"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b""), "no file of safetensors", "again"),
        (
            lambda folder: [
                (folder / "config.json").unlink(),
                (folder / "adapter_config.json").write_text("{}"),
            ],
            "There is no language model",
            "BASE+",
        ),
        (
            lambda folder: [
                (folder / "config.json").unlink(),
                (folder / "model_world_size_2_rank_0.pt").write_text(""),
            ],
            "There is no language model",
            "shards of verl",
        ),
        (
            lambda folder: [
                shutil.copytree(folder, folder / "huggingface"),
                (folder / "config.json").unlink(),
            ],
            "There is no language model",
            "huggingface",
        ),
    ],
)
def test_a_folder_of_another_layout_is_refused_with_what_to_name_instead(model, change, said, remedy):
    change(model)
    with pytest.raises(ConfigurationError, match=said) as refused:
        read_model(model)
    assert remedy in refused.value.remedy


def test_weights_that_are_not_those_of_the_configuration_never_answer(model):
    weights = load_file(model / "model.safetensors")

    def ask():
        system = System("one", "here", Flow(1, single_agent=True), {AgentName.GENERATOR: read_model(model)})
        with opened(system, [], temperature=0.0, device="cpu", batch_size=1):
            pass

    ask()
    renamed = {name.replace("model.", "net."): value for name, value in weights.items()}
    save_file(renamed, model / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigurationError, match="of another layout"):
        ask()
    cut = {name: value[:-1].contiguous() if "q_proj" in name else value for name, value in weights.items()}
    save_file(cut, model / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigurationError, match="There is no language model"):
        ask()


def test_adapters_are_merged_into_the_model_that_they_are_of(made, tmp_path):
    from trainer.config.supervised import LoraSection
    from trainer.policies import adapters

    loaded, _ = models.load_model(made)
    tuned = adapters.with_adapters(loaded, LoraSection(rank=2), seed=5)
    with torch.no_grad():
        for name, parameter in tuned.named_parameters():
            if "lora_B" in name:
                parameter.add_(0.5)
    adapters.keep_adapters(tuned, tmp_path / "adapter")
    plain, over = read_model(made), read_model(made, tmp_path / "adapter")
    assert plain.sha256 != over.sha256
    system = System("one", "here", Flow(1, single_agent=True), {AgentName.GENERATOR: over})
    asked = (Message("user", "Write relu."),)
    answers = []
    for each in (system, System("base", "here", Flow(1, single_agent=True), {AgentName.GENERATOR: plain})):
        with opened(each, [], temperature=0.0, device="cpu", batch_size=1) as policies:
            policy = policies[AgentName.GENERATOR]
            answers.append(asyncio.run(policy.respond(asked, seed=0, max_tokens=8)).token_ids)
    assert answers[0] != answers[1]
    with pytest.raises(ConfigurationError, match="There are no adapters"):
        read_model(made, made)


def said_by(settings, problem, *, seed=0, messages=()):
    asked = task(1, problem)
    policy = TemplatePolicy({asked.text: problem}, settings)
    view = (Message("system", "Write kernels."), Message("user", asked.text), *messages)
    return asyncio.run(policy.respond(view, seed=seed, max_tokens=10))


def test_a_script_answers_with_the_kernels_of_its_problem():
    styles = corpus.styles("relu")
    plain, fast = (extract(said_by(template_settings(f"templates:{one}"), "relu").text) for one in ("plain", "fast"))
    assert plain.source == corpus.render_prompt(styles[0]).source
    assert fast.source == corpus.render_prompt(styles[-1]).source
    right = {corpus.render_prompt(style).source for style in styles}
    drawn = {extract(said_by(template_settings("templates"), "relu", seed=seed).text).source for seed in range(40)}
    assert drawn == right
    flawed = {extract(said_by(template_settings("templates:0"), "relu", seed=seed).text).source for seed in range(20)}
    assert not flawed & right
    operation = next(iter(OPERATIONS))
    assert extract(said_by(template_settings("templates"), operation).text).source
    assert extract(said_by(template_settings("templates"), "attention").text).source is None


def test_a_script_does_not_repeat_itself_within_a_conversation():
    first = said_by(template_settings("templates"), "relu", seed=4)
    before = (Message("assistant", first.text), Message("user", "Make it faster."))
    assert said_by(template_settings("templates"), "relu", seed=4, messages=before).text != first.text


@pytest.mark.parametrize("wrong", ["templates:1.5", "templates:nan", "templates:quick", "templates:-1"])
def test_a_script_that_there_is_not_is_refused(wrong):
    with pytest.raises(ConfigurationError, match="is no script"):
        template_settings(wrong)


def test_systems_that_answer_alike_have_one_identity():
    def system(name="one", turns=1, text="templates"):
        return System(name, "a script", Flow(turns, single_agent=True), templates=template_settings(text))

    assert system("two").identity == system().identity
    assert len({system().identity, system(turns=2).identity, system(text="templates:fast").identity}) == 3
    for name in ("", "../up", "a b", "-x", "x" * 101):
        with pytest.raises(ConfigurationError, match="cannot be the name"):
            system(name)
