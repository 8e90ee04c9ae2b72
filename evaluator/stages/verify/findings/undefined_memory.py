"""Words for outputs that hold undefined memory, or were made of it: what it was, and what to do."""

import itertools
from collections.abc import Set
from typing import Final

from evaluator.backends.session import Hazard

_OTHER_POISONS: Final = ((0x5B, 0x00), (0x00, 0x5B), (0x80, 0x01), (0x01, 0x80))
"""In runs that are repeated, in turn, of outputs and of all else: what new memory holds, a large finite number, and
two with few bits. They differ, so that what is read in a temporary says nothing of what an output holds."""
_ELSEWHERE: Final = (0x5B, 0x00, 0xDB, 0x01)
"""In runs that are not repeated, in turn, of all but outputs: what is no NaN, which `fmaxf` drops."""


class PoisonTurns:
    """Patterns of undefined memory, one run after another; `seed` draws with which they begin."""

    def __init__(self, seed: int) -> None:
        first = seed % len(_OTHER_POISONS)
        self.both = itertools.cycle(_OTHER_POISONS[first:] + _OTHER_POISONS[:first])
        """Of outputs and of all else, in runs that are repeated."""
        self.elsewhere = itertools.cycle(_ELSEWHERE[first:] + _ELSEWHERE[:first])
        """Of all but outputs, in runs that are not."""


UNWRITTEN_HINT: Final = (
    "Outputs hold no defined value before the first launch: every element must be written. Check the grid's extent "
    "and the condition that guards the store."
)
"""For an element that no thread wrote."""
_UNDEFINED_WORDS: Final = {
    "none of them was ever written": "all of them hold undefined memory",
    "was never written": "holds undefined memory",
    "were never written": "hold undefined memory",
}


def doubtful(message: str) -> str:
    """The same message where an element that looks unwritten may have been made of what nobody wrote."""
    for unwritten, words in _UNDEFINED_WORDS.items():
        message = message.replace(unwritten, words)
    return message


def origin(undefined: Hazard | None, output: str) -> str:
    """What memory an output depends on; `undefined` is a read of undefined memory that a watched run saw."""
    if undefined is None or undefined.fault.buffer is None:
        return "depends on memory that was never written"
    if undefined.fault.buffer == output:
        return "was read or accumulated into, but never set before"
    if undefined.fault.buffer == "local memory":
        return "was computed from a local array, of which nobody had written what is read"
    return f"was computed from {undefined.fault.buffer}[{undefined.fault.element}], which nobody had written"


def how_to_initialise(undefined: Hazard | None, output: str, temporaries: Set[str], later: str | None) -> str:
    """What to do about what was read before anybody wrote it.

    `later`: a launch behind the one that read it, which takes the same buffer.
    """
    buffer = undefined.fault.buffer if undefined else None
    if later is not None and buffer != output:
        return f"The launch of {later} takes {buffer} too, and comes later: if it writes {buffer}, launch it first."
    if buffer is not None and (buffer == output or buffer in temporaries):
        return (
            f"{buffer} is read or accumulated into, but never set: add `// assay: fill {buffer} value=0` before the "
            "launch, or set it in an earlier launch."
        )
    if undefined is not None:
        return undefined.remedy
    return (
        "Initialise what you read: shared memory, local arrays and temporaries are undefined at the start, an "
        "integer divided by zero gives anything, and an "
        f"output that is accumulated into needs `// assay: fill {output} value=0` or an earlier launch."
    )
