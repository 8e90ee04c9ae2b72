"""What works on this machine, what does not, and the command that fixes it."""

import json
import os
import platform
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import httpx

from common.contract import Settings, Status, Submission
from common.health import HealthCheck
from evaluator import __version__
from evaluator.backends.gpu.device.health import Gpu, GpuState, device_state, driver_fault, gpus, lost
from evaluator.backends.gpu.device.install import cuda_of_pycuda, fault_of_pycuda, packages
from evaluator.backends.gpu.tools import launch
from evaluator.cli.console import EXIT_OTHER, EXIT_PASSED, printing
from evaluator.errors import AssayError, UsageError
from evaluator.foreign.reference import ReferenceProcess, why_no_references
from evaluator.installation import install_command
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.catalogue import find_problem, problems
from evaluator.report.terminal import printable
from evaluator.sandbox.selftest import probe_sandbox
from evaluator.settings import MachineSettings, ServiceSettings
from evaluator.stages.host.permission import why_not_here
from evaluator.stages.host.torch_package import find_torch
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.triton.python_runs import check_recorder
from evaluator.stages.lift.triton.triton_package import find_triton, why_no_triton

_NEEDED_FREE_BYTES = 1 << 30
_ANSWER_S = 3.0
_GPU = install_command("gpu")
_MAX_ANSWER_BYTES = 10_000
_HOST_TIER_DOCS = "docs/host_tier.md says when it does."


@click.command()
def doctor() -> None:
    """Say what works on this machine, what does not, and the command that fixes it."""
    broken = False
    for finding in examine(Toolbox(MachineSettings.from_environment())):
        mark = {True: "ok  ", False: "FAIL", None: "note"}[finding.ok]
        with printing():
            click.echo(f"{mark}  {finding.name:12} {printable(finding.detail)}")
            if finding.remedy:
                click.echo(f"      {'':12} {printable(finding.remedy)}")
        broken = broken or finding.ok is False
    sys.exit(EXIT_OTHER if broken else EXIT_PASSED)


def examine(toolbox: Toolbox) -> Iterator[HealthCheck]:
    """Look at one thing after another; what depends on a broken one says so itself."""
    yield HealthCheck("assay", None, f"{__version__}, {len(problems())} problems, Python {platform.python_version()}")
    yield _finding("compiler", lambda: _compiler(toolbox))
    yield _finding("sandbox", lambda: _sandbox(toolbox))
    yield _finding("data folder", lambda: _storage(toolbox))
    yield _finding("simulator", lambda: _simulator(toolbox))
    yield from _gpu(toolbox)
    if not gpus():
        yield HealthCheck(
            "host tier", None, "host code does not run: it needs a GPU that can be used here", _HOST_TIER_DOCS
        )
    yield _finding("references", lambda: _references(toolbox))
    yield _finding("triton", lambda: _triton(toolbox))
    yield from _service(toolbox)


def _finding(name: str, look: Callable[[], HealthCheck]) -> HealthCheck:
    try:
        return look()
    except AssayError as error:
        return HealthCheck(name, False, str(error), error.remedy)
    except OSError as error:
        return HealthCheck(name, False, f"{error.strerror or error}: {error.filename or ''}")


def _compiler(toolbox: Toolbox) -> HealthCheck:
    toolchain = toolbox.toolchain
    return HealthCheck(
        "compiler", True, f"{toolchain.label} at {toolchain.nvcc}, host compiler {toolchain.host_compiler_version}"
    )


def _sandbox(toolbox: Toolbox) -> HealthCheck:
    sandbox = toolbox.sandbox
    layers = probe_sandbox(sandbox)
    broken = [layer for layer in layers if layer.promised and not layer.holds]
    missing = [layer.name for layer in layers if not layer.promised]
    if broken:
        return HealthCheck(
            "sandbox", False, f"{sandbox.name}: " + "; ".join(f"{layer.name}: {layer.detail}" for layer in broken)
        )
    detail = f"{sandbox.name}: {len(layers) - len(missing)} layers hold"
    if missing:
        return HealthCheck(
            "sandbox",
            None,
            f"{detail}; not promised: {', '.join(missing)}",
            "Allow user namespaces (sysctl kernel.unprivileged_userns_clone=1), so that bubblewrap can be used.",
        )
    return HealthCheck("sandbox", True, detail)


