"""Uploads from pinned memory, of which the host code may have written a part."""

from itertools import groupby
from typing import Final

from evaluator.stages.lift.recording import RecordedFill

_MAX_UNDEFINED: Final = 64
"""Stretches of one upload that are undefined: each is a step of the plan, of which there are 4,096. A table of
structs with padding has thousands of them; then the undefined bytes are 0."""

Part = tuple[int, int, str | None]
"""From which byte to which, and its data in hexadecimal; None where nobody wrote."""


def parts_of(one: RecordedFill, other: RecordedFill) -> tuple[Part, ...] | None:
    """Both recordings of one fill as the stretches that it has; None where they differ in what was written.

    What nobody wrote in pinned memory holds a byte that is another one in each recording.
    """
    whole: Part = (0, one.bytes, one.data)
    if one.bytes != other.bytes or len(one.data) != len(other.data):
        return None
    if one.undefined is None or other.undefined is None or one.undefined == other.undefined:
        return (whole,) if one.data == other.data else None
    if len(one.data) != 2 * one.bytes:
        return None
    data, twin = bytes.fromhex(one.data), bytes.fromhex(other.data)
    written = [pair != (one.undefined, other.undefined) for pair in zip(data, twin, strict=True)]
    if any(a != b for a, b, known in zip(data, twin, written, strict=True) if known):
        return None
    if all(written):
        return (whole,)
    parts: list[Part] = []
    end = 0
    for known, group in groupby(written):
        start, end = end, end + sum(1 for _ in group)
        parts.append((start, end, data[start:end].hex() if known else None))
    if sum(part is None for _, _, part in parts) <= _MAX_UNDEFINED:
        return tuple(parts)
    return ((0, one.bytes, bytes(a if known else 0 for a, known in zip(data, written, strict=True)).hex()),)
