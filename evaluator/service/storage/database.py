"""The database: connections, transactions, migrations, clocks, and its failures in words.

Repositories take one `Database` each, and share nothing else. Their methods may be called from any thread, and raise
StorageError where the database cannot be used; then they have changed nothing, or (where the connection broke at the
very end) all.
"""

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Any, cast

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from evaluator.errors import StorageError, UsageError

_MIGRATIONS = Path(__file__).parent / "migrations"
_BUSY_S = 30


class AdvisoryLock(Enum):
    """What only one transaction does at a time, in all processes that share a database."""

    UPGRADE = 0x4153_5341_5901
    ACCEPT = 0x4153_5341_5902


class Database:
    """One database and its pool of connections. Threads may share it; a forked child makes its own."""

    def __init__(
        self,
        url: str,
        clock: Callable[[], float] = time.time,
        steady_clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Connects to nothing yet. Raises UsageError for a `url` of another kind.

        `url`: `sqlite:////path/assay.db` or `postgresql://user:password@host/name`. `clock` tells the time of day in
        seconds since 1970, UTC; `steady_clock` tells seconds since any moment, and does not jump.
        """
        self._url = _understood(url)
        self.clock = clock
        self.steady_clock = steady_clock
        self._turns = threading.Lock()
        self._file: tuple[int, int] | None = None
        """Device and number of SQLite's file, from the first connection on."""
        self._is_sqlite = self._url.get_backend_name() == "sqlite"
        self._engine = _sqlite_engine(self._url) if self._is_sqlite else _postgresql_engine(self._url)

    def upgrade(self) -> None:
        """Bring the tables up to date. Many processes may do so at once. Raises StorageError."""
        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
        if self._is_sqlite:
            # Others on this machine may not read what callers send. What cannot be made is said below.
            with suppress(OSError):
                os.close(os.open(str(self._url.database), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        with self.writing() as connection:
            self.hold(connection, AdvisoryLock.UPGRADE)
            config.attributes["connection"] = connection
            try:
                command.upgrade(config, "head")
            except CommandError as error:
                raise StorageError(
                    f"The tables of {self._place} are not of this version of Assay: {error}.",
                    "Start the version of Assay that wrote them last, or a newer one.",
                ) from error

    def ping(self) -> None:
        """Raises StorageError unless the database answers."""
        with self.reading() as connection:
            connection.execute(text("SELECT 1"))

    def close(self) -> None:
        """Close the connections that are not in use. The next call opens new ones."""
        self._engine.dispose()
        self._file = None

    @property
    def has_one_writer(self) -> bool:
        """Whether transactions that write wait for each other, whatever they write."""
        return self._is_sqlite

    @property
    def folder(self) -> Path | None:
        """Where the database's file is; None where a server has it."""
        return Path(str(self._url.database)).parent if self._is_sqlite else None

    @property
    def _place(self) -> str:
        if self._is_sqlite:
            return f"the database {self._url.database}"
        return f"the database {self._url.database} on {self._url.host or self._url.query.get('host', 'localhost')}"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One transaction that writes nothing. Raises StorageError."""
        with self._faults(), self._same_file(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction that may write: all of it or nothing. Raises StorageError."""
        with self._faults(), self._same_file(), self._turn(), self._engine.connect() as connection:
            connection.execution_options(assay_writes=True)
            with connection.begin():
                yield connection

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """SQLite has one writer at a time: threads of a process wait here, and processes in `_begin_to_write`,
        since SQLite itself waits by sleeping up to 100 ms at a time, without regard to who came first.
        """
        if not self._is_sqlite:
            yield
        elif self._turns.acquire(timeout=_BUSY_S):
            try:
                yield
            finally:
                self._turns.release()
        else:
            raise StorageError(f"{_SQLITE_WORDS['SQLITE_BUSY'][0]} ({self._place}).", _SQLITE_WORDS["SQLITE_BUSY"][1])

    @contextmanager
    def _same_file(self) -> Iterator[None]:
        """A file of SQLite that was deleted or moved away can still be written by who has it open, and what was
        accepted would be lost; and another in its place would be damaged by what the first has left beside it.
        """
        if self._is_sqlite and self._file is not None and self._file != _identity(self._url.database):
            raise StorageError(
                f"The database's file was deleted, moved or replaced while it was in use ({self._place}).",
                "Put it back, or stop the service before another takes its place.",
            )
        yield
        if self._is_sqlite and self._file is None:
            self._file = _identity(self._url.database)

    def hold(self, connection: Connection, lock: AdvisoryLock) -> None:
        """Until this transaction ends, no other one holds `lock`. SQLite has a single writer anyway."""
        if not self._is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:what)"), {"what": lock.value})

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except PoolTimeout as error:
            raise StorageError(
                f"All connections to {self._place} are busy.", "Look for a slow database, or run more API processes."
            ) from error
        except DBAPIError as error:
            what, remedy = _sqlite_words(error) if self._is_sqlite else _postgresql_words(error)
            raise StorageError(f"{what} ({self._place}).", remedy) from error
        except SQLAlchemyError as error:
            raise StorageError(f"{self._place} cannot be used: {error}.") from error


def insert_into(table: Any, dialect: str) -> Any:
    """An INSERT that knows ON CONFLICT, in the `dialect` of a connection (`connection.dialect.name`)."""
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


def _understood(url: str) -> URL:
    try:
        parsed = make_url(url)
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.drivername in ("sqlite", "postgresql+psycopg") and parsed.database not in (None, "", ":memory:"):
            return parsed
    except (ArgumentError, NoSuchModuleError):
        pass
    raise UsageError(
        "The database's address is not understood.",
        "Give sqlite:////path/assay.db, or postgresql://user:password@host/name.",
    )


def _sqlite_engine(url: URL) -> Engine:
    engine = create_engine(url, connect_args={"timeout": _BUSY_S}, pool_size=8, max_overflow=56)

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        # Transactions begin as said below, not where the driver thinks.
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            _execute_when_free(connection, f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that reads first and writes later fails at once where another wrote between; one that says
        # at its start that it will write waits for its turn.
        if connection.get_execution_options().get("assay_writes", False):
            _begin_to_write(connection)
        else:
            connection.exec_driver_sql("BEGIN")

    return engine


def _identity(file: str | None) -> tuple[int, int] | None:
    """Which file has this name now; None where there is none."""
    try:
        found = os.stat(str(file))
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _begin_to_write(connection: Connection) -> None:
    driver = cast(sqlite3.Connection, connection.connection.driver_connection)
    driver.execute("PRAGMA busy_timeout=0")
    try:
        try:
            _execute_when_free(driver, "BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            # Once more, so that the failure is reported like every other.
            connection.exec_driver_sql("BEGIN IMMEDIATE")
    finally:
        driver.execute(f"PRAGMA busy_timeout={1000 * _BUSY_S:.0f}")


def _execute_when_free(driver: sqlite3.Connection, statement: str) -> None:
    """Execute it once no other connection is in its way.

    Of two connections that wait for each other, as two that change a new database's journal do, SQLite refuses one
    at once, whatever its busy timeout is.
    """
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            driver.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(random.uniform(0.0005, 0.0025))


def _postgresql_engine(url: URL) -> Engine:
    return create_engine(
        url,
        pool_pre_ping=True,
        pool_size=8,
        max_overflow=24,
        pool_timeout=_BUSY_S,
        connect_args={
            "connect_timeout": 5,
            "options": f"-c statement_timeout={_BUSY_S}s -c idle_in_transaction_session_timeout={2 * _BUSY_S}s",
            "keepalives_idle": 15,
            "tcp_user_timeout": 1000 * _BUSY_S,
        },
    )


_NO_ROOM = "Free some space there, or move the database to a larger disk; nothing was written by halves."
_NO_TABLES = "Start `assay serve` once: it brings the tables up to date."
_SQLITE_WORDS = {
    "SQLITE_FULL": ("There is no room left on the disk", _NO_ROOM),
    "SQLITE_IOERR": ("The disk failed to read or write", "Look at the system's log, and at the room on the disk."),
    "SQLITE_READONLY": ("The database may not be written", "Give the service's user write permission to its folder."),
    "SQLITE_CANTOPEN": ("The database cannot be opened", "Make its folder, and let the service's user write there."),
    "SQLITE_BUSY": ("Another process held the database for too long", "End that process, or use PostgreSQL."),
    "SQLITE_CORRUPT": ("The database is damaged", "Put back the last backup."),
    "SQLITE_NOTADB": ("The file is not a database", "Name another file, or put back the last backup."),
}
_POSTGRESQL_WORDS = {
    "53100": ("There is no room left on the database's disk", _NO_ROOM),
    "53300": ("The database has no connection left", "Raise its max_connections, or run fewer processes."),
    "25006": ("The database may not be written", "Point the service at the primary, not at a standby."),
    "42P01": ("The tables are missing", _NO_TABLES),
    "42703": ("The tables are of another version of Assay", _NO_TABLES),
    "28": ("The database does not let this user in", "Check user and password in the database's address."),
    "3D000": ("There is no such database", "Create it, or correct the database's address."),
    "57014": ("The database took too long", "Look at its load and at its log."),
}

# A server that lets nobody in says why in words only.
_REFUSALS = {
    "authentication failed": "28",
    "no pg_hba.conf entry": "28",
    'role "': "28",
    'database "': "3D000",
    "too many": "53300",
}


def _sqlite_words(error: DBAPIError) -> tuple[str, str]:
    name = str(getattr(error.orig, "sqlite_errorname", ""))
    for start, words in _SQLITE_WORDS.items():
        if name.startswith(start):
            return words
    if "no such table" in str(error.orig) or "no such column" in str(error.orig):
        return "The tables are missing or of another version of Assay", _NO_TABLES
    return f"The database failed: {error.orig}", "This may be a mistake in Assay itself: please report it."


def _postgresql_words(error: DBAPIError) -> tuple[str, str]:
    state = getattr(error.orig, "sqlstate", None) or ""
    refusal = str(error.orig).partition("FATAL:")[2]
    if not state:
        state = next((state for said, state in _REFUSALS.items() if said in refusal), "")
    for start, words in _POSTGRESQL_WORDS.items():
        if state.startswith(start):
            return words
    if error.connection_invalidated or not state or state[:2] in ("08", "57"):
        return (
            "The database does not answer",
            "Start it; the service goes on by itself once it is back.",
        )
    return f"The database failed: {error.orig}", "This may be a mistake in Assay itself: please report it."
