"""A real service in a process of its own, for whoever tests against one."""

import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ASSAY = Path(sys.executable).with_name("assay")


class Serving:
    """`assay serve` with a data folder of its own and the suite's warm cache; it can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.data.mkdir(parents=True)
        (self.data / "cache").symlink_to(ROOT / ".assay" / "tests" / "cache")
        self.log = folder / "log"
        self.process = None

    def assay(self, *arguments, **more):
        own = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
        return [ASSAY, *map(str, arguments)], {"env": {**own, "ASSAY_DATA_DIR": str(self.data)}, "text": True, **more}

    def start(self, *, workers=1):
        """The port on which it listens."""
        command, options = self.assay("serve", "--port", 0, "--workers", workers, stdout=subprocess.PIPE)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log, **options)
        said = next((found for line in self.process.stdout if (found := re.search(r"http://\S+:(\d+)", line))), None)
        assert said is not None, self.log.read_text()[-2000:]
        self.port = int(said[1])
        self.url = f"http://127.0.0.1:{self.port}"
        return self.port

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def stop(self):
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.communicate(timeout=60)
        self.process.kill()

    def rows(self):
        """State of each evaluation that was ever accepted."""
        with contextlib.closing(sqlite3.connect(self.data / "assay.db")) as database:
            return [state for (state,) in database.execute("SELECT state FROM evaluations")]
