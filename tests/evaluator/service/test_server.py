"""`assay serve` and `assay keys`: the whole server as a process, and what it refuses to be."""

import contextlib
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from api_service import submission
from click.testing import CliRunner
from storage_samples import accept, finish_next
from working import RIGHT, descendants, done

from common.contract import Evaluation, Status
from evaluator.backends.gpu.runner.channel import Channel
from evaluator.cli import main
from evaluator.errors import SandboxError, StorageError, UsageError
from evaluator.pipeline.gpu.socket_file import listening_at
from evaluator.sandbox import selftest
from evaluator.sandbox.host.process import ProcessSandbox
from evaluator.service import server
from evaluator.service.server import is_loopback, prove_isolation, secret_of
from evaluator.service.storage.storage import open_storage
from evaluator.settings import MachineSettings, ServiceSettings

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"


@contextlib.contextmanager
def running(folder, *words, **variables):
    """`assay serve` as a process of its own; its address, once it listens."""
    environment = {**os.environ, "ASSAY_DATA_DIR": str(folder), **variables}
    command = [sys.executable, "-m", "evaluator", "serve", "--port", "0", *words]
    with (folder.parent / "serve.log").open("w") as log:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            told = process.stdout.readline()
            found = re.fullmatch(r"Assay listens on (http://127\.0\.0\.1:[0-9]+)\n", told)
            assert found, told + (folder.parent / "serve.log").read_text()
            yield found[1], process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
            process.stdout.close()


def children_of(pid):
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in listed.stdout.split()]


