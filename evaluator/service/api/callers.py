"""Who calls: the key of a request, and callers who take turns."""

import asyncio
import ipaddress
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from weakref import WeakValueDictionary

from evaluator.service.api.errors import ApiError
from evaluator.service.storage.api_keys import ApiKeyRepository
from evaluator.service.storage.secrets import Quota, looks_like_a_secret

LOCAL: Final = "local"
"""The tenant of everyone, while there is no key."""
_REMEMBERED_S: Final = 1.0
"""How long it is remembered that there is no key: so soon a first key closes the service to all others."""
_LOOKED_AT_S: Final = 5.0
"""How often it is looked which keys there still are, for those who wait."""


@dataclass(frozen=True)
class Caller:
    """Who asks."""

    tenant: str
    admin: bool = False
    quota: Quota | None = None

    @property
    def sees(self) -> str | None:
        """Whose evaluations: its own, or (None) everyone's."""
        return None if self.admin else self.tenant


LOCAL_CALLER: Final = Caller(LOCAL, admin=True)


_CUSTOMER_BITS: Final = 56
"""Of an IPv6 address, those that one customer has at the least (RIPE-690): a network of 64 bits is one of his 256."""
_SITE_BITS: Final = 48
"""Those that a site has at the most (RFC 6177), and that anyone gets for nothing from a tunnel broker."""


@lru_cache(maxsize=4096)
def sender_of(host: str) -> str:
    """Who is counted as one where there is no key: an IPv4 address, or what one customer has of IPv6's.

    What is no address (a socket of this machine) is itself.
    """
    return _shortened(host, _CUSTOMER_BITS)


@lru_cache(maxsize=4096)
def site_of(host: str) -> str:
    """As `sender_of`, for turns that senders share between them: of IPv6 all that may be one site's."""
    return _shortened(host, _SITE_BITS)


def _shortened(host: str, bits: int) -> str:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return str(ipaddress.ip_network((address, bits), strict=False))
        address = address.ipv4_mapped
    return str(address)


def forwarded_host(header: bytes, is_proxy: Callable[[str], bool]) -> str:
    """The host that a request came from, by `X-Forwarded-For` as a trusted proxy sends it; empty where it names none.

    Each proxy adds whom it got it from: so it is the last that is no trusted proxy itself.
    """
    named = [one.strip() for one in header.decode("latin-1").split(",") if one.strip()]
    return next((one for one in reversed(named) if not is_proxy(one)), named[0] if named else "")


class Authenticator:
    """Says who calls. May be used from any thread."""

    def __init__(self, keys: ApiKeyRepository, require_keys: bool) -> None:
        """`require_keys`: a key is asked for even while there is none."""
        self._keys, self._require_keys = keys, require_keys
        self._lock = threading.Lock()
        self._open: tuple[float, bool] | None = None
        self._live: tuple[float, frozenset[str]] = (-_LOOKED_AT_S, frozenset())

    def is_open(self) -> bool:
        """True while there is no key at all and none is demanded: then everyone is the tenant `local`."""
        known = self.known_open()
        if known is None:
            with self._lock:
                # Once there was a key, it stays closed: revoking the last one opens nothing.
                known = self.known_open()
                if known is None:
                    known = not self._keys.list()
                    self._open = (time.monotonic(), known)
        return known

    def known_open(self) -> bool | None:
        """As `is_open`, where that can be told without the store, for the event loop; None where it cannot."""
        if self._require_keys:
            return False
        known = self._open
        if known is None or (known[1] and time.monotonic() - known[0] > _REMEMBERED_S):
            return None
        return known[1]

    def ensure_still(self, caller: Caller) -> None:
        """Refuse whose key has ended since, some seconds later at most. Raises ApiError, StorageError."""
        if caller.tenant == LOCAL:
            is_live = self.is_open()
        else:
            with self._lock:
                looked_at_s, live = self._live
                if time.monotonic() - looked_at_s >= _LOOKED_AT_S:
                    now = time.time()
                    live = frozenset(key.id for key in self._keys.list() if key.is_live(now))
                    self._live = (time.monotonic(), live)
            is_live = caller.tenant in live
        if not is_live:
            raise _unknown_key()

    def caller(self, secret: str | None) -> Caller:
        """Who has this secret. Raises ApiError."""
        if self.is_open():
            return LOCAL_CALLER
        if secret is None:
            raise ApiError(
                "unauthorized",
                "This service asks for a key, and the request has none.",
                "Send the header `Authorization: Bearer assay_…`; keys are made by `assay keys add NAME`.",
            )
        key = self._keys.find(secret) if looks_like_a_secret(secret) else None
        if key is None:
            raise _unknown_key()
        return Caller(key.id, key.admin, key.quota)


def _unknown_key() -> ApiError:
    return ApiError(
        "unauthorized",
        "This key is not known here: it never was, it has expired, or it was revoked.",
        "Ask the operator of this service for a new one.",
    )


class TenantTurns:
    """For work that takes long: one caller of each tenant at a time, in the order in which they came.

    For one event loop.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, tenant: str) -> asyncio.Lock:
        """The lock to hold during a turn of `tenant`. It is gone once nobody holds it or waits for it."""
        return self._locks.setdefault(tenant, asyncio.Lock())
