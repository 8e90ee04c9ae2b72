"""`assay demo`, as a newcomer runs it: in an empty folder, without anything set."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from common.contract import Submission

EXPECTED = {
    "does_not_compile.cu": "compile_error",
    "loops_for_ever.cu": "timeout",
    "passes_fast.cu": "passed",
    "passes_naive.cu": "passed",
    "writes_out_of_bounds.cu": "runtime_error",
    "wrong_at_odd_sizes.cu": "incorrect",
}


class References(HTMLParser):
    """Everything that a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        loads = {"src", "srcset", "data", "poster", "action"} | ({"href"} if tag != "a" else set())
        self.found += [value or "" for name, value in attrs if name in loads]


def test_the_demo_shows_each_end_and_writes_one_page(assay):
    assay.environment["COLUMNS"] = "100"
    ended = assay("demo")
    assert ended.returncode == 0, ended.stderr

    cards = re.findall(r"─ examples/(\w+\.cu)[^\n]*\n│ \S+ (\w+) in phase", ended.stdout)
    assert dict(cards) == EXPECTED
    assert len(cards) == len(EXPECTED)
    seconds = re.search(r"Graded 6 kernels in ([0-9.]+) s", ended.stdout)
    assert seconds is not None
    assert float(seconds[1]) < 60

    assert [path.name for path in assay.folder.iterdir()] == ["assay-report.html"], "one file, and no other"
    assert str(assay.folder / "assay-report.html") in ended.stdout
    page = (assay.folder / "assay-report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert all(name in page for name in EXPECTED)
    references = References()
    references.feed(page)
    assert [one for one in references.found if not one.startswith(("data:", "#"))] == []
    assert not re.search(r"url\((?!['\"]?(?:data:|#))|@import", page)

    over_http = re.search(r"Over HTTP: relu passed in ([0-9.]+) s at (http://127\.0\.0\.1:[0-9]+)", ended.stdout)
    assert over_http is not None, ended.stdout[-2000:]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", urlsplit(over_http[2]).port), timeout=5)
    assert processes_of(assay) == []
    assert [path.name for path in Path(assay.environment["ASSAY_DATA_DIR"]).glob("*.db*")] == []

    curl = shlex.split(ended.stdout.splitlines()[-1])
    assert curl[:3] == ["curl", "-s", "http://127.0.0.1:8000/evaluate"]
    submission = Submission.model_validate(json.loads(curl[curl.index("-d") + 1]))
    assert submission.problem == "relu"


def processes_of(assay):
    """What runs with the data folder of this test."""
    mark = f"ASSAY_DATA_DIR={assay.environment['ASSAY_DATA_DIR']}\0".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_demo_that_is_stopped_leaves_no_service(assay, number):
    command = [Path(sys.executable).with_name("assay"), "demo"]
    running = subprocess.Popen(
        command, cwd=assay.folder, env=assay.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    deadline_s = time.monotonic() + 60
    while len(processes_of(assay)) < 3:  # the demo, its service, and what the service or the grader runs
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    os.kill(running.pid, number)
    running.wait(60)
    running.stdout.close()
    while processes_of(assay):
        assert time.monotonic() < deadline_s, "something of the demo is still there"
        time.sleep(0.05)


def test_grading_a_file_imports_nothing_of_the_service():
    script = "import sys, evaluator.cli.grade; print(*{name.split('.')[0] for name in sys.modules})"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    service = {"alembic", "celery", "docker", "fastapi", "httpx", "redis", "sqlalchemy", "starlette", "uvicorn"}
    assert service & set(ended.stdout.split()) == set()


def test_a_report_that_cannot_be_written_is_said_before_the_work(assay):
    ended = assay("demo", "--report", assay.folder)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "is a folder" in ended.stderr
