"""HTTP to a service that may be busy, restarting or out of reach: asked until it answers, or patience is at its end.

Knows nothing of evaluations. What cannot get better by asking again is an exception at once.
"""

import asyncio
import email.utils
import json
import logging
import random
import re
import ssl
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar

import httpx

from common.contract import CONTRACT_VERSION

MARGIN_S = 15.0
"""How much longer than asked to wait a service may take to answer."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 10.0
_MAX_ANSWER_BYTES = 64 << 20
_MAX_SERVER_ERRORS = 8
_SILENCE_S = 3.0
"""How long a service may be out of reach before the log says so: a restart behind a proxy takes less."""
_HASTY_S = 30.0
"""A caller whose patience ends within this needs no line in the log: the exception comes soon enough."""
_LOG = logging.getLogger("assay.client")
_AGAIN = (408, 425, 429, 500, 502, 503, 504)
T = TypeVar("T")
Backend = Literal["auto", "gpu", "sim"]
_LOOK_THERE = "Look whether `assay serve` runs there and /readyz answers, then send the submission again."


class NoVerdictError(Exception):
    """There is no verdict, so there is no reward: what happened, and in `remedy` what to do about it."""

    def __init__(self, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.remedy = remedy
        self.evaluation_id: str | None = None
        """The evaluation, where it had one already: `Client.result` goes on waiting for it."""


class RequestRefusedError(NoVerdictError):
    """The service understood and refused: the same request would be refused again."""

    def __init__(self, message: str, remedy: str | None = None, status_code: int = 0) -> None:
        super().__init__(message, remedy)
        self.status_code = status_code


class ServiceError(NoVerdictError):
    """The service, or the way to it, failed. It says nothing about the submission, which can be sent again."""


@dataclass(frozen=True)
class TransientFailure:
    """An answer, or the lack of one, that asking again may change."""

    said: str
    status_code: int | None = None
    retry_after_s: float | None = None
    remedy: str | None = None
    """What the service says to do."""
    told: Mapping[str, Any] | None = None
    """What the service itself says where it is not ready; None of any other answer, such as a proxy's."""
    unserved: bool = False
    """Whether the service has no worker for what this request asks for; it may well take another one."""

    @property
    def busy(self) -> bool:
        """True where the service is well and asks for patience, whatever it is sent."""
        return self.status_code in (429, 503) and not self.unserved


