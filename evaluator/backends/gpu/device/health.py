"""The GPUs of this machine as their driver describes them (NVML), and why there is none that can be used.

Only reads. Clocks, power limits, compute mode and resets belong to the machine's owner: Assay records them and leaves
them as they are. NVML's library comes with the driver and its Python face (`pynvml`) with `make gpu`; without either
`gpus()` is empty and `why_not()` says what is missing. No CUDA context is made here, so that asking costs the GPU
nothing and the asking process may still fork.
"""

import functools
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from evaluator.backends.gpu.device.install import CUDA, DRIVER, missing
from evaluator.errors import GpuError
from evaluator.installation import install_command

_ROOT: Final = Path("/")
_NVIDIA: Final = "0x10de"
_DISPLAY_CLASS: Final = "0x03"
_INSTALL: Final = f"run `{install_command('gpu')}`"
_LOOK_AT_LOG: Final = "read `dmesg | grep -i -e NVRM -e Xid`, and use this GPU again after a restart only"

# Bits of nvmlClocksEventReasons (nvml.h); the two last have kept their place from the older name, throttle reasons.
_REASONS: Final = {
    0x001: "idle",
    0x002: "clocks set by the machine's owner",
    0x004: "power limit",
    0x008: "hardware slowdown: too hot, or too much power",
    0x010: "kept in step with another GPU",
    0x020: "warmer than the driver allows",
    0x040: "too hot: hardware slowdown",
    0x080: "power brake from outside",
    0x100: "clocks of the display",
    0x200: "board limit",
    0x400: "reliability limit",
}
_HARMLESS: Final = frozenset({"idle", "clocks set by the machine's owner"})
_COMPUTE_MODES: Final = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}


@dataclass(frozen=True)
class Gpu:
    """One GPU. None: the driver cannot say."""

    index: int
    """As NVML and nvidia-smi count, by PCI address; CUDA may count otherwise, so programs go by `uuid`."""
    uuid: str
    name: str
    arch: str
    """What nvcc calls it, for example `sm_90`."""
    memory_bytes: int
    memory_free_bytes: int
    driver_version: str
    cuda_version: tuple[int, int]
    """The newest CUDA release that the driver serves."""
    mig: bool | None
    """Whether it is divided into instances; None where it cannot be."""
    compute_mode: str
    """`default`, `exclusive process`, `prohibited`."""
    persistence: bool | None
    """Whether the driver stays loaded while nobody uses the GPU."""


@dataclass(frozen=True)
class GpuProcess:
    """A process with a context on a GPU. In a container the driver may hide those outside it."""

    pid: int
    """As the driver counts: in a container with process ids of its own it may be another number."""
    memory_bytes: int | None


@dataclass(frozen=True)
class GpuState:
    """How a GPU is at this moment. None: the driver cannot say."""

    uuid: str
    sm_clock_mhz: int | None
    sm_clock_max_mhz: int | None
    memory_clock_mhz: int | None
    memory_clock_max_mhz: int | None
    temperature_celsius: int | None
    power_watts: float | None
    power_limit_watts: float | None
    clock_reasons: tuple[str, ...] | None
    """Why the clocks are below their maximum, in plain words; `idle` and the owner's settings are among them."""
    ecc_uncorrected: int | None
    """Memory errors since the driver was loaded that ECC found and could not correct."""
    other_processes: tuple[GpuProcess, ...] | None
    utilisation_percent: int | None
    """Share of the driver's last sampling period (up to a second) in which a kernel ran."""

    @property
    def slowed_by(self) -> tuple[str, ...]:
        """Those of `clock_reasons` that make a timing worse than it had to be."""
        return tuple(reason for reason in self.clock_reasons or () if reason not in _HARMLESS)


@dataclass(frozen=True)
class GpuAbsence:
    """Why there is no GPU that Assay can use."""

    message: str
    remedy: str
    broken: bool
    """Whether there is a GPU, which something keeps from being used; False on a machine without one."""


