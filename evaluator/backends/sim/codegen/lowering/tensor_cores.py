"""Tensor-core instructions and moves of 8 x 8 matrices as C++ (PTX ISA 9.0, sections 9.7.14 and 9.7.15).

`runtime/matrix.cpp` says what is computed exactly and what is not.
"""

from collections.abc import Iterator

from evaluator.backends.sim.codegen.context import Context
from evaluator.backends.sim.codegen.lowering.memory import address
from evaluator.backends.sim.codegen.table import lowers
from evaluator.backends.sim.ptx.model import Instruction, Operand, Vector

_NUMBERS = {
    "f16": "N_F16", "bf16": "N_BF16", "tf32": "N_TF32", "f32": "N_F32", "f64": "N_F64", "s32": "N_S32",
    "s8": "N_S8", "u8": "N_U8", "s4": "N_S4", "u4": "N_U4", "b1": "",
}  # fmt: skip
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
_FAMILY = {"u8": "s8", "u4": "s4", "bf16": "f16"}
_MMA_SHAPES = {
    "f16": {"m16n8k8", "m16n8k16"},
    "tf32": {"m16n8k4", "m16n8k8"},
    "f64": {"m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"},
    "s8": {"m8n8k16", "m16n8k16", "m16n8k32"},
    "s4": {"m8n8k32", "m16n8k32", "m16n8k64"},
    "b1": {"m8n8k128", "m16n8k128", "m16n8k256"},
}
_WMMA_SHAPES = {
    "f16": {"m16n16k16", "m32n8k16", "m8n32k16"},
    "tf32": {"m16n16k8"},
    "f64": {"m8n8k4"},
    "s8": {"m16n16k16", "m32n8k16", "m8n32k16"},
}
_SHAPES = frozenset().union(*_MMA_SHAPES.values(), *_WMMA_SHAPES.values())
_WMMA_F16_REGISTERS = 8
"""PTX gives every float16 fragment of `wmma` so many, whatever its shape: they hold its elements more than once."""
_PLACE = {"sync", "aligned", "row", "col"}
_FRAGMENT = _PLACE | {"global", "shared", "shared::cta"} | set().union(*_WMMA_SHAPES.values())
_FRAGMENT_TYPES = {"f16", "bf16", "tf32", "f64", "s8", "u8"}
_MATRICES = {"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared::cta"}


@lowers(
    "mma",
    modifiers=_PLACE
    | {"s4", "u4", "b1", "satfinite", "rn", "xor", "and", "popc"}
    | set().union(*_MMA_SHAPES.values()),
    types={"f16", "f32", "f64", "s32"},
    operand_count=4,
    guarding="skip",
    counted="tensor",
    product=True,
)
def _mma(c: Context, i: Instruction) -> Iterator[str]:
    rest = _without(c, i, "sync", "aligned")
    shape = _take_shape(c, rest)
    if rest[:2] != ["row", "col"]:
        raise c.unsupported()
    yield from _product(c, i, shape, rest[2:], _MMA_SHAPES, wmma=False)


@lowers(
    "wmma.mma",
    modifiers=_PLACE | {"satfinite", "rn"} | set().union(*_WMMA_SHAPES.values()),
    types={"f16", "f32", "f64", "s32"},
    operand_count=4,
    guarding="skip",
    counted="tensor",
    product=True,
)
def _wmma(c: Context, i: Instruction) -> Iterator[str]:
    rest = _without(c, i, "sync", "aligned", "mma")
    layouts, shape = rest[:2], _take_shape(c, rest)
    if rest[:2] != layouts or not set(layouts) <= {"row", "col"}:
        raise c.unsupported()
    types = rest[2:]
    # Float16 products name the types of D and C only.
    count = sum(word in _NUMBERS for word in types)
    if count == 2:
        types = [types[0], "f16", "f16", types[1], *types[2:]]
    yield from _product(c, i, shape, types, _WMMA_SHAPES, wmma=True)


def _without(c: Context, i: Instruction, *words: str) -> list[str]:
    if not set(words) <= set(i.modifiers):
        raise c.unsupported()
    return [m for m in i.modifiers if m not in words]


