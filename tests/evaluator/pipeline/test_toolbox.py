"""The tools of one process: the key that its verdicts are signed with, and what is made ahead."""

import threading

import pytest

from common.signature import Signer
from evaluator.backends.sim import backend
from evaluator.cancellation import CancelToken
from evaluator.errors import StorageError
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings


def test_the_data_folder_keeps_one_key_for_all_its_toolboxs(tmp_path):
    first, second = (Toolbox(MachineSettings(tmp_path / "data")) for _ in range(2))
    assert first.signer.public_key == second.signer.public_key == first.bound_to(CancelToken()).signer.public_key
    assert Toolbox(MachineSettings(tmp_path / "other")).signer.public_key != first.signer.public_key


def test_the_owners_key_comes_before_the_kept_one(tmp_path):
    signer = Toolbox(MachineSettings(tmp_path, signing_key="1" * 64)).signer
    assert signer.public_key == Signer("1" * 64).public_key
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_key_is_never_replaced_in_silence(tmp_path):
    (tmp_path / "signing-key").write_text("no key")
    with pytest.raises(StorageError, match="signing-key is damaged") as caught:
        _ = Toolbox(MachineSettings(tmp_path)).signer
    assert "Put the key back" in caught.value.remedy
    assert (tmp_path / "signing-key").read_text() == "no key"


def test_without_a_place_for_a_key_there_is_none(tmp_path):
    (tmp_path / "file").touch()
    assert Toolbox(MachineSettings(tmp_path / "file" / "data")).signer is None


def prepared(toolbox):
    toolbox.prepare_simulator()
    for thread in threading.enumerate():
        if thread.name == "prepare-simulator":
            thread.join(60)


def test_what_is_made_ahead_is_there_and_is_made_once(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(
        backend.Simulator, "_objects", lambda self, part: made.append(part) or dict.fromkeys(part, b"")
    )
    monkeypatch.setattr(backend, "_object_of", lambda source: source)
    toolbox = Toolbox(MachineSettings(tmp_path))
    prepared(toolbox)
    assert sorted(name for part in made for name in part) == sorted(backend._RUNTIME_SOURCES)
    assert len(made) == toolbox.simulator.cores
    toolbox.simulator.warm_up()
    assert len(made) == toolbox.simulator.cores
    assert tuple(toolbox.simulator._runtime()) == backend._RUNTIME_SOURCES


def test_what_cannot_be_made_ahead_is_told_to_who_needs_it(tmp_path, capfd):
    (tmp_path / "file").touch()
    toolbox = Toolbox(MachineSettings(tmp_path / "file" / "data"))
    prepared(toolbox)
    assert capfd.readouterr() == ("", "")
    with pytest.raises(StorageError, match="cannot be made"):
        _ = toolbox.simulator


@pytest.mark.parametrize("count", [1, 2, 8, 100])
def test_the_runtime_is_compiled_in_parts_of_about_the_same_length(count):
    parts = backend._parts(count)
    assert len(parts) == min(count, len(backend._RUNTIME_SOURCES))
    lengths = [sum(len((backend.RUNTIME / name).read_bytes()) for name in part) for part in parts]
    if count < 5:
        assert max(lengths) < 1.1 * min(lengths)


def test_of_parts_that_fail_the_first_is_told():
    def fails():
        raise StorageError("no room", "Make some.")

    with pytest.raises(StorageError, match="no room"):
        backend._at_once([dict, fails, dict])
