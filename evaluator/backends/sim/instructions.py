"""Each PTX instruction as C++ on packs of lanes (PTX ISA 9.0, section 9.7).

What is not here is `Unsupported` by name.
"""

from collections.abc import Callable

from evaluator.backends.backend import Unsupported
from evaluator.backends.sim.ptx import (
    TYPE_BYTES,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Pair,
    Register,
    Special,
    Symbol,
    Vector,
)

ROUNDINGS = {
    "rn": "NEAREST", "rz": "TO_ZERO", "rm": "DOWN", "rp": "UP",
    "rni": "NEAREST", "rzi": "TO_ZERO", "rmi": "DOWN", "rpi": "UP",
}  # fmt: skip
_FLOATS = {"f32", "f64"}
_HALVES = {"f16": "F16", "f16x2": "F16", "bf16": "BF16", "bf16x2": "BF16"}
_SPECIALS = {
    "%tid.x": "w.tid[0]", "%tid.y": "w.tid[1]", "%tid.z": "w.tid[2]",
    "%ntid.x": "all32(LAUNCH.block[0])", "%ntid.y": "all32(LAUNCH.block[1])", "%ntid.z": "all32(LAUNCH.block[2])",
    "%ctaid.x": "all32(w.block->id[0])", "%ctaid.y": "all32(w.block->id[1])", "%ctaid.z": "all32(w.block->id[2])",
    "%nctaid.x": "all32(LAUNCH.grid[0])", "%nctaid.y": "all32(LAUNCH.grid[1])", "%nctaid.z": "all32(LAUNCH.grid[2])",
    "%laneid": "lane_ids()", "%warpid": "all32(w.index)", "%nwarpid": "all32(w.block->warp_count)",
    "%smid": "all32(0)", "%nsmid": "all32(1)", "%clock": "special_clock(w, 0)", "%clock_hi": "special_clock(w, 1)",
    "%lanemask_eq": "shl_b32(all32(1), lane_ids())",
    "%lanemask_lt": "sub_b32(shl_b32(all32(1), lane_ids()), all32(1))",
    "%lanemask_le": "sub_b32(shl_b32(all32(2), lane_ids()), all32(1))",
    "%lanemask_ge": "neg_b32(shl_b32(all32(1), lane_ids()))",
    "%lanemask_gt": "neg_b32(shl_b32(all32(2), lane_ids()))",
    "%dynamic_smem_size": "all32(LAUNCH.dynamic_bytes)", "%total_smem_size": "all32(LAUNCH.shared_bytes)",
}  # fmt: skip
_SPECIALS_64 = {
    "%clock64": "pack64(special_clock(w, 0), special_clock(w, 1))",
    "%globaltimer": "pack64(special_clock(w, 0), special_clock(w, 1))",
    "%gridid": "all64(LAUNCH.grid_id)",
}


