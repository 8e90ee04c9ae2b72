"""Makes Triton import and look up all that it needs for a kernel, once, before there are processes to do so."""

import triton
import triton.language as tl

from evaluator.stages.lift.triton.inside.dtypes import DTYPES
from evaluator.stages.lift.triton.inside.memory import RecordedMemory
from evaluator.stages.lift.triton.inside.recording_driver import Kernels, RecordingDriver, activate
from evaluator.stages.lift.triton.inside.stand_in_tensor import StandInTensor


@triton.jit  # type: ignore[untyped-decorator]
def _nothing(to, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, block)
    tl.store(to + at, at, mask=at < n)


def compile_one(capability: int, facts: dict[str, int]) -> None:
    """Compile and launch a kernel of ours, on a device of its own."""
    memory = RecordedMemory(0)
    activate(RecordingDriver(memory, Kernels(), capability, facts, lambda begins: None))
    _nothing[(1,)](StandInTensor(memory, DTYPES["int32"], (64,), memory.allocate(256)), 64, block=64)
