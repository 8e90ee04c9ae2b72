"""Every kind of sandbox, and whether that of docker can be tried here."""

import functools
import os

import pytest

from evaluator.errors import SandboxError
from evaluator.sandbox.container.docker import DockerSandbox
from evaluator.sandbox.host.bubblewrap import BubblewrapSandbox
from evaluator.sandbox.host.process import ProcessSandbox


@functools.cache
def docker_fault(place):
    try:
        DockerSandbox(place).close()
    except SandboxError as fault:
        return f"{fault} {fault.remedy}"
    return None


@pytest.fixture
def docker_sandbox_works(tmp_path_factory):
    """Skips the test where no daemon or no image is there; ASSAY_TEST_DOCKER=1 makes that an error."""
    fault = docker_fault(tmp_path_factory.getbasetemp() / "docker-trial")
    if fault is not None and os.environ.get("ASSAY_TEST_DOCKER") == "1":
        pytest.fail(fault)
    if fault is not None:
        pytest.skip(fault)


@pytest.fixture(params=[ProcessSandbox, BubblewrapSandbox, DockerSandbox], ids=["process", "bubblewrap", "docker"])
def sandbox(request, tmp_path):
    if request.param is DockerSandbox:
        request.getfixturevalue("docker_sandbox_works")
    made = request.param(tmp_path / "jobs")
    yield made
    if request.param is DockerSandbox:
        made.close()
    assert list(made.root.iterdir()) == [], "a work folder was left behind"


@pytest.fixture
def on_the_host(sandbox):
    """A sandbox whose jobs have their work folder and their warden on this machine itself."""
    if sandbox.name == "docker":
        pytest.skip("a container has neither a folder nor a warden on the host")
    return sandbox