def _storage(toolbox: Toolbox) -> HealthCheck:
    folder = toolbox.settings.data_dir
    _ = toolbox.sandbox  # makes the folder
    free_bytes = shutil.disk_usage(folder).free
    ok = free_bytes > _NEEDED_FREE_BYTES and toolbox.cache.warning is None
    remedy = None if ok else "Free some space, or set ASSAY_DATA_DIR to another folder."
    return HealthCheck("data folder", ok, f"{folder}, {free_bytes / (1 << 30):.1f} GiB free", remedy)


def _simulator(toolbox: Toolbox) -> HealthCheck:
    """Grade one kernel for real."""
    toolbox.simulator.warm_up()
    started_s = time.monotonic()
    problem = find_problem("vector_add")
    assert problem.naive is not None
    verdict = evaluate(
        Submission(problem=problem.id, source=problem.naive.source, backend="sim"), toolbox, problem=problem
    )
    took = f"{time.monotonic() - started_s:.2f} s"
    if verdict.status is not Status.PASSED:
        return HealthCheck(
            "simulator", False, f"a right kernel got {verdict.status}: {verdict.message}", verdict.hint
        )
    return HealthCheck("simulator", True, f"graded {problem.id} in {took} on {platform.machine()}, {sys.platform}")


def _references(toolbox: Toolbox) -> HealthCheck:
    """Whether files of others can be graded for: have one carried out."""
    missing = why_no_references(toolbox.sandbox)
    if missing is not None:
        return HealthCheck("references", None, f"{missing} `assay grade --reference` needs it.", missing.remedy)
    started_s = time.monotonic()
    process = ReferenceProcess(toolbox.sandbox, _REFERENCE, "reference.py")
    try:
        found = process.describe({})
    finally:
        process.close()
    took = f"{time.monotonic() - started_s:.2f} s"
    return HealthCheck(
        "references", True, f"PyTorch {found.torch} carried out a file of KernelBench's form in {took}"
    )


def _triton(toolbox: Toolbox) -> HealthCheck:
    """Whether kernels written in Triton can be graded: have it compile one of ours."""
    command = install_command("triton")
    if (missing := why_no_triton()) is not None:
        return HealthCheck("triton", None, missing, f"Run `{command}`.")
    started_s = time.monotonic()
    try:
        found = find_triton()
        check_recorder(toolbox.toolchain, toolbox.sandbox)
    except LiftRefusedError as refusal:
        # Its hint is for the author of a kernel.
        remedy = f"Run `pip uninstall -y triton` in Assay's environment, then `{command}`."
        return HealthCheck("triton", None, refusal.ruling.message, remedy)
    took = f"{time.monotonic() - started_s:.2f} s"
    return HealthCheck("triton", True, f"Triton {found.version} compiled a kernel in {took}")


_REFERENCE = b"""import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.randn(64)]
"""


def _service(toolbox: Toolbox) -> Iterator[HealthCheck]:
    """What `assay serve` would find: a server, isolation in containers, and the database and Redis that are set."""
    yield _finding("service", _server)
    if toolbox.settings.sandbox != "docker":  # else it was tried above
        yield _docker()
    if os.environ.get("ASSAY_DATABASE_URL"):
        yield _finding("database", _database)
    if os.environ.get("ASSAY_BROKER_URL"):
        yield _finding("Redis", _redis)