def gpus() -> tuple[Gpu, ...]:
    """The GPUs that answer, by index; none where there is no driver, no device, or no `pynvml`. Never raises."""
    try:
        nvml = _nvml(os.getpid())
        found = [_described(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
    except (ImportError, _nvml_error()):
        return ()
    return tuple(gpu for gpu in found if isinstance(gpu, Gpu))


def lost() -> tuple[str, ...]:
    """A sentence for each GPU that the driver lists and that does not answer."""
    try:
        nvml = _nvml(os.getpid())
        found = [_described(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
    except (ImportError, _nvml_error()):
        return ()
    return tuple(gpu for gpu in found if isinstance(gpu, str))


def device_state(uuid: str, own: Collection[int] = ()) -> GpuState:
    """How the GPU `uuid` is now; processes in `own`, and this one, are not counted as others. About 1 ms.

    Raises GpuError when the GPU is lost, is not there, or the driver does not answer.
    """
    try:
        nvml = _nvml(os.getpid())
    except (ImportError, _nvml_error()) as error:
        absence = why_not()
        message = absence.message if absence else str(error)
        raise GpuError(f"the GPU {uuid} does not answer: {message}", absence.remedy if absence else None) from error
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
    except nvml.NVMLError as error:
        raise _fault(uuid, error) from error

    def ask(name: str, *arguments: Any) -> Any:
        return _asked(nvml, uuid, name, handle, *arguments)

    power_mw, limit_mw = ask("nvmlDeviceGetPowerUsage"), ask("nvmlDeviceGetEnforcedPowerLimit")
    bits, load = ask("nvmlDeviceGetCurrentClocksEventReasons"), ask("nvmlDeviceGetUtilizationRates")
    return GpuState(
        uuid=uuid,
        sm_clock_mhz=ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
        sm_clock_max_mhz=ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
        memory_clock_mhz=ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
        memory_clock_max_mhz=ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM),
        temperature_celsius=ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        power_watts=None if power_mw is None else power_mw / 1000,
        power_limit_watts=None if limit_mw is None else limit_mw / 1000,
        clock_reasons=None if bits is None else _in_words(bits),
        ecc_uncorrected=ask(
            "nvmlDeviceGetTotalEccErrors", nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
        ),
        other_processes=_others(ask("nvmlDeviceGetComputeRunningProcesses"), {*own, os.getpid()}),
        utilisation_percent=None if load is None else int(load.gpu),
    )


def why_not(root: Path = _ROOT) -> GpuAbsence | None:
    """Why kernels cannot be graded on a GPU here, and what fixes it; None when they can.

    The machine first (`driver_fault`), then compute modes, then the packages that `make gpu` installs.
    """
    if fault := driver_fault(root):
        return fault
    found = gpus()
    if all(gpu.compute_mode != "default" for gpu in found):
        return GpuAbsence(
            f"the GPU's compute mode is {found[0].compute_mode}, and grading needs two contexts at once",
            f"its owner can set it: `sudo nvidia-smi -i {found[0].uuid} -c DEFAULT`",
            broken=True,
        )
    if lacking := missing():
        return GpuAbsence(f"there is a GPU, but not installed: {', '.join(lacking)}", _INSTALL, broken=True)
    return None


def driver_fault(root: Path = _ROOT) -> GpuAbsence | None:
    """Why no GPU answers programs here: device, driver, rights, version. `root` is where `dev`, `sys`, `proc` are."""
    if not _any_trace(root):
        return GpuAbsence(
            "no NVIDIA GPU on this machine",
            f"to grade on one, it takes sm_75 (2018) or later, its driver (branch {DRIVER} or later) and "
            f"`{install_command('gpu')}`",
            broken=False,
        )
    try:
        nvml = _nvml(os.getpid())
        count = int(nvml.nvmlDeviceGetCount())
        served = _cuda_version(nvml)
        driver = str(nvml.nvmlSystemGetDriverVersion())
    except ImportError:
        return _blocked_nodes(root) or GpuAbsence("there is a GPU, but nvidia-ml-py is not installed", _INSTALL, True)
    except _nvml_error() as error:
        return _blocked_nodes(root) or _explained(error, root)
    if blocked := _blocked_nodes(root):
        return blocked
    if count == 0 or not gpus():
        reason = "; ".join(lost()) or f"the driver {driver} is loaded but lists no GPU"
        return GpuAbsence(
            reason, "read `dmesg | grep -i -e NVRM -e Xid`; a GPU that fell off the bus needs a reboot", True
        )
    if served < CUDA:
        return GpuAbsence(
            f"the driver {driver} serves CUDA up to {_dotted(served)}, and `{install_command('gpu')}` installs CUDA "
            f"{_dotted(CUDA)}",
            f"install a driver of branch {DRIVER} or later",
            broken=True,
        )
    return None


@functools.lru_cache(maxsize=1)
def _nvml(pid: int) -> ModuleType:
    """pynvml, initialised once for each process: a forked one begins anew. Raises ImportError, NVMLError."""
    import pynvml

    pynvml.nvmlInit()
    initialised: ModuleType = pynvml
    return initialised


def _nvml_error() -> type[Exception]:
    """The class that NVML's errors have; one that nothing raises, where there is no pynvml."""
    try:
        from pynvml import NVMLError
    except ImportError:
        return _NoSuchError
    return NVMLError  # type: ignore[no-any-return]


class _NoSuchError(Exception):
    pass


def _described(nvml: ModuleType, index: int) -> Gpu | str:
    """The GPU, or why it does not answer."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        uuid = str(nvml.nvmlDeviceGetUUID(handle))
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        mig = _asked(nvml, uuid, "nvmlDeviceGetMigMode", handle)
        mode = nvml.nvmlDeviceGetComputeMode(handle)
        persistence = _asked(nvml, uuid, "nvmlDeviceGetPersistenceMode", handle)
        return Gpu(
            index=index,
            uuid=uuid,
            name=str(nvml.nvmlDeviceGetName(handle)),
            arch=f"sm_{major}{minor}",
            memory_bytes=int(memory.total),
            memory_free_bytes=int(memory.free),
            driver_version=str(nvml.nvmlSystemGetDriverVersion()),
            cuda_version=_cuda_version(nvml),
            mig=None if mig is None else bool(mig[0]),
            compute_mode=_COMPUTE_MODES.get(mode, f"mode {mode}"),
            persistence=None if persistence is None else bool(persistence),
        )
    except GpuError as fault:
        return str(fault)
    except nvml.NVMLError as error:
        return f"GPU {index} does not answer: {_words(error)}"


def _asked(nvml: ModuleType, uuid: str, name: str, *arguments: Any) -> Any:
    """What NVML answers; None where this GPU, this driver or this user's rights do not give it. Raises GpuError."""
    gone = (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_GPU_NOT_FOUND, nvml.NVML_ERROR_RESET_REQUIRED)
    try:
        return getattr(nvml, name)(*arguments)
    except nvml.NVMLError as error:
        if error.value in (*gone, nvml.NVML_ERROR_UNINITIALIZED, nvml.NVML_ERROR_DRIVER_NOT_LOADED):
            raise _fault(uuid, error) from error
        return None


def _fault(uuid: str, error: Any) -> GpuError:
    return GpuError(
        f"the GPU {uuid} does not answer: {_words(error)}",
        _LOOK_AT_LOG,
    )


def _words(error: Any) -> str:
    """NVML's own words and number."""
    return f"{error} (NVML error {error.value})"


def _cuda_version(nvml: ModuleType) -> tuple[int, int]:
    version = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
    return version // 1000, version % 1000 // 10


def _in_words(bits: int) -> tuple[str, ...]:
    unknown = bits & ~sum(_REASONS)
    return (*(words for bit, words in _REASONS.items() if bits & bit), *([f"reason {unknown:#x}"] if unknown else []))


def _others(processes: Any, own: Collection[int]) -> tuple[GpuProcess, ...] | None:
    if processes is None:
        return None
    return tuple(GpuProcess(one.pid, one.usedGpuMemory) for one in processes if one.pid not in own)


def _any_trace(root: Path) -> bool:
    """Whether anything speaks for an NVIDIA GPU: the PCI bus, device nodes, the kernel's driver, or NVML itself."""
    return _on_bus(root) or bool(_nodes(root)) or _kernel_driver(root) is not None or (root == _ROOT and bool(gpus()))


def _on_bus(root: Path) -> bool:
    for device in root.glob("sys/bus/pci/devices/*"):
        try:
            vendor, kind = (device.joinpath(name).read_text().strip() for name in ("vendor", "class"))
        except OSError:
            continue
        if vendor == _NVIDIA and kind.startswith(_DISPLAY_CLASS):
            return True
    return False


def _kernel_driver(root: Path) -> str | None:
    """The version of the driver that the kernel has loaded, which a container sees too."""
    try:
        told = (root / "proc/driver/nvidia/version").read_text()
    except OSError:
        return None
    found = re.search(r"\b\d{3}(?:\.\d+)+", told)
    return found[0] if found else "of an unknown version"


def _nodes(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("dev/nvidia*") if re.fullmatch(r"nvidia(\d+|ctl|-uvm)", path.name))


def _blocked_nodes(root: Path) -> GpuAbsence | None:
    """What is wrong with the device nodes, which CUDA opens for reading and writing."""
    nodes = _nodes(root)
    closed = [path for path in nodes if not os.access(path, os.R_OK | os.W_OK)]
    devices = [path for path in nodes if path.name[6:].isdigit()]
    # Where others have GPUs of their own on this machine, only theirs may be closed.
    if set(closed) <= set(devices) and len(closed) < len(devices):
        closed = []
    if closed:
        return GpuAbsence(
            f"this user may not open {', '.join(f'/{path.relative_to(root)}' for path in closed)}",
            "join the group that owns them (`ls -l /dev/nvidia*`; `sudo usermod -aG GROUP $USER`, then log in again)",
            broken=True,
        )
    names = {path.name for path in nodes}
    if "nvidiactl" in names and "nvidia-uvm" not in names:
        return GpuAbsence(
            "/dev/nvidia-uvm is missing, without which CUDA cannot start",
            "run `sudo nvidia-modprobe -u -c=0`; in a container, pass the device in",
            broken=True,
        )
    return None


def _explained(error: Any, root: Path) -> GpuAbsence:
    """An error of NVML's start, by what the machine shows beside it."""
    import pynvml

    loaded, code = _kernel_driver(root), error.value
    if code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return GpuAbsence(
            f"the kernel runs the NVIDIA driver {loaded or 'of another version'}, and the driver's libraries are of "
            f"another one: it was updated without a restart",
            "restart the machine; in a container, create it again",
            broken=True,
        )
    if loaded is not None and (code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND or not _nodes(root)):
        return GpuAbsence(
            f"the kernel runs the NVIDIA driver {loaded}, but its libraries or devices are not here: a "
            "container that was given no GPU",
            "start it with `docker run --gpus all` (needs the NVIDIA Container Toolkit on the host)",
            broken=True,
        )
    if code in (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED):
        return GpuAbsence(
            "there is an NVIDIA GPU, but its driver is not "
            + ("installed" if code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND else "loaded"),
            f"install NVIDIA's driver, branch {DRIVER} or later (Ubuntu: `sudo ubuntu-drivers install`); if it is "
            f"installed, `sudo modprobe nvidia`",
            broken=True,
        )
    return GpuAbsence(
        f"the NVIDIA driver does not answer: {_words(error)}",
        "try `nvidia-smi`; if it fails too, restart the machine. In a container that had a GPU before, start it "
        "again: its right to the devices was taken away",
        broken=True,
    )


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
