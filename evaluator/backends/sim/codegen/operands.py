"""Operands of PTX instructions as C++ expressions on packs of lanes."""

from collections.abc import Callable

from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.ptx.model import (
    TYPE_BYTES,
    Immediate,
    Instruction,
    Negated,
    Operand,
    Pair,
    Register,
    Special,
    Symbol,
)

ROUNDINGS = {
    "rn": "NEAREST", "rz": "TO_ZERO", "rm": "DOWN", "rp": "UP",
    "rni": "NEAREST", "rzi": "TO_ZERO", "rmi": "DOWN", "rpi": "UP",
}  # fmt: skip
FLOATS = {"f32", "f64"}
HALVES = {"f16": "F16", "f16x2": "F16", "bf16": "BF16", "bf16x2": "BF16"}
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
    "%envreg1": "all32((u32)(LAUNCH.workspace >> 32))", "%envreg2": "all32((u32)LAUNCH.workspace)",
    "%dynamic_smem_size": "all32(LAUNCH.dynamic_bytes)", "%total_smem_size": "all32(LAUNCH.shared_bytes)",
}  # fmt: skip
_SPECIALS_64 = {
    "%clock64": "pack64(special_clock(w, 0), special_clock(w, 1))",
    "%globaltimer": "pack64(special_clock(w, 0), special_clock(w, 1))",
    "%gridid": "all64(LAUNCH.grid_id)",
}


class Operands:
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

    def unsupported(self, why: str = "") -> UnsupportedError:
        """The current instruction cannot be run."""
        return UnsupportedError(self.instruction.text + (f" ({why})" if why else ""), self.instruction.line or None)

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
                raise UnsupportedError(name, self.instruction.line or None)
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
        function = "half2_operation" if kind.endswith("x2") else "half_operation"
        values = [self.b32(operand) for operand in i.operands[1:]]
        text = f"{function}({HALVES[kind]}, {operation}, {', '.join([*values, *['all32(0)'] * (3 - len(values))])})"
        if "NaN" in i.modifiers:
            text = self.by_half(kind, "half_or_nan", text, *values)
        for limit in {"relu", "sat"} & set(i.modifiers):
            text = self.by_half(kind, f"half_{limit}", text)
        return text

    def by_half(self, kind: str, function: str, *values: str) -> str:
        """`function(format, …)` of 16-bit values, or of both halves of packed ones."""
        form = HALVES[kind]
        if not kind.endswith("x2"):
            return f"{function}({form}, {', '.join(values)})"
        halves = (f"{function}({form}, {', '.join(f'{side}({v})' for v in values)})" for side in ("low16", "high16"))
        return f"pair16({', '.join(halves)})"

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


def pair(operand: Operand) -> tuple[Operand, Operand | None]:
    """`d|p` as its two sides."""
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)
