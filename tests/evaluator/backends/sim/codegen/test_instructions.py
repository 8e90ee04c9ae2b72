"""Every instruction with one result, on values that hurt: the simulator and the interpreter must agree bit for bit.

A family of instructions is one PTX kernel, so that it is one compilation. `{a:f32}` in a template is a register of
that type that holds an input, `{d:f32}` the result.
"""

import itertools
import math
import random
import re
from collections.abc import Iterator

import numpy as np
import pytest
from arithmetic import FORMATS, decode
from duel import HEADER, Duel
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from video_cases import simd_cases, video_cases

from evaluator.backends.sim.ptx.model import TYPE_BYTES

THREADS = 32
INPUTS = "abce"
INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
SIGNED = ("s16", "s32", "s64")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _integers() -> Iterator[str]:
    for t in INTEGERS:
        for op in ("add", "sub", "mul.lo", "div", "rem", "min", "max", "mul.hi"):
            yield f"{op}.{t} {{d:{t}}}, {{a:{t}}}, {{b:{t}}};"
            yield f"{op}.{t} {{d:{t}}}, {{a:{t}}}, -3;"
        yield f"div.{t} {{d:{t}}}, {{a:{t}}}, -1;"
        yield f"mad.lo.{t} {{d:{t}}}, {{a:{t}}}, {{b:{t}}}, {{c:{t}}};"
        yield f"mad.hi.{t} {{d:{t}}}, {{a:{t}}}, {{b:{t}}}, {{c:{t}}};"
        yield f"shr.{t} {{d:{t}}}, {{a:{t}}}, {{b:u32}};"
        yield f"shr.{t} {{d:{t}}}, -7, {{b:u32}};"
    for t, wide in (("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")):
        yield f"mul.wide.{t} {{d:{wide}}}, {{a:{t}}}, {{b:{t}}};"
        yield f"mul.wide.{t} {{d:{wide}}}, {{a:{t}}}, 16;"
        yield f"mul.wide.{t} {{d:{wide}}}, {{a:{t}}}, -5;"
        yield f"mad.wide.{t} {{d:{wide}}}, {{a:{t}}}, {{b:{t}}}, {{c:{wide}}};"
    for t in SIGNED:
        yield f"neg.{t} {{d:{t}}}, {{a:{t}}};"
        yield f"abs.{t} {{d:{t}}}, {{a:{t}}};"
    for op in ("add", "sub"):
        yield f"{op}.sat.s32 {{d:s32}}, {{a:s32}}, {{b:s32}};"
    for op in ("mad", "mad24"):
        yield f"{op}.hi.sat.s32 {{d:s32}}, {{a:s32}}, {{b:s32}}, {{c:s32}};"
    for t in INTEGERS:
        yield f"sad.{t} {{d:{t}}}, {{a:{t}}}, {{b:{t}}}, {{c:{t}}};"
    for op in ("min", "max"):
        yield f"{op}.relu.s32 {{d:s32}}, {{a:s32}}, {{b:s32}};"
        yield f"{op}.relu.s16x2 {{d:b32}}, {{a:b32}}, {{b:b32}};"
    for op, t in itertools.product(("add", "min", "max"), ("u16x2", "s16x2")):
        yield f"{op}.{t} {{d:b32}}, {{a:b32}}, {{b:b32}};"
    for t in ("u32", "s32"):
        for half in ("lo", "hi"):
            yield f"mul24.{half}.{t} {{d:{t}}}, {{a:{t}}}, {{b:{t}}};"
            yield f"mad24.{half}.{t} {{d:{t}}}, {{a:{t}}}, {{b:{t}}}, {{c:{t}}};"
        for u in ("u32", "s32"):
            yield f"dp4a.{t}.{u} {{d:b32}}, {{a:b32}}, {{b:b32}}, {{c:b32}};"
            yield f"dp2a.lo.{t}.{u} {{d:b32}}, {{a:b32}}, {{b:b32}}, {{c:b32}};"
            yield f"dp2a.hi.{t}.{u} {{d:b32}}, {{a:b32}}, {{b:b32}}, {{c:b32}};"


