"""Bodies that are cheap to send and dear to read: whatever one caller sends, others are answered, in bounded memory.

The server is a process of its own, as `assay serve` makes it, without workers. Each body was chosen against one step
of reading: counting, parsing, validating, putting the errors into words, storing, answering.
"""

import contextlib
import http.client
import json
import os
import re
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

JSON = {"Content-Type": "application/json", "Prefer": "respond-async"}
MAX_WAIT_S = 0.5
MAX_MEMORY_BYTES = 500 << 20
ADD = '{"problem":"vector_add","source":"__global__ void add(float* a) {}"'


@dataclass
class Target:
    url: str
    pid: int

    def post(self, path, body):
        return httpx.post(self.url + path, content=body, headers=JSON, timeout=60)

    @property
    def memory_bytes(self):
        """The most memory that the server had since the last `forget`."""
        with open(f"/proc/{self.pid}/status") as status:
            return int(re.search(r"VmHWM:\s+([0-9]+) kB", status.read())[1]) << 10

    def forget(self):
        """From now on the most memory is what it has from now on (proc(5), clear_refs)."""
        with open(f"/proc/{self.pid}/clear_refs", "w") as marks:
            marks.write("5")

    @contextlib.contextmanager
    def watched(self):
        """Asks `/livez` all the time; what is added to the list is how long each answer took, in seconds."""
        waits, stop = [], threading.Event()

        def ask():
            connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=60)
            while not stop.wait(0.01):
                began_s = time.monotonic()
                connection.request("GET", "/livez")
                assert connection.getresponse().read()
                waits.append(time.monotonic() - began_s)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            yield waits
        finally:
            stop.set()
            asking.join()


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    environment = {**os.environ, "ASSAY_DATA_DIR": str(folder / "data")}
    command = [sys.executable, "-m", "evaluator", "serve", "--port", "0", "--workers", "0"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
    address = process.stdout.readline()
    assert address.startswith("Assay listens on "), address + (folder / "log").read_text()
    yield Target(address.split()[-1], process.pid)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    process.stdout.close()
    log = (folder / "log").read_text()
    assert "Traceback" not in log
    assert max(map(len, log.splitlines())) < 2000


@pytest.fixture
def max_wait_s(target):
    """How long `/livez` may take: more where this machine has more to do than it has processors, and by itself."""
    target.forget()
    with target.watched() as waits:
        time.sleep(0.2)
    busy = max(1.0, os.getloadavg()[0] / os.cpu_count())
    return MAX_WAIT_S * busy + max(waits)


def plan(members):
    return f'{ADD},"plan":{{{members}}}}}'


def with_settings(members):
    return f'{ADD},"settings":{{{members}}}}}'


def launches(count, args):
    one = '{"kind":"launch","kernel":"add","grid":[1],"block":[1],"args":[' + args + "]}"
    return plan('"steps":[' + ",".join([one] * count) + "]")


def expressions(count, text):
    reference = {"kind": "torch", "text": text, "shapes": {"a": [10]}}
    return json.dumps({"submissions": [{"source": "", "reference": reference}] * count})


MEMBERS = ",".join(f'"{number}":0' for number in range(100_000))
BODIES = {
    "a third of a million steps": lambda: plan('"steps":[' + ",".join(["1"] * 350_000) + "]"),
    "ten million steps": lambda: plan('"steps":[' + "1," * (9 << 20) + "1]"),
    "two hundred thousand steps": lambda: plan('"steps":[' + ",".join(["{}"] * 200_000) + "]"),
    "seven million empty lists": lambda: "[" + "[]," * (6 << 20) + "0]",
    "empty objects": lambda: "[" + "{}," * (6 << 20) + "0]",
    "objects of one member": lambda: '{"submissions":[' + '{"":0},' * 2_000_000 + "0]}",
    "a hundred thousand unknown members": lambda: "{" + MEMBERS + "}",
    "unknown members of the settings": lambda: with_settings(MEMBERS),
    "unknown members of one step": lambda: plan('"steps":[{"kind":"fill","target":"c",' + MEMBERS + "}]"),
    "unknown members of every step": lambda: plan(
        '"steps":[' + ",".join(['{"kind":"copy","source":"a","target":"b",' + MEMBERS[:6000] + '":0}'] * 256) + "]"
    ),
    "a member written a million times": lambda: "{" + '"problem":"relu",' * 1_000_000 + '"source":""}',
    "sizes without end": lambda: with_settings('"sizes":{' + MEMBERS + "}"),
    "sizes of the wrong type": lambda: with_settings('"sizes":{' + MEMBERS.replace(":0", ':"x"') + "}"),
    "flags that are numbers": lambda: with_settings('"flags":[' + "1," * 250_000 + "1]"),
    "a name of a size as long as a novel": lambda: with_settings('"sizes":{"' + "n" * (15 << 20) + '":"x"}'),
    "an unknown name as long as a novel": lambda: '{"' + "n" * (15 << 20) + '":1}',
    "an unknown kind as long as a novel": lambda: plan('"steps":[{"kind":"' + "é" * (7 << 20) + '"}]'),
    "an expression as long as a novel": lambda: launches(1, '"' + "+" * (15 << 20) + '"'),
    "a number of a million digits": lambda: with_settings('"sizes":{"n":' + "9" * 1_000_000 + "}"),
    "many numbers of four thousand digits": lambda: with_settings('"sizes":[' + ("9" * 4000 + ",") * 4000 + "1]"),
    "a target kept in unequal arguments": lambda: launches(256, ",".join(["[]"] * 64)),
    "escapes": lambda: '{"problem":"' + "\\n" * (9 << 20) + '"}',
    "quotes that are escaped": lambda: '{"problem":"' + '\\"' * (9 << 20) + '"}',
    "backslashes without an end": lambda: '{"problem":"' + "\\" * (19 << 20),
    "strings one after the other": lambda: '""' * (9 << 20),
    "brackets that only close": lambda: "]" * (19 << 20),
    "brackets that only open": lambda: "[" * (19 << 20),
    "blanks": lambda: " " * (19 << 20),
    "half a character": lambda: '{"problem":"' + "\\ud800" * (3 << 20) + '"}',
}


@pytest.mark.parametrize("make", BODIES.values(), ids=BODIES)
def test_a_refused_body_stops_nobody(target, max_wait_s, make):
    body = make().encode()
    for path in ("/evaluate", "/evaluate/batch")[: 2 if len(body) < 4 << 20 else 1]:
        with target.watched() as waits:
            answer = target.post(path, body)
        assert answer.status_code == 422, answer.text[:300]
        assert len(answer.content) < 2000
        assert max(waits) < max_wait_s
    assert target.memory_bytes < MAX_MEMORY_BYTES


BATCHES = {
    "every submission with unknown members": lambda: json.dumps(
        {"submissions": [dict.fromkeys(map(str, range(500)))] * 500}
    ),
    "every submission with a wrong plan": lambda: '{"submissions":[' + ",".join([launches(64, "[]")] * 250) + "]}",
    "one submission of sixty megabytes": lambda: (
        '{"submissions":[{"problem":"relu","source":"' + "x" * (60 << 20) + '"}]}'
    ),
    "sixty megabytes of escapes": lambda: (
        '{"submissions":[{"problem":"relu","source":"' + "\\n" * (30 << 20) + '"}]}'
    ),
    "half a thousand expressions that nest": lambda: expressions(512, "a+" * 990 + "a"),
    "sixty megabytes and one wide character": lambda: '{"submissions":["\U0001f600' + "x" * (60 << 20) + '"]}',
}


@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES)
def test_a_refused_batch_stops_nobody(target, max_wait_s, make):
    body = make().encode()
    with target.watched() as waits:
        answer = target.post("/evaluate/batch", body)
    assert answer.status_code in (413, 422), answer.text[:300]
    assert max(waits) < max_wait_s
    assert target.memory_bytes < MAX_MEMORY_BYTES


