"""What fails below the repositories: a full disk, a database that is away, or is none. Nothing is half written."""

import os
import subprocess
import threading
import time
from functools import partial

import pytest
from postgres import Postgres
from sqlalchemy import event
from storage_samples import SUBMISSION, accept, empty_sqlite, ended, tallied

from common.contract import Submission
from evaluator.errors import StorageError, UsageError
from evaluator.service.storage import counters
from evaluator.service.storage.database import Database
from evaluator.service.storage.storage import open_storage

LARGE = Submission(problem="vector_add", source="x" * 300_000)


def whole(storage):
    """Everything that a caller can see."""
    waiting = {queue: one.count for queue, one in storage.evaluations.depth().items()}
    return storage.evaluations.list(None, limit=1000), waiting, storage.counters.tallies()


# A full disk


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 2 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", folder], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(storage, submission=LARGE):
    """Accept until nothing more can be; how that was said."""
    try:
        while True:
            accept(storage, submission)
    except StorageError as fault:
        return fault


def test_a_full_disk_is_named_and_nothing_is_half_written(small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 500_000)
    storage = open_storage(f"sqlite:///{small_disk / 'assay.db'}")
    storage.database.upgrade()
    first = accept(storage).evaluation
    fault = fill(storage)
    assert "no room left" in str(fault) or "failed to read or write" in str(fault)
    assert "room" in fault.remedy or "space" in fault.remedy
    fill(storage, SUBMISSION)
    refused = 0
    for number in range(20):
        before = whole(storage)
        try:
            accept(storage, SUBMISSION if number % 2 else LARGE)
        except StorageError:
            refused += 1
            assert whole(storage) == before
    assert refused >= 10
    ballast.unlink()
    made = len(storage.evaluations.list(None, limit=10_000).items)
    lease = storage.leases.claim(["compile"], "w", 30)
    assert lease.evaluation_id == first.id
    assert storage.leases.finish(lease, ended(), {})
    assert made == tallied(storage, "assay_evaluations_accepted_total")
    storage.database.close()


def test_a_database_that_may_grow_no_more_keeps_what_it_has(tmp_path):
    storage = open_storage(f"sqlite:///{tmp_path / 'assay.db'}")
    storage.database.upgrade()

    @event.listens_for(storage.database._engine, "begin")
    def bound(connection):
        connection.exec_driver_sql("PRAGMA max_page_count=400")

    fault = fill(storage)
    assert "no room left on the disk" in str(fault)
    assert "nothing was written by halves" in fault.remedy
    items = storage.evaluations.list(None, limit=1000).items
    assert 1 <= len(items) == tallied(storage, "assay_evaluations_accepted_total")
    assert all(storage.evaluations.get(item.id, None).submission == LARGE for item in items)
    storage.database.close()


