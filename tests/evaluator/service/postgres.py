"""A PostgreSQL that tests start themselves."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

_SERVER_OPTIONS = "-c listen_addresses='' -c fsync=off -c max_connections=100 -c shared_buffers=32MB"


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
