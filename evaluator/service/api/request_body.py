"""How a JSON body becomes one of our documents: bounded in memory, and never long on the event loop.

Nothing of a body is made into objects before its values have been counted. What takes long is done in a thread, in
pieces that leave the interpreter to the event loop in between, and one body of each tenant at a time.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from pydantic import ValidationError

from common.wire import Wire, parse_json
from evaluator.service.api.callers import TenantTurns
from evaluator.service.api.errors import ApiError
from evaluator.validation_messages import in_plain_words

MAX_VALUES: Final = 1 << 18
"""Most values in one body. A plan that uses every bound has 27,000; 512 submissions may have 512 each."""
MAX_BACKSLASHES: Final = 1 << 22
"""Most backslashes in one body: reading 8 MiB of escapes takes 40 ms, in which nobody else runs. CUDA has one escape
in thirty characters, which is half of this in the largest batch."""
_VALUE_BYTES: Final = 256
"""Most memory that a value takes as a parsed object and a validated one together: a `{"": 0}` takes 232 for two."""
_SMALL_BYTES: Final = 32 << 10
_SMALL_VALUES: Final = 40
"""Up to both of these a body is read where it arrives, in 1 ms at most. The settings, all set, have 20 values."""
_PIECE_BYTES: Final = 256 << 10
"""What is looked at in one step, 5 ms: nobody else runs during a step."""
_THREADS: Final = 2

_MAX_DIGITS = b"0" * 1000
"""Reading a number takes the square of its digits, and 300 are the largest that any number here can have."""
_AS_ZEROS = bytes(0x30 if 0x30 <= byte <= 0x39 else byte for byte in range(256))
_SHORTER_THAN_FOUR = bytes(range(0xF0))
"""Every byte but those that begin a character of four bytes."""

Document = TypeVar("Document", bound=Wire)


class Reader:
    """Reads bodies for one event loop."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, "reading")
        self._turns = TenantTurns()

    async def read(self, body: bytearray, kind: type[Document], tenant: str, hold: Callable[[int], None]) -> Document:
        """The document in `body`, which is emptied. Raises ApiError.

        `hold` gets how many bytes of memory this takes, before it does; what it raises ends the reading.
        """
        if len(body) <= _SMALL_BYTES and count_values(body, _SMALL_VALUES) <= _SMALL_VALUES:
            return _document(body, kind)
        loop = asyncio.get_running_loop()
        async with self._turns.of(tenant):
            size_bytes = len(body)
            memory_bytes = await loop.run_in_executor(self._pool, _memory_bytes, body)
            hold(size_bytes + memory_bytes)
            document = await loop.run_in_executor(self._pool, _document, body, kind)
        hold(memory_bytes)
        return document


def count_values(body: bytes | bytearray, most: int) -> int:
    """The values of a JSON text; `most` and one where there are more of them.

    Each value but the first stands behind a `[`, a `{` or a comma. In a text that is no JSON it counts as much.
    """
    count, strings = 1, 0
    for outside, ended in _outside_strings(body):
        count += sum(map(outside.count, (b"[", b"{", b",")))
        if _MAX_DIGITS in outside.translate(_AS_ZEROS):
            raise ApiError("invalid-request", f"The body holds a number of {len(_MAX_DIGITS)} digits.", _REMEDY)
        strings += ended
        # A string is a value or the name of one.
        if max(count, strings // 2) > most:
            return most + 1
    return count


def _outside_strings(body: bytes | bytearray) -> Iterator[tuple[bytes, int]]:
    """What of each piece stands outside strings, and how many strings begin in it."""
    start, inside = 0, False
    while start < len(body):
        piece = bytes(body[start : start + _PIECE_BYTES])
        # A backslash belongs to what follows, so that a piece ends with none or with an even number of them.
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2 and start + len(piece) < len(body):
            piece = piece[:-1]
        start += len(piece)
        quoted = piece.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in piece else piece
        parts = quoted.split(b'"')
        yield b"".join(parts[inside::2]), len(parts) // 2
        inside ^= len(parts) % 2 == 0


def _memory_bytes(body: bytearray) -> int:
    """What the objects of a body take at most: Python keeps a text at the width of its widest character."""
    count = count_values(body, MAX_VALUES)
    if count > MAX_VALUES:
        raise ApiError("invalid-request", f"The body holds more than {MAX_VALUES} values.", "Send less at one time.")
    if sum(body.count(b"\\", start, start + _PIECE_BYTES) for start in _starts(body)) > MAX_BACKSLASHES:
        raise ApiError(
            "invalid-request",
            f"The body holds more than {MAX_BACKSLASHES} backslashes.",
            "Write characters as UTF-8, or send less at one time.",
        )
    return _width(body) * len(body) + _VALUE_BYTES * count


def _width(body: bytearray) -> int:
    """Bytes of the widest character that a text of this JSON can hold: Python keeps a whole text at that width."""
    if not body.isascii():
        pieces = (body[start : start + _PIECE_BYTES] for start in _starts(body))
        four = any(piece.translate(None, _SHORTER_THAN_FOUR) for piece in pieces)
        return 4 if four or b"\\ud" in body or b"\\uD" in body else 2
    return 4 if b"\\ud" in body or b"\\uD" in body else 2 if b"\\u" in body else 1


def _starts(body: bytearray) -> range:
    return range(0, len(body), _PIECE_BYTES)


def _document(body: bytearray, kind: type[Document]) -> Document:
    try:
        value = parse_json(body)
    except ValueError as error:
        raise ApiError("invalid-request", f"The body is not JSON: {error}.", _REMEDY) from None
    finally:
        body.clear()
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        words = in_plain_words(error)
        words = f"The body {words[3:]}" if words.startswith("it ") else words
        raise ApiError("invalid-request", words, _REMEDY) from None


_REMEDY = "/docs shows what a request may hold."
