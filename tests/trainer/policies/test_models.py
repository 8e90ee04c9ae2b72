"""Small models: made from nothing, always alike; and what is fixed in SmolLM2's tokenizer."""

import json

import pytest
import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers import models as kinds
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from trainer.data import corpus
from trainer.errors import ConfigurationError
from trainer.policies import models

TEXTS = [one.source for one in corpus.everything(("relu", "transpose"))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("models") / "tiny"
    models.make_tiny(made, TEXTS, seed=4)
    return made


def test_the_same_seed_makes_the_same_model_and_another_makes_another(folder, tmp_path):
    models.make_tiny(tmp_path / "again", TEXTS, seed=4)
    models.make_tiny(tmp_path / "other", TEXTS, seed=5)
    for name in ("model.safetensors", "tokenizer.json", "tokenizer_config.json", "config.json"):
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes(), name
    other = models.load_model(tmp_path / "other")[0]
    one, two = models.load_model(folder)[0].state_dict(), other.state_dict()
    assert one.keys() == two.keys()
    assert not torch.equal(one["model.embed_tokens.weight"], two["model.embed_tokens.weight"])


def test_it_is_small_and_a_kernel_is_few_tokens_that_decode_to_it(folder):
    model, tokenizer = models.load_model(folder)
    assert 0.5e6 < model.num_parameters() < 5e6
    for text in (*TEXTS, "naïve ≤ 漢字\t\n\r\n<|im_end|> x"):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text
    assert max(len(tokenizer.encode(text)) for text in TEXTS) < 120
    assert len({tokenizer.eos_token_id, tokenizer.pad_token_id, None}) == 3


def test_the_folder_loads_by_its_name_alone_and_shows_a_chat(folder):
    config = json.loads((folder / "tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    said = [{"role": "user", "content": "Hello"}]
    assert tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True) == (
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_folder_without_a_model_is_said(tmp_path):
    with pytest.raises(ConfigurationError, match="no language model"):
        models.load_model(tmp_path)


def test_smollm2s_tokenizer_is_mended():
    """On one of the same kind, as the GGUF file yields it: wrong end, two special tokens, numbers in one piece."""
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<special {number}>" for number in range(3, 17))]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {name: number for number, name in enumerate([*names, *alphabet, "12"])}
    inner = Tokenizer(kinds.BPE(vocab=vocabulary, merges=[("1", "2")]))
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    inner.add_special_tokens(names[:2])
    broken = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|im_start|>", chat_template="{{ 1 }}")
    assert broken.encode("12", add_special_tokens=False) == [vocabulary["12"]]

    whole = models.fixed(broken)
    assert (whole.eos_token, whole.eos_token_id, whole.pad_token_id, whole.padding_side) == (
        "<|im_end|>",
        2,
        2,
        "left",
    )
    assert [whole.decode([one]) for one in whole.encode("12", add_special_tokens=False)] == ["1", "2"]
    for number, name in enumerate(names):
        assert whole.encode(name, add_special_tokens=False) == [number]
        assert whole.decode([number], skip_special_tokens=True) == ""
    assert whole.chat_template == "{{ 1 }}"
