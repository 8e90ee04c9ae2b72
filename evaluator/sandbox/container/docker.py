"""The container sandbox: one single-use Docker container for each job, started ahead.

Promised, beside all that the process sandbox promises: no network, no file of the host (a job sees the sandbox's
image, read-only, and a work folder in memory), no other process in sight, user 65534 without capabilities and without
a way to gain any; the kernel's own limits on memory (swap included), processes, CPU and the work folder's bytes and
inodes.

Nothing is mounted from the host, so the grader may run in a container itself, beside those that it starts: files go
in and come back over the container's streams. A container is created, attached to and started before there is a job
for it (`ahead` for each shape of limits used lately), so that a job waits some ten milliseconds instead of some
hundred.

Nothing is left behind: a container ends when its grader's connection does, however the grader ended, and Docker
removes it then; what a daemon lost track of is removed by label (`assay.job`, `assay.deadline`) when the next grader
starts.

The image is `ASSAY_SANDBOX_IMAGE` (else `assay-sandbox`), built from the target `sandbox` of Dockerfile.evaluator. It
needs Python and the toolchain, at the paths at which the grader has them. Which daemon: `DOCKER_HOST`, as for docker.
"""

import contextlib
import functools
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import docker
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.types import DeviceRequest, LogConfig, Ulimit

from evaluator.errors import SandboxError
from evaluator.sandbox.container.pool import ContainerShape, ReadyContainers
from evaluator.sandbox.container.session import Container, ContainerSession
from evaluator.sandbox.host import seccomp, warden
from evaluator.sandbox.host.supervision import PATH, installed_program
from evaluator.sandbox.host.work_folder import storage_fault
from evaluator.sandbox.sandbox import Isolation, Job, JobResult

DEFAULT_IMAGE: Final = "assay-sandbox"
WORK: Final = "/box"
NOBODY: Final = 65534
MEMORY_FOLDER_BYTES: Final = 64 << 20
OVERHEAD_BYTES: Final = 64 << 20
"""What the first process and the kernel's own bookkeeping may take of a container's memory."""
IDLE_S: Final = 900.0
"""How long a container waits for a job before it ends by itself."""
SETTLED_S: Final = 60.0
"""Younger containers that do not run are left alone: someone may be about to start them."""
JOB_LABEL: Final = "assay.job"
DEADLINE_LABEL: Final = "assay.deadline"
GRADER_LABEL: Final = "assay.grader"
"""Host name of the grader that started the container (for a grader in a container: that container's id)."""

# Reads the sources of init.py and what it needs from stdin, and hands over to the latter.
_BOOTSTRAP: Final = """
import json, os, sys, types
def exactly(size):
    text = b""
    while len(text) < size:
        piece = os.read(0, size - len(text))
        if not piece:
            os._exit(0)
        text += piece
    return text
modules = json.loads(exactly(int.from_bytes(exactly(4), "big")))
for name, text in modules.items():
    module = sys.modules[name] = types.ModuleType(name)
    parent, _, last = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], last, module)
    exec(compile(text, name, "exec"), module.__dict__)
module.serve(float(sys.argv[1]))
"""


class DockerSandbox:
    """Runs jobs in containers of their own. `root` stays empty: a job's files never touch the grader's disk."""

    name = "docker"
    promises = frozenset(Isolation)
    interpreter = "/usr/bin/python3"
    """The Python of the image."""

    def __init__(self, root: Path, image: str | None = None, ahead: int = 2, cpus: float = 2.0) -> None:
        """Raises SandboxError when the daemon does not answer or the image is not there, StorageError for `root`."""
        self.root = root
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise storage_fault(error, root) from error
        self._engine = _Engine(image or os.environ.get("ASSAY_SANDBOX_IMAGE") or DEFAULT_IMAGE, cpus)
        self._engine.check()
        self._engine.reap()
        self._ready = ReadyContainers(self._engine, ahead)

    @property
    def image_id(self) -> str:
        """The digest of the image that jobs run in."""
        return self._engine.image_id

    def run(self, job: Job) -> JobResult:
        """Run the job to its end, without stdin. Raises SandboxError."""
        return self._begin(job, talk=False).conclude(grace_s=None)

    def start(self, job: Job) -> ContainerSession:
        """Start the job and talk to it. Raises SandboxError."""
        return self._begin(job, talk=True)

    def close(self) -> None:
        """Remove the containers that wait for jobs; those of running jobs stay. A later job starts its own."""
        self._ready.close()

    def _begin(self, job: Job, talk: bool) -> ContainerSession:
        _check(job)
        return ContainerSession(job, self._ready.take(ContainerShape.of(job)), _order(job), talk)