class Emitter:
    """Turns operands into C++ expressions. `address_of` and `register` come from the function being translated."""

    def __init__(
        self,
        registers: dict[str, tuple[str, int]],
        address_of: Callable[[str], tuple[str, int]],
    ) -> None:
        self.registers = registers
        """PTX register to (C++ name, width in bits; 1 for a predicate)."""
        self.address_of = address_of
        """Symbol to (C++ expression of type U64, or U32 when 32)."""
        self.instruction = Instruction("", (), (), 0)

    def unsupported(self, why: str = "") -> Unsupported:
        """The current instruction cannot be run."""
        return Unsupported(self.instruction.text + (f" ({why})" if why else ""), self.instruction.line or None)

    # Operands

    def width(self, operand: Operand) -> int:
        """Bits of a register operand."""
        if isinstance(operand, Register) and operand.name in self.registers:
            return self.registers[operand.name][1]
        return 0

    def b32(self, operand: Operand) -> str:
        """A U32 expression."""
        match operand:
            case Register(name):
                text, width = self.registers[name]
                if width == 1:
                    raise self.unsupported("a predicate as a number")
                return f"narrow({text})" if width == 64 else text
            case Immediate(value, size):
                if size == 8:
                    raise self.unsupported("a double constant")
                return f"all32({value & 0xFFFFFFFF}u)"
            case Special(name):
                if name in _SPECIALS:
                    return _SPECIALS[name]
                if name in _SPECIALS_64:
                    return f"narrow({_SPECIALS_64[name]})"
                raise Unsupported(name, self.instruction.line or None)
            case Symbol(name):
                text, width = self.address_of(name)
                return text if width == 32 else f"narrow({text})"
        raise self.unsupported("an operand of an unexpected kind")

    def b64(self, operand: Operand) -> str:
        """A U64 expression."""
        match operand:
            case Register(name):
                text, width = self.registers[name]
                if width == 1:
                    raise self.unsupported("a predicate as a number")
                return text if width == 64 else f"widen_u({text})"
            case Immediate(value, _):
                return f"all64({value}ull)"
            case Special(name):
                return _SPECIALS_64[name] if name in _SPECIALS_64 else f"widen_u({self.b32(operand)})"
            case Symbol(name):
                text, width = self.address_of(name)
                return text if width == 64 else f"widen_u({text})"
        raise self.unsupported("an operand of an unexpected kind")

    def any(self, operand: Operand, bits: int) -> str:
        """A U32 or U64 expression by width. Nothing stands above the bits of a narrow one: -1 is 0xffff in 16."""
        if isinstance(operand, Immediate) and bits < 32:
            return f"all32({operand.bits & (1 << bits) - 1}u)"
        return self.b64(operand) if bits == 64 else self.b32(operand)

    def predicate(self, operand: Operand) -> str:
        """A u32 expression with one bit a lane."""
        match operand:
            case Register(name) if self.registers[name][1] == 1:
                return self.registers[name][0]
            case Negated(register) if self.registers[register.name][1] == 1:
                return f"~{self.registers[register.name][0]}"
            case Immediate(value, 0):
                return "~0u" if value else "0u"
        raise self.unsupported("something else where a predicate belongs")

    def signed(self, text: str, kind: str) -> str:
        """Sign-extend a narrow U32 expression as its type says."""
        return {"s8": f"extend_s8({text})", "s16": f"extend_s16({text})"}.get(kind, text)

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
        if i.opcode != "cvt" and len(i.operands) != _OPERANDS.get(i.opcode, 3):
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

    def _flags(self, i: Instruction) -> tuple[str, bool, bool]:
        rounding = next((ROUNDINGS[m] for m in i.modifiers if m in ROUNDINGS), "NEAREST")
        return rounding, "ftz" in i.modifiers, "sat" in i.modifiers

    def _f32(self, operand: Operand, ftz: bool) -> str:
        text = self.b32(operand)
        return f"flush_f32({text})" if ftz else text

    def _finish_f32(self, text: str, ftz: bool, saturate: bool) -> str:
        text = f"flush_f32({text})" if ftz else text
        return f"saturate_f32({text})" if saturate else text

    def _half(self, i: Instruction, operation: str) -> str:
        kind = i.type
        if set(i.modifiers) & {"relu", "sat"}:
            raise self.unsupported()
        function = "half2_operation" if kind.endswith("x2") else "half_operation"
        values = [self.b32(operand) for operand in i.operands[1:]]
        values += ["all32(0)"] * (3 - len(values))
        return f"{function}({_HALVES[kind]}, {operation}, {', '.join(values)})"

    def _arithmetic(self, i: Instruction, name: str) -> str:
        """add, sub and mul of floats."""
        rounding, ftz, saturate = self._flags(i)
        if i.type == "f32":
            a, b = (self._f32(operand, ftz) for operand in i.operands[1:3])
            text = f"{name}_f32({a}, {b})"
            if rounding != "NEAREST":
                text = f"rounded_f32({name.upper()}, {rounding}, {a}, {b})"
            return self._finish_f32(text, ftz, saturate)
        a, b = (self.b64(operand) for operand in i.operands[1:3])
        if rounding != "NEAREST":
            return f"rounded_f64({name.upper()}, {rounding}, {a}, {b})"
        return f"{name}_f64({a}, {b})"

    def _integer(self, i: Instruction, name: str) -> str:
        """A two-operand operation that is the same for signed and unsigned, cut to its width."""
        bits = TYPE_BYTES[i.type] * 8
        a, b = (self.any(operand, bits) for operand in i.operands[1:3])
        if bits == 64:
            return f"{name}_b64({a}, {b})"
        text = f"{name}_b32({a}, {b})"
        return f"low16({text})" if bits == 16 else text

    def _op_add(self, i: Instruction) -> str:
        if i.type in _FLOATS:
            return self._arithmetic(i, "add")
        if i.type in _HALVES:
            return self._half(i, "H_ADD")
        if "sat" in i.modifiers:
            if i.type != "s32":
                raise self.unsupported()
            return f"add_saturated_s32({self.b32(i.operands[1])}, {self.b32(i.operands[2])})"
        if i.type in ("u16x2", "s16x2"):
            raise self.unsupported()
        return self._integer(i, "add")

    def _op_sub(self, i: Instruction) -> str:
        if i.type in _FLOATS:
            return self._arithmetic(i, "sub")
        if i.type in _HALVES:
            return self._half(i, "H_SUB")
        if "sat" in i.modifiers:
            raise self.unsupported()
        return self._integer(i, "sub")

    def _op_mul(self, i: Instruction) -> str:
        if i.type in _FLOATS:
            return self._arithmetic(i, "mul")
        if i.type in _HALVES:
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
        if i.type in _FLOATS:
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
        if i.type in _HALVES:
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
        if kind in _FLOATS:
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
        if kind in _HALVES:
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
        if set(i.modifiers) & {"NaN", "xorsign", "relu"} or len(i.operands) != 3:
            raise self.unsupported()
        if kind in _HALVES:
            return self._half(i, f"H_{name.upper()}")
        if kind == "f32":
            _, ftz, _ = self._flags(i)
            a, b = (self._f32(operand, ftz) for operand in i.operands[1:3])
            return f"{name}_f32({a}, {b})"
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
            text = f"unary_f32({name}, {self._f32(i.operands[1], ftz)})"
            if rounding != "NEAREST" and name == "SQRT":
                text = f"rounded_sqrt_f32({rounding}, {self._f32(i.operands[1], ftz)})"
            elif rounding != "NEAREST" and name == "RCP":
                text = f"rounded_f32(DIV, {rounding}, all32(0x3f800000), {self._f32(i.operands[1], ftz)})"
            elif name == "RCP":
                text = f"div_f32(all32(0x3f800000), {self._f32(i.operands[1], ftz)})"
            return self._finish_f32(text, ftz, False)
        if i.type == "f64" and name in ("SQRT", "RSQRT", "RCP"):
            if rounding != "NEAREST" and name == "SQRT":
                return f"rounded_sqrt_f64({rounding}, {self.b64(i.operands[1])})"
            if rounding != "NEAREST":
                return f"rounded_f64(DIV, {rounding}, all64(0x3ff0000000000000ull), {self.b64(i.operands[1])})"
            return f"unary_f64({name}, {self.b64(i.operands[1])})"
        if i.type in _HALVES and name in ("EX2", "TANH"):
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
        if kind in _FLOATS or kind in ("f16", "bf16"):
            return self._float_comparison(i, operator, kind, a, b)
        if kind in _HALVES:
            raise self.unsupported()
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
            x, y = (f"widen_float({_HALVES[kind]}, {self.b32(operand)})" for operand in (a, b))
            kind = "f32"
        elif kind == "f32":
            x, y = (self._f32(operand, "ftz" in i.modifiers) for operand in (a, b))
        else:
            x, y = self.b64(a), self.b64(b)
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
        yes = "0x3f800000u" if types[0] == "f32" else "0xffffffffu"
        if TYPE_BYTES[types[0]] != 4 or types[0].endswith("x2"):
            raise self.unsupported()
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

    # Moves and conversions

    def _op_mov(self, i: Instruction) -> str:
        destination, source = i.operands
        if i.type == "pred":
            return self.predicate(source)
        bits = self.width(destination)
        if isinstance(source, Vector):
            return self._packed(source, bits)
        return self.any(source, bits)

    def _packed(self, source: Vector, bits: int) -> str:
        part = bits // len(source.parts)
        if part not in (16, 32):
            raise self.unsupported()
        values = [self.b32(operand) for operand in source.parts]
        pairs = (
            values if part == 32 else [f"pair16({a}, {b})" for a, b in zip(values[::2], values[1::2], strict=True)]
        )
        return pairs[0] if bits == 32 else f"pack64({pairs[0]}, {pairs[1]})"

    def unpacked(self, source: Operand, count: int, bits: int) -> list[str]:
        """`mov {a, b}, r`: the parts of a register of `bits` bits."""
        part = bits // count
        if bits == 64:
            text = self.b64(source)
            words = [f"narrow({text})", f"high32({text})"]
        else:
            words = [self.b32(source)]
        if part == 32:
            return words
        if part != 16:
            raise self.unsupported()
        return [half for word in words for half in (f"low16({word})", f"high16({word})")]

    def _op_cvta(self, i: Instruction) -> str:
        text = self.b64(i.operands[1])
        if "shared" not in i.modifiers:
            return text
        return f"{'sub' if 'to' in i.modifiers else 'add'}_b64({text}, all64(slot_address(SHARED_SLOT)))"

    def _op_isspacep(self, i: Instruction) -> str:
        a = self.b64(i.operands[1])
        slots = {"shared": "SHARED_SLOT", "local": "LOCAL_SLOT", "param": "PARAMETER_SLOT"}
        space = i.modifiers[0]
        if space in slots:
            return f"in_slot({a}, {slots[space]})"
        if space == "global":
            return f"~(in_slot({a}, SHARED_SLOT) | in_slot({a}, LOCAL_SLOT) | in_slot({a}, PARAMETER_SLOT))"
        raise self.unsupported()

    def _op_activemask(self, i: Instruction) -> str:
        return "all32(m)"

    def _op_szext(self, i: Instruction) -> str:
        raise self.unsupported()

    def _op_cvt(self, i: Instruction) -> str:
        types = [m for m in i.modifiers if m in TYPE_BYTES]
        if "relu" in i.modifiers or len(types) != 2:
            raise self.unsupported()
        target, source = types
        rounding, ftz, saturate = self._flags(i)
        if target in ("f16x2", "bf16x2"):
            high, low = (f"narrow_float({_HALVES[target]}, {rounding}, {self.b32(o)})" for o in i.operands[1:3])
            return f"pair16({low}, {high})"
        if target == "tf32":
            return f"to_tf32({self.b32(i.operands[1])}, {'true' if 'rna' in i.modifiers else 'false'})"
        if source in ("f32", "f64", "f16", "bf16"):
            return self._from_float(i, target, source, rounding, ftz, saturate)
        return self._from_integer(i, target, source, rounding, saturate)

    def _from_float(self, i: Instruction, target: str, source: str, rounding: str, ftz: bool, saturate: bool) -> str:
        operand = i.operands[1]
        integral = bool(set(i.modifiers) & {"rni", "rzi", "rmi", "rpi"})
        if source in ("f16", "bf16"):
            single, double = f"widen_float({_HALVES[source]}, {self.b32(operand)})", ""
        elif source == "f32":
            single, double = self._f32(operand, ftz), ""
        else:
            single, double = "", self.b64(operand)
        if target[0] in "su":
            bits = TYPE_BYTES[target] * 8
            wide = double or f"f64_from_f32({single})"
            signed = str(target[0] == "s").lower()
            text = f"float_to_int({wide}, {rounding}, {bits}, {signed}, {str(source == 'f64').lower()})"
            return self._sized(i, text if bits == 64 else f"narrow({text})", target)
        if integral:
            single = f"round_f32({rounding}, {single})" if single else single
            double = f"round_f64({rounding}, {double})" if double else double
        if target == "f64":
            return double or f"f64_from_f32({single})"
        if target == "f32":
            text = single or f"f32_from_f64({rounding}, {double})"
            return self._finish_f32(text, ftz, saturate)
        if saturate:
            single, double = (f"saturate_f32({single})", "") if single else ("", f"saturate_f64({double})")
        if single:
            return f"narrow_float({_HALVES[target]}, {rounding}, {single})"
        return f"narrow_double({_HALVES[target]}, {rounding}, {double})"

    def _from_integer(self, i: Instruction, target: str, source: str, rounding: str, saturate: bool) -> str:
        source_bits, target_bits = TYPE_BYTES[source] * 8, TYPE_BYTES[target] * 8
        signed = source[0] == "s"
        operand = i.operands[1]
        if source_bits == 64:
            narrow, wide = "", self.b64(operand)
        else:
            narrow = self.b32(operand)
            if source_bits == 8:
                narrow = f"extend_s8({narrow})" if signed else f"low8({narrow})"
            elif source_bits == 16:
                narrow = f"extend_s16({narrow})" if signed else f"low16({narrow})"
            wide = f"widen_{'s' if signed else 'u'}({narrow})"
        if target == "f64":
            return f"f64_from_int({rounding}, {wide}, {str(signed).lower()})"
        if target == "f32":
            text = f"f32_from_int({rounding}, {wide}, {str(signed).lower()})"
            if narrow and rounding == "NEAREST":
                text = f"f32_from_{'s' if signed else 'u'}32({narrow})"
            return self._finish_f32(text, False, saturate)
        if target in _HALVES:
            return (
                f"narrow_double({_HALVES[target]}, {rounding}, f64_from_int(NEAREST, {wide}, {str(signed).lower()}))"
            )
        if saturate:
            wide = self._clamped(wide, signed, target)
            return self._sized(i, wide if target_bits == 64 else f"narrow({wide})", target)
        if target_bits == 64:
            return wide
        return self._sized(i, narrow or f"narrow({wide})", target)

    def _clamped(self, wide: str, signed: bool, target: str) -> str:
        bits = TYPE_BYTES[target] * 8
        top = (1 << (bits - 1)) - 1 if target[0] == "s" else (1 << bits) - 1
        if not signed:
            return f"min_u64({wide}, all64({top}ull))"
        bottom = -(1 << (bits - 1)) if target[0] == "s" else 0
        top = min(top, (1 << 63) - 1)
        return f"max_s64(min_s64({wide}, all64({top}ull)), all64({bottom & (1 << 64) - 1}ull))"

    def _sized(self, i: Instruction, text: str, target: str) -> str:
        """Cut a U32 to the target type and extend it to the register, which may be wider than the type."""
        bits = TYPE_BYTES[target] * 8
        register = self.width(i.operands[0])
        if bits == 64:
            return text
        if bits == 8:
            text = f"extend_s8({text})" if target[0] == "s" else f"low8({text})"
        elif bits == 16:
            text = f"extend_s16({text})" if target[0] == "s" else f"low16({text})"
        if register == 64:
            return f"widen_{'s' if target[0] == 's' else 'u'}({text})"
        return f"low16({text})" if register == 16 else text


