"""Where the variables of a function lie, and what its C++ function takes."""

from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.ptx.model import Function, Variable

MAX_PARAMETER_BYTES = 32 << 10
_FUNCTION_SLOT = 2046
_FUNCTION_BYTES = 16


def device_address(slot: int) -> int:
    """Where a slot's content begins; the same as `slot_address` of runtime/machine.h."""
    return (1 << 44) + (slot << 34) + (1 << 33)


def function_address(index: int) -> int:
    """What a pointer to a function holds: an address of no memory, which only a call turns into the function again.

    It is even, as pointers to member functions need it (Itanium C++ ABI, section 2.3).
    """
    return device_address(_FUNCTION_SLOT) + _FUNCTION_BYTES * index


def parameter_layout(function: Function) -> tuple[dict[str, int], int]:
    """Offsets of a kernel's parameters, and the size of the whole block."""
    offsets: dict[str, int] = {}
    top = 0
    for variable in function.parameters:
        top = -(-top // variable.align) * variable.align
        offsets[variable.name] = top
        top += variable.size_bytes
    if top > MAX_PARAMETER_BYTES:
        raise UnsupportedError(f"{top} bytes of parameters")
    return offsets, top


def local_frame(function: Function) -> tuple[dict[str, int], int]:
    """Offsets of a function's local variables, and the frame's size."""
    offsets: dict[str, int] = {}
    top = 0
    for variable in function.variables.values():
        if variable.space == "local":
            top = -(-top // variable.align) * variable.align
            offsets[variable.name] = top
            top += variable.size_bytes
    return offsets, -(-top // 16) * 16


def signature(index: int, function: Function) -> str:
    """The C++ signature: a device function gets the entering lanes and returns those that still live."""
    if function.is_entry:
        return f"static void k{index}(Warp &w)"
    slots = [f"u8 *a{n}" for n in range(len(function.returns) + len(function.parameters))]
    return f"static u32 k{index}({', '.join(['Warp &w', 'u32 entering', *slots])})"


def stride_of(variable: Variable) -> int:
    """Bytes from one lane's copy of a call parameter to the next."""
    return -(-variable.size_bytes // 16) * 16
