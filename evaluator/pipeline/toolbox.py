"""What a grader has at hand: toolchain, sandbox, cache and backend, each made when it is first needed."""

import atexit
import contextlib
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from common.contract import Submission
from evaluator.cancellation import CancelToken
from evaluator.disk_cache import Cache
from evaluator.errors import JobKilledError, StorageError, UsageError
from evaluator.sandbox import selftest
from evaluator.sandbox.cancellable import CancellableSandbox
from evaluator.sandbox.sandbox import Sandbox
from evaluator.settings import MachineSettings, kept_secret

# Each tool is imported when it is made: a command has the sandbox proven while it imports them.
if TYPE_CHECKING:
    from common.signature import Signer
    from evaluator.backends.sim.backend import Simulator
    from evaluator.pipeline.gpu.client import GpuReferee
    from evaluator.pipeline.gpu.referees import GpuReferees
    from evaluator.pipeline.referee import Referee
    from evaluator.stages.compile.toolchain import Toolchain
    from evaluator.stages.time.sample_pool import TimingPool

_JOBS_END_S: Final = 5.0
"""What a job that is cancelled may take to end, its work folder removed: a hundred times what it does take."""

_REFEREE_BYTES: Final = 16 << 30
"""Of a GPU's memory, for each referee where it has several: a plan has up to 8 GiB (`memory_bytes`), a quarter of it
more is for inputs and outputs that wait, and oracle and contexts take a few."""


