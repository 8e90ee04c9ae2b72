"""Bits of PTX as C++ (PTX ISA 9.0, sections 9.7.1 and 9.7.8)."""

from collections.abc import Iterator
from dataclasses import replace

from evaluator.backends.sim.codegen.context import Context, pair
from evaluator.backends.sim.codegen.lowering.formats import BITS, INTEGERS, bits_of, integer_operation, sign_extended
from evaluator.backends.sim.codegen.table import lowers
from evaluator.backends.sim.ptx.model import Immediate, Instruction, Register

_PERMUTATIONS = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}
"""Which bytes a mode takes for each of the lower two bits of its third operand."""


@lowers("and", "or", "xor", types=BITS | {"pred"}, operand_count=3, result="last")
def _logic(c: Context, i: Instruction) -> str:
    if i.type == "pred":
        a, b = (c.predicate(operand) for operand in i.operands[1:3])
        return f"({a} { ({'and': '&', 'or': '|', 'xor': '^'}[i.opcode]) } {b})"
    return integer_operation(c, i, i.opcode)


@lowers("not", types=BITS | {"pred"}, operand_count=2, result="last")
def _not(c: Context, i: Instruction) -> str:
    if i.type == "pred":
        return f"~({c.predicate(i.operands[1])})"
    bits = bits_of(i.type)
    text = f"not_b{max(bits, 32)}({c.any(i.operands[1], bits)})"
    return f"low16({text})" if bits == 16 else text


@lowers("cnot", types=BITS, operand_count=2, result="last")
def _cnot(c: Context, i: Instruction) -> str:
    bits = bits_of(i.type)
    wide = max(bits, 32)
    return f"pick(eq_b{wide}({c.any(i.operands[1], bits)}, all{wide}(0)), all{wide}(1), all{wide}(0))"


@lowers("shl", types=BITS, operand_count=3, result="last")
def _shl(c: Context, i: Instruction) -> str:
    bits = bits_of(i.type)
    text = f"shl_b{max(bits, 32)}({c.any(i.operands[1], bits)}, {_amount(c, i, bits)})"
    return f"low16({text})" if bits == 16 else text


@lowers("shr", types=BITS | INTEGERS, operand_count=3, result="last")
def _shr(c: Context, i: Instruction) -> str:
    bits = bits_of(i.type)
    sign = "s" if i.type[0] == "s" else "u"
    a = sign_extended(c.any(i.operands[1], bits), i.type)
    text = f"shr_{sign}{max(bits, 32)}({a}, {_amount(c, i, bits)})"
    return f"low16({text})" if bits == 16 else text


def _amount(c: Context, i: Instruction, bits: int) -> str:
    return c.b64(i.operands[2]) if bits == 64 else c.b32(i.operands[2])


@lowers("shf", modifiers={"l", "r", "wrap", "clamp"}, types={"b32"}, operand_count=4, result="last")
def _shf(c: Context, i: Instruction) -> str:
    low, high, amount = (c.b32(operand) for operand in i.operands[1:4])
    side = "left" if "l" in i.modifiers else "right"
    return f"funnel_{side}({low}, {high}, {amount}, {'true' if 'clamp' in i.modifiers else 'false'})"


@lowers("lop3", types={"b32"}, operand_count=5, result="last")
def _lop3(c: Context, i: Instruction) -> str:
    table = i.operands[-1]
    if not isinstance(table, Immediate):
        raise c.unsupported()
    return f"lop3<{table.bits & 255}>({', '.join(c.b32(operand) for operand in i.operands[1:4])})"


@lowers("lop3.and", "lop3.or", types={"b32"}, operand_count=6)
def _lop3_and_test(c: Context, i: Instruction) -> Iterator[str]:
    """`lop3.or.b32 d|p, a, b, c, table, q`: also whether any bit is set, combined with a predicate."""
    word, test = pair(i.operands[0])
    if test is None or (isinstance(word, Register) and c.width(word) != 32) or c.width(test) not in (0, 1):
        raise c.unsupported()
    operator = "&" if "and" in i.modifiers else "|"
    yield f"{{ U32 t = {_lop3(c, replace(i, operands=i.operands[:-1]))}; u32 q = {c.predicate(i.operands[-1])};"
    yield c.set(word, "t")
    yield c.set(test, f"(ne_b32(t, all32(0)) {operator} q)") + " }"