def _bits() -> Iterator[str]:
    for t in ("b16", "b32", "b64"):
        for op in ("and", "or", "xor"):
            yield f"{op}.{t} {{d:{t}}}, {{a:{t}}}, {{b:{t}}};"
            yield f"{op}.{t} {{d:{t}}}, {{a:{t}}}, -16;"
        yield f"not.{t} {{d:{t}}}, {{a:{t}}};"
        yield f"cnot.{t} {{d:{t}}}, {{a:{t}}};"
        yield f"shl.{t} {{d:{t}}}, {{a:{t}}}, {{b:u32}};"
        yield f"shl.{t} {{d:{t}}}, {{a:{t}}}, 3;"
        yield f"mov.{t} {{d:{t}}}, -1;"
        yield f"selp.{t} {{d:{t}}}, {{a:{t}}}, {{b:{t}}}, {{c:pred}};"
        yield f"selp.{t} {{d:{t}}}, -1, 1, {{c:pred}};"
    for op in ("and", "or", "xor"):
        yield f"{op}.pred {{d:pred}}, {{a:pred}}, {{b:pred}};"
    yield "not.pred {d:pred}, {a:pred};"
    for t in ("b32", "b64"):
        yield f"popc.{t} {{d:u32}}, {{a:{t}}};"
        yield f"clz.{t} {{d:u32}}, {{a:{t}}};"
        yield f"brev.{t} {{d:{t}}}, {{a:{t}}};"
        yield f"bfi.{t} {{d:{t}}}, {{a:{t}}}, {{b:{t}}}, {{c:u32}}, {{e:u32}};"
        yield f"bfi.{t} {{d:{t}}}, {{a:{t}}}, {{b:{t}}}, 5, 9;"
        yield f"slct.{t}.s32 {{d:{t}}}, {{a:{t}}}, {{b:{t}}}, {{c:s32}};"
        yield f"slct.{t}.f32 {{d:{t}}}, {{a:{t}}}, {{b:{t}}}, {{c:f32}};"
        yield f"slct.ftz.{t}.f32 {{d:{t}}}, {{a:{t}}}, {{b:{t}}}, {{c:f32}};"
    for t in ("u32", "s32", "u64", "s64"):
        yield f"bfind.{t} {{d:u32}}, {{a:{t}}};"
        yield f"bfind.shiftamt.{t} {{d:u32}}, {{a:{t}}};"
        yield f"bfe.{t} {{d:{t}}}, {{a:{t}}}, {{b:u32}}, {{c:u32}};"
        yield f"bfe.{t} {{d:{t}}}, {{a:{t}}}, 8, 8;"
        yield f"bfe.{t} {{d:{t}}}, {{a:{t}}}, 20, 60;"
    for side in "lr":
        for rule in ("wrap", "clamp"):
            yield f"shf.{side}.{rule}.b32 {{d:b32}}, {{a:b32}}, {{b:b32}}, {{c:u32}};"
    for rule, t in itertools.product(("wrap", "clamp"), ("u32", "s32")):
        yield f"szext.{rule}.{t} {{d:{t}}}, {{a:{t}}}, {{b:u32}};"
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        yield f"prmt.b32.{mode} {{d:b32}}, {{a:b32}}, {{b:b32}}, {{c:b32}};"
    for boolean, table in (("and", 0x80), ("or", 0x80), ("or", 0x00), ("and", 0xFE)):
        yield (
            f"{{ .reg .pred p; lop3.{boolean}.b32 {{d:b32}}|p, {{a:b32}}, {{b:b32}}, {{c:b32}}, {table}, {{e:pred}}; "
            "@p xor.b32 {d:b32}, {d:b32}, 0x55; }"
        )
        yield f"lop3.{boolean}.b32 _|{{d:pred}}, {{a:b32}}, {{b:b32}}, {{c:b32}}, {table}, !{{e:pred}};"
    for rule in ("wrap", "clamp"):
        yield f"bmsk.{rule}.b32 {{d:b32}}, {{a:u32}}, {{b:u32}};"
    yield "fns.b32 {d:b32}, {a:b32}, 0, 2;"
    for n in (-3, -1, 0, 1, 4):
        yield f"{{ .reg .b32 base; and.b32 base, {{b:b32}}, 31; fns.b32 {{d:b32}}, {{a:b32}}, base, {n}; }}"
    yield "prmt.b32 {d:b32}, {a:b32}, {b:b32}, {c:b32};"
    yield "prmt.b32 {d:b32}, {a:b32}, {b:b32}, 0x5410;"
    for table in (0x00, 0x1B, 0x78, 0x96, 0xE8, 0xFE, 0xFF):
        yield f"lop3.b32 {{d:b32}}, {{a:b32}}, {{b:b32}}, {{c:b32}}, {table};"
    yield "mov.b32 {d:b32}, {{a:b16}, {b:b16}};"
    yield "mov.b64 {d:b64}, {{a:b32}, {b:b32}};"
    yield "mov.b64 {d:b64}, {{a:b16}, {b:b16}, {c:b16}, {e:b16}};"
    yield "{ .reg .b32 lo, hi; mov.b64 {lo, hi}, {a:b64}; sub.u32 {d:u32}, lo, hi; }"
    yield "{ .reg .b16 lo, hi; mov.b32 {lo, hi}, {a:b32}; sub.u16 {d:u16}, lo, hi; }"
    yield "{ .reg .b16 hi; mov.b32 {_, hi}, {a:b32}; shr.u16 {d:u16}, hi, 3; }"
    yield "{ .reg .b16 p, q, r, s; mov.b64 {p, q, r, s}, {a:b64}; mov.b64 {d:b64}, {s, q, p, r}; }"


