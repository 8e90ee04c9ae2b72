"""A process with verl and Ray for real runs, one after another: half of what a start of verl costs is these two."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SUMMARIES = "SUMMARIES"
PROGRAM = """
import json, sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from trainer.config.reading import load_config
from trainer.reporting.metrics import read_measures
from trainer.rl import ray_session, runner
from trainer.rl.settings import worker_environment
with ExitStack() as session:
    for asked in map(json.loads, sys.stdin):
        configs = [load_config("cpu-demo", settings) for settings in asked["configs"]]
        agents = dict.fromkeys(("generator", "optimizer"), asked["model"])
        session.enter_context(ray_session.started(configs[0], worker_environment(configs[0])))
        summaries = []
        for config in configs:
            summary = asdict(runner.run(config, agents=agents))
            summaries.append({**summary, "measures": read_measures(Path(config.run_folder))})
        print("SUMMARIES" + json.dumps(summaries, default=str), flush=True)
"""


class VerlProcess:
    """Started when it is first needed, and again where it has ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def summaries(self, model, configs):
        """Summaries of runs that begin with the model, each with the `measures` that its folder held when it ended.

        `configs`: the settings of each. What ends the process fails here, with what it said.
        """
        said = self._folder / "stderr"
        if self._process is None or self._process.poll() is not None:
            self._process = self._started(said)
        print(json.dumps({"configs": configs, "model": str(model)}), file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            if line.startswith(SUMMARIES):
                return json.loads(line.removeprefix(SUMMARIES))
        self.end()
        raise AssertionError(said.read_text(errors="replace")[-6000:])

    def end(self) -> None:
        """With Ray; what does not end is killed."""
        process, self._process = self._process, None
        if process is None:
            return
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()

    def _started(self, said: Path) -> "subprocess.Popen[str]":
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        with said.open("w") as file:
            # A session of its own, with all of Ray in it: a kernel that shares the cores out by sessions gives it a
            # share, where otherwise everything that the tests start would have one together.
            return subprocess.Popen(
                [sys.executable, "-c", PROGRAM],
                env={**os.environ, "PYTHONPATH": path},
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                start_new_session=True,
            )
