"""The sandbox interface: run one untrusted program with files in, bytes out, and hard limits.

Everything that a submission can influence (the compiler, the simulated run) runs behind this interface, and nothing
that decides a verdict does.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from evaluator.cancellation import CancelToken

FIRST_DESCRIPTOR: Final = 100
"""The number that the first of `Job.descriptors` has in the program."""


class Isolation(StrEnum):
    """One thing that a sandbox may keep from a job; `selftest.probe_sandbox` shows each by trying to break it."""

    NETWORK = "network"
    """No connection to anyone, the host's own loopback included."""
    HOST_FILES = "host_files"
    """No file of the host can be read beside the system's and `Job.readable`."""
    WRITE_OUTSIDE = "write_outside"
    """Nothing of the host can be written beside the work folder."""
    OTHER_PROCESSES = "other_processes"
    """The host's other processes can be neither seen nor signalled."""
    IDENTITY = "identity"
    """The job is not root and not the grader's user, as far as it can tell."""
    CAPABILITIES = "capabilities"
    """No capability, and no way to gain one (no new privileges)."""
    KERNEL_CALLS = "kernel_calls"
    """System calls that no job needs are refused: tracing, mounting, new namespaces, modules, keys, BPF, io_uring."""
    ENVIRONMENT = "environment"
    """No environment variable of the grader."""
    WALL_TIME = "wall_time"
    PROCESS_LIMIT = "process_limit"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    WORK_LIMIT = "work_limit"
    """Single files and the whole work folder are bounded."""
    NO_LEFTOVERS = "no_leftovers"
    """No process and no file remains after the job, not even a daemon's."""


@dataclass(frozen=True)
class Limits:
    """Hard limits of one job. Every one ends the whole process tree."""

    wall_s: float = 30.0
    """Time for all of it. What it stands in line for a processor is not counted, within bounds: see warden.py."""
    cpu_s: float = 60.0
    """CPU time of each process."""
    memory_bytes: int = 8 << 30
    """Address space of each process (where `address_space` says so), and memory of all of them together."""
    address_space: bool = True
    """Bound each process's address space. CUDA reserves far more of it than it uses."""
    file_bytes: int = 256 << 20
    """Largest file that the job may write."""
    work_bytes: int = 512 << 20
    """Size of the work folder, where the implementation can bound it."""
    processes: int = 64
    """Processes and threads at one time."""
    open_files: int = 256
    output_bytes: int = 16 << 20
    """Most bytes taken from each of stdout and stderr; the job is ended when it writes more. In a session: most bytes
    of stdout that may wait to be received (what `receive` asks for is not counted)."""


@dataclass(frozen=True)
class Job:
    """What to run. The program sees a fresh, empty work folder as its current folder, and `files` in it."""

    argv: tuple[str, ...]
    """Absolute path of the program, or `./name` of one of `files`, then its arguments."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Plain file names (no folders) and contents, written into the work folder before the start."""
    collect: tuple[str, ...] = ()
    """Plain file names to bring back from the work folder. What is not there, is not a regular file (links are never
    followed) or is larger than `Limits.file_bytes` is missing in the result."""
    readable: tuple[Path, ...] = ()
    """Host paths that the program needs to read beside the system's own libraries."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """The whole environment, beside PATH, HOME and TMPDIR; nothing is inherited."""
    devices: tuple[Path, ...] = ()
    """Device nodes under /dev that the program may use."""
    descriptors: tuple[int, ...] = ()
    """Open descriptors that the program gets, as `FIRST_DESCRIPTOR` and on; the caller closes its own."""
    bounded_tasks: bool = False
    """Bound processes and threads by the kernel, before the program starts, and not by a watch alone, which a program
    that forks without end may outrun: by a pids control group; where none can be made it may start threads only."""
    limits: Limits = Limits()
    cancel_token: CancelToken = field(default_factory=CancelToken, compare=False)
    """When it is cancelled the job ends at once, from whichever thread, as when it is killed."""
    spent: Callable[[float], None] = field(default=lambda used_s: None, compare=False)
    """Is told the processor seconds that the job took, once it has ended."""


@dataclass(frozen=True)
class JobResult:
    """How a job ended. A program that fails is a result, never an exception."""

    exit_code: int | None
    """None when a signal ended it."""
    signal: int | None
    stdout: bytes
    stderr: bytes
    files: Mapping[str, bytes]
    wall_s: float
    waited_s: float = 0.0
    """Of `wall_s`, how long it stood in line for a processor."""
    own_signals: frozenset[int] = frozenset()
    """Signals that a limit of the job's may have sent to one of its processes, by what was measured: SIGXCPU,
    SIGXFSZ, and SIGKILL where the kernel killed for want of memory."""
    timed_out: bool = False
    output_exceeded: bool = False
    """It wrote more than allowed to stdout, stderr, one file or the work folder."""
    memory_exceeded: bool = False
    """True only where the implementation knows it; a job can also die of memory on its own."""
    memory_taken: bool = False
    """While it ran the kernel killed something for want of memory, of which the job had less than it may have."""
    limit_hit: str | None = None
    """The limit that ended the job, in words (`more than 64 processes and threads`); None when none did."""

    @property
    def met_limit(self) -> bool:
        """Whether it was ended for a limit of the job's."""
        return self.timed_out or self.output_exceeded or self.memory_exceeded or self.limit_hit is not None

    @property
    def succeeded(self) -> bool:
        """True when the program ended by itself with exit code 0 and within its limits."""
        return self.exit_code == 0 and not self.met_limit


class SessionEndedError(Exception):
    """The program of a session ended, or its time was up, before it had sent what was asked for."""


class SandboxSession(Protocol):
    """A job that is talked to over its stdin and stdout while it runs. Leaving the context ends it for sure."""

    def send(self, *parts: bytes | memoryview) -> None:
        """Write all parts to the program's stdin. Raises SessionEndedError."""

    def receive(self, size_bytes: int) -> bytearray:
        """Read exactly `size_bytes` from the program's stdout. Raises SessionEndedError."""

    def allow(self, time_s: float) -> None:
        """Give the program so long from now for all that it is then sent and asked for; who is late is ended."""

    def finish(self) -> JobResult:
        """End the program (if it still runs) with all its children, remove the work folder, and say how it ended."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Sandbox(Protocol):
    """One kind of isolation."""

    @property
    def name(self) -> str:
        """docker, bubblewrap or process; every verdict records it."""

    @property
    def image_id(self) -> str | None:
        """Digest of the image that jobs run in; None where they run in no image."""

    @property
    def root(self) -> Path:
        """The folder of this machine in which jobs get their work folders."""

    @property
    def promises(self) -> frozenset[Isolation]:
        """What this kind of isolation keeps from a job; whatever is not in here, it does not."""

    def run(self, job: Job) -> JobResult:
        """Run the job to its end."""

    def start(self, job: Job) -> SandboxSession:
        """Start the job and talk to it. Its wall-clock limit counts from here."""
