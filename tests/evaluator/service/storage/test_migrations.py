"""The tables' history leads to the tables that the code knows, on both databases, however many processes upgrade."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import sample_verdicts
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text
from storage_samples import SUBMISSION, accept, ended, finish_next

from evaluator.errors import StorageError
from evaluator.service.storage.database import Database
from evaluator.service.storage.migrations.versions import lists
from evaluator.service.storage.storage import open_storage
from evaluator.service.storage.tables import metadata


@pytest.fixture
def engine(database_url):
    engine = create_engine(database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def empty_url(database_url, engine, request):
    """A database in which nothing was ever made."""
    if "sqlite" in database_url:
        return database_url.replace("assay.db", "new.db")
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    return database_url


def test_the_last_migration_gives_the_tables_of_the_code(engine):
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        there = inspect(connection)
        for table in metadata.tables.values():
            made = {index["name"] for index in there.get_indexes(table.name)}
            assert {index.name for index in table.indexes} <= made
            assert there.get_pk_constraint(table.name)["constrained_columns"] == [c.name for c in table.primary_key]


def test_an_upgrade_keeps_what_is_there(storage):
    made = accept(storage).evaluation
    storage.database.upgrade()
    assert storage.evaluations.get(made.id, "local") == made


def test_many_threads_may_upgrade_at_once(empty_url):
    storages = [open_storage(empty_url) for _ in range(6)]
    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(lambda storage: storage.database.upgrade(), storages)) == [None] * 6
    accept(storages[0])
    assert storages[1].evaluations.depth()["compile"].count == 1
    for storage in storages:
        storage.database.close()


def test_connections_that_meet_at_a_new_database_wait_for_each_other(tmp_path):
    together = threading.Barrier(6)

    def connect(path):
        database = Database(f"sqlite:///{path}")
        together.wait()
        database.ping()
        database.close()

    with ThreadPoolExecutor(6) as threads:
        for number in range(60):
            list(threads.map(connect, [tmp_path / f"{number}.db"] * 6))


def test_what_lists_show_is_filled_in_for_the_evaluations_that_were_there(storage, engine):
    accept(storage, SUBMISSION.model_copy(update={"backend": "sim", "source": '"backend":"gpu"'}))
    accept(storage)
    for make in (sample_verdicts.passed_on_gpu, ended):
        finish_next(storage, make())
    listed = storage.evaluations.list(None)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE evaluations DROP COLUMN backend"))
        for gone in (
            "evaluations DROP COLUMN outcome",
            "idempotency DROP COLUMN reused_at",
            "keys DROP COLUMN used_at",
            # What later versions add.
            "evaluations DROP COLUMN yields",
            "evaluations DROP COLUMN claimed_at",
            "tenants DROP COLUMN tag_s",
            "tenants DROP COLUMN begun_s",
            "tenants DROP COLUMN served_at",
        ):
            connection.execute(text(f"ALTER TABLE {gone}"))
        connection.execute(text("DROP TABLE costs"))
        connection.execute(text(f"UPDATE alembic_version SET version_num = '{lists.down_revision}'"))
    storage.database.upgrade()
    assert storage.evaluations.list(None) == listed


def test_many_processes_may_upgrade_at_once(empty_url):
    program = f"from evaluator.service.storage.database import Database; Database({empty_url!r}).upgrade()"
    started = [subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) for _ in range(2)]
    assert [(child.communicate()[1], child.returncode) for child in started] == [(b"", 0)] * 2


def test_a_database_without_tables_says_what_to_do(empty_url):
    storage = open_storage(empty_url)
    with pytest.raises(StorageError, match="tables are missing") as fault:
        storage.evaluations.depth()
    assert "assay serve" in fault.value.remedy
    storage.database.close()


def test_tables_of_a_newer_version_are_left_alone(storage, engine):
    accept(storage)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StorageError, match="not of this version") as fault:
        storage.database.upgrade()
    assert "newer" in fault.value.remedy
    assert storage.leases.finish(storage.leases.claim(["compile"], "w", 30), ended(), {})


def test_an_upgrade_that_fails_leaves_nothing_behind(empty_url, monkeypatch):
    storage = open_storage(empty_url)
    with monkeypatch.context() as broken:
        broken.setattr("alembic.op.create_index", lambda *a, **k: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            storage.database.upgrade()
    with pytest.raises(StorageError, match="tables are missing"):
        storage.evaluations.depth()
    storage.database.upgrade()
    assert storage.evaluations.depth() == {}
    storage.database.close()


def test_a_new_sqlite_file_is_its_owners_alone(tmp_path):
    storage = open_storage(f"sqlite:///{tmp_path / 'assay.db'}")
    storage.database.upgrade()
    accept(storage)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    storage.database.close()
