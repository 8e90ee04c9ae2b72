"""A launch with its kernel, before the sizes are known."""

from dataclasses import dataclass

from common.launch_plan import Launch
from evaluator.backends.session import Entry, Packed, Parameter, Pointer


@dataclass(frozen=True)
class Call:
    """A launch step with its kernel. `values` are in parameter order; a text is an expression over the sizes."""

    launch: Launch
    entry: Entry
    values: tuple[Pointer | Packed | int | float | str, ...]
    static_shared_bytes: int
    place: str
    registers: int = 0
    """Of a thread; 0 where it is not known."""
    most_threads: int | None = None
    """Of a block, by the kernel's `__launch_bounds__`; None where it says nothing."""

    @property
    def pointers(self) -> tuple[tuple[int, Parameter, str], ...]:
        """Number (from 1), parameter and buffer of each argument that is a tensor or a temporary."""
        pairs = enumerate(zip(self.values, self.entry.parameters, strict=True), 1)
        return tuple((n, parameter, value.buffer) for n, (value, parameter) in pairs if isinstance(value, Pointer))

    @property
    def buffers(self) -> frozenset[str]:
        """All whose address it passes, in structs too."""
        packed = (to for value in self.values if isinstance(value, Packed) for _, to in value.addresses)
        return frozenset(p.buffer for p in (*packed, *(v for v in self.values if isinstance(v, Pointer))))
