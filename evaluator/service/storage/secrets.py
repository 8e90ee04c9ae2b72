"""Keys: how a secret is made and recognised, and what a key allows.

A secret has 256 random bits, so a plain SHA-256 is enough to keep it at rest: nobody can guess through it.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

SECRET_PREFIX = "assay_"
_SECRET = re.compile(SECRET_PREFIX + r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class Quota:
    """What one tenant may ask for. None is no bound."""

    per_minute: int | None = None
    """Most evaluations that may be created in any 60 seconds."""
    concurrent: int | None = None
    """Most evaluations that may be queued or running at once."""


@dataclass(frozen=True)
class Key:
    """One bearer key, without its secret. Its `id` is the tenant that its evaluations belong to."""

    id: str
    name: str
    created_at: float
    """Seconds since 1970, UTC."""
    expires_at: float | None
    """Seconds since 1970, UTC; None never expires."""
    revoked_at: float | None
    quota: Quota
    admin: bool
    """May see the evaluations of every tenant."""
    used_at: float | None = None
    """When it was last let in, to the minute; None where it never was."""

    def is_live(self, now: float) -> bool:
        """Whether the key opens anything at `now` (seconds since 1970, UTC)."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def new_secret() -> str:
    """A secret to show once: `assay_` and 43 url-safe characters, 256 random bits."""
    return SECRET_PREFIX + secrets.token_urlsafe(32)


def new_key_id() -> str:
    """A public name for a key: `key_` and 16 url-safe characters."""
    return "key_" + secrets.token_urlsafe(12)


def new_evaluation_id() -> str:
    """A name that nobody guesses: `ev_` and 22 url-safe characters, 128 random bits."""
    return "ev_" + secrets.token_urlsafe(16)


def looks_like_a_secret(text: str) -> bool:
    """Whether `text` has a secret's form; what has not need not be looked up."""
    return _SECRET.fullmatch(text) is not None


def bearer_secret(authorization: str) -> str | None:
    """What an Authorization header of the scheme Bearer holds, which may be nothing; None where it is no such one."""
    scheme, _, secret = authorization.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else None


def digest(secret: str) -> str:
    """What is stored of a secret: SHA-256, 64 hex digits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def reuse_key(server_secret: bytes, parts: tuple[str | bytes, ...]) -> str:
    """One key for everything that a verdict depends on: HMAC-SHA256, 64 hex digits.

    `parts` are joined with their lengths, so that no two different tuples give the same text. Without the server's
    secret nobody can tell from a key whether someone else submitted a text that he knows.
    """
    made = hmac.new(server_secret, digestmod=hashlib.sha256)
    for part in (part.encode("utf-8") if isinstance(part, str) else part for part in parts):
        made.update(b"%d:" % len(part))
        made.update(part)
    return made.hexdigest()
