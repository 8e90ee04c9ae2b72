"""Whether host code of a submission may run here: the caller asks, and the machine's owner has the last word."""

from collections.abc import Set
from typing import Final, Literal

from common.contract import Settings
from evaluator.sandbox.host.task_group import TaskGroup
from evaluator.sandbox.sandbox import Isolation

OwnersWord = Literal["auto", "on", "off"]
"""`ASSAY_HOST_TIER`: `auto` lets host code run where the sandbox keeps the machine from it; `on` wherever there is a
GPU, on the owner's own responsibility; `off` nowhere."""
NEEDED: Final = frozenset(
    {
        Isolation.NETWORK,
        Isolation.HOST_FILES,
        Isolation.WRITE_OUTSIDE,
        Isolation.OTHER_PROCESSES,
        Isolation.CAPABILITIES,
        Isolation.KERNEL_CALLS,
        Isolation.ENVIRONMENT,
        Isolation.NO_LEFTOVERS,
    }
)
"""What a sandbox must keep from host code that nobody has read."""


def why_not_here(settings: Settings, word: OwnersWord, backend: str, promises: Set[Isolation]) -> str | None:
    """Why host code may not run, in words; None where it may. `promises`: what the sandbox keeps from a job."""
    if settings.host_tier == "off":
        return "the submission does not ask for the host tier (settings.host_tier)"
    if backend != "gpu":
        return "host code needs a GPU, and the simulator runs kernels alone"
    if word == "off":
        return "this evaluator does not run host code (ASSAY_HOST_TIER=off)"
    if word == "on":
        return None
    missing = sorted(one.value for one in NEEDED - promises)
    if missing:
        return f"the sandbox of this machine does not keep host code from all that it must ({', '.join(missing)})"
    group = TaskGroup.made(1)
    if group is None:
        return "no pids control group can be made here, which bounds how many processes host code starts"
    group.close()
    return None
