"""The keys at rest."""

from typing import Any

from sqlalchemy import Row, select, update

from evaluator.service.storage.database import Database
from evaluator.service.storage.secrets import Key, Quota, digest, looks_like_a_secret, new_key_id, new_secret
from evaluator.service.storage.tables import keys


class ApiKeyRepository:
    """Who may come in: every key that was made, without its secret."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
        key = None if row is None else _key(row)
        return key if key is not None and key.is_live(self._database.clock()) else None

    def list(self) -> tuple[Key, ...]:
        """All keys, oldest first, dead ones included. Raises StorageError."""
        with self._database.reading() as connection:
            return tuple(_key(row) for row in connection.execute(select(keys).order_by(keys.c.created_at, keys.c.id)))

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
    )
