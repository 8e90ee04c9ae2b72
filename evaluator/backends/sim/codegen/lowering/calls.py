"""Calls of device functions and of those that CUDA brings, and memory that a function takes from its thread's stack.

As C++ (PTX ISA 9.0, sections 7, 9.7.12 and 9.7.19).
"""

from collections.abc import Iterator

from evaluator.backends.sim.codegen.context import Context
from evaluator.backends.sim.codegen.layout import stride_of
from evaluator.backends.sim.codegen.table import lowers
from evaluator.backends.sim.ptx.model import Immediate, Instruction, Operand, Register, Symbol, Vector

_BUILT_IN = ("vprintf", "__assertfail", "malloc", "free")
_DEFAULT_ALIGN = 8
_MAX_ALIGN = 1 << 10


def goes_through_register(i: Instruction) -> bool:
    """Whether this is a call of a function whose address a register holds, so that lanes may part."""
    return i.opcode == "call" and any(isinstance(operand, Register) for operand in i.operands)


@lowers("call", modifiers={"uni"}, types={""}, guarding="skip", counted="control", destination=False)
def _call(c: Context, i: Instruction) -> Iterator[str]:
    operands = [operand for operand in i.operands if not isinstance(operand, Immediate)]
    returns = operands.pop(0).parts if isinstance(operands[0], Vector) else ()  # type: ignore[union-attr]
    target = operands[0]
    arguments = operands[1].parts if len(operands) > 1 and isinstance(operands[1], Vector) else ()
    slots = []
    for operand in (*returns, *arguments):
        if not isinstance(operand, Symbol) or operand.name not in c.slots:
            raise c.unsupported("an argument that is not a parameter variable")
        slots.append(c.slots[operand.name])
    if isinstance(target, Register):
        yield from _through_register(c, target, operands[-1], slots)
        return
    if not isinstance(target, Symbol):
        raise c.unsupported("of what is neither a function nor a register")
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


def _through_register(c: Context, target: Register, said: Operand, slots: list[tuple[str, int]]) -> Iterator[str]:
    """`call (back), %f, (given), which;`, where a label or a table says what may be called."""
    if not isinstance(said, Symbol):
        raise c.unsupported("through a register, without a prototype or a list of targets")
    shape = c.module.call_shape(c.function, said.name)
    if shape is None:
        raise c.unsupported(f"through a register, of what {said.name} does not say")
    if [-(-size // 16) * 16 for side in shape.sizes for size in side] != [stride for _, stride in slots]:
        raise c.unsupported("with other parameters than declared")
    arguments = ["w", c.mask, c.b64(target), str(c.place()), *(pointer for pointer, _ in slots)]
    yield f"u32 ways = d{c.module.dispatcher(shape)}({', '.join(arguments)});"
    yield f"N[{c.block_number}].diverged += ways > 1;"
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


# The stack


@lowers("alloca", types={"u64"}, guarding="skip", result="last")
def _alloca(c: Context, i: Instruction) -> Iterator[str]:
    """`alloca.u64 pointer, bytes, 16;`."""
    pointer, size, *more = i.operands
    align = more[0].bits if more and isinstance(more[0], Immediate) else _DEFAULT_ALIGN
    if len(more) > 1 or (more and not isinstance(more[0], Immediate)) or not 0 < align <= _MAX_ALIGN:
        raise c.unsupported()
    if align & (align - 1):
        raise c.unsupported("with an alignment that is no power of two")
    place = c.place()
    yield c.set(pointer, f"take_local(w, {c.mask}, {c.b64(size)}, {align}, {place})")


@lowers("stacksave", types={"u32", "u64"}, operand_count=1, result="last")
def _stacksave(c: Context, i: Instruction) -> str:
    return f"all{64 if i.type == 'u64' else 32}(w.local_top)"


@lowers("stackrestore", types={"u32", "u64"}, operand_count=1, guarding="skip", destination=False)
def _stackrestore(c: Context, i: Instruction) -> Iterator[str]:
    """Lanes share one height: where some are elsewhere in the function, all memory stays until its end."""
    alone = f"{c.mask} == (m & w.live) && !pending.parked && pending.next == {len(c.flow.blocks)}"
    yield f"if ({alone}) give_local(w, {c.mask}, {c.b64(i.operands[0])});"
