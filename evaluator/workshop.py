"""What a grader has at hand: toolchain, sandbox, cache and backend, each made when it is first needed."""

from functools import cached_property

from common.contract import Submission
from evaluator.backends.backend import Backend
from evaluator.backends.sim.simulator import Simulator
from evaluator.errors import StorageFault, UsageError
from evaluator.sandbox import selftest
from evaluator.sandbox.sandbox import Sandbox
from evaluator.settings import MachineSettings
from evaluator.stages.cache import Cache
from evaluator.stages.toolchain import Toolchain, find_toolchain


class Workshop:
    """The tools of one process; safe to share between threads."""

    def __init__(self, settings: MachineSettings) -> None:
        self.settings = settings

    @cached_property
    def toolchain(self) -> Toolchain:
        """Raises ToolchainMissing."""
        return find_toolchain()

    @cached_property
    def sandbox(self) -> Sandbox:
        """Raises SandboxFault, StorageFault."""
        work = self.settings.data_dir / "work"
        try:
            work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageFault(
                f"The data folder {self.settings.data_dir} cannot be made: {error.strerror}.",
                "Set ASSAY_DATA_DIR to a folder that you can write.",
            ) from error
        return selftest.choose(work, self.settings.sandbox)

    @cached_property
    def cache(self) -> Cache:
        """Compiled programs; works without storing where the folder cannot be written."""
        return Cache(self.settings.data_dir / "cache", self.settings.cache_bytes)

    @cached_property
    def simulator(self) -> Simulator:
        """Raises ToolchainMissing, SandboxFault, StorageFault."""
        return Simulator(self.sandbox, self.cache, self.toolchain.host_compiler)

    def backend(self, submission: Submission) -> Backend:
        """The backend that a submission asks for. Raises UsageError where this machine does not have it."""
        if submission.backend == "gpu":
            raise UsageError(
                "This version of Assay has no GPU backend.",
                "Use --backend sim: the simulator gives the same verdicts.",
            )
        return self.simulator
