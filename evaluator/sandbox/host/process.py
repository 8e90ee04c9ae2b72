"""The plain sandbox: a supervised process with limits, for machines where nothing better works.

Promised everywhere: a fresh work folder, an empty environment, no capabilities and no way to gain privileges, limits
on time, CPU, memory, processes, files and output, and an end of the whole tree, daemons included.

Promised where the kernel filters system calls (seccomp): no sockets, none of the calls that attacks on a kernel begin
with, and no change of the mode or owner of the user's files. Promised where it has Landlock (version 3 for files, 6
for signals): only the system's programs, `Job.readable` and the work folder can be opened, and no process outside can
be signalled, traced or found in /proc.

Not promised: the program runs as the grader's own user, distinguished only by those two. It can ask whether a
file exists, how large it is and where a link leads. A job with devices is left its sockets, its files and /proc,
because nobody knows what a driver opens. A program that never stops forking into new process groups is ended by a
race, which the warden wins only slowly where the kernel does not count processes (root); unless its tasks are bounded
(`Job.bounded_tasks`): by a pids control group, or to threads alone.
"""

import os
from pathlib import Path

from evaluator.sandbox.host import landlock, seccomp
from evaluator.sandbox.host.supervision import PATH, Command, SupervisedSession
from evaluator.sandbox.host.task_group import tasks_unbounded
from evaluator.sandbox.host.work_folder import WorkFolders, check_executable
from evaluator.sandbox.sandbox import Isolation, Job, JobResult

_ALWAYS = frozenset(
    {
        Isolation.CAPABILITIES,
        Isolation.ENVIRONMENT,
        Isolation.WALL_TIME,
        Isolation.PROCESS_LIMIT,
        Isolation.MEMORY_LIMIT,
        Isolation.OUTPUT_LIMIT,
        Isolation.WORK_LIMIT,
        Isolation.NO_LEFTOVERS,
    }
)


def promised(filters: bool, landlock_version: int) -> frozenset[Isolation]:
    """What is kept from a job by a kernel that filters system calls (or not) and has this version of Landlock."""
    kept = set(_ALWAYS)
    if filters:
        kept |= {Isolation.NETWORK, Isolation.KERNEL_CALLS}
    if landlock_version:
        kept.add(Isolation.HOST_FILES)
    if filters and landlock_version >= landlock.CONFINES_WRITES:
        kept.add(Isolation.WRITE_OUTSIDE)
    if filters and landlock_version >= landlock.CONFINES_SIGNALS:
        kept.add(Isolation.OTHER_PROCESSES)
    return frozenset(kept)


class ProcessSandbox:
    """Runs jobs as limited processes; work folders are made under `root` (and stale ones removed from it)."""

    name = "process"
    image_id = None

    def __init__(self, root: Path, use_seccomp: bool = True, use_landlock: bool = True) -> None:
        """`use_seccomp` and `use_landlock`: whether to use what the kernel has of them."""
        self.root = root
        self._folders = WorkFolders(root)
        check_executable(root)
        self._filters = use_seccomp and seccomp.available()
        self._landlock = landlock.abi_version() if use_landlock else 0

    @property
    def promises(self) -> frozenset[Isolation]:
        """What this kernel lets the sandbox keep from a job that has no devices."""
        return promised(self._filters, self._landlock)

    def run(self, job: Job) -> JobResult:
        """Run the job to its end, without stdin. Raises SandboxError, StorageError."""
        return self._begin(job, talk=False).conclude(grace_s=None)

    def start(self, job: Job) -> SupervisedSession:
        """Start the job and talk to it. Raises SandboxError, StorageError."""
        return self._begin(job, talk=True)

    def _begin(self, job: Job, talk: bool) -> SupervisedSession:
        session = SupervisedSession(job, self._folders, talk)
        ruleset = None
        try:
            work = str(session.folder)
            calls = b""
            if self._filters:
                calls = seccomp.program(bool(job.devices), bool(job.descriptors), False, session.threads_only)
            elif session.threads_only:
                raise tasks_unbounded()
            if self._landlock >= (landlock.CONFINES_SIGNALS if job.devices else 1):
                ruleset = landlock.confinement(session.folder, job.readable, bool(job.devices))
            session.begin(
                Command(
                    job.argv,
                    {"PATH": PATH, "HOME": work, "TMPDIR": work, **job.environment},
                    drop_capabilities=True,
                    passed_on=job.descriptors,
                    ruleset=ruleset,
                    system_calls=calls,
                )
            )
        except BaseException:
            session.release()
            raise
        finally:
            if ruleset is not None:
                os.close(ruleset)
        return session
