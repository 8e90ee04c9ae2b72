"""What a referee works with on its device: inputs and checks there, runners, clocks, and the tools."""

import functools
import logging
import os
from pathlib import Path
from typing import Any, Protocol

from common.contract.timing import DeviceState
from evaluator.backends.gpu.checks import KERNELS, RESULT_BYTES, THREADS, DeviceChecks
from evaluator.backends.gpu.device.health import Gpu
from evaluator.backends.gpu.host.session import HostRuntime
from evaluator.backends.gpu.session import GpuRuntime
from evaluator.backends.gpu.tools.launch import ToolRunner
from evaluator.backends.gpu.tools.nsight import Profiler
from evaluator.backends.gpu.tools.sanitizer import Sanitizer
from evaluator.disk_cache import Cache
from evaluator.errors import GpuError
from evaluator.pipeline.gpu.judging import Instruments
from evaluator.pipeline.gpu.own_code import own_code
from evaluator.pipeline.gpu.references import References
from evaluator.pipeline.gpu.turns import GpuTurns
from evaluator.problems.arrays import Rng
from evaluator.stages.time.measurement import Baseline

log = logging.getLogger("assay.referee")


class RefereeServices(Protocol):
    """All that a referee works with on its device."""

    runtime: GpuRuntime
    baseline: Baseline
    instruments: Instruments | None
    """None where no tool can be used."""
    references: References
    host_runtime: HostRuntime
    """Processes for host code."""
    turns: GpuTurns
    """With the other referees of its GPU."""

    def rng(self, seed: int) -> Rng:
        """Contents on the device."""

    def facts(self) -> dict[str, Any]:
        """What graders may know of the device."""

    def usable(self) -> bool:
        """Whether the device still computes; after some errors a context never does again."""


class GpuRefereeServices:
    """The real thing: torch, the driver and NVML on one GPU."""

    def __init__(
        self,
        uuid: str,
        data_dir: Path,
        sandbox: str,
        ahead: int,
        jobs_per_runner: int,
        cache_bytes: int,
        turns: Path | None = None,
        trials_together: int = 1,
    ) -> None:
        # Before torch: it decides what torch sees, and the zygote starts while torch is being imported.
        os.environ["CUDA_VISIBLE_DEVICES"] = uuid
        from evaluator.backends.gpu.pool import RunnerPool
        from evaluator.sandbox import selftest

        self.turns = GpuTurns(turns)
        work = data_dir / "work"
        work.mkdir(parents=True, exist_ok=True)
        place = selftest.choose(work, sandbox)  # type: ignore[arg-type]
        tool_runner = ToolRunner(place, uuid)
        self.instruments: Instruments | None = Instruments(Profiler(tool_runner), Sanitizer(tool_runner))
        pool = RunnerPool(place, uuid, ahead, contexts=self.turns.contexts)
        try:
            from evaluator.backends.gpu import tensors
            from evaluator.backends.gpu.device import health

            self._uuid, self._health, self._tensors = uuid, health, tensors
            self.sandbox = place.name
            tensors.claim_device()
            timed = tensors.TorchBaseline("cuda", self.state)
            self.baseline: Baseline = timed
            cache, driver = Cache(data_dir / "cache", cache_bytes), self.state().driver or ""
            self.references = References(place, cache, uuid, driver, timed.probe)
            own_checks = self._own_checks(cache)
            self.host_runtime = HostRuntime(place, uuid, tensors.HostDeviceSide())
            self.runtime = GpuRuntime(
                *(pool, tensors.DeviceMemory, tensors.free_bytes, jobs_per_runner, own_checks, trials_together)
            )
        except BaseException:
            pool.close()
            raise

    def _own_checks(self, cache: Cache) -> DeviceChecks | None:
        """Device code of ours, where it can be had and does what it should; else array code does the same."""
        image = own_code(cache, self._gpu.arch)
        if image is None:
            return None
        try:
            own_checks = DeviceChecks(self._tensors.ChecksDevice(image, KERNELS, THREADS, RESULT_BYTES))
            if own_checks.works(*self._tensors.memory_and_values()):
                return own_checks
            log.error("the referee's own device code computes something else than it should: array code is used")
        except GpuError as fault:
            log.error("the referee's own device code cannot be used, so array code is: %s", fault)
        return None

    def rng(self, seed: int) -> Rng:
        return self._tensors.TorchRng(seed, "cuda")

    @functools.cached_property
    def _gpu(self) -> Gpu:
        """What does not change; that it still answers is what `device_state` finds out."""
        gpu = next((gpu for gpu in self._health.gpus() if gpu.uuid == self._uuid), None)
        if gpu is None:
            raise GpuError(f"The GPU {self._uuid} is gone.", "Look at `dmesg | grep Xid`; it may need a restart.")
        return gpu

    def state(self) -> DeviceState:
        gpu = self._gpu
        now = self._health.device_state(self._uuid, own=(os.getpid(),))
        return DeviceState(
            name=gpu.name,
            uuid=gpu.uuid,
            driver=gpu.driver_version,
            compute_capability=f"{gpu.arch[3:-1]}.{gpu.arch[-1]}",
            sm_clock_mhz=now.sm_clock_mhz,
            memory_clock_mhz=now.memory_clock_mhz,
            max_sm_clock_mhz=now.sm_clock_max_mhz,
            max_memory_clock_mhz=now.memory_clock_max_mhz,
            temperature_c=now.temperature_celsius,
            power_w=now.power_watts,
            power_limit_w=now.power_limit_watts,
            ecc_errors=now.ecc_uncorrected,
            throttle_reasons=now.slowed_by if now.clock_reasons is not None else None,
            **self._tensors.properties(),
        )

    def usable(self) -> bool:
        return self._tensors.computes()

    def facts(self) -> dict[str, Any]:
        return {
            "sandbox": self.sandbox,
            "quarantine": self.runtime.quarantine,
            "pid": os.getpid(),
            # Array code in its place gives the same verdicts, later: nothing else would tell.
            "own_code": self.runtime.checks is not None,
        }
