"""A real `assay serve`, in processes of its own, for the benchmarks of the service."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from evaluator.cli.remote import end_with_parent
from evaluator.service.storage.models import StoredEvaluation
from evaluator.service.storage.storage import Storage, open_storage
from evaluator.service.storage.workers import WorkerRepository

_READY_S = 120.0


@dataclass(frozen=True)
class Served:
    """A service that runs, and its database, to look into afterwards."""

    url: str
    pid: int
    storage: Storage
    keys: tuple[str, ...]
    folder: Path
    """Its data folder."""

    def memory_peak_bytes(self) -> int:
        """The most memory that the API's process, without its workers, has held so far."""
        return memory_peak_bytes(self.pid)

    def stored(self, tenant: str | None = None) -> list[StoredEvaluation]:
        """Everything that the database holds."""
        found: list[StoredEvaluation] = []
        cursor = None
        while True:
            page = self.storage.evaluations.list(
                tenant, state=None, status=None, problem=None, cursor=cursor, limit=100
            )
            # A list leaves out the texts, and so the verdicts' details.
            found += [one for listed in page.items if (one := self.storage.evaluations.get(listed.id, tenant))]
            cursor = page.next_cursor
            if cursor is None:
                return found


@contextlib.contextmanager
def served(
    workers: int, keys: Sequence[str] = (), settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Served]:
    """Start `assay serve` with a data folder of its own and a key for each of the names; all ends with the block.
    `settings`: its environment variables.
    """
    with tempfile.TemporaryDirectory(prefix="assay-", ignore_cleanup_errors=True) as folder:
        data = ["--data-dir", folder]
        secrets = tuple(_assay("keys", "add", name, *data).strip() for name in keys)
        log = Path(folder, "log")
        command = [sys.executable, "-m", "evaluator", "serve", "--port", "0", "--workers", str(workers), *data]
        with (
            log.open("wb") as errors,
            subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=_environment() | dict(settings),
                # A benchmark that is out of time is killed, and a GPU's next user would share it with the service.
                preexec_fn=end_with_parent,
            ) as process,
        ):
            assert process.stdout is not None
            storage: Storage | None = None
            try:
                said = next((match for line in process.stdout if (match := re.search(r"http://\S+", line))), None)
                if said is None:
                    raise SystemExit(f"The service did not start:\n{log.read_text()[-3000:]}")
                threading.Thread(target=deque, args=(process.stdout, 0), daemon=True).start()
                storage = open_storage(f"sqlite:///{folder}/assay.db")
                _await(storage.workers, workers)
                yield Served(said[0], process.pid, storage, secrets, Path(folder))
            finally:
                if storage is not None:
                    storage.database.close()
                process.terminate()
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    process.kill()


def memory_peak_bytes(pid: int | str = "self") -> int:
    """The most memory that a process has held so far, bytes (`VmHWM`)."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    if "ASSAY_SANDBOX" in os.environ:
        kept["ASSAY_SANDBOX"] = os.environ["ASSAY_SANDBOX"]
    return kept


def _assay(*arguments: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "evaluator", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=_environment(),
    )
    return ended.stdout


def _await(workers: WorkerRepository, count: int) -> None:
    until_s = time.monotonic() + _READY_S
    while len(workers.fleet()) < count:
        if time.monotonic() > until_s:
            raise SystemExit(f"Of {count} workers {len(workers.fleet())} were ready in {_READY_S:.0f} s.")
        time.sleep(0.1)
