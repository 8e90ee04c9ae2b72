"""Loads, stores, atomics and hints about caches of PTX as C++ (PTX ISA 9.0, sections 9.7.9 and 9.7.13)."""

from collections.abc import Iterator
from dataclasses import replace

from evaluator.backends.sim.codegen.context import Context
from evaluator.backends.sim.codegen.lowering.formats import BITS, FLOATS, INTEGERS, sign_extended
from evaluator.backends.sim.codegen.table import lowers
from evaluator.backends.sim.ptx.model import TYPE_BYTES, Address, Immediate, Instruction, Operand, Symbol, Vector

ATOMICS = {
    "add": "A_ADD", "min": "A_MIN", "max": "A_MAX", "inc": "A_INC", "dec": "A_DEC",
    "and": "A_AND", "or": "A_OR", "xor": "A_XOR", "exch": "A_EXCH", "cas": "A_CAS",
}  # fmt: skip
_HALF_SUMS = {"f16": "A_HADD", "f16x2": "A_H2ADD", "bf16": "A_BADD", "bf16x2": "A_B2ADD"}
_SPACES = {"global", "shared", "local", "const", "param"}
_HINTS = {
    "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate",
    "L2::cache_hint", "L2::evict_normal", "L2::evict_first", "L2::evict_last",
}  # fmt: skip
_VECTORS = {"v2", "v4", "v8"}
_SCOPES = {"cta", "gpu", "sys", "cluster"}
_ACCESS = (
    {"global", "shared", "shared::cta", "local", "weak", "relaxed", "volatile", "mmio"} | _SCOPES | _VECTORS | _HINTS
)
_LOAD = _ACCESS | {
    "const", "param", "param::entry", "param::func", "acquire", "nc", "ca", "cg", "cs", "lu", "cv",
    "L2::64B", "L2::128B", "L2::256B",
}  # fmt: skip
_STORE = _ACCESS | {"param", "param::func", "release", "wb", "cg", "cs", "wt"}
_UPDATE = (
    {"global", "shared", "shared::cta", "relaxed", "acquire", "release", "acq_rel", "noftz", "L2::cache_hint"}
    | _SCOPES
    | _VECTORS
    | ATOMICS.keys()
)
_STORED = {"b8", "u8", "s8"} | BITS | INTEGERS | FLOATS
_UPDATED = {"u32", "s32", "u64", "s64", "b16", "b32", "b64", "f32", "f64"} | _HALF_SUMS.keys()
_FENCED = {"acquire", "release", "acq_rel"}
_SEMANTICS = {
    "ACQUIRES": {"acquire", "acq_rel", "sc"},
    "RELEASES": {"release", "acq_rel", "sc"},
    "OF_BLOCK": {"cta", "cluster"},
    "SEQUENTIAL": {"sc"},
    "READ_ONLY": {"nc"},
}
"""Of a cluster the simulator runs only those of one block."""
_RELAXED = {"volatile", "relaxed", "cv", "cg"}
"""`ld.cg` and `ld.cv` pass the first cache by: who asks for that reads what other threads write."""


def address(c: Context, i: Instruction, operand: Operand, space: str = "") -> str:
    """A U64 expression: where an access goes. `space` is where it goes if the modifiers do not say it."""
    if not isinstance(operand, Address):
        raise c.unsupported("no address")
    text = c.b64(operand.base)
    offset = operand.offset
    if (space or _space(i)) == "shared":
        if offset and c.width(operand.base) == 32:
            # A sum of 32 bits: nvcc takes off of the register what the offset adds again, and the two wrap.
            text, offset = f"widen_u(add_b32({c.b32(operand.base)}, all32({offset & 0xFFFFFFFF}u)))", 0
        return f"add_b64({text}, all64(slot_address(SHARED_SLOT) + {offset}ll))"
    if isinstance(operand.base, Symbol) and operand.base.name in c.shared:
        raise c.unsupported("a shared variable in another space")
    return f"add_b64({text}, all64((u64){offset}ll))" if offset else text


def _space(i: Instruction) -> str:
    for modifier in i.modifiers:
        name = modifier.split("::")[0]
        if name in _SPACES:
            return name
    return "generic"


