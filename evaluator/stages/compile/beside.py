"""What a source is compiled with beside the toolkit's headers."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Beside:
    """A source in the form in which it is compiled: the same lines, with files of ours beside it."""

    text: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Plain names and contents of headers, which the text may include."""
    flags: tuple[str, ...] = ()
    """For nvcc, after those of every source."""
    described: bool = True
    """Whether the names of kernels' parameters are worth another run of the compiler."""
