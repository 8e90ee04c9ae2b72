"""Arithmetic of PTX as C++ (PTX ISA 9.0, sections 9.7.1 to 9.7.5)."""

from evaluator.backends.sim.codegen.operands import FLOATS, HALVES, Operands
from evaluator.backends.sim.ptx.model import TYPE_BYTES, Immediate, Instruction, Operand


class Arithmetic(Operands):
    """Integer and floating-point arithmetic (PTX ISA 9.7.1 to 9.7.5)."""

    def _op_add(self, i: Instruction) -> str:
        if i.type in FLOATS:
            return self._arithmetic(i, "add")
        if i.type in HALVES:
            return self._half(i, "H_ADD")
        if "sat" in i.modifiers:
            if i.type != "s32":
                raise self.unsupported()
            return f"add_saturated_s32({self.b32(i.operands[1])}, {self.b32(i.operands[2])})"
        if i.type in ("u16x2", "s16x2"):
            raise self.unsupported()
        return self._integer(i, "add")

    def _op_sub(self, i: Instruction) -> str:
        if i.type in FLOATS:
            return self._arithmetic(i, "sub")
        if i.type in HALVES:
            return self._half(i, "H_SUB")
        if "sat" in i.modifiers:
            raise self.unsupported()
        return self._integer(i, "sub")

    def _op_mul(self, i: Instruction) -> str:
        if i.type in FLOATS:
            return self._arithmetic(i, "mul")
        if i.type in HALVES:
            return self._half(i, "H_MUL")
        return self._product(i)

    def _product(self, i: Instruction) -> str:
        kind, bits = i.type, TYPE_BYTES[i.type] * 8
        sign = kind[0] if kind[0] == "s" else "u"
        a, b = i.operands[1:3]
        if "wide" in i.modifiers:
            if bits == 32:
                return self._wide(a, b, sign)
            if bits == 16:
                x, y = (self.signed(self.any(operand, 16), kind) for operand in (a, b))
                return f"mul_b32({x}, {y})"
            raise self.unsupported()
        if "hi" in i.modifiers:
            if bits == 16:
                x, y = (self.signed(self.any(operand, 16), kind) for operand in (a, b))
                return f"low16(shr_u32(mul_b32({x}, {y}), all32(16)))"
            return f"mul_hi_{sign}{bits}({self.any(a, bits)}, {self.any(b, bits)})"
        return self._integer(i, "mul")

    def _wide(self, a: Operand, b: Operand, sign: str) -> str:
        # A product with a power of two is the usual address arithmetic: a shift is far cheaper.
        if isinstance(b, Immediate) and 0 < b.bits < 1 << 31 and b.bits & (b.bits - 1) == 0:
            return f"shl_b64(widen_{sign}({self.b32(a)}), all64({b.bits.bit_length() - 1}))"
        return f"mul_wide_{sign}32({self.b32(a)}, {self.b32(b)})"

    def _op_mad(self, i: Instruction) -> str:
        if i.type in FLOATS:
            return self._op_fma(i)
        if "sat" in i.modifiers:
            raise self.unsupported()
        bits = TYPE_BYTES[i.type] * 8
        wide = "wide" in i.modifiers
        total = bits * 2 if wide else bits
        product, c = self._product(i), self.any(i.operands[3], total)
        text = f"add_b64({product}, {c})" if total == 64 else f"add_b32({product}, {c})"
        return f"low16({text})" if total == 16 else text

    def _op_mul24(self, i: Instruction) -> str:
        if "hi" in i.modifiers:
            raise self.unsupported()
        a, b = (self._low24(operand, i.type == "s32") for operand in i.operands[1:3])
        return f"mul_b32({a}, {b})"

    def _low24(self, operand: Operand, signed: bool) -> str:
        text = self.b32(operand)
        return f"shr_s32(shl_b32({text}, all32(8)), all32(8))" if signed else f"and_b32({text}, all32(0xffffff))"

    def _op_mad24(self, i: Instruction) -> str:
        return f"add_b32({self._op_mul24(i)}, {self.b32(i.operands[3])})"

    def _op_sad(self, i: Instruction) -> str:
        if TYPE_BYTES[i.type] != 4:
            raise self.unsupported()
        a, b, c = (self.b32(operand) for operand in i.operands[1:4])
        sign = i.type[0]
        return f"add_b32({c}, sub_b32(max_{sign}32({a}, {b}), min_{sign}32({a}, {b})))"

    def _op_fma(self, i: Instruction) -> str:
        if i.type in HALVES:
            return self._half(i, "H_FMA")
        rounding, ftz, saturate = self._flags(i)
        if i.type == "f32":
            values = ", ".join(self._f32(operand, ftz) for operand in i.operands[1:4])
            text = f"fma_f32({values})" if rounding == "NEAREST" else f"rounded_fma_f32({rounding}, {values})"
            return self._finish_f32(text, ftz, saturate)
        values = ", ".join(self.b64(operand) for operand in i.operands[1:4])
        return f"fma_f64({values})" if rounding == "NEAREST" else f"rounded_fma_f64({rounding}, {values})"

    def _op_div(self, i: Instruction) -> str:
        kind, bits = i.type, TYPE_BYTES[i.type] * 8
        if kind == "f32" and not {"approx", "full"}.isdisjoint(i.modifiers):
            _, ftz, saturate = self._flags(i)
            a, b = (self._f32(operand, ftz) for operand in i.operands[1:3])
            full = "true" if "full" in i.modifiers else "false"
            return self._finish_f32(f"approximate_div_f32({a}, {b}, {full})", ftz, saturate)
        if kind in FLOATS:
            return self._arithmetic(i, "div")
        return self._divided(i, "div", kind, bits)

    def _op_rem(self, i: Instruction) -> str:
        return self._divided(i, "rem", i.type, TYPE_BYTES[i.type] * 8)

    def _divided(self, i: Instruction, name: str, kind: str, bits: int) -> str:
        a, b = (self.any(operand, bits) for operand in i.operands[1:3])
        if bits == 16:
            return f"low16({name}_{kind[0]}32({self.signed(a, kind)}, {self.signed(b, kind)}))"
        return f"{name}_{kind}({a}, {b})"

    def _op_neg(self, i: Instruction) -> str:
        return self._sign_operation(i, "neg", "xor_b32", 0x8000, 0x80008000)

    def _op_abs(self, i: Instruction) -> str:
        return self._sign_operation(i, "abs", "and_b32", 0x7FFF, 0x7FFF7FFF)

    def _sign_operation(self, i: Instruction, name: str, narrow: str, half: int, pair: int) -> str:
        kind, bits = i.type, TYPE_BYTES[i.type] * 8
        a = self.any(i.operands[1], bits)
        if kind in HALVES:
            return f"{narrow}({a}, all32({pair if kind.endswith('x2') else half}u))"
        if kind == "f32":
            _, ftz, _ = self._flags(i)
            return self._finish_f32(f"{name}_f32({a})", ftz, False)
        if kind == "f64":
            return f"{name}_f64({a})"
        if bits == 16:
            return f"low16({name}_b32({self.signed(a, kind)}))"
        return f"{name}_b{bits}({a})"

    def _op_min(self, i: Instruction) -> str:
        return self._extreme(i, "min")

    def _op_max(self, i: Instruction) -> str:
        return self._extreme(i, "max")

    def _extreme(self, i: Instruction, name: str) -> str:
        kind, bits = i.type, TYPE_BYTES[i.type] * 8
        if {"xorsign", "abs"} & set(i.modifiers) and (kind != "f32" or not {"xorsign", "abs"} <= set(i.modifiers)):
            raise self.unsupported()
        if kind in HALVES:
            return self._half(i, f"H_{name.upper()}")
        if {"NaN", "relu"} & set(i.modifiers) and (kind != "f32" or "relu" in i.modifiers):
            raise self.unsupported()
        if kind == "f32":
            _, ftz, _ = self._flags(i)
            a, b = (self._f32(operand, ftz) for operand in i.operands[1:3])
            x, y = (f"abs_f32({a})", f"abs_f32({b})") if "xorsign" in i.modifiers else (a, b)
            text = f"{name}_f32({x}, {y})"
            if "xorsign" in i.modifiers:
                text = f"or_b32({text}, and_b32(xor_b32({a}, {b}), all32(0x80000000u)))"
            return f"pick(unordered_f32({a}, {b}), all32(0x7fffffff), {text})" if "NaN" in i.modifiers else text
        a, b = (self.any(operand, bits) for operand in i.operands[1:3])
        if kind == "f64":
            return f"{name}_f64({a}, {b})"
        if bits == 16:
            return f"low16({name}_{kind[0]}32({self.signed(a, kind)}, {self.signed(b, kind)}))"
        return f"{name}_{'s' if kind[0] == 's' else 'u'}{bits}({a}, {b})"

    # Functions

    def _function(self, i: Instruction, name: str) -> str:
        rounding, ftz, _ = self._flags(i)
        if i.type == "f32":
            kind = "approximate" if "approx" in i.modifiers else "unary"
            text = f"{kind}_f32({name}, {self._f32(i.operands[1], ftz)})"
            if rounding != "NEAREST" and name == "SQRT":
                text = f"rounded_sqrt_f32({rounding}, {self._f32(i.operands[1], ftz)})"
            elif rounding != "NEAREST" and name == "RCP":
                text = f"rounded_f32(DIV, {rounding}, all32(0x3f800000), {self._f32(i.operands[1], ftz)})"
            elif name == "RCP" and kind == "unary":
                text = f"div_f32(all32(0x3f800000), {self._f32(i.operands[1], ftz)})"
            return self._finish_f32(text, ftz, False)
        if i.type == "f64" and name in ("SQRT", "RSQRT", "RCP"):
            if rounding != "NEAREST" and name == "SQRT":
                return f"rounded_sqrt_f64({rounding}, {self.b64(i.operands[1])})"
            if rounding != "NEAREST":
                return f"rounded_f64(DIV, {rounding}, all64(0x3ff0000000000000ull), {self.b64(i.operands[1])})"
            if "approx" not in i.modifiers:
                return f"unary_f64({name}, {self.b64(i.operands[1])})"
            if name != "SQRT" and "ftz" in i.modifiers:
                return f"gross_f64({name}, {self.b64(i.operands[1])})"
            if name == "RSQRT":
                return f"approximate_rsqrt_f64({self.b64(i.operands[1])})"
        if i.type in HALVES and name in ("EX2", "TANH"):
            return self._half(i, f"H_{name}")
        raise self.unsupported()

    def _op_sqrt(self, i: Instruction) -> str:
        return self._function(i, "SQRT")

    def _op_rsqrt(self, i: Instruction) -> str:
        return self._function(i, "RSQRT")

    def _op_rcp(self, i: Instruction) -> str:
        return self._function(i, "RCP")

    def _op_sin(self, i: Instruction) -> str:
        return self._function(i, "SIN")

    def _op_cos(self, i: Instruction) -> str:
        return self._function(i, "COS")

    def _op_lg2(self, i: Instruction) -> str:
        return self._function(i, "LG2")

    def _op_ex2(self, i: Instruction) -> str:
        return self._function(i, "EX2")

    def _op_tanh(self, i: Instruction) -> str:
        return self._function(i, "TANH")

    def _op_copysign(self, i: Instruction) -> str:
        bits = TYPE_BYTES[i.type] * 8
        a, b = (self.any(operand, bits) for operand in i.operands[1:3])
        top = f"all{bits}({1 << (bits - 1)}ull)"
        return f"or_b{bits}(and_b{bits}({a}, {top}), abs_f{bits}({b}))"
