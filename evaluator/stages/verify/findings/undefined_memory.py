"""Words for outputs that hold undefined memory, or were made of it: what it was, and what to do."""

import itertools
import re
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Final

from common.contract import Fault
from common.source_lines import lines_of
from evaluator.backends.session import Hazard
from evaluator.errors import Ruling
from evaluator.stages.launch.checked_plan import CheckedPlan
from evaluator.stages.verify.comparison import Comparison

_SCRAMBLED: Final = 0xA5
"""As in runtime/machine.h: bytes that differ, since no real memory consists of one byte."""
_OTHER_POISONS: Final = ((0x5B, 0x00), (0x00, 0x5B), (0x5B, _SCRAMBLED), (0x80, 0x01), (0x01, 0x80))
"""In runs that are repeated, in turn, of outputs and of all else: what new memory holds, a large finite number, and
two with few bits. They differ, so that what is read in a temporary says nothing of what an output holds."""
_ELSEWHERE: Final = (0x5B, 0x00, 0xDB, _SCRAMBLED, 0x01)
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


def unconfirmed(comparison: Comparison) -> Comparison:
    """The same of a run that was not repeated on other undefined memory: a NaN keeps its bits through arithmetic, so
    what looks unwritten may have been computed from what another thread had not yet written.
    """
    mismatch = comparison.mismatch
    if mismatch is None:
        return comparison
    pattern = doubtful(mismatch.pattern)
    return replace(comparison, mismatch=mismatch.model_copy(update={"pattern": pattern}))


def unset_variable(lines: Sequence[int]) -> Fault:
    """The read of a variable that nothing has set; `lines` are those where the program may do so."""
    others = f" (so may line{'s' * (len(lines) > 2)} {', '.join(map(str, lines[1:4]))})" if lines[1:] else ""
    message = f"reads a variable that may not have been set, on line {lines[0]}{others}"
    return Fault(kind="undefined_read", message=message, line=lines[0])


_UNSET_HINT: Final = "Set the variable where it is declared, such as `float sum = 0.0f;`, or on every way to its use."


_DECLARATION: Final = re.compile(
    r"\b(?:bool|char|short|int|unsigned|long|float[1-4]?|double[1-4]?|u?int[1-4]?|__half2?|half2?|"
    r"(?:__)?nv_bfloat162?|size_t|u?int\d+_t)\s+(?P<names>\w+(?:\s*=[^;,]*)?(?:\s*,\s*\w+(?:\s*=[^;,]*)?)*)\s*;"
)
"""Of scalars and vectors, one or more of which may have no value. What it misses costs a name in a hint."""


def with_its_name(ruling: Ruling, fault: Fault | None, source: str) -> Ruling:
    """The ruling on the read of an unset variable, with a name of that line that was declared without a value.

    Neither PTX nor its line table knows names; so this is read from the text, and says no more than it knows.
    """
    lines = lines_of(source)
    if fault is None or fault.kind != "undefined_read" or fault.buffer is not None or not fault.line:
        return ruling
    if fault.line > len(lines):
        return ruling
    here = set(re.findall(r"[A-Za-z_]\w*", lines[fault.line - 1]))
    for number, line in reversed(list(enumerate(lines[: fault.line], 1))):
        for found in _DECLARATION.finditer(line[:_MOST_READ]):
            unset = [name.strip() for name in found["names"].split(",") if "=" not in name and name.strip() in here]
            if unset:
                said = f"`{unset[0]}` has no value where it is declared, on line {number}."
                return replace(ruling, hint=f"{said} {ruling.hint or ''}".strip())
    return ruling


_MOST_READ: Final = 400
"""Characters of a line that are searched for a declaration."""


def origin(undefined: Hazard | None, output: str, unset: bool = False) -> str:
    """What memory an output depends on; `undefined` is a read of undefined memory that a watched run saw.

    `unset`: the program may read a variable that it has not set.
    """
    if undefined is None and unset:
        return "depends on a variable that was never set"
    if undefined is None or undefined.fault.buffer is None:
        return "depends on memory that was never written"
    if undefined.fault.buffer == output:
        return "was read or accumulated into, but never set before"
    if undefined.fault.buffer == "local memory":
        return "was computed from a local array, of which nobody had written what is read"
    return f"was computed from {undefined.fault.buffer}[{undefined.fault.element}], which nobody had written"


def how_to_initialise(
    undefined: Hazard | None, output: str, temporaries: Set[str], later: str | None, unset: bool = False
) -> str:
    """What to do about what was read before anybody wrote it; `unset` as of `origin`.

    `later`: a launch behind the one that read it, which takes the same buffer.
    """
    if undefined is None and unset:
        return _UNSET_HINT
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


def later_launch(undefined: Hazard | None, checked_plan: CheckedPlan) -> str | None:
    """A launch behind the one that read undefined memory, which takes the same buffer: the order may be wrong."""
    fault = undefined.fault if undefined else None
    calls = [call for _, call in sorted(checked_plan.calls.items())]
    taking = [call for call in calls if fault and (fault.buffer or "") in call.buffers]
    if not fault or not taking or not fault.kernel or f"{fault.kernel}(" not in taking[0].entry.name:
        return None
    return next((call.launch.kernel for call in taking[1:] if call.entry != taking[0].entry), None)
