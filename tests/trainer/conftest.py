"""What the trainer's tests share: sample verdicts, a road and a real service, and the faces of the problems."""

from pathlib import Path

import pytest
from hypothesis import settings
from serving import Serving
from verl_process import VerlProcess

from evaluator.problems.catalogue import problems

# A machine that is busy with other work is no finding.
settings.register_profile("trainer", deadline=None)
settings.load_profile("trainer")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def service(tmp_path_factory, toolbox):
    """A real `assay serve`, which is started once; `url` is where it listens."""
    (toolbox.settings.data_dir / "cache").mkdir(parents=True, exist_ok=True)
    serving = Serving(tmp_path_factory.mktemp("serving"))
    serving.start()
    yield serving
    serving.stop()


@pytest.fixture(scope="session")
def verl(tmp_path_factory):
    """A process for real runs of verl, which starts with the first of them."""
    process = VerlProcess(tmp_path_factory.mktemp("verl"))
    yield process
    process.end()


@pytest.fixture(scope="session")
def faces():
    """Every built-in problem, as `GET /problems` shows it."""
    return tuple(problem.face for problem in problems().values())