TAKEN = {
    "the largest source": lambda: '{"problem":"relu","source":"' + "x" * (16 << 20) + '"}',
    "the widest source": lambda: '{"problem":"relu","source":"\U0001f600' + "x" * ((16 << 20) - 1) + '"}',
    "the widest that is compiled": lambda: '{"problem":"relu","source":"\U0001f600' + "x" * ((1 << 20) - 4) + '"}',
    "a reference of empty lines": lambda: json.dumps(
        {"source": "", "reference": {"text": "\n" * ((512 << 10) - 1) + "x"}}
    ),
    "the largest plan": lambda: launches(256, ",".join(['"' + "1+" * 20 + '1"'] * 64)),
}
AT_ONCE = ("the largest source", "the widest source")  # too large to compile, which is a verdict


@pytest.mark.parametrize("kind", TAKEN)
def test_the_largest_that_is_taken_stops_nobody(target, max_wait_s, kind):
    body = TAKEN[kind]().encode()
    with target.watched() as waits:
        answer = target.post("/evaluate", body)
    assert answer.status_code == (200 if kind in AT_ONCE else 202), answer.text[:300]
    assert max(waits) < max_wait_s
    assert target.memory_bytes < MAX_MEMORY_BYTES


TAKEN_BATCHES = {
    "sixty megabytes": lambda: json.dumps(
        {"submissions": [{"problem": "relu", "source": f"{number}{'x' * 1_000_000}"} for number in range(60)]}
    ),
    "half a thousand expressions": lambda: expressions(512, "torch.add(a, a)" + " + torch.relu(a)" * 90),
}


