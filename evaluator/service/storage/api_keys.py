"""The keys at rest."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Row, case, func, select, update

from evaluator.errors import StorageError
from evaluator.service.storage.database import Database
from evaluator.service.storage.secrets import Key, Quota, digest, looks_like_a_secret, new_key_id, new_secret
from evaluator.service.storage.tables import evaluations, is_open, keys

_USED_WITHIN_S: Final = 60.0
"""How exactly it is known when a key was last used: written more often, each request would cost a transaction."""
_DAY_S: Final = 86400.0


@dataclass(frozen=True)
class Usage:
    """What one key has asked for, of the evaluations that are kept."""

    kept: int
    last_day: int
    """Of these, accepted in the last 24 hours."""
    under_way: int
    """Of these, waiting or running."""


class ApiKeyRepository:
    """Who may come in: every key that was made, without its secret."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._noted: dict[str, float] = {}
        """When it was last tried to write down that a key was used, by its id."""

    def create(
        self,
        name: str,
        *,
        expires_at: float | None = None,
        per_minute: int | None = None,
        concurrent: int | None = None,
        admin: bool = False,
    ) -> tuple[Key, str]:
        """A new key and its secret, which is given now and never again. Raises StorageError.

        `expires_at` is in seconds since 1970, UTC; the quota's meaning is at `secrets.Quota`.
        """
        secret = new_secret()
        key = Key(
            id=new_key_id(),
            name=name,
            created_at=self._database.clock(),
            expires_at=expires_at,
            revoked_at=None,
            quota=Quota(per_minute, concurrent),
            admin=admin,
        )
        row = {
            "id": key.id,
            "name": name,
            "secret_sha256": digest(secret),
            "created_at": key.created_at,
            "expires_at": expires_at,
            "per_minute": per_minute,
            "concurrent": concurrent,
            "admin": admin,
        }
        with self._database.writing() as connection:
            connection.execute(keys.insert().values(row))
        return key, secret

    def find(self, secret: str) -> Key | None:
        """The key of this secret; None where there is none, or it has expired or was revoked. Raises StorageError."""
        if not looks_like_a_secret(secret):
            return None
        with self._database.reading() as connection:
            row = connection.execute(select(keys).where(keys.c.secret_sha256 == digest(secret))).first()
        now = self._database.clock()
        key = None if row is None else _key(row)
        if key is None or not key.is_live(now):
            return None
        if max(key.used_at or 0.0, self._noted.get(key.id, 0.0)) <= now - _USED_WITHIN_S:
            self._noted[key.id] = now
            # Who asks is let in, whether or not this can be written; and where it cannot, it is not tried each time.
            with suppress(StorageError), self._database.writing() as connection:
                connection.execute(update(keys).where(keys.c.id == key.id).values(used_at=now))
        return key

    def list(self) -> tuple[Key, ...]:
        """All keys, oldest first, dead ones included. Raises StorageError."""
        with self._database.reading() as connection:
            return tuple(_key(row) for row in connection.execute(select(keys).order_by(keys.c.created_at, keys.c.id)))

    def usage(self) -> dict[str, Usage]:
        """What was asked for with each key that has asked for anything, by its id. Raises StorageError."""
        row = evaluations.c
        since = self._database.clock() - _DAY_S
        counted = select(
            row.tenant,
            func.count(),
            func.count(case((row.created_at > since, 1))),
            func.count(case((is_open, 1))),
        ).group_by(row.tenant)
        with self._database.reading() as connection:
            return {tenant: Usage(*counts) for tenant, *counts in connection.execute(counted)}

    def rotate(self, key_id: str) -> str | None:
        """A new secret of a key, whose old one opens nothing from now on; everything else of it stays.

        None where no key of this id could be used any more. Raises StorageError.
        """
        secret, row = new_secret(), keys.c
        live = (row.id == key_id) & row.revoked_at.is_(None)
        live &= row.expires_at.is_(None) | (row.expires_at > self._database.clock())
        with self._database.writing() as connection:
            changed = connection.execute(update(keys).where(live).values(secret_sha256=digest(secret)))
            return secret if changed.rowcount == 1 else None

    def revoke(self, key_id: str) -> bool:
        """End a key now. False where no live key has this id. Raises StorageError."""
        with self._database.writing() as connection:
            ended = update(keys).where(keys.c.id == key_id, keys.c.revoked_at.is_(None))
            return connection.execute(ended.values(revoked_at=self._database.clock())).rowcount == 1


def _key(row: Row[Any]) -> Key:
    return Key(
        id=row.id,
        name=row.name,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        quota=Quota(row.per_minute, row.concurrent),
        admin=row.admin,
        used_at=row.used_at,
    )
