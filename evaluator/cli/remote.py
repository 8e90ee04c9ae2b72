"""Grading elsewhere: the same submission, sent to a service; and a private service to send it to."""

import contextlib
import ctypes
import os
import secrets
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from common.client import Client, EvaluatorError, RequestRefusedError, ServiceError
from common.contract import Evaluation, Submission, Verdict
from evaluator.errors import InfrastructureError, UsageError
from evaluator.python_command import own_python

_PATIENCE_S = 5.0
"""How long a service may be away before it has accepted: a mistyped address is to be said soon."""
_LOYALTY_S = 120.0
"""How long it may be away afterwards: it restarts, and the verdict is on its way."""
_OF_KEYS = "Set ASSAY_KEY, or give --key. The service's operator makes keys, with `assay keys add NAME`."
_TO_READ = "Set ASSAY_KEY, or give --server-key: the key that asked for the evaluation, or an admin's."


_START_S: Final = 60.0
"""How long a private service may take to start, and then to end."""
_PR_SET_PDEATHSIG: Final = 1


class LocalService:
    """`assay serve` on a free port of this machine, for one user and a moment: its database is thrown away."""

    def __init__(self, folder: Path, sandbox: str) -> None:
        """Start it, without waiting; `folder` is empty and for it alone. Caches are those of this machine."""
        own = {
            "ASSAY_SANDBOX": sandbox,
            "ASSAY_DATABASE_URL": f"sqlite:///{folder / 'assay.db'}",
            "ASSAY_SECRET": secrets.token_hex(32),
        }
        # Settings of a service that is meant for others are not for this one.
        others = ("ASSAY_BROKER_URL", "ASSAY_HOST", "ASSAY_REQUIRE_KEYS", "ASSAY_WORKERS")
        inherited = {name: value for name, value in os.environ.items() if name not in others}
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                own_python("evaluator", "serve", "--port", "0", "--workers", "1"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**inherited, **own},
                cwd="/",
                start_new_session=True,  # Ctrl-C is the caller's, who ends it
                preexec_fn=end_with_parent,
            )

    def address(self) -> str:
        """Where it listens, once it does. Raises InfrastructureError."""
        assert self._process.stdout is not None
        first = self._process.stdout.readline()
        if "http://" not in first:
            self.close()
            said = self._log.read_text(errors="replace").strip().removeprefix("assay: ")
            raise InfrastructureError(f"The service did not start: {said[-1000:] or 'it printed nothing'}")
        return first.split()[-1]

    def close(self) -> None:
        """End it, with its workers."""
        self._process.terminate()
        try:
            self._process.wait(_START_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


@contextlib.contextmanager
def local_service(sandbox: str) -> Iterator[LocalService]:
    """A service that is there inside this context; what it runs is kept in by `sandbox` (`Sandbox.name`)."""
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        service = LocalService(Path(folder), sandbox)
        try:
            yield service
        finally:
            service.close()


def end_with_parent() -> None:
    """In the child: its parent may be killed, and then no other process would end it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def evaluation(server: str, key: str | None, evaluation_id: str) -> Evaluation:
    """One evaluation of the service at `server`, as it is now. Raises UsageError, InfrastructureError."""
    try:
        with Client(server, key, patience_s=_PATIENCE_S) as client:
            return client.get(evaluation_id)
    except ValueError as error:
        raise UsageError(f"{error}.") from error
    except RequestRefusedError as error:
        raise UsageError(str(error), _TO_READ if error.status_code == 401 else error.remedy) from error
    except ServiceError as fault:
        raise InfrastructureError(str(fault), fault.remedy) from fault


def evaluate_remotely(
    submission: Submission, raw: bytes, server: str, key: str | None, progress: Callable[[str], None]
) -> Verdict:
    """Have the service at `server` grade one submission; `raw` is the file that it was read from.

    A verdict of the service is returned as it is, `internal_error` included. Raises UsageError for an address, a key
    or a submission that the service will not take, and InfrastructureError where it gives no verdict.
    """
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"The file is not UTF-8 text (byte {error.start}), and a service takes text only.",
            "Send the CUDA source itself, as UTF-8 text.",
        ) from error

    def tell(evaluation: Evaluation) -> None:
        progress(evaluation.progress or evaluation.state)

    try:
        hasty = Client(server, key, patience_s=_PATIENCE_S)
    except ValueError as error:
        said = str(error)
        raise UsageError(f"{said[:1].upper()}{said[1:]}.") from error
    try:
        with hasty, Client(server, key, patience_s=_LOYALTY_S) as loyal:
            try:
                return hasty.evaluate(submission, progress=tell)
            except EvaluatorError:
                raise
            except ServiceError as fault:
                if fault.evaluation_id is None:
                    raise
                return loyal.result(fault.evaluation_id, progress=tell)
    except EvaluatorError as fault:
        return fault.verdict
    except RequestRefusedError as error:
        raise UsageError(str(error), _OF_KEYS if error.status_code == 401 else error.remedy) from error
    except ServiceError as fault:
        raise InfrastructureError(str(fault), fault.remedy) from fault
