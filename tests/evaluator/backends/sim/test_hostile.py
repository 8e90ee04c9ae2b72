# ruff: noqa: E501, PT017, RUF005 - PTX reads best one statement after the other
"""Inline assembly may say anything: it is translated, or `UnsupportedError` by name, quickly; and names stay outside."""

import itertools
import os
import random
import re
import time

import pytest
from duel import HEADER, entries_of
from hypothesis import given, settings
from hypothesis import strategies as st
from test_calls import BODIES
from test_calls import module as calls_module
from test_control_flow import FUNCTIONS, WAITING
from test_control_flow import module as flow_module
from test_instructions import FAMILIES, INTEGERS, kernel

from common.contract import Settings
from evaluator.backends.session import Program, UnsupportedError
from evaluator.backends.sim.codegen.instructions import known_instructions
from evaluator.backends.sim.codegen.module import translate
from evaluator.backends.sim.ptx import model, parser

REAL = [
    FUNCTIONS,
    WAITING,
    flow_module(),
    kernel(list(FAMILIES["integers"]())[:40]),
    kernel(list(FAMILIES["bits"]())[-12:]),
    kernel([*list(FAMILIES["video"]())[:20], *list(FAMILIES["simd"]())[:20]]),
    calls_module(BODIES),
]
WORDS = re.findall(r"[%.\w]+|[^\s\w]", "\n".join(REAL[:3])) + [
    "0x", "-", "99999999999999999999", "{", "}", "(", ")", "[", "]", "@", "!", '"', "/*", "//", "::", "\\", "\0", "é", "٣",
    ".align", "0", "-1", ".b8", ".reg", ".branchtargets", ":", ";", ",", "|", "_", "+", ".param", ".func", ".entry",
]  # fmt: skip


def translated(text: str) -> bool:
    """Whether the text can be run; anything but UnsupportedError is a failure."""
    try:
        translate(parser.parse_ptx(text))
    except UnsupportedError as missing:
        assert missing.feature
        return False
    return True


def body(text: str, declared: str = "") -> str:
    return (
        HEADER
        + declared
        + ".visible .entry k(.param .u64 out) { .reg .u32 %r, %s; .reg .u64 %a; .reg .pred %p; .reg .f32 %f; "
        + f".reg .b16 %h; ld.param.u64 %a, [out]; {text} ret; }}"
    )