class Toolbox:
    """The tools of one process; safe to share between threads."""

    def __init__(self, settings: MachineSettings) -> None:
        self.settings = settings
        self.cancel_token = CancelToken()
        """Whether what is done with these tools is still wanted."""
        self.caller = ""
        """For whom it is done, where callers are not to learn of each other; empty where there is one alone."""
        self._choosing = threading.Lock()

    def prepare_simulator(self) -> None:
        """Begin, beside what the caller goes on with, what a first evaluation on the simulator has to wait for.

        That is the proof of the sandbox, and on a new machine the simulator's runtime, which takes the compiler some
        seconds. Where it fails, so does who needs it, and says why; a process that ends does not wait for it, but
        ends it, so that no job of it stays.
        """
        token = CancelToken()

        def prepared() -> None:
            tools = self.bound_to(token)
            with contextlib.suppress(Exception):
                assert tools.sandbox  # first: it waits for processes while the caller imports what the rest needs
                tools.simulator.warm_up()

        thread = threading.Thread(target=prepared, name="prepare-simulator", daemon=True)

        def ended() -> None:
            token.cancel()
            thread.join(_JOBS_END_S)

        atexit.register(ended)
        thread.start()

    def note(self, fault: Exception) -> None:
        """Work with these tools ended in this fault; of use where they are bound to one piece of work."""

    def bound_to(self, cancel_token: CancelToken, caller: str = "") -> "BoundToolbox":
        """The same tools for one piece of work of `caller`: what they run ends when the token is cancelled."""
        return BoundToolbox(self, cancel_token, caller)

    @cached_property
    def toolchain(self) -> "Toolchain":
        """Raises ToolchainMissingError."""
        from evaluator.stages.compile.toolchain import find_toolchain

        return find_toolchain()

    @cached_property
    def sandbox(self) -> Sandbox:
        """Raises SandboxError, StorageError."""
        with self._choosing:  # a cached property of Python 3.12 lets several threads in
            if "sandbox" not in self.__dict__:
                self.__dict__["sandbox"] = self._chosen()
            chosen: Sandbox = self.__dict__["sandbox"]
            return chosen

    def _chosen(self) -> Sandbox:
        work = self.settings.data_dir / "work"
        try:
            work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"The data folder {self.settings.data_dir} cannot be made: {error.strerror}.",
                "Set ASSAY_DATA_DIR to a folder that you can write.",
            ) from error
        return selftest.choose(work, self.settings.sandbox)

    @cached_property
    def cache(self) -> Cache:
        """Compiled programs; works without storing where the folder cannot be written."""
        return Cache(self.settings.data_dir / "cache", self.settings.cache_bytes)

    @cached_property
    def simulator(self) -> "Simulator":
        """Raises ToolchainMissingError, SandboxError, StorageError."""
        from evaluator.backends.sim.backend import Simulator

        toolchain = self.toolchain
        return Simulator(self.sandbox, self.cache, toolchain.host_compiler, toolchain.readable)

    @cached_property
    def gpu(self) -> "GpuReferee | GpuReferees | None":
        """The referee of the GPU that the settings choose, or those of several; None where no GPU can be used.

        Where the settings name none, all that are of the first one's kind, since times on others are no measure for
        those of this one. Raises UsageError.
        """
        from evaluator.backends.gpu.device.health import gpus, why_not

        wanted = tuple(filter(None, (name.strip() for name in self.settings.gpu.split(","))))
        found = gpus() if why_not() is None else ()
        if not found and not wanted:
            return None
        # Nobody who grades on the simulator alone needs it.
        from evaluator.pipeline.gpu.client import GpuReferee
        from evaluator.pipeline.gpu.referees import GpuReferees

        for name in wanted:
            if not any(name in (gpu.uuid, str(gpu.index)) for gpu in found):
                raise UsageError(
                    f"ASSAY_GPU is {self.settings.gpu!r}, and no GPU that can be used here has the UUID or number "
                    f"{name}.",
                    f"There are: {', '.join(f'{gpu.index} = {gpu.uuid}' for gpu in found) or 'none'}.",
                )
        chosen = [gpu for gpu in found if not wanted or {gpu.uuid, str(gpu.index)} & set(wanted)]
        alike = [gpu for gpu in chosen if (gpu.name, gpu.arch) == (chosen[0].name, chosen[0].arch)]
        if wanted and len(alike) < len(chosen):
            raise UsageError(
                f"ASSAY_GPU names GPUs of several kinds: {', '.join(sorted({gpu.name for gpu in chosen}))}.",
                "Times on one are no measure for another: give each kind a service, or a worker, of its own.",
            )
        most = max(1, min(self.settings.referees_per_gpu, chosen[0].memory_bytes // _REFEREE_BYTES))
        referees = [GpuReferee(gpu, self.settings, number=number) for gpu in alike for number in range(most)]
        return referees[0] if len(referees) == 1 else GpuReferees(referees, self.settings.data_dir / "referees")

    def release_referees(self) -> None:
        """Tell the GPUs' referees of this data folder that nobody here needs them any more: one that nobody else
        comes to ends in some seconds, and its memory is free.
        """
        if (self.settings.data_dir / "referees").is_dir():
            from evaluator.pipeline.gpu.referees import release_referees

            release_referees(self.settings.data_dir)

    @property
    def referee_count(self) -> int:
        """How many evaluations can be judged on GPUs at the same time. Raises UsageError."""
        return 0 if self.gpu is None else self.gpu.count

    @cached_property
    def timings(self) -> "TimingPool":
        """Times of programs that were measured before."""
        from evaluator.stages.time.sample_pool import TimingPool

        return TimingPool(self.settings.data_dir / "timings")

    @cached_property
    def signer(self) -> "Signer | None":
        """Who signs verdicts here; None where no key can be kept, and then they are unsigned. Raises StorageError."""
        # Slow to import, and needed only when there is a verdict.
        from common.signature import Signer

        file = self.settings.signing_key_file
        secret = self.settings.signing_key
        try:
            if not secret:
                file.parent.mkdir(parents=True, exist_ok=True)
                secret = kept_secret(file).decode("ascii", "replace").strip()
        except OSError:
            return None
        try:
            return Signer(secret)
        except ValueError as error:
            raise StorageError(
                f"The signing key in {file} is damaged: {error}.",
                "Put the key back from a copy; or remove the file, and a new key is made, unknown to verifiers.",
            ) from error

    def referee(self, submission: Submission) -> "Referee":
        """Who judges this submission. Raises UsageError where this machine does not have what it asks for."""
        if self.backend_for(submission.backend) == "gpu" and self.gpu is not None:
            return self.gpu
        from evaluator.pipeline.sim_referee import SimulatorReferee

        return SimulatorReferee(self.simulator)

    def backend_for(self, asked: Literal["auto", "gpu", "sim"]) -> Literal["gpu", "sim"]:
        """What judges here. Raises UsageError where this machine does not have what is asked for."""
        if asked == "sim":
            return "sim"
        if self.gpu is not None:
            return "gpu"
        if asked == "auto":
            return "sim"
        from evaluator.backends.gpu.device.health import why_not

        absence = why_not()
        assert absence is not None
        message = absence.message
        raise UsageError(f"No GPU can be used here: {message}.", f"{absence.remedy}, or use --backend sim.")

    def rehearsal(self, referee: "Referee") -> "Referee | None":
        """Who tries a program before a GPU runs it; None where the referee sees everything itself."""
        from evaluator.pipeline.sim_referee import SimulatorReferee

        return SimulatorReferee(self.simulator, rehearses=True) if referee.name == "gpu" else None


class BoundToolbox(Toolbox):
    """Another toolbox's tools, bound to the cancel token of one piece of work."""

    def __init__(self, whole: Toolbox, cancel_token: CancelToken, caller: str) -> None:
        super().__init__(whole.settings)
        self._whole = whole
        self.cancel_token = cancel_token
        self.caller = caller
        self.killed_from_outside = False
        """Whether the work ended because someone outside had ended its jobs, again and again."""

    def note(self, fault: Exception) -> None:
        self.killed_from_outside |= isinstance(fault, JobKilledError)

    @cached_property
    def toolchain(self) -> "Toolchain":
        return self._whole.toolchain

    @cached_property
    def sandbox(self) -> CancellableSandbox:
        return CancellableSandbox(self._whole.sandbox, self.cancel_token)

    @cached_property
    def cache(self) -> Cache:
        return self._whole.cache

    @cached_property
    def gpu(self) -> "GpuReferee | GpuReferees | None":
        return self._whole.gpu.bound_to(self.cancel_token) if self._whole.gpu else None

    @cached_property
    def timings(self) -> "TimingPool":
        return self._whole.timings

    @cached_property
    def signer(self) -> "Signer | None":
        return self._whole.signer

    @property
    def starts_s(self) -> tuple[float, ...]:
        """How long each session of the sandbox took to start, seconds."""
        return tuple(self.sandbox.starts_s) if "sandbox" in self.__dict__ else ()

    @property
    def used_s(self) -> float:
        """What its jobs in the sandbox took of processors, seconds; without those that were ended in the middle."""
        return self.sandbox.used_s if "sandbox" in self.__dict__ else 0.0
