"""What a fault of a submission's own process means, in words for who wrote Python and not a kernel."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from common.contract import Phase, Status
from evaluator.stages.verify.verified import Verified

_HINTS: Final[Mapping[str, str]] = {
    "exception": "It runs with the problem's tensors at each of its sizes: look at the line that is named.",
    "misfit": "Take the problem's inputs, and return its outputs in their order, types and shapes.",
    "no_compiler": "In the host tier there is no compiler: let forward pass tensors and numbers to what it compiles, "
    "and nothing else, then it is recorded (docs/lifting.md). It was not judged, so there is no reward.",
    "no_process": "Triton's compiler starts processes, and here host code may start threads alone, because nothing "
    "counts its processes: give the evaluator a writable pids control group (docs/host_tier.md). It was not judged, "
    "so there is no reward.",
    "ended": "End no process, and do not exit: return the outputs.",
    "limit": "Start fewer processes and threads, and write less.",
    "forged": "Leave the grader's files and descriptors alone.",
    "out_of_memory": "Keep fewer and smaller tensors.",
    "watchdog": "Check that every loop ends, also at the smallest and at odd sizes, and wait for nothing.",
}
_STATUS: Final[Mapping[str, Status]] = {
    "misfit": Status.INVALID_SUBMISSION,
    "no_compiler": Status.UNSUPPORTED,
    "no_process": Status.UNSUPPORTED,
    "forged": Status.REJECTED,
}


def in_words_of_host_code(verified: Verified) -> Verified:
    """The same, with the status and the hint that a fault has in this tier."""
    ruling, shown = verified.ruling, verified.correctness
    kind = shown.fault.kind if shown is not None and shown.fault is not None else ""
    if ruling is None or kind not in _HINTS:
        return verified
    ruling = replace(ruling, status=_STATUS.get(kind, ruling.status), hint=_HINTS[kind])
    if ruling.status in (Status.INVALID_SUBMISSION, Status.UNSUPPORTED):
        # Nothing was compared: what it takes or gives back is not the problem's, or it did not come to a call.
        return replace(verified, ruling=replace(ruling, phase=Phase.LAUNCH))
    return replace(verified, ruling=ruling)
