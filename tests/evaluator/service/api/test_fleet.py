"""What /readyz says of the workers, the disk and the database."""

import contextlib
import subprocess

import pytest
from api_service import facts, served, submission, unready
from sqlalchemy import event

from evaluator.service.api import fleet
from evaluator.service.workers.task import MIN_FREE_BYTES


@pytest.fixture
def here(tmp_path):
    with served(f"sqlite:///{tmp_path / 'assay.db'}", tmp_path) as serving:
        yield serving


@pytest.fixture
def http(here):
    with here.http() as client:
        yield client


def test_a_server_is_not_ready_while_its_workers_build_what_they_need(here, http):
    here.storage.workers.register(facts(preparing="It builds something."))
    told = http.get("/readyz")
    assert (told.status_code, told.json()["reason"]) == (503, "No worker takes this yet. It builds something.")
    here.storage.workers.register(facts(id="w2", queues=("compile",)))
    assert "It builds something." in http.get("/readyz").text
    here.storage.workers.seen("w1")
    assert http.get("/readyz").status_code == 200


def test_readiness_says_what_each_backend_takes(here, http):
    here.storage.workers.register(facts())
    here.storage.workers.register(facts(id="w2", queues=("compile", "gpu"), backend="gpu"))
    both = {"ready": True, "reason": None, "backends": {"gpu": None, "sim": None}}
    assert http.get("/readyz").json() == both
    # Of the last one with a GPU: it prepares, its GPU is in trouble, it drains, it ends.
    here.storage.workers.seen("w2", preparing="It builds something.")
    told = http.get("/readyz").json()
    assert told == both | {"backends": {"gpu": "No worker takes this yet. It builds something.", "sim": None}}
    here.storage.workers.seen("w2", trouble="no driver")
    told = http.get("/readyz")
    assert (told.status_code, told.json()["reason"]) == (503, "No GPU can be used: no driver")
    assert told.json()["backends"] == {"gpu": "No GPU can be used: no driver", "sim": None}
    gone = both | {"backends": {"gpu": "No worker with a GPU is alive.", "sim": None}}
    here.storage.workers.seen("w2", draining=True)
    assert http.get("/readyz").json() == gone
    here.storage.workers.gone("w2")
    here.storage.workers.register(facts(id="w3", preparing="It builds something."))
    told = http.get("/readyz")
    assert (told.status_code, told.json()) == (200, gone)
    refused = http.post("/evaluate", json=submission(backend="gpu"), headers={"Prefer": "wait=0"})
    assert (refused.status_code, refused.json()["title"]) == (503, "No worker can serve this now")


def test_a_server_is_not_ready_on_a_full_disk_until_there_is_room(tmp_path):
    size = f"size={MIN_FREE_BYTES + (4 << 20)}"
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", size, "none", tmp_path], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        with served(f"sqlite:///{tmp_path / 'assay.db'}", tmp_path) as full, full.http() as http:
            full.storage.workers.register(facts())
            assert http.get("/readyz").status_code == 200
            ballast = tmp_path / "ballast"
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while file.write(b"x" * 4096):
                    pass
            sent = submission(source="x" * 900_000)
            assert http.post("/evaluate", json=sent, headers={"Prefer": "wait=0"}).status_code == 503
            told = http.get("/readyz")
            assert (told.status_code, "disk is full" in told.text, str(tmp_path) in told.text) == (503, True, False)
            ballast.unlink()
            assert http.get("/readyz").status_code == 200
            assert http.post("/evaluate", json=sent, headers={"Prefer": "wait=0"}).status_code == 202
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)


def test_a_server_is_not_ready_while_its_database_cannot_be_written(here, http, monkeypatch):
    here.storage.workers.register(facts())
    monkeypatch.setattr(fleet, "_REMEMBERED_S", 0.0)
    assert http.get("/readyz").status_code == 200
    locked = [True]

    @event.listens_for(here.storage.database._engine, "begin")
    def lock(connection):
        connection.exec_driver_sql(f"PRAGMA query_only={'ON' if locked else 'OFF'}")

    assert http.get("/readyz").json() == unready("The database cannot be written.")
    locked.clear()
    assert http.get("/readyz").status_code == 200