def _server() -> HealthCheck:
    """Who listens where `assay serve` would."""
    settings = ServiceSettings.from_environment()
    host = settings.host if settings.host not in ("0.0.0.0", "::") else "localhost"
    address = f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
    try:
        # What the environment says of proxies is for other hosts.
        with httpx.Client(base_url=address, timeout=_ANSWER_S, trust_env=False) as asked:
            version = str(_told(asked, "/version")["assay"])
            reason = _told(asked, "/readyz")["reason"]
    except httpx.ConnectError:
        needs = "" if os.environ.get("ASSAY_DATABASE_URL") else ", which needs neither Redis nor a database server"
        return HealthCheck("service", None, f"none runs at {address}; `assay serve` starts one{needs}")
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError, TypeError):
        remedy = "Serve at another with `assay serve --port 0`, or ASSAY_PORT."
        return HealthCheck("service", None, f"another program has the port of {address}", remedy)
    detail = f"Assay {version} runs at {address}"
    if reason:
        return HealthCheck(
            "service", False, f"{detail}, and is not ready: {reason}", "Read what it and its workers log."
        )
    return HealthCheck("service", True, f"{detail}, and is ready")


def _told(asked: httpx.Client, path: str) -> Any:
    """The JSON at `path`. Another program may answer there: no more is read than a service of ours says."""
    with asked.stream("GET", path) as answer:
        text = b""
        for part in answer.iter_bytes(_MAX_ANSWER_BYTES):
            text += part
            if len(text) > _MAX_ANSWER_BYTES:
                raise ValueError("too long for an answer of ours")
    return json.loads(text)


def _docker() -> HealthCheck:
    """Whether jobs could run in containers. Nothing but the daemon's socket is looked at."""
    named = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not named.startswith("unix://"):
        return HealthCheck("Docker", None, f"DOCKER_HOST names {named}; ASSAY_SANDBOX=docker would use it")
    path = named.removeprefix("unix://")
    try:
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(_ANSWER_S)
            asked.connect(path)
    except OSError as error:
        detail = f"no daemon answers at {path} ({error.strerror or error}); only ASSAY_SANDBOX=docker needs one"
        return HealthCheck("Docker", None, detail)
    return HealthCheck("Docker", None, f"a daemon answers at {path}; ASSAY_SANDBOX=docker would use it")


def _database() -> HealthCheck:
    from evaluator.service.storage.database import Database

    database = Database(ServiceSettings.from_environment().database_url)
    try:
        database.ping()
    finally:
        database.close()
    return HealthCheck("database", True, "the one of ASSAY_DATABASE_URL answers")


def _redis() -> HealthCheck:
    from evaluator.service.workers.celery_app import why_unreachable

    reason = why_unreachable(ServiceSettings.from_environment().broker_url)
    if reason is None:
        return HealthCheck("Redis", True, "the one of ASSAY_BROKER_URL answers")
    remedy = "Start it, or correct ASSAY_BROKER_URL: redis://:PASSWORD@HOST:6379/0."
    return HealthCheck("Redis", False, f"the one of ASSAY_BROKER_URL cannot be used: {reason[:300]}", remedy)


def _gpu(toolbox: Toolbox) -> Iterator[HealthCheck]:
    """One line where there is no GPU; else one for each thing that grading on it needs."""
    found, absence = gpus(), driver_fault()
    for silent in lost():
        yield HealthCheck(
            "GPU", False, silent, "Read `dmesg | grep -i -e NVRM -e Xid`; only a restart brings it back."
        )
    if not found:
        message = absence.message if absence else "the driver lists none"
        broken = absence is not None and absence.broken
        yield HealthCheck(
            "GPU",
            False if broken else None,
            f"{message}: kernels run on the simulator, untimed",
            absence.remedy if absence else None,
        )
        return
    served = ".".join(map(str, found[0].cuda_version))
    detail = f"{found[0].driver_version}, serves CUDA {served}"
    if not all(gpu.persistence for gpu in found):
        detail += "; persistence mode is off, so that a first start takes longer"
    yield HealthCheck("GPU driver", True, detail)
    for gpu in found:
        name = f"GPU {gpu.index}"
        yield _finding(name, lambda gpu=gpu, name=name: _one_gpu(name, gpu, device_state(gpu.uuid)))  # type: ignore[misc]
    if absence:
        yield HealthCheck("GPU access", False, absence.message, absence.remedy)
    else:
        yield HealthCheck("GPU access", True, "this user may open the devices")
    yield _gpu_packages()
    yield _finding("GPU compiler", lambda: _gpu_compiler(toolbox, found))
    yield _finding("GPU referee", lambda: _gpu_referee(toolbox))
    yield _finding("host tier", lambda: host_tier(toolbox))
    yield _profiler()
    yield _sanitizer()
    yield _containers()


