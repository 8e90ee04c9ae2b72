"""Answers and verdicts of an evaluation, a line each as they come, so that what is killed goes on where it was.

answers.jsonl   a line for each conversation, or for the fault that it ended in
plan.json       what they were asked and graded with: written first, and the same for all of them
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from common.file_replacement import append_to_file, replace_file
from common.wire import Json
from trainer.conversation.conversation import Conversation, Turn
from trainer.errors import ConfigurationError, TrainerError

FORM: Final = 1
"""Version of the lines and of the plan."""
ANSWERS: Final = "answers.jsonl"
PLAN: Final = "plan.json"


class AnswersError(TrainerError):
    """What is kept of an evaluation cannot be read."""


@dataclass(frozen=True)
class Answer:
    """What came of asking one system one task once."""

    system: str
    task: str
    """Its id."""
    sample: int
    """Which of the conversations about this task, from 0."""
    conversation: Conversation | None
    """None where an evaluation failed on the evaluator's side."""
    fault: str | None = None
    """What failed there."""
    form: int = FORM

    @property
    def key(self) -> tuple[str, str, int]:
        """What it answers."""
        return self.system, self.task, self.sample


_LINES = Json(Answer)


class Answers:
    """The answers in a folder. One process at a time has it."""

    def __init__(self, folder: Path, settings: Mapping[str, str], systems: Mapping[str, str]) -> None:
        """Go on with what is there. `settings`: what every answer hangs on; `systems`: the identity of each, by name.

        Raises ConfigurationError where what is there was asked or graded otherwise; AnswersError for a line that is
        none; OSError.
        """
        self._path = folder / ANSWERS
        folder.mkdir(parents=True, exist_ok=True)
        known = _checked_plan(folder / PLAN, settings, systems)
        self._found = {one.key: one for one in _read(self._path)}
        plan = {"form": FORM, "settings": dict(settings), "systems": {**known, **systems}}
        replace_file(folder / PLAN, json.dumps(plan, indent=1))

    def of(self, system: str) -> dict[tuple[str, int], Answer]:
        """Those of one system, by task and sample."""
        return {(one.task, one.sample): one for one in self._found.values() if one.system == system}

    def keep(self, answer: Answer) -> None:
        """Append a line, whole or not at all. An answer in the place of a fault is what counts from then on.

        Raises OSError.
        """
        if answer.conversation is not None:
            answer = replace(answer, conversation=_lean(answer.conversation))
        append_to_file(self._path, _LINES.dump(answer) + b"\n")
        self._found[answer.key] = answer


def _lean(conversation: Conversation) -> Conversation:
    """Without what only learning needs: tokens of prompts, and log-probs."""
    return replace(conversation, turns=tuple(map(_lean_turn, conversation.turns)))


def _lean_turn(turn: Turn) -> Turn:
    if turn.response is None:
        return turn
    return replace(turn, response=replace(turn.response, prompt_token_ids=(), log_probs=None))


def _read(path: Path) -> list[Answer]:
    """The answers of a file; a last line whose writing was interrupted is cut off."""
    found: list[Answer] = []
    if not path.is_file():
        return found
    whole = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            try:
                answer = _LINES.load(line)
                if answer.form != FORM:
                    raise ValueError(f"it has form {answer.form}, and this version reads {FORM}")
            except ValueError as error:
                raise AnswersError(
                    f"{path}, line {number}, is no answer: {error}", "Delete this line; it is asked again then."
                ) from error
            found.append(answer)
    if whole < path.stat().st_size:
        os.truncate(path, whole)
    return found


def _checked_plan(path: Path, settings: Mapping[str, str], systems: Mapping[str, str]) -> dict[str, str]:
    """The systems of the plan that is there."""
    if not path.is_file():
        return {}
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
        if plan["form"] != FORM:
            raise ValueError(f"it has form {plan['form']}, and this version reads {FORM}")
        before, known = dict(plan["settings"]), dict(plan["systems"])
    except (ValueError, KeyError, TypeError) as error:
        raise AnswersError(f"{path} cannot be read: {error}", "Evaluate into another folder.") from error
    changed = sorted(name for name in {*before, *settings} if before.get(name) != settings.get(name))
    if changed:
        told = "; ".join(f"{name} was {before.get(name)} and is {settings.get(name)}" for name in changed)
        raise ConfigurationError(
            f"The answers in {path.parent} were asked or graded otherwise: {told}.",
            "Give the same settings as then, or another --out.",
        )
    for name, identity in systems.items():
        if known.get(name, identity) != identity:
            raise ConfigurationError(
                f"The answers of {name} in {path.parent} are those of another model, script or number of turns.",
                "Give this one another name, or another --out.",
            )
    return known
