"""What counting needs to know of each instruction: its class, its operations, and whether it branches or waits."""

from typing import Final

from common.contract.counters import InstructionClass
from evaluator.backends.sim.codegen.instructions import entry_of
from evaluator.backends.sim.codegen.lowering.calls import goes_through_register
from evaluator.backends.sim.counters import Step
from evaluator.backends.sim.ptx.model import Instruction

_HALVES: Final = {"f16", "f16x2", "bf16", "bf16x2"}
_PACKED: Final = {"f16x2", "bf16x2"}
_SPACES: Final[dict[str, InstructionClass]] = {
    "global": "global",
    "shared": "shared",
    "local": "local",
    "const": "constant",
    "param": "constant",
}


def step_of(instruction: Instruction, sites: range, guard: int | None) -> Step:
    """What counting needs to know of an instruction; `guard` is where its guarded lanes are counted, if they are."""
    entry = entry_of(instruction)
    flop_kind, flops = operations(instruction)
    return Step(
        line=instruction.line,
        kind=_class(instruction),
        flops=flops,
        flop_kind=flop_kind,
        guard=guard,
        sites=sites,
        branches=entry.indexed
        or (entry.branches and instruction.guard is not None)
        or goes_through_register(instruction),
        barrier=entry.barrier,
    )


def operations(instruction: Instruction) -> tuple[str, int]:
    """Kind and number of the floating-point operations of one lane.

    As Nsight Compute counts them: additions, multiplications and fused ones; approximations, minima and comparisons
    are none. Of a matrix product: a lane's share of 2 m n k.
    """
    entry = entry_of(instruction)
    if entry.product:
        shape = next((m for m in instruction.modifiers if m[0] == "m" and m[1:2].isdigit()), "")
        m, _, rest = shape[1:].partition("n")
        n, _, k = rest.partition("k")
        return ("tensor", 2 * int(m) * int(n) * int(k) // 32) if m and n and k else ("", 0)
    kind, flops = instruction.type, entry.flops
    if kind in _HALVES:
        return "fp16", flops * (1 + (kind in _PACKED))
    return {"f32": ("fp32", flops), "f64": ("fp64", flops)}.get(kind, ("", 0))


def _class(i: Instruction) -> InstructionClass | None:
    entry = entry_of(i)
    if entry.counted == "address":
        spaces = (_SPACES.get(modifier.split("::")[0]) for modifier in i.modifiers)
        return next((space for space in spaces if space), None)
    if entry.counted is not None:
        return entry.counted
    kind = i.type
    if kind == "f64":
        return "fp64"
    if kind in _HALVES or kind in ("f32", "tf32"):
        return "special" if entry.special else "fp16" if kind in _HALVES else "fp32"
    return "integer" if kind else "other"
