"""A submission and its settings, as the caller sends them."""

import hashlib
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator

from common.contract.correctness import Verification
from common.contract.reference import Reference
from common.contract.timing import BaselineName
from common.launch_plan import LaunchPlan
from common.wire import MaxLength, Request

MAX_SOURCE_BYTES = 1 << 20


def kept_source(source: str) -> str:
    """What a service keeps of a source: all of it, or, above 1 MiB, its length and SHA-256 as a comment."""
    if len(source) <= MAX_SOURCE_BYTES // 4:  # UTF-8 has four bytes a character at most
        return source
    raw = source.encode(errors="surrogatepass")
    if len(raw) <= MAX_SOURCE_BYTES:
        return source
    return f"/* {len(raw)} bytes, of which only the SHA-256 is kept: {hashlib.sha256(raw).hexdigest()} */"


MAX_SIZES: Final = 64
"""Most sizes in one request, several times those of any problem."""


MAX_SIZE_NAME: Final = 100
"""Most characters of a size's name, as of a problem's."""


MAX_FLAG: Final = 1000
"""Most characters of a compiler flag: the longest that is allowed has 22, and what is refused is quoted."""


class RewardName(StrEnum):
    """The reward functions of `common.reward`."""

    WEIGHTED = "weighted"
    GATED = "gated"
    COMPONENTS = "components"
    SPEEDUP = "speedup"
    COVERAGE = "coverage"
    SOL = "sol"


GpuName = Literal["A100", "H100", "H200", "L40S", "RTX4090"]
"""The GPUs that time can be estimated for."""


OtherSizes = Literal["reported", "required"]
"""Of a problem that someone else states at fixed sizes: whether being wrong at others is told or is a failure."""


HostTier = Literal["off", "allowed", "always"]
"""Whether host code of a submission may run, in a process of its own that has the GPU: never; where it cannot be
lifted; or in any case, where its dialect has host code."""


class Settings(Request):
    """What the caller may choose about an evaluation. Limits can only be lowered."""

    sizes: Annotated[dict[Annotated[str, MaxLength(MAX_SIZE_NAME)], int], MaxLength(MAX_SIZES)] | None = None
    """Grade at these sizes as well, within the range that the problem states; a size that is not named is that of its
    first example. Null grades at the problem's own."""
    target_speedup: float = Field(default=2.0, gt=0, le=1000)
    """Speedup over the baseline at which the speed terms of a reward are full."""
    reward: RewardName = RewardName.WEIGHTED
    """The reward that the verdict carries."""
    arch: str | None = Field(default=None, pattern=r"^sm_[0-9]{2,3}a?$")
    """GPU architecture to compile for; null asks the backend."""
    flags: Annotated[tuple[Annotated[str, MaxLength(MAX_FLAG)], ...], MaxLength(16)] = ()
    """Extra nvcc flags from the allow-list: --use_fast_math, -maxrregcount=N, --extended-lambda, -std=c++NN."""
    compile_timeout_s: float = Field(default=30.0, ge=0.1, le=30)
    """Wall-clock limit of all compiling, seconds."""
    run_timeout_s: float = Field(default=30.0, ge=0.1, le=30)
    """Wall-clock limit of all running, seconds."""
    memory_bytes: int = Field(default=8 << 30, gt=0, le=8 << 30)
    """Memory limit of each sandbox, bytes."""
    verification: Verification = "full"
    """`full` also grades at hidden sizes above every published one and at the size of the timing; `quick` only plans
    their launches."""
    other_sizes: OtherSizes = "reported"
    """Of a problem that a reference file states: `required` has the kernel fail where it is wrong at sizes that the
    file does not state; our own problems always require that."""
    rehearse: bool = True
    """Try a few small inputs on the simulator before a GPU runs the submission: a GPU shows neither races nor bad
    reads."""
    sanitize: bool = False
    """Where the simulator cannot rehearse for a GPU: let NVIDIA's compute-sanitizer watch the few small inputs."""
    shrink_s: float = Field(default=0.0, ge=0, le=30)
    """Where the verification fails: look so long, on the simulator, for the smallest sizes and simplest inputs that
    still show it; 0 does not look."""
    schedule: int | None = Field(default=None, ge=1, lt=1 << 32)
    """On the simulator, the one drawn schedule to try, such as a verdict names; null draws several from the seed."""
    profile: bool = False
    """Launch the plan once more under NVIDIA's Nsight Compute, where there is a GPU and the submission passed."""
    timing: bool = True
    """Measure the speed where there is a GPU; false stops after verification."""
    baseline: BaselineName = "eager"
    """Of a problem that a reference states: what the speedup, and so the reward, is relative to. Our own problems are
    always compared with eager."""
    baselines: Annotated[tuple[BaselineName, ...], MaxLength(4)] = ()
    """Of such a problem: baselines to measure as well, where they are not known yet; to compile takes a minute."""
    estimate_for: GpuName | None = "H100"
    """GPU whose time the simulator estimates, where none measures it; null estimates none."""
    max_launches: int = Field(default=200, ge=10, le=200)
    """Most timed launches of the submission; fewer are made where the interval is narrow before."""
    timing_precision: float = Field(default=0.01, ge=0.001, le=0.1)
    """Launches end when the speedup is known to this share of it (half of its 95 % interval); one below 0.1, to this
    share of 0.1, and to a tenth at least."""
    reward_precision: float | None = Field(default=None, ge=0.001, le=0.5)
    """Launches end as well when the reward is known to this (half of its 95 % interval, as far as the speedup makes
    it): much sooner for what is far slower than the baseline. Null heeds `timing_precision` alone."""
    host_tier: HostTier = "off"
    """What is done with host code that cannot be recorded: `off` ends as `unsupported`; `allowed` runs it on the GPU,
    in a sandbox, where the evaluator's owner lets it; `always` does not try to record it."""
    min_coverage: float | None = Field(default=None, ge=0, le=1)
    """In the host tier: the least share of the time that the submission's own kernels must have; null asks for
    none."""


