"""The grader's side of a job in a container: the conversation over the attached streams (see init.py).

Docker multiplexes stdout and stderr over one socket: a header of eight bytes (1 or 2 for the stream, three zeros, the
size as four bytes) before each piece. What is written to the socket is the container's stdin.
"""

import contextlib
import json
import secrets
import select
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from evaluator.errors import JobKilledError, SandboxError
from evaluator.sandbox.host import warden
from evaluator.sandbox.host.result import ended_in_words, finished_from, limit_hit
from evaluator.sandbox.sandbox import Job, JobResult, SessionEndedError

GRACE_S: Final = 0.2
"""How long a session's program may take to end by itself once its stdin is closed."""
PATIENCE_S: Final = 20.0
"""How long a container may be late before the job is given up."""
_PIECE_BYTES: Final = 1 << 20
_MARK_BYTES: Final = 32
_STDOUT: Final = 1


@dataclass(frozen=True)
class Container:
    """One started container whose first process waits for an order."""

    id: str
    connection: socket.socket
    """Its attached streams."""
    order_end: Callable[[], None]
    """Tells its first process to end the job; callable from any thread."""
    end: Callable[[], str | None]
    """Kills and removes it; says why it had died, when Docker knows."""


class ContainerSession:
    """A running job. Not for use by two threads at once; many sessions may run in many threads."""

    def __init__(self, job: Job, container: Container, order: Mapping[str, Any], talk: bool) -> None:
        self._job = job
        self._container = container
        self._connection = container.connection
        self._connection.setblocking(False)
        self._seal = secrets.token_bytes(_MARK_BYTES)
        self._begun: bytes | None = secrets.token_bytes(_MARK_BYTES)
        self._header = bytearray()
        self._left = 0  # bytes of the current piece that are still to come
        self._stream = 0
        self._over = False  # nothing more will come
        self._stdout_over = False
        self._unreceived = bytearray()
        self._stderr_text = bytearray()
        self._report_text: bytearray | None = None  # what followed the seal
        self._report: dict[str, Any] | None = None
        self._output_exceeded = False
        self._result: JobResult | None = None
        self._stdin_open = True
        self._late_s = float("inf")
        self._started_s = time.monotonic()
        self._forget_cancel: Callable[[], None] = lambda: None
        text = json.dumps({**order, "seal": self._seal.hex(), "begun": self._begun.hex(), "talk": talk}).encode()
        try:
            with contextlib.suppress(SessionEndedError):  # what is wrong is in the report
                self.send(len(text).to_bytes(4, "big"), text, *job.files.values())
            while self._begun is not None and not self._over and not self._reported():
                self._wait()
            if self._begun is not None:
                self._conclude_if_reported()
        except BaseException:
            self.release()
            raise
        self._forget_cancel = job.cancel_token.call_on_cancel(container.order_end)

    # -- talking --

    def send(self, *parts: bytes | memoryview) -> None:
        """Write all parts to the program's stdin, taking in what it writes meanwhile. Raises SessionEndedError."""
        for part in parts:
            rest = memoryview(part).cast("B")
            while rest:
                if not self._stdin_open or self._report_text is not None:
                    raise self._session_ended("reads no more")
                try:
                    rest = rest[self._connection.send(rest[:_PIECE_BYTES]) :]
                except BlockingIOError:
                    self._wait(writing=True)
                except OSError:
                    self._stdin_open = False
                else:
                    # Docker takes in, and drops, what is sent to a program that has ended.
                    if time.monotonic() > self._late_s:
                        self._wait(writing=True)

    def receive(self, size_bytes: int) -> bytearray:
        """Read exactly `size_bytes` from the program's stdout. Raises SessionEndedError."""
        data = bytearray(size_bytes)
        with memoryview(data) as view:
            filled = self._hand_out(view)
            while filled < size_bytes:
                if self._over or self._report_text is not None:
                    self._take_rest(asked_bytes=size_bytes - filled)
                    filled += self._hand_out(view[filled:])
                    break
                count = self._take_in(view[filled:])
                filled += count or 0
                if count is None or time.monotonic() > self._late_s:
                    self._wait(reading=False)
        if filled < size_bytes:
            raise self._session_ended(f"sent {filled} of the {size_bytes} bytes asked for")
        return data

    def allow(self, time_s: float) -> None:
        """Give the program so long from now for all that it is then sent and asked for; who is late is ended."""
        self._late_s = time.monotonic() + time_s

    def _hand_out(self, view: memoryview) -> int:
        count = min(len(view), len(self._unreceived))
        view[:count] = self._unreceived[:count]
        del self._unreceived[:count]
        return count

    def _take_rest(self, asked_bytes: int = 0) -> None:
        """Take in all that is still to come of a job that is over."""
        self._close_stdin()  # the first process waits for it before it marks the end of stdout
        while not self._over:
            self._wait(asked_bytes=asked_bytes)

    def _session_ended(self, deed: str) -> SessionEndedError:
        # The end of a stream is seen before the report of how the program ended: wait for the better message.
        until_s = time.monotonic() + GRACE_S
        while not self._reported() and not self._over and time.monotonic() < until_s:
            self._wait(until_s=until_s)
        ended = (self._report or {}).get("ended")
        how = limit_hit(self._job.limits, ended, self._output_exceeded) or ended_in_words(ended)
        return SessionEndedError(f"The program {deed}; it {how}.")

    # -- the streams --

    def _wait(
        self, writing: bool = False, reading: bool = True, until_s: float | None = None, asked_bytes: int = 0
    ) -> None:
        """Wait until something can be done; take in what came where the caller does not do so (`reading`)."""
        most_s = warden.longest_s(self._job.limits.wall_s, steps_back=False)  # the kernel shares out by container
        given_up_s = self._started_s + most_s + PATIENCE_S
        pause_s = min(given_up_s, self._late_s, until_s or given_up_s) - time.monotonic()
        poller = select.poll()
        poller.register(self._connection, select.POLLIN | (select.POLLOUT if writing else 0))
        ready = poller.poll(max(0.0, pause_s) * 1000)
        if ready and reading and ready[0][1] & ~select.POLLOUT:
            self._take_in(asked_bytes=asked_bytes)
        elif not ready and time.monotonic() > given_up_s:
            raise SandboxError(
                "The container of a job did not end it in time.",
                "Look whether the Docker daemon and the machine respond: docker info.",
            )
        if time.monotonic() > self._late_s:
            self._late_s = float("inf")
            self._container.order_end()

    def _take_in(self, direct: memoryview | None = None, asked_bytes: int = 0) -> int | None:
        """Read once what has come; returns how many bytes of stdout went to `direct`, None when nothing was there."""
        try:
            if not self._left:
                piece = self._connection.recv(8 - len(self._header))
                self._header += piece
                self._over = not piece
                if len(self._header) == 8:
                    self._stream, self._left = self._header[0], int.from_bytes(self._header[4:], "big")
                    self._header.clear()
                return 0
            if direct is not None and self._stream == _STDOUT:
                count = self._connection.recv_into(direct[: self._left])
                self._left -= count
                self._over = count == 0
                return count
            piece = self._connection.recv(min(self._left, _PIECE_BYTES))
        except BlockingIOError:
            return None
        except OSError:
            piece = b""
        self._left -= len(piece)
        cap = self._job.limits.output_bytes
        if self._stream == _STDOUT:
            self._stdout_over |= self._split(self._unreceived, piece, cap + asked_bytes) is not None
        elif self._report_text is None:
            self._report_text = self._split(self._stderr_text, self._without_mark(piece), cap)
        else:
            self._report_text += piece
        self._over = not piece or (self._stdout_over and self._reported())
        return 0

    def _without_mark(self, piece: bytes) -> bytes:
        """A piece of stderr without the mark that says that the program was started."""
        if self._begun is None:
            return piece
        # What came before may end with the beginning of the mark.
        text = bytes(self._stderr_text[-_MARK_BYTES:]) + piece
        at = text.find(self._begun)
        if at < 0:
            return piece
        del self._stderr_text[-_MARK_BYTES:]
        text = text[:at] + text[at + _MARK_BYTES :]
        self._begun = None
        return text

    def _split(self, text: bytearray, piece: bytes, cap: int) -> bytearray | None:
        """Add a piece of a stream to its text, at most up to `cap`; returns what followed the seal, if it came."""
        seen = len(text)
        text += piece
        at = text.find(self._seal, max(0, seen - len(self._seal)))
        if at >= 0:
            rest = text[at + len(self._seal) :]
            del text[at:]
            if len(text) > cap:
                self._exceed()
            del text[cap:]
            return rest
        if len(text) > cap + len(self._seal):  # its end may be the beginning of the seal
            self._exceed()
            del text[cap : -len(self._seal)]
        return None

    def _exceed(self) -> None:
        if not self._output_exceeded:
            self._output_exceeded = True
            self._container.order_end()

    def _reported(self) -> bool:
        """Whether the whole report is there."""
        text = self._report_text
        if self._report is None and text is not None and len(text) >= 4:
            size_bytes = int.from_bytes(text[:4], "big")
            if len(text) >= 4 + size_bytes:
                self._report = json.loads(text[4 : 4 + size_bytes])
                del text[: 4 + size_bytes]
        if self._report is None or text is None:
            return False
        expected_bytes: int = sum(size_bytes for _, size_bytes in self._report["files"])
        return len(text) >= expected_bytes

    # -- ending --

    def finish(self) -> JobResult:
        """End the program with all its children, remove the container, and say how it ended. Can be repeated."""
        return self.conclude(GRACE_S)

    def conclude(self, grace_s: float | None) -> JobResult:
        """As `finish`, after waiting `grace_s` for the program to end by itself (None: until a limit ends it)."""
        if self._result is None:
            try:
                if grace_s is not None:
                    self._close_stdin()
                    until_s = time.monotonic() + grace_s
                    while not self._over and self._report_text is None and time.monotonic() < until_s:
                        self._wait(until_s=until_s)
                    if not self._over and self._report_text is None:
                        self._container.order_end()
                while not self._over:
                    self._wait()
                self._conclude_if_reported()
            finally:
                self.release()
        assert self._result is not None
        return self._result

    def _close_stdin(self) -> None:
        self._stdin_open = False
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def _conclude_if_reported(self) -> None:
        if not self._reported():
            said = self._stderr_text[-300:].decode(errors="replace").strip()
            why = self._container.end() or "it was killed, or the Docker daemon restarted"
            raise JobKilledError(
                f"The container of a job vanished: {why}{f'; it said: {said}' if said else ''}.", "Evaluate again."
            )
        report = self._report
        assert report is not None
        assert self._report_text is not None
        if "missing" in report:
            raise SandboxError(
                f"The job is to read {', '.join(report['missing'])}, which does not exist in the sandbox's image.",
                "Build the sandbox's image with the same toolchain at the same paths as the grader's: both are "
                "targets of Dockerfile.evaluator.",
            )
        if "failed" in report:
            program = self._job.argv[0]
            raise SandboxError(
                f"The program {program!r} could not be started in the sandbox's image: {report['failed']}.",
                "Build the sandbox's image from Dockerfile.evaluator, and name programs by their absolute paths.",
            )
        self._job.spent(report["ended"]["used_s"])
        files, at = {}, 0
        for name, size_bytes in report["files"]:
            files[name] = bytes(self._report_text[at : at + size_bytes])
            at += size_bytes
        self._result = finished_from(
            self._job.limits,
            report["ended"],
            stdout=bytes(self._unreceived),
            stderr=bytes(self._stderr_text),
            files=files,
            output_exceeded=self._output_exceeded,
        )

    def release(self) -> None:
        """Let go of everything: what still runs is killed with its container."""
        self._forget_cancel()
        self._stdin_open = False
        if self._reported():
            self._connection.close()  # its first process ends now, and Docker removes it
        else:
            self._container.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        else:
            self.release()