def _carries() -> Iterator[str]:
    for t in ("u32", "s32", "u64", "s64"):
        for op in ("add", "sub"):
            yield (
                f"{{ .reg .{t} x, y; {op}.cc.{t} x, {{a:{t}}}, {{b:{t}}}; {op}c.cc.{t} y, {{b:{t}}}, {{c:{t}}}; "
                f"{op}c.{t} {{d:{t}}}, {{e:{t}}}, 0; xor.b{t[1:]} {{d:{t}}}, {{d:{t}}}, x; "
                f"xor.b{t[1:]} {{d:{t}}}, {{d:{t}}}, y; }}"
            )
        for half in ("lo", "hi"):
            yield (
                f"{{ .reg .{t} x; mad.{half}.cc.{t} x, {{a:{t}}}, {{b:{t}}}, {{c:{t}}}; "
                f"madc.{half}.{t} {{d:{t}}}, {{b:{t}}}, {{e:{t}}}, x; }}"
            )
            yield (
                f"{{ .reg .{t} x; add.cc.{t} x, {{a:{t}}}, {{b:{t}}}; "
                f"madc.{half}.cc.{t} x, {{b:{t}}}, {{e:{t}}}, x; addc.{t} {{d:{t}}}, x, x; }}"
            )
    # Each kind of carry into each kind of instruction that takes one.
    first = ("add.cc", "sub.cc", "mad.lo.cc", "mad.hi.cc")
    then = ("addc", "subc", "madc.lo", "madc.hi")
    for t, one, two in itertools.product(("u32", "s32", "u64", "s64"), first, then):
        third = {"mad.lo.cc": "subc", "mad.hi.cc": "addc", "add.cc": "subc", "sub.cc": "addc"}[one]
        one_more, two_more = (", {c:X}" if op.startswith("mad") else "" for op in (one, two))
        yield (
            f"{{ .reg .X x, y; {one}.X x, {{a:X}}, {{b:X}}{one_more}; {two}.cc.X y, {{c:X}}, {{e:X}}{two_more}; "
            f"{third}.X {{d:X}}, y, x; }}"
        ).replace("X", t)
    for one, two in (("add.cc", "subc"), ("sub.cc", "addc"), ("sub.cc", "subc")):
        yield (
            f"{{ .reg .u32 x, y; .reg .pred p; setp.lt.u32 p, {{a:u32}}, {{b:u32}}; "
            f"{one}.u32 x, {{a:u32}}, {{b:u32}}; mov.u32 {{d:u32}}, 0; "
            f"@p {one}.u32 x, {{b:u32}}, {{c:u32}}; @!p {two}.u32 {{d:u32}}, x, {{e:u32}}; "
            f"@p {two}.cc.u32 y, {{c:u32}}, x; {two}.u32 {{d:u32}}, {{d:u32}}, 7; }}"
        )