def alive(pid):
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_a_server_grades_for_real_and_takes_its_workers_with_it(tmp_path):
    with running(tmp_path / "data", "--workers", "1") as (url, process):
        with httpx.Client(base_url=url, timeout=60) as http:
            deadline_s, reasons = time.monotonic() + 240, set()
            while (told := http.get("/readyz")).status_code != 200:
                reasons.add(told.json()["reason"])
                assert http.get("/livez").status_code == 200
                assert time.monotonic() < deadline_s
                time.sleep(0.1)
            assert any("builds the simulator's runtime" in reason for reason in reasons), reasons
            body = submission(source=(EXAMPLES / "passes_naive.cu").read_text())
            answer = http.post("/evaluate", json=body, headers={"X-Request-Id": "from-the-test"})
            assert answer.status_code == 200, answer.text
            verdict = Evaluation.model_validate_json(answer.content).verdict
            assert verdict.status is Status.PASSED
            workers = children_of(process.pid)
            assert workers
            assert 'assay_compilations_total{cached="false"} 1.0' in http.get("/metrics").text
        process.send_signal(signal.SIGTERM)
        assert process.wait(40) == 0
        assert not [pid for pid in workers if alive(pid)]
    log = (tmp_path / "serve.log").read_text()
    assert '"isolation proved"' in log
    worked = [line for line in log.splitlines() if '"worked"' in line]
    assert len(worked) == 1
    assert '"request_id": "from-the-test"' in worked[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_ends_releases_the_referees_of_its_data_folder(tmp_path, number):
    place = tmp_path / "data" / "referees" / "GPU-0.sock"
    place.parent.mkdir(parents=True)
    with listening_at(place) as referee, running(tmp_path / "data", "--workers", "1") as (_, process):
        process.send_signal(number)
        assert process.wait(40) == 0
        referee.listener.settimeout(10)
        connection, _ = referee.listener.accept()
        with contextlib.closing(Channel(connection)) as channel:
            assert channel.receive(10) == {"order": "release"}


def test_whoever_waits_when_the_server_stops_is_told_where_to_ask_again(tmp_path):
    with running(tmp_path / "data", "--workers", "0") as (url, process), ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(httpx.post, f"{url}/evaluate", json=submission(), timeout=60)
        batch = {"submissions": [submission(source="// 2")]}
        streaming = pool.submit(httpx.post, f"{url}/evaluate/batch", json=batch, timeout=60)
        with httpx.Client(base_url=url, timeout=60) as http:
            while len(http.get("/evaluations").json()["items"]) < 2:
                time.sleep(0.02)
        started_s = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert time.monotonic() - started_s < 15
        assert waiting.result().status_code == 202
        assert '"state":"queued"' in streaming.result().text


def test_what_was_accepted_outlives_a_kill(tmp_path):
    with running(tmp_path / "data", "--workers", "0") as (url, process):
        path = httpx.post(f"{url}/evaluate", json=submission(), headers={"Prefer": "wait=0"}, timeout=60).headers[
            "location"
        ]
        process.kill()
        process.wait()
    with running(tmp_path / "data", "--workers", "0") as (url, process):
        assert httpx.get(url + path, timeout=60).json()["state"] == "queued"


def read_until(process, words):
    lines = []
    for line in process.stdout:
        lines.append(line)
        if words in line:
            return "".join(lines)
    raise AssertionError("".join(lines))


def begin_something_long(url, run_timeout_s):
    """An evaluation that runs until its time is up; its path, once a worker has it."""
    body = submission(source=(ROOT / "tests" / "takes_half_a_minute.cu").read_text(), problem="relu")
    body["settings"] = {"run_timeout_s": run_timeout_s}
    path = httpx.post(f"{url}/evaluate", json=body, headers={"Prefer": "wait=0"}, timeout=60).headers["location"]
    deadline_s = time.monotonic() + 60
    while "verify" not in (httpx.get(url + path, timeout=60).json()["progress"] or ""):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    return path


@pytest.fixture
def data(tmp_path, toolbox):
    """A data folder with what the suite has compiled."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "cache").symlink_to(toolbox.cache.root)
    return folder


def test_whoever_starts_it_is_told_what_is_there_on_one_screen(tmp_path, data):
    with running(data, "--workers", "1") as (url, process):
        told = read_until(process, "Ctrl-C stops it")
        for words in (
            f"{url}/ in a browser",
            f"assay keys add NAME --data-dir {data}",
            "layers that it promises",
            "1 here, on",
            f"--server {url}",
        ):
            assert words in told
        assert len(told.splitlines()) < 10
        assert max(map(len, told.splitlines())) < 120 + len(str(tmp_path))


def test_ctrl_c_lets_what_runs_finish_and_says_so(data):
    with running(data, "--workers", "1") as (url, process):
        path = begin_something_long(url, 2)
        httpx.post(f"{url}/evaluate", json=submission(source="// waits"), headers={"Prefer": "wait=0"}, timeout=60)
        process.send_signal(signal.SIGINT)
        told = process.stdout.read()
        assert process.wait(30) == 0
        assert "Stopping: what runs may finish, for up to 30 s. Ctrl-C again" in told
        assert told.endswith("Stopped. 1 evaluation waits for the next start.\n")
    storage = open_storage(f"sqlite:///{data / 'assay.db'}")
    assert storage.evaluations.get(path.rsplit("/", 1)[1], None).verdict.status is Status.TIMEOUT
    storage.database.close()


def test_a_stop_that_reaches_every_process_at_once_gives_everything_back(data):
    with running(data, "--workers", "2", ASSAY_DRAIN_S="2") as (url, process):
        right = {begin_something_long(url, 2): Status.TIMEOUT}
        for index in range(4):
            body = submission(source=f"// {data} {index}\n{RIGHT}", problem="relu")
            location = httpx.post(f"{url}/evaluate", json=body, headers={"Prefer": "wait=0"}, timeout=60).headers[
                "location"
            ]
            right[location] = Status.PASSED
        # As a service manager does: to all of them, in no order; here the deepest first, which is the worst.
        for pid, _ in reversed(descendants(process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    storage = open_storage(f"sqlite:///{data / 'assay.db'}")
    ids = {path.rsplit("/", 1)[1]: status for path, status in right.items()}
    for one, status in ids.items():
        now = storage.evaluations.get(one, None)
        assert now.state == "queued" or now.verdict.status is status, now.verdict
        assert now.attempt <= 1 - (now.state == "queued"), "handed back unharmed"
    with running(data, "--workers", "2"):
        assert {one: done(storage, one, 180).verdict.status for one in ids} == ids
    storage.database.close()


@pytest.mark.parametrize("pause_s", [0.0, 1.0], ids=["while it closes connections", "while it waits for workers"])
def test_ctrl_c_twice_ends_it_at_once_and_loses_nothing(data, pause_s):
    with running(data, "--workers", "1", ASSAY_DRAIN_S="60") as (url, process):
        path = begin_something_long(url, 30)
        workers = children_of(process.pid)
        process.send_signal(signal.SIGINT)
        read_until(process, "Stopping")
        time.sleep(pause_s)
        process.send_signal(signal.SIGINT)
        assert process.wait(15) == 130
        deadline_s = time.monotonic() + 15
        while [pid for pid in workers if alive(pid)]:
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
    storage = open_storage(f"sqlite:///{data / 'assay.db'}")
    assert storage.evaluations.get(path.rsplit("/", 1)[1], None).state == "queued"
    storage.database.close()


def test_whoever_reads_no_more_does_not_stop_it(tmp_path):
    with running(tmp_path / "data", "--workers", "0") as (_, process):
        read_until(process, "Ctrl-C stops it")
        process.stdout.close()
        process.stdout = (tmp_path / "nothing").open("w+")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert "Traceback" not in (tmp_path / "serve.log").read_text()


def test_a_terminal_shows_warnings_alone():
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal, contextlib.closing(os.fdopen(ours, "rb", buffering=0)) as screen:
        script = "import logging; from evaluator.service import logs; logs.configure(); "
        script += "logging.info('of no interest'); logging.warning('of interest')"
        subprocess.run([sys.executable, "-c", script], stderr=terminal, check=True)
        shown = screen.read(10_000).decode()
    assert "of interest" in shown
    assert "of no interest" not in shown
    assert "{" not in shown, "people read it"


# What it refuses to be


def assay(*words, **variables):
    return CliRunner().invoke(main.main, words, env={name: str(value) for name, value in variables.items()})


def test_without_a_key_it_listens_on_loopback_alone(tmp_path):
    refused = assay("serve", "--host", "0.0.0.0", "--workers", "0", "--data-dir", str(tmp_path))
    assert refused.exit_code == 2
    assert f"Make a key first: `assay keys add NAME --data-dir {tmp_path}`" in refused.stderr
    assert len(refused.stderr.splitlines()) == 2


@pytest.mark.parametrize("command", [("serve", "--workers", "0", "--port", "0"), ("keys", "list")])
def test_a_data_folder_that_cannot_be_written_is_told_with_its_remedy(tmp_path, command):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc")):
        refused = assay(*command, "--data-dir", str(folder))
        assert refused.exit_code == 2
        assert f"The data folder {folder} cannot be written" in refused.stderr
        assert "--data-dir" in refused.stderr
        assert len(refused.stderr.splitlines()) == 2


def test_an_unknown_sandbox_is_told_with_those_that_there_are(tmp_path):
    refused = assay("serve", "--workers", "1", "--port", "0", ASSAY_SANDBOX="jail", ASSAY_DATA_DIR=tmp_path)
    assert refused.exit_code == 2
    assert "ASSAY_SANDBOX is 'jail'." in refused.stderr
    assert "auto, docker, bubblewrap, process" in refused.stderr


def test_an_expired_key_is_no_key_for_listening_to_others(tmp_path):
    storage = open_storage(f"sqlite:///{tmp_path / 'assay.db'}")
    storage.database.upgrade()
    storage.keys.create("old", expires_at=time.time() - 1)
    storage.database.close()
    assert assay("serve", "--host", "::", "--workers", "0", "--data-dir", str(tmp_path)).exit_code == 2


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("10.0.0.1", False),
        ("example.org", False),
    ],
)
def test_what_loopback_is(host, expected):
    assert is_loopback(host) is expected


def test_an_address_that_is_taken_is_told_with_its_remedy(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = assay("serve", "--port", port, "--workers", "0", "--data-dir", str(tmp_path))
    assert refused.exit_code == 2
    assert f"Port {port} of 127.0.0.1 is taken" in refused.stderr
    assert "--port (0 takes a free one)" in refused.stderr
    assert len(refused.stderr.splitlines()) == 2


def test_isolation_that_does_not_hold_stops_the_start(tmp_path, monkeypatch):
    def one_broken(sandbox):
        return (selftest.Layer("network", True, False, "reached the host by AF_INET"),)

    monkeypatch.setattr(server, "probe_sandbox", one_broken)
    with pytest.raises(SandboxError, match=r"network .reached the host") as fault:
        prove_isolation(MachineSettings(tmp_path, sandbox="process"))
    assert "assay doctor" in fault.value.remedy


def test_a_weaker_sandbox_is_taken_only_where_it_was_chosen(tmp_path, monkeypatch):
    monkeypatch.setattr(selftest, "choose", lambda root, wanted: ProcessSandbox(root))
    with pytest.raises(SandboxError) as fault:
        prove_isolation(MachineSettings(tmp_path, sandbox="auto"))
    assert "ASSAY_SANDBOX=process" in fault.value.remedy
    name, layers = prove_isolation(MachineSettings(tmp_path, sandbox="process"))
    assert name == "process"
    assert layers >= 5


def test_the_servers_secret_is_made_once_and_for_its_owner_alone(tmp_path):
    settings = ServiceSettings(tmp_path, "sqlite://")
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: secret_of(settings), range(32)))
    assert len(found) == 1
    assert len(found.pop()) == 64
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["secret"]
    assert secret_of(ServiceSettings(tmp_path, "sqlite://", secret="of the owner")) == b"of the owner"
    with pytest.raises(StorageError):
        secret_of(ServiceSettings(tmp_path / "missing", "sqlite://"))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ASSAY_PORT", "http"),
        ("ASSAY_BROKER_URL", "http://x"),
        ("ASSAY_WORKERS", "-1"),
        ("ASSAY_LEASE_S", "0"),
        ("ASSAY_BODY_BYTES", "1e6"),
    ],
)
def test_variables_that_cannot_be_are_named(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=variable):
        ServiceSettings.from_environment()


def test_variables_are_the_settings(monkeypatch, tmp_path):
    monkeypatch.setenv("ASSAY_DATA_DIR", str(tmp_path))
    assert ServiceSettings.from_environment().database_url == f"sqlite:///{tmp_path / 'assay.db'}"
    for name, value in {"DATABASE_URL": "postgresql://x/y", "REQUIRE_KEYS": "1", "WAIT_S": "7"}.items():
        monkeypatch.setenv(f"ASSAY_{name}", value)
    found = ServiceSettings.from_environment()
    assert (found.database_url, found.require_keys, found.wait_s) == ("postgresql://x/y", True, 7)


# Keys


def test_a_key_is_made_shown_once_listed_and_revoked(tmp_path):
    data = ("--data-dir", str(tmp_path))
    made = assay("keys", "add", "ann", "--expires-days", "2", "--per-minute", "60", "--concurrent", "8", *data)
    assert made.exit_code == 0
    secret = made.stdout.strip()
    assert re.fullmatch(r"assay_[A-Za-z0-9_-]{43}", secret)
    storage = open_storage(f"sqlite:///{tmp_path / 'assay.db'}")
    key = storage.keys.find(secret)
    assert (key.name, key.admin, key.quota.per_minute, key.quota.concurrent) == ("ann", False, 60, 8)
    assert 1.9 < (key.expires_at - time.time()) / 86400 < 2.1
    listed = assay("keys", "list", *data).stdout
    assert key.id in listed
    assert "valid" in listed
    assert secret not in listed
    assert secret.encode() not in (tmp_path / "assay.db").read_bytes()
    assert assay("keys", "revoke", key.id, *data).exit_code == 0
    assert storage.keys.find(secret) is None
    assert "revoked" in assay("keys", "list", *data).stdout
    storage.database.close()
    again = assay("keys", "revoke", key.id, *data)
    assert (again.exit_code, "was revoked before" in again.stderr) == (2, True)
    unknown = assay("keys", "revoke", "bob", *data)
    assert (unknown.exit_code, "no key 'bob'" in unknown.stderr) == (2, True)


def test_where_there_is_no_key_or_no_folder_it_is_said_and_none_is_made(tmp_path):
    for command in (("list",), ("revoke", "ann"), ("rotate", "ann")):
        mistyped = assay("keys", *command, "--data-dir", str(tmp_path / "mistyped"))
        assert mistyped.exit_code == 2
        assert f"There is no folder {tmp_path / 'mistyped'}." in mistyped.stderr
    assert not (tmp_path / "mistyped").exists()
    none = assay("keys", "list", "--data-dir", str(tmp_path))
    assert (none.exit_code, none.stdout, "`assay keys add NAME`" in none.stderr) == (0, "", True)


def test_a_key_is_revoked_by_its_name_where_that_says_which(tmp_path):
    data = ("--data-dir", str(tmp_path))
    first, second = (assay("keys", "add", "ann", *data).stdout.strip() for _ in range(2))
    storage = open_storage(f"sqlite:///{tmp_path / 'assay.db'}")
    both = assay("keys", "revoke", "ann", *data)
    assert both.exit_code == 2
    assert "2 keys are called 'ann'" in both.stderr
    assert storage.keys.find(first).id in both.stderr
    assert assay("keys", "revoke", storage.keys.find(first).id, *data).exit_code == 0
    # The one that is left is meant: a name is free again once its key is revoked.
    assert assay("keys", "revoke", "ann", *data).exit_code == 0
    assert storage.keys.find(second) is None
    storage.database.close()


def test_a_key_is_rotated_and_stays_the_same_tenant(tmp_path):
    data = ("--data-dir", str(tmp_path))
    secret = assay("keys", "add", "ann", "--per-minute", "7", *data).stdout.strip()
    storage = open_storage(f"sqlite:///{tmp_path / 'assay.db'}")
    key = storage.keys.find(secret)
    rotated = assay("keys", "rotate", "ann", *data)
    new = rotated.stdout.strip()
    assert key.id in rotated.stderr
    assert storage.keys.find(secret) is None
    assert (storage.keys.find(new).id, storage.keys.find(new).quota.per_minute) == (key.id, 7)
    again = assay("keys", "rotate", key.id, *data).stdout.strip()
    assert storage.keys.find(new) is None
    assert storage.keys.find(again).id == key.id
    storage.keys.revoke(key.id)
    expired, _ = storage.keys.create("old", expires_at=time.time() - 1)
    storage.database.close()
    for named in ("ann", key.id, expired.id, "nobody"):
        refused = assay("keys", "rotate", named, *data)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "no valid key" in refused.stderr


def test_the_list_of_keys_tells_what_each_was_used_for(tmp_path):
    data = ("--data-dir", str(tmp_path))
    secret = assay("keys", "add", "ann", *data).stdout.strip()
    assert "never used" in assay("keys", "list", *data).stdout
    storage = open_storage(f"sqlite:///{tmp_path / 'assay.db'}")
    key = storage.keys.find(secret)
    accept(storage, tenant=key.id)
    accept(storage, tenant=key.id)
    finish_next(storage)
    storage.database.close()
    listed = assay("keys", "list", *data).stdout
    assert "2 evaluations in 24 h, 1 under way, 2 kept" in listed
    assert f"last used {time.strftime('%Y-%m-', time.gmtime())}" in listed


@pytest.mark.parametrize("words", [("",), (" ",), ("a\nb",), ("x" * 101,), ("a", "--expires-days", "1e300")])
def test_keys_that_cannot_be(tmp_path, words):
    refused = assay("keys", "add", *words, "--data-dir", str(tmp_path))
    assert refused.exit_code == 2
    assert "assay: " in refused.stderr


@pytest.mark.parametrize("option", ["--expires-days=nan", f"--per-minute={10**22}", f"--concurrent={2**31}"])
def test_a_number_that_no_key_can_have_makes_no_key(tmp_path, option):
    assert assay("keys", "add", "a", option, "--data-dir", str(tmp_path)).exit_code == 2
    assert assay("keys", "list", "--data-dir", str(tmp_path)).stdout == ""
