"""Tensor cores and matrix moves: the simulator and the interpreter agree bit for bit, whatever the numbers are."""

import random

import numpy as np
import pytest
from duel import HEADER, Duel
from tensors import BITS

INPUTS = 24
"""Words of input that each lane has for each case."""


def _registers(m: int, n: int, k: int, a: str, d: str, c: str, wmma: bool = False) -> tuple[int, int, int, int]:
    """Registers of D, A, B and C."""
    per = 1 if a == "f64" else 32 // BITS[a]
    inputs = [8, 8] if wmma and a == "f16" else [m * k // 32 // per, n * k // 32 // per]
    outputs = [m * n // 32 // (2 if kind == "f16" else 1) for kind in (d, c)]
    return outputs[0], inputs[0], inputs[1], outputs[1]


def _products() -> list[tuple[str, tuple[int, int, int, int], tuple[str, ...]]]:
    """Instruction, registers, types of D, A, B and C."""
    rows = [
        ((16, 8, k), d, t, t, c, "")
        for k in (8, 16)
        for t, outs in (("f16", ("f16", "f32")), ("bf16", ("f32",)))
        for d in outs
        for c in outs
    ]
    rows += [((16, 8, k), "f32", "tf32", "tf32", "f32", "") for k in (4, 8)]
    rows += [(s, "f64", "f64", "f64", "f64", "") for s in ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16))]
    for family, shapes in (
        ("s8 u8", ((8, 8, 16), (16, 8, 16), (16, 8, 32))),
        ("s4 u4", ((8, 8, 32), (16, 8, 32), (16, 8, 64))),
    ):
        for shape in shapes:
            for a in family.split():
                for b in family.split():
                    rows += [(shape, "s32", a, b, "s32", end) for end in ("", ".satfinite")]
    for shape in ((8, 8, 128), (16, 8, 128), (16, 8, 256)):
        rows += [(shape, "s32", "b1", "b1", "s32", end) for end in (".xor.popc", ".and.popc")]
    cases = []
    for (m, n, k), d, a, b, c, end in rows:
        name = f"mma.sync.aligned.m{m}n{n}k{k}.row.col{end if 'sat' in end else ''}.{d}.{a}.{b}.{c}"
        name += "" if "sat" in end else end
        cases.append((name, _registers(m, n, k, a, d, c), (d, a, b, c)))
    return cases


PRODUCTS = _products()


def _names(letter: str, count: int) -> str:
    return "{" + ", ".join(f"%{letter}{n}" for n in range(count)) + "}"


def product_kernel(cases: list) -> str:
    """Each case reads its fragments from in, and writes D to out."""
    body = []
    for number, (name, counts, (d, a, _, _)) in enumerate(cases):
        kind, size = ("b64" if a == "f64" else "b32"), (8 if a == "f64" else 4)
        body.append("{")
        for letter, count in zip("dabc", counts, strict=True):
            real = "f64" if a == "f64" else "f32" if d == "f32" and letter == "d" else "b32"
            body.append(f".reg .{real} %{letter}<{count}>;")
        at = 0
        for letter, count in zip("abc", counts[1:], strict=True):
            for n in range(count):
                body.append(f"ld.global.{kind} %{letter}{n}, [%from+{number * INPUTS * 8 + at}];")
                at += size
        body.append(f"{name} {', '.join(_names(x, n) for x, n in zip('dabc', counts, strict=True))};")
        for n in range(counts[0]):
            body.append(f"st.global.{kind} [%to+{number * 64 + n * size}], %d{n};")
        body.append("}")
    return HEADER + "\n".join(
        [
            ".visible .entry k(.param .u64 in, .param .u64 out) {",
            ".reg .b64 %from, %to, %off; .reg .b32 %t;",
            "ld.param.u64 %from, [in]; ld.param.u64 %to, [out]; mov.u32 %t, %tid.x;",
            f"mul.wide.u32 %off, %t, {8 * INPUTS * len(cases)}; add.s64 %from, %from, %off;",
            f"mul.wide.u32 %off, %t, {64 * len(cases)}; add.s64 %to, %to, %off;",
            *body,
            "ret; }",
        ]
    )


def _value(source: random.Random, kind: str) -> bytes:
    """Numbers that tensor cores meet: of one size, of very different sizes, zeros, denormals, rarely infinite."""
    if kind in ("f16", "bf16", "tf32", "f32", "f64"):
        number = source.choice((0.0, 1.0, -2.5)) if source.random() < 0.2 else source.gauss(0, 1)
        number *= source.choice((1, 1, 1, 2.0**-12, 2.0**9))
        if source.random() < 0.003:
            number = source.choice((float("inf"), float("-inf"), float("nan"), 6e4, 6e-8))
        form = {"f16": np.float16, "f64": np.float64}.get(kind, np.float32)
        with np.errstate(over="ignore"):
            data = np.array(number, form).tobytes()
        return data[2:] if kind == "bf16" else data
    if kind == "s32":
        return source.choice((0, 7, -9, (1 << 31) - 1, -(1 << 31), source.getrandbits(31))).to_bytes(
            4, "little", signed=True
        )
    return source.randbytes(4)