def _singles() -> Iterator[str]:
    for flags in ("", ".ftz", ".sat", ".ftz.sat"):
        for mode in (".rn", ".rz", ".rm", ".rp"):
            for op in ("add", "sub", "mul"):
                yield f"{op}{mode}{flags}.f32 {{d:f32}}, {{a:f32}}, {{b:f32}};"
            yield f"fma{mode}{flags}.f32 {{d:f32}}, {{a:f32}}, {{b:f32}}, {{c:f32}};"
    for ftz in ("", ".ftz"):
        for mode in (".rn", ".rz", ".rm", ".rp"):
            yield f"div{mode}{ftz}.f32 {{d:f32}}, {{a:f32}}, {{b:f32}};"
            yield f"sqrt{mode}{ftz}.f32 {{d:f32}}, {{a:f32}};"
            yield f"rcp{mode}{ftz}.f32 {{d:f32}}, {{a:f32}};"
        for op in ("min", "max"):
            yield f"{op}{ftz}.f32 {{d:f32}}, {{a:f32}}, {{b:f32}};"
        for op in ("neg", "abs", "sqrt.approx", "rsqrt.approx", "rcp.approx", "ex2.approx", "lg2.approx"):
            yield f"{op}{ftz}.f32 {{d:f32}}, {{a:f32}};"
        yield f"sin.approx{ftz}.f32 {{d:f32}}, {{a:f32}};"
        yield f"cos.approx{ftz}.f32 {{d:f32}}, {{a:f32}};"
        yield f"div.full{ftz}.f32 {{d:f32}}, {{a:f32}}, {{b:f32}};"
    for op in ("min", "max"):
        for flags in (".NaN", ".xorsign.abs", ".NaN.xorsign.abs", ".ftz.NaN"):
            yield f"{op}{flags}.f32 {{d:f32}}, {{a:f32}}, {{b:f32}};"
    yield "tanh.approx.f32 {d:f32}, {a:f32};"
    yield "add.f32 {d:f32}, {a:f32}, 0f3F800000;"
    yield "mul.f32 {d:f32}, {a:f32}, 0fBF000000;"
    yield "copysign.f32 {d:f32}, {a:f32}, {b:f32};"


def _doubles() -> Iterator[str]:
    for mode in (".rn", ".rz", ".rm", ".rp"):
        for op in ("add", "sub", "mul", "div"):
            yield f"{op}{mode}.f64 {{d:f64}}, {{a:f64}}, {{b:f64}};"
        yield f"fma{mode}.f64 {{d:f64}}, {{a:f64}}, {{b:f64}}, {{c:f64}};"
        yield f"sqrt{mode}.f64 {{d:f64}}, {{a:f64}};"
        yield f"rcp{mode}.f64 {{d:f64}}, {{a:f64}};"
    for op in ("min", "max", "copysign"):
        yield f"{op}.f64 {{d:f64}}, {{a:f64}}, {{b:f64}};"
    yield "neg.f64 {d:f64}, {a:f64};"
    yield "abs.f64 {d:f64}, {a:f64};"
    yield "add.f64 {d:f64}, {a:f64}, 0dBFF0000000000000;"
    for t in ("f16", "f16x2", "bf16", "bf16x2"):
        register = "b32" if t.endswith("x2") else "b16"
        for op in ("add", "sub", "mul"):
            yield f"{op}.{t} {{d:{register}@{t}}}, {{a:{register}}}, {{b:{register}}};"
        for op in ("min", "max"):
            yield f"{op}.{t} {{d:{register}@{t}}}, {{a:{register}}}, {{b:{register}}};"
        yield f"fma.rn.{t} {{d:{register}@{t}}}, {{a:{register}}}, {{b:{register}}}, {{c:{register}}};"
        yield f"fma.rn.relu.{t} {{d:{register}@{t}}}, {{a:{register}}}, {{b:{register}}}, {{c:{register}}};"
        for op in ("min", "max"):
            yield f"{op}.NaN.{t} {{d:{register}@{t}}}, {{a:{register}}}, {{b:{register}}};"
        for op in ("min", "max"):
            for nan in ("", ".NaN"):
                yield f"{op}{nan}.xorsign.abs.{t} {{d:{register}@{t}}}, {{a:{register}}}, {{b:{register}}};"
        if t[0] == "f":
            for op in ("add", "sub", "mul", "min", "max"):
                yield f"{op}.ftz.{t} {{d:{register}@{t}}}, {{a:{register}}}, {{b:{register}}};"
            for op in ("neg", "abs"):
                yield f"{op}.ftz.{t} {{d:{register}@{t}}}, {{a:{register}}};"
            yield f"fma.rn.ftz.{t} {{d:{register}@{t}}}, {{a:{register}}}, {{b:{register}}}, {{c:{register}}};"
            yield f"add.sat.{t} {{d:{register}@{t}}}, {{a:{register}}}, {{b:{register}}};"
        yield f"neg.{t} {{d:{register}@{t}}}, {{a:{register}}};"
        yield f"abs.{t} {{d:{register}@{t}}}, {{a:{register}}};"


