"""Moves and conversions of PTX as C++ (PTX ISA 9.0, section 9.7.9)."""

from dataclasses import replace

from evaluator.backends.sim.codegen.operands import HALVES, Operands
from evaluator.backends.sim.ptx.model import TYPE_BYTES, Instruction, Operand, Vector


class Moves(Operands):
    """Moves, address spaces and conversions."""

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

    def _op_createpolicy(self, i: Instruction) -> str:
        return "all64(0)"  # a hint for the L2 cache, which is not simulated

    def _op_activemask(self, i: Instruction) -> str:
        return "all32(m)" if i.guard is None else "all32(g)"

    def _op_szext(self, i: Instruction) -> str:
        raise self.unsupported()

    def _op_cvt(self, i: Instruction) -> str:
        types = [m for m in i.modifiers if m in TYPE_BYTES]
        if len(types) != 2:
            raise self.unsupported()
        target, source = types
        if "relu" in i.modifiers:
            if target not in HALVES or source != "f32":
                raise self.unsupported()
            plain = replace(i, modifiers=tuple(m for m in i.modifiers if m != "relu"))
            return self.by_half(target, "half_relu", self._op_cvt(plain))
        rounding, ftz, saturate = self._flags(i)
        if target in ("f16x2", "bf16x2"):
            high, low = (f"narrow_float({HALVES[target]}, {rounding}, {self.b32(o)})" for o in i.operands[1:3])
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
            single, double = f"widen_float({HALVES[source]}, {self.b32(operand)})", ""
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
            return f"narrow_float({HALVES[target]}, {rounding}, {single})"
        return f"narrow_double({HALVES[target]}, {rounding}, {double})"

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
        if target in HALVES:
            return (
                f"narrow_double({HALVES[target]}, {rounding}, f64_from_int(NEAREST, {wide}, {str(signed).lower()}))"
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
