"""What the tests share: one workshop, whose cache is kept between runs in `.assay/` (ignored by git)."""

from pathlib import Path

import pytest

from evaluator.settings import MachineSettings
from evaluator.workshop import Workshop

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def workshop() -> Workshop:
    """The real thing: toolchain, sandbox, cache and simulator of this machine."""
    return Workshop(MachineSettings(ROOT / ".assay" / "tests"))