def _comparisons() -> Iterator[str]:
    for t in INTEGERS:
        for c in COMPARISONS if t[0] == "s" else (*COMPARISONS, "lo", "ls", "hi", "hs"):
            yield f"setp.{c}.{t} {{d:pred}}, {{a:{t}}}, {{b:{t}}};"
        yield f"setp.lt.{t} {{d:pred}}, {{a:{t}}}, -2;"
        yield f"setp.eq.{t} {{d:pred}}, {{a:{t}}}, -1;"
    for t in ("b16", "b32", "b64"):
        yield f"setp.eq.{t} {{d:pred}}, {{a:{t}}}, {{b:{t}}};"
        yield f"setp.ne.{t} {{d:pred}}, {{a:{t}}}, -1;"
        yield f"setp.eq.{t} {{d:pred}}, {{a:{t}}}, {{a:{t}}};"
    for t in ("f32", "f64"):
        for c in (*COMPARISONS, *(c + "u" for c in COMPARISONS), "num", "nan"):
            yield f"setp.{c}.{t} {{d:pred}}, {{a:{t}}}, {{b:{t}}};"
            yield f"set.{c}.u32.{t} {{d:u32}}, {{a:{t}}}, {{b:{t}}};"
        for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield f"testp.{test}.{t} {{d:pred}}, {{a:{t}}};"
    for c in COMPARISONS:
        yield f"setp.{c}.ftz.f32 {{d:pred}}, {{a:f32}}, {{b:f32}};"
        yield f"set.{c}.f32.f32 {{d:f32}}, {{a:f32}}, {{b:f32}};"
        yield f"set.{c}.f32.s32 {{d:f32}}, {{a:s32}}, {{b:s32}};"
        yield f"set.{c}.u32.u64 {{d:u32}}, {{a:u64}}, {{b:u64}};"
        yield f"set.{c}.s32.s16 {{d:s32}}, {{a:s16}}, {{b:s16}};"
        yield f"setp.{c}u.f16 {{d:pred}}, {{a:b16}}, {{b:b16}};"
        yield f"setp.{c}.f16 {{d:pred}}, {{a:b16}}, {{b:b16}};"
    for t in ("f16x2", "bf16x2"):
        for c in ("eq", "ltu", "ge", "nan"):
            yield f"set.{c}.{t}.{t} {{d:b32}}, {{a:b32}}, {{b:b32}};"
            yield f"set.{c}.u32.{t} {{d:b32}}, {{a:b32}}, {{b:b32}};"
            yield (
                f"{{ .reg .pred p, q; setp.{c}.{t} p|q, {{a:b32}}, {{b:b32}}; selp.u32 {{d:u32}}, 2, 0, q; "
                "@p add.u32 {d:u32}, {d:u32}, 1; }"
            )
    for t in ("f16", "bf16"):
        for c, dtype in itertools.product(("lt", "geu"), ("u16", "s16", "u32", "s32", t)):
            d = "b16" if dtype == t else dtype
            yield f"set.{c}.{dtype}.{t} {{d:{d}}}, {{a:b16}}, {{b:b16}};"
    for c in ("eq", "lt"):
        yield f"setp.{c}.ftz.f16 {{d:pred}}, {{a:b16}}, {{b:b16}};"
        yield f"set.{c}.ftz.u32.f16x2 {{d:b32}}, {{a:b32}}, {{b:b32}};"
    for boolean in ("and", "or", "xor"):
        for negated in ("", "!"):
            yield f"set.lt.{boolean}.u32.s32 {{d:u32}}, {{a:s32}}, {{b:s32}}, {negated}{{c:pred}};"
            yield f"set.geu.{boolean}.f32.f32 {{d:f32}}, {{a:f32}}, {{b:f32}}, {negated}{{c:pred}};"
            yield f"set.eq.{boolean}.f16x2.f16x2 {{d:b32}}, {{a:b32}}, {{b:b32}}, {negated}{{c:pred}};"
        yield f"setp.lt.{boolean}.s32 {{d:pred}}, {{a:s32}}, {{b:s32}}, {{c:pred}};"
        yield f"setp.geu.{boolean}.f32 {{d:pred}}, {{a:f32}}, {{b:f32}}, !{{c:pred}};"
        yield (
            f"{{ .reg .pred p, q; setp.gt.{boolean}.u32 p|q, {{a:u32}}, {{b:u32}}, {{c:pred}}; "
            "selp.u32 {d:u32}, 2, 0, q; @p add.u32 {d:u32}, {d:u32}, 1; }"
        )
    yield (
        "{ .reg .pred p, q; setp.leu.f32 p|q, {a:f32}, {b:f32}; selp.u32 {d:u32}, 2, 0, q; "
        "@!p xor.b32 {d:u32}, {d:u32}, 1; }"
    )


