"""The API against whoever means it ill: schemathesis over every operation, slow and huge and countless requests.

The server is a process of its own, as `assay serve` makes it, without workers: what it accepts stays in its queue.
`ASSAY_TEST_EVERYTHING=1` makes it all bigger.
"""

import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from evaluator.service.storage.storage import Storage, open_storage

LONG = bool(os.environ.get("ASSAY_TEST_EVERYTHING"))
EXAMPLES = 400 if LONG else 12
CONNECTIONS = 10_000 if LONG else 1_000
BEYOND_A_SCHEMA = [positive_data_acceptance, negative_data_rejection]
JSON = {"Content-Type": "application/json"}
SUBMISSION = {"problem": "vector_add", "source": "__global__ void add(float* a, float* b, float* c, int n) {}"}


@dataclass
class Target:
    url: str
    storage: Storage
    pid: int
    secret: str

    def ask(self, method, path, **options):
        headers = {"Authorization": f"Bearer {self.secret}", **options.pop("headers", {})}
        return httpx.request(method, self.url + path, headers=headers, timeout=60, **options)

    @property
    def memory_bytes(self):
        """The most memory that the server ever had."""
        with open(f"/proc/{self.pid}/status") as status:
            return int(re.search(r"VmHWM:\s+([0-9]+) kB", status.read())[1]) << 10

    def dial(self):
        host, port = self.url.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), timeout=20)

    def is_well(self):
        answer = self.ask("POST", "/evaluate", json=SUBMISSION, headers={"Prefer": "wait=0"})
        assert answer.status_code in (200, 202), answer.text
        assert httpx.get(f"{self.url}/livez", timeout=20).status_code == 200


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("abused")
    variables = {"ASSAY_MOST_WAIT_S": "1", "ASSAY_WAIT_S": "0", "ASSAY_RECEIVE_S": "3", "ASSAY_MOST_QUEUED": "100000"}
    variables["ASSAY_REQUIRE_KEYS"] = "1"
    environment = {**os.environ, **variables, "ASSAY_DATA_DIR": str(folder / "data")}
    command = [sys.executable, "-m", "evaluator", "serve", "--port", "0", "--workers", "0"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    address = process.stdout.readline()
    assert address.startswith("Assay listens on "), address + (folder / "log").read_text()
    storage = open_storage(f"sqlite:///{folder / 'data' / 'assay.db'}")
    _, secret = storage.keys.create("the abuser", admin=True)
    yield Target(address.split()[-1], storage, process.pid, secret)
    storage.database.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    process.stdout.close()
    log = (folder / "log").read_text()
    assert "Traceback" not in log
    assert '"unforeseen"' not in log


# Everything that the document allows, and much that it does not


@pytest.fixture(scope="module")
def schema(target):
    document = httpx.get(f"{target.url}/openapi.json", timeout=20).json()
    loaded = schemathesis.openapi.from_dict(document)
    loaded.config.update(base_url=target.url)
    return loaded


OPERATIONS = [
    ("POST", "/evaluate"),
    ("POST", "/evaluate/batch"),
    ("GET", "/evaluations"),
    ("GET", "/evaluations/{evaluation_id}"),
    ("DELETE", "/evaluations/{evaluation_id}"),
    ("GET", "/evaluations/{evaluation_id}/events"),
    ("GET", "/evaluations/{evaluation_id}/receipt"),
    ("GET", "/problems"),
    ("GET", "/problems/{problem_id}"),
    ("GET", "/livez"),
    ("GET", "/readyz"),
    ("GET", "/version"),
    ("GET", "/metrics"),
]


def test_every_operation_is_tried(schema):
    assert {(one.ok().method.upper(), one.ok().path) for one in schema.get_all_operations()} == set(OPERATIONS)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])
@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_no_request_is_answered_otherwise_than_the_document_says(target, schema, method, path, mode):
    unready = [schemathesis.checks.not_a_server_error] if path == "/readyz" else []

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(schema[path][method].as_strategy(generation_mode=mode))
    def each(case):
        # A batch is streamed until all is judged, and here nobody judges.
        headers = {"Prefer": "wait=0", "Authorization": f"Bearer {target.secret}"}
        answer = case.call(timeout=30, headers=headers)
        assert answer.status_code < 500 or (path == "/readyz" and answer.status_code == 503)
        # Not every text is a problem's name, and not everything that is no JSON schema is refused by a lenient path.
        excluded = [*unready, *BEYOND_A_SCHEMA]
        case.validate_response(answer, excluded_checks=excluded, headers=headers)

    try:
        each()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE  # an operation without parameters cannot be asked wrongly


# Too much of one thing


@pytest.mark.parametrize("path", ["/evaluate", "/evaluate/batch"])
def test_a_hundred_megabytes_are_refused_without_being_kept(target, path):
    before_bytes = target.memory_bytes
    size_bytes = 100 << 20
    refused = httpx.post(
        target.url + path,
        content=_nothing(size_bytes),
        headers={**JSON, "Content-Length": str(size_bytes)},
        timeout=60,
    )
    assert refused.status_code == 413
    chunked = target.ask("POST", path, content=_nothing(size_bytes), headers=JSON)
    assert chunked.status_code == 413
    assert target.memory_bytes - before_bytes < 150 << 20
    target.is_well()