def host_tier(toolbox: Toolbox) -> HealthCheck:
    """Whether host code of a submission may run beside the GPU, and what is missing to compile its C++."""
    word = toolbox.settings.host_tier
    reason = why_not_here(Settings(host_tier="allowed"), word, "gpu", toolbox.sandbox.promises)
    if reason is not None:
        return HealthCheck("host tier", None, f"host code does not run: {reason}", _HOST_TIER_DOCS)
    try:
        torch = find_torch()
    except LiftRefusedError as refusal:
        return HealthCheck("host tier", None, f"host code runs, but for C++: {refusal.ruling.message}")
    built = f"CUDA {torch.cuda}" if torch.cuda else "without CUDA, so that CUDA extensions are not compiled"
    return HealthCheck(
        "host tier", True, f"host code may run (ASSAY_HOST_TIER={word}); C++ for PyTorch {torch.version}, {built}"
    )


def _profiler(root: Path = Path("/")) -> HealthCheck:
    """Whether `assay grade --profile` can read counters. Nothing is profiled here."""
    name = "GPU profiler"
    try:
        ncu = launch.find_tool("ncu")
    except launch.ToolMissingError as missing:
        return HealthCheck(name, None, f"{missing}: `--profile` will say so", missing.remedy)
    if reason := launch.why_no_counters(root):
        return HealthCheck(name, None, f"{ncu}, but {reason}", reason.remedy)
    return HealthCheck(name, True, f"{ncu}; its counters are open to every user")


def _sanitizer() -> HealthCheck:
    name = "GPU checker"
    try:
        return HealthCheck(name, True, str(launch.find_tool("compute-sanitizer")))
    except launch.ToolMissingError as missing:
        detail = f"{missing}: what the simulator cannot run is not rehearsed"
        return HealthCheck(name, None, detail, missing.remedy)


def _one_gpu(name: str, gpu: Gpu, state: GpuState) -> HealthCheck:
    told = [gpu.name, gpu.arch, f"{gpu.memory_bytes / (1 << 30):.0f} GiB"]
    told += [f"{gpu.memory_free_bytes / (1 << 30):.0f} GiB free"]
    if state.sm_clock_mhz is not None and state.sm_clock_max_mhz is not None:
        told += [f"{state.sm_clock_mhz} of {state.sm_clock_max_mhz} MHz"]
    if state.temperature_celsius is not None:
        told += [f"{state.temperature_celsius} °C"]
    told += [f"slowed by: {', '.join(state.slowed_by)}"] if state.slowed_by else []
    told += ["MIG on"] if gpu.mig else []
    told += [f"used by {len(state.other_processes)} other processes"] if state.other_processes else []
    detail = ", ".join(told)
    if gpu.compute_mode != "default":
        return HealthCheck(
            name,
            False,
            f"{detail}; compute mode is {gpu.compute_mode}, and Assay needs two contexts (referee and runner)",
            f"Its owner can set it: `sudo nvidia-smi -i {gpu.uuid} -c DEFAULT`.",
        )
    if state.ecc_uncorrected:
        return HealthCheck(
            name,
            False,
            f"{detail}; ECC found {state.ecc_uncorrected} errors that it could not correct: trust no result",
            "Its owner can restart it; if errors come back, the GPU is to be replaced.",
        )
    if gpu.mig:
        return HealthCheck(name, None, f"{detail}; it is divided, and neighbours disturb what is timed on a part")
    if "clocks set by the machine's owner" not in (state.clock_reasons or ()):
        detail += "; its clocks follow load and heat, which Assay records and never changes"
    return HealthCheck(name, True, detail)


