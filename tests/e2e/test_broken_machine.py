"""The real command on a machine where something is missing: our own fault, with its remedy and without a reward."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ASSAY = Path(sys.executable).with_name("assay")

NAIVE = ROOT / "examples" / "passes_naive.cu"
ENDLESS = ROOT / "tests" / "takes_half_a_minute.cu"
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else or mount a small disk")


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"ASSAY_NVCC": "/nowhere/nvcc"}, "ASSAY_NVCC names /nowhere/nvcc"),
        ({"ASSAY_NVCC": "/bin/false"}, "not complete"),
        ({"PATH": "/nowhere"}, "host C++ compiler"),
        ({"ASSAY_DATA_DIR": "/dev/null/data"}, "/dev/null/data"),
        ({"ASSAY_DATA_DIR": "/proc/assay"}, "/proc/assay"),
    ],
    ids=["no nvcc", "another program as nvcc", "no host compiler", "data folder in a file", "data folder in /proc"],
)
def test_what_is_missing_is_an_internal_error_with_its_remedy(environment, message, assay):
    assay.environment |= environment
    verdict = assay.verdict(NAIVE, exit_code=3)
    assert message in verdict["message"]
    assert verdict["hint"]
    card = assay("grade", NAIVE)
    assert card.returncode == 3
    assert "internal_error" in card.stdout
    doctor = assay("doctor")
    assert doctor.returncode == 1
    assert "FAIL" in doctor.stdout


@pytest.mark.parametrize(
    "environment",
    [
        {"ASSAY_SANDBOX": "vault"},
        {"ASSAY_CACHE_BYTES": "²"},
        {"ASSAY_CACHE_BYTES": "9" * 5000},
        {"ASSAY_CACHE_BYTES": "-1"},
        {"ASSAY_DATA_DIR": "~nobody-of-this-name/x"},
    ],
    ids=["unknown sandbox", "odd digit", "far too many", "negative", "home of nobody"],
)
def test_a_setting_that_cannot_be_is_wrong_usage(environment, assay):
    assay.environment |= environment
    for arguments in (["grade", NAIVE, "--json"], ["doctor"], ["demo"]):
        ended = assay(*arguments)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert len(ended.stderr) < 1000


@ROOT_ONLY
def test_a_full_disk(assay):
    """The data folder lies on a disk of 64 KiB, mounted for this one command only."""
    if not shutil.which("unshare"):
        pytest.skip("no unshare on this machine")
    small = assay.folder / "small"
    small.mkdir()
    script = 'mount -t tmpfs -o size=64k tmpfs "$0" && exec "$@"'
    if subprocess.run(
        ["unshare", "-m", "sh", "-c", script, small, "true"], check=False, capture_output=True
    ).returncode:
        pytest.skip("this container may not mount a small disk")
    assay.environment["ASSAY_DATA_DIR"] = str(small / "data")
    assay.wrapper = ["unshare", "-m", "sh", "-c", script, str(small)]
    verdict = assay.verdict(NAIVE, exit_code=3)
    assert "No space left" in verdict["message"]
    assert "ASSAY_DATA_DIR" in verdict["hint"]


def as_nobody(assay):
    if subprocess.run(
        ["setpriv", "--reuid=65534", "--", ASSAY, "--version"], check=False, capture_output=True
    ).returncode:
        pytest.skip("nobody cannot read this checkout")
    assay.wrapper = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    assay.environment.pop("HOME", None)


@ROOT_ONLY
def test_no_permission_for_the_data_folder(assay, tmp_path_factory):
    locked = tmp_path_factory.mktemp("locked")
    locked.chmod(0o755)
    as_nobody(assay)
    assay.folder = Path("/")
    assay.environment["ASSAY_DATA_DIR"] = str(locked / "data")
    verdict = assay.verdict("-", exit_code=3, input=NAIVE.read_text())
    assert "Permission denied" in verdict["message"]
    assert "ASSAY_DATA_DIR" in verdict["hint"]


@ROOT_ONLY
def test_a_user_without_a_home(assay):
    """Containers often run as a number that has no entry in /etc/passwd."""
    if not shutil.which("setpriv"):
        pytest.skip("no setpriv on this machine")
    assay.wrapper = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "--"]
    assay.environment.pop("HOME", None)
    assay.folder = Path("/")
    data = Path("/tmp") / f"assay-of-nobody-{os.getpid()}"
    data.mkdir()
    os.chown(data, 54321, 54321)
    try:
        assay.environment["ASSAY_DATA_DIR"] = str(data)
        assert assay("problems").returncode == 0
        verdict = assay.verdict("-", input=NAIVE.read_text())
        # Where Python lies in root's own folder, no other user can start the sandbox's warden: said, not crashed.
        assert verdict["status"] == "passed" or "Permission denied" in verdict["message"]
    finally:
        shutil.rmtree(data)


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listed.splitlines()]
    fresh = {pid}
    while fresh:
        fresh = {child for child, parent in pairs if parent in fresh}
        found |= fresh
    return found


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_whoever_is_ended_in_the_middle_of_a_run_leaves_nothing(how, assay):
    started = subprocess.Popen(
        [ASSAY, "grade", ENDLESS, "--timeout", "30", "--json"],
        cwd=assay.folder,
        env=assay.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # Four processes at least: the warden's parent, the warden, and what it keeps; a second more for the run itself.
    deadline = time.monotonic() + 60
    while not (assay.work() and len(descendants(started.pid)) >= 3) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    children = descendants(started.pid)
    assert children
    os.killpg(started.pid, how)
    said, complaint = started.communicate(timeout=20)
    assert said == ""
    if how is signal.SIGINT:
        assert started.returncode == 130
        assert complaint.count("\n") == 1
        assert "interrupted" in complaint
    assert "Traceback" not in complaint
    deadline = time.monotonic() + 20
    while (assay.work() or any(Path(f"/proc/{pid}").exists() for pid in children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
    assert assay.work() == []


def test_ctrl_c_while_the_command_is_still_being_imported_is_quiet(assay):
    started = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "evaluator", "--version"],
        env=assay.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in started.stderr:
        if line.rstrip().endswith(" click.core"):
            started.send_signal(signal.SIGINT)
            break
    said, complaint = started.communicate(timeout=20)
    assert (started.returncode, said) == (130, "")
    assert "Traceback" not in complaint
    assert "interrupted" in complaint


def test_a_cache_that_cannot_be_written_costs_time_only(assay):
    cache = Path(assay.environment["ASSAY_DATA_DIR"], "cache")
    cache.unlink()
    cache.write_text("not a folder")
    assert assay.verdict(NAIVE, exit_code=0)["status"] == "passed"


def test_the_doctor_of_a_healthy_machine(assay):
    ended = assay("doctor")
    assert ended.returncode == 0, ended.stdout
    lines = [line for line in ended.stdout.splitlines() if line[:4].strip()]
    assert [line[6:19].strip() for line in lines] == [
        *("assay", "compiler", "sandbox", "data folder", "simulator", "GPU", "host tier", "references", "triton"),
        *("service", "Docker"),
    ]


def test_problems_as_json_are_what_the_contract_says(assay):
    listed = json.loads(assay("problems", "--json").stdout)
    assert len(listed) >= 20
    assert json.loads(assay("problems", "softmax", "--json").stdout) == next(
        p for p in listed if p["id"] == "softmax"
    )
