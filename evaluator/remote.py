"""Grading elsewhere: the same submission, sent to a service."""

from collections.abc import Callable

from common.client import Client, EvaluatorFault, RequestRefused, ServiceFault
from common.contract import Evaluation, Submission, Verdict
from evaluator.errors import InfrastructureFault, UsageError

_PATIENCE_S = 5.0
"""How long a service may be away before it has accepted: a mistyped address is to be said soon."""
_LOYALTY_S = 120.0
"""How long it may be away afterwards: it restarts, and the verdict is on its way."""


def evaluate(
    submission: Submission, raw: bytes, server: str, key: str | None, progress: Callable[[str], None]
) -> Verdict:
    """Have the service at `server` grade one submission; `raw` is the file that it was read from.

    A verdict of the service is returned as it is, `internal_error` included. Raises UsageError for an address, a key
    or a submission that the service will not take, and InfrastructureFault where it gives no verdict.
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
        raise UsageError(f"{error}.") from error
    try:
        with hasty, Client(server, key, patience_s=_LOYALTY_S) as loyal:
            try:
                return hasty.evaluate(submission, progress=tell)
            except EvaluatorFault:
                raise
            except ServiceFault as fault:
                if fault.evaluation_id is None:
                    raise
                return loyal.result(fault.evaluation_id, progress=tell)
    except EvaluatorFault as fault:
        return fault.verdict
    except RequestRefused as error:
        raise UsageError(str(error), error.remedy) from error
    except ServiceFault as fault:
        raise InfrastructureFault(str(fault), fault.remedy) from fault
