"""The reader: PTX, and what it holds, one line for each thing, names made unique and source lines in front."""

import pytest
from duel import HEADER

from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.ptx.model import (
    Address,
    Immediate,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    Part,
    Register,
    Special,
    Symbol,
    Vector,
)
from evaluator.backends.sim.ptx.parser import parse_ptx


def shown_operand(operand: Operand) -> str:
    match operand:
        case Register(name) | Special(name):
            return name
        case Symbol(name):
            return f"symbol {name}"
        case Immediate(bits, float_bytes):
            return f"{bits:#x} of {float_bytes} bytes" if float_bytes else str(bits)
        case Address(base, offset):
            return f"[{shown_operand(base)} + {offset}]"
        case Vector(parts):
            return "{" + ", ".join(map(shown_operand, parts)) + "}"
        case Pair(first, second):
            return f"{shown_operand(first)} | {shown_operand(second)}"
        case Negated(register):
            return f"not {register.name}"
        case Part(whole, selector, negative):
            return f"{'minus ' * negative}{selector or 'all'} of {shown_operand(whole)}"


def shown(module: Module) -> str:
    lines = []
    for v in module.variables.values():
        lines.append(f"{v.space} {v.name}: {v.size_bytes} bytes of {v.type}, aligned to {v.align}, {v.initial}")
    for f in module.functions.values():
        variables = [*f.returns, *f.parameters, *f.variables.values()]
        lines.append(f"{'kernel' if f.is_entry else 'function'} {f.name}{'' if f.defined else ', declared only'}")
        lines += [f"  {v.space} {v.name}: {v.size_bytes} bytes" for v in variables]
        lines.append("  registers " + " ".join(f"{name}:{kind}" for name, kind in f.registers.items()))
        for item in f.body:
            if isinstance(item, Label):
                lines.append(f"  {item.name}:")
                continue
            guard = f"if {'not ' * item.guard_negated}{item.guard.name}: " if item.guard else ""
            lines.append(f"  {item.line}: {guard}{item.text} {', '.join(map(shown_operand, item.operands))}".rstrip())
        lines += [f"  list {name}: {' '.join(labels)}" for name, labels in f.branch_targets.items()]
        lines += [f"  functions {name}: {' '.join(targets)}" for name, targets in f.call_targets.items()]
        for name, prototype in f.prototypes.items():
            sizes = ([v.size_bytes for v in side] for side in (prototype.returns, prototype.parameters))
            lines.append("  prototype {}: {} of {}".format(name, *sizes))
    return "\n".join(line.rstrip() for line in lines)