COMPARISONS = {
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
}  # fmt: skip
_ROUND = {"rn", "rz", "rm", "rp"}
_INTEGERS = {"u16", "s16", "u32", "s32", "u64", "s64"}
_BITS = {"b16", "b32", "b64"}
_NUMBERS = _INTEGERS | _FLOATS | _HALVES.keys()
_TYPES: dict[str, set[str]] = {
    **dict.fromkeys(("add", "sub", "mul", "min", "max", "neg", "abs"), _NUMBERS),
    **dict.fromkeys(("mad", "div"), _INTEGERS | _FLOATS),
    **dict.fromkeys(("and", "or", "xor", "not"), _BITS | {"pred"}),
    **dict.fromkeys(("popc", "clz", "brev", "bfi"), {"b32", "b64"}),
    **dict.fromkeys(("bfe", "bfind"), {"u32", "s32", "u64", "s64"}),
    **dict.fromkeys(("sqrt", "rsqrt", "rcp", "testp", "copysign"), _FLOATS),
    **dict.fromkeys(("mul24", "mad24", "sad", "dp4a", "dp2a"), {"u32", "s32"}),
    **dict.fromkeys(("shf", "lop3", "prmt"), {"b32"}),
    **dict.fromkeys(("cvta", "isspacep"), {"", "u64"}),
    **dict.fromkeys(("sin", "cos", "lg2"), {"f32"}),
    **dict.fromkeys(("ex2", "tanh"), {"f32"} | _HALVES.keys()),
    "fma": _FLOATS | _HALVES.keys(),
    "rem": _INTEGERS,
    "cnot": _BITS,
    "shl": _BITS,
    "shr": _BITS | _INTEGERS,
    "selp": _BITS | _INTEGERS | _FLOATS,
    "slct": {"s32", "f32"},
    "mov": _BITS | _INTEGERS | _FLOATS | {"pred"},
}
"""The types that an instruction works in (for a conversion or `slct`: the last one)."""
_OPERANDS = {
    **dict.fromkeys(("neg", "abs", "not", "cnot", "popc", "clz", "brev", "bfind", "sqrt", "rsqrt", "rcp"), 2),
    **dict.fromkeys(("sin", "cos", "lg2", "ex2", "tanh", "testp", "cvta", "isspacep", "mov"), 2),
    **dict.fromkeys(("mad", "fma", "mad24", "sad", "dp4a", "dp2a", "shf", "prmt", "bfe", "selp", "slct"), 4),
    **dict.fromkeys(("lop3", "bfi"), 5),
    "activemask": 1,
}
"""Operands with the destination, where they are not three."""
_ALLOWED: dict[str, set[str]] = {
    "add": _ROUND | {"ftz", "sat"},
    "sub": _ROUND | {"ftz", "sat"},
    "mul": _ROUND | {"ftz", "sat", "lo", "hi", "wide"},
    "mad": _ROUND | {"ftz", "sat", "lo", "hi", "wide"},
    "mul24": {"lo", "hi"},
    "mad24": {"lo"},
    "fma": _ROUND | {"ftz", "sat"},
    "div": _ROUND | {"ftz", "approx", "full"},
    "neg": {"ftz"},
    "abs": {"ftz"},
    "min": {"ftz"},
    "max": {"ftz"},
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
    "cvt": _ROUND | {"rni", "rzi", "rmi", "rpi", "rna", "ftz", "sat"},
}


def pair(operand: Operand) -> tuple[Operand, Operand | None]:
    """`d|p` as its two sides."""
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)