Dialect = Literal["cuda", "solve", "torch-extension", "kernelbench", "triton"]
"""`cuda`: kernels with a launch plan; host code never runs. `solve`: a file whose `extern "C" void solve(…)` or
`solution(…)` launches the kernels, as on LeetGPU and Tensara; it is recorded, and the recording is the plan.
`torch-extension`: a file with `PYBIND11_MODULE`, whose `forward(…)` takes and returns tensors; recorded likewise.
`kernelbench`: a Python text with `ModelNew`, whose forward passes tensors and numbers to what `load_inline`
compiles. `triton`: Python with Triton kernels, whose `run(…)` launches them; it is recorded too."""


class Submission(Request):
    """One kernel for one problem, as the caller sends it."""

    problem: str = Field(default="", validate_default=True, min_length=1, max_length=100)
    """Id of the problem. It may be left out where `reference` is given, which has one of its own."""
    source: str = Field(max_length=16 << 20)
    """The source text, UTF-8. Above 1 MiB the verdict is `invalid_submission`."""
    dialect: Dialect | None = None
    """What kind of text `source` is; null finds out, where there is no plan, by the function or the module that it
    has."""
    plan: LaunchPlan | None = None
    """Launch plan; null takes it from `// assay:` directives in the source, or infers it."""
    backend: Literal["auto", "gpu", "sim"] = "auto"
    """Where to run: a GPU, the simulator, or whichever this evaluator has."""
    settings: Settings = Settings()
    reference: Reference | None = None
    """What stands for a problem that the grader does not know; null for one that it knows, or was sent before."""

    @model_validator(mode="before")
    @classmethod
    def _problem_of_reference(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("reference") is None or "problem" in given:
            return given
        try:
            return {**given, "problem": Reference.model_validate(given["reference"]).problem_id}
        except ValidationError:
            return {**given, "problem": "reference"}  # what is wrong with it is said where it stands

    @model_validator(mode="after")
    def _one_problem(self) -> Self:
        if self.reference is not None and self.problem != self.reference.problem_id:
            raise ValueError(
                f"problem and reference each say what to grade for (the reference is {self.reference.problem_id})"
            )
        return self
