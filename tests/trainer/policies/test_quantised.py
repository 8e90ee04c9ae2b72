"""Adapters over weights in 4 bits (QLoRA), on the CPU: tuned, killed, taken up again, merged, and refused by name."""

import sys

import pytest
import torch
from safetensors.torch import load_file

from trainer.config.supervised import LoraSection, SftSection
from trainer.conversation.conversation import Message
from trainer.errors import ConfigurationError
from trainer.policies import adapters, models
from trainer.policies.fine_tuning import ADAPTER, fine_tune
from trainer.policies.sft import Lesson, answer_loss, tokens_of

pytest.importorskip("bitsandbytes")

SHAPE = models.ModelShape(vocabulary=300, hidden=64, layers=2, heads=2, intermediate=128, context_tokens=96)
TAUGHT = tuple(
    Lesson((Message("user", f"Kernel {name}?"), Message("assistant", f"__global__ void {name}() {{}}")))
    for name in "abcdefghij"
)
QLORA = SftSection(
    method="qlora",
    lora=LoraSection(rank=8, alpha=16, dropout=0.1),
    batch_size=2,
    gradient_accumulation_steps=2,
    learning_rate=0.01,
)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Knows half of what is taught: over random weights adapters have nothing to work with."""
    folder = tmp_path_factory.mktemp("models")
    texts = [message.text for one in TAUGHT for message in one.messages]
    models.make_tiny(folder / "tiny", texts, seed=0, shape=SHAPE)
    whole = SftSection(batch_size=5, gradient_accumulation_steps=1, learning_rate=0.01)
    return fine_tune(folder / "tiny", folder / "known", TAUGHT[:5], whole, epochs=12, seed=0).folder


@torch.no_grad()
def loss(model, folder):
    tokenizer = models.load_model(folder)[1]
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    return answer_loss(inner.eval(), [tokens_of(tokenizer, one) for one in TAUGHT]).item()


def test_linear_layers_are_in_4_bits_and_what_lies_there_is_near_what_was(start):
    whole, (packed, _) = models.load_model(start)[0], adapters.load_quantised(start, "cpu")
    from bitsandbytes import functional, nn

    layers = {name: one for name, one in packed.named_modules() if isinstance(one, nn.Linear4bit)}
    assert len(layers) == 7 * SHAPE.layers
    assert not any("lm_head" in name for name in layers)
    for name, layer in layers.items():
        was = whole.get_submodule(name).weight
        assert layer.weight.dtype is torch.uint8
        assert layer.weight.numel() * 2 == was.numel()
        found = functional.dequantize_4bit(layer.weight.data, layer.weight.quant_state)
        # NF4's widest gap is 0.304 of a block's largest value (Dettmers et al. 2023, appendix E); half of it is lost
        # at most, and a little of the block's constant.
        assert 0 < (found - was).abs().max() < 0.16 * was.abs().max()
    assert torch.equal(packed.get_input_embeddings().weight, whole.get_input_embeddings().weight)


def test_adapters_over_them_learn_and_one_that_was_killed_ends_as_one_that_was_not(start, tmp_path):
    whole = fine_tune(start, tmp_path / "whole", TAUGHT, QLORA, epochs=4, seed=1)

    def killed(step, of, loss):
        if step == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fine_tune(start, tmp_path / "parts", TAUGHT, QLORA, epochs=4, seed=1, told=killed)
    parts = fine_tune(start, tmp_path / "parts", TAUGHT, QLORA, epochs=4, seed=1)
    assert parts.epochs == whole.epochs
    for name in ("model.safetensors", f"{ADAPTER}/{adapters.WEIGHTS}"):
        assert (parts.folder / name).read_bytes() == (whole.folder / name).read_bytes(), name
    assert {value.dtype for value in load_file(whole.folder / ADAPTER / adapters.WEIGHTS).values()} == {
        torch.bfloat16
    }

    merged = models.load_model(whole.folder)[0]
    tuned = adapters.load_adapters(adapters.load_quantised(start, "cpu")[0], whole.folder / ADAPTER)
    before, learned, plays = (loss(one, start) for one in (models.load_model(start)[0], tuned, merged))
    assert learned < 0.95 * before
    assert abs(plays - learned) < 0.1 * (before - learned), (
        "what plays, in whole weights, is what was tuned in 4 bits"
    )
    assert merged.dtype is torch.float32


def test_without_bitsandbytes_it_is_refused_by_name(start, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(ConfigurationError, match="`bitsandbytes`, which holds weights in 4 bits") as caught:
        fine_tune(start, tmp_path, TAUGHT, QLORA, epochs=1, seed=0)
    assert "pip install 'assay[qlora]'" in caught.value.remedy
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_cannot_is_refused_by_name(start):
    with pytest.raises(ConfigurationError, match="cannot hold weights in 4 bits on this cuda"):
        adapters.load_quantised(start, "cuda")
