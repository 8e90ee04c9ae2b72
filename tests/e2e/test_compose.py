"""The compose file as operators use it: brought up from the images, graded over HTTP, killed at, scaled, taken down.

Needs a Docker daemon, Compose and the images that `make e2e` builds: skipped without them, an error without them
where ASSAY_TEST_DOCKER=1.
"""

import json
import os
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from common.client import Client
from common.contract import Submission
from common.signature import Signer

ROOT = Path(__file__).parents[2]
IMAGES = {
    "ASSAY_SERVICE_IMAGE": "assay-service",
    "ASSAY_SANDBOX_IMAGE": "assay-sandbox",
    "REDIS_IMAGE": "assay-test-redis",
    "POSTGRES_IMAGE": "assay-test-postgres",
}
WORKERS = ("compile-worker", "sim-worker")
GOOD = """
__global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""


def output(*command, **settings):
    return subprocess.run(command, capture_output=True, text=True, check=True, **settings).stdout


def compose_command():
    for command in (["docker", "compose"], ["docker-compose"]):
        tried = shutil.which(command[0]) and subprocess.run([*command, "version"], capture_output=True, check=False)
        if tried and tried.returncode == 0:
            return command
    return None


def what_is_missing():
    if compose_command() is None:
        return "There is no docker compose and no docker-compose."
    for image in IMAGES.values():
        found = subprocess.run(["docker", "image", "inspect", image], capture_output=True, text=True, check=False)
        if found.returncode != 0:
            return f"{image}: {found.stderr.strip()}; `make e2e` builds the images."
    return None


class Deployment:
    """One compose project of its own name and port."""

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.project = f"assay-test-{secrets.token_hex(4)}"
        self.workers = set()
        socket_group = os.stat("/var/run/docker.sock").st_gid
        names = ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "ASSAY_SECRET", "ASSAY_SIGNING_KEY")
        self.environment = {
            **os.environ,
            **IMAGES,
            **{name: secrets.token_hex(32) for name in names},
            "ASSAY_PUBLISH": self.address,
            "DOCKER_GID": str(socket_group),
            "ASSAY_COMPILE_PROCESSES": "1",
            "ASSAY_SIM_PROCESSES": "1",
        }

    def compose(self, *arguments):
        command = [*compose_command(), "-p", self.project, "-f", str(ROOT / "docker-compose.yml"), *arguments]
        ended = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, cwd=ROOT)
        assert ended.returncode == 0, f"{' '.join(arguments)}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    def containers(self, service):
        return output(
            "docker", "ps", "-q",
            "--filter", f"label=com.docker.compose.project={self.project}",
            "--filter", f"label=com.docker.compose.service={service}",
        ).split()  # fmt: skip

    def sandboxes(self):
        """The containers that this deployment's workers have started; others on this machine are left alone."""
        workers = self.workers | {facts["Config"]["Hostname"] for kind in WORKERS for facts in self.facts(kind)}
        self.workers = workers
        asked = [("--filter", f"label=assay.grader={worker}") for worker in workers]
        return [found for each in asked for found in output("docker", "ps", "-aq", *each).split()]

    def facts(self, service):
        return [json.loads(output("docker", "inspect", each))[0] for each in self.containers(service)]

    def wait_until_healthy(self, services, patience_s=120.0):
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            found = [
                facts["State"].get("Health", {}).get("Status") for each in services for facts in self.facts(each)
            ]
            if found and set(found) == {"healthy"}:
                return
            time.sleep(0.5)
        raise AssertionError(f"not healthy: {found}\n{self.compose('logs', '--tail', '40')}")

    def client(self, key):
        return Client(f"http://{self.address}", key)


@pytest.fixture(scope="module")
def deployment():
    missing = what_is_missing()
    if missing and os.environ.get("ASSAY_TEST_DOCKER") == "1":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    made = Deployment()
    try:
        try:
            made.compose("up", "-d", "--no-build", "--scale", "sim-worker=2")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{made.compose('logs', '--tail', '20')}") from error
        made.wait_until_healthy(("api", "redis", "postgres", *WORKERS))
        yield made
    finally:
        made.compose("down", "-v", "-t", "20")


@pytest.fixture(scope="module")
def key(deployment):
    added = deployment.compose("exec", "-T", "api", "assay", "keys", "add", "tests", "--admin")
    (secret,) = (word for word in added.split() if word.startswith("assay_"))
    return secret


@pytest.fixture
def client(deployment, key):
    with deployment.client(key) as made:
        yield made


def submission(salt=""):
    return Submission(problem="vector_add", source=f"{GOOD}// {salt or secrets.token_hex(8)}\n")


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


def test_nothing_is_lost_when_workers_redis_and_sandboxes_are_killed(deployment, client):
    victims = [
        lambda: deployment.containers("sim-worker")[:1],
        lambda: deployment.containers("redis"),
        lambda: deployment.sandboxes()[:1],
        lambda: deployment.containers("compile-worker"),
    ]
    services = [each for name in ("sim-worker", "redis", "compile-worker") for each in deployment.containers(name)]
    started = []

    def kill_now_and_then(finished):
        started.append(finished.index)
        if len(started) % 4 == 1 and victims:
            for each in victims.pop(0)():
                subprocess.run(["docker", "kill", each], capture_output=True, check=False)
                # `docker kill` is the operator's word, which no restart policy overrules.
                if each in services:
                    subprocess.run(["docker", "start", each], capture_output=True, check=False)

    verdicts = client.evaluate_many([submission() for _ in range(16)], concurrency=8, progress=kill_now_and_then)
    assert not victims
    assert {verdict.status for verdict in verdicts} == {"passed"}
    assert sorted(started) == list(range(16))


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
    until = time.monotonic() + 15
    while deployment.sandboxes() and time.monotonic() < until:
        time.sleep(0.2)
    assert deployment.sandboxes() == []


def test_the_gpu_override_is_valid_and_reserves_a_gpu():
    if compose_command() is None:
        pytest.skip("There is no docker compose and no docker-compose.")
    files = ("-f", str(ROOT / "docker-compose.yml"), "-f", str(ROOT / "docker-compose.gpu.yml"))
    needed = dict.fromkeys(("POSTGRES_PASSWORD", "REDIS_PASSWORD", "ASSAY_SECRET", "ASSAY_SIGNING_KEY"), "x")
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
