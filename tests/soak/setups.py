"""The service, set up as operators do, in real processes: what can be killed of it, and what it leaves behind."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from databases import Postgres, Redis
from processes import READY_S, Census, below, kill, start_of, until, words_of

from evaluator.sandbox.host.work_folder import WorkFolders
from evaluator.service.storage.storage import open_storage

LEASE_S = 4
DRAIN_S = 10
WORKERS = 2
# A process in a sandbox may get any signal, not only the one that nothing can catch.
SIGNALS = tuple(
    getattr(signal, f"SIG{name}") for name in ("KILL", "TERM", "HUP", "INT", "PIPE", "ALRM", "XCPU", "XFSZ")
)


class SetUp:
    """An API and its workers, without keys. `victims`: by name, what kills it, and starts it again if need be."""

    key = None

    def __init__(self, folder, database_url="", broker_url="", more=None, cache=None):
        """`more`: further environment variables of all processes. `cache`: a folder of compiled programs to share."""
        self.folder = Path(folder)
        self.data_dir = self.folder / "data"
        self.temporary = self.folder / "tmp"
        for made in (self.data_dir, self.temporary):
            made.mkdir(exist_ok=True)
        if cache is not None:
            cache.mkdir(parents=True, exist_ok=True)
            (self.data_dir / "cache").symlink_to(cache)
        self.database_url = database_url or f"sqlite:///{self.data_dir / 'assay.db'}"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self.census = Census()
        self._api = None
        self._group = None
        self.victims = {
            "api": self.kill_api,
            "child": self.kill_child,
            "sandbox": self.kill_sandbox,
            "unit": self.stop_unit,
            "frozen": self.freeze,
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
        self.environment = {
            **kept,
            "ASSAY_DATA_DIR": str(self.data_dir),
            "ASSAY_DATABASE_URL": self.database_url,
            "ASSAY_BROKER_URL": broker_url,
            "ASSAY_LEASE_S": str(LEASE_S),
            "ASSAY_DRAIN_S": str(DRAIN_S),
            "ASSAY_WORKERS": str(WORKERS),
            "TMPDIR": str(self.temporary),
            **(more or {}),
        }

    def storage(self):
        return open_storage(self.database_url)

    def run(self, *arguments):
        with (self.folder / "log").open("ab") as log:
            command = [sys.executable, "-m", "evaluator", *arguments]
            process = subprocess.Popen(
                command,
                env=self.environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        if self._group is not None:
            self._group.take_in(process.pid)
        return process

    def roots(self):
        return [self._api.pid]

    def start(self):
        self.start_api()
        self.await_workers()

    def await_workers(self):
        storage = self.storage()
        alive = storage.workers
        until(lambda: len(alive.fleet(10)) >= len(self.workers()) >= WORKERS, READY_S, "the workers are there")
        storage.database.close()

    def start_api(self):
        def answers():
            if self._api is None or self._api.poll() is not None:
                self._api = self.run("serve", "--port", str(self._port))
            with contextlib.suppress(OSError):
                return urllib.request.urlopen(f"{self.url}/livez", timeout=5).status == 200
            return False

        self._api = None
        try:
            until(answers, READY_S, "the API answers")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{(self.folder / 'log').read_text()[-3000:]}") from error

    def kill_api(self, chance):
        self._api.kill()
        self._api.wait()
        self.start_api()

    def kill_child(self, chance):
        found = self.workers()
        if found:
            kill(chance.choice(found))

    def kill_sandbox(self, chance):
        """Any process below a worker: a warden, what isolates, a compiler, a simulated kernel."""
        found = [pid for worker in self.workers() for pid in below(worker)]
        if found:
            kill(chance.choice(found), chance.choice(SIGNALS))

    def stop_unit(self, chance):
        """As systemd does: SIGTERM to every process at once, later SIGKILL to what is left, and a new start."""
        self.end_unit(chance)
        self.start_unit()

    def end_unit(self, chance):
        processes = [pid for root in self.roots() for pid in (root, *below(root))]
        chance.shuffle(processes)
        for pid in processes:
            kill(pid, signal.SIGTERM)
        self._await_end(processes, chance.choice((0.0, 1.0, DRAIN_S + 20.0)))
        self._api.wait()

    def _await_end(self, processes, timeout_s):
        until_s = time.monotonic() + timeout_s
        while any(start_of(pid) is not None for pid in processes) and time.monotonic() < until_s:
            time.sleep(0.05)
        for pid in processes:
            kill(pid)

    def start_unit(self):
        self.start_api()

    def start_what_ended(self):
        """As systemd does with `Restart=on-failure`."""
        if self._api.poll() is not None:
            self.start_api()

    def lose_disk(self, disk, chance):
        """Nobody can write any more; the unit is ended, the disk mounted again, and the unit started."""
        disk.let_nobody_write()
        time.sleep(chance.uniform(0.0, 1.5 * LEASE_S))
        self.end_unit(chance)
        self.mount_again(disk)
        self.start_unit()

    def mount_again(self, disk):
        until(lambda: disk.unmount() and disk.mount(), READY_S, "the disk is there again")

    def trouble(self, disk):
        """Victims: all that may befall the disk on which everything here is kept."""

        def full(chance):
            disk.fill(chance)
            self.start_what_ended()

        found = {"full": full, "hanging": disk.hang, "lost": lambda chance: self.lose_disk(disk, chance)}
        return found | ({"slow": disk.slow_down} if disk.can_be_slow() else {})

    def share_memory(self, group):
        """Victims: the processes that are started from now on are in this control group, whose memory runs out."""
        self._group = group

        def run_out(chance):
            assert group.run_out() >= 1, "nobody was killed"
            self.start_what_ended()

        return {"memory": run_out}

    def freeze(self, chance):
        """SIGSTOP, and SIGCONT a while later, sometimes after the lease is lost."""
        found = [pid for root in self.roots() for pid in below(root)]
        if found:
            pid = chance.choice(found)
            kill(pid, signal.SIGSTOP)
            time.sleep(chance.uniform(0.1, 1.5 * LEASE_S))
            kill(pid, signal.SIGCONT)

    def workers(self):
        """The processes that claim evaluations."""
        return [pid for pid in below(self._api.pid) if words_of(pid).endswith("worker --embedded")]

    def processes_of(self, worker):
        """The process of a worker of the fleet, and those below it."""
        return worker.pid, below(worker.pid)

    def stop(self):
        """Orderly, as an operator does; what is still running a while later is left over."""
        self.census.take(self.roots())
        self.end(self._api)
        until_s = time.monotonic() + 20
        while self.census.alive() and time.monotonic() < until_s:
            time.sleep(0.1)

    def end(self, process):
        process.send_signal(signal.SIGTERM)
        process.wait(DRAIN_S + 30)

    def left_over(self):
        """What should not be there after the end: processes, and files that were to be there for a moment only."""
        made = [folder for name in ("work", "temporary") if (folder := self.data_dir / name).exists()]
        if any(any(folder.iterdir()) for folder in made):
            # What was killed before it could remove its own is removed by whoever works there next; here nobody does.
            time.sleep(WorkFolders.SETTLED_S)
        roots = [WorkFolders(folder).root for folder in made] + [self.temporary] * self.temporary.exists()
        files = [str(path.relative_to(self.folder)) for root in roots for path in root.iterdir()]
        return [*self.census.alive(), *files]

    def remove(self):
        if self._api is not None and self._api.poll() is None:
            self._api.kill()
            self._api.wait()


class Embedded(SetUp):
    """`assay serve` alone: SQLite, and workers of its own."""


class Distributed(SetUp):
    """`assay serve`, `assay worker`, Redis and PostgreSQL, each for itself."""

    def __init__(self, folder, more=None, cache=None, database_folder=None):
        """`database_folder`: where PostgreSQL keeps what it has, if not in the usual place."""
        self._redis, self._postgres = Redis(), Postgres(database_folder)
        super().__init__(folder, self._postgres.url, self._redis.url, more, cache)
        self._worker = None
        self.victims |= {
            "worker": self.kill_worker,
            "celery": self.kill_celery,
            "redis": self.kill_redis,
            "postgres": self.kill_postgres,
        }

    def roots(self):
        return [*super().roots(), self._worker.pid]

    def start(self):
        self._redis.start()
        self._postgres.start()
        self.start_api()
        self.hire()
        self.await_workers()

    def end_unit(self, chance):
        super().end_unit(chance)
        self._worker.wait()

    def start_unit(self):
        super().start_unit()
        self.hire()

    def start_what_ended(self):
        self._postgres.start()
        super().start_what_ended()
        if self._worker.poll() is not None:
            self.hire()

    def mount_again(self, disk):
        self._postgres.kill()
        super().mount_again(disk)
        self._postgres.start()

    def hire(self):
        self._worker = self.run("worker", "--queues", "compile,sim", "--workers", str(WORKERS))

    def workers(self):
        # The pool's children are forked: they have the words of the process that forked them,
        # and none such below.
        return [pid for pid in self._forked() if not any(self._is_forked(other) for other in below(pid))]

    def _forked(self):
        return [pid for pid in below(self._worker.pid) if self._is_forked(pid)]

    def _is_forked(self, pid):
        return words_of(pid) == words_of(self._worker.pid)

    def kill_worker(self, chance):
        self._worker.kill()
        self._worker.wait()
        self.hire()

    def kill_celery(self, chance):
        """The process between the command, which starts it again, and the pool's children."""
        for pid in self._forked()[:1]:
            kill(pid)

    def kill_redis(self, chance):
        self._redis.kill()
        self._redis.start()

    def kill_postgres(self, chance):
        self._postgres.kill()
        self._postgres.start()

    def stop(self):
        self.census.take(self.roots())
        self.end(self._worker)
        super().stop()

    def remove(self):
        super().remove()
        if self._worker is not None and self._worker.poll() is None:
            self._worker.kill()
            self._worker.wait()
        self._redis.remove()
        self._postgres.remove()
