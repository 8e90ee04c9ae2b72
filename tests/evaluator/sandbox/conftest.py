"""Whether the docker sandbox can be tried here."""

import functools
import os

import pytest

from evaluator.errors import SandboxError
from evaluator.sandbox.container.docker import DockerSandbox


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
