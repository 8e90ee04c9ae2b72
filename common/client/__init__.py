"""The client of the service: `from common.client import Client`.

    NoVerdict
    ├── RequestRefused      the service will not do this, now or later: a wrong key, an unknown problem
    └── ServiceFault        the service or the way to it failed; the submission can be sent again
        └── EvaluatorFault  the evaluator failed: the verdict is `internal_error`

Sync and async; each submission comes back exactly once.
"""

from common.client.client import AsyncClient, Client, EvaluatorFault, Finished
from common.client.transport import NoVerdict, RequestRefused, ServiceFault

__all__ = ["AsyncClient", "Client", "EvaluatorFault", "Finished", "NoVerdict", "RequestRefused", "ServiceFault"]
