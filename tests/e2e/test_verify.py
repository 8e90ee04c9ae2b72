"""`assay verify` as people use it: on another machine, after a change, of a service's evaluation, of old verdicts."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from common.signature import Signer
from evaluator.cli import remote

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "examples" / "passes_naive.cu"
BROKEN = ROOT / "examples" / "does_not_compile.cu"


def assay(*arguments, folder, code=ROOT, **environment):
    """Run the command with nothing of this user's but `folder` (its home and data), from the code under `code`."""
    own = {"HOME": str(folder), "ASSAY_DATA_DIR": str(folder / "data"), "PYTHONPATH": str(code), **environment}
    return subprocess.run(
        [sys.executable, "-m", "evaluator", *map(str, arguments)],
        env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **own},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def grader(tmp_path_factory, toolbox):
    """A machine that has graded two files, and printed its key."""
    folder = tmp_path_factory.mktemp("grader")
    (folder / "data").mkdir()
    (folder / "data" / "cache").symlink_to(toolbox.cache.root)
    for file, name, code in ((SOURCE, "good", 0), (BROKEN, "broken", 1)):
        ended = assay("grade", file, "--receipt", folder / f"{name}.json", folder=folder)
        assert ended.returncode == code, ended.stderr
    shown = assay("keys", "signing", folder=folder)
    assert shown.returncode == 0, shown.stderr
    (folder / "grader.pub").write_text(shown.stdout)
    return folder


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """Another machine: another home, another data folder, a copy of the code, and no compiler."""
    folder = tmp_path_factory.mktemp("elsewhere")
    for package in ("common", "evaluator"):
        shutil.copytree(ROOT / package, folder / "code" / package, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "bin").mkdir()

    def verify(*arguments):
        return assay(
            "verify", *arguments, folder=folder, code=folder / "code", PATH=str(folder / "bin"), CUDA_HOME=""
        )

    return verify


@pytest.mark.parametrize(("name", "source"), [("good", SOURCE), ("broken", BROKEN)])
def test_a_receipt_is_verified_on_another_machine(name, source, grader, elsewhere):
    ended = elsewhere(grader / f"{name}.json", "--source", source, "--key", grader / "grader.pub")
    assert ended.returncode == 0, ended.stdout
    assert "ok    source" in ended.stdout
    assert "Verified: " in ended.stdout.splitlines()[-1]
    digits = (grader / "grader.pub").read_text().strip()
    assert elsewhere(grader / f"{name}.json", "--key", digits).returncode == 0


def test_a_key_that_nobody_vouches_for_is_not_trusted_and_none_is_made(grader, elsewhere):
    ended = elsewhere(grader / "good.json", "--source", SOURCE)
    assert ended.returncode == 1
    assert "Signed by an unknown key" in ended.stdout
    last = ended.stdout.splitlines()[-1]
    assert last.startswith("Not verified: this was signed elsewhere, and no key but that of this installation is")
    assert "Name the signer's public key with --key" in last
    ended = elsewhere(grader / "good.json", "--key", Signer("1" * 64).public_key)
    assert ended.returncode == 1
    last = ended.stdout.splitlines()[-1]
    assert last.startswith("Not verified: none of the signers that you named has signed this")


def test_a_changed_receipt_and_an_unsigned_one_are_refused(grader, elsewhere, tmp_path):
    verdict = json.loads((grader / "good.json").read_text())
    key = grader / "grader.pub"
    shown = tmp_path / "shown.json"
    shown.write_text(json.dumps(verdict | {"message": "Right in all 16 trials, at 9 sizes."}))
    ended = elsewhere(shown, "--key", key, "--json")
    assert ended.returncode == 1
    told = json.loads(ended.stdout)
    assert not told["verified"]
    assert [check["name"] for check in told["checks"] if check["outcome"] == "failed"] == ["signature"]
    del verdict["receipt"]["signature"], verdict["receipt"]["graded_at"], verdict["receipt"]["sandbox_image"]
    shown.write_text(json.dumps(verdict))
    ended = elsewhere(shown, "--key", key)
    assert ended.returncode == 1
    assert "It is not signed: its grader was older than signatures" in ended.stdout


def test_the_grader_itself_verifies_and_grades_again(grader):
    ended = assay("verify", grader / "good.json", "--source", SOURCE, "--rerun", folder=grader)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "ok    rerun: rest" in ended.stdout
    ended = assay("verify", grader / "good.json", "--source", BROKEN, "--rerun", folder=grader)
    assert ended.returncode == 1
    assert "compile_error in phase compile, and the verdict says passed" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere.json",), "nowhere.json cannot be read: No such file"),
        (("{good}", "--source", "nowhere.cu"), "nowhere.cu cannot be read"),
        (("{good}", "--key", "nobody"), "nobody cannot be read"),
        (("{good}", "--key", "{good}"), "holds no public key"),
        (("{good}", "--plan", "{good}"), "is not a launch plan"),
        (("{good}", "--rerun"), "--rerun needs the source"),
        (("http://127.0.0.1:9/problems",), "is not the address of an evaluation"),
        ((), "Missing argument"),
    ],
)
def test_wrong_usage_is_no_verdict_on_the_receipt(arguments, said, grader):
    ended = assay("verify", *(one.format(good=grader / "good.json") for one in arguments), folder=grader)
    assert ended.returncode == 2, ended.stdout
    assert said in ended.stderr


def test_the_private_key_is_for_its_owner_alone(grader):
    file = grader / "data" / "signing-key"
    assert file.stat().st_mode & 0o777 == 0o600
    assert Signer(file.read_text()).public_key == (grader / "grader.pub").read_text().strip()
    others = [path for path in grader.rglob("*") if path.is_file() and path != file]
    assert [path for path in others if file.read_bytes() in path.read_bytes()] == []


def test_a_service_signs_with_the_key_that_it_names(grader, elsewhere, tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_DATA_DIR", str(grader / "data"))
    with remote.local_service("auto") as service, httpx.Client(timeout=120) as http:
        address = service.address()
        submission = {"problem": "vector_add", "source": SOURCE.read_text()}
        answer = http.post(f"{address}/evaluate", json=submission, headers={"Prefer": "wait=0"})
        here = f"{address}/evaluations/{answer.json()['id']}"
        # Its worker may have the simulator's runtime to build first: on a busy machine that takes minutes.
        while http.get(here, headers={"Prefer": "wait=60"}).json()["state"] != "done":
            pass
        (tmp_path / "receipt.json").write_text(http.get(f"{here}/receipt").text)
        (tmp_path / "evaluation.json").write_text(http.get(here).text)
        (key,) = http.get(f"{address}/version").json()["signing_keys"]
        assert key == (grader / "grader.pub").read_text().strip()
        for shown in (here, f"{here}/receipt", tmp_path / "receipt.json", tmp_path / "evaluation.json"):
            ended = elsewhere(shown, "--key", key, "--source", SOURCE)
            assert ended.returncode == 0, f"{shown}: {ended.stdout} {ended.stderr}"
        page = http.get(here, headers={"Accept": "text/html"}).text
        assert Signer((grader / "data" / "signing-key").read_text()).key_id in page
        assert (grader / "data" / "signing-key").read_text() not in page
