"""Uploads from pinned memory: what was written, and what was not."""

import pytest

from evaluator.stages.lift.calls.pinned_memory import parts_of
from evaluator.stages.lift.recording import RecordedFill


def upload(data: str, undefined: int | None) -> RecordedFill:
    return RecordedFill(fill=0, data=data, bytes=len(data) // 2, stream=0, undefined=undefined)


@pytest.mark.parametrize(
    ("one", "other", "parts"),
    [
        ("0102", "0102", ((0, 2, "0102"),)),
        ("a5a5", "5a5a", ((0, 2, None),)),
        ("01a5a502", "015a5a02", ((0, 1, "01"), (1, 3, None), (3, 4, "02"))),
        # Written, with the very byte that is there before, in one of them or in both.
        ("a5a5", "a5a5", ((0, 2, "a5a5"),)),
        ("5a00", "5a00", ((0, 2, "5a00"),)),
        ("0102", "0103", None),
        ("a5", "01", None),
        ("a501", "5a02", None),
        ("0102", "01", None),
        # As a table of structs with padding: more stretches than a plan has room for.
        ("01a5" * 65, "015a" * 65, ((0, 130, "0100" * 65),)),
    ],
)
def test_a_byte_that_nobody_wrote_is_another_one_in_each_recording(one, other, parts):
    assert parts_of(upload(one, 0xA5), upload(other, 0x5A)) == parts


def test_memory_that_is_not_pinned_is_written_all_over():
    assert parts_of(upload("a5", None), upload("5a", None)) is None
    assert parts_of(upload("a5", None), upload("a5", None)) == ((0, 1, "a5"),)
    assert parts_of(upload("a5", 0xA5), upload("5a", None)) is None
