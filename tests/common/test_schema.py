import json
import subprocess
import sys

from common.contract import CONTRACT_VERSION
from common.schema import PATH, export, stale


def test_the_committed_schema_is_the_contract():
    reason = stale(PATH.read_text(encoding="utf-8"), export())
    assert reason is None, reason


def test_a_changed_contract_needs_a_new_version():
    committed = json.loads(export())
    committed["$defs"]["Submission"]["properties"].pop("dialect")
    reason = stale(json.dumps(committed), export())
    assert "raise it in common/contract.py" in reason
    assert CONTRACT_VERSION in reason


def test_a_new_version_needs_an_export():
    committed = {**json.loads(export()), "version": "0.0"}
    assert "run `python -m common.schema` and commit" in stale(json.dumps(committed), export())
    assert "run `python -m common.schema` and commit" in stale("", export())


def test_the_schema_holds_every_message_and_says_what_fields_mean():
    schema = json.loads(export())
    assert set(schema["messages"]) == {"Submission", "Evaluation", "Verdict", "ProblemFace"}
    for reference in schema["messages"].values():
        assert reference["$ref"].removeprefix("#/$defs/") in schema["$defs"]
    assert "1 MiB" in schema["$defs"]["Submission"]["properties"]["source"]["description"]


def test_the_command_leaves_an_up_to_date_file_as_it_is():
    before = PATH.read_bytes()
    subprocess.run([sys.executable, "-m", "common.schema"], check=True, cwd=PATH.parents[2])
    assert PATH.read_bytes() == before
