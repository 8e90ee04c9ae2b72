"""A sandbox whose jobs end when they are cancelled, around any other kind of sandbox."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evaluator.cancellation import CancelToken
from evaluator.sandbox.sandbox import Isolation, Job, JobResult, Sandbox, SandboxSession


class CancellableSandbox:
    """Runs jobs in `sandbox`, each bound to `cancel_token`. Safe to use from many threads."""

    def __init__(self, sandbox: Sandbox, cancel_token: CancelToken) -> None:
        self._sandbox = sandbox
        self._cancel_token = cancel_token
        self._starts_s: list[float] = []
        self._used_s: list[float] = []

    @property
    def unbound(self) -> Sandbox:
        """The sandbox of which this is one piece of work's, for what outlasts that."""
        return self._sandbox

    @property
    def name(self) -> str:
        return self._sandbox.name

    @property
    def image_id(self) -> str | None:
        return self._sandbox.image_id

    @property
    def root(self) -> Path:
        return self._sandbox.root

    @property
    def promises(self) -> frozenset[Isolation]:
        return self._sandbox.promises

    @property
    def starts_s(self) -> Sequence[float]:
        """How long each session took to start, seconds."""
        return tuple(self._starts_s)

    @property
    def used_s(self) -> float:
        """What the jobs that have ended took of processors, seconds."""
        return sum(self._used_s)

    def run(self, job: Job) -> JobResult:
        """Run the job to its end. Raises CancelledError, SandboxError, StorageError."""
        self._cancel_token.check()
        finished = self._sandbox.run(self._bound(job))
        # A job that was ended in the middle looks like one that failed: nobody may keep that as its result.
        self._cancel_token.check()
        return finished

    def start(self, job: Job) -> SandboxSession:
        """Start the job and talk to it; cancelling ends it as a limit would. Raises as `run` does."""
        self._cancel_token.check()
        started_s = time.monotonic()
        session = self._sandbox.start(self._bound(job))
        self._starts_s.append(time.monotonic() - started_s)
        return session

    def _bound(self, job: Job) -> Job:
        return replace(job, cancel_token=self._cancel_token, spent=self._used_s.append)
