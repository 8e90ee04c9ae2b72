"""The axioms by which litmus tests are judged agree with what the literature says of them."""

import pytest

from benchmarks._support.litmus import LitmusTest, allowed
from benchmarks.simulator.litmus_tests import litmus_tests

# Lustig et al., ASPLOS 2019, and the PTX ISA's own examples: causality is cumulative, scopes must include each other,
# only `fence.sc` forbids store buffering, atomics are atomic for those whom their scope includes.
FORBIDDEN = {
    "MP+acq_rel.gpu+acq_rel.gpu", "MP+release+acquire.gpu", "MP+atom.release+atom.acquire.sys",
    "MP+acq_rel.cta+acq_rel.cta+one block", "SB+sc.gpu+relaxed.gpu", "LB+acq_rel.gpu", "LB+acquire+release",
    "CoRR+relaxed.gpu", "CoWW+weak", "CoRW+weak", "CoWR+weak", "2+2W+sc.gpu", "WRC+acq_rel.gpu", "IRIW+sc.gpu",
    "ISA2+acq_rel.gpu", "R+sc.gpu", "S+acq_rel.gpu", "adds.gpu", "adds.cta+one block", "barrier",
    "MP through an atomic", "MP+barrier+sc.gpu", "MP+read barrier+sc.gpu",
}  # fmt: skip
ALLOWED = {
    "MP+none+none", "MP+sc.gpu+none", "MP+none+sc.gpu", "MP+acq_rel.cta+acq_rel.cta", "MP+release+acquire.cta",
    "MP+all volatile", "MP+flag.cta+acq_rel.gpu", "SB+acq_rel.gpu+relaxed.gpu", "SB+release+acquire", "LB+none",
    "CoRR+weak", "2+2W+relaxed.gpu", "WRC+none", "IRIW+acq_rel.gpu", "R+acq_rel.gpu", "adds.cta", "lost update",
    "MP+barrier+sc.cta",
}  # fmt: skip


def test_the_axioms_agree_with_the_literature():
    known = {test.name: test for test in litmus_tests()}
    assert len(known) == len(litmus_tests())
    may_be = {
        name
        for name in FORBIDDEN | ALLOWED
        if any(known[name].of_interest(outcome) == known[name].question for outcome in allowed(known[name]))
    }
    assert may_be == ALLOWED


def test_every_outcome_of_a_small_test():
    test = LitmusTest("one", "A: st.relaxed.gpu x 1; r0 = ld.relaxed.gpu x\nB: r1 = atom.relaxed.gpu.add x 2", "r0=1")
    # The update comes before the store, or between it and the load, or last.
    assert {dict(outcome)["x"] for outcome in allowed(test)} == {1, 3}
    assert {(dict(o)["r0"], dict(o)["r1"], dict(o)["x"]) for o in allowed(test)} == {(1, 0, 1), (3, 1, 3), (1, 1, 3)}


def test_what_is_no_operation_is_refused():
    with pytest.raises(ValueError, match="no operation"):
        allowed(LitmusTest("bad", "A: ld x, y", "r0=0"))
