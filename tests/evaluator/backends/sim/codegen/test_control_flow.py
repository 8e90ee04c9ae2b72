# ruff: noqa: E501 - PTX reads best one statement after the other
"""Lanes that go different ways: whatever the shape of the branches, every thread gets what it would get alone."""

import numpy as np
import pytest
from duel import HEADER, Duel

THREADS = 78

# Each kernel sees: %t the thread's number in its block, %x its input, and leaves its result in %r.
SHAPES = {
    "if and else": "@%p bra A; mul.lo.u32 %r, %x, 3; bra B; A: add.u32 %r, %x, 100; B: add.u32 %r, %r, 1;",
    "one side keeps what the other overwrites": """
        mov.u32 %a, 5; setp.gt.u32 %p, %x, 40; @%p bra FAR;
        mov.u32 %a, 7; add.u32 %r, %a, %x; bra END;
        FAR: mul.lo.u32 %r, %a, %x;
        END:""",
    "both sides of a side": """
        mov.u32 %a, %x; setp.lt.u32 %p, %t, 20; @%p bra ONE; setp.lt.u32 %p, %t, 45; @%p bra TWO;
        mov.u32 %a, 3; mul.lo.u32 %b, %a, %x; add.u32 %r, %b, 1; bra END;
        ONE: add.u32 %a, %a, 1; xor.b32 %r, %a, 77; bra END;
        TWO: shl.b32 %r, %a, 2;
        END: add.u32 %r, %r, %a;""",
    "a loop of its own length": """
        mov.u32 %r, 0; mov.u32 %i, 0;
        TOP: setp.ge.u32 %p, %i, %x; @%p bra OUT; mad.lo.u32 %r, %r, 3, %i; add.u32 %i, %i, 1; bra TOP;
        OUT: add.u32 %r, %r, %i;""",
    "nested loops with break and continue": """
        mov.u32 %r, 0; mov.u32 %i, 0;
        TOP: setp.ge.u32 %p, %i, 7; @%p bra OUT; mov.u32 %j, 0; add.u32 %i, %i, 1;
        IN: setp.ge.u32 %p, %j, %x; @%p bra TOP; add.u32 %j, %j, 1; and.b32 %a, %j, 3;
        setp.eq.u32 %p, %a, 1; @%p bra IN; add.u32 %r, %r, %j; add.u32 %b, %i, %t;
        and.b32 %b, %b, 15; setp.eq.u32 %p, %b, 9; @%p bra OUT; setp.gt.u32 %p, %r, 500; @%p bra TOP; bra IN;
        OUT: mad.lo.u32 %r, %i, 1000, %r; mad.lo.u32 %r, %j, 7, %r;""",
    "an early return": """
        mov.u32 %r, 11; setp.lt.u32 %p, %x, 13; @%p st.global.u32 [%to], %r; @%p ret;
        setp.gt.u32 %p, %x, 50; @%p bra GONE; add.u32 %r, %x, %t; bra END; GONE: st.global.u32 [%to], %x; exit; END:""",
    "a switch": """
        rem.u32 %a, %x, 4; mov.u32 %r, 1; LIST: .branchtargets L0, L1, L2, L3; brx.idx %a, LIST;
        L0: add.u32 %r, %x, 10; bra END; L1: mul.lo.u32 %r, %x, 10; L2: xor.b32 %r, %r, 10; bra END;
        L3: sub.u32 %r, %x, 10; setp.gt.u32 %p, %x, 30; @%p bra L0;
        END: add.u32 %r, %r, 1;""",
    "everything predicated": """
        mov.u32 %r, %x; @%p add.u32 %r, %r, 5; @!%p mul.lo.u32 %r, %r, 9; setp.gt.u32 %q, %r, 90;
        @%q selp.u32 %r, %x, %t, %p; @!%q mov.u32 %a, %r; @%q mov.u32 %a, 4; @%p bra END;
        @%q setp.lt.u32 %p, %x, 33; @%p add.u32 %r, %r, %a; @%q ld.global.u32 %a, [%from]; add.u32 %r, %r, %a; END:""",
    "a loop entered in the middle": """
        mov.u32 %i, 0; mov.u32 %r, 1; @%p bra MIDDLE;
        TOP: add.u32 %r, %r, %x; MIDDLE: mul.lo.u32 %r, %r, 5; add.u32 %i, %i, 1;
        and.b32 %a, %x, 7; setp.lt.u32 %q, %i, %a; @%q bra TOP;""",
    # Lane 0 goes back to the head by a longer way, which the text has before the head; the shuffle needs it there.
    "several ways back to a head that is warp-wide": """
        mov.u32 %r, 0; mov.u32 %i, 0; and.b32 %j, %t, 31; setp.ne.u32 %p, %j, 0; and.b32 %b, %t, 0x60;
        setp.eq.u32 %q, %b, 64; selp.b32 %b, 0x3fff, 0xffffffff, %q; bra HEAD;
        LONG: add.u32 %r, %r, 1000;
        HEAD: add.u32 %i, %i, 1; mul.lo.u32 %a, %i, %r; add.u32 %a, %a, %t;
        shfl.sync.idx.b32 %a, %a, 0, 0x1f, %b; add.u32 %r, %r, %a;
        setp.ge.u32 %q, %i, 5; @%q bra OUT; @%p bra HEAD; bra LONG;
        OUT: add.u32 %r, %r, %i;""",
    "labels that repeat in scopes": """
        mov.u32 %r, 0;
        { .reg .u32 %r2; mov.u32 %r2, %x; @%p bra DONE; add.u32 %r2, %r2, 4; DONE: add.u32 %r, %r, %r2; }
        { .reg .u32 %r2; mov.u32 %r2, %t; @%p bra DONE; add.u32 %r2, %r2, 6; DONE: add.u32 %r, %r, %r2; }""",
    "warp-wide after meeting again": """
        @%p bra A; add.u32 %a, %x, 3; bra B; A: mul.lo.u32 %a, %x, 5; B: bar.warp.sync 0xffffffff;
        and.b32 %i, %t, 0xffffffe0; sub.u32 %i, 78, %i; min.u32 %i, %i, 32; mov.u32 %b, 0xffffffff;
        sub.u32 %j, 32, %i; shr.u32 %b, %b, %j;
        shfl.sync.bfly.b32 %r|%q, %a, 1, 0x1f, %b; vote.sync.ballot.b32 %i, %q, %b; @%q add.u32 %r, %r, %i;
        setp.gt.u32 %p, %x, 20; vote.sync.any.pred %q, %p, %b; @%q add.u32 %r, %r, 1;""",
    "warp-wide of one side": """
        @%p bra A; mov.u32 %r, 9; bra END;
        A: activemask.b32 %b; redux.sync.add.u32 %r, %x, %b; popc.b32 %i, %b; add.u32 %r, %r, %i;
        match.any.sync.b32 %a, %r, %b; popc.b32 %a, %a; add.u32 %r, %r, %a; END:""",
    "barriers in a loop": """
        mov.u32 %r, 0; mov.u32 %i, 0; shl.b32 %a, %t, 2; mov.u32 %b, tile; add.u32 %a, %a, %b;
        TOP: st.shared.u32 [%a], %x; bar.sync 0; mov.u32 %j, 77; sub.u32 %j, %j, %t; shl.b32 %j, %j, 2;
        add.u32 %j, %j, %b; ld.shared.u32 %j, [%j]; add.u32 %r, %r, %j; bar.sync 0; add.u32 %x, %x, %j;
        add.u32 %i, %i, 1; setp.lt.u32 %q, %i, 5; @%q bra TOP;""",
    "a barrier that gone warps do not reach": """
        setp.ge.u32 %q, %t, 64; mov.u32 %r, 6; @%q bra END; shl.b32 %a, %t, 2; mov.u32 %b, tile; add.u32 %a, %a, %b;
        st.shared.u32 [%a], %x; bar.sync 0; xor.b32 %j, %t, 63; shl.b32 %j, %j, 2; add.u32 %j, %j, %b;
        ld.shared.u32 %r, [%j]; END:""",
    "reducing barriers": """
        bar.red.popc.u32 %r, 0, %p; bar.red.and.pred %q, 0, !%p; @%q add.u32 %r, %r, 1000; setp.lt.u32 %q, %t, 100;
        bar.red.and.pred %q, 1, %q; @%q add.u32 %r, %r, 2000; bar.red.or.pred %q, 0, %p; @%q add.u32 %r, %r, 4000;""",
    "named barriers": """
        setp.lt.u32 %q, %t, 32; mov.u32 %b, tile; mov.u32 %r, 1; @!%q bra WAIT; st.shared.u32 [%b], 123;
        bar.arrive 3, 96; bra END; WAIT: bar.sync 3, 96; ld.shared.u32 %r, [%b]; add.u32 %r, %r, %x; END:""",
}
DECLARED = """.reg .u32 %t, %x, %r, %a, %b, %i, %j; .reg .pred %p, %q; .reg .b64 %from, %to, %off;
ld.param.u64 %from, [in]; ld.param.u64 %to, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %off, %t, 4;
add.s64 %from, %from, %off; add.s64 %to, %to, %off; ld.global.u32 %x, [%from]; setp.gt.u32 %p, %x, 25;"""