CASES = {
    "a kernel": (
        """.visible .entry scale(.param .u64 .ptr .global .align 16 data, .param .f32 by) .maxntid 128, 1, 1 {
        .reg .b64 %rd<2>; .reg .f32 %f; .reg .pred %p;
        .loc 1 7 3
        ld.param.u64 %rd0, [data]; @!%p fma.rn.f32 %f, %f, 0f3F800000, -2;
        ret; }""",
        """kernel scale
  param data: 8 bytes
  param by: 4 bytes
  registers %rd0:b64 %rd1:b64 %f:f32 %p:pred
  7: ld.param.u64 %rd0, [symbol data + 0]
  7: if not %p: fma.rn.f32 %f, %f, 0x3f800000 of 4 bytes, 18446744073709551614
  7: ret""",
    ),
    "every kind of operand": (
        """.entry k() { .reg .b32 %r; .reg .pred %p;
        shfl.sync.up.b32 %r|%p, %tid.x, WARP_SZ, 0x1f, ~0; setp.eq.and.u32 %p, %r, 010, !%p;
        st.global.v2.b32 [%r+-8], {%r, _}; call (a), f, (b); }""",
        """kernel k
  registers %r:b32 %p:pred
  0: shfl.sync.up.b32 %r | %p, %tid.x, 32, 31, 18446744073709551615
  0: setp.eq.and.u32 %p, %r, 8, not %p
  0: st.global.v2.b32 [%r + -8], {%r, symbol _}
  0: call {symbol a}, symbol f, {symbol b}""",
    ),
    "scopes that repeat names": (
        """.entry k() { .reg .b32 %r; L: { .reg .b32 %r; L: mov.u32 %r, 1; bra L; } bra L; }""",
        """kernel k
  registers %r:b32 %r#3:b32
  L:
  L#2:
  0: mov.u32 %r#3, 1
  0: bra symbol L#2
  0: bra symbol L""",
    ),
    "variables and functions": (
        """.extern .func (.param .b32 back) f(.param .b64 what);
        .global .align 8 .b8 text[4] = {72, 105}; .const .u64 where = generic(text); .extern .shared .b8 room[];
        .func g(.param .align 8 .b8 pair[16]) { .local .b16 spot[3]; T: .branchtargets A, B; A: B: brx.idx 0, T; }""",
        """global text: 4 bytes of b8, aligned to 8, (72, 105)
const where: 8 bytes of u64, aligned to 8, (Symbol(name='text'),)
shared room: 0 bytes of b8, aligned to 1, ()
function f, declared only
  param back: 4 bytes
  param what: 8 bytes
  registers
function g
  param pair: 16 bytes
  local spot: 6 bytes
  registers
  A:
  B:
  0: brx.idx 0, symbol T
  list T: A B""",
    ),
    "calls through registers": (
        """.global .align 8 .u64 table[2] = {f, generic(g)+8}; .global .u8 part[1] = {0XFF00(g)};
        .entry k() { .reg .b64 %f; .param .b32 p; { P: .callprototype (.param .b32 _) _ (.param .align 4 .b8 _[12]);
        call (p), %f, (p), P; } P: .callprototype ()_ ()  .noreturn; Q: .callprototype _; L: .calltargets f, g;
        call %f, L; }""",
        """global table: 16 bytes of u64, aligned to 8, (Symbol(name='f'), Relocation(name='g', offset=8, byte=None))
global part: 1 bytes of u8, aligned to 1, (Relocation(name='g', offset=0, byte=1),)
kernel k
  param p: 4 bytes
  registers %f:b64
  0: call {symbol p}, %f, {symbol p}, symbol P#3
  0: call %f, symbol L
  functions L: f g
  prototype P#3: [4] of [12]
  prototype P: [] of []
  prototype Q: [] of []""",
    ),
    "parts of words": (
        ".entry k() { .reg .b32 %a, %b; vmad.u32.u32.u32 %a.b3, -%b.h1, %b.b3210, -%a; mov.u32 %a, %tid.x; }",
        """kernel k
  registers %a:b32 %b:b32
  0: vmad.u32.u32.u32 b3 of %a, minus h1 of %b, b3210 of %b, minus all of %a
  0: mov.u32 %a, %tid.x""",
    ),
    "lines of the submission only": (
        """.file 2 "vector_types.h"
        .entry k() {
        .loc 2 90 1
        membar.cta;
        .loc 2 91 1, function_name $L, inlined_at 1 12 4
        membar.gl;
        ret; }
        .file 1 "kernel.cu" """,
        """kernel k
  registers
  0: membar.cta
  12: membar.gl
  12: ret""",
    ),
}


def test_an_alignment_behind_ptr_is_that_of_what_it_points_to():
    pointer = ".param .u64 .ptr .global .align 1"
    module = parse_ptx(HEADER + f".entry k({pointer} x, .param .u32 stride, {pointer} y) {{ ret; }}")
    assert [one.align for one in module.functions["k"].parameters] == [8, 4, 8]


@pytest.mark.parametrize("case", CASES)
def test_what_is_read(case):
    ptx, expected = CASES[case]
    assert shown(parse_ptx(HEADER + ptx)) == expected


@pytest.mark.parametrize(
    ("ptx", "named"),
    [
        (".entry k() { .reg .b32 %r; @%r ret; }", "a guard that is not a predicate"),
        (".entry k() { ret; } .entry k() { ret; }", "two bodies for k"),
        (".entry k() { P: .callprototype (.reg .b32 _) _; }", "parameters in registers"),
        (".entry k() { P: .callprototype _ (.param .b32 _), f; }", "PTX ',' where ';' was expected"),
        (".entry k() { mov.u32 %a, -%tid.x; }", "- before what is neither a number nor a register"),
        (".global .u8 part[1] = {0xFF01(f)};", "an initial value of other than one byte of an address"),
        (".alias a, b;", ".alias"),
        (".entry k() { .reg .v2 .b32 %r; }", "registers of type v2"),
        (".entry k() { ret;", "PTX that ends in the middle"),
    ],
)
def test_what_is_not_read_is_named(ptx, named):
    with pytest.raises(UnsupportedError) as found:
        parse_ptx(HEADER + ptx)
    assert found.value.feature == named
