"""Fine-tuning of a tiny model: it learns, goes on where it was stopped, and says what cannot be tuned."""

import json
import math
import shutil

import pytest
import torch

from trainer.config.supervised import SftSection
from trainer.conversation.conversation import Message
from trainer.errors import CheckpointError, ConfigurationError, PolicyError
from trainer.policies import models
from trainer.policies.fine_tuning import fine_tune
from trainer.policies.sft import Lesson, answer_loss, tokens_of

SHAPE = models.ModelShape(vocabulary=300, hidden=32, layers=1, heads=2, intermediate=64, context_tokens=96)
TAUGHT = tuple(
    Lesson((Message("user", f"Kernel {name}?"), Message("assistant", f"__global__ void {name}() {{}}")))
    for name in "abcdefghij"
)
SMALL = SftSection(batch_size=2, gradient_accumulation_steps=2, learning_rate=0.03)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    models.make_tiny(folder, [message.text for one in TAUGHT for message in one.messages], seed=0, shape=SHAPE)
    return folder


def test_it_learns_and_one_that_was_killed_ends_with_the_weights_of_one_that_was_not(start, tmp_path):
    steps, kept = [], []
    whole = fine_tune(
        start,
        tmp_path / "whole",
        TAUGHT,
        SMALL,
        epochs=4,
        seed=1,
        told=lambda step, of, loss: steps.append((step, of)),
        kept=lambda epoch, model: kept.append((epoch.number, model.name)),
    )
    # Ten lessons, four a step.
    assert steps == [(number, 12) for number in range(1, 13)]
    assert kept == [(number, f"epoch-{number}") for number in range(1, 5)]
    assert whole.epochs[-1].loss < 0.5 * whole.epochs[0].loss
    assert [path.name for path in sorted((tmp_path / "whole").iterdir())] == ["epoch-4", "epochs.json"]
    assert not (whole.folder / "optimizer.pt").exists()

    def killed(step, of, loss):
        if step == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fine_tune(start, tmp_path / "parts", TAUGHT, SMALL, epochs=4, seed=1, told=killed)
    again = []
    parts = fine_tune(
        start, tmp_path / "parts", TAUGHT, SMALL, epochs=4, seed=1, told=lambda step, of, loss: again.append(step)
    )
    assert again == list(range(7, 13)), "the third epoch from its beginning"
    assert parts.epochs == whole.epochs
    name = "model.safetensors"
    assert (parts.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    assert fine_tune(start, tmp_path / "parts", TAUGHT, SMALL, epochs=4, seed=1, told=pytest.fail) == parts


def test_batches_that_make_one_step_are_as_good_as_one_batch(start, tmp_path):
    sizes = {1: 4, 4: 1, 2: 2}
    losses = [
        fine_tune(
            start,
            tmp_path / f"{size}",
            TAUGHT,
            SMALL.model_copy(update={"batch_size": size, "gradient_accumulation_steps": accumulated}),
            epochs=1,
            seed=1,
        )
        .epochs[0]
        .loss
        for size, accumulated in sizes.items()
    ]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-4)


def test_only_the_last_answer_is_learned_where_a_lesson_says_so(start):
    model, tokenizer = models.load_model(start)
    view = (*TAUGHT[0].messages, *TAUGHT[1].messages)
    ids, learned = tokens_of(tokenizer, Lesson(view, last_only=True))
    assert tokenizer.decode([ids[place] for place in learned]) == f"{view[-1].text}<|im_end|>"
    every = tokens_of(tokenizer, Lesson(view))[1]
    assert len(every) > len(learned)
    with torch.no_grad():
        scores = model(torch.tensor([ids])).logits[0, [place - 1 for place in learned]]
        wanted = torch.tensor([ids[place] for place in learned])
        direct = torch.nn.functional.cross_entropy(scores, wanted)
        assert answer_loss(model, [(ids, learned)]).item() == pytest.approx(direct.item(), rel=1e-5)


def test_what_cannot_be_tuned_is_said(start, tmp_path):
    long = Lesson((Message("user", "x" * 400), Message("assistant", "y")))
    with pytest.raises(ConfigurationError, match="None of the 1 examples fits into the 96 tokens"):
        fine_tune(start, tmp_path / "long", [long], SMALL, epochs=1, seed=0)
    some = fine_tune(start, tmp_path / "some", [long, *TAUGHT], SMALL, epochs=1, seed=0)
    assert (some.epochs[0].lessons, some.epochs[0].left_out) == (10, 1)

    bare = tmp_path / "bare"
    shutil.copytree(start, bare)
    (bare / "chat_template.jinja").unlink(missing_ok=True)
    told = json.loads((bare / "tokenizer_config.json").read_text())
    told.pop("chat_template", None)
    (bare / "tokenizer_config.json").write_text(json.dumps(told))
    with pytest.raises(ConfigurationError, match="no chat template"):
        fine_tune(bare, tmp_path / "out", TAUGHT, SMALL, epochs=1, seed=0)

    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="Epoch 1 cannot be kept"):
        fine_tune(start, tmp_path / "file", TAUGHT, SMALL, epochs=1, seed=0)


def test_a_loss_that_is_no_number_ends_it_and_a_learning_rate_above_1_is_refused(start, tmp_path):
    model, tokenizer = models.load_model(start)
    with torch.no_grad():
        model.get_input_embeddings().weight.fill_(math.nan)
    models.save(tmp_path / "broken", model, tokenizer)
    with pytest.raises(PolicyError, match="loss of fine-tuning became nan"):
        fine_tune(tmp_path / "broken", tmp_path / "out", TAUGHT, SMALL, epochs=1, seed=0)
    with pytest.raises(ValueError, match="less than or equal to 1"):
        SftSection(learning_rate=1e300)
