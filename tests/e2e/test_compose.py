"""The compose file as operators use it: brought up from the images, graded over HTTP, killed at, scaled, taken down.

Needs a Docker daemon, Compose and the images that `make e2e` builds: skipped without them, an error without them
where ASSAY_TEST_DOCKER=1.
"""

import os
import secrets
import subprocess

import pytest
from deployment import ROOT, SECRETS, WORKERS, Deployment, compose_command, output, what_is_missing

from common.contract import Settings, Submission
from common.signature import Signer

pytestmark = pytest.mark.timeout(900)

# Enough for five kills with two verdicts between each; `make soak` kills everything, children too, many times.
KERNELS = 16

GOOD = """
__global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""


@pytest.fixture(scope="module")
def deployment():
    missing = what_is_missing()
    if missing and os.environ.get("ASSAY_TEST_DOCKER") == "1":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    made = Deployment(ASSAY_COMPILE_PROCESSES="1", ASSAY_SIM_PROCESSES="1")
    try:
        made.up("--scale", "sim-worker=2")
        yield made
    finally:
        made.compose("down", "-v", "-t", "20")


@pytest.fixture(scope="module")
def key(deployment):
    return deployment.add_key("tests")


@pytest.fixture
def client(deployment, key):
    with deployment.client(key) as made:
        yield made


def submission(salt=""):
    source = f"{GOOD}// {salt or secrets.token_hex(8)}\n"
    return Submission(problem="vector_add", source=source, settings=Settings(verification="quick"))


def test_a_kernel_is_graded_in_containers(client, deployment):
    verdict = client.evaluate(submission())
    assert verdict.status == "passed", verdict
    assert verdict.receipt.sandbox == "docker"
    assert verdict.receipt.sandbox_image.startswith("sha256:")
    key = Signer(deployment.environment["ASSAY_SIGNING_KEY"]).public_key
    assert verdict.receipt.signature.public_key == key


def test_wrong_and_broken_kernels_are_told_apart(client):
    wrong = Submission(problem="vector_add", source=GOOD.replace("a[i] + b[i]", "a[i] - b[i]"))
    broken = Submission(problem="vector_add", source=GOOD.replace("int i", "float* i"))
    verdicts = client.evaluate_many([wrong, broken])
    assert [verdict.status for verdict in verdicts] == ["incorrect", "compile_error"]


def test_the_api_has_no_docker_and_only_the_api_is_published(deployment):
    (api,) = deployment.facts("api")
    assert {mount["Type"] for mount in api["Mounts"]} == {"volume"}
    assert [binding["HostIp"] for binding in api["NetworkSettings"]["Ports"]["8000/tcp"]] == ["127.0.0.1"]
    for service in ("redis", "postgres", *WORKERS):
        for facts in deployment.facts(service):
            assert not any((facts["NetworkSettings"]["Ports"] or {}).values()), service
    for service in WORKERS:
        for facts in deployment.facts(service):
            assert [each["Source"] for each in facts["Mounts"] if each["Type"] == "bind"] == ["/var/run/docker.sock"]


def test_every_container_is_locked_down(deployment):
    for service in ("api", "redis", "postgres", *WORKERS):
        for facts in deployment.facts(service):
            host = facts["HostConfig"]
            assert (host["ReadonlyRootfs"], host["CapDrop"], host["Privileged"]) == (True, ["ALL"], False), service
            assert "no-new-privileges:true" in host["SecurityOpt"], service
            assert output("docker", "exec", facts["Id"], "id", "-u").strip() != "0", service


def test_without_the_key_there_is_no_verdict(deployment):
    status = "import urllib.request as r, urllib.error as e\n"
    status += (
        "try: print(r.urlopen('http://127.0.0.1:8000/evaluations').status)\nexcept e.HTTPError as x: print(x.code)"
    )
    assert deployment.compose("exec", "-T", "api", "python", "-c", status).strip() == "401"


GRADE = """
import sys
from common.client import Client
from common.contract import Settings, Submission
with Client("http://api:8000", sys.argv[1]) as client:
    print(client.evaluate(Submission(problem="vector_add", source=sys.stdin.read())).status)
"""
REACH = """
import socket
for host, port in (("redis", 6379), ("postgres", 5432), ("api", 8000)):
    try:
        socket.create_connection((host, port), timeout=5).close()
        print(host)
    except OSError:
        pass
