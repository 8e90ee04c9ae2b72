"""A service over real sockets, in a thread, on a real database; a test is its worker."""

import contextlib
import io
import json
import logging
import socket
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import structlog
from storage_samples import empty_sqlite, ended

from evaluator.service import logs
from evaluator.service.api.app import create_app
from evaluator.service.api.notifier import Notifier
from evaluator.service.server import HttpServer
from evaluator.service.storage.models import WorkerFacts
from evaluator.service.storage.storage import Storage, open_storage
from evaluator.settings import ServiceSettings

ADD = "__global__ void add(const float* a, const float* b, float* c, int n) {}"


def submission(**changes):
    return {"problem": "vector_add", "source": ADD, **changes}


def facts(**changes):
    known = {
        "id": "w1",
        "host": "here",
        "pid": 1,
        "queues": ("compile", "sim"),
        "backend": "sim",
        "device": "the simulator",
        "arch": "sm_90",
        "toolchain": "nvcc 13.0.88",
        "sandbox": "bubblewrap",
        "grader_version": "0.1.0",
        "started_at": 0.0,
        "seen_at": 0.0,
    }
    return WorkerFacts(**(known | changes))


def unready(reason):
    """What /readyz says where nothing is judged."""
    return {"ready": False, "reason": reason, "backends": {"gpu": reason, "sim": reason}}


@dataclass
class Served:
    url: str
    storage: Storage
    watch: Notifier
    announced: list[tuple[str, str]] = field(default_factory=list)
    log: io.StringIO = field(default_factory=io.StringIO)

    def logged(self, event):
        return [one for one in map(json.loads, self.log.getvalue().splitlines()) if one["event"] == event]

    def announce(self, evaluation_id, queue):
        self.announced.append((evaluation_id, queue))

    def http(self, **options):
        # Plain HTTP: to load the certificates of authorities would take 25 ms each time.
        return httpx.Client(base_url=self.url, timeout=20, verify=False, **options)

    def work(self, verdict=None, told=None):
        """What a worker does with the next evaluation."""
        deadline_s = time.monotonic() + 60
        while (lease := self.storage.leases.claim(["compile"], "w1", 30)) is None:
            assert time.monotonic() < deadline_s, "nothing came to be worked on"
            time.sleep(0.01)
        if told:
            assert self.storage.leases.progress(lease, told)
        assert self.storage.leases.finish(lease, verdict or ended(), {"compile": 0.25}, [0.01])
        return lease


@contextlib.contextmanager
def logging_to(stream):
    root = logging.getLogger()
    before = root.handlers[:], root.level
    logs.configure(stream)
    try:
        yield
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        structlog.reset_defaults()


def listening(host="127.0.0.1"):
    return socket.create_server((host, 0), backlog=512)


@contextlib.contextmanager
def served(database_url, folder, **changes):
    settings = ServiceSettings(folder, database_url, **changes)
    file = Path(database_url.removeprefix("sqlite:///"))
    if not file.exists():
        empty_sqlite(file)
    storage = open_storage(database_url)
    with listening() as opened, contextlib.ExitStack() as ending:
        watch = Notifier(storage.evaluations)
        here = Served(f"http://127.0.0.1:{opened.getsockname()[1]}", storage, watch)
        ending.enter_context(logging_to(here.log))
        ready = threading.Event()
        app = create_app(storage, here, settings, b"a secret", watch)
        server = HttpServer(app, settings, watch, ready.set)
        thread = threading.Thread(target=server.run, args=([opened],), daemon=True)
        thread.start()
        assert ready.wait(20)
        try:
            yield here
        finally:
            server.should_exit = True
            thread.join(20)
            storage.database.close()
            assert not thread.is_alive()


def lines(answer):
    return [json.loads(line) for line in answer.text.splitlines() if line.strip()]


def events(answer, most=100):
    """Server-sent events of a stream, as dictionaries; comments by the name `comment`."""
    current = {}
    for line in answer.iter_lines():
        if line.startswith(":"):
            current["comment"] = line[1:].strip()
        elif line:
            name, _, value = line.partition(": ")
            current[name] = value
        elif current:
            yield current
            current = {}
            most -= 1
            if not most:
                return
