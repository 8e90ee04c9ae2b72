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
from scripts.figures import pages

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


# `assay grade` ends with 1 where a kernel is not right, as some of these are meant to.
TRAP = """set -uo pipefail
trap 'code=$?; case "$BASH_COMMAND:$code" in "assay grade "*:1) ;; *) exit $code ;; esac' ERR
"""


def run(language, code, address, known, folder, data):
    code = code.replace(ADDRESS, address)
    command = ["bash", "-c", f"{TRAP}{code}\nexit 0"] if language == "sh" else [sys.executable, "-c", code]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    path = f"{ASSAY.parent}:{kept['PATH']}"
    own = {"ID": known, "PATH": path, "ASSAY_DATA_DIR": str(data), "COLUMNS": "100"}
    ended = subprocess.run(
        command, cwd=folder, env={**kept, **own}, capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode == 0, f"{code}\n{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}"
    assert "urn:assay:problem" not in ended.stdout
    assert ended.stdout.strip()
    return ended.stdout


@pytest.fixture
def here(tmp_path):
    """An empty folder, and a data folder with the suite's compiled programs."""
    folder, data = tmp_path / "here", tmp_path / "data"
    folder.mkdir()
    data.mkdir()
    (data / "cache").symlink_to(ROOT / ".assay" / "tests" / "cache")
    return folder, data


def marked_blocks(page):
    """Language, code and (where a comment in front of the block says so) why it is not run, of every block."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"^(?:<!-- not run: ([^>]+) -->\n)?```(sh|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    fences = re.findall(r"^ *```(?:sh|bash|shell|console|python|py)\b", text, re.MULTILINE)
    assert len(found) == len(fences), f"{page.name}: a block that is not seen here"
    return [(language, code, why) for why, language, code in found]


# The blocks that no test runs, by page, each with what it would need. All others are run.
NOT_RUN = {
    "README.md": [
        "installs into the checkout",
        "installs into this Python",
        "stays in the foreground",
        "needs a GPU",
    ],
    "code.md": ["takes minutes to hours"],
    "foreign_problems.md": ["needs a GPU", "needs files of others"],
    "host_tier.md": ["needs a GPU"],
    "on-a-gpu.md": ["needs a GPU"],
    "operators.md": [
        "stays in the foreground",
        "needs Docker",
        "needs PostgreSQL and Redis",
        "needs a GPU",
        "needs Docker and a GPU",
        "needs the program sqlite3 and a running service",
        "needs a stopped service",
        "needs Docker",
        "needs Docker",
        "needs Docker",
    ],
    "training.md": [
        "takes half an hour",
        "needs a GPU",
        "takes minutes to hours",
        "takes minutes",
        "fetches 93 MB",
        "needs a GPU",
        "needs machines at AWS",
        "needs a training run",
        "needs a training run",
        "needs Docker",
        "needs Docker and a quarter of an hour",
    ],
}
SEEN_ELSEWHERE = {"api.md"}  # below, with what its examples answer
TO_RUN = [
    page for page in pages() if page.name not in SEEN_ELSEWHERE and any(not why for _, _, why in marked_blocks(page))
]


def test_what_is_not_run_is_listed_with_its_reason():
    found = {page.name: [why for _, _, why in marked_blocks(page) if why] for page in pages()}
    assert {name: reasons for name, reasons in found.items() if reasons} == NOT_RUN


@pytest.mark.parametrize(
    "page", [page for page in TO_RUN if page.name not in SEEN_ELSEWHERE], ids=lambda page: page.name
)
def test_every_command_of_a_page_works_from_an_empty_folder(page, address, known, here):
    said = [run(language, code, address, known, *here) for language, code, why in marked_blocks(page) if not why]
    if page.name == "README.md":
        shell, program = said
        assert re.findall(r"[✓✗] (\w+) in phase", shell) == ["incorrect", "passed"]
        assert "y[0] was never written" in shell
        lines = program.splitlines()
        assert float(lines[0]) > 0.5
        assert [line.split()[0] for line in lines[1:]] == ["passed", "compile_error"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_example_of_the_api_works(address, known, here):
    said = [
        run(language, code, address, known, *here) for language, code in blocks("docs/api.md", "", "sh", "python")
    ]
    one, asked, own, twice, batch, live, program = said
    assert json.loads(one)["verdict"]["reward"]["name"] == "gated"
    assert f'"id":"{known}"' in asked
    assert json.loads(own)["submission"]["problem"].startswith("kernelbench_torch_")
    assert json.loads(own)["verdict"]["status"] == "passed"
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
