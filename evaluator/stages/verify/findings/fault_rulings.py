"""What a fault of a running kernel means for the verdict, and what to do about it."""

from collections.abc import Set
from typing import Final

from common.contract import Fault, Phase, Status
from evaluator.errors import Ruling
from evaluator.stages.verify.findings.race_checks import sentence

RACE_HINT: Final = (
    "Nothing orders the blocks of a launch, or the warps between two barriers: this is a race. Use atomics, a "
    "barrier, or a second launch."
)
"""For a run that is right in another order."""
_NEGATIVE_HINT: Final = (
    "The index is negative: it overflowed (compute it as `size_t` or `long long` where a product may not fit an "
    "`int`, and in no narrower type), or it needs a guard against what lies before the start."
)
_TEMPORARY_HINT: Final = (
    "Make the temporary {name} as large as the largest index (`// assay: temp {name} DTYPE (extents)`), for every "
    "size, or launch no more blocks than it has room for."
)
_ARRAY_HINT: Final = (
    "Every index into {array} must be below its extent: make {array} as large as the largest index, which often "
    "depends on the block's size, or launch blocks of the size that it is made for."
)
_LOOP_HINT: Final = (
    "Check that every loop ends for every thread and size, and that what it waits for is written by one who does not "
    "wait."
)
_WAIT_HINT: Final = (
    f"{_LOOP_HINT} That must stay until all who wait have seen it: reset no counter before. Blocks may wait for "
    "each other only where all are there at once: launch no more than a GPU holds, and let each do more in a loop, "
    "or begin a second launch."
)
_FAULT_STATUS: Final = {
    "watchdog": Status.TIMEOUT,
    "instruction_limit": Status.TIMEOUT,
    "deadlock": Status.TIMEOUT,
    "endless_wait": Status.TIMEOUT,
    "no_room": Status.TIMEOUT,
    "not_held": Status.UNSUPPORTED,
    "out_of_memory": Status.OUT_OF_MEMORY,
    "race": Status.INCORRECT,
}
_FAULT_HINTS: Final = {
    "race": RACE_HINT,
    "watchdog": _LOOP_HINT,
    "instruction_limit": f"{_LOOP_HINT} No thread may wait for one that starts only after it.",
    "endless_wait": _WAIT_HINT,
    "no_room": _WAIT_HINT,
    "not_held": "Launch fewer blocks, and let each do more in a loop, or have it judged on a GPU. It was not judged, "
    "so there is no reward.",
    "deadlock": "Every thread of the block must reach the same barriers: move `__syncthreads()` out of conditions "
    "that depend on the thread, and do not return before it.",
    "out_of_bounds": "Guard the access with the tensor's extent: the last block usually has threads beyond the end, "
    "and at a border a neighbour's index lies there too (`i < n`, not `i <= n`).",
    "null": "No tensor is null: check how the pointer was computed, and which argument of the plan is 0.",
    "misaligned": "A vector access needs an address that is a multiple of its size: use it only where the row's "
    "start is aligned, and handle the rest element by element.",
    "write_to_constant": "Constant memory and parameters cannot be written.",
    "assert": "The kernel's own assertion failed on this input.",
    "not_cooperative": "Add `cooperative` to the launch, and launch no more blocks than a GPU holds at once: "
    "`// assay: launch KERNEL cooperative grid=(…) block=(…) args=(…)`.",
    "trap": "The kernel stopped itself (`__trap()`), or fell off a function that must return a value.",
    "stack_overflow": "Make recursion shallower, or large local arrays smaller.",
    "out_of_memory": "Ask for smaller temporaries.",
    "bad_free": "Free what malloc returned, once, and nothing else; tensors and temporaries are not yours to free.",
    "use_after_free": "Do not touch a block after its free: another thread may have got the memory.",
    "bad_string": "printf needs a format and, for each %s, a text that ends with a zero byte.",
    "divergent_barrier": "A barrier inside a function must be reached by whole warps.",
    "too_many_resources": "Use smaller blocks, or let the compiler use fewer registers (`__launch_bounds__`, "
    "`-maxrregcount`).",
    "context_destroyed": "Write to nothing but the plan's buffers.",
    "bad_call": "A function pointer holds the address of a device function of its own type: set every entry of a "
    "table before it is called, and do not cast between types of functions.",
    "bad_barrier": "Barriers have numbers 0 to 15 and thread counts that are multiples of 32, one for all of a warp.",
}


def bounds_hint(fault: Fault, known: Set[str], temporaries: Set[str]) -> str | None:
    """What to do about an index out of bounds, where more can be said than of a tensor's end.

    `known`: names of tensors, temporaries and what has no name; any other one is a shared array's.
    """
    if fault.kind != "out_of_bounds" or not fault.buffer:
        return None
    if fault.element is not None and fault.element < 0 and fault.buffer != "local memory":
        return _NEGATIVE_HINT
    if fault.buffer in temporaries:
        return _TEMPORARY_HINT.format(name=fault.buffer)
    return None if fault.buffer in known else _ARRAY_HINT.format(array=fault.buffer)


def ruling_on(fault: Fault, place: str, source_lines: int, limit_s: float) -> Ruling:
    """What a fault at `place` (`n=1000`) means; `limit_s` is what all runs may take."""
    status = _FAULT_STATUS.get(fault.kind, Status.RUNTIME_ERROR)
    limit = f" (all runs together may take {limit_s:g} s)" if fault.kind == "watchdog" else ""
    message = f"At {place}: {sentence(fault, source_lines)}{limit}."
    return Ruling(status, Phase.VERIFY, message, _FAULT_HINTS.get(fault.kind))
