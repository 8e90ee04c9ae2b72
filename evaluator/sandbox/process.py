"""The plain sandbox: a supervised process with limits, for machines where nothing better works.

Promised: a fresh work folder, an empty environment, no capabilities and no way to gain privileges, limits on time,
CPU, memory, processes, files and output, and an end of the whole tree, daemons included.

Not promised: the program runs as the grader's own user on the grader's own network and files. It can read and write
what that user can, see and signal that user's processes (its own warden and the grader among them), and open
connections. A program that never stops forking into new process groups is ended by a race, which the warden wins only
slowly where the kernel does not count processes (root). Only for code that is trusted about as much as the grader, or
inside a container that protects the rest.
"""

from pathlib import Path

from evaluator.sandbox.sandbox import Finished, Isolation, Job
from evaluator.sandbox.supervision import PATH, Command, SupervisedSession, WorkFolders


class ProcessSandbox:
    """Runs jobs as limited processes; work folders are made under `root` (and stale ones removed from it)."""

    name = "process"
    promises = frozenset(
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

    def __init__(self, root: Path) -> None:
        self.root = root
        self._folders = WorkFolders(root)

    def run(self, job: Job) -> Finished:
        """Run the job to its end, without stdin. Raises SandboxFault, StorageFault."""
        return self._begin(job, talk=False).conclude(grace_s=None)

    def start(self, job: Job) -> SupervisedSession:
        """Start the job and talk to it. Raises SandboxFault, StorageFault."""
        return self._begin(job, talk=True)

    def _begin(self, job: Job, talk: bool) -> SupervisedSession:
        session = SupervisedSession(job, self._folders, talk)
        try:
            work = str(session.folder)
            environment = {"PATH": PATH, "HOME": work, "TMPDIR": work, **job.environment}
            session.begin(Command(job.argv, environment, drop_capabilities=True, passed_on=job.descriptors))
        except BaseException:
            session.release()
            raise
        return session