def _drawn(cases: list, seed: int) -> bytes:
    source = random.Random(seed)
    lanes = []
    for _ in range(32):
        for _, counts, (_, a, b, c) in cases:
            data = b""
            for count, kind in zip(counts[1:], (a, b, c), strict=True):
                wanted = len(data) + count * (8 if a == "f64" else 4)
                while len(data) < wanted:
                    data += _value(source, kind)
            lanes.append(data.ljust(8 * INPUTS, b"\0"))
    return b"".join(lanes)


def _same(kind: str, mine: bytes, theirs: bytes) -> bool:
    form = {"f16": np.float16, "f32": np.float32, "f64": np.float64}.get(kind)
    if mine == theirs or form is None:
        return mine == theirs
    x, y = np.frombuffer(mine, form), np.frombuffer(theirs, form)
    return bool(np.array_equal(x[~np.isnan(y)].view(f"u{x.itemsize}"), y[~np.isnan(y)].view(f"u{x.itemsize}"))) and (
        bool(np.isnan(x[np.isnan(y)]).all())
    )


def test_products_agree_bit_for_bit(simulator):
    with Duel(simulator, product_kernel(PRODUCTS)) as duel:
        for seed in range(3):
            words = np.frombuffer(_drawn(PRODUCTS, seed), np.uint64)
            mine, theirs = duel.outputs({"in": words}, 64 * 32 * len(PRODUCTS))
            wrong = []
            for number, (name, counts, (d, *_)) in enumerate(PRODUCTS):
                for lane in range(32):
                    at = (lane * len(PRODUCTS) + number) * 64
                    end = at + counts[0] * (8 if d == "f64" else 4)
                    if not _same(d, mine[at:end], theirs[at:end]):
                        wrong.append(
                            f"{name} in lane {lane}: {mine[at:end].hex(' ', 4)}, {theirs[at:end].hex(' ', 4)}"
                        )
                        break
            assert not wrong, f"{len(wrong)} of {len(PRODUCTS)} differ\n" + "\n".join(wrong[:20])


MOVES = """
.shared .align 16 .b8 tile[1024]; .reg .b32 %q<4>, %p, %s; .reg .b64 %g;
mov.u32 %s, tile; mad.lo.u32 %p, %t, 16, %s;
ld.global.v4.b32 {%q0, %q1, %q2, %q3}, [%from]; st.shared.v4.b32 [%p], {%q0, %q1, %q2, %q3}; bar.sync 0;
"""


def _move_cases() -> list[str]:
    cases = []
    for end in ("", ".trans"):
        for count in (1, 2, 4):
            some = ", ".join(f"%q{n}" for n in range(count))
            cases.append(f"ldmatrix.sync.aligned.m8n8.x{count}{end}.shared.b16 {{{some}}}, [%p];")
            cases.append(
                f"bar.sync 0; stmatrix.sync.aligned.m8n8.x{count}{end}.shared::cta.b16 [%p+512], {{{some}}}; "
                "bar.sync 0; ld.shared.v4.b32 {%q0, %q1, %q2, %q3}, [%p+512];"
                if count == 4
                else f"st.shared.v4.b32 [%p+512], {{%q0, %q1, %q2, %q3}}; bar.sync 0; "
                f"stmatrix.sync.aligned.m8n8.x{count}{end}.shared.b16 [%p+512], {{{some}}}; bar.sync 0; "
                "ld.shared.v4.b32 {%q0, %q1, %q2, %q3}, [%p+512];"
            )
    cases.append("cvt.u64.u32 %g, %p; cvta.shared.u64 %g, %g; ldmatrix.sync.aligned.m8n8.x1.b16 {%q2}, [%g];")
    cases.append("movmatrix.sync.aligned.m8n8.trans.b16 %q0, %q1;")
    return cases


def moves_kernel() -> str:
    """Each case has shared memory of its own; with one array of 1024 bytes each there is room for all."""
    body = []
    for number, case in enumerate(_move_cases()):
        body.append(
            "{" + MOVES + case + f"st.global.v4.b32 [%to+{16 * number}], {{%q0, %q1, %q2, %q3}}; bar.sync 0; }}"
        )
    head = (
        ".visible .entry k(.param .u64 in, .param .u64 out) { .reg .b64 %from, %to, %off; .reg .b32 %t; "
        "ld.param.u64 %from, [in]; ld.param.u64 %to, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %off, %t, 16; "
        f"add.s64 %from, %from, %off; mul.wide.u32 %off, %t, {16 * len(body)}; add.s64 %to, %to, %off;"
    )
    return HEADER + head + "\n".join(body) + "ret; }"