class Connection:
    """Connections to one service, for one event loop.

    `wait_s`: the longest that a request asks the service to wait. Raises ValueError for a `url` or a `key` that
    cannot be one.
    """

    def __init__(self, url: str, key: str | None, wait_s: float, patience_s: float) -> None:
        self.url = checked(url)
        self.wait_s, self._patience_s = wait_s, patience_s
        self._announces = patience_s > _HASTY_S
        self._announced = False
        headers = {"Accept": "application/json", "User-Agent": f"assay-client/{CONTRACT_VERSION}"}
        if bearer := sendable(key):
            headers["Authorization"] = f"Bearer {bearer}"
        self._http = httpx.AsyncClient(
            headers=headers,
            timeout=wait_s + MARGIN_S,
            verify=_trusted(),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def retry(
        self,
        attempt: Callable[[], Coroutine[Any, Any, T | TransientFailure]],
        trouble: TransientFailure | None = None,
    ) -> T:
        """Attempt until there is an answer; pauses grow, are random, and never shorter than the service asks for.

        `trouble`: what a first attempt has met already. Raises ServiceError where patience would end in the pause, or
        the service fails again and again.
        """
        since_s = time.monotonic()
        tries = errors = 0
        while True:
            if trouble is not None:
                tries += 1
                errors += trouble.status_code == 500
                pause_s = random.uniform(0.5, 1.0) * min(_FIRST_PAUSE_S * 2 ** min(tries, 16), _LONGEST_PAUSE_S)
                if trouble.retry_after_s is not None:
                    pause_s = trouble.retry_after_s + random.uniform(0.0, 0.1) * (1 + trouble.retry_after_s)
                waited_s = time.monotonic() - since_s
                if waited_s + pause_s > self._patience_s or errors >= _MAX_SERVER_ERRORS:
                    raise ServiceError(self._given_up(trouble, tries, waited_s), trouble.remedy or _LOOK_THERE)
                if (
                    self._announces
                    and not (self._announced or trouble.status_code)
                    and waited_s + pause_s > _SILENCE_S
                ):
                    self._announced = True
                    _LOG.warning(
                        "%s is out of reach: %s. Does `assay serve` run there? Trying for %.0f s more.",
                        self.url,
                        trouble.said,
                        self._patience_s - waited_s,
                    )
                await asyncio.sleep(pause_s)
            found = await attempt()
            if not isinstance(found, TransientFailure):
                self._announced = False
                return found
            trouble = found

    def _given_up(self, trouble: TransientFailure, tries: int, waited_s: float) -> str:
        if tries == 1 and trouble.status_code is not None:
            return f"The service at {self.url}: {trouble.said}."
        times = f"{tries} tries" if tries > 1 else "1 try"
        return (
            f"The service at {self.url} gave no useful answer in {times} and {waited_s:.0f} s; the last failure: "
            f"{trouble.said}."
        )

    async def ask(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None = None
    ) -> bytes | TransientFailure:
        """One request: the body of a good answer. Raises RequestRefusedError where asking again cannot help."""
        try:
            async with (
                asyncio.timeout(self.wait_s + MARGIN_S),
                self._http.stream(method, self.url + path, headers=headers, content=body) as response,
            ):
                answer = bytearray()
                async for part in response.aiter_bytes():
                    answer += part
                    if len(answer) > _MAX_ANSWER_BYTES:
                        return TransientFailure(f"it sent more than {_MAX_ANSWER_BYTES >> 20} MiB")
        except (TimeoutError, httpx.TimeoutException):
            return TransientFailure("it did not answer in time")
        except httpx.HTTPError as error:
            return TransientFailure(f"the connection failed ({str(error) or type(error).__name__})")
        if response.is_success:
            return bytes(answer)
        problem = _members(bytes(answer))
        said, remedy = _complaint(problem, response)
        if response.status_code in _AGAIN:
            retry_after_s = _seconds(response.headers.get("retry-after"))
            told = problem if problem.get("ready") is False else None
            unserved = str(problem.get("type")).endswith(":no-worker")
            return TransientFailure(
                f"it answered {said}", response.status_code, retry_after_s, remedy, told, unserved
            )
        if response.status_code == 401:
            remedy = "Set ASSAY_KEY to a key that is valid there."
        elif response.status_code in (404, 405):
            remedy = without_path(self.url) or remedy
        raise RequestRefusedError(f"The service at {self.url} answered {said}.", remedy, response.status_code)


def sendable(key: str | None) -> str:
    """The key without what surrounds it; empty for none. Raises ValueError, which does not show it."""
    bare = (key or "").strip()
    if not re.fullmatch("[!-~]*", bare):
        raise ValueError("the key holds a space, a line break or a letter that no key has: copy it again, whole")
    return bare


@cache
def _trusted() -> ssl.SSLContext:
    # Reading the certificates takes longer than many an evaluation: once is enough for all connections of a process.
    return httpx.create_ssl_context()


def checked(url: str) -> str:
    """The address without a slash at its end. Raises ValueError."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{url!r} is no address of a service: {error}") from error
    if parsed.userinfo:
        raise ValueError("an address holds neither a name nor a password; the key of a service is given on its own")
    if (
        parsed.scheme not in ("http", "https")
        or not re.fullmatch(r"[^\s%]+", parsed.host)
        or (parsed.port is not None and not 0 < parsed.port < 1 << 16)
    ):
        raise ValueError(f"{url!r} is no address of a service: write it as http://127.0.0.1:8000")
    return str(parsed).rstrip("/")


def without_path(url: str) -> str | None:
    """What to do where nothing is found at an address that has a path; None for one without."""
    parsed = httpx.URL(url)
    root = f"{parsed.scheme}://{parsed.netloc.decode()}"
    path = str(parsed).removeprefix(root).rstrip("/")
    return f"Leave {path} out of the address, unless the service itself is there: {root}" if path else None


def _members(body: bytes) -> dict[str, Any]:
    """The members of an answer of problem+json, or of one that says how ready the service is; none of another."""
    try:
        problem = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return problem if isinstance(problem, dict) else {}


def why_not_ready(answer: bytes | TransientFailure, backend: Backend, own_word: bool) -> str | None:
    """As `AsyncClient.why_not_ready`, by an answer of /readyz; one of a service that does not tell backends apart is
    for all.
    """
    told = _members(answer) if isinstance(answer, bytes) else answer.told
    if isinstance(answer, TransientFailure) and not own_word and (told is None or backend == "auto"):
        return answer.said
    backends = told.get("backends") if told else None
    if isinstance(backends, dict) and backend in backends:
        reason = backends[backend]
    else:
        reason = str(told.get("reason")) if told and told.get("ready") is False else None
    return None if reason is None else str(reason)[:1000]


def _complaint(problem: dict[str, Any], response: httpx.Response) -> tuple[str, str | None]:
    """What such an answer says, and its remedy."""
    said = f"{response.status_code} {response.reason_phrase}".strip()
    parts = [str(problem[name])[:1000].rstrip(".") for name in ("title", "detail", "reason") if problem.get(name)]
    remedy = problem.get("remedy")
    return ": ".join([said, *(part for part in parts if part not in said)]), str(remedy)[:1000] if remedy else None


def _seconds(retry_after: str | None) -> float | None:
    """Seconds from now that a Retry-After header asks for, given as seconds or as a date; None without a sane one."""
    if retry_after is None:
        return None
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        return max(email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError):
        return None