def _check(job: Job) -> None:
    program = installed_program(job)
    if program is not None and not os.path.isabs(program):
        raise SandboxError(f"There is no program at {program!r}.", "Give the absolute path of an installed program.")
    if job.descriptors:
        raise SandboxError(
            "Open descriptors cannot cross into a container.",
            "Run the GPU's worker in a container that has the GPU (docker-compose.gpu.yml); inside it set "
            "ASSAY_SANDBOX=bubblewrap.",
        )
    for path in job.devices:
        if not (path.is_absolute() and path.parts[1] == "dev"):
            raise SandboxError(f"The job is to use {path}, which is no device.", "Give device nodes under /dev.")


def _order(job: Job) -> dict[str, Any]:
    limits = job.limits
    return {
        "argv": job.argv,
        "environment": {"PATH": PATH, "HOME": WORK, "TMPDIR": WORK, **job.environment},
        "drop_capabilities": False,  # there are none
        "filter": seccomp.program(devices=bool(job.devices)).hex() if seccomp.available() else None,
        "folder": WORK,
        "wall_s": limits.wall_s,
        "cpu_s": max(1, int(limits.cpu_s + 0.999)),
        "memory_bytes": limits.memory_bytes,
        "address_space": limits.address_space,
        "file_bytes": limits.file_bytes,
        "work_bytes": limits.work_bytes,
        "processes": limits.processes,
        "open_files": limits.open_files,
        "files": [(name, len(content)) for name, content in job.files.items()],
        "collect": job.collect,
        "readable": [str(path) for path in job.readable],
    }


# ---- the daemon ----


