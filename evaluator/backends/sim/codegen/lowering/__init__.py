"""What each instruction becomes: a module for each family, whose functions register themselves in the table."""

from evaluator.backends.sim.codegen.lowering import (
    arithmetic,
    async_copies,
    bitwise,
    calls,
    comparisons,
    control,
    conversions,
    extended_precision,
    memory,
    tensor_cores,
    video,
    warp_wide,
)

FAMILIES = (
    arithmetic,
    extended_precision,
    bitwise,
    video,
    comparisons,
    conversions,
    memory,
    async_copies,
    tensor_cores,
    warp_wide,
    calls,
    control,
)
