"""The compose file as operators use it, in a project of its own, and what can be killed of it.

The images are those that `make e2e` builds, or others that the compose file's own variables name.
"""

import json
import os
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path

from common.client import Client

ROOT = Path(__file__).parents[2]
IMAGES = {
    name: os.environ.get(name) or usual
    for name, usual in {
        "ASSAY_SERVICE_IMAGE": "assay-service",
        "ASSAY_SANDBOX_IMAGE": "assay-sandbox",
        "ASSAY_TRAINER_IMAGE": "assay-trainer",
        "REDIS_IMAGE": "assay-test-redis",
        "POSTGRES_IMAGE": "assay-test-postgres",
    }.items()
}
WORKERS = ("compile-worker", "sim-worker")
SERVICES = ("postgres", "redis", "api", *WORKERS)
SECRETS = ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "ASSAY_SECRET", "ASSAY_SIGNING_KEY")

# The init's child is the worker; its children are the processes of its pool.
_KILL_A_CHILD = """
import os, signal, sys
from pathlib import Path
def children(pid):
    listed = "".join((task / "children").read_text() for task in Path(f"/proc/{pid}/task").iterdir())
    return [int(each) for each in listed.split()]
found = children(children(1)[0])
if found:
    os.kill(found[int(sys.argv[1]) % len(found)], signal.SIGKILL)
"""


def output(*command, **settings):
    return subprocess.run(command, capture_output=True, text=True, check=True, **settings).stdout


def compose_command():
    for command in (["docker", "compose"], ["docker-compose"]):
        tried = shutil.which(command[0]) and subprocess.run([*command, "version"], capture_output=True, check=False)
        if tried and tried.returncode == 0:
            return command
    return None


def what_is_missing():
    """Why the compose file cannot be brought up here, in words; None where it can."""
    if compose_command() is None:
        return "There is no docker compose and no docker-compose."
    for image in IMAGES.values():
        found = subprocess.run(["docker", "image", "inspect", image], capture_output=True, text=True, check=False)
        if found.returncode != 0:
            return f"{image}: {found.stderr.strip()}; `make e2e` builds the images."
    return None


class Deployment:
    """One compose project of its own name and port."""

    def __init__(self, override=None, **settings):
        """`override`: a further compose file, which changes the usual one. `settings`: variables of these files."""
        self._files = ("-f", str(ROOT / "docker-compose.yml"), *(("-f", str(override)) if override else ()))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.project = f"assay-test-{secrets.token_hex(4)}"
        self.secrets = {name: secrets.token_hex(32) for name in SECRETS}
        self._graders = set()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")},
            **IMAGES,
            **self.secrets,
            "ASSAY_PUBLISH": self.address,
            "DOCKER_GID": str(os.stat("/var/run/docker.sock").st_gid),
            **settings,
        }

    def compose(self, *arguments, input=None, expected=0):
        """What Compose prints; `expected` is the exit code that it must end with."""
        command = [*compose_command(), "-p", self.project, *self._files, *arguments]
        ended = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False, cwd=ROOT, input=input
        )
        assert ended.returncode == expected, f"{' '.join(arguments)}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    def up(self, *arguments):
        try:
            self.compose("up", "-d", "--no-build", *arguments)
        except AssertionError as error:
            # What a service waits for was slow: as an operator would, see whether it is well by now.
            if "unhealthy" not in str(error):
                raise AssertionError(f"{error}\n{self.compose('logs', '--tail', '20')}") from error
            self.wait_until_healthy(("postgres", "redis", "api"))
            self.compose("up", "-d", "--no-build", *arguments)
        self.wait_until_healthy(SERVICES)

    def containers(self, service):
        """Of this service; stopped ones too."""
        labels = (f"project={self.project}", f"service={service}", "oneoff=False")
        words = [word for label in labels for word in ("--filter", f"label=com.docker.compose.{label}")]
        return output("docker", "ps", "-aq", *words).split()

    def facts(self, service):
        return [json.loads(output("docker", "inspect", each))[0] for each in self.containers(service)]

    def graders(self):
        """The host names of all workers that there ever were."""
        self._graders |= {facts["Config"]["Hostname"] for kind in WORKERS for facts in self.facts(kind)}
        return self._graders

    def sandboxes(self, *, running=False):
        """The containers that this deployment's workers have started; others on this machine are left alone."""
        asked = [("--filter", f"label=assay.grader={grader}") for grader in self.graders()]
        which = "-q" if running else "-aq"
        return [found for each in asked for found in output("docker", "ps", which, *each).split()]

    def wait_until_healthy(self, services, patience_s=300.0):
        until_s = time.monotonic() + patience_s
        while time.monotonic() < until_s:
            found = [
                facts["State"].get("Health", {}).get("Status") for each in services for facts in self.facts(each)
            ]
            if found and set(found) == {"healthy"}:
                return
            time.sleep(0.5)
        raise AssertionError(f"{services}: {found}\n{self.compose('logs', '--tail', '40')}")

    def wait_until_no_sandbox_is_left(self, patience_s=20.0):
        """Those that are still there in the end."""
        until_s = time.monotonic() + patience_s
        while (found := self.sandboxes()) and time.monotonic() < until_s:
            time.sleep(0.2)
        return found

    def add_key(self, name):
        """The secret of a new admin key."""
        added = self.compose("exec", "-T", "api", "assay", "keys", "add", name, "--admin")
        (secret,) = (word for word in added.split() if word.startswith("assay_"))
        return secret

    def client(self, key, **settings):
        return Client(f"http://{self.address}", key, **settings)

    # -- killing, each with -9 --

    def kill(self, service, index=0):
        """All of a container, which is started again."""
        found = self.containers(service)
        container = found[index % len(found)]
        subprocess.run(["docker", "kill", container], capture_output=True, check=False)
        # `docker kill` is the operator's word, which no restart policy overrules.
        output("docker", "start", container)

    def kill_child(self, service, index=0):
        """A process of a worker's pool, whose other processes live on."""
        container = self.containers(service)[0]
        command = ["docker", "exec", container, "python", "-c", _KILL_A_CHILD, str(index)]
        subprocess.run(command, capture_output=True, check=False)

    def kill_sandbox(self, index=0):
        """One of the containers in which jobs run, or wait to."""
        found = self.sandboxes(running=True)
        if found:
            subprocess.run(["docker", "kill", found[index % len(found)]], capture_output=True, check=False)