def module(first: str = "") -> str:
    kernels = [
        f".visible .entry k{n}(.param .u64 in, .param .u64 out) {{ .shared .align 4 .b8 tile[512];\n{DECLARED}\n{first}\n"
        f"{body}\nst.global.u32 [%to], %r; ret; }}"
        for n, body in enumerate(SHAPES.values())
    ]
    return HEADER + "\n".join(kernels)


@pytest.fixture(scope="module")
def shapes(simulator):
    with Duel(simulator, module()) as duel:
        yield duel


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_thread_gets_what_it_would_get_alone(shape, seed, shapes):
    x = np.random.default_rng(seed).integers(0, 60, THREADS).astype(np.uint32)
    kernel = f"k{list(SHAPES).index(shape)}"
    mine, theirs = shapes.outputs({"in": x}, 4 * THREADS, kernel, block=THREADS)
    assert list(np.frombuffer(mine, np.uint32)) == list(np.frombuffer(theirs, np.uint32))


@pytest.fixture(scope="module")
def parted(simulator):
    """The same with a question for the active lanes, so that a schedule may have them apart."""
    with Duel(simulator, module("activemask.b32 %b;")) as duel:
        yield duel


# What this one gives depends on who is active together.
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "warp-wide of one side"])
def test_and_so_it_does_in_any_order_of_the_lanes(shape, parted):
    x = np.random.default_rng(3).integers(0, 60, THREADS).astype(np.uint32)
    kernel = f"k{list(SHAPES).index(shape)}"
    for draw in range(1, 13):
        mine, theirs = parted.outputs({"in": x}, 4 * THREADS, kernel, block=THREADS, schedule=draw)
        assert list(np.frombuffer(mine, np.uint32)) == list(np.frombuffer(theirs, np.uint32)), draw


