"""A sandbox whose jobs end when nobody wants them any more, around any other kind of sandbox."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evaluator.cancellation import CancelToken
from evaluator.sandbox.sandbox import Finished, Isolation, Job, Sandbox, Session


class CancellableSandbox:
    """Runs jobs in `sandbox`, each bound to `interest`. Safe to use from many threads."""

    def __init__(self, sandbox: Sandbox, interest: CancelToken) -> None:
        self._sandbox = sandbox
        self._interest = interest
        self._starts_s: list[float] = []

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

    def run(self, job: Job) -> Finished:
        """Run the job to its end. Raises CancelledError, SandboxError, StorageError."""
        self._interest.check()
        finished = self._sandbox.run(replace(job, interest=self._interest))
        # A job that was ended in the middle looks like one that failed: nobody may keep that as its result.
        self._interest.check()
        return finished

    def start(self, job: Job) -> Session:
        """Start the job and talk to it; a withdrawal ends it as a limit would. Raises as `run` does."""
        self._interest.check()
        started_s = time.monotonic()
        session = self._sandbox.start(replace(job, interest=self._interest))
        self._starts_s.append(time.monotonic() - started_s)
        return session
