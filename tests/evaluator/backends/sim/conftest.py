"""The simulator, with the suite's own sandbox and cache, so that a second run of the suite compiles nothing."""

import pytest

from evaluator.backends.sim.backend import Simulator
from evaluator.pipeline.toolbox import Toolbox


@pytest.fixture(scope="session")
def simulator(toolbox: Toolbox) -> Simulator:
    return toolbox.simulator
