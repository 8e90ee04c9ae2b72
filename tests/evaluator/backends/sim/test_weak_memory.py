"""Weak memory shows what the axioms of the PTX ISA allow and nothing else; scopes count for the shadow memory too."""

import numpy as np
import pytest
from duel import HEADER, Duel

from benchmarks.simulator import litmus_tests
from evaluator.backends.session import Buffer, KernelLaunch, PlanRun, Pointer, Watch

DRAWS = 150
TESTS = {test.name: test for test in litmus_tests.litmus_tests()}
# Allowed by the axioms, and to be seen under so many draws.
SEEN = (
    "MP+none+none", "MP+none+sc.gpu", "MP+acq_rel.cta+acq_rel.cta", "MP+loaded+sc.gpu+none", "MP+release+acquire.cta",
    "MP+atom.relaxed", "SB+acq_rel.gpu+relaxed.gpu", "2+2W+weak", "ISA2+none", "adds.cta", "lost update",
    "MP+barrier+none", "MP+flag.cta+acq_rel.gpu", "LB+none", "MP+sc.gpu+none",
)  # fmt: skip
# Forbidden by them.
NEVER = (
    "MP+acq_rel.gpu+acq_rel.gpu", "MP+acq_rel.cta+acq_rel.cta+one block", "MP+loaded+sc.gpu+acq_rel.gpu",
    "MP+release+acquire.gpu", "SB+sc.gpu+weak", "LB+acq_rel.gpu", "CoRR+relaxed.gpu", "CoWW+weak", "CoWR+weak",
    "WRC+acq_rel.gpu", "IRIW+sc.gpu", "ISA2+acq_rel.gpu", "S+acq_rel.gpu", "adds.cta+one block", "adds.gpu",
    "MP through an atomic", "barrier", "MP+barrier+sc.gpu", "MP+read barrier+sc.gpu",
    "MP+flag.cta+sc.gpu", "MP+one flag twice", "MP+two flags",
)  # fmt: skip


def test_litmus_tests(simulator):
    chosen = [TESTS[name] for name in (*SEEN, *NEVER)]
    results = {result.name: result for result in litmus_tests.results(simulator, chosen, DRAWS)}
    assert [name for name, result in results.items() if result.forbidden] == []
    assert [name for name in SEEN if not (results[name].allowed and results[name].seen)] == []
    assert [name for name in NEVER if results[name].allowed or results[name].seen] == []


# Each block counts itself, after a store and whatever stands in between; the last one adds up what all have stored.
LAST_BLOCK = (
    HEADER
    + """
.visible .entry k(.param .u64 part, .param .u64 out) {
.reg .b64 %part, %out, %a; .reg .b32 %b, %t, %n, %i, %s, %x; .reg .pred %p;
ld.param.u64 %part, [part]; ld.param.u64 %out, [out]; mov.u32 %b, %ctaid.x; mov.u32 %n, %nctaid.x; mov.u32 %t, %tid.x;
setp.ne.u32 %p, %t, 0; @%p bra END; mul.wide.u32 %a, %b, 4; add.s64 %a, %part, %a; add.u32 %x, %b, 1;
st.global.u32 [%a+4], %x; FENCE atom.relaxed.SCOPE.global.add.u32 %t, [%part], 1; add.u32 %t, %t, 1;
setp.ne.u32 %p, %t, %n; @%p bra END; FENCE mov.u32 %s, 0; mov.u32 %i, 0;
L: mul.wide.u32 %a, %i, 4; add.s64 %a, %part, %a; ld.global.u32 %x, [%a+4]; add.u32 %s, %s, %x; add.u32 %i, %i, 1;
setp.lt.u32 %p, %i, %n; @%p bra L; st.global.u32 [%out], %s;
END: ret; }"""
)
BLOCKS = 8


def last_block(duel: Duel, **options):
    zeros = np.zeros(BLOCKS + 1, np.uint32)
    buffers = (Buffer("part", "input", zeros.nbytes, 4, zeros), Buffer("out", "input", 4, 4, zeros[:1]))
    launch = KernelLaunch("k", (BLOCKS, 1, 1), (32, 1, 1), 0, False, (Pointer("part"), Pointer("out")))
    outcome = duel.session.run(PlanRun(buffers, (launch,), 0x5B, 20.0, **options))
    assert outcome.fault is None
    return int(np.asarray(outcome.contents["out"]).view(np.uint32)[0]), outcome


@pytest.mark.parametrize(
    ("fence", "scope", "wrong", "watched"),
    [
        ("fence.acq_rel.gpu;", "gpu", set(), []),
        ("membar.sys;", "sys", set(), []),
        ("", "gpu", {"stale_read"}, ["unfenced"]),
        ("fence.sc.cta;", "gpu", {"stale_read"}, ["unfenced"]),
        ("fence.sc.gpu;", "cta", {"stale_read"}, ["race"]),
    ],
)
def test_a_last_block_needs_a_fence_and_an_atomic_of_the_gpu(fence, scope, wrong, watched, simulator):
    expected = BLOCKS * (BLOCKS + 1) // 2
    with Duel(simulator, LAST_BLOCK.replace("FENCE", fence).replace("SCOPE", scope)) as duel:
        assert duel.session.shares_memory
        assert last_block(duel)[0] == expected
        found = [last_block(duel, weak_memory=draw) for draw in range(1, 31)]
        assert any(total != expected for total, _ in found) == bool(wrong)
        assert {hazard.kind for total, outcome in found if total != expected for hazard in outcome.hazards} == wrong
        assert last_block(duel, weak_memory=30)[0] == found[-1][0]
        total, outcome = last_block(duel, watch=Watch(), weak_memory=1)
        assert total == expected
        assert [hazard.kind for hazard in outcome.hazards][:1] == watched


def test_what_is_too_much_to_follow_is_performed_at_once(simulator):
    words, threads = 1 << 19, 1024
    text = (
        HEADER
        + """
.visible .entry k(.param .u64 out) { .reg .b64 %o, %a; .reg .b32 %i, %n, %b;
ld.param.u64 %o, [out]; mov.u32 %i, %tid.x; mov.u32 %n, %ntid.x; mov.u32 %b, %ctaid.x; mad.lo.u32 %i, %b, %n, %i;
mul.wide.u32 %a, %i, 4; add.s64 %a, %o, %a; st.global.u32 [%a], %i; st.volatile.global.u32 [%a], %i; ret; }"""
    )
    with Duel(simulator, text) as duel:
        buffers = (Buffer("out", "output", 4 * words, 4, None),)
        launch = KernelLaunch("k", (words // threads, 1, 1), (threads, 1, 1), 0, False, (Pointer("out"),))
        outcome = duel.session.run(PlanRun(buffers, (launch,), 0x5B, 20.0, weak_memory=1))
        assert outcome.fault is None
        assert np.array_equal(np.asarray(outcome.contents["out"]).view(np.uint32), np.arange(words, dtype=np.uint32))
