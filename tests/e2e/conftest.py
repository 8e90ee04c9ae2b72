"""The real command in a process of its own, with a data folder of its own and the suite's warm cache."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ASSAY = Path(sys.executable).with_name("assay")
TOP_LEVEL = [
    *("status", "phase", "message", "hint", "backend", "problem"),
    *("compile", "correctness", "timing", "profile", "reward", "receipt"),
]


@dataclass
class Command:
    """`assay` as a user has it."""

    folder: Path
    environment: dict[str, str]
    wrapper: list[str] = field(default_factory=list)
    """A command that the real one is run by, for example one that gives up root."""

    def __call__(self, *arguments: object, **more: object) -> subprocess.CompletedProcess[str]:
        """Run to the end. No traceback, whatever happens, and nothing left in the work folder."""
        line = [*self.wrapper, ASSAY, *arguments]
        streams = {} if {"stdout", "stderr"} & set(more) else {"capture_output": True}
        ended = subprocess.run(
            line, cwd=self.folder, env=self.environment, text=True, timeout=120, check=False, **streams, **more
        )
        for said in (ended.stdout or "", ended.stderr or ""):
            assert "Traceback" not in said, said
        assert self.work() == []
        return ended

    def verdict(self, *arguments: object, exit_code: int | None = None, **more: object) -> dict:
        """The one JSON object of `assay grade … --json`."""
        ended = self("grade", *arguments, "--json", **more)
        parsed = json.loads(ended.stdout)
        assert list(parsed) == TOP_LEVEL
        expected = {"passed": 0, "internal_error": 3}.get(parsed["status"], 1)
        assert ended.returncode == expected, parsed["message"]
        assert exit_code in (None, expected), f"{parsed['status']}: {parsed['message']}"
        assert len(parsed["message"]) > 10
        assert (parsed["reward"] is None) == (parsed["status"] in ("internal_error", "unsupported", "cancelled"))
        return parsed

    def work(self) -> list[str]:
        """What jobs have left behind."""
        try:
            return os.listdir(Path(self.environment["ASSAY_DATA_DIR"], "work"))
        except OSError:
            return []


@pytest.fixture
def assay(tmp_path: Path) -> Command:
    data, folder, cache = tmp_path / "data", tmp_path / "here", ROOT / ".assay" / "tests" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    data.mkdir()
    folder.mkdir()
    (data / "cache").symlink_to(cache)
    mine = {
        name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "COLUMNS", "NO_COLOR"))
    }
    return Command(folder, {**mine, "ASSAY_DATA_DIR": str(data)})


@pytest.fixture
def write(assay: Command) -> Callable[..., Path]:
    """Write a file into the folder in which the command runs."""

    def write(content: str | bytes, name: str = "kernel.cu") -> Path:
        path = assay.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
