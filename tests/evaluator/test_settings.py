import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluator.errors import UsageError
from evaluator.settings import MachineSettings, kept_secret

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


def test_a_secret_is_made_once_however_many_ask_for_it(tmp_path):
    with ThreadPoolExecutor(16) as threads:
        found = set(threads.map(lambda number: kept_secret(tmp_path / "secret"), range(64)))
    assert len(found) == 1
    assert len(found.pop()) == 64
    assert [one.name for one in tmp_path.iterdir()] == ["secret"]
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
