"""Conversations as lines of JSON that read back as exactly what was written.

One line is one conversation: all turns with prompts, answers, token ids, log-probabilities, verdicts, reports and
rewards, and beside them what each attempt earned in the end, term by term. That is enough to play it again: with the
recorded answers and verdicts `trainer.conversation.episode.play` gives the same conversation, but for its times.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from common.file_replacement import replace_file
from common.wire import Json
from trainer.conversation.conversation import Conversation
from trainer.conversation.rewards import Credit, CreditSettings, credits_of
from trainer.errors import TrainerError

FORM = 1
"""Version of the lines."""


@dataclass(frozen=True)
class Transcript:
    """One line."""

    conversation: Conversation
    credits: tuple[Credit | None, ...] = ()
    """By attempt; None where there was nothing to judge."""
    step: int | None = None
    """The policy step that it was played for; None for an evaluation."""
    form: int = FORM


_LINES = Json(Transcript)


class TranscriptError(TrainerError):
    """A file of transcripts holds what is none."""


def transcript(conversation: Conversation, settings: CreditSettings, step: int | None = None) -> Transcript:
    """A conversation that is over, with what it earned."""
    return Transcript(conversation, credits_of(conversation, settings), step)


def write_transcripts(path: Path, transcripts: Iterable[Transcript]) -> None:
    """Write a file of transcripts in the place of any that is there: all of it, or, where the process dies, none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, (_LINES.dump(one) + b"\n" for one in transcripts), on_disk=True)


def read_transcripts(path: Path) -> Iterator[Transcript]:
    """The transcripts of a file, in their order. Raises TranscriptError, which names the line.

    A last line whose writing was interrupted is passed over.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                found = _LINES.load(line)
            except ValidationError as error:
                if not line.endswith(b"\n"):
                    return
                first = error.errors()[0]
                place = ".".join(map(str, first["loc"])) or "the line"
                raise TranscriptError(
                    f"{path}, line {number} is no transcript: {place}: {first['msg']}.",
                    "Delete this line, or read the file with the version that wrote it.",
                ) from error
            if found.form != FORM:
                raise TranscriptError(f"{path}, line {number} has form {found.form}; this version reads {FORM}.")
            yield found
