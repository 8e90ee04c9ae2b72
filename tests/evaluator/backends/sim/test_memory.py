# ruff: noqa: E501 - PTX reads best one statement after the other
"""Loads and stores of every width in every space, atomics, and operations of a whole warp, against the interpreter."""

from collections.abc import Iterator

import numpy as np
import pytest
from duel import HEADER, Duel

THREADS = 70
SLOT = 16

# Every case may use %t (thread), %l (lane), %m (the lanes of its warp), %in, %spot (its shared word), %x and %y (its
# inputs), %w (64 bits of input), and stores results with `put`.
DECLARED = """
.reg .u32 %t, %l, %m, %x, %y, %r, %s, %spot; .reg .u64 %in, %out, %w, %a, %b, %q; .reg .pred %p, %d; .reg .f32 %f;
.reg .b16 %h, %g; .reg .f64 %e; .shared .align 16 .b8 tile[4096]; .local .align 16 .b8 room[64]; .shared .u32 first;
ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mov.u32 %l, %laneid;
mul.wide.u32 %a, %t, 16; add.s64 %in, %in, %a; add.s64 %out, %out, %a; ld.global.v2.u32 {%x, %y}, [%in];
ld.global.u64 %w, [%in+8]; mov.u32 %spot, tile; mad.lo.u32 %spot, %t, 16, %spot; mov.u32 %r, 0; mov.u64 %q, 0;
setp.lt.u32 %p, %t, 64; selp.u32 %m, -1, 63, %p; st.shared.v4.u32 [%spot], {%x, %y, %x, %y};
mov.u64 %a, room; st.local.v4.u32 [%a], {%y, %x, %y, %x}; st.local.u64 [%a+16], %w; bar.sync 0;
"""


def _accesses() -> Iterator[str]:
    for kind in ("u8", "s8", "u16", "s16", "u32", "s32", "b32", "f32"):
        register = {"f32": "%f"}.get(kind, "%r")
        back = "mov.b32 %r, %f; " if kind == "f32" else ""
        for space, place in (("global", "%in+4"), ("shared", "%spot+8"), ("local", "%b+12")):
            yield f"mov.u64 %b, room; ld.{space}.{kind} {register}, [{place}]; {back}"
        if kind != "f32":
            yield f"ld.global.{kind} %q, [%in+4];"
    for kind in ("u8", "s8", "u16", "s16"):
        yield f"ld.global.{kind} %h, [%in+2]; shr.u16 %g, %h, 3; mov.b32 %r, {{%h, %g}};"
        yield f"ld.global.v2.{kind} {{%h, %g}}, [%in+4]; mov.b32 %r, {{%g, %h}};"
    yield "ld.global.v4.u8 {%r, %s, %x, %y}, [%in]; mad.lo.u32 %r, %r, 3, %s; mad.lo.u32 %r, %y, 7, %r;"
    yield "ld.global.v4.u16 {%r, %s, %x, %y}, [%in+8]; mad.lo.u32 %r, %r, 3, %s; mad.lo.u32 %r, %y, 7, %r;"
    yield "ld.shared.v4.f32 {%f, _, _, %r}, [%spot]; mov.b32 %s, %f; xor.b32 %r, %r, %s;"
    yield "ld.global.nc.L1::no_allocate.L2::128B.v2.u64 {%q, %a}, [%in]; xor.b64 %q, %q, %a;"
    yield "ld.global.f64 %e, [%in+8]; mov.b64 %q, %e;"
    for kind in ("u8", "u16", "u32"):
        yield (
            f"st.shared.{kind} [%spot+5], %x; ld.shared.u64 %q, [%spot];"
            if kind == "u8"
            else (f"st.shared.{kind} [%spot+4], %y; ld.shared.u64 %q, [%spot];")
        )
        yield f"mov.u64 %a, room; st.local.{kind} [%a+8], %w; ld.local.u64 %q, [%a+8];"
    yield "st.shared.v2.u8 [%spot+2], {%x, %y}; st.shared.v2.u16 [%spot+4], {%y, %x}; ld.shared.u64 %q, [%spot];"
    yield "st.shared.v2.f32 [%spot], {0f3F800000, %f}; mov.b32 %f, %y; st.shared.f32 [%spot+4], %f; ld.shared.u64 %q, [%spot];"
    yield "@%p st.shared.u32 [%spot], 9; @!%p ld.shared.u32 %r, [%spot+4]; ld.shared.u32 %s, [%spot]; add.u32 %r, %r, %s;"
    # nvcc folds constants into a register below 0 and an offset that brings it back: `[%s+5004]`.
    yield "sub.u32 %s, %spot, 5000; ld.shared.u32 %r, [%s+5004]; st.shared.v2.u32 [%s+5000], {%w, %t}; ld.shared.u64 %q, [%spot];"
    yield "add.u32 %s, %spot, 0x90000000; ld.shared.u32 %r, [%s+0x70000004]; atom.shared.add.u32 %s, [%s+0x70000000], 9; ld.shared.u64 %q, [%spot];"
    yield "mov.u64 %a, tile; cvta.shared.u64 %a, %a; cvt.u64.u32 %b, %t; shl.b64 %b, %b, 4; add.u64 %a, %a, %b; ld.u64 %q, [%a];"
    yield "cvt.u64.u32 %a, %spot; cvta.shared.u64 %a, %a; cvta.to.shared.u64 %b, %a; ld.shared.u32 %r, [%b+4]; st.u32 [%a], %r; ld.shared.u64 %q, [%spot];"
    yield "mov.u64 %a, room; cvta.local.u64 %a, %a; st.u32 [%a+4], %t; ld.v2.u32 {%r, %s}, [%a]; xor.b32 %r, %r, %s;"
    for space in ("shared", "local", "global"):
        for kind, address in (("shared", "tile"), ("local", "room"), ("global", "numbers")):
            yield f"mov.u64 %a, {address}; cvta.{kind}.u64 %a, %a; isspacep.{space} %d, %a; selp.u32 %r, 1, 2, %d;"
    yield "and.b32 %r, %t, 7; mul.wide.u32 %a, %r, 2; mov.u64 %b, numbers; add.u64 %a, %a, %b; ld.global.s16 %r, [%a];"
    yield "mov.u64 %b, chain; ld.global.u64 %b, [%b+8]; ld.u32 %r, [%b+4];"
    yield "ld.const.f64 %e, [halves+8]; mov.b64 %q, %e;"
    yield "ld.const.v2.f32 {%f, %r}, [halves+16]; mov.b32 %s, %f; xor.b32 %r, %r, %s;"
    yield "mov.u32 %r, %ntid.x; mad.lo.u32 %r, %r, 1000, %l; mov.u32 %s, %nctaid.x; mad.lo.u32 %r, %s, 77, %r;"
    for which in ("eq", "lt", "le", "gt", "ge"):
        yield f"mov.u32 %r, %lanemask_{which};"
    yield "mov.u32 %r, %warpid; mov.u32 %s, %nwarpid; mad.lo.u32 %r, %s, 100, %r;"


