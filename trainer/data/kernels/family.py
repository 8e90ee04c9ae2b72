"""A family: one operation stated by an expression, at several shapes, with a ladder of kernels from slow to fast."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from trainer.data.kernels.style import Style

Element = Literal["float32", "float16"]
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Family:
    """One operation at any shape. Its kernels read the extents, so that a text serves every shape.

    A tensor's extents are named by their order of appearance, `n`, or `n0`, `n1` … where there are several, as the
    evaluator names the sizes of an expression: the same pattern of equal and different extents at every shape.
    """

    name: str
    """A word that can be part of an identifier."""
    title: str
    expression: str
    """Of `torch.…` and `F.…` over the tensors."""
    shapes: tuple[Shapes, ...]
    """By tensor, in the order of the kernel's parameters. Where there are several, the last is held out."""
    out: tuple[str, ...]
    """Extents of the answer, as expressions over the sizes."""
    styles: tuple[Style, ...]
    """The ladder: the slowest first. `Style.problem` is the family's name."""
    element: Element = "float32"


def parameters(tensors: tuple[str, ...], sizes: tuple[str, ...], element: Element = "float32") -> str:
    """A kernel's parameters: what is read, `out`, the sizes."""
    kind = "float" if element == "float32" else "__half"
    reads = [f"const {kind}* {name}" for name in tensors]
    return ", ".join([*reads, f"{kind}* out", *(f"int {size}" for size in sizes)])


def arguments(tensors: tuple[str, ...], sizes: tuple[str, ...]) -> str:
    """What a launch line gives for them."""
    return ", ".join([*tensors, "out", *sizes])


def includes(element: Element) -> str:
    """What stands before a kernel."""
    return "" if element == "float32" else "#include <cuda_fp16.h>\n"