@pytest.mark.parametrize("seed", range(2))
def test_moves_of_matrices_agree(simulator, seed):
    with Duel(simulator, moves_kernel()) as duel:
        words = np.random.default_rng(seed).integers(0, 1 << 32, 128, dtype=np.uint32)
        mine, theirs = duel.outputs({"in": words}, 16 * 32 * len(_move_cases()))
        assert mine == theirs


def _wmma(shape: str, kind: str, out: str, layouts: tuple[str, str], space: str) -> str:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    d, a, b, c = _registers(int(m), int(n), int(k), kind, out, out, wmma=True)
    register = "f64" if kind == "f64" else "f32" if out == "f32" else "b32"
    types = f"{out}.{out}" if kind == "f16" else f"{out}.{kind}.{kind}.{out}"
    lead = {"row": (k, n), "col": (m, k)}
    strides = lead[layouts[0]][0], lead[layouts[1]][1]
    element = f"f{BITS[out]}" if out[0] == "f" else out
    end = ".rn" if kind == "f64" else ".satfinite" if out == "s32" else ""
    inputs = "b64" if kind == "f64" else "b32"
    move = f"wmma.load.{{}}.sync.aligned.{{}}.{shape}{space}.{{}}"
    lines = [
        f"{{ .reg .{inputs} %a<{a}>, %b<{b}>; .reg .{register} %c<{c}>, %d<{d}>;",
        move.format("a", layouts[0], kind) + f" {_names('a', a)}, [%x], {strides[0]};",
        move.format("b", layouts[1], kind) + f" {_names('b', b)}, [%x+2048], {strides[1]};",
        move.format("c", "col", element) + f" {_names('c', c)}, [%x+4096], {m};",
        f"wmma.mma.sync.aligned.{layouts[0]}.{layouts[1]}.{shape}.{types}{end} "
        f"{_names('d', d)}, {_names('a', a)}, {_names('b', b)}, {_names('c', c)};",
        f"wmma.store.d.sync.aligned.row.{shape}.global.{element} [%to], {_names('d', d)}, {n}; }}",
    ]
    return "\n".join(lines)


FRAGMENTS = [
    (shape, kind, out, layouts, space)
    for kind, outs, shapes in (
        ("f16", ("f16", "f32"), ("m16n16k16", "m32n8k16", "m8n32k16")),
        ("bf16", ("f32",), ("m16n16k16", "m32n8k16", "m8n32k16")),
        ("s8", ("s32",), ("m16n16k16", "m32n8k16", "m8n32k16")),
        ("u8", ("s32",), ("m32n8k16",)),
        ("tf32", ("f32",), ("m16n16k8",)),
        ("f64", ("f64",), ("m8n8k4",)),
    )
    for shape in shapes
    for out in outs
    for layouts, space in ((("row", "col"), ".global"), (("col", "row"), ".global"), (("row", "row"), ""))
]


def fragments_kernel() -> str:
    """Every product of `FRAGMENTS`, one after the other."""
    body = []
    for number, case in enumerate(FRAGMENTS):
        kind = {"s8": 0, "u8": 0, "f16": 1, "bf16": 2, "tf32": 3, "f64": 4}[case[1]]
        # Accumulators of float16, float32 and int32 lie in pages of their own.
        page = kind * 3 + {"f16": 0, "f32": 1, "f64": 1, "s32": 2}[case[2]]
        body.append(f"add.s64 %x, %in, {8192 * page}; add.s64 %to, %out, {2048 * number};")
        body.append(_wmma(*case))
    head = (
        ".visible .entry k(.param .u64 in, .param .u64 out) { .reg .b64 %in, %out, %x, %to; "
        "ld.param.u64 %in, [in]; ld.param.u64 %out, [out];"
    )
    return HEADER + head + "\n".join(body) + "ret; }"


def test_wmma_agrees_with_another_layout_of_its_fragments(simulator):
    source = random.Random(5)
    pages = []
    for a in ("s8", "f16", "bf16", "tf32", "f64"):
        for c in ("f16", "f64" if a == "f64" else "f32", "s32"):
            page = b"".join(_value(source, a) for _ in range(4096))[:4096]
            pages.append(page + b"".join(_value(source, c) for _ in range(4096))[:4096])
    with Duel(simulator, fragments_kernel()) as duel:
        mine, theirs = duel.outputs({"in": np.frombuffer(b"".join(pages), np.uint32)}, 2048 * len(FRAGMENTS))
        for number, case in enumerate(FRAGMENTS):
            part = slice(2048 * number, 2048 * (number + 1))
            assert _same(case[2], mine[part], theirs[part]), case
