"""What fails below the store: a full disk, a database that is away, or is none. Nothing is ever written by halves."""

import subprocess
import threading
import time

import pytest
from postgres import Postgres
from sqlalchemy import event
from store_samples import SUBMISSION, accept, ended, tallied

from common.contract import Submission
from evaluator.errors import StorageError, UsageError
from evaluator.service.storage.evaluations import Store

LARGE = Submission(problem="vector_add", source="x" * 300_000)


def whole(store):
    """Everything that a caller can see."""
    return store.list(None, limit=1000), {queue: w.count for queue, w in store.depth().items()}, store.tallies()


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


def fill(store, submission=LARGE):
    """Accept until nothing more can be; how that was said."""
    try:
        while True:
            accept(store, submission)
    except StorageError as fault:
        return fault


def test_a_full_disk_is_named_and_nothing_is_half_written(small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 500_000)
    store = Store(f"sqlite:///{small_disk / 'assay.db'}")
    store.upgrade()
    first = accept(store).evaluation
    fault = fill(store)
    assert "no room left" in str(fault) or "failed to read or write" in str(fault)
    assert "room" in fault.remedy or "space" in fault.remedy
    fill(store, SUBMISSION)
    refused = 0
    for number in range(20):
        before = whole(store)
        try:
            accept(store, SUBMISSION if number % 2 else LARGE)
        except StorageError:
            refused += 1
            assert whole(store) == before
    assert refused >= 10
    ballast.unlink()
    made = len(store.list(None, limit=10_000).items)
    lease = store.claim(["compile"], "w", 30)
    assert lease.evaluation_id == first.id
    assert store.finish(lease, ended(), {})
    assert made == tallied(store, "assay_evaluations_accepted_total")
    store.close()


def test_a_database_that_may_grow_no_more_keeps_what_it_has(tmp_path):
    store = Store(f"sqlite:///{tmp_path / 'assay.db'}")
    store.upgrade()

    @event.listens_for(store._engine, "begin")
    def bound(connection):
        connection.exec_driver_sql("PRAGMA max_page_count=400")

    fault = fill(store)
    assert "no room left on the disk" in str(fault)
    assert "nothing was written by halves" in fault.remedy
    items = store.list(None, limit=1000).items
    assert 1 <= len(items) == tallied(store, "assay_evaluations_accepted_total")
    assert all(store.get(item.id, None).submission == LARGE for item in items)
    store.close()


@pytest.mark.parametrize("moment", ["accept", "finish"])
def test_a_transaction_that_breaks_at_any_statement_changes_nothing(store, monkeypatch, moment):
    accept(store)
    lease = store.claim(["compile"], "w", 30)
    before = whole(store)
    monkeypatch.setattr(store, "_count", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        accept(store, idempotency_key="k") if moment == "accept" else store.finish(lease, ended(), {})
    monkeypatch.undo()
    assert whole(store) == before
    assert accept(store, idempotency_key="k").created
    assert store.finish(lease, ended(), {})


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
    store = Store(own_server.url("assay"))
    store.upgrade()
    made = accept(store).evaluation
    lease = store.claim(["compile"], "w", 30)
    getattr(own_server, how)()
    started = time.monotonic()
    for call in (store.ping, lambda: store.renew(lease, 30), store.sweep, lambda: accept(store)):
        with pytest.raises(StorageError, match="does not answer") as fault:
            call()
        assert "Start it" in fault.value.remedy
    assert time.monotonic() - started < 5
    own_server.start()
    store.ping()
    assert store.get(made.id, None).state == "running"
    assert store.renew(lease, 30)
    assert store.finish(lease, ended(), {})
    store.close()


def test_connections_that_are_cut_are_replaced(postgres, postgres_url):
    store = Store(postgres_url)
    threads = [threading.Thread(target=store.depth) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    postgres.tell("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'assay_%'")
    for _ in range(4):
        assert store.depth() == {}
    store.close()


def test_a_connection_cut_within_a_transaction_is_a_fault_and_changes_nothing(postgres, postgres_url):
    store = Store(postgres_url)
    count = store._count

    def cut(connection, events):
        count(connection, events)
        postgres.tell("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'assay_%'")

    store._count = cut
    with pytest.raises(StorageError, match="does not answer"):
        accept(store, idempotency_key="k")
    store._count = count
    assert accept(store, idempotency_key="k").created
    assert len(store.list(None).items) == 1
    store.close()


def test_the_message_does_not_give_the_password_away():
    store = Store("postgresql://assay:hunter2@127.0.0.1:1/assay")
    with pytest.raises(StorageError, match="database assay on 127") as fault:
        store.ping()
    told = [str(fault.value), str(fault.value.remedy), str(fault.value.__cause__)]
    assert not [text for text in told if "hunter2" in text]


def test_a_user_who_may_not_come_in_is_told_so(postgres):
    store = Store(postgres.url("assay_template").replace("assay@", "nobody@"))
    with pytest.raises(StorageError, match="not let this user in"):
        store.ping()
    missing = Store(postgres.url("nowhere"))
    with pytest.raises(StorageError, match="no such database"):
        missing.ping()


# Files that are no database


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StorageError, match="cannot be opened") as fault:
        Store(f"sqlite:///{tmp_path / 'nowhere' / 'assay.db'}").upgrade()
    assert "folder" in fault.value.remedy


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("these are my notes\n" * 100)
    with pytest.raises(StorageError, match="not a database"):
        Store(f"sqlite:///{file}").upgrade()
    assert file.read_text() == "these are my notes\n" * 100


def test_a_writer_that_never_ends_is_a_fault_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("evaluator.service.storage.database._BUSY_S", 0.2)
    url = f"sqlite:///{tmp_path / 'assay.db'}"
    store, other = Store(url), Store(url)
    store.upgrade()
    with other._writing():
        with pytest.raises(StorageError, match="held the database for too long"):
            accept(store)
        assert store.depth() == {}, "reading goes on"
    assert accept(store).created


def test_threads_share_one_store(store):
    made = []
    threads = [threading.Thread(target=lambda: made.append(accept(store).evaluation.id)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 12 == store.depth()["compile"].count


@pytest.mark.parametrize("url", ["", "assay.db", "mysql://host/assay", "sqlite://", "sqlite:///:memory:", "a://["])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(UsageError, match="not understood") as refused:
        Store(url)
    assert "sqlite:////path" in refused.value.remedy


def test_the_short_address_of_postgresql_will_do(postgres_url):
    store = Store(postgres_url.replace("postgresql+psycopg://", "postgresql://"))
    assert store.accept(SUBMISSION, "t", queue="compile", max_queued=1).created
    store.close()
