"""Memory, atomics, warp-wide operations and calls of PTX as C++ (PTX ISA 9.0, sections 9.7.9 to 9.7.13)."""

from collections.abc import Iterator
from dataclasses import replace

from evaluator.backends.sim.codegen.operands import pair
from evaluator.backends.sim.codegen.scope import FunctionScope, stride_of
from evaluator.backends.sim.ptx.model import TYPE_BYTES, Address, Immediate, Instruction, Operand, Symbol, Vector

_BUILT_IN = ("vprintf", "__assertfail", "malloc", "free")
_ATOMICS = {
    "add": "A_ADD", "min": "A_MIN", "max": "A_MAX", "inc": "A_INC", "dec": "A_DEC",
    "and": "A_AND", "or": "A_OR", "xor": "A_XOR", "exch": "A_EXCH", "cas": "A_CAS",
}  # fmt: skip
_MEMORY_MODIFIERS = {
    "global", "shared", "local", "const", "param", "weak", "relaxed", "acquire", "release", "acq_rel", "volatile",
    "cta", "gpu", "sys", "cluster", "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "v2", "v4", "v8", "noftz", "sc",
    "unified", "entry", "func",
}  # fmt: skip
_FENCED = {"acquire", "release", "acq_rel", "sc"}
_RELAXED = {"volatile", "relaxed", "mmio", "cv", "cg"}
"""`ld.cg` and `ld.cv` pass the first cache by: who asks for that reads what other threads write."""
_SHUFFLES = {"up": "UP_", "down": "DOWN_", "bfly": "BFLY", "idx": "IDX"}


