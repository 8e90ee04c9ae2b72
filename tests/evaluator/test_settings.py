from pathlib import Path

import pytest

from evaluator.errors import UsageError
from evaluator.settings import MachineSettings

NAMES = ("ASSAY_DATA_DIR", "ASSAY_CACHE_BYTES", "ASSAY_SANDBOX", "XDG_CACHE_HOME")


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