@lowers("szext", modifiers={"clamp", "wrap"}, types={"u32", "s32"}, operand_count=3, result="last")
def _szext(c: Context, i: Instruction) -> str:
    if len({"clamp", "wrap"} & set(i.modifiers)) != 1:
        raise c.unsupported()
    a, b = (c.b32(operand) for operand in i.operands[1:3])
    return f"szext({a}, {b}, {str(i.type == 's32').lower()}, {str('clamp' in i.modifiers).lower()})"


@lowers("bmsk", modifiers={"clamp", "wrap"}, types={"b32"}, operand_count=3, result="last")
def _bmsk(c: Context, i: Instruction) -> str:
    a, b = (c.b32(operand) for operand in i.operands[1:3])
    return f"bmsk({a}, {b}, {'true' if 'clamp' in i.modifiers else 'false'})"


@lowers("fns", types={"b32"}, operand_count=4, result="last")
def _fns(c: Context, i: Instruction) -> str:
    return f"fns({', '.join(c.b32(operand) for operand in i.operands[1:4])})"


@lowers("prmt", modifiers=_PERMUTATIONS.keys(), types={"b32"}, operand_count=4, result="last")
def _prmt(c: Context, i: Instruction) -> str:
    a, b, chosen = (c.b32(operand) for operand in i.operands[1:4])
    modes = [m for m in i.modifiers if m in _PERMUTATIONS]
    if len(modes) > 1:
        raise c.unsupported()
    if modes:
        chosen = f"one_of_four({chosen}, {', '.join(f'0x{places:04x}u' for places in _PERMUTATIONS[modes[0]])})"
    return f"prmt({a}, {b}, {chosen})"


@lowers("popc", "clz", types={"b32", "b64"}, operand_count=2, result="u32")
@lowers("brev", types={"b32", "b64"}, operand_count=2, result="last")
def _of_one_word(c: Context, i: Instruction) -> str:
    bits = bits_of(i.type)
    return f"{i.opcode}{bits}({c.any(i.operands[1], bits)})"


@lowers("bfind", modifiers={"shiftamt"}, types={"u32", "s32", "u64", "s64"}, operand_count=2, result="u32")
def _bfind(c: Context, i: Instruction) -> str:
    bits = bits_of(i.type)
    signed, shift = i.type[0] == "s", "shiftamt" in i.modifiers
    return f"bfind{bits}({c.any(i.operands[1], bits)}, {str(signed).lower()}, {str(shift).lower()})"


@lowers("bfe", types={"u32", "s32", "u64", "s64"}, operand_count=4, result="last")
def _bfe(c: Context, i: Instruction) -> str:
    bits = bits_of(i.type)
    value, start, length = i.operands[1:4]
    signed = str(i.type[0] == "s").lower()
    return f"bfe{bits}({c.any(value, bits)}, {c.b32(start)}, {c.b32(length)}, {signed})"


@lowers("bfi", types={"b32", "b64"}, operand_count=5, result="last")
def _bfi(c: Context, i: Instruction) -> str:
    bits = bits_of(i.type)
    value, into, start, length = i.operands[1:5]
    return f"bfi{bits}({c.any(value, bits)}, {c.any(into, bits)}, {c.b32(start)}, {c.b32(length)})"


@lowers("dp4a", types={"u32", "s32"}, operand_count=4, result="last")
def _dp4a(c: Context, i: Instruction) -> str:
    values = ", ".join(c.b32(operand) for operand in i.operands[1:4])
    first, second = (str(m == "s32").lower() for m in i.modifiers[:2])
    return f"dp4a({values}, {first}, {second})"


@lowers("dp2a", modifiers={"lo", "hi"}, types={"u32", "s32"}, operand_count=4, result="last")
def _dp2a(c: Context, i: Instruction) -> str:
    values = ", ".join(c.b32(operand) for operand in i.operands[1:4])
    first, second = (str(m == "s32").lower() for m in i.modifiers[1:3])
    return f"dp2a({values}, {first}, {second}, {str('hi' in i.modifiers).lower()})"
