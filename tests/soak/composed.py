"""The service as the compose file sets it up: five containers, and those in which jobs run."""

import subprocess
import sys
from functools import partial
from pathlib import Path

from processes import Census, below, inner_pid_of

from evaluator.service.storage.storage import open_storage

sys.path.append(str(Path(__file__).parents[1] / "e2e"))
from deployment import WORKERS, Deployment, output
from deployment import what_is_missing as what_is_missing

# In a container of its own on the workers' volume, after the end of all workers.
_WHAT_IS_LEFT = """
import time
from pathlib import Path

from evaluator.sandbox.host.supervision import WorkFolders

made = [folder for name in ("work", "temporary") if (folder := Path("/var/lib/assay", name)).exists()]
if any(any(folder.iterdir()) for folder in made):
    time.sleep(WorkFolders.SETTLED_S)
found = [path for folder in made for path in WorkFolders(folder).root.iterdir()]
print(*found, sep="\\n")
"""


class Composed:
    """Has the face of `setups.SetUp`, with containers in place of processes."""

    def __init__(self):
        self._deployment = Deployment()
        self.url = f"http://{self._deployment.address}"
        self.key = None
        self.census = Census()
        self.victims = {service: partial(self._kill, service) for service in ("api", "redis", "postgres", *WORKERS)}
        self.victims |= {"child": self._kill_child, "sandbox": self._kill_sandbox}

    def roots(self):
        """No processes: what a container has ends with it."""
        return []

    def start(self):
        self._deployment.up()
        self.key = self._deployment.add_key("soak")

    def processes_of(self, worker):
        """The process of a worker of the fleet (None once its container has ended), and all that run in the sandboxes
        of its container, as this machine numbers them.
        """
        inits = [
            facts["State"]["Pid"]
            for service in WORKERS
            for facts in self._deployment.facts(service)
            if facts["Config"]["Hostname"] == worker.host and facts["State"]["Running"]
        ]
        own = [pid for init in inits for pid in below(init) if inner_pid_of(pid) == worker.pid]
        sandboxes = output("docker", "ps", "-q", "--filter", f"label=assay.grader={worker.host}").split()
        asked = ["docker", "inspect", "-f", "{{.State.Pid}}", *sandboxes]
        found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split() if sandboxes else []
        jobs = [pid for init in map(int, found) if init for pid in (init, *below(init))]
        return next(iter(own), None), jobs

    def storage(self):
        (facts,) = self._deployment.facts("postgres")
        host = next(network["IPAddress"] for network in facts["NetworkSettings"]["Networks"].values())
        return open_storage(
            f"postgresql+psycopg://assay:{self._deployment.secrets['POSTGRES_PASSWORD']}@{host}/assay"
        )

    def _kill(self, service, chance):
        self._deployment.kill(service)
        if service not in WORKERS:
            # One after another: with two of these away at a time, nothing at all would go on.
            self._deployment.wait_until_healthy((service,))

    def _kill_child(self, chance):
        self._deployment.kill_child(chance.choice(WORKERS), chance.randrange(1 << 16))

    def _kill_sandbox(self, chance):
        self._deployment.kill_sandbox(chance.randrange(1 << 16))

    def stop(self):
        self._deployment.graders()
        self._deployment.compose("stop", "-t", "45", "api", *WORKERS)

    def left_over(self):
        containers = [f"container {name}" for name in self._deployment.wait_until_no_sandbox_is_left()]
        files = self._deployment.compose(
            *("run", "--rm", "--no-deps", "--entrypoint", "python", WORKERS[0], "-c", _WHAT_IS_LEFT)
        )
        return [*containers, *files.split()]

    def remove(self):
        self._deployment.compose("down", "-v", "-t", "5")
        for container in self._deployment.sandboxes():
            output("docker", "rm", "-f", container)