@pytest.mark.parametrize("moment", ["accept", "finish"])
def test_a_transaction_that_breaks_at_any_statement_changes_nothing(storage, monkeypatch, moment):
    accept(storage)
    lease = storage.leases.claim(["compile"], "w", 30)
    before = whole(storage)
    monkeypatch.setattr(counters, "count_events", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        accept(storage, idempotency_key="k") if moment == "accept" else storage.leases.finish(lease, ended(), {})
    monkeypatch.undo()
    assert whole(storage) == before
    assert accept(storage, idempotency_key="k").created
    assert storage.leases.finish(lease, ended(), {})


# A database that is away


@pytest.fixture
def own_server(postgres):
    """A server of this test alone, since it is stopped and killed."""
    server = Postgres(postgres._programs)
    try:
        server.start()
        server.tell("CREATE DATABASE assay")
        yield server
    finally:
        server.remove()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_database_that_comes_back_is_used_again(own_server, how):
    storage = open_storage(own_server.url("assay"))
    storage.database.upgrade()
    made = accept(storage).evaluation
    lease = storage.leases.claim(["compile"], "w", 30)
    getattr(own_server, how)()
    started = time.monotonic()
    renew = partial(storage.leases.renew, lease, 30)
    for call in (storage.database.ping, renew, storage.sweeps.sweep, partial(accept, storage)):
        with pytest.raises(StorageError, match="does not answer") as fault:
            call()
        assert "Start it" in fault.value.remedy
    assert time.monotonic() - started < 5
    own_server.start()
    storage.database.ping()
    assert storage.evaluations.get(made.id, None).state == "running"
    assert storage.leases.renew(lease, 30)
    assert storage.leases.finish(lease, ended(), {})
    storage.database.close()


def test_connections_that_are_cut_are_replaced(postgres, postgres_url):
    storage = open_storage(postgres_url)
    threads = [threading.Thread(target=storage.evaluations.depth) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    postgres.tell("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'assay_%'")
    for _ in range(4):
        assert storage.evaluations.depth() == {}
    storage.database.close()


def test_a_connection_cut_within_a_transaction_is_a_fault_and_changes_nothing(postgres, postgres_url, monkeypatch):
    storage = open_storage(postgres_url)
    count = counters.count_events

    def cut(connection, events):
        count(connection, events)
        postgres.tell("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'assay_%'")

    monkeypatch.setattr(counters, "count_events", cut)
    with pytest.raises(StorageError, match="does not answer"):
        accept(storage, idempotency_key="k")
    monkeypatch.undo()
    assert accept(storage, idempotency_key="k").created
    assert len(storage.evaluations.list(None).items) == 1
    storage.database.close()


def test_the_message_does_not_give_the_password_away():
    database = Database("postgresql://assay:hunter2@127.0.0.1:1/assay")
    with pytest.raises(StorageError, match="database assay on 127") as fault:
        database.ping()
    told = [str(fault.value), str(fault.value.remedy), str(fault.value.__cause__)]
    assert not [text for text in told if "hunter2" in text]


def test_a_user_who_may_not_come_in_is_told_so(postgres):
    refused = Database(postgres.url("assay_template").replace("assay@", "nobody@"))
    with pytest.raises(StorageError, match="not let this user in"):
        refused.ping()
    missing = Database(postgres.url("nowhere"))
    with pytest.raises(StorageError, match="no such database"):
        missing.ping()


# Files that are no database


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StorageError, match="cannot be opened") as fault:
        Database(f"sqlite:///{tmp_path / 'nowhere' / 'assay.db'}").upgrade()
    assert "folder" in fault.value.remedy


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_moved_away_while_in_use_takes_nothing_more(tmp_path, replaced):
    storage = open_storage(empty_sqlite(tmp_path / "a.db"))
    accept(storage)
    os.rename(tmp_path / "a.db", tmp_path / "b.db")
    if replaced:
        empty_sqlite(tmp_path / "a.db")
    for use in (lambda: accept(storage), storage.workers.fleet, storage.workers.prove_writable):
        with pytest.raises(StorageError, match="moved or replaced"):
            use()
    assert (tmp_path / "a.db").exists() == replaced
    os.rename(tmp_path / "b.db", tmp_path / "a.db")
    accept(storage)
    assert storage.evaluations.depth()["compile"].count == 2
    storage.database.close()


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("these are my notes\n" * 100)
    with pytest.raises(StorageError, match="not a database"):
        Database(f"sqlite:///{file}").upgrade()
    assert file.read_text() == "these are my notes\n" * 100


def test_a_writer_that_never_ends_is_a_fault_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("evaluator.service.storage.database._BUSY_S", 0.2)
    url = f"sqlite:///{tmp_path / 'assay.db'}"
    storage, other = open_storage(url), Database(url)
    storage.database.upgrade()
    with other.writing():
        with pytest.raises(StorageError, match="held the database for too long"):
            accept(storage)
        assert storage.evaluations.depth() == {}, "reading goes on"
    assert accept(storage).created


def test_threads_share_one_database(storage):
    made = []
    threads = [threading.Thread(target=lambda: made.append(accept(storage).evaluation.id)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 12 == storage.evaluations.depth()["compile"].count


@pytest.mark.parametrize("url", ["", "assay.db", "mysql://host/assay", "sqlite://", "sqlite:///:memory:", "a://["])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(UsageError, match="not understood") as refused:
        Database(url)
    assert "sqlite:////path" in refused.value.remedy


def test_the_short_address_of_postgresql_will_do(postgres_url):
    storage = open_storage(postgres_url.replace("postgresql+psycopg://", "postgresql://"))
    assert accept(storage).created
    storage.database.close()