def _conversions() -> Iterator[str]:
    register = {"u8": "u16", "s8": "s16", "f16": "b16", "bf16": "b16"}
    integers = ("u8", "s8", *INTEGERS)
    for target in integers:
        for source in integers:
            if target != source:
                d, a = register.get(target, target), register.get(source, source)
                yield f"cvt.{target}.{source} {{d:{d}}}, {{a:{a}}};"
                yield f"cvt.sat.{target}.{source} {{d:{d}}}, {{a:{a}}};"
    for source in ("u8", "s8", "u16", "s16", "s32", "s64"):
        yield f"cvt.u32.{source} {{d:u32}}, {{a:{'u64' if source[1:] == '64' else 'u32'}}};"
        yield f"cvt.s64.{source} {{d:s64}}, {{a:{'u64' if source[1:] == '64' else 'b32'}}};"
    for target in ("u8", "s8"):
        yield f"cvt.{target}.u64 {{d:u32}}, {{a:u64}};"
        yield f"cvt.{target}.s32 {{d:u64}}, {{a:s32}};"
    for t in integers:
        r = register.get(t, t)
        for mode in ("rn", "rz", "rm", "rp"):
            for f in ("f16", "bf16", "f32", "f64"):
                yield f"cvt.{mode}.{f}.{t} {{d:{register.get(f, f)}@{f}}}, {{a:{r}}};"
        for mode in ("rni", "rzi", "rmi", "rpi"):
            for f in ("f16", "bf16", "f32", "f64"):
                yield f"cvt.{mode}.{t}.{f} {{d:{r}}}, {{a:{register.get(f, f)}}};"
        yield f"cvt.rzi.ftz.{t}.f32 {{d:{r}}}, {{a:f32}};"
    for mode in ("rn", "rz", "rm", "rp"):
        for ftz in ("", ".ftz"):
            yield f"cvt.{mode}{ftz}.f32.f64 {{d:f32}}, {{a:f64}};"
            yield f"cvt.{mode}{ftz}.sat.f32.f64 {{d:f32}}, {{a:f64}};"
        yield f"cvt.{mode}.f16.f32 {{d:b16@f16}}, {{a:f32}};"
        yield f"cvt.{mode}.f16.f64 {{d:b16@f16}}, {{a:f64}};"
        yield f"cvt.{mode}.bf16.f64 {{d:b16@bf16}}, {{a:f64}};"
        yield f"cvt.{mode}.bf16.f16 {{d:b16@bf16}}, {{a:b16}};"
        yield f"cvt.{mode}.f16.bf16 {{d:b16@f16}}, {{a:b16}};"
    for mode in ("rn", "rz"):
        yield f"cvt.{mode}.bf16.f32 {{d:b16@bf16}}, {{a:f32}};"
        yield f"cvt.{mode}.f16x2.f32 {{d:b32@f16x2}}, {{a:f32}}, {{b:f32}};"
        yield f"cvt.{mode}.bf16x2.f32 {{d:b32@bf16x2}}, {{a:f32}}, {{b:f32}};"
    for mode in ("rni", "rzi", "rmi", "rpi"):
        for f in ("f16", "bf16", "f32", "f64"):
            yield f"cvt.{mode}.{f}.{f} {{d:{register.get(f, f)}@{f}}}, {{a:{register.get(f, f)}}};"
        yield f"cvt.{mode}.ftz.sat.f32.f32 {{d:f32}}, {{a:f32}};"
    for f in ("f16", "bf16"):
        yield f"cvt.f32.{f} {{d:f32}}, {{a:b16}};"
    yield "cvt.rn.relu.f16.f32 {d:b16@f16}, {a:f32};"
    yield "cvt.rn.relu.bf16x2.f32 {d:b32@bf16x2}, {a:f32}, {b:f32};"
    yield "cvt.f64.f16 {d:f64}, {a:b16};"
    yield "cvt.f64.bf16 {d:f64}, {a:b16};"
    yield "cvt.f64.f32 {d:f64}, {a:f32};"
    yield "cvt.ftz.f64.f32 {d:f64}, {a:f32};"
    yield "cvt.sat.f32.f32 {d:f32}, {a:f32};"
    yield "cvt.ftz.f32.f32 {d:f32}, {a:f32};"
    yield "cvt.rna.tf32.f32 {d:b32@f32}, {a:f32};"
    for mode, relu in itertools.product(("rn", "rz"), ("", ".relu")):
        yield f"cvt.{mode}{relu}.tf32.f32 {{d:b32@f32}}, {{a:f32}};"
        yield f"cvt.{mode}{relu}.satfinite.tf32.f32 {{d:b32@f32}}, {{a:f32}};"
        for t in ("f16", "bf16"):
            yield f"cvt.{mode}{relu}.satfinite.{t}.f32 {{d:b16@{t}}}, {{a:f32}};"
            yield f"cvt.{mode}{relu}.satfinite.{t}x2.f32 {{d:b32@{t}x2}}, {{a:f32}}, {{b:f32}};"
    yield "cvt.rna.satfinite.tf32.f32 {d:b32@f32}, {a:f32};"
    for t, relu in itertools.product(("e4m3x2", "e5m2x2"), ("", ".relu")):
        yield f"cvt.rn.satfinite{relu}.{t}.f32 {{d:b16}}, {{a:f32}}, {{b:f32}};"
        yield f"cvt.rn.satfinite{relu}.{t}.f16x2 {{d:b16}}, {{a:b32}};"
        yield f"cvt.rn{relu}.f16x2.{t} {{d:b32@f16x2}}, {{a:b16}};"
    for small in ("u16", "s16"):
        yield f"cvt.pack.sat.{small}.s32 {{d:b32}}, {{a:s32}}, {{b:s32}};"
    for small in ("u8", "s8", "u4", "s4", "u2", "s2"):
        yield f"cvt.pack.sat.{small}.s32.b32 {{d:b32}}, {{a:s32}}, {{b:s32}}, {{c:b32}};"


