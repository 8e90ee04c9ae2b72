"""Integer arithmetic with a carry, as C++ (PTX ISA 9.0, section 9.7.2)."""

from collections.abc import Iterator

from evaluator.backends.sim.codegen.context import Context
from evaluator.backends.sim.codegen.lowering.formats import bits_of
from evaluator.backends.sim.codegen.table import lowers
from evaluator.backends.sim.ptx.model import Instruction

_WIDE = {"u32", "s32", "u64", "s64"}


@lowers("add.cc", "sub.cc", types=_WIDE, operand_count=3, result="last")
@lowers("addc", "subc", modifiers={"cc"}, types=_WIDE, operand_count=3, result="last")
@lowers("mad.cc", modifiers={"lo", "hi"}, types=_WIDE, operand_count=4, result="last")
@lowers("madc", modifiers={"cc", "lo", "hi"}, types=_WIDE, operand_count=4, result="last")
def _carrying(c: Context, i: Instruction) -> Iterator[str]:
    """`cc` holds each lane's carry.

    GPUs subtract by adding the complement, so what a subtraction leaves and takes is the carry of that sum, set
    where nothing was borrowed (measured). The ISA leaves that open; nvcc's 128-bit division builds on it.
    """
    bits = bits_of(i.type)
    kind = f"U{bits}"
    sources = [c.any(operand, bits) for operand in i.operands[1:]]
    name = i.opcode.removesuffix("c")
    if i.opcode in ("addc", "subc", "madc"):
        carry_in = f"pick(cc, all{bits}(1), all{bits}(0))"
    else:
        carry_in = f"all{bits}({int(name == 'sub')})"
    if name == "mad":
        product = f"mul_b{bits}" if "lo" in i.modifiers else f"mul_hi_{'s' if i.type[0] == 's' else 'u'}{bits}"
        yield f"{{ {kind} x = {product}({sources[0]}, {sources[1]}), y = {sources[2]};"
    elif name == "sub":
        yield f"{{ {kind} x = {sources[0]}, y = not_b{bits}({sources[1]});"
    else:
        yield f"{{ {kind} x = {sources[0]}, y = {sources[1]};"
    yield f"{kind} t = add_b{bits}(x, y), r = add_b{bits}(t, {carry_in});"
    if "cc" in i.modifiers:
        yield f"u32 out = lt_u{bits}(t, x) | lt_u{bits}(r, t);"
        yield f"cc = pick({c.mask}, out, cc);"
    yield c.set(i.operands[0], "r") + " }"
