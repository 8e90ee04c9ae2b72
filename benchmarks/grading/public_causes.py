"""Why a public solution was not judged, by whose doing, in words that say nothing of its text."""

import re
from collections.abc import Mapping
from typing import Any, Final

_CAUSES: Final = (
    # what was asked for never came about here
    ("machine", r"too busy|not done in", "the machine was too busy"),
    (
        "problem",
        r"takes more than .* to be described|its process ended",
        "the problem's file was late to be described",
    ),
    (
        "problem",
        r"(?:host function|device) that is no tensor",
        "its host function takes what is no tensor of the problem",
    ),
    ("problem", r"^problem\.py", "the problem's file is refused"),
    ("sizes", r"cannot run this problem at its own sizes", "lifted, and wrong at the smaller sizes that were tried"),
    # by design: what a recording cannot hold
    ("theirs", r"calls PyTorch's operator torch\.cuda", "the Python uses streams, graphs or events of torch.cuda"),
    ("theirs", r"calls PyTorch's operator|the operator ", "an operator or a layer of PyTorch's between the kernels"),
    ("theirs", r"cuBLAS|cuDNN|Thrust|CUB|CUTLASS|cublas|cudnn", "a library: cuBLAS, cuDNN, Thrust, CUB, CUTLASS"),
    ("theirs", r"copies device memory to the host|reads the contents|reads? data|look at", "the host reads data"),
    ("theirs", r"compiles no CUDA", "PyTorch alone, without a kernel"),
    ("theirs", r"The Python uses|ModelNew (?:imports|passes on)", "another name of PyTorch's, or another package"),
    ("theirs", r"No such file", "a header of its own that its file does not bring"),
    ("theirs", r"There is no function", "no function that is to be called"),
    ("theirs", r"launches nothing", "it launches nothing"),
    ("wrong", r"^kernel\.(?:cu|py):|is no Python|Triton does not compile", "it does not compile"),
    ("wrong", r"raises an exception.*(?:bf|float)16", "it takes 16-bit types alone, and the problem has float32"),
    ("wrong", r"does not give the outputs|returns a tensor of", "it returns something else than the outputs"),
    ("wrong", r"ModelNew fails|threw an exception|raises an exception", "its own Python or host code fails"),
    ("misfit", r"takes .* and .* has|does not fit", "its parameters are not those of the problem"),
)
_JUDGED: Final = ("passed", "incorrect", "rejected")


def cause_of(row: Mapping[str, Any]) -> tuple[str, str]:
    """Whose doing it is, and the cause; `judged` and nothing where a verdict is about its answers.

    `recorded`: lifted, and not judged. `theirs`: what no recording holds. `wrong`: the solution. `problem`, `sizes`,
    `machine`: what it was to be held against. `misfit`: its parameters. `open`: none of these, so ours until it is
    read.
    """
    status, phase, message = row["status"], row["phase"], row["message"]
    if status in _JUDGED or (status == "runtime_error" and phase == "verify"):
        return "judged", ""
    if status == "recorded":
        return status, ""
    for whose, pattern, said in _CAUSES:
        if re.search(pattern, message):
            return whose, said
    return "open", f"{status} in phase {phase}"
