"""What to do about a file that can be no problem, by why it cannot."""

import re
from typing import Final

WHAT_IS_NEEDED: Final = (
    "What states a problem must run with PyTorch on the CPU, without a network and without other files, and give the "
    "same finite answer with each call, which depends on each of its arguments."
)
"""In the place of a page: who sends a file to a service may have none."""
_SWAPPED: Final = (
    "It is a solution: it is graded in the kernel's place, for a file that states its problem with `Model`."
)
_REMEDIES: Final = (
    (r"has no class `Model`.*`ModelNew`", _SWAPPED),
    (r"torch_extensions|load_inline|cpp_extension|\bninja\b", _SWAPPED),
    (r"has no class `Model`", "Name the torch.nn.Module whose forward gives the answer `Model`, at the top level."),
    (r"no function `get_inputs`", "Define `get_inputs()`, which returns the list of forward's arguments."),
    (
        r"making the Model fails: TypeError: .*__init__\(\)",
        "Have `get_init_inputs()` return the list of the arguments of `Model.__init__`.",
    ),
    (
        r"get_inputs fails: TypeError: (?:missing a required|too many positional)",
        "Have `get_inputs()` return one value for each argument of forward, in order.",
    ),
    (
        r"draws random numbers",
        "Leave out what draws, or end `Model.__init__` with `self.eval()`, in which a dropout does nothing.",
    ),
    (
        r"it is not Python|JSON is read",
        "A problem is stated in Python for PyTorch (KernelBench, LeetGPU, Tensara), or in JSON (FlashInfer Trace).",
    ),
    (r"may take [\d,]+ here", "State it with smaller sizes, each a number that is assigned once."),
    (
        r"no output depends on",
        "Leave out of forward, and of what `get_inputs` returns, what the answer does not need.",
    ),
)


def remedy_for(refusal: str) -> str:
    """What to do about it: `refusal` is its message."""
    return next((remedy for said, remedy in _REMEDIES if re.search(said, refusal)), WHAT_IS_NEEDED)