@given(st.text(max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_text_is_unsupported_or_translated(text):
    translated(text)
    translated(HEADER + text)
    translated(body(text))


@given(st.integers(0, 1 << 32), st.integers(0, len(REAL) - 1))
@settings(max_examples=150, deadline=None)
def test_damaged_ptx_is_unsupported_or_translated(seed, which):
    source = random.Random(seed)
    words = re.findall(r"\s+|[%.\w]+|[^\s\w]", REAL[which])
    for _ in range(source.choice([1, 1, 2, 5, 20])):
        at = source.randrange(len(words))
        kind = source.randrange(4)
        if kind == 0:
            del words[at : at + source.choice([1, 2, 10])]
        elif kind == 1:
            words.insert(at, source.choice(WORDS))
        elif kind == 2:
            words[at] = source.choice(WORDS)
        else:
            other = source.randrange(len(words))
            words[at], words[other] = words[other], words[at]
    translated("".join(words))


@pytest.mark.parametrize(
    "text",
    [
        "{" * 100_000,
        "/*" * 300_000,
        "\n" * 1_000_000,
        '"' * 100_000,
        HEADER + ".reg" * 50_000,
        body("{" * 2000 + "}" * 2000),
        body("mov.u32 %r, " + "{" * 5000),
        body("ld.u32 %r, " + "[" * 5000),
        body(".reg .b32 %z<999999>; .reg .b32 %y<999999>;"),
        body(".reg .b32 " + ",".join(f"%z{n}<999999>" for n in range(2000)) + ";"),
        body("", ".global .b8 x[" + "9" * 5000 + "];"),
        body("", ".global .b8 x[99999999999];"),
        body("", ".global .b8 x[-1];"),
        body("", ".global .align 0 .b8 x[4];"),
        body("", ".global .align 3 .b8 x[4];"),
        body("", ".global .b8 x[4] = " + "{" * 20_000),
        body("ld.global.u32 %r, [%a+" + "9" * 3000 + "];"),
        body("ld.global.u32 %r, [%a+99999999999999999];"),
        body(".param .b8 huge[100000000];"),
        body("mov.u32 %r, 0x" + "f" * 1000 + ";"),
        body("T: .calltargets " + "f, " * 100_000 + "f; " + "call %a, T; " * 2000, ".func f() { ret; } "),
        body("call %a, t; " * 2000, ".func f() { ret; } .global .u64 t[100000] = {" + "f, " * 100_000 + "};"),
        body(
            "P: .callprototype _ (); " + "call %a, P; " * 2000,
            "".join(f".func f{n}() {{ ret; }} " for n in range(1000)),
        ),
        body("add.u32 %r, " + "-" * 100_000 + "%r;"),
    ],
    ids=lambda text: text[-24:].strip()[:20] if len(text) < 400_000 else text[:4],
)
def test_large_and_deep_texts_end_quickly(text):
    # Of the processor, for the wall's clock also tells of who else computes.
    start_s = time.process_time()
    translated(text)
    assert time.process_time() - start_s < 5


NAMES = [
    'k"; system("id"); //', "k\\n#include </etc/passwd>", "k$(id)", "k*/ int main() {} /*", "k;}", "k'", "k\"", "été",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_cannot_be_code(name):
    for text in (
        HEADER + f".visible .entry {name}() {{ ret; }}",
        HEADER + f'.visible .entry "{name}"() {{ ret; }}',
        body(f"bra {name}; {name}: "),
        body(f".reg .u32 {name}; mov.u32 {name}, 1;"),
        body("", f".global .u32 {name};"),
    ):
        try:
            found = translate(parser.parse_ptx(text))
        except UnsupportedError:
            continue
        assert name not in found.text


def test_nothing_of_a_name_reaches_the_compiler():
    names = ["zqx_kernel", "zqx_label", "zqx_register", "zqx_variable", "zqx_function", "zqx_shared", "zqx_parameter"]
    text = (
        HEADER
        + """
        .global .u32 zqx_variable; .func zqx_function(.param .b32 zqx_parameter) { ret; }
        .visible .entry zqx_kernel(.param .u64 zqx_parameter) { .shared .b8 zqx_shared[16]; .reg .u32 zqx_register;
        .param .b32 zqx_call; mov.u32 zqx_register, zqx_shared; zqx_label: st.param.b32 [zqx_call], zqx_register;
        call zqx_function, (zqx_call); ld.global.u32 zqx_register, [zqx_variable]; bra zqx_label; }"""
    )
    found = translate(parser.parse_ptx(text))
    assert "zqx" not in found.text
    assert found.kernels == ("zqx_kernel",)
    assert names


MISSING = {
    "wgmma.fence.sync.aligned;": "wgmma",
    "cp.async.ca.shared.global [%r], [%a], 12;": "cp.async.ca",
    "cp.async.cg.shared.global [%r], [%a], 8;": "cp.async.cg",
    "cp.async.cg.frob.shared.global [%r], [%a], 16;": "cp.async.cg.frob",
    "cp.async.wait_group %r;": "cp.async.wait_group",
    "cp.async.bulk.commit_group;": "cp.async.bulk",
    "tex.1d.v4.f32.s32 {%f, %f, %f, %f}, [%a, {%r}];": "texture",
    "mov.u32 %r, %envreg0;": "%envreg0",
    "mbarrier.init.shared::cluster.b64 [%a], 1;": "mbarrier.init.shared::cluster",
    "mbarrier.frob.shared.b64 [%a];": "mbarrier.frob",
    "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f, %f, %f, %f, %f, %f, %f, %f}, {%r, %r}, {%r, %r}, "
    "{%f, %f, %f, %f, %f, %f, %f, %f};": "mma.sync.aligned.m8n8k4",
    "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f, %f, %f, %f}, {%r, %r}, {%r, %r}, {%f, %f, %f, %f}, "
    "%r, 0;": "mma.sp",
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f, %f}, {%r, %r}, {%r}, {%f, %f, %f, %f};": "mma.sync",
    "wmma.load.a.sync.aligned.row.m16n16k16.frob.f16 {%r, %r, %r, %r, %r, %r, %r, %r}, [%a], 16;": "wmma.load",
    "ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r, %r, %r}, [%a];": "ldmatrix",
    "shfl.up.b32 %r, %r, 1, 0;": "shfl",
    "vote.any.pred %p, %p;": "vote",
    "barrier.cluster.arrive;": "barrier.cluster",
    "mapa.u64 %a, %a, 0;": "mapa",
    "add.rn.frob.f32 %f, %f, %f;": "add.rn.frob.f32",
    "setp.lt.frob.u32 %p, %r, %r;": "setp.lt.frob.u32",
    "ld.global.frob.u32 %r, [%a];": "ld.global.frob.u32",
    "ld.global.L2::frob.v2.u32 {%r}, [%a];": "ld.global",
    "mov.frob.u32 %r, %r;": "mov.frob",
    "bra.frob L; L:": "bra.frob",
    "bar.sync.frob 0;": "bar.sync.frob",
    "membar.frob;": "membar.frob",
    "fence.proxy.tensormap::generic.release.gpu;": "fence.proxy.tensormap",
    "vadd.u32.u32.u32 %a, %r, %s;": "vadd",
    "vadd.u32.u32.u32.add.min %r, %r, %s, %s;": "vadd",
    "vadd.u32.u32.u32 %r, %r.h2, %s;": "vadd",
    "vadd.u32.u32.u32 %r, -%r, %s;": "vadd",
    "vadd.u32.u32.u32.add %r.b0, %r, %s, %s;": "vadd",
    "vadd.u32.u32.u32 %r, %r, %s, %s;": "vadd",
    "vmad.u32.u32.u32 %r, -%r, %s, -%s;": "vmad",
    "vmad.u32.u32.u32.po %r, %r, %s, -%s;": "vmad",
    "vadd4.u32.u32.u32.sat.add %r, %r, %s, %s;": "vadd4",
    "vadd4.u32.u32.u32 %r, %r.b321, %s, %s;": "vadd4",
    "vadd4.u32.u32.u32 %r, %r.h10, %s, %s;": "vadd4",
    "vadd2.u32.u32.u32 %r.h01, %r, %s, %s;": "vadd2",
    "vshl.u32.u32.s32.clamp %r, %r, %s;": "vshl",
    "vshr.u32.u32.u32 %r, %r, %s;": "vshr",
    "vset4.u32.u32 %r, %r, %s, %s;": "vset4",
    "mov.u32 %r, %s.b0;": "mov.u32",
    "mov.u32 %r.b0, %s;": "mov.u32",
    "mov.u32 %r, -%s;": "mov.u32",
    "mov.u32 %r, %s.x;": "PTX",
    "add.sat.u32 %r, %r, %s;": "add.sat.u32",
    "sub.sat.s64 %a, %a, %a;": "sub.sat.s64",
    "mad.lo.sat.s32 %r, %r, %s, %s;": "mad.lo.sat",
    "mad24.lo.sat.s32 %r, %r, %s, %s;": "mad24.lo.sat",
    "min.relu.u32 %r, %r, %s;": "min.relu.u32",
    "prmt.b32.f4e.b4e %r, %r, %s, %s;": "prmt",
    "szext.u32 %r, %r, %s;": "szext",
    "lop3.and.b32 %r, %r, %s, %s, 1, %p;": "lop3.and",
    "lop3.and.b32 %r|%s, %r, %s, %s, 1, %p;": "lop3.and",
    "set.lt.and.u32.u32 %r, %r, %s;": "set.lt.and",
    "cvt.rn.e4m3x2.f32 %h, %f, %f;": "cvt.rn.e4m3x2",
    "cvt.rn.satfinite.e4m3x2.f32 %r, %f, %f;": "cvt.rn.satfinite.e4m3x2",
    "cvt.rn.satfinite.f16x2.e4m3x2 %r, %h;": "cvt.rn.satfinite.f16x2",
    "cvt.rn.satfinite.e2m1x2.f32 %h, %f, %f;": "cvt.rn.satfinite.e2m1x2",
    "cvt.rs.f16x2.f32 %r, %f, %f, %s;": "cvt.rs",
    "cvt.rn.satfinite.f32.f16 %f, %h;": "cvt.rn.satfinite.f32",
    "cvt.pack.u8.s32.b32 %r, %r, %s, %s;": "cvt.pack",
    "cvt.pack.sat.u16.s32.b32 %r, %r, %s, %s;": "cvt.pack",
    "cvt.pack.sat.u8.s32.b32 %a, %r, %s, %s;": "cvt.pack",
    "alloca.u64 %a, %a, 3;": "alloca",
    "alloca.u64 %a, %a, 0;": "alloca",
    "alloca.u32 %r, %r;": "alloca",
    "add.cc.frob.u32 %r, %r, %r;": "add.cc.frob",
    "redux.sync.frob.u32 %r, %r, -1;": "redux.sync.frob",
    "ret.frob;": "ret.frob",
    "atom.global.add.frob.u32 %r, [%a], 1;": "atom.global.add.frob",
    "call.frob (%r), nothing;": "call.frob",
    "mov.b128 %a, %a;": "mov.b128",
    "brkpt.frob %r;": "brkpt",
    "griddepcontrol.frob;": "griddepcontrol",
    "red.global.add.v2.f32 [%a], {%f, %f, %f, %f};": "red",
    "ld.v8.u64 {%a, %a, %a, %a, %a, %a, %a, %a}, [%a];": "ld.v8",
    "sust.b.1d.b32.clamp [%a, {%r}], {%r};": "texture",
    "frobnicate.u32 %r, %r;": "frobnicate",
}


@pytest.mark.parametrize("text", MISSING)
def test_what_is_not_known_is_named(text):
    with pytest.raises(UnsupportedError, match=re.escape(MISSING[text])):
        translate(parser.parse_ptx(body(text)))


OPCODES = sorted({entry.opcode for _, entry in known_instructions() if entry.result is not None})
TYPES = (*INTEGERS, "b16", "b32", "b64", "f16", "f16x2", "bf16", "f32", "f64", "pred", "u8", "tf32")
FLAGS = ("", "rn", "rz", "lo", "hi", "wide", "sat", "ftz", "approx", "eq", "l.wrap", "to.global", "shared", "finite")


def test_whatever_is_translated_also_compiles(simulator):
    """Every opcode with every type and one modifier, sensible or not: ptxas would refuse most, and so may we.

    Every third of these combinations; all where ASSAY_TEST_EVERYTHING is set.
    """
    registers = {"u64": "%a", "s64": "%a", "b64": "%a", "f64": "%a", "pred": "%p"}
    lines = []
    for opcode, kind, flag, count in itertools.product(OPCODES, TYPES, FLAGS, (1, 2, 3)):
        r = registers.get(kind, "%h" if model.TYPE_BYTES[kind] <= 2 else "%r")
        types = f".{kind}.u32" if opcode in ("set", "slct", "cvt") else f".{kind}"
        name = f"{opcode}{'.' + flag if flag else ''}{types}"
        lines.append(f"{name} {r}, {', '.join(['%r' if opcode == 'cvt' else r] * count)};")
    if not os.environ.get("ASSAY_TEST_EVERYTHING"):
        lines = random.Random(len(lines)).sample(lines, len(lines) // 3)
    accepted = [line for line in lines if translated(body(line))]
    assert len(accepted) > 50
    text = body(" ".join(accepted))
    program = Program(text, entries_of(parser.parse_ptx(text)), "sm_80")
    with simulator.prepare(program, Settings()):
        pass
