"""`assay grade --server` and the client against a real `assay serve`, which is also killed under them."""

import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from common.client import Client, RequestRefusedError
from common.contract import Settings, Status, Submission
from evaluator.problems.catalogue import problems

ROOT = Path(__file__).parents[2]
ASSAY = Path(sys.executable).with_name("assay")
from serving import Serving  # noqa: E402
from small_service import ANSWERS, CUTS, Road  # noqa: E402

NAIVE = problems()["relu"].naive.source


@pytest.fixture(scope="module")
def service(tmp_path_factory, toolbox):
    (toolbox.settings.data_dir / "cache").mkdir(parents=True, exist_ok=True)
    serving = Serving(tmp_path_factory.mktemp("serving"))
    serving.start()
    yield serving
    serving.stop()


def submissions(count, first=0):
    """All the same work, each a submission of its own."""
    return [
        Submission(problem="relu", source=NAIVE, settings=Settings(target_speedup=2 + (first + number) / 1000))
        for number in range(count)
    ]


def test_a_file_is_graded_at_a_service_as_it_is_here(service, assay, write):
    kernel = write(NAIVE)
    here, there = (
        assay.verdict(kernel, "--problem", "relu"),
        assay.verdict(kernel, "--problem", "relu", "--server", service.url),
    )
    assert there["status"] == "passed"
    for name in ("status", "phase", "hint", "backend", "problem"):
        assert there[name] == here[name]
    assert there["reward"]["value"] == pytest.approx(here["reward"]["value"], abs=0.05)
    assert there["receipt"]["source_sha256"] == here["receipt"]["source_sha256"]
    wrong = write("__global__ void relu(const float* x, float* y, int n) { y[0] = ; }", "wrong.cu")
    assert assay.verdict(wrong, "--problem", "relu", "--server", service.url)["status"] == "compile_error"
    card = assay("grade", kernel, "--problem", "relu", "--server", service.url, "--report", "report.html")
    assert card.returncode == 0
    assert "passed" in card.stdout.lower()
    assert (assay.folder / "report.html").read_text().startswith("<!")


def test_what_a_service_cannot_take_is_said_in_plain_words(service, assay, write):
    kernel = write(NAIVE)
    text = assay("grade", write(b"\x00\xff binary", "b.cu"), "--problem", "relu", "--server", service.url)
    assert text.returncode == 2
    assert "not UTF-8 text (byte 1)" in text.stderr
    address = assay("grade", kernel, "--problem", "relu", "--server", "localhost:8000")
    assert address.returncode == 2
    assert "http://127.0.0.1:8000" in address.stderr
    size = assay("grade", kernel, "--problem", "relu", "--size", "m=7", "--server", service.url)
    assert size.returncode == 2
    assert "422" in size.stderr


def test_who_gave_no_key_hears_how_to_give_one_to_the_command(tmp_path, assay, write):
    serving = Serving(tmp_path / "serving")
    command, options = serving.assay("keys", "add", "ann")
    subprocess.run(command, check=True, capture_output=True, **options)
    serving.start()
    try:
        refused = assay("grade", write(NAIVE), "--problem", "relu", "--server", serving.url)
    finally:
        serving.stop()
    assert refused.returncode == 2
    assert "ASSAY_KEY" in refused.stderr
    assert "Authorization" not in refused.stderr


def test_a_bad_road_to_a_real_service_loses_and_doubles_nothing(service):
    road = Road(service.port, [*ANSWERS, None, *CUTS, None, *CUTS])
    before = len(service.rows())
    with road.open() as url, Client(url, patience_s=60) as client:
        verdicts = client.evaluate_many(submissions(12, first=100), concurrency=4)
    assert [verdict.status for verdict in verdicts] == [Status.PASSED] * 12
    assert service.rows()[before:] == ["done"] * 12


def test_a_repeat_costs_no_new_evaluation_unless_it_is_asked_for(service):
    # While no worker has been heard of nobody knows who would judge, and nothing is reused.
    until_s = time.monotonic() + 60
    while httpx.get(f"{service.url}/readyz", timeout=60).status_code != 200:
        assert time.monotonic() < until_s, "the service did not become ready"
        time.sleep(0.2)
    with Client(service.url) as client:
        (asked,) = submissions(1, first=200)
        first = client.evaluate(asked)
        before = len(service.rows())
        assert client.evaluate(asked) == first
        assert len(service.rows()) == before
        assert client.evaluate(asked, fresh=True) != first  # another seed
        assert len(service.rows()) == before + 1
        with pytest.raises(RequestRefusedError, match="422") as caught:
            client.evaluate(Submission(problem="reluu", source=NAIVE))
        assert caught.value.status_code == 422


def test_who_loses_interest_ends_the_job_that_runs(service):
    source = (ROOT / "tests" / "takes_half_a_minute.cu").read_text()
    seen = []

    def leave_once_it_runs(evaluation):
        seen.append(evaluation.id)
        if evaluation.progress:
            raise InterruptedError

    with Client(service.url) as client:
        with pytest.raises(InterruptedError):
            client.evaluate(Submission(problem="relu", source=source), progress=leave_once_it_runs)
        started = time.monotonic()
        assert client.result(seen[0]).status is Status.CANCELLED
        assert time.monotonic() - started < 15


def test_a_service_that_is_killed_and_comes_back_loses_nothing(tmp_path, toolbox):
    serving = Serving(tmp_path)
    road = Road(serving.start())
    try:
        with road.open() as url, Client(url, patience_s=120) as client:
            killed = []

            def kill_once(finished):
                if not killed:
                    killed.append(finished.index)
                    serving.kill()
                    road.port = serving.start()

            verdicts = client.evaluate_many(submissions(8), concurrency=8, progress=kill_once)
        assert killed
        assert [verdict.status for verdict in verdicts] == [Status.PASSED] * 8
        assert serving.rows() == ["done"] * 8
    finally:
        serving.stop()


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_where_no_service_answers_there_is_a_message_and_no_verdict(form, assay, write):
    options = ("--problem", "relu", "--server", "http://127.0.0.1:9", "--receipt", "verdict.json")
    ended = assay("grade", write(NAIVE), *options, *form)
    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr.startswith("assay: The service at http://127.0.0.1:9 gave no useful answer")
    assert ended.stderr.count("assay serve") == 1
    for unfitting in ("internal_error", "simulator", "Traceback", "mistake in Assay"):
        assert unfitting not in ended.stderr
    assert not (assay.folder / "verdict.json").exists()
