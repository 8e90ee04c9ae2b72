"""One look at the store for all who wait: a poller that tells each caller when an evaluation has changed.

A thousand callers who wait cost one query every `interval_s`, not a thousand; where workers run inside the server,
`notify` makes the look at once, at what has changed alone.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from evaluator.errors import AssayError
from evaluator.service import logs

_LOG = logs.logger("watch")
_AFTER_A_FAULT_S = 0.5
_TOLD_AT_ONCE = 16
"""Callers who hear of one evaluation before everything else has gone on."""


class Watched(Protocol):
    """What is looked at: the service's `EvaluationRepository`."""

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


class Subscription:
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


class Notifier:
    """The poller. Lives in one event loop; only `notify` and `close` may be called from elsewhere.

    `interval_s`: how often it looks at all that is followed. What begins to be followed, and what it is nudged for,
    it looks at sooner.
    """

    def __init__(self, evaluations: Watched, interval_s: float = 0.025) -> None:
        self._evaluations = evaluations
        self._interval_s = interval_s
        self._followers: defaultdict[str, set[Subscription]] = defaultdict(set)
        self._waiting: set[Subscription] = set()
        self._due: set[str] = set()
        self._stirred = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closed = False

    @contextmanager
    def follow(self, versions: Mapping[str, int], ends_only: bool = True) -> Iterator[Subscription]:
        """Follow evaluations from the versions that the caller knows (-1 knows nothing)."""
        follower = Subscription(versions, ends_only)
        self._waiting.add(follower)
        for one in follower.ids:
            self._followers[one].add(follower)
        # A nudge may have come before anyone followed.
        self._stir(follower.ids)
        if self.closed:
            follower.release()
        try:
            yield follower
        finally:
            self._waiting.discard(follower)
            for one in versions:
                self._leave(one, follower)

    @property
    def count(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def notify(self, *ids: str) -> None:
        """These have probably changed: look now."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stir, ids)

    def close(self) -> None:
        """The server stops: nobody waits any longer."""
        self.closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._release)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        self._loop = asyncio.get_running_loop()
        look_at_all_s = 0.0
        while True:
            if not self._followers:
                self._stirred.clear()
                await self._stirred.wait()
            is_for_all = time.monotonic() >= look_at_all_s
            wanted = tuple(self._followers if is_for_all else self._due & self._followers.keys())
            self._due.clear()
            self._stirred.clear()
            took_s = await self._look(wanted) if wanted else 0.0
            if is_for_all:
                # At most a fifth of the store's time goes into looking where nobody calls for it.
                look_at_all_s = time.monotonic() + max(self._interval_s - took_s, 4 * took_s)
            # And at most half of it where somebody does.
            await asyncio.sleep(took_s)
            try:
                async with asyncio.timeout(max(0.0, look_at_all_s - time.monotonic())):
                    await self._stirred.wait()
            except TimeoutError:
                continue

    async def _look(self, wanted: Collection[str]) -> float:
        """One look; how many seconds it took."""
        started_s = time.monotonic()
        try:
            found = await asyncio.to_thread(self._evaluations.watch, wanted)
        except AssayError as error:
            _LOG.warning("the store cannot be read", error=str(error))
            self._due.update(wanted)
            return _AFTER_A_FAULT_S
        took_s = time.monotonic() - started_s
        for one in wanted:
            news = {one: News(*found[one]) if one in found else News(-1, "gone")}
            for number, follower in enumerate(tuple(self._followers.get(one, ()))):
                if number % _TOLD_AT_ONCE == _TOLD_AT_ONCE - 1:
                    await asyncio.sleep(0)
                follower.tell(news)
                if one not in follower.ids:
                    self._leave(one, follower)
        return took_s

    def _stir(self, ids: Collection[str]) -> None:
        self._due.update(ids)
        self._stirred.set()

    def _leave(self, one: str, follower: Subscription) -> None:
        followers = self._followers.get(one, set())
        followers.discard(follower)
        if not followers:
            self._followers.pop(one, None)

    def _release(self) -> None:
        for follower in self._waiting:
            follower.release()
