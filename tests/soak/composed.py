"""The service as the compose file sets it up: five containers, and those in which jobs run."""

import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from memory import V1, V2, bounded
from processes import READY_S, Census, below, inner_pid_of, kill, until
from setups import SIGNALS

from evaluator.service.storage.storage import open_storage

sys.path.append(str(Path(__file__).parents[1] / "e2e"))
from deployment import WORKERS, Deployment, output
from deployment import what_is_missing as what_is_missing

# In a container of its own on the workers' volume, after the end of all workers.
_WHAT_IS_LEFT = """
import time
from pathlib import Path

from evaluator.sandbox.host.work_folder import WorkFolders

made = [folder for name in ("work", "temporary") if (folder := Path("/var/lib/assay", name)).exists()]
if any(any(folder.iterdir()) for folder in made):
    time.sleep(WorkFolders.SETTLED_S)
found = [path for folder in made for path in WorkFolders(folder).root.iterdir()]
print(*found, sep="\\n")
"""


FROZEN_S = 45.0
"""Leases last 30 s."""
ROOM_BYTES = 256 << 20


def _processes(containers):
    """All that run in these containers, as this machine numbers them; one that is gone has none."""
    asked = ["docker", "inspect", "-f", "{{.State.Pid}}", *containers]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout if containers else ""
    return [pid for init in map(int, told.split()) if init for pid in (init, *below(init))]


def with_clock(clock, file):
    """A further compose file: the API and the workers have this clock, which has a folder of its own."""
    folder = Path(clock.environment["SOAK_CLOCK"]).parent
    folder.chmod(0o755)
    inside = {name: value.replace(str(folder), "/soak") for name, value in clock.environment.items()}
    changed = {"environment": inside, "volumes": [f"{folder}:/soak:ro"]}
    file.write_text(json.dumps({"services": dict.fromkeys(("api", *WORKERS), changed)}))
    return file


def on_disk(disk, file):
    """A further compose file: what lasts is on this disk."""
    volumes = {}
    for name in ("api", "workers", "postgres"):
        place = disk.folder / name
        place.mkdir()
        volumes[name] = {"driver_opts": {"type": "none", "o": "bind", "device": str(place)}}
    file.write_text(json.dumps({"volumes": volumes}))
    return file


class Composed:
    """Has the face of `setups.SetUp`, with containers in place of processes."""

    def __init__(self, override=None):
        """`override`: a file of `with_clock` or `on_disk`."""
        self._deployment = Deployment(override)
        self.url = f"http://{self._deployment.address}"
        self.key = None
        self.census = Census()
        self.victims = {service: partial(self._kill, service) for service in ("api", "redis", "postgres", *WORKERS)}
        self.victims |= {
            "child": self._kill_child,
            "sandbox": self._kill_sandbox,
            "signalled": self._signal_job,
            "frozen": self._freeze,
            "unit": self._stop_unit,
        }
        # With systemd's control groups there is none for Docker's containers together.
        self._groups = [root / "docker" for root in (V1, V2) if (root / "docker" / "cgroup.procs").exists()]
        if self._groups:
            self.victims["memory"] = self._run_out_of_memory

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
        return next(iter(own), None), _processes(sandboxes)

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

    def _signal_job(self, chance):
        """Any process in a sandbox: its init, a compiler, a simulated kernel."""
        found = _processes(self._deployment.sandboxes(running=True))
        if found:
            kill(chance.choice(found), chance.choice(SIGNALS))

    def _freeze(self, chance):
        """All of a container stands still for a while, sometimes for longer than its leases last."""
        container = self._deployment.containers(chance.choice(("api", *WORKERS)))[0]
        output("docker", "pause", container)
        time.sleep(chance.uniform(0.1, FROZEN_S))
        output("docker", "unpause", container)

    def _stop_unit(self, chance):
        """As an operator does: SIGTERM to the main process, later SIGKILL to all, and a new start."""
        service = chance.choice(("api", *WORKERS))
        output("docker", "restart", "-t", chance.choice(("0", "1", "40")), self._deployment.containers(service)[0])
        if service == "api":
            self._deployment.wait_until_healthy((service,))

    def trouble(self, disk):
        """Victims: all that may befall the disk on which all that lasts is kept."""

        def lost(chance):
            disk.let_nobody_write()
            time.sleep(chance.uniform(0.0, 6.0))
            self._deployment.compose("stop", "-t", chance.choice(("0", "1", "40")))
            until(lambda: disk.unmount() and disk.mount(), READY_S, "the disk is there again")
            self._deployment.up()

        def full(chance):
            disk.fill(chance)
            self._deployment.wait_until_healthy(("postgres",))

        found = {"full": full, "hanging": disk.hang, "lost": lost}
        return found | ({"slow": disk.slow_down} if disk.can_be_slow() else {})

    def _run_out_of_memory(self, chance):
        """The memory of all containers together, of which the kernel kills a process."""
        with bounded(self._groups[0], ROOM_BYTES) as group:
            assert group.run_out() >= 1, "nobody was killed"
        self._deployment.wait_until_healthy(("api", "redis", "postgres"))

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