def _atomics() -> Iterator[str]:
    for space, place in (("shared", "first"), ("global", "%b")):
        start = f"mov.u64 %b, counter; bar.sync 0; st.{space}.u32 [{place}], 17; bar.sync 0; "
        end = f" bar.sync 0; ld.{space}.u32 %s, [{place}]; mad.lo.u32 %r, %s, 31, %r; bar.sync 0;"
        for operation, kinds in (
            ("add", ("u32", "s32")), ("min", ("u32", "s32")), ("max", ("u32", "s32")), ("inc", ("u32",)),
            ("dec", ("u32",)), ("and", ("b32",)), ("or", ("b32",)), ("xor", ("b32",)), ("exch", ("b32",)),
        ):  # fmt: skip
            for kind in kinds:
                yield f"{start} atom.{space}.{operation}.{kind} %r, [{place}], %x; {end}"
                yield (
                    f"{start} @%p red.{space}.{operation}.{kind} [{place}], %y; {end}" if operation != "exch" else ";"
                )
        yield f"{start} atom.{space}.cas.b32 %r, [{place}], %t, %x; {end}"
        yield f"{start} cvt.rn.f32.u32 %f, %t; atom.{space}.add.f32 %f, [{place}], %f; mov.b32 %r, %f; {end}"
        yield f"{start} atom.{space}.add.noftz.f16x2 %r, [{place}], 0x3C003800; {end}"
        wide = f"mov.u64 %b, counter; bar.sync 0; st.{space}.u64 [{place}], 17; bar.sync 0; "
        place = "tile" if space == "shared" else place
        wide = f"mov.u64 %b, counter; bar.sync 0; st.{space}.u64 [{place}], 17; bar.sync 0; "
        for operation, kind in (("add", "u64"), ("min", "s64"), ("max", "u64"), ("and", "b64"), ("exch", "b64")):
            yield f"{wide} atom.{space}.{operation}.{kind} %q, [{place}], %w; bar.sync 0;"
        yield f"{wide} atom.{space}.cas.b64 %q, [{place}], 17, %w; bar.sync 0;"
        yield f"{wide} cvt.rn.f64.u32 %e, %t; atom.{space}.add.f64 %e, [{place}], %e; mov.b64 %q, %e; bar.sync 0;"