FAMILIES = {
    "integers": _integers,
    "bits": _bits,
    "video": lambda: dict.fromkeys(video_cases()),
    "simd": lambda: dict.fromkeys(simd_cases()),
    "carries": _carries,
    "singles": _singles,
    "doubles and halves": _doubles,
    "comparisons": _comparisons,
    "conversions": _conversions,
}
FIELD = re.compile(r"\{([dabce]):(\w+)(?:@(\w+))?\}")


def kernel(cases: list[str]) -> str:
    """Each thread does every case on its four inputs; result n of thread t goes to out[n * THREADS + t]."""
    body = []
    for n, case in enumerate(cases):
        fields = {letter: kind for letter, kind, _ in FIELD.findall(case)}
        body.append("{")
        for letter, kind in fields.items():
            body.append(f".reg .{kind} %{letter};")
            place = f"[%from+{8 * INPUTS.index(letter)}]" if letter != "d" else ""
            if letter == "d":
                continue
            if kind == "pred":
                body.append(f".reg .b32 %{letter}word; ld.global.u8 %{letter}word, {place};")
                body.append(f"and.b32 %{letter}word, %{letter}word, 1; setp.ne.u32 %{letter}, %{letter}word, 0;")
            else:
                body.append(f"ld.global.b{8 * TYPE_BYTES[kind]} %{letter}, {place};")
        body.append(FIELD.sub(lambda match: "%" + match[1], case))
        to, kind = f"[%to+{8 * THREADS * n}]", fields["d"]
        if kind == "pred":
            body.append(f".reg .b32 %yes; selp.b32 %yes, 1, 0, %d; st.global.b32 {to}, %yes;")
        elif TYPE_BYTES[kind] == 2:
            # A shift shows what stands above the sixteen bits, where nothing may.
            body.append(f".reg .b16 %up; shr.u16 %up, %d, 4; st.global.v2.b16 {to}, {{%d, %up}};")
        else:
            body.append(f"st.global.b{8 * TYPE_BYTES[kind]} {to}, %d;")
        body.append("}")
    return HEADER + "\n".join(
        [
            ".visible .entry k(.param .u64 in, .param .u64 out) {",
            ".reg .b64 %from, %to, %off; .reg .b32 %t;",
            "ld.param.u64 %from, [in]; ld.param.u64 %to, [out]; mov.u32 %t, %tid.x;",
            f"mul.wide.u32 %off, %t, {8 * len(INPUTS)}; add.s64 %from, %from, %off;",
            "mul.wide.u32 %off, %t, 8; add.s64 %to, %to, %off;",
            *body,
            "ret; }",
        ]
    )


