import os
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from pathlib import Path

import pytest
from click.testing import CliRunner

from evaluator.cli.main import main
from evaluator.errors import UsageError
from evaluator.settings import (
    MachineSettings,
    ServiceSettings,
    _keep_names,
    kept_secret,
    unknown_variables,
    variables,
)

ROOT = Path(__file__).parents[2]

NAMES = (
    *("ASSAY_DATA_DIR", "ASSAY_CACHE_BYTES", "ASSAY_SANDBOX", "XDG_CACHE_HOME"),
    *("ASSAY_SIGNING_KEY", "ASSAY_SIGNING_KEY_FILE"),
)


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/someone")


def test_without_anything_set():
    assert MachineSettings.from_environment() == MachineSettings(Path("/home/someone/.cache/assay"), 4 << 30, "auto")


@pytest.mark.parametrize(
    ("given", "data_dir"),
    [
        ({"ASSAY_DATA_DIR": "/data", "XDG_CACHE_HOME": "/cache"}, "/data"),
        ({"ASSAY_DATA_DIR": "~/data"}, "/home/someone/data"),
        ({"ASSAY_DATA_DIR": "", "XDG_CACHE_HOME": ""}, "/home/someone/.cache/assay"),
        ({"XDG_CACHE_HOME": "/cache"}, "/cache/assay"),
        ({"ASSAY_DATA_DIR": "data"}, str(Path("data").absolute())),
    ],
)
def test_the_data_folder(given, data_dir, monkeypatch):
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert MachineSettings.from_environment().data_dir == Path(data_dir)


