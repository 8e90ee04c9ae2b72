"""PTX text to functions of typed instructions (PTX ISA 9.0, sections 4 to 6 and 10 to 11).

PTX may hold whatever a submission's inline assembly says, so the reader is strict: what it does not know is
`UnsupportedError`, and nothing of the text but numbers ever reaches the C++ compiler (names are replaced by indexes).
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import replace

from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.ptx.model import (
    TYPE_BYTES,
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    Part,
    Prototype,
    Register,
    Relocation,
    Special,
    Symbol,
    Variable,
    Vector,
)
from evaluator.backends.sim.ptx.tokens import main_file, ptx_tokens

_SELECTOR = re.compile(r"\.(b[0-7]{1,4}|h[0-3]{1,2})")
_BYTE_MASKS = {0xFF << 8 * byte: byte for byte in range(8)}

MAX_LINE = (1 << 31) - 1
"""The largest line number that C++ knows ([cpp.line])."""
_MAX_REGISTERS = 1_000_000
_MAX_DEPTH = 50
_MAX_VARIABLE_BYTES = 4 << 30
"""Far below the distance of two variables in the simulator's address space."""


def parse_ptx(text: str) -> Module:
    """Read a PTX module. Raises UnsupportedError, naming what is not understood."""
    return _Parser(text).module()


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = list(ptx_tokens(text))
        self.index = 0
        self.result = Module()
        self.line = 0
        self.from_header = False
        self.scopes: list[dict[str, str]] = []
        self.serial = 0
        self.depth = 0
        self.main_file = main_file(text)

    # Words

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)].text

    def kind(self) -> str:
        return self.tokens[self.index].kind

    def take(self) -> str:
        token = self.tokens[self.index]
        if token.kind == "end":
            raise UnsupportedError("PTX that ends in the middle")
        self.index += 1
        return token.text

    def accept(self, text: str) -> bool:
        if self.peek() == text and self.kind() != "string":
            self.index += 1
            return True
        return False

    def expect(self, text: str) -> None:
        found = self.take()
        if found != text:
            raise UnsupportedError(f"PTX {found!r} where {text!r} was expected", self.line or None)

    def number(self) -> int:
        sign = -1 if self.accept("-") else 1
        text = self.take().rstrip("U")
        try:
            value = int(text, 0 if not text.startswith("0") or len(text) < 2 or not text[1].isdigit() else 8)
        except ValueError:
            raise UnsupportedError(f"PTX {text[:40]!r} where a number was expected", self.line or None) from None
        if value >> 64:
            raise UnsupportedError("a number of more than 64 bits", self.line or None)
        return sign * value

    def name(self) -> str:
        if self.kind() != "name":
            raise UnsupportedError(f"PTX {self.peek()[:40]!r} where a name was expected", self.line or None)
        return self.take()

    def deeper(self) -> None:
        """Count one more level of brackets; the caller counts it off again."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise UnsupportedError(f"brackets more than {_MAX_DEPTH} deep", self.line or None)

    # Module level

    def module(self) -> Module:
        while self.kind() != "end":
            word = self.take()
            if word in (".version", ".target"):
                self._skip_list()
            elif word == ".address_size":
                if self.number() != 64:
                    raise UnsupportedError(".address_size other than 64")
            elif word == ".file":
                self._file()
            elif word == ".section":
                self._skip_section()
            elif word in (
                ".visible",
                ".extern",
                ".weak",
                ".common",
                ".entry",
                ".func",
                ".global",
                ".const",
                ".shared",
            ):
                self.index -= 1
                self._linked()
            elif word == ".alias":
                raise UnsupportedError(".alias")
            elif word == ".pragma":
                while self.take() != ";":
                    pass
            elif word != ";":
                raise UnsupportedError(f"PTX {word!r}")
        return self.result

    def _skip_list(self) -> None:
        self.take()
        while self.accept(","):
            self.take()

    def _file(self) -> None:
        self.number()
        self.take()
        while self.accept(","):
            self.number()

    def _skip_section(self) -> None:
        self.take()
        self.expect("{")
        while self.take() != "}":
            pass

    def _linked(self) -> None:
        external = False
        while self.peek() in (".visible", ".extern", ".weak", ".common"):
            external = self.take() == ".extern" or external
        if self.peek() in (".entry", ".func"):
            self._function()
            return
        variable = self._variable(external)
        self.result.variables[variable.name] = variable
        self.expect(";")

    def _variable(self, external: bool = False) -> Variable:
        """`.global .align 4 .b8 name[64] = {…}`, up to but without the semicolon."""
        space = self.take().lstrip(".")
        align = 0
        kind = ""
        lanes = 1
        while self.peek().startswith("."):
            word = self.take().lstrip(".")
            if word == "align":
                align = self.number()
            elif word in TYPE_BYTES:
                kind = word
            elif word in ("v2", "v4"):
                lanes = int(word[1])
            elif word in ("ptr", "attribute", "managed", "unified"):
                if word == "attribute":
                    raise UnsupportedError("managed variables")
                self._pointer_attribute()
            elif word in ("texref", "samplerref", "surfref"):
                raise UnsupportedError(f".{word}", self.line or None)
            elif word not in ("global", "const", "shared", "local", "param"):
                raise UnsupportedError(f"PTX .{word} in a declaration", self.line or None)
        name = self.name()
        size = lanes * TYPE_BYTES.get(kind, 0)
        if size == 0:
            raise UnsupportedError(f"a variable of type {kind or 'unknown'}", self.line or None)
        align = align or size
        while self.accept("["):
            size *= 0 if self.peek() == "]" else self.number()
            self.expect("]")
        if not 0 <= size <= _MAX_VARIABLE_BYTES:
            raise UnsupportedError(f"a variable of {size} bytes", self.line or None)
        if align not in (1, 2, 4, 8, 16, 32, 64, 128, 256):
            raise UnsupportedError(f"an alignment of {align}", self.line or None)
        initial = tuple(self._initial()) if self.accept("=") else ()
        return Variable(name, space, kind, size, align, initial, external)

    def _pointer_attribute(self) -> None:
        """What follows `.ptr`, an alignment too, is said of what is pointed to (PTX ISA, the parameter attribute)."""
        while self.peek() in (".global", ".const", ".shared", ".local", ".param"):
            self.take()
        if self.accept(".align"):
            self.number()

    def _initial(self) -> Iterator[int | Symbol | Relocation]:
        if self.accept("{"):
            self.deeper()
            while not self.accept("}"):
                yield from self._initial()
                self.accept(",")
            self.depth -= 1
            return
        if self.kind() == "float":
            value = self._literal()
            yield value.bits
        elif self.kind() == "number" or self.peek() == "-":
            value_or_mask = self.number()
            # `0xFF00(name)` is one byte of an address, for what is not aligned.
            if self.accept("("):
                if value_or_mask not in _BYTE_MASKS:
                    raise UnsupportedError("an initial value of other than one byte of an address")
                yield replace(self._relocation(), byte=_BYTE_MASKS[value_or_mask])
                self.expect(")")
            else:
                yield value_or_mask
        elif self.kind() == "name":
            found = self._relocation()
            yield found if found.offset else Symbol(found.name)
        else:
            raise UnsupportedError(f"an initial value {self.peek()!r}")

    def _relocation(self) -> Relocation:
        """`name`, `generic(name)` or `generic(name)+8`."""
        name = self.name()
        if name == "generic" and self.accept("("):
            name = self.name()
            self.expect(")")
        return Relocation(name, self._offset())

    def _offset(self) -> int:
        """`+8-4`, which may be nothing."""
        offset = 0
        while self.peek() in ("+", "-"):
            sign = 1 if self.take() == "+" else -1
            offset += sign * self.number()
        if not -(1 << 63) <= offset < 1 << 63:
            raise UnsupportedError("an offset of more than 64 bits", self.line or None)
        return offset

    # Functions

    def _function(self) -> None:
        is_entry = self.take() == ".entry"
        returns = self._parameters() if self.peek() == "(" else []
        name = self.name()
        parameters = self._parameters() if self.peek() == "(" else []
        known = self.result.functions.get(name)
        function = Function(name, is_entry, parameters, returns)
        while self.peek().startswith(".") and self.kind() == "name":
            if self.take() in (".noreturn",):
                continue
            while self.kind() == "number" or self.peek() == ",":
                self.take()
        if self.accept(";"):
            self.result.functions.setdefault(name, function)
            return
        if known is not None and known.defined:
            raise UnsupportedError(f"two bodies for {name}")
        function.defined = True
        self.result.functions[name] = function
        self.expect("{")
        self.scopes = [{}]
        self._block(function)

    def _parameters(self) -> list[Variable]:
        self.expect("(")
        found = []
        while not self.accept(")"):
            if self.peek() == ".reg":
                raise UnsupportedError("parameters in registers")
            found.append(self._variable())
            self.accept(",")
        return found

    def _unique(self, name: str) -> str:
        """The unique name of a new declaration in the innermost scope."""
        self.serial += 1
        unique = name if len(self.scopes) == 1 else f"{name}#{self.serial}"
        self.scopes[-1][name] = unique
        return unique

    def _resolve(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def _block(self, function: Function) -> None:
        while True:
            if self.accept("{"):
                self.deeper()
                self.scopes.append({})
                self._declare_labels()
                self._block(function)
                self.scopes.pop()
                self.depth -= 1
                continue
            if self.accept("}"):
                return
            if self.accept(";"):
                continue
            self._statement(function)

    def _declare_labels(self) -> None:
        """Find an inner scope's labels before it is read: branches go forward too, and other scopes repeat names."""
        depth, at = 0, self.index
        while depth >= 0 and self.tokens[at].kind != "end":
            token, before = self.tokens[at], self.tokens[at - 1].text
            depth += {"{": 1, "}": -1}.get(token.text, 0)
            is_label = token.kind == "name" and self.tokens[at + 1].text == ":"
            if depth == 0 and is_label and before in (";", "{", "}", ":"):
                self._unique(token.text)
            at += 1

    def _statement(self, function: Function) -> None:
        word = self.peek()
        if word == ".loc":
            self._location()
        elif word == ".reg":
            self._registers(function)
        elif word in (".local", ".shared", ".param"):
            variable = self._variable()
            self.expect(";")
            unique = self._unique(variable.name)
            function.variables[unique] = replace(variable, name=unique)
        elif word == ".pragma":
            while self.take() != ";":
                pass
        elif word.startswith(".") and self.kind() == "name":
            raise UnsupportedError(f"PTX directive {word}", self.line or None)
        elif self.kind() == "name" and self.peek(1) == ":":
            self._label(function)
        else:
            function.body.append(self._instruction(function))

    def _location(self) -> None:
        """`.loc file line column[, function_name label, inlined_at file line column]`: the submission's line."""
        self.take()
        file, line = self.take(), self.number()
        self.number()
        while self.accept(","):
            self.take()
            if self.peek() in ("file",) or self.kind() == "number":
                inlined_file, inlined_line = self.take(), self.number()
                self.number()
                if file != self.main_file and inlined_file == self.main_file:
                    file, line = inlined_file, inlined_line
            else:
                self.take()
                if self.peek() in ("+", "-"):
                    self.take()
                    self.take()
        self.from_header = file != self.main_file
        if file == self.main_file:
            # `#line` and inline assembly may claim any number; one that is no line number says nothing.
            self.line = line if 0 <= line <= MAX_LINE else 0

    def _registers(self, function: Function) -> None:
        self.take()
        kind = self.take().lstrip(".")
        if kind in ("v2", "v4") or kind not in TYPE_BYTES:
            raise UnsupportedError(f"registers of type {kind}", self.line or None)
        while True:
            name = self.name()
            if self.accept("<"):
                count = self.number()
                self.expect(">")
                if count + len(function.registers) > _MAX_REGISTERS:
                    raise UnsupportedError(f"more than {_MAX_REGISTERS} registers", self.line or None)
                names = [f"{name}{index}" for index in range(count)]
            else:
                names = [name]
            for each in names:
                function.registers[self._unique(each)] = kind
            if not self.accept(","):
                break
        self.expect(";")

    def _label(self, function: Function) -> None:
        name = self._resolve(self.take())
        self.expect(":")
        if self.accept(".branchtargets"):
            function.branch_targets[name] = tuple(map(self._resolve, self._names()))
        elif self.accept(".calltargets"):
            function.call_targets[name] = self._names()
        elif self.accept(".callprototype"):
            function.prototypes[name] = self._prototype()
        else:
            function.body.append(Label(name))

    def _names(self) -> tuple[str, ...]:
        names = [self.name()]
        while self.accept(","):
            names.append(self.name())
        self.expect(";")
        return tuple(names)

    def _prototype(self) -> Prototype:
        """`(.param .b32 _) _ (.param .b64 _, .param .b32 _);`, of which all may be left out but the middle name."""
        returns = self._parameters() if self.peek() == "(" else []
        self.name()
        parameters = self._parameters() if self.peek() == "(" else []
        if self.accept(".noreturn"):
            pass
        self.expect(";")
        return Prototype(tuple(returns), tuple(parameters))

    def _instruction(self, function: Function) -> Instruction:
        guard: Register | None = None
        negated = False
        if self.accept("@"):
            negated = self.accept("!")
            guard = Register(self._resolve(self.take()))
            if function.registers.get(guard.name) != "pred":
                raise UnsupportedError("a guard that is not a predicate", self.line or None)
        word = self.take()
        opcode, *modifiers = word.split(".")
        while self.kind() == "name" and self.peek().startswith(".") and self.peek() != ".":
            modifiers += self.take().lstrip(".").split(".")
        operands: list[Operand] = []
        if self.peek() != ";":
            operands.append(self._operand(function))
            while self.accept(","):
                operands.append(self._operand(function))
        self.expect(";")
        if not re.fullmatch(r"[a-z]\w*", opcode):
            raise UnsupportedError(f"PTX {word!r}", self.line or None)
        return Instruction(opcode, tuple(modifiers), tuple(operands), self.line, guard, negated, self.from_header)

    def _operand(self, function: Function) -> Operand:
        first = self._atom(function)
        if self.accept("|"):
            return Pair(first, self._atom(function))
        return first

    def _atom(self, function: Function) -> Operand:
        if self.accept("["):
            return self._address(function)
        if self.peek() in ("{", "("):
            return self._vector(function)
        if self.accept("!"):
            register = Register(self._resolve(self.take()))
            if function.registers.get(register.name) != "pred":
                raise UnsupportedError("! before what is not a predicate", self.line or None)
            return Negated(register)
        if self.peek() == "-" and self.tokens[self.index + 1].kind == "name":
            self.take()
            operand = self._named(function)
            part = operand if isinstance(operand, Part) else Part(operand)
            if not isinstance(part.operand, Register):
                raise UnsupportedError("- before what is neither a number nor a register", self.line or None)
            return replace(part, negative=True)
        if self.kind() == "float" or (self.peek() == "-" and self.tokens[self.index + 1].kind == "float"):
            return self._literal()
        if self.kind() == "number" or self.peek() in ("-", "~"):
            inverted = self.accept("~")
            value = self.number()
            return Immediate((~value if inverted else value) & (1 << 64) - 1)
        if self.kind() != "name":
            raise UnsupportedError(f"PTX operand {self.peek()!r}", self.line or None)
        return self._named(function)

    def _named(self, function: Function) -> Operand:
        name = self.take()
        resolved = self._resolve(name)
        if resolved in function.registers:
            register = Register(resolved)
            return Part(register, self.take()[1:]) if _SELECTOR.fullmatch(self.peek()) else register
        if name == "_":
            return Symbol("_")
        if name == "WARP_SZ":
            return Immediate(32)
        if name.startswith("%"):
            while self.peek().startswith(".") and self.kind() == "name":
                name += self.take()
            return Special(name)
        return Symbol(resolved)

    def _vector(self, function: Function) -> Vector:
        closing = "}" if self.take() == "{" else ")"
        parts = []
        self.deeper()
        while not self.accept(closing):
            parts.append(self._operand(function))
            self.accept(",")
        self.depth -= 1
        return Vector(tuple(parts))

    def _address(self, function: Function) -> Address:
        self.deeper()
        base = self._atom(function)
        self.depth -= 1
        if not isinstance(base, Register | Symbol | Immediate):
            raise UnsupportedError("an address that is not a register, a symbol or a number", self.line or None)
        offset = self._offset()
        if self.peek() == ",":
            raise UnsupportedError("texture or tensor addresses", self.line or None)
        self.expect("]")
        return Address(base, offset)

    def _literal(self) -> Immediate:
        negative = self.accept("-")
        text = self.take()
        if text[:2] in ("0f", "0F"):
            return Immediate(int(text[2:], 16) ^ (0x80000000 if negative else 0), 4)
        if text[:2] in ("0d", "0D"):
            return Immediate(int(text[2:], 16) ^ (1 << 63 if negative else 0), 8)
        bits = int.from_bytes(struct.pack("<d", float(text)), "little")
        return Immediate(bits ^ (1 << 63 if negative else 0), 8)
