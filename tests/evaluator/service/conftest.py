"""Storage on SQLite, and the same on a PostgreSQL that the tests start themselves; clocks that a test moves."""

import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest
from postgres import Postgres
from storage_samples import empty_sqlite

from evaluator.service.storage.storage import Storage, open_storage

_TEMPLATE = "assay_template"


def _programs() -> Path | None:
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve().parent] if on_path else []
    return next((folder for folder in [*found, *debian] if (folder / "pg_ctl").exists()), None)


@pytest.fixture(scope="session")
def postgres():
    programs = _programs()
    if programs is None:
        assert not os.environ.get("CI"), "CI must have PostgreSQL's server programs (initdb, pg_ctl)"
        pytest.skip("PostgreSQL's server programs (initdb, pg_ctl) are not here")
    server = Postgres(programs)
    try:
        server.start()
        server.tell(f"CREATE DATABASE {_TEMPLATE}")
        template = open_storage(server.url(_TEMPLATE))
        template.database.upgrade()
        template.database.close()
        yield server
    finally:
        server.remove()


@pytest.fixture
def postgres_url(postgres):
    name = f"assay_{uuid.uuid4().hex}"
    postgres.tell(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE}")
    yield postgres.url(name)
    postgres.tell(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request, tmp_path):
    """A database with all tables and no rows."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return empty_sqlite(tmp_path / "assay.db")


@dataclass
class Clock:
    """The time of day and the steady time, which only a test moves."""

    day: float = 1_800_000_000.0
    steady: float = 50.0

    def pass_s(self, seconds: float) -> None:
        self.day += seconds
        self.steady += seconds

    def jump_s(self, seconds: float) -> None:
        """Somebody sets the time of day."""
        self.day += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def new_storage(database_url):
    """`new_storage(clock)`: one more Storage on the test's database, as another process would have it."""
    storages: list[Storage] = []

    def begin(clock=None):
        clocks = (lambda: clock.day, lambda: clock.steady) if clock else ()
        storages.append(open_storage(database_url, *clocks))
        return storages[-1]

    yield begin
    for storage in storages:
        storage.database.close()


@pytest.fixture
def storage(new_storage):
    """Repositories with real clocks."""
    return new_storage()
