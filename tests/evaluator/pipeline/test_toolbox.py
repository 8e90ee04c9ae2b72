"""The tools of one process: the key that its verdicts are signed with."""

import pytest

from common.signature import Signer
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
