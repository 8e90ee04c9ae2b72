"""What README.md and docs/ tell callers is tried: every command and program, on a real `assay serve`."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from common.client import Client
from common.contract import Submission
from evaluator.problems.catalogue import problems

ROOT = Path(__file__).parents[2]
ASSAY = Path(sys.executable).with_name("assay")
ADDRESS = "http://127.0.0.1:8000"


def blocks(name, section, *languages):
    """The code of one section of a document (of all sections, without one), by language."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if section:
        text = re.search(rf"^## {section}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]
    found = re.findall(rf"^```({'|'.join(languages)})\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert {language for language, _ in found} == set(languages)
    return found


@pytest.fixture(scope="module")
def address(tmp_path_factory, toolbox):
    """A server with a data folder of its own and the suite's warm cache."""
    cache = toolbox.settings.data_dir / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    data = tmp_path_factory.mktemp("documents")
    (data / "cache").symlink_to(cache)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    command = [ASSAY, "serve", "--port", "0", "--workers", "1", "--data-dir", data]
    with (
        (data / "log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment) as process,
    ):
        try:
            said = process.stdout.readline()
            assert "http://" in said, (data / "log").read_text()[-2000:]
            yield said.split()[-1]
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def known(address):
    """The id of an evaluation that is done."""
    with Client(address) as client:
        ids = []
        naive = Submission(problem="relu", source=problems()["relu"].naive.source)
        assert client.evaluate(naive, progress=lambda evaluation: ids.append(evaluation.id)).status == "passed"
        return ids[0]


def run(language, code, address, known):
    code = code.replace(ADDRESS, address).replace(".venv/bin/assay", str(ASSAY))
    command = ["bash", "-euo", "pipefail", "-c"] if language == "sh" else [sys.executable, "-c"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    ended = subprocess.run(
        [*command, code],
        cwd=ROOT,
        env={**environment, "ID": known, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "urn:assay:problem" not in ended.stdout
    assert ended.stdout.strip()
    return ended.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_what_the_readme_says_to_callers_works(address, known):
    (shell, program) = blocks("README.md", "Ask a service", "sh", "python")
    said = run(*shell, address, known)
    assert '"status":"passed"' in said
    assert "✓ passed" in said
    lines = run(*program, address, known).splitlines()
    assert [line.split()[0] for line in lines] == ["passed", "passed", "compile_error"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_example_of_the_api_works(address, known):
    said = [run(language, code, address, known) for language, code in blocks("docs/api.md", "", "sh", "python")]
    one, asked, twice, batch, live, program = said
    assert json.loads(one)["verdict"]["reward"]["name"] == "gated"
    assert f'"id":"{known}"' in asked
    assert "202 Accepted" in twice
    lines = [json.loads(line) for line in batch.splitlines() if line]
    ends = {line["index"]: line["evaluation"]["verdict"]["status"] for line in lines}
    assert ends == {0: "passed", 1: "incorrect"}
    assert "event: done" in live
    assert program.splitlines()[-2:] == ["passed", "passed"]


def test_the_api_page_lists_every_route(address):
    with urllib.request.urlopen(f"{address}/openapi.json") as answer:
        paths = json.load(answer)["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    listed = re.findall(r"^\| `([A-Z]+ /\S*)` \|", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(routes)
