"""NVIDIA's tools that look into a running program: where they are, and how a program is run under one of them.

The tool and the process that it watches (`solo`) run together in one sandbox. The tool's own report goes to a file,
so that nothing which a kernel prints can be taken for it.
"""

import json
import os
import platform
import re
import shutil
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from evaluator.backends.gpu.runner import launcher, tool_target
from evaluator.backends.gpu.shared_memory import BufferRegion, Layout, step_order
from evaluator.backends.session import KernelLaunch, PlanRun, Program
from evaluator.problems.arrays import to_numpy
from evaluator.python_command import own_python
from evaluator.sandbox.retry import run_in_tries
from evaluator.sandbox.sandbox import Job, Limits, Sandbox

ToolName: TypeAlias = Literal["ncu", "compute-sanitizer"]

REPORT: Final = "report"
_VARIABLES: Final[dict[ToolName, str]] = {"ncu": "ASSAY_NCU", "compute-sanitizer": "ASSAY_COMPUTE_SANITIZER"}
_PACKAGES: Final[dict[ToolName, str]] = {
    "ncu": "Install Nsight Compute (it comes with the CUDA toolkit, or as the package nsight-compute), "
    "or name its ncu in ASSAY_NCU.",
    "compute-sanitizer": "Install it with `pip install nvidia-cuda-sanitizer-api` or with the CUDA toolkit, "
    "or name it in ASSAY_COMPUTE_SANITIZER.",
}
COUNTERS_REMEDY: Final = (
    "Its owner can open them: the line `options nvidia NVreg_RestrictProfilingToAdminUsers=0` in "
    "/etc/modprobe.d/nvidia.conf, then a restart (https://developer.nvidia.com/ERR_NVGPUCTRPERM)."
)
_FILE_BYTES: Final = 4 << 30


class ToolMissingError(Exception):
    """The tool is not on this machine, or could not do its work: why, and in `remedy` what helps."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True)
class ToolRun:
    """What a tool and the process that it watched left behind."""

    report: str
    """The tool's own; empty where it wrote none."""
    said: str
    """The end of what both printed."""
    addresses: tuple[tuple[int, ...], ...]
    """Of each run that began, where its buffers were, in their order."""
    ended: int
    """How many runs ended well."""
    fault: str | None
    """The device's error, as the driver names it."""
    timed_out: bool
    wall_s: float


def find_tool(tool: ToolName) -> Path:
    """The tool's program. Raises ToolMissingError."""
    for candidate in _candidates(tool):
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate
    raise ToolMissingError(f"there is no {tool} on this machine", _PACKAGES[tool])


def why_no_counters(root: Path = Path("/")) -> ToolMissingError | None:
    """What the driver's settings say against reading counters from within a sandbox, where nobody is root."""
    try:
        settings = (root / "proc/driver/nvidia/params").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    if re.search(r"^RmProfilingAdminOnly: 1$", settings, re.MULTILINE):
        return ToolMissingError(
            "the driver lets only root read the GPU's counters (ERR_NVGPUCTRPERM)", COUNTERS_REMEDY
        )
    return None


def _candidates(tool: ToolName) -> Iterator[Path]:
    if named := os.environ.get(_VARIABLES[tool]):
        yield Path(named)
        return
    # What PATH has of them is a script that looks for the program; the program itself starts at once.
    on_path = shutil.which(tool)
    roots = [Path(on_path).resolve().parent] if on_path else []
    roots += [root for root in sorted(Path("/usr/local").glob("cuda*"), reverse=True) if root.is_dir()]
    if tool == "ncu":
        machine = "x64" if platform.machine() == "x86_64" else "a64"
        installed = [place for root in roots for place in (root, root.parent, *sorted(root.glob("nsight-compute-*")))]
        installed += sorted(Path("/opt/nvidia/nsight-compute").glob("*"), reverse=True)
        for place in installed:
            yield from sorted(place.glob(f"target/linux-desktop-*{machine}/ncu"))
    else:
        for root in roots:
            yield root / "compute-sanitizer"
            yield root.parent / "compute-sanitizer/compute-sanitizer"
            yield root / "compute-sanitizer/compute-sanitizer"
        for packages in dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib")):
            yield from sorted(Path(packages).glob("nvidia/cu*/bin/compute-sanitizer"), reverse=True)
    if on_path:
        yield Path(on_path).resolve()


