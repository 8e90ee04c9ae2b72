"""Live pages: server-sent events that carry the changed part of a page as HTML."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from fastapi.responses import PlainTextResponse, Response
from fastapi.sse import EventSourceResponse, format_sse_event

from evaluator.errors import InfrastructureError

MAX_STREAMS = 200
"""Live pages at once; further ones stay as they are."""
STREAM_LIFE_S = 60.0
"""A stream ends after this long and the browser opens it again: so a revoked key stops seeing."""
_LOOK_EVERY_S = 0.5
_AFTER_A_FAULT_S = 2.0
_RETRY_MS = 2000
_HEARTBEAT_S = 15.0


@dataclass(frozen=True)
class Moment:
    """The live part of a page: a key that changes with it, its HTML, and whether nothing can change any more."""

    key: object
    html: str
    done: bool = False
    source: object = None
    """What the next look may build on."""


class _Shared:
    """What many viewers look at is looked up once in a while, not once for each of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._moments: dict[object, tuple[float, Moment]] = {}

    def get(self, key: object, make: Callable[[Moment | None], Moment]) -> Moment:
        with self._lock:
            now = time.monotonic()
            kept = self._moments.get(key)
            if kept and now - kept[0] < _LOOK_EVERY_S:
                return kept[1]
            moment = make(kept[1] if kept else None)
            if len(self._moments) >= MAX_STREAMS:
                self._moments.clear()
            self._moments[key] = (now, moment)
            return moment


class Live:
    """The streams of one server. `stopping` says when they are to end; `headers` are those of every answer."""

    def __init__(self, stopping: Callable[[], bool], headers: Mapping[str, str]) -> None:
        self._stopping = stopping
        self._headers = dict(headers)
        self._shared = _Shared()
        self._streams = 0
        # Of their own, so that viewers never take the threads that serve the API.
        self._threads = ThreadPoolExecutor(2, "live-pages")

    def answer(self, key: object, look: Callable[[Moment | None], Moment]) -> Response:
        """A stream of what `look` finds, looked at every half second, once for all streams of the same `key`.

        It is given what it found last.
        """
        if self._streams >= MAX_STREAMS:
            words = f"{MAX_STREAMS} pages are live already: this one stays as it is.\n"
            return PlainTextResponse(words, 503, {**self._headers, "Retry-After": "30"})
        headers = {**self._headers, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        events = self._events(lambda: self._shared.get(key, look))
        return EventSourceResponse(events, headers=headers)

    async def _events(self, look: Callable[[], Moment]) -> AsyncIterator[bytes]:
        began_s = spoke_s = time.monotonic()
        last: object = self  # equal to no key
        self._streams += 1
        try:
            yield format_sse_event(retry=_RETRY_MS)
            while time.monotonic() - began_s < STREAM_LIFE_S and not self._stopping():
                try:
                    moment = await asyncio.get_running_loop().run_in_executor(self._threads, look)
                except InfrastructureError as fault:
                    last, spoke_s = self, time.monotonic()
                    yield format_sse_event(data_str=str(fault), event="fault")
                    await asyncio.sleep(_AFTER_A_FAULT_S)
                    continue
                if moment.done:
                    yield format_sse_event(data_str="", event="done")
                    return
                if moment.key != last:
                    last, spoke_s = moment.key, time.monotonic()
                    yield format_sse_event(data_str=moment.html)
                elif time.monotonic() - spoke_s > _HEARTBEAT_S:
                    spoke_s = time.monotonic()
                    yield format_sse_event(comment="still here")
                await asyncio.sleep(_LOOK_EVERY_S)
        finally:
            self._streams -= 1