FUNCTIONS = (
    HEADER
    + """
.func (.param .b32 back) collatz(.param .b32 value, .param .b32 depth)
{ .reg .u32 %v, %d, %o; .reg .pred %p; .param .b32 a0; .param .b32 a1; .param .b32 r0;
  ld.param.u32 %v, [value]; ld.param.u32 %d, [depth];
  setp.le.u32 %p, %v, 1; @%p bra END; setp.eq.u32 %p, %d, 0; @!%p bra GO;
  st.param.b32 [back+0], 1000; ret;
  GO: and.b32 %o, %v, 1; setp.eq.u32 %p, %o, 0; @%p shr.u32 %v, %v, 1; @!%p mad.lo.u32 %v, %v, 3, 1;
  sub.u32 %d, %d, 1; st.param.b32 [a0], %v; st.param.b32 [a1], %d;
  call.uni (r0), collatz, (a0, a1); ld.param.b32 %v, [r0]; add.u32 %v, %v, 1; st.param.b32 [back], %v; ret;
  END: st.param.b32 [back+0], 0; ret; }
.func (.param .align 8 .b8 back[16]) pairs(.param .align 4 .b8 both[8], .param .b64 wide)
{ .reg .u32 %a, %b; .reg .b64 %w; .local .align 8 .b8 room[16]; .reg .b64 %l; .reg .s16 %h; .reg .pred %p;
  ld.param.v2.u32 {%a, %b}, [both]; ld.param.b64 %w, [wide]; mov.b64 %l, room;
  st.local.u32 [%l+4], %a; st.local.u32 [%l], %b; ld.local.b64 %l, [%l]; xor.b64 %w, %w, %l;
  setp.gt.u32 %p, %a, 30; @%p bra ODD; st.param.b64 [back], %w; st.param.b32 [back+8], %a; ret;
  ODD: ld.param.s16 %h, [both+2]; cvt.s64.s16 %l, %h; st.param.b64 [back], %l; st.param.b32 [back+8], 77; ret; }
.visible .entry k(.param .u64 in, .param .u64 out)
{ """
    + DECLARED
    + """ .param .b32 a0; .param .b32 a1; .param .b32 r0; .param .align 8 .b8 r1[16]; .param .align 4 .b8 a2[8];
  .param .b64 a3; .reg .b64 %w; mov.u32 %r, 0; @%p bra SKIP;
  st.param.b32 [a0], %x; st.param.b32 [a1], 40; call (r0), collatz, (a0, a1); ld.param.b32 %r, [r0];
  SKIP: cvt.u64.u32 %w, %x; shl.b64 %w, %w, 33; st.param.v2.b32 [a2], {%x, %t}; st.param.b64 [a3], %w;
  call (r1), pairs, (a2, a3); ld.param.b64 %w, [r1]; ld.param.b32 %a, [r1+8]; add.u32 %r, %r, %a;
  cvt.u32.u64 %a, %w; xor.b32 %r, %r, %a; shr.u64 %w, %w, 32; cvt.u32.u64 %a, %w; mad.lo.u32 %r, %a, 31, %r;
  st.global.u32 [%to], %r; ret; }"""
)


