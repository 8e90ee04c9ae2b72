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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.service.storage.evaluations import Store
from evaluator.service.storage.models import StoredEvaluation

_READY_S = 120.0
_ALIVE_WITHIN_S = 15.0


@dataclass(frozen=True)
class Served:
    """A service that runs, and its store, to look into afterwards."""

    url: str
    pid: int
    store: Store
    keys: tuple[str, ...]

    def memory_peak_bytes(self) -> int:
        """The most memory that the API's process, without its workers, has held so far."""
        return memory_peak_bytes(self.pid)

    def stored(self, tenant: str | None = None) -> list[StoredEvaluation]:
        """Everything that the store holds."""
        found: list[StoredEvaluation] = []
        cursor = None
        while True:
            page = self.store.list(tenant, state=None, status=None, problem=None, cursor=cursor, limit=100)
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                return found


@contextlib.contextmanager
def served(workers: int, keys: Sequence[str] = ()) -> Iterator[Served]:
    """Start `assay serve` with a data folder of its own and a key for each of the names; all ends with the block."""
    with tempfile.TemporaryDirectory(prefix="assay-", ignore_cleanup_errors=True) as folder:
        data = ["--data-dir", folder]
        secrets = tuple(_assay("keys", "add", name, *data).strip() for name in keys)
        log = Path(folder, "log")
        command = [sys.executable, "-m", "evaluator", "serve", "--port", "0", "--workers", str(workers), *data]
        with (
            log.open("wb") as errors,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, env=_environment()
            ) as process,
        ):
            assert process.stdout is not None
            store: Store | None = None
            try:
                said = next((match for line in process.stdout if (match := re.search(r"http://\S+", line))), None)
                if said is None:
                    raise SystemExit(f"The service did not start:\n{log.read_text()[-3000:]}")
                threading.Thread(target=deque, args=(process.stdout, 0), daemon=True).start()
                store = Store(f"sqlite:///{folder}/assay.db")
                _await(store, workers)
                yield Served(said[0], process.pid, store, secrets)
            finally:
                if store is not None:
                    store.close()
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


def _await(store: Store, workers: int) -> None:
    until_s = time.monotonic() + _READY_S
    while len(store.fleet(_ALIVE_WITHIN_S)) < workers:
        if time.monotonic() > until_s:
            raise SystemExit(
                f"Of {workers} workers {len(store.fleet(_ALIVE_WITHIN_S))} were ready in {_READY_S:.0f} s."
            )
        time.sleep(0.1)
