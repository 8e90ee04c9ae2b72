"""What is kept of an evaluation, torn, changed and gone on with."""

import json

import pytest
from evaluated import answered, failed, task
from full_disk import no_file_beyond

from trainer.errors import ConfigurationError
from trainer.evaluation.answers import ANSWERS, PLAN, Answers, AnswersError

TOLD = {"seed": "0", "verification": "full"}
WHO = {"one": "aa"}


def kept(folder, count=3):
    answers = Answers(folder, TOLD, WHO)
    for number in range(count):
        answers.keep(answered(task(number), "wrong", "pass"))
    return answers


def test_what_is_kept_is_read_back_as_it_was_but_for_what_only_learning_needs(tmp_path):
    kept(tmp_path)
    found = Answers(tmp_path, TOLD, WHO).of("one")
    assert list(found) == [(f"row_sum-{number}", 0) for number in range(3)]
    talk, first = found["row_sum-1", 0].conversation, answered(task(1), "wrong", "pass").conversation
    assert [turn.verdict for turn in talk.turns] == [turn.verdict for turn in first.turns]
    assert [attempt.written.source for attempt in talk.attempts] == [one.written.source for one in first.attempts]
    assert talk.turns[0].response.token_ids == first.turns[0].response.token_ids
    assert talk.turns[0].response.log_probs is None
    assert Answers(tmp_path, TOLD, WHO).of("other") == {}


def test_a_torn_last_line_is_cut_off_and_its_answer_asked_again(tmp_path):
    kept(tmp_path)
    path = tmp_path / ANSWERS
    whole = path.read_bytes()
    second_ends = whole.index(b"\n", whole.index(b"\n") + 1) + 1
    for cut in (1, 40, len(whole) - second_ends - 1):
        path.write_bytes(whole[: len(whole) - cut])
        answers = Answers(tmp_path, TOLD, WHO)
        assert len(answers.of("one")) == 2
        answers.keep(answered(task(2), "wrong", "pass"))
        assert path.read_bytes().count(b"\n") == 3
        assert len(Answers(tmp_path, TOLD, WHO).of("one")) == 3


def test_a_disk_that_is_full_in_the_middle_of_a_line_tears_no_later_one(tmp_path):
    answers, path = kept(tmp_path), tmp_path / ANSWERS
    before = path.read_bytes()
    with no_file_beyond(len(before) + 40), pytest.raises(OSError, match="too large"):
        answers.keep(answered(task(3), "wrong", "pass"))
    assert path.read_bytes() == before
    assert len(answers.of("one")) == 3
    answers.keep(answered(task(4), "wrong", "pass"))
    assert list(Answers(tmp_path, TOLD, WHO).of("one")) == [(f"row_sum-{number}", 0) for number in (0, 1, 2, 4)]


def test_a_line_in_the_middle_that_is_none_is_named(tmp_path):
    kept(tmp_path)
    lines = (tmp_path / ANSWERS).read_bytes().splitlines()
    for wrong in (b"{}", b"nonsense", lines[0].replace(b'"form":1', b'"form":9')):
        (tmp_path / ANSWERS).write_bytes(b"\n".join([wrong, *lines[1:]]) + b"\n")
        with pytest.raises(AnswersError, match="line 1, is no answer"):
            Answers(tmp_path, TOLD, WHO)


def test_an_answer_takes_the_place_of_a_fault(tmp_path):
    answers = Answers(tmp_path, TOLD, WHO)
    answers.keep(failed(task(1)))
    assert answers.of("one")["row_sum-1", 0].conversation is None
    answers.keep(answered(task(1), "pass"))
    assert Answers(tmp_path, TOLD, WHO).of("one")["row_sum-1", 0].conversation is not None


def test_other_settings_and_other_weights_are_refused_and_other_systems_taken_in(tmp_path):
    kept(tmp_path)
    with pytest.raises(ConfigurationError, match="seed was 0 and is 1"):
        Answers(tmp_path, TOLD | {"seed": "1"}, WHO)
    with pytest.raises(ConfigurationError, match="those of another model"):
        Answers(tmp_path, TOLD, {"one": "bb"})
    assert len(Answers(tmp_path, TOLD, {"two": "bb"}).of("one")) == 3
    assert json.loads((tmp_path / PLAN).read_text())["systems"] == {"one": "aa", "two": "bb"}
    (tmp_path / PLAN).write_text("{}")
    with pytest.raises(AnswersError, match=r"plan\.json cannot be read"):
        Answers(tmp_path, TOLD, WHO)
