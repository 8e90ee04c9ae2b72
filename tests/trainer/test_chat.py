"""A view as one token sequence, with the chat templates of several kinds of models."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer import models
from trainer.chat import token_ids
from trainer.conversation import Message, Response
from trainer.errors import PolicyFault


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("models") / "tiny"
    shape = models.Shape(vocabulary=300, hidden=16, layers=1, heads=1, intermediate=16)
    models.make_tiny(folder, ["text"], seed=0, shape=shape)
    return models.load(folder)[1]


TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)


@settings(deadline=None, max_examples=50)
@given(turns=st.lists(st.tuples(TEXTS, st.lists(st.integers(3, 250), min_size=1, max_size=8), st.booleans())))
def test_each_view_begins_with_the_one_before_and_what_was_generated(tokenizer, turns):
    view = (Message("system", "Be brief."), Message("user", "Begin."))
    ids = token_ids(tokenizer, view)
    for said, generated, finished in turns:
        answer = (*generated, tokenizer.eos_token_id) if finished else tuple(generated)
        response = Response("whatever it decodes to", ids, answer)
        view = (*view, Message("assistant", response.text, response), Message("user", said))
        longer = token_ids(tokenizer, view)
        assert longer[: len(ids) + len(answer)] == (*ids, *answer)
        closing = tokenizer.decode(longer[len(ids) + len(answer) :])
        assert closing == ("" if finished else "<|im_end|>") + (
            f"\n<|im_start|>user\n{said}<|im_end|>\n<|im_start|>assistant\n"
        )
        ids = longer


def test_an_answer_without_tokens_is_encoded_like_any_text(tokenizer):
    view = (Message("user", "Begin."), Message("assistant", "Done."), Message("user", "Again."))
    whole = tokenizer.apply_chat_template(
        [{"role": message.role, "content": message.text} for message in view],
        tokenize=False,
        add_generation_prompt=True,
    )
    assert tokenizer.decode(token_ids(tokenizer, view)) == whole


def test_a_template_that_swallows_answers_and_a_view_without_a_question_are_refused(tokenizer):
    kept = tokenizer.chat_template
    answered = (Message("user", "Begin."), Message("assistant", "Done."))
    try:
        tokenizer.chat_template = (
            "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}"
        )
        with pytest.raises(PolicyFault, match="does not show earlier answers"):
            token_ids(tokenizer, (*answered, Message("user", "Again.")))
    finally:
        tokenizer.chat_template = kept
    for view in (answered, ()):
        with pytest.raises(PolicyFault, match="nobody had said anything"):
            token_ids(tokenizer, view)