def _special_numbers() -> list[int]:
    floats = [0.0, 1.0, 0.5, 1.5, 2.5, 3.5, 127.5, 255.5, 32767.5, 65504.0, 65520.0, 1e-3, 1e-40, 3.3, 1e30, math.pi]
    floats += [2.0**power for power in (31, 32, 63, 64, -14, -24, -25, -126, -149)] + [3.4028235e38]
    numbers = [0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 32767, 32768, 65535]
    # Just above the middle of two bfloat16, by less than float64 shows.
    numbers += [0x8080000000000001, 0x4080000000000001, 0xC07FFFFFFFFFFFFF]
    numbers += [(1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
    for value in floats:
        for sign in (1.0, -1.0):
            single = int(np.array(sign * value, np.float32).view(np.uint32))
            half = int(np.array(sign * min(value, 65504.0), np.float16).view(np.uint16))
            numbers += [single, single << 32 | single + 1, int(np.array(sign * value, np.float64).view(np.uint64))]
            numbers += [half << 16 | half, (half + 1) << 16 | half]
    for infinity in (0x7F800000, 0x7FF0000000000000, 0x7C00, 0x7C007C00, 0x7F80):
        numbers += [infinity, infinity - 1, infinity + 1, infinity | infinity >> 1]
        top = 1 << (infinity.bit_length())
        numbers += [infinity | top, (infinity | infinity >> 1) | top]
    return sorted({number & (1 << 64) - 1 for number in numbers})


SPECIAL = _special_numbers()


def drawn(seed: int) -> list[int]:
    """Inputs of all threads: special values, small ones and any."""
    source = random.Random(seed)
    kinds = (lambda: source.choice(SPECIAL), lambda: source.getrandbits(64), lambda: source.randrange(70))
    return [source.choices(kinds, (3, 1, 1))[0]() for _ in range(THREADS * len(INPUTS))]


DRAWN = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


def result_type(case: str) -> str:
    return next(of or kind for letter, kind, of in FIELD.findall(case) if letter == "d")


def same(kind: str, mine: bytes, theirs: bytes) -> bool:
    """Bit for bit, but for the payload of a NaN, which the ISA leaves open."""
    if mine == theirs or kind not in FORMATS:
        return mine == theirs
    form = FORMATS[kind]
    size = form.bits // 8
    pairs = 2 if kind.endswith("x2") else 1
    for at in range(0, size * pairs, size):
        x, y = (int.from_bytes(data[at : at + size], "little") for data in (mine, theirs))
        if x != y and not (math.isnan(decode(form, x)) and math.isnan(decode(form, y))):
            return False
    return True


@pytest.fixture(scope="module")
def duels(simulator):
    running: dict[str, tuple[list[str], Duel]] = {}

    def start(family: str) -> tuple[list[str], Duel]:
        if family not in running:
            cases = list(FAMILIES[family]())
            running[family] = cases, Duel(simulator, kernel(cases))
        return running[family]

    yield start
    for _, duel in running.values():
        duel.__exit__(None, None, None)


@pytest.mark.parametrize("family", FAMILIES)
def test_simulator_and_interpreter_agree(family, duels):
    cases, duel = duels(family)

    @DRAWN
    @given(st.integers(0, 1 << 32))
    def agree(seed: int) -> None:
        numbers = drawn(seed)
        words = np.array(numbers, np.uint64)
        mine, theirs = duel.outputs({"in": words}, 8 * THREADS * len(cases), block=THREADS)
        wrong = []
        for n, case in enumerate(cases):
            size = TYPE_BYTES[next(kind for letter, kind, _ in FIELD.findall(case) if letter == "d")]
            for lane in range(THREADS):
                at = 8 * (n * THREADS + lane)
                size = 4 if size <= 4 else 8
                if not same(result_type(case), mine[at : at + size], theirs[at : at + size]):
                    inputs = ", ".join(f"{x:#x}" for x in numbers[lane * 4 : lane * 4 + 4])
                    x, y = (data[at : at + size][::-1].hex() for data in (mine, theirs))
                    wrong.append(f"{case}  of {inputs}: simulator {x}, interpreter {y}")
                    break
        assert not wrong, f"{len(wrong)} instructions differ\n" + "\n".join(wrong[:40])

    agree()


def test_families_cover_what_they_say():
    everything = [case for cases in FAMILIES.values() for case in cases()]
    assert len(everything) > 700
    assert len(set(everything)) == len(everything)
