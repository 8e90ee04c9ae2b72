"""A conversation's view as one sequence of tokens, the same for generation and for learning.

What a model generated stays exactly the tokens that it generated: decoding and encoding again can give others, and
then the probabilities of the update would be those of a text that nobody wrote.

What a message says never becomes a token that controls the chat: those are the template's alone. A kernel with
`<|im_end|>` in a comment would otherwise speak to the next agent in the system's name, also through what a compiler
says of it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from trainer.conversation.conversation import Message
from trainer.errors import PolicyError

_MARK = "a1s2s3a4y5"
"""Stands for an answer whose tokens are known, to find what a template writes after one."""


class Tokenizer(Protocol):
    """What is needed of a tokenizer of `transformers`."""

    @property
    def eos_token(self) -> str | None:
        """The token that ends an answer."""
        ...

    @property
    def eos_token_id(self) -> int | None:
        """Its id."""
        ...

    @property
    def added_tokens_decoder(self) -> Mapping[int, Any]:
        """Tokens that are found in a text before all others, by their ids; each has its text in `content`."""
        ...

    def apply_chat_template(
        self, conversation: Sequence[Mapping[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        """The text that a model is given for a chat."""
        ...

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """The ids of a text."""
        ...


def token_ids(tokenizer: Tokenizer, messages: Sequence[Message]) -> tuple[int, ...]:
    """A view that ends in a user's message, as the ids of one sequence that ends where the answer begins.

    The ids of a view begin with those of each shorter one, followed by what was generated there. An answer that a
    length limit cut is closed as the template closes one. Raises PolicyError where the tokenizer's chat template
    leaves out answers, or a user's message is not last.
    """
    if not messages or messages[-1].role == "assistant":
        raise PolicyError(
            "A policy was asked for an answer where nobody had said anything since its last one.",
            "End a view in a message of the role user.",
        )
    first = next((at for at, message in enumerate(messages) if message.role == "assistant"), len(messages))
    ids = _encoded(tokenizer, _text(tokenizer, messages[:first]))
    while first < len(messages):
        end = next((at for at in range(first + 1, len(messages)) if messages[at].role == "assistant"), len(messages))
        answer = messages[first]
        generated = list(answer.response.token_ids) if answer.response else []
        generated = generated or _encoded(tokenizer, harmless(tokenizer, answer.text))
        after = _after_answer(tokenizer, messages[first + 1 : end])
        if generated[-1:] == [tokenizer.eos_token_id]:
            after = after.removeprefix(tokenizer.eos_token or "")
        ids += [*generated, *_encoded(tokenizer, after)]
        first = end
    return tuple(ids)


def harmless(tokenizer: Tokenizer, text: str) -> str:
    """The text with a space after the first character of whatever would be read as one of the tokenizer's own tokens.

    All added tokens count, since templates are also made of such that are not marked as special. White space is
    left, for which some tokenizers have added tokens.
    """
    rests: dict[str, list[str]] = {}
    for token in tokenizer.added_tokens_decoder.values():
        content = str(token.content)
        if len(content) > 1 and content.strip():
            rests.setdefault(content[0], []).append(re.escape(content[1:]))
    if not rests:
        return text
    # What follows is only looked at, so that tokens that overlap are all found.
    starts = (f"{re.escape(first)}(?={'|'.join(following)})" for first, following in rests.items())
    return re.sub("|".join(starts), lambda found: f"{found[0]} ", text)


def _encoded(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False))


def _text(tokenizer: Tokenizer, messages: Sequence[Message]) -> str:
    said = [{"role": message.role, "content": harmless(tokenizer, message.text)} for message in messages]
    return tokenizer.apply_chat_template(said, tokenize=False, add_generation_prompt=True)


def _after_answer(tokenizer: Tokenizer, messages: Sequence[Message]) -> str:
    """What the template writes from the end of an answer on, for the messages that follow it."""
    whole = _text(tokenizer, (Message("user", "?"), Message("assistant", _MARK), *messages))
    _, found, after = whole.partition(_MARK)
    if not found:
        raise PolicyError(
            "The model's chat template does not show earlier answers, so turns cannot follow each other.",
            "Take another model, or give its tokenizer a chat template that shows all messages.",
        )
    return after
