"""What the tests share: who needs a GPU, and one workshop, whose cache is kept between runs in `.assay/`."""

from pathlib import Path

import pytest

from evaluator.backends.gpu.device.health import gpus
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings

ROOT = Path(__file__).parents[1]
DATA = ROOT / ".assay" / "tests"
LONGEST = (
    "tests/e2e/test_compose.py",
    "tests/soak/",
    "tests/trainer/rl/test_runner.py",
    "tests/trainer/data/test_corpus.py",
)


def pytest_configure() -> None:
    """Make the cache, which many tests link into data folders of their own.

    Nothing is kept behind a link to a folder that is not there, and each of them would build the simulator anew.
    """
    (DATA / "cache").mkdir(parents=True, exist_ok=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `gpu` run where a driver lists a GPU, whether or not the rest is in order there.

    The longest, which mostly wait, come first: at the end nothing would be left to run beside them.
    """
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    if not gpus():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="there is no NVIDIA GPU here"))


@pytest.fixture(scope="session")
def toolbox() -> Toolbox:
    """The real thing: toolchain, sandbox, cache and simulator of this machine."""
    return Toolbox(MachineSettings(DATA))