def _gpu_packages() -> HealthCheck:
    """Versions as their metadata has them: importing torch would cost seconds and a CUDA context."""
    releases = {package.name: package.cuda for package in packages()} | {"pycuda": cuda_of_pycuda()}
    told = []
    for package in packages():
        release = releases[package.name]
        made_for = f" (CUDA {release})" if release else ""
        told.append(f"{package.name} {package.version}{made_for}" if package.version else f"no {package.name}")
    detail = ", ".join(told)
    if any(package.version is None for package in packages()):
        return HealthCheck("GPU packages", False, detail, f"Run `{_GPU}`.")
    if fault := fault_of_pycuda():
        remedy = f"Run `pip uninstall -y pycuda` in Assay's environment, then `{_GPU}`, which builds it again."
        return HealthCheck("GPU packages", False, f"{detail}; PyCUDA cannot be loaded: {fault}", remedy)
    if releases["torch"] == "none":
        remedy = f"Run `pip uninstall -y torch` in Assay's environment, then `{_GPU}`."
        return HealthCheck("GPU packages", False, f"{detail}; this torch is the build without CUDA", remedy)
    if len({release.split(".")[0] for release in releases.values() if release}) > 1:
        remedy = f"Run `pip uninstall -y pycuda torch cuda-bindings` in Assay's environment, then `{_GPU}`."
        return HealthCheck("GPU packages", False, f"{detail}: made for different CUDA releases", remedy)
    return HealthCheck("GPU packages", True, detail)


def _gpu_compiler(toolbox: Toolbox, found: tuple[Gpu, ...]) -> HealthCheck:
    toolchain = toolbox.toolchain
    wanted = sorted({gpu.arch for gpu in found})
    unknown = [arch for arch in wanted if not toolchain.supports(arch)]
    if not unknown:
        return HealthCheck("GPU compiler", True, f"{toolchain.label} makes code for {', '.join(wanted)}")
    known = f"{toolchain.architectures[0]} to {toolchain.architectures[-1]}"
    remedy = "Install a CUDA release that knows it, and name its nvcc in ASSAY_NVCC."
    detail = f"{toolchain.label} cannot make code for {', '.join(unknown)}, only for {known}"
    return HealthCheck("GPU compiler", False, detail, remedy)


def _gpu_referee(toolbox: Toolbox) -> HealthCheck:
    """Start the process that judges, as the first grading would."""
    name = "GPU referee"
    try:
        referee = toolbox.gpu
    except UsageError as error:
        return HealthCheck(name, False, str(error), error.remedy)
    if referee is None:
        return HealthCheck(name, False, "no GPU can be used, as the lines above say")
    started_s = time.monotonic()
    trouble = referee.start()
    if trouble is not None:
        return HealthCheck(name, False, trouble.reason, f"The end of its log says why: {referee.log}")
    return HealthCheck(name, True, f"ready after {time.monotonic() - started_s:.1f} s, for {referee.device}")


def _containers(root: Path = Path("/")) -> HealthCheck:
    """Whether a container would be given the GPU: only where Docker is, for Assay itself needs no container."""
    if not shutil.which("docker"):
        return HealthCheck("containers", None, "no Docker here, and Assay needs none")
    specifications = [*root.glob("etc/cdi/*nvidia*"), *root.glob("var/run/cdi/*nvidia*")]
    try:
        configured = "nvidia" in (root / "etc/docker/daemon.json").read_text(encoding="utf-8")
    except (OSError, ValueError):
        configured = False
    if configured or specifications:
        return HealthCheck("containers", True, "Docker can give the GPU to a container")
    if shutil.which("nvidia-ctk"):
        remedy = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
        detail = "the NVIDIA Container Toolkit is installed, but Docker does not know it"
    else:
        remedy = "Install the package nvidia-container-toolkit from NVIDIA's repository, to run Assay in a container."
        detail = "Docker cannot give the GPU to a container; Assay outside a container does not need that"
    return HealthCheck("containers", None, detail, remedy)
