"""Messages between the referee and what runs in the sandbox: JSON after its length, descriptors beside it.

Only the referee's side trusts nothing: what it reads is bounded in size and time, and is facts, never a judgement.
"""

import contextlib
import json
import os
import select
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

_LENGTH: Final = struct.Struct("<I")
MAX_MESSAGE_BYTES: Final = 4 << 20
MAX_DESCRIPTORS: Final = 4
_ADDRESS_BYTES: Final = 107


class ChannelClosedError(Exception):
    """The other side is gone, or sent what is not a message."""


class ChannelTimeoutError(Exception):
    """Nothing came in time."""


@contextlib.contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """What to bind or connect to for a socket at `path`, which may be too long for an address. Raises OSError.

    An address holds 107 bytes (unix(7)); a folder that is held open has a short name as well.
    """
    if len(os.fsencode(path)) <= _ADDRESS_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class Channel:
    """One end of a conversation over a stream socket. Not for several threads at once."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.setblocking(True)
        self._unread = bytearray()
        self._descriptors: list[int] = []

    @staticmethod
    def pair() -> tuple["Channel", socket.socket]:
        """A channel, and the raw socket for the other side."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return Channel(ours), theirs

    @staticmethod
    def of_descriptor(descriptor: int) -> "Channel":
        """A channel over a socket that came as a descriptor."""
        return Channel(socket.socket(fileno=descriptor))

    def fileno(self) -> int:
        """For select and poll."""
        return self._socket.fileno()

    @property
    def has_more(self) -> bool:
        """Whether something that came with the last message is still unread: select and poll do not tell of that."""
        return bool(self._unread)

    def option(self, name: int, size_bytes: int) -> bytes:
        """What the kernel says of the socket (socket(7)). Raises OSError."""
        return self._socket.getsockopt(socket.SOL_SOCKET, name, size_bytes)

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send one message and copies of `descriptors`. Raises ChannelClosedError."""
        self._send(_packed(message), descriptors)

    def send_all(self, messages: Sequence[dict[str, Any]]) -> None:
        """Send messages at once: the other side has all of them before it answers one. Raises ChannelClosedError."""
        self._send(b"".join(_packed(message) for message in messages))

    def _send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        try:
            if descriptors:
                sent = socket.send_fds(self._socket, [data[:1]], list(descriptors))
                data = data[sent:]
            self._socket.sendall(data)
        except OSError as error:
            raise ChannelClosedError(str(error)) from error

    def receive(self, timeout_s: float | None = None) -> dict[str, Any]:
        """The next message. Raises ChannelTimeoutError after `timeout_s`, ChannelClosedError at the end or for
        nonsense.
        """
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        size = _LENGTH.unpack(self._exactly(_LENGTH.size, until_s))[0]
        if size > MAX_MESSAGE_BYTES:
            raise ChannelClosedError(f"a message of {size} bytes")
        try:
            message = json.loads(self._exactly(size, until_s))
        except (ValueError, RecursionError) as error:
            raise ChannelClosedError(f"not a message: {error}") from error
        if not isinstance(message, dict):
            raise ChannelClosedError("not a message")
        return message

    def take_descriptor(self) -> int:
        """The next descriptor that came with a message; the caller closes it. Raises ChannelClosedError."""
        if not self._descriptors:
            raise ChannelClosedError("a descriptor is missing")
        return self._descriptors.pop(0)

    def hang_up(self) -> None:
        """End the conversation; a thread that waits in `receive` gets ChannelClosedError."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close this end, and descriptors that nobody took."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
        self._socket.close()

    def _exactly(self, size: int, until_s: float | None) -> bytes:
        while len(self._unread) < size:
            if until_s is not None:
                left_s = until_s - time.monotonic()
                if not select.select([self._socket], [], [], max(0.0, left_s))[0]:
                    raise ChannelTimeoutError
            try:
                data, descriptors, _, _ = socket.recv_fds(
                    self._socket, 1 << 16, MAX_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
                )
            except OSError as error:
                raise ChannelClosedError(str(error)) from error
            self._descriptors += descriptors
            if not data:
                raise ChannelClosedError("the other side is gone")
            self._unread += data
        found = bytes(self._unread[:size])
        del self._unread[:size]
        return found


def _packed(message: dict[str, Any]) -> bytes:
    text = json.dumps(message, separators=(",", ":")).encode()
    return _LENGTH.pack(len(text)) + text
