"""A Redis and a PostgreSQL of one's own, on unix sockets: plain processes, to be killed with -9 and started again."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from processes import READY_S, kill, until


def postgres_programs():
    """The folder of PostgreSQL's server programs; None where there is none."""
    on_path = shutil.which("initdb")
    found = [Path(on_path).resolve().parent] if on_path else []
    found += Path("/usr/lib/postgresql").glob("*/bin")
    return next((folder for folder in found if (folder / "pg_ctl").exists()), None)


def as_another_user():
    """Words before a command, with which PostgreSQL does not run as root (it refuses to); and that user's ids."""
    if os.geteuid() != 0:
        return [], None
    names = subprocess.run(["getent", "passwd", "postgres", "nobody"], capture_output=True, text=True).stdout
    uid, gid = names.splitlines()[0].split(":")[2:4]
    return ["setpriv", "--reuid", uid, "--regid", gid, "--clear-groups"], (int(uid), int(gid))


class Redis:
    """As an operator has it: without a file, so that what it holds is lost with it."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="assay-redis-"))
        self._socket = self.folder / "redis.sock"
        self.url = f"redis+socket://{self._socket}"
        self._process = None

    @property
    def pid(self):
        return self._process.pid

    def start(self):
        self._socket.unlink(missing_ok=True)
        command = ["redis-server", "--port", "0", "--unixsocket", str(self._socket), "--dir", str(self.folder)]
        self._process = subprocess.Popen([*command, "--appendonly", "no", "--save", ""], stdout=subprocess.DEVNULL)
        until(self._answers, READY_S, "Redis answers")

    def _answers(self):
        with socket.socket(socket.AF_UNIX) as connection, contextlib.suppress(OSError):
            connection.connect(str(self._socket))
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        return False

    def kill(self):
        self._process.kill()
        self._process.wait()

    def remove(self):
        self.kill()
        shutil.rmtree(self.folder)


class Postgres:
    """With its default promises kept: what it has committed is on the disk."""

    def __init__(self, folder=None):
        self._programs = postgres_programs()
        self.folder = Path(tempfile.mkdtemp(prefix="assay-pg-", dir=folder))
        self._data = self.folder / "data"
        self.url = f"postgresql+psycopg://assay@/postgres?host={self.folder}"
        self._before, user = as_another_user()
        if user:
            os.chown(self.folder, *user)
        command = [self._programs / "initdb", "-U", "assay", "-A", "trust", "-E", "UTF8", "--locale=C", self._data]
        subprocess.run([*self._before, *command], check=True, stdout=subprocess.DEVNULL, cwd=self.folder)
        self._process = None

    @property
    def pid(self):
        return self._process.pid

    def start(self):
        def answers():
            if self._process is None or self._process.poll() is not None:
                # What a killed server left of itself (children, shared memory) keeps the next one out for a moment.
                options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self.folder}"]
                command = [*self._before, self._programs / "postgres", "-D", self._data, *options]
                with (self.folder / "log").open("ab") as log:
                    self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
            ready = [self._programs / "pg_isready", "-q", "-h", self.folder, "-U", "assay"]
            return subprocess.run(ready, check=False, cwd=self.folder).returncode == 0

        until(answers, READY_S, "PostgreSQL answers")

    def kill(self):
        kill(self.pid)
        self._process.wait()

    def remove(self):
        self._process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder)
