"""The simulator, with the machine's own sandbox and cache, so that a second run of the suite compiles nothing."""

import pytest

from evaluator.backends.sim.simulator import Simulator
from evaluator.settings import MachineSettings
from evaluator.workshop import Workshop


@pytest.fixture(scope="session")
def bench() -> Workshop:
    return Workshop(MachineSettings.from_environment())


@pytest.fixture(scope="session")
def simulator(bench: Workshop) -> Simulator:
    return bench.simulator