def _nothing(size_bytes):
    for _ in range(size_bytes >> 20):
        yield b" " * (1 << 20)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 1_000_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        '{"problem": "relu", "source": "", "plan": ' + '{"steps": [' * 50_000,
        '{"problem": "relu", "source": "", "settings": {"target_speedup": 1e999}}',
        '{"problem": "relu", "source": "", "settings": {"target_speedup": NaN}}',
        '{"problem": "relu", "source": "", "settings": {"sizes": {"n": ' + "9" * 4000 + "}}}",
        '{"problem": "relu", "source": "", "settings": {"sizes": {"n": ' + "9" * 100_000 + "}}}",
        '{"problem": "relu", "source": "", "settings": {"sizes": {"n\\u0000": 5}}}',
        '{"problem": "relu\\u0000", "source": ""}',
        '{"problem": "relu", "source": "\\ud800"}',
        '{"problem": "relu", "source": ' + json.dumps("x" * (17 << 20)) + "}",
        '{"problem": ["relu"], "source": {"a": 1}}',
        '{"problem": "relu", "source": "", "source": 3}',
        '{"submissions": ' + json.dumps([SUBMISSION] * 513) + "}",
        '"' + "\\u0041" * 100_000 + '"',
        "nul",
        "",
    ],
    ids=range(17),
)
@pytest.mark.parametrize("path", ["/evaluate", "/evaluate/batch"])
def test_json_that_means_ill_is_refused(target, path, text):
    started_s = time.monotonic()
    answer = target.ask("POST", path, content=text, headers=JSON)
    assert answer.status_code == 422, answer.text[:500]
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.content) < 4000
    assert time.monotonic() - started_s < 10


def test_texts_that_databases_dislike_are_accepted_as_they_are(target):
    body = {**SUBMISSION, "source": "\x00 \U0010ffff \u202e ' ; DROP TABLE evaluations; --"}
    answer = target.ask("POST", "/evaluate", json=body, headers={"Prefer": "wait=0"})
    assert answer.status_code == 202
    assert target.ask("GET", answer.headers["location"]).json()["submission"]["source"] == body["source"]


@pytest.mark.parametrize(
    "evaluation_id",
    [
        "ev_" + "A" * 22,
        "ev_" + "%00" * 22,
        "..%2F..%2Fetc%2Fpasswd",
        "' OR 1=1 --",
        "%F0%9F%98%80",
        "ev_" + "A" * 5000,
    ],
)
def test_ids_that_are_not_yours(target, evaluation_id):
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/events")):
        answer = target.ask(method, f"/evaluations/{evaluation_id}{path}")
        assert answer.status_code == 404


# Too many, too slow


def test_thousands_of_idle_connections_keep_nobody_out(target):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(CONNECTIONS, hard - 1000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted + 500), hard))
    with contextlib.ExitStack() as held:
        for _ in range(wanted):
            held.enter_context(target.dial())
        target.is_well()


def test_slow_callers_keep_nobody_out_and_are_put_out(target):
    head = b"POST /evaluate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer {target.secret}\r\n".encode()
    with contextlib.ExitStack() as held:
        headers = [held.enter_context(target.dial()) for _ in range(200)]
        bodies = [held.enter_context(target.dial()) for _ in range(200)]
        for one in headers:
            one.sendall(head)
        for one in bodies:
            one.sendall(head + b"Content-Length: 100000\r\n\r\n{")
        stop = threading.Event()

        def drip():
            while not stop.wait(0.5):
                for one in headers + bodies:
                    with contextlib.suppress(OSError):
                        one.sendall(b"a")

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            for _ in range(5):
                target.is_well()
            deadline_s = time.monotonic() + 30
            for one in headers + bodies:
                one.settimeout(max(0.1, deadline_s - time.monotonic()))
                with contextlib.suppress(ConnectionError):
                    while one.recv(4096):
                        pass
            assert time.monotonic() < deadline_s
        finally:
            stop.set()
            dripping.join()


def test_many_who_wait_leave_room_for_others(target):
    with ThreadPoolExecutor(200) as pool:

        def wait(number):
            body = {**SUBMISSION, "source": f"// {number}"}
            return target.ask("POST", "/evaluate", json=body, headers={"Prefer": "wait=1"})

        waiting = [pool.submit(wait, number) for number in range(1000 if LONG else 200)]
        target.is_well()
        assert {one.result().status_code for one in waiting} == {202}


def test_keys_that_end_end_at_once(target):
    storage = target.storage
    _, short = storage.keys.create("short", expires_at=time.time() + 3)
    long_lived, secret = storage.keys.create("long")

    def ask(one):
        return httpx.get(
            f"{target.url}/evaluations", headers={"Authorization": f"Bearer {one}"}, timeout=60
        ).status_code

    assert ask(short) == ask(secret) == 200
    storage.keys.revoke(long_lived.id)
    assert ask(secret) == 401
    time.sleep(3.2)
    assert ask(short) == 401