"""


def test_the_trainer_reaches_the_evaluator_over_http_and_nothing_else(deployment, key):
    run = ("--profile", "train", "run", "--rm", "--no-deps", "-T")
    python = (*run, "--entrypoint", "python", "trainer", "-c")
    assert deployment.compose(*python, REACH).split() == ["api"]
    assert deployment.compose(*python, GRADE, key, input=GOOD).strip() == "passed"
    listed = deployment.compose(*run, "trainer", "config", "list")
    assert {"cpu-demo", "requirements"} <= set(listed.split())


def trainer(key, *command):
    """`compose run` of the trainer with the key in its environment."""
    return ("--profile", "train", "run", "--rm", "--no-deps", "-T", "-e", f"ASSAY_KEY={key}", *command)


def has_torch(deployment, key):
    look = "import importlib.util; print(importlib.util.find_spec('torch') is not None)"
    return deployment.compose(*trainer(key, "--entrypoint", "python", "trainer", "-c", look)).strip() == "True"


def test_the_trainer_s_doctor_sees_the_evaluator_from_its_container(deployment, key):
    asked = ("--config", "quick-test", "evaluator.embedded=false", "evaluator.url=http://api:8000")
    able = has_torch(deployment, key)
    said = deployment.compose(*trainer(key, "trainer", "doctor", *asked), expected=0 if able else 1)
    assert "✓ evaluator  http://api:8000: assay " in said
    assert "✓ key        ASSAY_KEY is set; the service answers" in said
    assert ("✗ libraries" in said) is not able


def test_the_trainer_s_container_tunes_an_agent_on_kernels_that_the_stack_graded(deployment, key):
    if not has_torch(deployment, key):
        pytest.skip(
            "The trainer's image has no torch: build one with EXTRAS=trainer, and name it in ASSAY_TRAINER_IMAGE."
        )
    run = ("run", "--quick-test", "--evaluator", "http://api:8000", "--skip-rl", "--sft-examples", "4")
    small = (
        *("tasks.problems=[scalar_multiply,relu]", "tasks.variants=4", "agents.optimizer=null", "name=one-phase"),
        *("sft.epochs=1", "sft.evaluation_tasks=1", "rollout.turn_tokens=8"),
    )
    said = deployment.compose(*trainer(key, "trainer", *run, *small))
    assert said.split()[0] == "generator", said
    kept = "import json, pathlib; print(*pathlib.Path('runs/one-phase/tuning').glob('data-*/kernels.jsonl'))"
    assert deployment.compose(*trainer(key, "--entrypoint", "python", "trainer", "-c", kept)).strip()


def test_nothing_is_lost_when_everything_is_killed_at(deployment, client):
    victims = [
        lambda: deployment.kill("sim-worker"),
        lambda: deployment.kill("redis"),
        lambda: deployment.kill_sandbox(),
        lambda: deployment.kill("postgres"),
        lambda: deployment.kill("api"),
    ]
    finished = []

    def kill_now_and_then(one):
        finished.append(one.index)
        if len(finished) % 3 == 1 and victims:
            victims.pop(0)()

    verdicts = client.evaluate_many([submission() for _ in range(KERNELS)], concurrency=8, progress=kill_now_and_then)
    assert not victims
    assert {verdict.status for verdict in verdicts} == {"passed"}
    assert sorted(finished) == list(range(KERNELS))


def test_workers_scale(deployment, client):
    deployment.compose(
        "up", "-d", "--no-build", "--no-recreate", "--scale", "sim-worker=1", "--scale", "compile-worker=2"
    )
    assert (len(deployment.containers("sim-worker")), len(deployment.containers("compile-worker"))) == (1, 2)
    deployment.wait_until_healthy(WORKERS)
    assert {verdict.status for verdict in client.evaluate_many([submission() for _ in range(4)])} == {"passed"}


def test_nothing_is_left_when_it_is_stopped(deployment):
    # The last test of this file: the fixture only removes what is stopped here.
    assert deployment.sandboxes()
    deployment.compose("stop", "-t", "40")
    assert deployment.wait_until_no_sandbox_is_left() == []


def test_the_gpu_override_is_valid_and_reserves_a_gpu():
    if compose_command() is None:
        pytest.skip("There is no docker compose and no docker-compose.")
    files = ("-f", str(ROOT / "docker-compose.yml"), "-f", str(ROOT / "docker-compose.gpu.yml"))
    needed = dict.fromkeys(SECRETS, "x")
    text = output(*compose_command(), *files, "config", env={**os.environ, **needed}, cwd=ROOT)
    worker = text[text.index("gpu-worker:") :]
    assert "driver: nvidia" in worker
    assert "docker.sock" not in worker[: worker.index("read_only")]


def test_secrets_must_be_given(tmp_path):
    if compose_command() is None:
        pytest.skip("There is no docker compose and no docker-compose.")
    (tmp_path / ".env").write_text("ASSAY_SIM_PROCESSES=1\n")
    refused = subprocess.run(
        [*compose_command(), "-f", str(ROOT / "docker-compose.yml"), "--env-file", str(tmp_path / ".env"), "config"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert refused.returncode != 0
    assert ".env.example" in refused.stderr