@pytest.mark.parametrize("sandbox", ["auto", "bubblewrap", "process"])
def test_the_sandbox_and_the_cache(sandbox, monkeypatch):
    monkeypatch.setenv("ASSAY_SANDBOX", sandbox)
    monkeypatch.setenv("ASSAY_CACHE_BYTES", "1048576")
    settings = MachineSettings.from_environment()
    assert (settings.sandbox, settings.cache_bytes) == (sandbox, 1 << 20)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("ASSAY_CACHE_BYTES", value) for value in ("", "x", "-1", "1e9", "²", "١٢٣٤٥٦٧", "1048575", "9" * 5000)],
        *[("ASSAY_SANDBOX", value) for value in ("", "podman", "Auto", "process ")],
        ("ASSAY_DATA_DIR", "~nobody-of-this-name/data"),
    ],
)
def test_a_value_that_cannot_be_is_named_with_what_would_be_right(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as caught:
        MachineSettings.from_environment()
    assert caught.value.remedy
    assert len(str(caught.value)) < 300


# ---- the key that verdicts are signed with ----

KEY = "0123456789abcdef" * 4


def test_a_signing_key_of_the_owner(monkeypatch, tmp_path):
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    monkeypatch.setenv("ASSAY_SIGNING_KEY_FILE", str(file))
    assert MachineSettings.from_environment().signing_key == KEY
    monkeypatch.setenv("ASSAY_SIGNING_KEY", "f" * 64)
    settings = MachineSettings.from_environment()
    assert settings.signing_key == "f" * 64
    assert "ffff" not in repr(settings)


@pytest.mark.parametrize("key", ["short", KEY.upper(), KEY + "0", f"{KEY}\n"])
def test_what_is_no_signing_key_is_refused_and_not_shown(key, monkeypatch):
    monkeypatch.setenv("ASSAY_SIGNING_KEY", key)
    with pytest.raises(UsageError, match="64 hexadecimal digits") as caught:
        MachineSettings.from_environment()
    assert key not in f"{caught.value} {caught.value.remedy}"


@pytest.mark.parametrize(("content", "said"), [(None, "cannot be read"), ("", "is empty"), ("x", "64 hexadecimal")])
def test_a_file_without_a_signing_key_is_refused(content, said, monkeypatch, tmp_path):
    file = tmp_path / "key"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("ASSAY_SIGNING_KEY_FILE", str(file))
    with pytest.raises(UsageError, match=said) as caught:
        MachineSettings.from_environment()
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("is_torn", [False, True], ids=["none yet", "an empty one, as a lost disk leaves it"])
def test_a_secret_is_made_once_however_many_ask_for_it(tmp_path, is_torn):
    if is_torn:
        (tmp_path / "secret").touch(0o600)
    with ThreadPoolExecutor(16) as threads:
        found = set(threads.map(lambda number: kept_secret(tmp_path / "secret"), range(64)))
    assert len(found) == 1
    assert len(found.pop()) == 64
    assert [one.name for one in tmp_path.iterdir()] == ["secret"]
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


# ---- the service's settings ----


def test_the_service_without_anything_set(monkeypatch):
    for name in variables():
        monkeypatch.delenv(name, raising=False)
    settings = ServiceSettings.from_environment()
    folder = Path("/home/someone/.cache/assay")
    expected = ServiceSettings(folder, f"sqlite:///{folder}/assay.db", workers=os.cpu_count())
    assert settings == expected


def test_each_variable_of_the_service_is_read(monkeypatch):
    given = {
        "ASSAY_DATA_DIR": "/data", "ASSAY_DATABASE_URL": "postgresql://x", "ASSAY_BROKER_URL": "redis://:x@there/0",
        "ASSAY_HOST": "0.0.0.0", "ASSAY_PORT": "0", "ASSAY_WORKERS": "3", "ASSAY_REQUIRE_KEYS": "1",
        "ASSAY_SECRET": "text", "ASSAY_MOST_QUEUED": "4", "ASSAY_WAIT_S": "5", "ASSAY_MOST_WAIT_S": "6",
        "ASSAY_BODY_BYTES": "7000", "ASSAY_BATCH_BYTES": "8000", "ASSAY_BODIES_BYTES": "9000",
        "ASSAY_MOST_REFERENCES": "0",
        "ASSAY_RECEIVE_S": "10", "ASSAY_CONNECTIONS": "11", "ASSAY_LEASE_S": "12", "ASSAY_DRAIN_S": "13",
        "ASSAY_RETAIN_S": "1400", "ASSAY_ADDRESS_CONNECTIONS": "15",
    }  # fmt: skip
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert astuple(ServiceSettings.from_environment()) == (
        *(Path("/data"), "postgresql://x", "redis://:x@there/0", "0.0.0.0", 0, 3, True, "text"),
        *(4, 0, 5, 6, 7000, 8000, 9000, 10, 11, 15, 12, 13, 1400),
    )


@pytest.mark.parametrize(
    ("name", "value", "said", "remedy"),
    [
        ("ASSAY_LEASE_S", "2", "ASSAY_LEASE_S is '2'.", "Set it to a number of seconds, at least 3."),
        ("ASSAY_PORT", "http", "ASSAY_PORT is 'http'.", "Set it to a port, at least 0."),
        ("ASSAY_REQUIRE_KEYS", "yes", "ASSAY_REQUIRE_KEYS is 'yes'.", "Set it to 1 or 0."),
        ("ASSAY_SANDBOX", "x", "ASSAY_SANDBOX is 'x'.", "Set it to one of auto, docker, bubblewrap, process."),
    ],
)
def test_what_is_wrong_is_said_with_what_would_be_right(name, value, said, remedy, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError) as caught:
        ServiceSettings.from_environment()
    assert (str(caught.value), caught.value.remedy) == (said, remedy)


def test_an_address_of_no_redis_is_refused_and_its_password_not_shown(monkeypatch):
    monkeypatch.setenv("ASSAY_BROKER_URL", "postgres://:hunter2@there")
    with pytest.raises(UsageError, match="no address of a Redis") as caught:
        ServiceSettings.from_environment()
    assert "hunter2" not in f"{caught.value} {caught.value.remedy} {caught.value.__cause__}"


# ---- variables that nobody reads ----


def test_a_slip_of_the_pen_is_named_with_what_was_meant():
    slip = "ASSAY_" + "SANDBOXX"
    assert unknown_variables({slip: "docker", "PATH": "/bin"}) == (
        f"no setting is called {slip}; did you mean ASSAY_SANDBOX?",
    )
    assert unknown_variables({"ASSAY_" + "QQQQQ": "1"}) == ("no setting is called " + "ASSAY_" + "QQQQQ.",)


def test_what_the_repository_reads_is_no_slip():
    # Macros of C++ are none of the environment.
    command = ["git", "grep", "-hoE", r"\bASSAY_[A-Z]+(_[A-Z]+)*\b", "--", ".", ":!*.h", ":!*.cpp"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    named = set(listed.stdout.split())
    if not named:
        pytest.skip("no git checkout")
    assert {"ASSAY_TEST_EVERYTHING", "ASSAY_TRAIN_CONFIG", *variables()} <= named
    assert unknown_variables(dict.fromkeys(named, "1")) == ()


@pytest.mark.parametrize("command", [["grade", "nothing.cu"], ["problems", "relu", "--json"]])
def test_the_command_says_it_on_stderr_and_goes_on(command):
    slip = "ASSAY_" + "CACHE_BYTE"
    told = CliRunner().invoke(main, command, env={slip: "1"})
    assert f"assay: no setting is called {slip}; did you mean ASSAY_CACHE_BYTES?" in told.stderr
    assert slip not in told.stdout
    plain = CliRunner().invoke(main, command)
    assert (told.exit_code, told.stdout) == (plain.exit_code, plain.stdout)


def test_a_file_system_that_cannot_be_asked_to_keep_names_is_no_failure():
    """As that of /proc, which answers EINVAL."""
    descriptor = os.open("/proc/self", os.O_RDONLY)
    try:
        with pytest.raises(OSError, match="Invalid argument"):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    _keep_names(Path("/proc/self"))