class _Engine:
    """What is asked of the Docker daemon, and its failures in the grader's words."""

    def __init__(self, image: str, cpus: float) -> None:
        self._image = image
        self._cpus = cpus
        self._client: tuple[int, docker.APIClient] | None = None
        self._reaped_s = 0.0

    @property
    def _api(self) -> docker.APIClient:
        # Connections of a parent process are not a forked child's to use.
        if self._client is None or self._client[0] != os.getpid():
            self._client = os.getpid(), docker.from_env(timeout=60).api
        return self._client[1]

    def check(self) -> None:
        """Raises SandboxError when no job could be started."""
        with _faults(f"The sandbox's image {self._image} cannot be used"):
            self._cpus = min(self._cpus, float(self._api.info()["NCPU"]))
            # The digest, so that all jobs of a grader run in one image even when its name is given to another.
            found: dict[str, Any] = self._api.inspect_image(self._image)  # type: ignore[no-untyped-call]
            self._image_id = str(found["Id"])

    @property
    def image_id(self) -> str:
        return self._image_id

    def start(self, shape: ContainerShape) -> Container:
        """Create a container, attach to it, start it. Raises SandboxError."""
        name = f"assay-{secrets.token_hex(8)}"
        with _faults("A container could not be started"):
            try:
                self._api.create_container(
                    self._image_id,
                    [DockerSandbox.interpreter, "-I", "-S", "-c", _BOOTSTRAP, str(IDLE_S)],
                    name=name,
                    user=f"{NOBODY}:{NOBODY}",
                    working_dir=WORK,
                    hostname="sandbox",
                    entrypoint=[],
                    stdin_open=True,
                    network_disabled=True,
                    labels={
                        JOB_LABEL: name,
                        DEADLINE_LABEL: str(int(time.time() + IDLE_S + shape.longest_s)),
                        GRADER_LABEL: socket.gethostname(),
                    },
                    host_config=self._host_config(shape),
                )
                stream = self._api.attach_socket(name, {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
                connection = socket.socket(fileno=os.dup(stream.fileno()))
                stream._sock.close()
                self._api.start(name)
                connection.settimeout(60)
                connection.sendall(_sources())
            except BaseException:
                self._end(name)
                raise
        return Container(
            name,
            connection,
            order_end=functools.partial(self._order_end, name),
            end=functools.partial(self._end_attached, name, connection),
        )

    def _host_config(self, shape: ContainerShape) -> dict[str, Any]:
        owner = f"uid={NOBODY},gid={NOBODY},mode=0700"
        # Beyond what is allowed, so that the watch sees that more was wanted; the rest meets the kernel's own limit.
        work_bytes, entries = shape.work_bytes + (1 << 20), warden.WORK_ENTRIES + 100
        # Files in memory are charged to the container that wrote them.
        memory_bytes = shape.memory_bytes + work_bytes + MEMORY_FOLDER_BYTES + OVERHEAD_BYTES
        config: dict[str, Any] = self._api.create_host_config(
            auto_remove=True,
            network_mode="none",
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges:true"],
            tmpfs={
                WORK: f"rw,exec,nosuid,nodev,size={work_bytes},nr_inodes={entries},{owner}",
                "/tmp": f"rw,noexec,nosuid,nodev,size={MEMORY_FOLDER_BYTES},nr_inodes=4096,mode=1777",
            },
            shm_size=MEMORY_FOLDER_BYTES,
            ipc_mode="private",
            mem_limit=memory_bytes,
            memswap_limit=memory_bytes,
            pids_limit=shape.processes + 2,  # and the first process with its thread
            nano_cpus=int(self._cpus * 1e9),
            ulimits=[Ulimit(name="core", soft=1, hard=1), Ulimit(name="memlock", soft=1 << 16, hard=1 << 16)],
            log_config=LogConfig(type="none"),
            devices=[f"{path}:{path}:rw" for path in shape.devices if not _is_nvidia(path)],
            device_requests=_gpus(shape.devices),
        )
        return config

    def _order_end(self, name: str) -> None:
        def order() -> None:
            with contextlib.suppress(DockerException, OSError):
                self._api.kill(name, "SIGTERM")

        threading.Thread(target=order, name="assay-end", daemon=True).start()  # the caller's time is not the daemon's

    def _end_attached(self, name: str, connection: socket.socket) -> str | None:
        try:
            connection.close()
        finally:
            why = self._end(name)
        return why

    def _end(self, name: str) -> str | None:
        why = None
        with contextlib.suppress(DockerException, OSError):
            state = self._api.inspect_container(name)["State"]
            if state.get("OOMKilled"):
                why = "the kernel had no memory left for it"
            elif state.get("Error"):
                why = str(state["Error"])
            self._api.remove_container(name, force=True)
        return why

    def reap_now_and_then(self) -> None:
        """As `reap`, at most once in `SETTLED_S`: what a killed grader left need not wait for the next to start."""
        if time.monotonic() - self._reaped_s > SETTLED_S:
            self.reap()

    def reap(self) -> None:
        """Remove containers past their deadline, and such as never ran or were not removed when they ended."""
        now_s = time.time()
        self._reaped_s = time.monotonic()
        with _faults("The Docker daemon cannot be used"):
            for found in self._api.containers(all=True, filters={"label": JOB_LABEL}):
                deadline = str(found.get("Labels", {}).get(DEADLINE_LABEL, "0"))
                past = not deadline.isdigit() or int(deadline) < now_s
                idle = found.get("State") != "running" and found.get("Created", 0) < now_s - SETTLED_S
                if past or idle:
                    with contextlib.suppress(APIError):
                        self._api.remove_container(found["Id"], force=True)


@functools.cache
def _sources() -> bytes:
    modules = dict.fromkeys(("evaluator", *(f"evaluator.sandbox{each}" for each in ("", ".host", ".container"))), "")
    for name in ("host.process_tree", "host.held_memory", "host.warden", "container.init"):
        path = Path(__file__).parents[1] / (name.replace(".", "/") + ".py")
        modules[f"evaluator.sandbox.{name}"] = path.read_text(encoding="utf-8")
    text = json.dumps(modules).encode()
    return len(text).to_bytes(4, "big") + text


def _is_nvidia(path: Path) -> bool:
    return path.name.startswith("nvidia")


def _gpus(devices: tuple[Path, ...]) -> list[DeviceRequest]:
    """The NVIDIA runtime mounts the driver's files as well as the nodes: GPUs are asked for by number."""
    numbers = [path.name.removeprefix("nvidia") for path in devices if _is_nvidia(path)]
    numbers = [number for number in numbers if number.isdigit()]
    return [DeviceRequest(driver="nvidia", device_ids=numbers, capabilities=[["gpu"]])] if numbers else []


@contextlib.contextmanager
def _faults(what: str) -> Iterator[None]:
    try:
        yield
    except ImageNotFound as error:
        raise SandboxError(
            f"{what}: there is no such image.",
            "Build it: docker build -f Dockerfile.evaluator --target sandbox -t assay-sandbox . ; or name another "
            "with ASSAY_SANDBOX_IMAGE.",
        ) from error
    except NotFound as error:
        raise SandboxError(f"{what}: it was removed at once ({error.explanation}).", "Evaluate again.") from error
    except APIError as error:
        raise SandboxError(f"{what}: {error.explanation or error}.", "Look at what docker info says.") from error
    except (DockerException, OSError) as error:  # requests' errors are OSErrors
        raise SandboxError(
            f"{what}: the Docker daemon does not answer: {error}.",
            "Start it, set DOCKER_HOST, or give this user the right to its socket (group docker).",
        ) from error