def _take_shape(c: Context, words: list[str]) -> tuple[int, int, int]:
    """Take `m16n8k16` out of the words. Sparse and block-scaled products have words that no table knows."""
    name = next((word for word in words if word in _SHAPES), None)
    if name is None:
        raise c.unsupported()
    words.remove(name)
    m, rest = name[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def _product(
    c: Context,
    i: Instruction,
    shape: tuple[int, int, int],
    words: list[str],
    shapes: dict[str, set[str]],
    wmma: bool,
) -> Iterator[str]:
    m, n, k = shape
    types, extra = [w for w in words if w in _NUMBERS], [w for w in words if w not in _NUMBERS]
    if len(types) != 4:
        raise c.unsupported()
    d, a, b, added = types
    family = _FAMILY.get(a, a)
    kinds = {"f16": {"f16", "f32"}, "tf32": {"f32"}, "f64": {"f64"}}.get(family, {"s32"})
    allowed = {"s8": {"satfinite"}, "s4": {"satfinite"}, "f64": {"rn"}, "b1": {"xor", "and", "popc"}}
    if (
        f"m{m}n{n}k{k}" not in shapes.get(family, ())
        or _FAMILY.get(b, b) != family
        or not {d, added} <= (kinds - {"f16"} if a == "bf16" else kinds)
        or (family in ("f16", "tf32") and a != b)
        or not set(extra) <= allowed.get(family, set())
    ):
        raise c.unsupported()
    counts = _counts(shape, a, d, added, wmma)
    texts = [_parts(c, o, count, a == "f64") for o, count in zip(i.operands, counts, strict=True)]
    number = {t: _NUMBERS[t] for t in types}
    if a == "b1":
        number["b1"] = "N_AND" if "and" in extra else "N_XOR"
    product = (
        f"Product{{{m}, {n}, {k}, {number[a]}, {number[b]}, {number[added]}, {number[d]}, "
        f"{'true' if 'satfinite' in extra else 'false'}}}"
    )
    kind = "U64" if a == "f64" else "U32"
    for name, values in zip("abc", texts[1:], strict=True):
        yield f"{kind} {name}[] = {{{', '.join(values)}}};"
    yield f"{kind} d[{counts[0]}];"
    place = c.place()
    if a == "f64":
        yield f"multiply_f64(w, {c.mask}, {product}, a, b, c, d, {place});"
    else:
        yield f"multiply(w, {c.mask}, {product}, {counts[1]}, a, {counts[2]}, b, c, d, {place});"
    yield from _set_parts(c, i.operands[0])


def _counts(shape: tuple[int, int, int], a: str, d: str, c: str, wmma: bool) -> tuple[int, int, int, int]:
    """Registers of D, A, B and C."""
    m, n, k = shape
    each = 1 if a == "f64" else 32 // _BITS[a]
    inputs = [rows * k // 32 // each for rows in (m, n)]
    if wmma and a == "f16":
        inputs = [_WMMA_F16_REGISTERS] * 2
    outputs = [m * n // 32 // (2 if kind == "f16" else 1) for kind in (d, c)]
    return outputs[0], inputs[0], inputs[1], outputs[1]


def _parts(c: Context, operand: Operand, count: int, wide: bool) -> list[str]:
    parts = operand.parts if isinstance(operand, Vector) else (operand,)
    if len(parts) != count:
        raise c.unsupported("with a wrong number of registers")
    return [c.b64(part) if wide else c.b32(part) for part in parts]


def _set_parts(c: Context, operand: Operand) -> Iterator[str]:
    parts = operand.parts if isinstance(operand, Vector) else (operand,)
    for n, part in enumerate(parts):
        yield c.set(part, f"d[{n}]")


@lowers(
    "wmma.load",
    modifiers=_FRAGMENT | {"a", "b", "c"},
    types=_FRAGMENT_TYPES | {"f32", "s32"},
    guarding="skip",
    counted="address",
)
@lowers(
    "wmma.store", modifiers=_FRAGMENT | {"d"}, types={"f16", "f32", "f64", "s32"}, guarding="skip", counted="address"
)
def _fragment(c: Context, i: Instruction) -> Iterator[str]:
    """`wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {…}, [p], stride`, and the store of D."""
    what, *words = _without(c, i, "sync", "aligned")
    m, n, k = _take_shape(c, words)
    which, layout, *space, kind = words
    if which not in ("a", "b", "c", "d") or layout not in ("row", "col") or kind not in _NUMBERS:
        raise c.unsupported()
    if len(space) > 1 or not set(space) <= {"global", "shared", "shared::cta"}:
        raise c.unsupported()
    accumulates = which in ("c", "d")
    family = _FAMILY.get(kind, kind)
    known = {"f16", "f32", "s32", "f64"} if accumulates else _WMMA_SHAPES.keys()
    # What an accumulator's shape goes with is checked where it is multiplied.
    if family not in known or (not accumulates and f"m{m}n{n}k{k}" not in _WMMA_SHAPES[family]):
        raise c.unsupported()
    rows, cols = {"a": (m, k), "b": (k, n)}.get(which, (m, n))
    each = {"f16": 2, "bf16": 2, "s8": 4, "u8": 4}.get(kind, 1)
    count = rows * cols // 32 // each
    if kind == "f16" and not accumulates:
        count = _WMMA_F16_REGISTERS
    registers, source, *strides = i.operands if what == "load" else (i.operands[1], i.operands[0], *i.operands[2:])
    wide = kind == "f64"
    texts = _parts(c, registers, count, wide)
    target_address = address(c, i, source)
    default = cols if layout == "row" else rows
    stride = c.b32(strides[0]) if strides else f"all32({default})"
    fragment = (
        f"Fragment{{'{'c' if accumulates else which}', {_NUMBERS[kind]}, {rows}, {cols}, "
        f"{'true' if layout == 'row' else 'false'}, {'false' if space in ([], ['global']) else 'true'}}}"
    )
    site, suffix, pack = c.site(), "_f64" if wide else "", "U64" if wide else "U32"
    arguments = f"w, {c.mask}, {fragment}, {target_address}, {stride}, {site}, {count}, d"
    if what == "load":
        yield f"{pack} d[{count}]; load_fragment{suffix}({arguments});"
        yield from _set_parts(c, registers)
    else:
        yield f"{pack} d[] = {{{', '.join(texts)}}}; store_fragment{suffix}({arguments});"


def _matrices(c: Context, i: Instruction) -> tuple[int, str]:
    """The count of `.x4` and whether `.trans` is there, of ldmatrix and stmatrix."""
    words = _without(c, i, "sync", "aligned", "m8n8", "b16")
    count = next((word for word in words if word in ("x1", "x2", "x4")), None)
    if count is None or not set(words) <= {"x1", "x2", "x4", "trans", "shared", "shared::cta"}:
        raise c.unsupported()
    return int(count[1]), "true" if "trans" in words else "false"


@lowers("ldmatrix", modifiers=_MATRICES, types={"b16"}, operand_count=2, guarding="skip", counted="shared")
def _ldmatrix(c: Context, i: Instruction) -> Iterator[str]:
    count, transposed = _matrices(c, i)
    registers, source = i.operands
    _parts(c, registers, count, False)
    target_address = address(c, i, source)
    yield f"U32 d[{count}];"
    yield f"load_matrices(w, {c.mask}, {count}, {transposed}, {target_address}, {c.site()}, d);"
    yield from _set_parts(c, registers)


@lowers("stmatrix", modifiers=_MATRICES, types={"b16"}, operand_count=2, guarding="skip", counted="shared")
def _stmatrix(c: Context, i: Instruction) -> Iterator[str]:
    count, transposed = _matrices(c, i)
    target, registers = i.operands
    yield f"U32 d[] = {{{', '.join(_parts(c, registers, count, False))}}};"
    target_address = address(c, i, target)
    yield f"store_matrices(w, {c.mask}, {count}, {transposed}, {target_address}, {c.site()}, d);"


@lowers(
    "movmatrix",
    modifiers={"sync", "aligned", "m8n8", "trans"},
    types={"b16"},
    operand_count=2,
    guarding="skip",
    counted="shuffle",
)
def _movmatrix(c: Context, i: Instruction) -> Iterator[str]:
    if set(i.modifiers) != {"sync", "aligned", "m8n8", "trans", "b16"}:
        raise c.unsupported()
    yield c.set(i.operands[0], f"transpose_matrix({c.b32(i.operands[1])})")
