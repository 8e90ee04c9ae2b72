"""The client of the service: `from common.client import Client`.

    NoVerdictError
    ├── RequestRefusedError   the service will not do this, now or later: a wrong key, an unknown problem
    └── ServiceError          the service or the way to it failed; the submission can be sent again
        └── EvaluatorError    the evaluator failed: the verdict is `internal_error`

`NoVerdict`, `RequestRefused`, `ServiceFault` and `EvaluatorFault` are older names of the same.
"""

from common.client.client import AsyncClient, Client, EvaluatorError, Finished
from common.client.transport import NoVerdictError, RequestRefusedError, ServiceError

# The names of these errors until version 0.2, for older code.
NoVerdict = NoVerdictError
RequestRefused = RequestRefusedError
ServiceFault = ServiceError
EvaluatorFault = EvaluatorError

__all__ = [
    "AsyncClient",
    "Client",
    "EvaluatorError",
    "EvaluatorFault",
    "Finished",
    "NoVerdict",
    "NoVerdictError",
    "RequestRefused",
    "RequestRefusedError",
    "ServiceError",
    "ServiceFault",
]