@pytest.mark.parametrize("make", TAKEN_BATCHES.values(), ids=TAKEN_BATCHES)
def test_the_largest_batch_that_is_taken_stops_nobody(target, max_wait_s, make):
    body = make().encode()
    began_bytes = target.memory_bytes
    with target.watched() as waits:
        answer = target.post("/evaluate/batch", body)
    assert answer.status_code == 202, answer.text[:300]
    assert [one["index"] for one in answer.json()["items"]] == list(range(len(answer.json()["items"])))
    assert max(waits) < max_wait_s
    assert target.memory_bytes - began_bytes < 4 * len(body) + (50 << 20)


def test_headers_that_nobody_reads_are_not_kept_while_their_caller_waits(target):
    where = target.post("/evaluate", ADD.encode() + b"}").headers["location"]
    host, port = target.url.removeprefix("http://").split(":")
    target.forget()
    began_bytes = target.memory_bytes
    headers = "".join(f"X-{number}: {'x' * 1000}\r\nCookie: a={'x' * 1000}\r\n" for number in range(28))
    asked = f"GET {where} HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=30\r\n{headers}\r\n".encode()
    with contextlib.ExitStack() as waiting:
        for _ in range(400):
            one = waiting.enter_context(socket.create_connection((host, int(port)), timeout=30))
            one.sendall(asked)
        httpx.get(f"{target.url}/livez", timeout=60)
        time.sleep(0.5)
        assert target.memory_bytes - began_bytes < 400 * 100_000


def test_thousands_of_requests_at_once_stop_nobody(target, max_wait_s):
    where = target.post("/evaluate", ADD.encode() + b"}").headers["location"]
    host, port = target.url.removeprefix("http://").split(":")
    asked = f"GET {where} HTTP/1.1\r\nHost: localhost\r\nPrefer: wait=30\r\n\r\n".encode()
    target.forget()
    with contextlib.ExitStack() as waiting:
        with target.watched() as waits:
            for _ in range(2000):
                one = waiting.enter_context(socket.create_connection((host, int(port)), timeout=30))
                one.sendall(asked)
            time.sleep(3)
        assert len(waits) > 20
        assert max(waits) < max_wait_s
        assert target.memory_bytes < 400 << 20


@pytest.mark.parametrize("accept", ["application/json", "text/html"])
def test_many_who_ask_for_the_widest_evaluation_at_once_stop_nobody(target, max_wait_s, accept):
    where = target.post("/evaluate", TAKEN["the widest that is compiled"]().encode()).headers["location"]

    def ask(_):
        return httpx.get(target.url + where, headers={"Accept": accept}, timeout=60).status_code

    with target.watched() as waits, ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(ask, range(12)))
    assert {200} <= set(answers) <= {200, 503}
    assert max(waits) < max_wait_s
    assert target.memory_bytes < MAX_MEMORY_BYTES


def test_lists_hold_no_sources(target, max_wait_s):
    target.post("/evaluate", TAKEN["the widest that is compiled"]().encode())
    with target.watched() as waits, ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: httpx.get(f"{target.url}/evaluations", timeout=60).status_code, range(3)))
    assert answers == [200] * 3
    assert max(waits) < max_wait_s
    assert target.memory_bytes < MAX_MEMORY_BYTES


def test_many_hostile_bodies_at_once_stay_in_their_room(target):
    """Here the senders themselves keep both cores busy, so that only the memory says something of the service."""
    target.forget()
    wide = ('{"problem":"relu","source":"\U0001f600' + "x" * (15 << 20) + '"}').encode()
    steps = plan('"steps":[' + "1," * (7 << 20) + "1]").encode()
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda number: target.post("/evaluate", (wide, steps)[number % 2]), range(10)))
    assert {answer.status_code for answer in answers} <= {200, 422, 503}
    assert 422 in {answer.status_code for answer in answers}
    assert target.memory_bytes < MAX_MEMORY_BYTES
