"""Calls of device functions and of those that CUDA brings, as C++ (PTX ISA 9.0, sections 7 and 9.7.12)."""

from collections.abc import Iterator

from evaluator.backends.sim.codegen.context import Context
from evaluator.backends.sim.codegen.layout import stride_of
from evaluator.backends.sim.codegen.table import lowers
from evaluator.backends.sim.ptx.model import Immediate, Instruction, Symbol, Vector

_BUILT_IN = ("vprintf", "__assertfail", "malloc", "free")


@lowers("call", modifiers={"uni"}, types={""}, guarding="skip", counted="control", destination=False)
def _call(c: Context, i: Instruction) -> Iterator[str]:
    operands = [operand for operand in i.operands if not isinstance(operand, Immediate)]
    returns = operands.pop(0).parts if isinstance(operands[0], Vector) else ()  # type: ignore[union-attr]
    target = operands[0]
    arguments = operands[1].parts if len(operands) > 1 and isinstance(operands[1], Vector) else ()
    if not isinstance(target, Symbol):
        raise c.unsupported("through a function pointer")
    slots = []
    for operand in (*returns, *arguments):
        if not isinstance(operand, Symbol) or operand.name not in c.slots:
            raise c.unsupported("an argument that is not a parameter variable")
        slots.append(c.slots[operand.name])
    if target.name in _BUILT_IN:
        yield from _built_in(c, target.name, slots)
        return
    if target.name not in c.module.indexes:
        raise c.unsupported(f"an unknown function {target.name}")
    callee = c.module.functions[c.module.indexes[target.name]]
    if callee.is_entry:
        raise c.unsupported("of a kernel: dynamic parallelism")
    declared = (*callee.returns, *callee.parameters)
    if [stride_of(v) for v in declared] != [stride for _, stride in slots]:
        raise c.unsupported("with other parameters than declared")
    pointers = ", ".join(["w", c.mask, *(pointer for pointer, _ in slots)])
    yield f"u32 back = k{c.module.indexes[target.name]}({pointers}); (void)back;"
    yield "m &= w.live; if (!m) goto dispatch;"


def _built_in(c: Context, name: str, slots: list[tuple[str, int]]) -> Iterator[str]:
    def value(n: int) -> str:
        pointer, stride = slots[n]
        return f"slot_load64({pointer}, {stride}, 0, 8)"

    place = c.place()
    if name == "vprintf":
        yield f"U32 n; device_printf(w, {c.mask}, {value(1)}, {value(2)}, &n, {place});"
        yield f"slot_store({slots[0][0]}, {slots[0][1]}, 0, 4, {c.mask}, n);"
    elif name == "malloc":
        yield f"U64 p = device_malloc(w, {c.mask}, {value(1)});"
        yield f"slot_store({slots[0][0]}, {slots[0][1]}, 0, 8, {c.mask}, p);"
    elif name == "free":
        yield f"device_free(w, {c.mask}, {value(0)}, {place});"
    else:
        pointers = ", ".join(pointer for pointer, _ in slots)
        strides = ", ".join(str(stride) for _, stride in slots)
        yield f"const u8 *texts[] = {{{pointers}}}; const u32 strides[] = {{{strides}}};"
        yield f"device_assert(w, {c.mask}, texts, strides, {place});"