def _warp() -> Iterator[str]:
    for mode in ("up", "down", "bfly", "idx"):
        for width in (32, 16, 8, 2):
            clamp = (32 - width) << 8 | (0 if mode == "up" else 31)
            for delta in ("1", "3", "%s"):
                # Only the full warps: what a lane that is not there holds is undefined.
                yield (
                    f"and.b32 %s, %x, 31; @%p shfl.sync.{mode}.b32 %r|%d, %y, {delta}, {clamp}, -1; "
                    "@%p selp.u32 %s, 1, 2, %d; @%p mad.lo.u32 %r, %r, 3, %s;"
                )
    yield "and.b32 %s, %x, 3; setp.eq.u32 %d, %s, 0; vote.sync.ballot.b32 %r, %d, %m;"
    for mode in ("all", "any", "uni"):
        for value in (0, 1, 2):
            yield (
                f"shr.u32 %s, %t, 5; setp.lt.u32 %d, %s, {value}; vote.sync.{mode}.pred %d, %d, %m; selp.u32 %r, 1, 2, %d;"
            )
            yield f"shr.u32 %s, %t, 4; setp.lt.u32 %d, %s, {value}; vote.sync.{mode}.pred %d, !%d, %m; selp.u32 %r, 1, 2, %d;"
    yield "and.b32 %s, %x, 3; match.any.sync.b32 %r, %s, %m;"
    yield "and.b64 %w, %w, 1; match.any.sync.b64 %r, %w, %m;"
    for bits in (5, 0):
        yield f"shr.u32 %s, %t, {bits}; match.all.sync.b32 %r|%d, %s, %m; selp.u32 %s, 1, 2, %d; mad.lo.u32 %r, %r, 3, %s;"
    for operation, kind in (
        ("add", "u32"), ("add", "s32"), ("min", "u32"), ("min", "s32"), ("max", "u32"), ("max", "s32"),
        ("and", "b32"), ("or", "b32"), ("xor", "b32"),
    ):  # fmt: skip
        yield f"redux.sync.{operation}.{kind} %r, %x, %m;"
    yield "activemask.b32 %r;"


FAMILIES = {"accesses": _accesses, "atomics": _atomics, "warp": _warp}
VARIABLES = """
.global .align 2 .u16 numbers[8] = {1, 65535, 0x8000, 7, 99};
.global .align 8 .u64 chain[2] = {0, generic(numbers)};
.global .align 8 .u64 counter;
.const .align 8 .f64 halves[4] = {0d3FE0000000000000, 0dBFF8000000000000, 0d400921FB54442D18};
"""


def module(cases: list[str]) -> str:
    kernels = [
        f".visible .entry k{n}(.param .u64 in, .param .u64 out) {{ {DECLARED}\n{case}\n"
        "st.global.u32 [%out], %r; st.global.u64 [%out+8], %q; ret; }"
        for n, case in enumerate(cases)
    ]
    return HEADER + VARIABLES + "\n".join(kernels)


@pytest.mark.parametrize("family", FAMILIES)
def test_both_leave_the_same_bytes(family, simulator):
    cases = list(dict.fromkeys(FAMILIES[family]()))
    source = np.random.default_rng(9)
    words = source.integers(0, 1 << 32, THREADS * 4).astype(np.uint32)
    words[::7] = source.choice([0, 1, 17, 0x80000000, 0xFFFFFFFF, 5], words[::7].size)
    wrong = []
    with Duel(simulator, module(cases)) as duel:
        for n, case in enumerate(cases):
            mine, theirs = duel.outputs({"in": words}, SLOT * THREADS, f"k{n}", block=THREADS)
            for thread in range(THREADS):
                x, y = (data[SLOT * thread : SLOT * (thread + 1)] for data in (mine, theirs))
                if x[:4] != y[:4] or x[8:] != y[8:]:
                    wrong.append(f"{case}  thread {thread}: simulator {x.hex(' ', 4)}, interpreter {y.hex(' ', 4)}")
                    break
    assert not wrong, f"{len(wrong)} of {len(cases)} differ\n" + "\n".join(wrong)
