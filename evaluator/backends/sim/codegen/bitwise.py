"""Bits, comparison and selection of PTX as C++ (PTX ISA 9.0, sections 9.7.1, 9.7.6 and 9.7.8)."""

from evaluator.backends.sim.codegen.operands import FLOATS, HALVES, Operands
from evaluator.backends.sim.ptx.model import TYPE_BYTES, Immediate, Instruction, Operand


class Bits(Operands):
    """Bits, comparison and selection."""

    # Bits

    def _logic(self, i: Instruction, name: str) -> str:
        if i.type == "pred":
            a, b = (self.predicate(operand) for operand in i.operands[1:3])
            return f"({a} { ({'and': '&', 'or': '|', 'xor': '^'}[name]) } {b})"
        return self._integer(i, name)

    def _op_and(self, i: Instruction) -> str:
        return self._logic(i, "and")

    def _op_or(self, i: Instruction) -> str:
        return self._logic(i, "or")

    def _op_xor(self, i: Instruction) -> str:
        return self._logic(i, "xor")

    def _op_not(self, i: Instruction) -> str:
        if i.type == "pred":
            return f"~({self.predicate(i.operands[1])})"
        bits = TYPE_BYTES[i.type] * 8
        text = f"not_b{max(bits, 32)}({self.any(i.operands[1], bits)})"
        return f"low16({text})" if bits == 16 else text

    def _op_cnot(self, i: Instruction) -> str:
        bits = TYPE_BYTES[i.type] * 8
        wide = max(bits, 32)
        return f"pick(eq_b{wide}({self.any(i.operands[1], bits)}, all{wide}(0)), all{wide}(1), all{wide}(0))"

    def _op_shl(self, i: Instruction) -> str:
        bits = TYPE_BYTES[i.type] * 8
        text = f"shl_b{max(bits, 32)}({self.any(i.operands[1], bits)}, {self._amount(i, bits)})"
        return f"low16({text})" if bits == 16 else text

    def _op_shr(self, i: Instruction) -> str:
        bits = TYPE_BYTES[i.type] * 8
        sign = "s" if i.type[0] == "s" else "u"
        a = self.signed(self.any(i.operands[1], bits), i.type)
        text = f"shr_{sign}{max(bits, 32)}({a}, {self._amount(i, bits)})"
        return f"low16({text})" if bits == 16 else text

    def _amount(self, i: Instruction, bits: int) -> str:
        return self.b64(i.operands[2]) if bits == 64 else self.b32(i.operands[2])

    def _op_shf(self, i: Instruction) -> str:
        a, b, c = (self.b32(operand) for operand in i.operands[1:4])
        side = "left" if "l" in i.modifiers else "right"
        return f"funnel_{side}({a}, {b}, {c}, {'true' if 'clamp' in i.modifiers else 'false'})"

    def _op_lop3(self, i: Instruction) -> str:
        table = i.operands[-1]
        if len(i.operands) != 5 or not isinstance(table, Immediate):
            raise self.unsupported()
        a, b, c = (self.b32(operand) for operand in i.operands[1:4])
        return f"lop3<{table.bits & 255}>({a}, {b}, {c})"

    def _op_bmsk(self, i: Instruction) -> str:
        a, b = (self.b32(operand) for operand in i.operands[1:3])
        return f"bmsk({a}, {b}, {'true' if 'clamp' in i.modifiers else 'false'})"

    def _op_fns(self, i: Instruction) -> str:
        return f"fns({', '.join(self.b32(operand) for operand in i.operands[1:4])})"

    def _op_prmt(self, i: Instruction) -> str:
        if set(i.modifiers) - {"b32"}:
            raise self.unsupported()
        return f"prmt({', '.join(self.b32(operand) for operand in i.operands[1:4])})"

    def _bits_operation(self, i: Instruction) -> str:
        bits = TYPE_BYTES[i.type] * 8
        return f"{i.opcode}{bits}({self.any(i.operands[1], bits)})"

    def _op_popc(self, i: Instruction) -> str:
        return self._bits_operation(i)

    def _op_clz(self, i: Instruction) -> str:
        return self._bits_operation(i)

    def _op_brev(self, i: Instruction) -> str:
        return self._bits_operation(i)

    def _op_bfind(self, i: Instruction) -> str:
        bits = TYPE_BYTES[i.type] * 8
        signed, shift = i.type[0] == "s", "shiftamt" in i.modifiers
        return f"bfind{bits}({self.any(i.operands[1], bits)}, {str(signed).lower()}, {str(shift).lower()})"

    def _op_bfe(self, i: Instruction) -> str:
        bits = TYPE_BYTES[i.type] * 8
        a, b, c = i.operands[1:4]
        signed = str(i.type[0] == "s").lower()
        return f"bfe{bits}({self.any(a, bits)}, {self.b32(b)}, {self.b32(c)}, {signed})"

    def _op_bfi(self, i: Instruction) -> str:
        bits = TYPE_BYTES[i.type] * 8
        a, b, c, d = i.operands[1:5]
        return f"bfi{bits}({self.any(a, bits)}, {self.any(b, bits)}, {self.b32(c)}, {self.b32(d)})"

    def _op_dp4a(self, i: Instruction) -> str:
        a, b, c = (self.b32(operand) for operand in i.operands[1:4])
        first, second = (str(m == "s32").lower() for m in i.modifiers[:2])
        return f"dp4a({a}, {b}, {c}, {first}, {second})"

    def _op_dp2a(self, i: Instruction) -> str:
        a, b, c = (self.b32(operand) for operand in i.operands[1:4])
        first, second = (str(m == "s32").lower() for m in i.modifiers[1:3])
        return f"dp2a({a}, {b}, {c}, {first}, {second}, {str('hi' in i.modifiers).lower()})"

    # Comparison and selection

    def comparison(self, i: Instruction) -> str:
        """The u32 of a `setp` or `set`, before it is combined with another predicate."""
        self.instruction = i
        operator, kind = i.modifiers[0], i.modifiers[-1]
        if i.opcode == "set" and len(i.modifiers) > 1:
            kind = i.modifiers[-1]
        bits = TYPE_BYTES[kind] * 8
        a, b = i.operands[1:3]
        if kind in FLOATS or kind in ("f16", "bf16"):
            return self._float_comparison(i, operator, kind, a, b)
        if kind in HALVES:
            raise self.unsupported("of packed halves")
        wide = max(bits, 32)
        x, y = (self.signed(self.any(operand, bits), kind) for operand in (a, b))
        sign = "s" if kind[0] == "s" else "u"
        table = {
            "eq": f"eq_b{wide}({x}, {y})", "ne": f"ne_b{wide}({x}, {y})",
            "lt": f"lt_{sign}{wide}({x}, {y})", "le": f"le_{sign}{wide}({x}, {y})",
            "gt": f"lt_{sign}{wide}({y}, {x})", "ge": f"le_{sign}{wide}({y}, {x})",
            "lo": f"lt_u{wide}({x}, {y})", "ls": f"le_u{wide}({x}, {y})",
            "hi": f"lt_u{wide}({y}, {x})", "hs": f"le_u{wide}({y}, {x})",
        }  # fmt: skip
        if operator not in table:
            raise self.unsupported()
        return table[operator]

    def _float_comparison(self, i: Instruction, operator: str, kind: str, a: Operand, b: Operand) -> str:
        if kind in ("f16", "bf16"):
            x, y = (f"widen_float({HALVES[kind]}, {self.b32(operand)})" for operand in (a, b))
            kind = "f32"
        elif kind == "f32":
            x, y = (self._f32(operand, "ftz" in i.modifiers) for operand in (a, b))
        else:
            x, y = self.b64(a), self.b64(b)
        return self._compared(operator, kind, x, y)

    def halves_compared(self, i: Instruction) -> tuple[str, str]:
        """The two u32 of a comparison of packed halves, low and high."""
        self.instruction = i
        sides = []
        for side in ("low16", "high16"):
            x, y = (f"widen_float({HALVES[i.type]}, {side}({self.b32(operand)}))" for operand in i.operands[1:3])
            sides.append(self._compared(i.modifiers[0], "f32", x, y))
        return sides[0], sides[1]

    def _compared(self, operator: str, kind: str, x: str, y: str) -> str:
        unordered = f"unordered_{kind}({x}, {y})"
        ordered = {
            "eq": f"eq_{kind}({x}, {y})", "lt": f"lt_{kind}({x}, {y})", "le": f"le_{kind}({x}, {y})",
            "gt": f"lt_{kind}({y}, {x})", "ge": f"le_{kind}({y}, {x})",
            "ne": f"~(eq_{kind}({x}, {y}) | {unordered})",
        }  # fmt: skip
        if operator in ordered:
            return ordered[operator]
        if operator == "nan":
            return unordered
        if operator == "num":
            return f"~{unordered}"
        if operator.endswith("u") and operator[:-1] in ordered:
            return f"({ordered[operator[:-1]]} | {unordered})"
        raise self.unsupported()

    def _op_set(self, i: Instruction) -> str:
        if len(i.operands) != 3 or set(i.modifiers) & {"and", "or", "xor"}:
            raise self.unsupported()
        types = [m for m in i.modifiers if m in TYPE_BYTES]
        ones = {"f32": "0x3f800000u", "f16": "0x3c00", "bf16": "0x3f80", "f16x2": "0x3c00", "bf16x2": "0x3f80"}
        if i.type in HALVES and i.type.endswith("x2"):
            yes = "0xffff" if types[0] in ("u32", "s32") else ones[types[0]]
            low, high = (f"pick({side}, all32({yes}), all32(0))" for side in self.halves_compared(i))
            return f"pair16({low}, {high})"
        if (TYPE_BYTES[types[0]] != 4 and types[0] not in HALVES) or types[0].endswith("x2"):
            raise self.unsupported()
        yes = ones.get(types[0], "0xffffffffu")
        return f"pick({self.comparison(i)}, all32({yes}), all32(0))"

    def _op_selp(self, i: Instruction) -> str:
        bits = TYPE_BYTES[i.type] * 8
        a, b = (self.any(operand, bits) for operand in i.operands[1:3])
        return f"pick({self.predicate(i.operands[3])}, {a}, {b})"

    def _op_slct(self, i: Instruction) -> str:
        types = [m for m in i.modifiers if m in TYPE_BYTES]
        bits = TYPE_BYTES[types[0]] * 8
        a, b = (self.any(operand, bits) for operand in i.operands[1:3])
        c = self.b32(i.operands[3])
        test = f"le_f32(all32(0), {c})" if types[1] == "f32" else f"le_s32(all32(0), {c})"
        return f"pick({test}, {a}, {b})"

    def _op_testp(self, i: Instruction) -> str:
        operator, kind = i.modifiers[0], i.type
        bits = TYPE_BYTES[kind] * 8
        a = self.any(i.operands[1], bits)
        infinity = "all32(0x7f800000)" if bits == 32 else "all64(0x7ff0000000000000ull)"
        smallest = "all32(0x00800000)" if bits == 32 else "all64(0x0010000000000000ull)"
        magnitude = f"abs_{kind}({a})"
        finite = f"lt_u{bits}({magnitude}, {infinity})"
        table = {
            "finite": finite,
            "infinite": f"eq_b{bits}({magnitude}, {infinity})",
            "number": f"le_u{bits}({magnitude}, {infinity})",
            "notanumber": f"lt_u{bits}({infinity}, {magnitude})",
            "normal": f"({finite} & le_u{bits}({smallest}, {magnitude}))",
            "subnormal": f"(lt_u{bits}({magnitude}, {smallest}) & ne_b{bits}({magnitude}, all{bits}(0)))",
        }
        if operator not in table:
            raise self.unsupported()
        return table[operator]