def _unhinted(i: Instruction) -> Instruction:
    """Without the cache policy that `L2::cache_hint` brings as its last operand."""
    return replace(i, operands=i.operands[:-1]) if "L2::cache_hint" in i.modifiers else i


def _site(c: Context, i: Instruction) -> str:
    """Its site, which says whether the access synchronises (PTX ISA 9.0, section 8.4, strong operations)."""
    if not _FENCED.isdisjoint(i.modifiers):
        return c.site("FENCED", semantics(i))
    return c.site("PLAIN" if _RELAXED.isdisjoint(i.modifiers) else "RELAXED", semantics(i))


def semantics(i: Instruction) -> str:
    """Which sides a strong access or a fence orders, and its scope, as in runtime/machine.h; empty for neither."""
    words = set(i.modifiers)
    found = [name for name, said in _SEMANTICS.items() if words & said]
    return " | ".join(found)


def _point(i: Instruction) -> str:
    """Where other warps may come between in a run with a drawn schedule (runtime/schedule.h)."""
    return "" if (_FENCED | _RELAXED).isdisjoint(i.modifiers) else "point(w); "


def _shape(c: Context, i: Instruction) -> tuple[int, int]:
    """Bytes of an element, and elements."""
    size = TYPE_BYTES[i.type]
    parts = next((int(m[1]) for m in i.modifiers if m in _VECTORS), 1)
    if parts == 8 and size != 4:
        raise c.unsupported()
    return size, parts


def _loaded(c: Context, text: str, kind: str, register: Operand) -> str:
    """Extend a loaded element to its register."""
    width = c.width(register)
    if TYPE_BYTES[kind] == 8:
        return text
    text = sign_extended(text, kind)
    if width == 64:
        return f"widen_{'s' if kind[0] == 's' else 'u'}({text})"
    return f"low16({text})" if width == 16 and kind in ("s8", "s16") else text


@lowers(
    "ld",
    modifiers=_LOAD,
    types=_STORED,
    guarding="skip",
    counted="address",
    waits_with={"volatile", "relaxed", "acquire"},
)
@lowers("ldu", modifiers={"global", "v2", "v4"}, types=_STORED, guarding="skip", counted="address")
def _load(c: Context, i: Instruction) -> Iterator[str]:
    size, parts = _shape(c, i)
    destination, source = _unhinted(i).operands
    registers = destination.parts if isinstance(destination, Vector) else (destination,)
    if not isinstance(source, Address) or len(registers) != parts:
        raise c.unsupported()
    if _space(i) == "param" and isinstance(source.base, Symbol):
        for n, register in enumerate(registers):
            value = _parameter(c, source.base.name, source.offset + n * size, size)
            yield c.set(register, _loaded(c, value, i.type, register))
        return
    kind = "U64" if size == 8 else "U32"
    place = address(c, i, source)
    used = "" if c.used is None else f", {c.used}"
    yield f"{_point(i)}{kind} t[{parts}]; load<{size}, {parts}>(w, {c.mask}, {place}, {_site(c, i)}, t{used});"
    for n, register in enumerate(registers):
        yield c.set(register, _loaded(c, f"t[{n}]", i.type, register))


def _parameter(c: Context, name: str, offset: int, size: int) -> str:
    if name in c.slots:
        pointer, stride = c.slots[name]
        if offset < 0 or offset + size > stride:
            raise c.unsupported("outside a parameter")
        return f"slot_load{64 if size == 8 else 32}({pointer}, {stride}, {offset}, {size})"
    if name not in c.parameters:
        raise c.unsupported("an unknown parameter")
    declared = next(p for p in c.function.parameters if p.name == name)
    if offset < 0 or offset + size > declared.size_bytes:
        raise c.unsupported("outside a parameter")
    bits = 64 if size == 8 else 32
    cast = "" if size == 8 else "(u32)"
    return f"all{bits}({cast}parameter<{size}>(w, {c.parameters[name] + offset}))"


