"""Transcripts: written, read back exactly, and played again to the same conversation."""

import asyncio
import json

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scripted import ANSWERS, Recording, kernel, played, without_times

from trainer.conversation.conversation import AgentName, Flow
from trainer.conversation.episode import EpisodeSettings, play
from trainer.conversation.extraction import wrapped
from trainer.conversation.rewards import CreditSettings
from trainer.reporting.transcripts import (
    TranscriptError,
    read_transcripts,
    transcript,
    write_transcripts,
)

SETTINGS = EpisodeSettings(flow=Flow(4), turn_tokens=10_000)


def line(*names, seed=7):
    conversation = played([wrapped(kernel(name)) for name in names], settings=SETTINGS, seed=seed)
    return transcript(conversation, CreditSettings(), step=3)


@given(ANSWERS, st.integers(0, 1 << 30))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_what_was_written_is_read_back_exactly(tmp_path, answers, seed):
    path = tmp_path / f"{seed}.jsonl"
    path.unlink(missing_ok=True)
    written = [
        transcript(played(answers, settings=SETTINGS, seed=seed), CreditSettings(), step) for step in (None, 5)
    ]
    write_transcripts(path, written)
    assert list(read_transcripts(path)) == written
    assert len(path.read_bytes().splitlines()) == 2


@given(ANSWERS, st.booleans())
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
def test_a_transcript_plays_again_to_the_same_conversation(tmp_path, answers, single):
    settings = EpisodeSettings(flow=Flow(4, single_agent=single), turn_tokens=10_000)
    conversation = played(answers, settings=settings)
    path = tmp_path / "one.jsonl"
    path.unlink(missing_ok=True)
    write_transcripts(path, [transcript(conversation, CreditSettings())])
    (found,) = read_transcripts(path)
    recording = Recording(found.conversation)
    agents = dict.fromkeys((AgentName.GENERATOR, AgentName.OPTIMIZER), recording)
    again = asyncio.run(
        play(conversation.task, agents, recording, settings, conversation.seed, conversation_id=conversation.id)
    )
    assert without_times(again) == without_times(conversation)
    assert again != conversation or all(turn.started_s == 5.0 for turn in again.turns)


def test_other_settings_are_not_what_was_recorded():
    conversation = played([wrapped(kernel("wrong_0")), wrapped(kernel("pass_0"))], settings=SETTINGS)
    recording = Recording(conversation)
    agents = dict.fromkeys((AgentName.GENERATOR, AgentName.OPTIMIZER), recording)
    brief = EpisodeSettings(flow=Flow(4), wording="brief", turn_tokens=10_000)
    with pytest.raises(LookupError, match="no answer to what is asked now"):
        asyncio.run(play(conversation.task, agents, recording, brief, conversation.seed))


def test_terms_are_explained_in_the_file(tmp_path):
    path = tmp_path / "t.jsonl"
    write_transcripts(path, [line("wrong_0", "pass_0")])
    kept = json.loads(path.read_text())
    assert "its own reward" in kept["credits"][0]["explanation"]
    assert kept["conversation"]["turns"][1]["reward"]["terms"][0]["explanation"]
    assert kept["step"] == 3


def test_a_line_that_was_interrupted_is_passed_over(tmp_path):
    path = tmp_path / "t.jsonl"
    first, second = line("wrong_0"), line("pass_0", seed=8)
    write_transcripts(path, [first, second])
    whole = path.read_bytes()
    end = whole.index(b"\n") + 1
    for cut in (end, end + 1, (end + len(whole)) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert list(read_transcripts(path)) == ([first] if cut < len(whole) - 1 else [first, second])


def test_a_file_that_is_written_again_is_the_old_one_until_it_is_the_new_one(tmp_path):
    path = tmp_path / "t.jsonl"
    first, second = line("wrong_0"), line("pass_0", seed=8)
    write_transcripts(path, [first])

    def dying():
        yield second
        assert list(read_transcripts(path)) == [first]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_transcripts(path, dying())
    assert list(read_transcripts(path)) == [first]
    write_transcripts(path, [second])
    assert list(read_transcripts(path)) == [second]
    assert [one.name for one in tmp_path.iterdir()] == ["t.jsonl"]


def test_what_is_no_transcript_is_named_by_its_line(tmp_path):
    path = tmp_path / "t.jsonl"
    write_transcripts(path, [line("wrong_0")])
    good = path.read_text()
    path.write_text(good + '{"conversation": 1}\n' + good)
    with pytest.raises(TranscriptError, match=r"line 2 is no transcript: conversation"):
        list(read_transcripts(path))
    path.write_text(good.replace('"form":1', '"form":9'))
    with pytest.raises(TranscriptError, match="form 9"):
        list(read_transcripts(path))
    turns = json.loads(good)
    turns["conversation"]["turns"].pop(0)
    path.write_text(json.dumps(turns) + "\n")
    with pytest.raises(TranscriptError, match="stands where"):
        list(read_transcripts(path))