class Effects(FunctionScope):
    """Instructions that reach beyond their own lane's registers: memory, warp-wide operations, calls."""

    # Memory and the rest with side effects

    def _effect(self, i: Instruction) -> Iterator[str]:
        method = getattr(self, f"_do_{i.opcode}", None)
        if method is None:
            raise self.emitter.unsupported()
        yield from method(i)

    def _check_memory(self, i: Instruction) -> None:
        for modifier in i.modifiers:
            if modifier in _MEMORY_MODIFIERS or modifier in TYPE_BYTES:
                continue
            if modifier in _ATOMICS and i.opcode in ("atom", "red"):
                continue
            first, _, rest = modifier.partition("::")
            if first in ("L1", "L2", "shared", "param") and rest not in ("", "cluster"):
                continue
            raise self.emitter.unsupported()

    def _unhinted(self, i: Instruction) -> Instruction:
        """Without the cache policy that `L2::cache_hint` brings as its last operand."""
        return replace(i, operands=i.operands[:-1]) if "L2::cache_hint" in i.modifiers else i

    def _space(self, i: Instruction) -> str:
        for modifier in i.modifiers:
            name = modifier.split("::")[0]
            if name in ("global", "shared", "local", "const", "param"):
                return name
        return "generic"

    def _address(self, i: Instruction, operand: Operand, space: str = "") -> str:
        if not isinstance(operand, Address):
            raise self.emitter.unsupported("no address")
        text = self.emitter.b64(operand.base)
        offset = operand.offset
        if (space or self._space(i)) == "shared":
            return f"add_b64({text}, all64(slot_address(SHARED_SLOT) + {offset}ll))"
        if isinstance(operand.base, Symbol) and operand.base.name in self.shared:
            raise self.emitter.unsupported("a shared variable in another space")
        return f"add_b64({text}, all64((u64){offset}ll))" if offset else text

    def _site(self, i: Instruction) -> str:
        """Its site, which says whether the access synchronises (PTX ISA 9.0, section 8.4, strong operations)."""
        if not _FENCED.isdisjoint(i.modifiers):
            return self.module.site(i.line, "FENCED")
        return self.module.site(i.line, "PLAIN" if _RELAXED.isdisjoint(i.modifiers) else "RELAXED")

    def _shape(self, i: Instruction) -> tuple[int, int]:
        """Bytes of an element, and elements."""
        size = TYPE_BYTES[i.type]
        parts = next((int(m[1]) for m in i.modifiers if m in ("v2", "v4", "v8")), 1)
        if size == 16 or (parts == 8 and size != 4):
            raise self.emitter.unsupported()
        return size, parts

    def _loaded(self, text: str, kind: str, register: Operand) -> str:
        """Extend a loaded element to its register."""
        width = self.emitter.width(register)
        size = TYPE_BYTES[kind]
        if size == 8:
            return text
        text = self.emitter.signed(text, kind)
        if width == 64:
            return f"widen_{'s' if kind[0] == 's' else 'u'}({text})"
        return f"low16({text})" if width == 16 and kind in ("s8", "s16") else text

    def _do_ld(self, i: Instruction) -> Iterator[str]:
        self._check_memory(i)
        size, parts = self._shape(i)
        destination, source = self._unhinted(i).operands
        registers = destination.parts if isinstance(destination, Vector) else (destination,)
        if not isinstance(source, Address) or len(registers) != parts:
            raise self.emitter.unsupported()
        if self._space(i) == "param" and isinstance(source.base, Symbol):
            for n, register in enumerate(registers):
                value = self._parameter(source.base.name, source.offset + n * size, size)
                yield self._set(register, self._loaded(value, i.type, register))
            return
        kind = "U64" if size == 8 else "U32"
        address = self._address(i, source)
        yield f"{kind} t[{parts}]; load<{size}, {parts}>(w, {self.mask}, {address}, {self._site(i)}, t);"
        for n, register in enumerate(registers):
            yield self._set(register, self._loaded(f"t[{n}]", i.type, register))

    _do_ldu = _do_ld

    def _parameter(self, name: str, offset: int, size: int) -> str:
        if name in self.slots:
            pointer, stride = self.slots[name]
            if offset < 0 or offset + size > stride:
                raise self.emitter.unsupported("outside a parameter")
            return f"slot_load{64 if size == 8 else 32}({pointer}, {stride}, {offset}, {size})"
        if name not in self.parameters:
            raise self.emitter.unsupported("an unknown parameter")
        declared = next(p for p in self.function.parameters if p.name == name)
        if offset < 0 or offset + size > declared.size_bytes:
            raise self.emitter.unsupported("outside a parameter")
        bits = 64 if size == 8 else 32
        cast = "" if size == 8 else "(u32)"
        return f"all{bits}({cast}parameter<{size}>(w, {self.parameters[name] + offset}))"

    def _do_st(self, i: Instruction) -> Iterator[str]:
        self._check_memory(i)
        size, parts = self._shape(i)
        target, source = self._unhinted(i).operands
        values = source.parts if isinstance(source, Vector) else (source,)
        if not isinstance(target, Address) or len(values) != parts:
            raise self.emitter.unsupported()
        texts = [self.emitter.b64(v) if size == 8 else self.emitter.b32(v) for v in values]
        if self._space(i) == "param" and isinstance(target.base, Symbol) and target.base.name in self.slots:
            pointer, stride = self.slots[target.base.name]
            for n, text in enumerate(texts):
                offset = target.offset + n * size
                if offset < 0 or offset + size > stride:
                    raise self.emitter.unsupported("outside a parameter")
                yield f"slot_store({pointer}, {stride}, {offset}, {size}, {self.mask}, {text});"
            return
        kind = "U64" if size == 8 else "U32"
        yield f"{kind} t[{parts}] = {{{', '.join(texts)}}};"
        address = self._address(i, target)
        yield f"store<{size}, {parts}>(w, {self.mask}, {address}, {self._site(i)}, t);"

    def _do_atom(self, i: Instruction) -> Iterator[str]:
        self._check_memory(i)
        destination, target, *values = self._unhinted(i).operands
        operation = next((m for m in i.modifiers if m in _ATOMICS), "")
        size = TYPE_BYTES[i.type]
        if values and isinstance(values[0], Vector):
            yield from self._atoms(i, destination, target, values[0])
            return
        if not operation or size not in (2, 4, 8) or any(isinstance(v, Vector) for v in values):
            raise self.emitter.unsupported()
        name = _ATOMICS[operation]
        if i.type in ("f32", "f64", "f16", "f16x2", "bf16", "bf16x2"):
            halves = {"f16": "A_HADD", "f16x2": "A_H2ADD", "bf16": "A_BADD", "bf16x2": "A_B2ADD"}
            if operation != "add":
                raise self.emitter.unsupported()
            name = halves.get(i.type, "A_FADD")
        elif i.type[0] == "s" and operation in ("min", "max"):
            name = f"A_S{operation.upper()}"
        bits = 64 if size == 8 else 32
        texts = [self.emitter.any(v, bits) for v in values]
        texts += [f"all{bits}(0)"] * (2 - len(texts))
        address = self._address(i, target)
        call = f"atomic{size * 8}(w, {self.mask}, {address}, {self._site(i)}, {name}, {texts[0]}, {texts[1]})"
        yield self._set(destination, call)

    def _atoms(self, i: Instruction, destination: Operand, target: Operand, values: Vector) -> Iterator[str]:
        """`red.global.add.v4.f32`: each element is added by itself."""
        parts = values.parts
        olds = destination.parts if isinstance(destination, Vector) else (Symbol("_"),) * len(parts)
        if f"v{len(parts)}" not in i.modifiers or len(olds) != len(parts) or not isinstance(target, Address):
            raise self.emitter.unsupported()
        words = tuple(m for m in i.modifiers if m not in ("v2", "v4", "v8", "L2::cache_hint"))
        for n, (old, part) in enumerate(zip(olds, parts, strict=True)):
            place = Address(target.base, target.offset + n * TYPE_BYTES[i.type])
            yield from self._do_atom(Instruction("atom", words, (old, place, part), i.line))

    def _do_red(self, i: Instruction) -> Iterator[str]:
        yield from self._do_atom(Instruction("red", i.modifiers, (Symbol("_"), *i.operands), i.line))

    def _do_discard(self, i: Instruction) -> Iterator[str]:
        target, size = i.operands
        if i.modifiers not in (("global", "L2"), ("L2",)) or size != Immediate(128):
            raise self.emitter.unsupported()
        yield f"discard(w, {self.mask}, {self._address(i, target)}, {self.module.site(i.line)});"

    def _do_shfl(self, i: Instruction) -> Iterator[str]:
        if i.modifiers[0] != "sync" or i.modifiers[1] not in _SHUFFLES:
            raise self.emitter.unsupported("a shuffle without .sync" if i.modifiers[0] != "sync" else "")
        first, second = pair(i.operands[0])
        value, b, c, members = (self.emitter.b32(operand) for operand in i.operands[1:5])
        mode = _SHUFFLES[i.modifiers[1]]
        arguments = f"{self.mask}, {mode}, {value}, {b}, {c}, {members}, &valid, {self.module.place(i.line)}"
        yield f"u32 valid; U32 r = shuffle(w, {arguments});"
        yield self._set(first, "r")
        if second is not None:
            yield self._set(second, "valid")

    def _do_vote(self, i: Instruction) -> Iterator[str]:
        if i.modifiers[0] != "sync":
            raise self.emitter.unsupported("a vote without .sync")
        mode = i.modifiers[1].upper()
        predicate, members = self.emitter.predicate(i.operands[1]), self.emitter.b32(i.operands[2])
        place = self.module.place(i.line)
        if mode == "BALLOT":
            yield self._set(i.operands[0], f"ballot(w, {self.mask}, {predicate}, {members}, {place})")
        else:
            yield self._set(i.operands[0], f"vote(w, {self.mask}, {mode}, {predicate}, {members}, {place})")

    def _do_match(self, i: Instruction) -> Iterator[str]:
        first, second = pair(i.operands[0])
        bits = TYPE_BYTES[i.type] * 8
        value, members = self.emitter.any(i.operands[1], bits), self.emitter.b32(i.operands[2])
        place = self.module.place(i.line)
        if "any" in i.modifiers:
            yield self._set(first, f"match_any(w, {self.mask}, {value}, {members}, {place})")
            return
        yield f"u32 same; U32 r = match_all(w, {self.mask}, {value}, {members}, &same, {place});"
        yield self._set(first, "r")
        if second is not None:
            yield self._set(second, "same")

    def _do_redux(self, i: Instruction) -> Iterator[str]:
        operation = next((m for m in i.modifiers if m in _ATOMICS), "")
        if operation not in ("add", "min", "max", "and", "or", "xor") or i.type[0] == "f":
            raise self.emitter.unsupported()
        name = f"A_{'S' if i.type == 's32' and operation in ('min', 'max') else ''}{operation.upper()}"
        value, members = (self.emitter.b32(operand) for operand in i.operands[1:3])
        yield self._set(
            i.operands[0], f"reduce(w, {self.mask}, {name}, {value}, {members}, {self.module.place(i.line)})"
        )

    def _do_elect(self, i: Instruction) -> Iterator[str]:
        first, second = pair(i.operands[0])
        members = self.emitter.b32(i.operands[1])
        yield f"u32 leads; U32 r = elect(w, {self.mask}, {members}, &leads, {self.module.place(i.line)});"
        yield self._set(first, "r")
        if second is not None:
            yield self._set(second, "leads")

    def _do_trap(self, i: Instruction) -> Iterator[str]:
        yield f'fault(w, {self.mask}, "trap", {self.module.place(i.line)}, "executed a trap");'

    def _do_call(self, i: Instruction) -> Iterator[str]:
        operands = [operand for operand in i.operands if not isinstance(operand, Immediate)]
        returns = operands.pop(0).parts if isinstance(operands[0], Vector) else ()  # type: ignore[union-attr]
        target = operands[0]
        arguments = operands[1].parts if len(operands) > 1 and isinstance(operands[1], Vector) else ()
        if not isinstance(target, Symbol):
            raise self.emitter.unsupported("through a function pointer")
        slots = []
        for operand in (*returns, *arguments):
            if not isinstance(operand, Symbol) or operand.name not in self.slots:
                raise self.emitter.unsupported("an argument that is not a parameter variable")
            slots.append(self.slots[operand.name])
        if target.name in _BUILT_IN:
            yield from self._built_in(i, target.name, slots)
            return
        if target.name not in self.module.indexes:
            raise self.emitter.unsupported(f"an unknown function {target.name}")
        callee = self.module.functions[self.module.indexes[target.name]]
        if callee.is_entry:
            raise self.emitter.unsupported("of a kernel: dynamic parallelism")
        declared = (*callee.returns, *callee.parameters)
        if [stride_of(v) for v in declared] != [stride for _, stride in slots]:
            raise self.emitter.unsupported("with other parameters than declared")
        pointers = ", ".join(["w", self.mask, *(pointer for pointer, _ in slots)])
        yield f"u32 back = k{self.module.indexes[target.name]}({pointers}); (void)back;"
        yield "m &= w.live; if (!m) goto dispatch;"

    def _built_in(self, i: Instruction, name: str, slots: list[tuple[str, int]]) -> Iterator[str]:
        def value(n: int) -> str:
            pointer, stride = slots[n]
            return f"slot_load64({pointer}, {stride}, 0, 8)"

        place = self.module.place(i.line)
        if name == "vprintf":
            yield f"U32 n; device_printf(w, {self.mask}, {value(1)}, {value(2)}, &n, {place});"
            yield f"slot_store({slots[0][0]}, {slots[0][1]}, 0, 4, {self.mask}, n);"
        elif name == "malloc":
            yield f"U64 p = device_malloc(w, {self.mask}, {value(1)});"
            yield f"slot_store({slots[0][0]}, {slots[0][1]}, 0, 8, {self.mask}, p);"
        elif name == "free":
            yield f"device_free(w, {self.mask}, {value(0)}, {place});"
        else:
            pointers = ", ".join(pointer for pointer, _ in slots)
            strides = ", ".join(str(stride) for _, stride in slots)
            yield f"const u8 *texts[] = {{{pointers}}}; const u32 strides[] = {{{strides}}};"
            yield f"device_assert(w, {self.mask}, texts, strides, {place});"
