"""Whose request is handled next: of one caller few at a time, while the others wait as bytes that nobody has read."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, NamedTuple

_MOST_HELD: Final = 8
"""Requests of one caller that are handled at one time."""
_HELD_S: Final = 0.05
"""How long at most: what takes longer waits for something else, which is not to hold up others of its caller."""
_MOST_WAITING: Final = 2048
"""Requests of one caller that may wait for that."""
_BEGUN_AT_ONCE: Final = 2
"""Requests that begin before everything else has gone on."""


class Claim(NamedTuple):
    """Who says to be calling, before anyone has looked whether that is true."""

    address: str
    secret: bytes
    """The key that it shows. Addresses take turns first, then the keys of each, so that made up ones gain nothing."""


class Turns:
    """The turns of one server. For one event loop.

    A request holds its turn while something is done for it: for a moment at first, and for another once its verdict
    is there.
    """

    def __init__(self) -> None:
        self._asked: dict[Claim, deque[Callable[[], None]]] = {}
        self._held: Counter[Claim] = Counter()
        # Those whose next request may begin, in the order of their turns.
        self._ready: dict[str, dict[bytes, None]] = {}
        self._soon: asyncio.Handle | None = None

    def ask(self, claim: Claim, begin: Callable[[], None]) -> None:
        """Have `begin` called when it is this caller's turn, which is then held."""
        self._asked.setdefault(claim, deque()).append(begin)
        self._look(claim)

    def is_full(self, claim: Claim) -> bool:
        """Whether no more of this caller's requests may wait."""
        return len(self._asked.get(claim, ())) >= _MOST_WAITING

    def give_back(self, claim: Claim) -> None:
        """A turn is held no longer."""
        self._held[claim] -= 1
        if not self._held[claim]:
            del self._held[claim]
        self._look(claim)

    def _look(self, claim: Claim) -> None:
        if claim in self._asked and self._held[claim] < _MOST_HELD:
            self._ready.setdefault(claim.address, {}).setdefault(claim.secret)
            if self._soon is None:
                self._soon = asyncio.get_running_loop().call_soon(self._begin_some)

    def _begin_some(self) -> None:
        self._soon = None
        for _ in range(_BEGUN_AT_ONCE):
            if not self._ready:
                return
            address = next(iter(self._ready))
            secrets = self._ready.pop(address)
            claim = Claim(address, next(iter(secrets)))
            del secrets[claim.secret]
            if secrets:
                self._ready[address] = secrets
            begin = self._asked[claim].popleft()
            if not self._asked[claim]:
                del self._asked[claim]
            self._held[claim] += 1
            self._look(claim)
            begin()
        if self._ready and self._soon is None:
            self._soon = asyncio.get_running_loop().call_soon(self._begin_some)


class RequestTurn:
    """The turn of one request, which holds it at first."""

    def __init__(self, turns: Turns, claim: Claim) -> None:
        self._turns, self._claim = turns, claim
        self._hold()

    def _hold(self) -> None:
        self._ends: asyncio.TimerHandle | None = asyncio.get_running_loop().call_later(_HELD_S, self.leave)

    def leave(self) -> None:
        """Let others of its caller go on; more than once is as once."""
        if self._ends is not None:
            self._ends.cancel()
            self._ends = None
            self._turns.give_back(self._claim)

    async def take(self) -> None:
        """Go on when it is its turn again."""
        if self._ends is not None:
            return
        begins = asyncio.get_running_loop().create_future()

        def begin() -> None:
            if begins.cancelled():
                self._turns.give_back(self._claim)
            else:
                begins.set_result(None)

        self._turns.ask(self._claim, begin)
        try:
            await begins
        except asyncio.CancelledError:
            if not begins.cancelled():
                self._turns.give_back(self._claim)
            raise
        self._hold()
