"""What was measured about a submission's speed, as it travels on the wire. Part of `common.contract`."""

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field

from common.wire import Wire

BaselineName = Literal["eager", "cuda_graph", "compile", "compile_max_autotune"]
"""What a measured time is compared with: PyTorch's eager operators, the same in a CUDA graph, `torch.compile`, and
that in the mode `max-autotune`."""


BASELINE_WORDS: Final[Mapping[BaselineName, str]] = {
    "eager": "eager",
    "cuda_graph": "eager in a CUDA graph",
    "compile": "torch.compile",
    "compile_max_autotune": "torch.compile (max-autotune)",
}
"""Each of them in words."""


class DeviceState(Wire):
    """The GPU that timed a submission, and its state while it did. Null where the driver cannot say."""

    name: str
    """As the driver names it, for example `NVIDIA H200`."""
    uuid: str | None = None
    driver: str | None = None
    """Version of the driver, for example `580.159.04`."""
    compute_capability: str | None = Field(default=None, pattern=r"^[0-9]{1,2}\.[0-9]$")
    multiprocessors: int | None = Field(default=None, gt=0)
    memory_bus_bits: int | None = Field(default=None, gt=0)
    """Width of the memory interface, bits."""
    sm_clock_mhz: int | None = Field(default=None, ge=0)
    """Clock of the multiprocessors just after the last timed launch, MHz."""
    memory_clock_mhz: int | None = Field(default=None, ge=0)
    max_sm_clock_mhz: int | None = Field(default=None, gt=0)
    max_memory_clock_mhz: int | None = Field(default=None, gt=0)
    temperature_c: float | None = None
    power_w: float | None = Field(default=None, ge=0)
    power_limit_w: float | None = Field(default=None, gt=0)
    ecc_errors: int | None = Field(default=None, ge=0)
    """Memory errors that could not be corrected, since the driver was loaded."""
    throttle_reasons: tuple[str, ...] | None = None
    """What held the clocks down while the launches were timed; empty for nothing."""


class BaselineTime(Wire):
    """One way to compute the same with PyTorch, timed as the submission is, in a process of its own."""

    name: BaselineName
    latency_us: float | None = Field(default=None, gt=0)
    """Median of its launches; null where it could not be built or run."""
    launches: int = Field(default=0, ge=0)
    why_not: str | None = None
    """Why there is no time, in words."""
    age_s: float = Field(default=0.0, ge=0)
    """How long ago it was measured, seconds: baselines of a problem are kept for each GPU and version of PyTorch."""

    @property
    def words(self) -> str:
        """What it is, in words."""
        return BASELINE_WORDS[self.name]


class Timing(Wire):
    """Measured on a GPU only; the simulator never fills this in. Times are of one run of the whole launch plan."""

    latency_us: float = Field(gt=0)
    """Median by CUDA events, of all pooled samples; the L2 cache is flushed before each launch."""
    baseline_us: float = Field(gt=0)
    """The baseline's median, measured the same way, in turns with the submission."""
    speedup: float = Field(gt=0)
    """`baseline_us` over `latency_us`."""
    speedup_low: float = Field(gt=0)
    """Lower end of the confidence interval."""
    speedup_high: float = Field(gt=0)
    confidence: float = Field(gt=0, lt=1)
    speedup_stderr: float = Field(ge=0)
    """Standard error of the speedup, from the bootstrap."""
    compared_with: str
    """The baseline, for example `PyTorch 2.11.0 eager: torch.add(a, b)`."""
    baselines: tuple[BaselineTime, ...] = ()
    """Of a problem that a reference states: each baseline that was measured, that of `baseline_us` among them."""
    sizes: dict[str, int]
    launches: int = Field(ge=1)
    """Launches of the submission that this evaluation timed."""
    pooled_evaluations: int = Field(default=1, ge=1)
    """Evaluations of the same program and plan that the medians and the interval are made from, this one included."""
    samples_us: tuple[float, ...] = ()
    """Raw event times of this evaluation, in order."""
    baseline_samples_us: tuple[float, ...] = ()
    """Raw event times of the baseline in this evaluation, in order."""
    pooled_samples_us: tuple[float, ...] = ()
    """Event times that the medians and the interval are made from; empty where they are `samples_us` alone."""
    pooled_baseline_samples_us: tuple[float, ...] = ()
    host_us: float = Field(gt=0)
    """Median by the clock of the host that launches, from before the launch until the GPU is idle again."""
    referee_us: float = Field(gt=0)
    """Median by the referee's clock, from the word to go until the answer: it includes two changes of process."""
    checked_launches: int = Field(default=0, ge=0)
    """Timed launches, secretly chosen, whose whole output was verified."""
    floor_us: float | None = Field(default=None, ge=0)
    """No right answer can be had faster: the inputs must be read and the arithmetic done, at the device's peaks."""
    sol_us: float | None = Field(default=None, ge=0)
    """Speed of light: time for all bytes and the arithmetic in the problem's own precision, at the device's peaks."""
    sol_share: float | None = Field(default=None, ge=0, le=1)
    """`sol_us` over `latency_us`, at most 1."""
    sol_score: float | None = Field(default=None, ge=0, le=1)
    """1 / (1 + (t - t_sol) / (t_baseline - t_sol)): 0.5 is the baseline, 1 the speed of light (SOL-ExecBench)."""
    bandwidth_share: float | None = Field(default=None, ge=0, le=1)
    """Bytes that the problem must move over latency, as a share of the peak bandwidth, at most 1."""
    transfer_us: float | None = Field(default=None, ge=0)
    """What copying the inputs to the device and the outputs back would cost; in none of the other times."""
    clock: Literal["device", "referee"] = "device"
    """Whose clock `latency_us` and `baseline_us` are by: events on the device; or the referee's, less `null_us`: so
    the host tier is timed."""
    null_us: float | None = Field(default=None, gt=0)
    """By the referee's clock, what the grader's own null submission took in the same kind of process."""
    resolution_us: float | None = Field(default=None, ge=0)
    """By the referee's clock, what two medians may differ in for nothing; a shorter time gives no speedup."""
    device: DeviceState
    notes: tuple[str, ...] = ()
    """What a reader of these numbers should know: drift, throttling, a noisy or coarse clock."""