def _installed_under(program: Path) -> tuple[Path, ...]:
    """Folders that the tool reads: for `…/target/linux-desktop-…/ncu` all of the installation."""
    program = program.resolve()
    folder = program.parents[2] if program.parent.parent.name == "target" else program.parent
    beside = (folder.parent / "lib",) if folder.name == "bin" else ()
    return tuple(path for path in (folder, *beside) if path.is_dir() and path != Path("/usr/bin"))


class ToolRunner:
    """Runs programs under tools, each time in a fresh sandbox with a context of its own."""

    def __init__(self, sandbox: Sandbox, gpu: str, device: str = tool_target.REAL_DEVICE) -> None:
        """`gpu` is the UUID of the one device that programs see."""
        self._sandbox, self._gpu, self._device = sandbox, gpu, device

    def watch(
        self,
        tool: ToolName,
        options: Sequence[str],
        program: Program,
        runs: Sequence[PlanRun],
        poison: int | None,
        limit_s: float,
        variables: Mapping[str, str] | None = None,
    ) -> ToolRun:
        """Run plans one after another in one process, under a tool whose report is the file `REPORT`.

        `poison` is what undefined memory holds; None leaves it as it is. Raises ToolMissingError, SandboxError,
        StorageError.
        """
        found = find_tool(tool)
        job = Job(
            (str(found), *options, *own_python(tool_target.__name__, self._device)),
            files=_files(program, runs, poison),
            collect=(REPORT, tool_target.TOLD),
            readable=(*launcher.readable(), *_installed_under(found)),
            environment={**launcher.runner_environment(self._gpu), "LC_ALL": "C.UTF-8", **(variables or {})},
            devices=launcher.devices(),
            limits=Limits(
                wall_s=limit_s,
                cpu_s=20 * limit_s,
                memory_bytes=32 << 30,
                address_space=False,
                file_bytes=_FILE_BYTES,
                work_bytes=4 * _FILE_BYTES,
                processes=1024,
                open_files=1024,
            ),
        )
        finished = run_in_tries(self._sandbox, job)
        told = _told(finished.files.get(tool_target.TOLD, b""))
        said = (finished.stdout[-4000:] + b"\n" + finished.stderr[-4000:]).decode(errors="replace").strip()
        return ToolRun(
            report=finished.files.get(REPORT, b"").decode(errors="replace"),
            said=said,
            addresses=tuple(tuple(int(address) for address in run) for run in told["addresses"]),
            ended=int(told["ended"]),
            fault=str(told["fault"]["error"] or told["fault"]["message"]) if told["fault"] else None,
            timed_out=finished.timed_out,
            wall_s=finished.wall_s,
        )


def _told(text: bytes) -> dict[str, Any]:
    """What the watched process wrote; it may have ended before, or have been talked into nonsense."""
    try:
        told = json.loads(text)
        return {"addresses": list(told["addresses"]), "ended": int(told["ended"]), "fault": told["fault"]}
    except (ValueError, KeyError, TypeError):
        return {"addresses": [], "ended": 0, "fault": None}


def _files(program: Program, runs: Sequence[PlanRun], poison: int | None) -> dict[str, bytes]:
    files = {tool_target.IMAGE: program.cubin}
    entries = {entry.symbol: entry for entry in program.entries}
    orders = []
    attributes = False
    for number, run in enumerate(runs):
        # The places' offsets are the buffers' numbers, which the watched process replaces by addresses.
        numbered = ((i << tool_target.OFFSET_BITS, b) for i, b in enumerate(run.buffers))
        places = Layout(tuple(BufferRegion(b.name, at, b.size_bytes, b.item_bytes) for at, b in numbered), 0)
        buffers: list[dict[str, Any]] = []
        for index, buffer in enumerate(run.buffers):
            name = None
            if buffer.content is not None:
                name = f"input.{number}.{index}"
                files[name] = to_numpy(buffer.content).tobytes()
            buffers.append({"bytes": buffer.size_bytes, "file": name})
        steps = [step_order(step, places, entries) for step in run.steps]
        attributes |= any(isinstance(s, KernelLaunch) and (s.cooperative or s.cluster is not None) for s in run.steps)
        orders.append({"buffers": buffers, "steps": steps})
    order = {"attributes": attributes, "poison": poison, "runs": orders}
    return {**files, tool_target.ORDER: json.dumps(order).encode()}