@lowers("st", modifiers=_STORE, types=_STORED, guarding="skip", counted="address", destination=False)
def _store(c: Context, i: Instruction) -> Iterator[str]:
    size, parts = _shape(c, i)
    target, source = _unhinted(i).operands
    values = source.parts if isinstance(source, Vector) else (source,)
    if not isinstance(target, Address) or len(values) != parts:
        raise c.unsupported()
    texts = [c.b64(v) if size == 8 else c.b32(v) for v in values]
    if _space(i) == "param" and isinstance(target.base, Symbol) and target.base.name in c.slots:
        pointer, stride = c.slots[target.base.name]
        for n, text in enumerate(texts):
            offset = target.offset + n * size
            if offset < 0 or offset + size > stride:
                raise c.unsupported("outside a parameter")
            yield f"slot_store({pointer}, {stride}, {offset}, {size}, {c.mask}, {text});"
        return
    kind = "U64" if size == 8 else "U32"
    yield f"{kind} t[{parts}] = {{{', '.join(texts)}}};"
    place = address(c, i, target)
    yield f"{_point(i)}store<{size}, {parts}>(w, {c.mask}, {place}, {_site(c, i)}, t);"


@lowers("atom", modifiers=_UPDATE, types=_UPDATED, guarding="skip", counted="atomic", waits=True, ordered=True)
def _atom(c: Context, i: Instruction) -> Iterator[str]:
    destination, target, *values = _unhinted(i).operands
    if values and isinstance(values[0], Vector):
        yield from _of_each_element(c, i, destination, target, values[0])
    else:
        yield _update(c, i, destination, target, values)


@lowers(
    "red",
    modifiers=_UPDATE - {"exch", "cas"},
    types=_UPDATED,
    guarding="skip",
    counted="atomic",
    destination=False,
    ordered=True,
)
def _red(c: Context, i: Instruction) -> Iterator[str]:
    yield from _atom(c, replace(i, operands=(Symbol("_"), *i.operands)))


def _update(c: Context, i: Instruction, destination: Operand, target: Operand, values: list[Operand]) -> str:
    operation = next((m for m in i.modifiers if m in ATOMICS), "")
    size = TYPE_BYTES[i.type]
    if not operation or size not in (2, 4, 8) or any(isinstance(v, Vector) for v in values):
        raise c.unsupported()
    name = ATOMICS[operation]
    if i.type in ("f32", "f64") or i.type in _HALF_SUMS:
        if operation != "add":
            raise c.unsupported()
        name = _HALF_SUMS.get(i.type, "A_FADD")
    elif i.type[0] == "s" and operation in ("min", "max"):
        name = f"A_S{operation.upper()}"
    bits = 64 if size == 8 else 32
    texts = [c.any(v, bits) for v in values]
    texts += [f"all{bits}(0)"] * (2 - len(texts))
    place = address(c, i, target)
    call = f"atomic{size * 8}(w, {c.mask}, {place}, {_site(c, i)}, {name}, {texts[0]}, {texts[1]})"
    return f"point(w); {c.set(destination, call)}"


def _of_each_element(
    c: Context, i: Instruction, destination: Operand, target: Operand, values: Vector
) -> Iterator[str]:
    """`red.global.add.v4.f32`: each element is added by itself."""
    parts = values.parts
    olds = destination.parts if isinstance(destination, Vector) else (Symbol("_"),) * len(parts)
    if f"v{len(parts)}" not in i.modifiers or len(olds) != len(parts) or not isinstance(target, Address):
        raise c.unsupported()
    for n, (old, part) in enumerate(zip(olds, parts, strict=True)):
        place = Address(target.base, target.offset + n * TYPE_BYTES[i.type])
        yield _update(c, i, old, place, [part])


@lowers("discard", modifiers={"global", "L2"}, types={""}, guarding="skip", counted="global", destination=False)
def _discard(c: Context, i: Instruction) -> Iterator[str]:
    target, size = i.operands
    if i.modifiers not in (("global", "L2"), ("L2",)) or size != Immediate(128):
        raise c.unsupported()
    yield f"discard(w, {c.mask}, {address(c, i, target)}, {c.site()});"


@lowers(
    "prefetch",
    modifiers={"global", "local", "L1", "L2", "L2::evict_last", "L2::evict_normal"},
    types={""},
    counted="global",
    destination=False,
)
@lowers("prefetchu", modifiers={"L1"}, types={""}, counted="global", destination=False)
@lowers("applypriority", modifiers={"global", "L2::evict_normal"}, types={""}, counted="global", destination=False)
def _hint(c: Context, i: Instruction) -> Iterator[str]:
    yield ";"
