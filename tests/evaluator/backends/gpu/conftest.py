"""A real sandbox, and a session's runtime in it whose referee has device code of its own."""

import contextlib

import pytest
from host_checks import HostDevice
from session_runs import TOGETHER
from stand_in import StandInServices

from evaluator.backends.gpu.checks import DeviceChecks
from evaluator.sandbox import selftest


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return selftest.choose(tmp_path_factory.mktemp("work"))


@pytest.fixture
def looking(place):
    """A runtime with device code of our own, which it counts, and runs that are launched together."""
    device = HostDevice()
    services = StandInServices(place, 3, own_checks=DeviceChecks(device), together=TOGETHER)
    with contextlib.closing(services.runtime) as runtime:
        runtime.device = device
        yield runtime
