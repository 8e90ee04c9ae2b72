"""Adapters on a tiny model: tuned, killed, taken up again, merged, and refused where they do not belong."""

import json

import pytest
import torch
from safetensors.torch import load_file

from trainer.config.supervised import LoraSection, SftSection
from trainer.conversation.conversation import Message
from trainer.errors import ConfigurationError
from trainer.policies import adapters, models
from trainer.policies.fine_tuning import ADAPTER, fine_tune
from trainer.policies.sft import Lesson

SHAPE = models.ModelShape(vocabulary=300, hidden=32, layers=1, heads=2, intermediate=64, context_tokens=96)
TAUGHT = tuple(
    Lesson((Message("user", f"Kernel {name}?"), Message("assistant", f"__global__ void {name}() {{}}")))
    for name in "abcdefghij"
)
LORA = SftSection(
    method="lora",
    lora=LoraSection(rank=4, alpha=8, dropout=0.1),
    batch_size=2,
    gradient_accumulation_steps=2,
    learning_rate=0.01,
)
ASKED = torch.tensor([[5, 9, 80, 31, 7]])


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Knows half of what is taught: over random weights adapters have nothing to work with."""
    folder = tmp_path_factory.mktemp("models")
    texts = [message.text for one in TAUGHT for message in one.messages]
    models.make_tiny(folder / "tiny", texts, seed=0, shape=SHAPE)
    whole = SftSection(batch_size=5, gradient_accumulation_steps=1, learning_rate=0.03)
    return fine_tune(folder / "tiny", folder / "known", TAUGHT[:5], whole, epochs=12, seed=0).folder


@torch.no_grad()
def scores(model):
    return model.eval()(ASKED).logits


def test_adapters_learn_and_one_that_was_killed_ends_as_one_that_was_not(start, tmp_path):
    whole = fine_tune(start, tmp_path / "whole", TAUGHT, LORA, epochs=4, seed=1)
    assert whole.epochs[-1].loss < 0.97 * whole.epochs[0].loss

    def killed(step, of, loss):
        if step == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fine_tune(start, tmp_path / "parts", TAUGHT, LORA, epochs=4, seed=1, told=killed)
    again = []
    parts = fine_tune(
        start, tmp_path / "parts", TAUGHT, LORA, epochs=4, seed=1, told=lambda step, of, loss: again.append(step)
    )
    assert again == list(range(7, 13)), "the third epoch from its beginning"
    assert parts.epochs == whole.epochs, "what dropout leaves out is drawn alike too"
    for name in ("model.safetensors", f"{ADAPTER}/{adapters.WEIGHTS}"):
        assert (parts.folder / name).read_bytes() == (whole.folder / name).read_bytes(), name


def test_the_merged_model_is_the_start_with_its_adapters_and_needs_no_peft(start, tmp_path):
    made = fine_tune(start, tmp_path, TAUGHT, LORA, epochs=2, seed=1).folder
    merged, base = models.load_model(made)[0], models.load_model(start)[0]
    assert not torch.allclose(scores(merged), scores(base), atol=1e-2)
    with_them = adapters.load_adapters(models.load_model(start)[0], made / ADAPTER)
    torch.testing.assert_close(scores(merged), scores(with_them), atol=1e-4, rtol=1e-4)
    assert torch.equal(merged.get_input_embeddings().weight, base.get_input_embeddings().weight)
    assert sorted(path.name for path in (made / ADAPTER).iterdir()) == ["adapter_config.json", adapters.WEIGHTS]
    kept = load_file(made / ADAPTER / adapters.WEIGHTS)
    assert {value.dtype for value in kept.values()} == {torch.bfloat16}
    # Two factors of rank 4 for each of the seven linear layers.
    assert len(kept) == 2 * 7
    assert json.loads((made / ADAPTER / "adapter_config.json").read_text())["r"] == 4


def test_adapters_go_on_being_tuned_over_the_model_that_they_belong_to(start, tmp_path):
    first = fine_tune(start, tmp_path / "first", TAUGHT, LORA, epochs=3, seed=1)
    small = LORA.model_copy(update={"learning_rate": 1e-9, "lora": LoraSection(rank=4, alpha=8)})
    more = fine_tune(start, tmp_path / "more", TAUGHT, small, epochs=1, seed=2, adapter=first.folder / ADAPTER)
    one, other = (load_file(made.folder / ADAPTER / adapters.WEIGHTS) for made in (first, more))
    assert one.keys() == other.keys()
    assert all(torch.equal(value, other[name]) for name, value in one.items()), "hardly a step"


def test_what_is_no_adapter_of_this_model_is_said(start, tmp_path):
    with pytest.raises(ConfigurationError, match="no adapters for this model"):
        adapters.load_adapters(models.load_model(start)[0], tmp_path / "nothing")
    made = fine_tune(start, tmp_path / "made", TAUGHT, LORA, epochs=1, seed=1).folder
    other = models.ModelShape(vocabulary=300, hidden=64, layers=1, heads=2, intermediate=64, context_tokens=96)
    models.make_tiny(tmp_path / "other", ["another"], seed=0, shape=other)
    with pytest.raises(ConfigurationError, match="no adapters for this model"):
        adapters.load_adapters(models.load_model(tmp_path / "other")[0], made / ADAPTER)
    with pytest.raises(ValueError, match="less than or equal to 512"):
        LoraSection(rank=1000)
