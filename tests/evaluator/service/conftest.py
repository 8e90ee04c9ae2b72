"""A store on SQLite, and the same on a PostgreSQL that the tests start themselves; clocks that a test moves."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from evaluator.service.store import Store

_SERVER_OPTIONS = "-c listen_addresses='' -c fsync=off -c max_connections=100 -c shared_buffers=32MB"
_TEMPLATE = "assay_template"


class Postgres:
    """A server of one's own on a unix socket in a folder of its own. As root it runs as another user: it must."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        # Not below pytest's own folder, which only its owner may enter; and short, for the socket's path.
        self.folder = Path(tempfile.mkdtemp(prefix="assay-pg-"))
        self.data = self.folder / "data"
        self._as_another: list[str] = []
        if os.geteuid() == 0:
            names = subprocess.run(["getent", "passwd", "postgres", "nobody"], capture_output=True, text=True).stdout
            uid, gid = names.splitlines()[0].split(":")[2:4]
            os.chown(self.folder, int(uid), int(gid))
            self._as_another = ["setpriv", "--reuid", uid, "--regid", gid, "--clear-groups"]
        self._run(
            "initdb", "--username=assay", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", self.data
        )

    def _run(self, program: str, *words: object) -> None:
        command = [*self._as_another, str(self._programs / program), *map(str, words)]
        log = self.folder / f"{program}.log"
        with log.open("ab") as file:
            done = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, cwd=self.folder, timeout=60)
        assert done.returncode == 0, log.read_text()

    def start(self) -> None:
        options = f"{_SERVER_OPTIONS} -k {self.folder}"
        self._run("pg_ctl", "-D", self.data, "-w", "-o", options, "-l", self.folder / "server.log", "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-D", self.data, "-w", "-m", "immediate", "stop")

    def kill(self) -> None:
        """As `kill -9` of the whole server, which then must recover."""
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(pid, 0)
                time.sleep(0.01)

    def url(self, name: str) -> str:
        return f"postgresql+psycopg://assay@/{name}?host={self.folder}"

    def tell(self, statement: str) -> None:
        with psycopg.connect(f"host={self.folder} user=assay dbname=postgres", autocommit=True) as connection:
            connection.execute(statement)

    def remove(self) -> None:
        with contextlib.suppress(AssertionError):
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


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
        template = Store(server.url(_TEMPLATE))
        template.upgrade()
        template.close()
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
    url = f"sqlite:///{tmp_path / 'assay.db'}"
    store = Store(url)
    store.upgrade()
    store.close()
    return url


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
def open_store(database_url):
    """`open_store(clock)`: one more Store on the test's database, as another process would have it."""
    stores: list[Store] = []

    def begin(clock=None):
        clocks = (lambda: clock.day, lambda: clock.steady) if clock else ()
        stores.append(Store(database_url, *clocks))
        return stores[-1]

    yield begin
    for store in stores:
        store.close()


@pytest.fixture
def store(open_store):
    """A store with real clocks."""
    return open_store()
