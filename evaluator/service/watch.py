"""One look at the store for all who wait: a poller that tells each caller when an evaluation has changed.

A thousand callers who wait cost one query every `interval_s`, not a thousand; where workers run inside the server,
`nudge` makes the look at once.
"""

import asyncio
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from evaluator.errors import AssayError
from evaluator.service import logs

_LOG = logs.logger("watch")
_AFTER_A_FAULT_S = 0.5


class Watched(Protocol):
    """What is looked at; `store.Store` in the service."""

    def watch(self, ids: Collection[str]) -> Mapping[str, tuple[int, str]]:
        """Version and state of those evaluations that there are."""


@dataclass(frozen=True)
class News:
    """What an evaluation has come to."""

    version: int
    state: str
    """queued, running, done, or gone where the store no longer has it."""

    @property
    def final(self) -> bool:
        """Whether no more is to come."""
        return self.state in ("done", "gone")


class Follower:
    """One who waits for news of some evaluations."""

    def __init__(self, versions: Mapping[str, int], ends_only: bool) -> None:
        self._versions = dict(versions)
        self._ends_only = ends_only
        self._news: dict[str, News] = {}
        self._changed = asyncio.Event()

    @property
    def ids(self) -> Collection[str]:
        """What is still followed."""
        return self._versions.keys()

    def tell(self, found: Mapping[str, News]) -> None:
        """Take what is new to this follower."""
        for one in [one for one in self._versions if one in found]:
            news = found[one]
            if news.version > self._versions[one] or news.final:
                if news.final:
                    del self._versions[one]
                else:
                    self._versions[one] = news.version
                if news.final or not self._ends_only:
                    self._news[one] = news
                    self._changed.set()

    def release(self) -> None:
        """Wait no longer."""
        self._changed.set()

    async def next(self, timeout_s: float) -> dict[str, News]:
        """What changed since the last call; empty after `timeout_s`, or when the watch was closed."""
        try:
            async with asyncio.timeout(max(0.0, timeout_s)):
                await self._changed.wait()
        except TimeoutError:
            return {}
        self._changed.clear()
        news, self._news = self._news, {}
        return news


class Watch:
    """The poller. Lives in one event loop; only `nudge` and `close` may be called from elsewhere."""

    def __init__(self, store: Watched, interval_s: float = 0.025) -> None:
        self._store = store
        self._interval_s = interval_s
        self._followers: set[Follower] = set()
        self._anyone = asyncio.Event()
        self._nudged = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closed = False

    @contextmanager
    def follow(self, versions: Mapping[str, int], ends_only: bool = True) -> Iterator[Follower]:
        """Follow evaluations from the versions that the caller knows (-1 knows nothing)."""
        follower = Follower(versions, ends_only)
        self._followers.add(follower)
        self._anyone.set()
        if self.closed:
            follower.release()
        try:
            yield follower
        finally:
            self._followers.discard(follower)

    @property
    def count(self) -> int:
        """How many wait."""
        return len(self._followers)

    def nudge(self) -> None:
        """Something has probably changed: look now."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._nudged.set)

    def close(self) -> None:
        """The server stops: nobody waits any longer."""
        self.closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._release)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        self._loop = asyncio.get_running_loop()
        while True:
            if not any(follower.ids for follower in self._followers):
                self._anyone.clear()
                await self._anyone.wait()
            self._nudged.clear()
            took_s = await self._look()
            # At most half of the store's time goes into looking, and a fifth where nobody calls for it.
            await asyncio.sleep(took_s)
            try:
                async with asyncio.timeout(max(self._interval_s - took_s, 3 * took_s)):
                    await self._nudged.wait()
            except TimeoutError:
                continue

    async def _look(self) -> float:
        """One look; how many seconds it took."""
        followers = tuple(self._followers)
        wanted = {one for follower in followers for one in follower.ids}
        if not wanted:
            return 0.0
        started_s = time.monotonic()
        try:
            found = await asyncio.to_thread(self._store.watch, wanted)
        except AssayError as error:
            _LOG.warning("the store cannot be read", error=str(error))
            return _AFTER_A_FAULT_S
        took_s = time.monotonic() - started_s
        news = {one: News(*found[one]) if one in found else News(-1, "gone") for one in wanted}
        for follower in followers:
            follower.tell(news)
        return took_s

    def _release(self) -> None:
        for follower in self._followers:
            follower.release()
