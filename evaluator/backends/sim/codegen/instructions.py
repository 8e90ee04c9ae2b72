"""Each PTX instruction as C++ on packs of lanes (PTX ISA 9.0, section 9.7).

What is not here is `UnsupportedError` by name.
"""

from evaluator.backends.sim.codegen.arithmetic import Arithmetic
from evaluator.backends.sim.codegen.bitwise import Bits
from evaluator.backends.sim.codegen.conversions import Moves
from evaluator.backends.sim.codegen.operands import FLOATS, HALVES
from evaluator.backends.sim.ptx.model import TYPE_BYTES, Instruction


class Emitter(Arithmetic, Bits, Moves):
    """Every instruction without side effects."""

    # Values: instruction -> C++ expression of the first destination's width

    def value(self, instruction: Instruction) -> str:
        """The value that an instruction without side effects gives to its one destination."""
        self.instruction = instruction
        method = getattr(self, f"_op_{instruction.opcode}", None)
        if method is None:
            raise self.unsupported()
        allowed = _ALLOWED.get(instruction.opcode, set()) | TYPE_BYTES.keys()
        for modifier in instruction.modifiers:
            if modifier not in allowed:
                raise self.unsupported()
        self._check_types(instruction)
        text = method(instruction)
        assert isinstance(text, str)
        return text

    def _check_types(self, i: Instruction) -> None:
        """The type is one that the instruction has, and the destination is as wide as the result."""
        if i.opcode in _TYPES and i.type not in _TYPES[i.opcode]:
            raise self.unsupported()
        if i.opcode not in ("cvt", "createpolicy") and len(i.operands) != _OPERANDS.get(i.opcode, 3):
            raise self.unsupported("with a wrong number of operands")
        types = [m for m in i.modifiers if m in TYPE_BYTES]
        if i.opcode == "cvt" and not {"pred", "b8", *_BITS}.isdisjoint(types):
            raise self.unsupported()
        if not types or i.opcode in ("testp", "isspacep"):
            bits = 1 if types else self.width(i.operands[0])
        elif i.opcode in ("popc", "clz", "bfind"):
            bits = 32
        else:
            first = types[0] if i.opcode in ("cvt", "set", "slct") else i.type
            bits = 1 if first == "pred" else 8 * TYPE_BYTES[first] << ("wide" in i.modifiers)
        found = self.width(i.operands[0])
        extended = i.opcode == "cvt" and types[0][0] in "su" and bits < 64
        if found and (found == 64, found == 1) != (bits == 64, bits == 1) and not (extended and found == 64):
            raise self.unsupported("into a register of another width")


COMPARISONS = {
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu",
    "num", "nan",
}  # fmt: skip
_ROUND = {"rn", "rz", "rm", "rp"}
_INTEGERS = {"u16", "s16", "u32", "s32", "u64", "s64"}
_BITS = {"b16", "b32", "b64"}
_NUMBERS = _INTEGERS | FLOATS | HALVES.keys()
_TYPE_ROWS: tuple[tuple[tuple[str, ...], set[str]], ...] = (
    (("add", "sub", "mul", "min", "max", "neg", "abs"), _NUMBERS),
    (("mad", "div"), _INTEGERS | FLOATS),
    (("and", "or", "xor", "not"), _BITS | {"pred"}),
    (("popc", "clz", "brev", "bfi"), {"b32", "b64"}),
    (("bfe", "bfind"), {"u32", "s32", "u64", "s64"}),
    (("sqrt", "rsqrt", "rcp", "testp", "copysign"), FLOATS),
    (("mul24", "mad24", "sad", "dp4a", "dp2a"), {"u32", "s32"}),
    (("shf", "lop3", "prmt", "bmsk", "fns"), {"b32"}),
    (("cvta", "isspacep"), {"", "u64"}),
    (("createpolicy",), {"b64"}),
    (("sin", "cos", "lg2"), {"f32"}),
    (("ex2", "tanh"), {"f32"} | HALVES.keys()),
    (("fma",), FLOATS | HALVES.keys()),
    (("rem",), _INTEGERS),
    (("cnot",), _BITS),
    (("shl",), _BITS),
    (("shr",), _BITS | _INTEGERS),
    (("selp",), _BITS | _INTEGERS | FLOATS),
    (("slct",), {"s32", "f32"}),
    (("mov",), _BITS | _INTEGERS | FLOATS | {"pred"}),
)
_TYPES = {opcode: types for opcodes, types in _TYPE_ROWS for opcode in opcodes}
"""The types that an instruction works in (for a conversion or `slct`: the last one)."""
_OPERANDS = {
    **dict.fromkeys(("neg", "abs", "not", "cnot", "popc", "clz", "brev", "bfind", "sqrt", "rsqrt", "rcp"), 2),
    **dict.fromkeys(("sin", "cos", "lg2", "ex2", "tanh", "testp", "cvta", "isspacep", "mov"), 2),
    **dict.fromkeys(("mad", "fma", "mad24", "sad", "dp4a", "dp2a", "shf", "prmt", "bfe", "selp", "slct"), 4),
    **dict.fromkeys(("lop3", "bfi"), 5),
    "activemask": 1,
    "fns": 4,
}
"""Operands with the destination, where they are not three."""
_ALLOWED: dict[str, set[str]] = {
    "add": _ROUND | {"ftz", "sat"},
    "sub": _ROUND | {"ftz", "sat"},
    "mul": _ROUND | {"ftz", "sat", "lo", "hi", "wide"},
    "mad": _ROUND | {"ftz", "sat", "lo", "hi", "wide"},
    "mul24": {"lo", "hi"},
    "mad24": {"lo"},
    "fma": _ROUND | {"ftz", "sat", "relu"},
    "div": _ROUND | {"ftz", "approx", "full"},
    "neg": {"ftz"},
    "abs": {"ftz"},
    "min": {"ftz", "NaN", "xorsign", "abs", "relu"},
    "max": {"ftz", "NaN", "xorsign", "abs", "relu"},
    "sqrt": _ROUND | {"ftz", "approx"},
    "rsqrt": {"ftz", "approx"},
    "rcp": _ROUND | {"ftz", "approx"},
    "sin": {"ftz", "approx"},
    "cos": {"ftz", "approx"},
    "lg2": {"ftz", "approx"},
    "ex2": {"ftz", "approx"},
    "tanh": {"approx"},
    "shf": {"l", "r", "wrap", "clamp"},
    "bfind": {"shiftamt"},
    "dp2a": {"lo", "hi"},
    "set": COMPARISONS | {"ftz"},
    "testp": {"finite", "infinite", "number", "notanumber", "normal", "subnormal"},
    "cvta": {"to", "global", "shared", "local", "const", "param"},
    "isspacep": {"global", "shared", "local", "const", "param"},
    "cvt": _ROUND | {"rni", "rzi", "rmi", "rpi", "rna", "ftz", "sat", "relu"},
    "createpolicy": {
        "fractional",
        "range",
        "global",
        "L2::evict_last",
        "L2::evict_normal",
        "L2::evict_first",
        "L2::evict_unchanged",
    },
    "bmsk": {"clamp", "wrap"},
}