def test_functions_with_divergence_returns_and_recursion(simulator):
    x = np.arange(THREADS, dtype=np.uint32) % 60
    with Duel(simulator, FUNCTIONS) as duel:
        mine, theirs = duel.outputs({"in": x}, 4 * THREADS, block=THREADS)
    assert list(np.frombuffer(mine, np.uint32)) == list(np.frombuffer(theirs, np.uint32))


WAITING = (
    HEADER
    + f"""
.global .u32 lock; .global .u32 one; .global .u32 two; .global .u32 ticket; .global .u32 serving;
.visible .entry locked(.param .u64 in, .param .u64 out) {{ {DECLARED}
  TRY: atom.global.cas.b32 %a, [lock], 0, 1; setp.ne.u32 %p, %a, 0; @%p bra TRY;
  ld.volatile.global.u32 %b, [one]; add.u32 %b, %b, %x; st.volatile.global.u32 [one], %b; membar.gl;
  atom.global.exch.b32 %a, [lock], 0; st.global.u32 [%to], 1; bar.sync 0;
  ld.volatile.global.u32 %r, [one]; st.global.u32 [%to], %r; ret; }}
.visible .entry tickets(.param .u64 in, .param .u64 out) {{ {DECLARED}
  atom.global.add.u32 %a, [ticket], 1;
  WAIT: ld.volatile.global.u32 %b, [serving]; setp.ne.u32 %p, %a, %b; @%p bra WAIT;
  st.global.u32 [%to], %b; add.u32 %b, %b, 1; membar.gl; st.volatile.global.u32 [serving], %b; ret; }}
.visible .entry three(.param .u64 in, .param .u64 out) {{ {DECLARED}
  setp.eq.u32 %p, %t, 0; @!%p bra OTHERS; FIRST: ld.volatile.global.u32 %a, [two]; setp.eq.u32 %p, %a, 0; @%p bra FIRST;
  bra END; OTHERS: setp.eq.u32 %p, %t, 1; @!%p bra LAST; st.volatile.global.u32 [two], 1; st.volatile.global.u32 [one], 1;
  bra END; LAST: ld.volatile.global.u32 %a, [one]; setp.eq.u32 %p, %a, 0; @%p bra LAST;
  END: st.global.u32 [%to], 5; ret; }}
.visible .entry warps(.param .u64 in, .param .u64 out) {{ {DECLARED}
  setp.ge.u32 %p, %t, 32; @%p bra WRITE; WAIT: ld.volatile.global.u32 %a, [two]; setp.eq.u32 %p, %a, 0; @%p bra WAIT;
  bra END; WRITE: setp.eq.u32 %p, %t, 70; @%p st.volatile.global.u32 [two], 1; END: st.global.u32 [%to], 6; ret; }}
.visible .entry first(.param .u64 in, .param .u64 out) {{
  L: {{ .reg .pred %p; .reg .u32 %a; atom.global.cas.b32 %a, [lock], 0, 1; setp.ne.u32 %p, %a, 0; @%p bra L; }}
  {DECLARED} atom.global.exch.b32 %a, [lock], 0; st.global.u32 [%to], 8; ret; }}
"""
)


@pytest.mark.parametrize("kernel", ["locked", "tickets", "three", "warps", "first"])
def test_threads_that_wait_for_each_other_all_get_on(kernel, simulator):
    """Lanes of one warp that hold and want a lock, tickets, and warps that wait for later warps."""
    x = np.arange(THREADS, dtype=np.uint32)
    with Duel(simulator, WAITING) as duel:
        mine, theirs = duel.outputs({"in": x}, 4 * THREADS, kernel, block=THREADS, time_limit_s=10)
    found = np.frombuffer(mine, np.uint32)
    if kernel == "tickets":
        assert sorted(found) == list(range(THREADS))
    elif kernel == "locked":
        assert set(found) == {x.sum()}
    assert sorted(found) == sorted(np.frombuffer(theirs, np.uint32))
