# ruff: noqa: E501 - PTX reads best one statement after the other
"""The table of instructions: every entry and modifier is in some test's PTX, and nothing else is accepted."""

import itertools
from collections.abc import Iterator

import pytest
import test_async_copies
import test_calls
import test_control_flow
import test_counts
import test_instructions
import test_lowering
import test_member_masks
import test_memory
import test_tensors
from duel import HEADER

from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.codegen.__main__ import table_rows
from evaluator.backends.sim.codegen.instructions import entry_of, known_instructions
from evaluator.backends.sim.codegen.module import translate
from evaluator.backends.sim.codegen.table import FORMS, lowers
from evaluator.backends.sim.ptx.model import TYPE_BYTES, Instruction
from evaluator.backends.sim.ptx.parser import parse_ptx

# Words that change nothing in the simulator: each gives the C++ that the statement has without them.
CHANGE_NOTHING = {
    "ld{}.global.u32 %a, [%x];": "weak ca cs lu L1::evict_first L1::evict_last L1::evict_normal L1::evict_unchanged L1::no_allocate L2::64B L2::128B L2::256B L2::evict_first L2::evict_last L2::evict_normal",
    "ld.relaxed{}.global.u32 %a, [%x];": "mmio cta cluster gpu sys",
    "ldu{}.u32 %a, [%x];": "global",
    "st{}.global.u32 [%x], %a;": "weak wb cs wt L1::evict_first L1::evict_last L1::evict_normal L1::evict_unchanged L1::no_allocate L2::evict_first L2::evict_last L2::evict_normal",
    "st.release{}.global.u32 [%x], %a;": "mmio cta cluster gpu sys",
    "atom.acquire{}.global.add.u32 %a, [%x], %b;": "cta cluster gpu sys",
    "red.relaxed{}.global.add.u32 [%x], %b;": "cta cluster gpu sys",
    "red.global.add{}.f16x2 [%x], %b;": "noftz",
    "atom.global.add{}.f16x2 %a, [%x], %b;": "noftz",
    "prefetch{} [%x];": "global local L1 L2 L2::evict_last L2::evict_normal",
    "prefetchu{} [%x];": "L1",
    "applypriority{} [%x], 128;": "global L2::evict_normal",
    "discard{}.L2 [%x], 128;": "global",
    "cp.async.ca.shared.global{} [%a], [%x], 16;": "L2::64B L2::128B L2::256B",
    "mbarrier.arrive.shared{}.b64 %x, [%a];": "release relaxed cta cluster",
    "mbarrier.arrive_drop.shared{}.b64 %x, [%a];": "release relaxed cta cluster",
    "mbarrier.arrive{}.shared.b64 %x, [%a], 1;": "noComplete",
    "mbarrier.arrive_drop{}.shared.b64 %x, [%a], 1;": "noComplete",
    "mbarrier.expect_tx{}.shared.b64 [%a], 8;": "relaxed cta cluster",
    "mbarrier.complete_tx{}.shared.b64 [%a], 8;": "relaxed cta cluster",
    "mbarrier.test_wait{}.shared.b64 %p, [%a], %x;": "acquire relaxed cta cluster",
    "mbarrier.try_wait{}.shared.b64 %p, [%a], %x;": "acquire relaxed cta cluster",
    "fence.proxy{};": "alias async global shared::cta",
    "membar.proxy{};": "alias",
    "fence.mbarrier_init{};": "release cluster",
    "fence.sc{};": "gpu sys",
    "membar{};": "gl sys",
    "bar{}.sync 0;": "cta",
    "bar{}.arrive 0, 64;": "cta",
    "bar{}.red.or.pred %p, 0, %q;": "cta",
    "barrier{} 0;": "sync cta",
    "barrier{}.arrive 0, 64;": "cta aligned",
    "barrier{}.red.popc.u32 %a, 0, %q;": "cta aligned",
    "bra{} L; L: ;": "uni",
    "brx{} %a, T; T: .branchtargets L, M; L: membar.gl; M: ;": "idx uni",
    "ret{};": "uni",
    "griddepcontrol{};": "wait launch_dependents",
    "createpolicy{}.b64 %x, 0f3F800000;": "fractional range cvt global L2 L2::evict_first L2::evict_last L2::evict_normal L2::evict_unchanged",
    "cvta{}.u64 %x, %y;": "global local const param param::entry",
    "mma.sync.aligned.m8n8k4.row.col{}.f64.f64.f64.f64 {{%x, %y}}, {{%x}}, {{%y}}, {{%x, %y}};": "rn",
    "mov.u32 %a, %b; brkpt{};": "",
    "mov.u32 %a, %b; pmevent{} 1;": "mask",
}
# Each says the same as the other.
SAME = {
    "cvta.to.shared::cta.u64 %x, %y;": "cvta.to.shared.u64 %x, %y;",
    "cvta.shared::cta.u64 %x, %y;": "cvta.shared.u64 %x, %y;",
    "isspacep.shared::cta %p, %x;": "isspacep.shared %p, %x;",
    "isspacep.param::entry %p, %x;": "isspacep.param %p, %x;",
    "ld.shared::cta.u32 %a, [%b];": "ld.shared.u32 %a, [%b];",
    "ld.param::entry.u64 %x, [from];": "ld.param.u64 %x, [from];",
    "ld.param::func.u32 %a, [got];": "ld.param.u32 %a, [got];",
    "st.shared::cta.u32 [%b], %a;": "st.shared.u32 [%b], %a;",
    "st.param::func.u32 [given], %a;": "st.param.u32 [given], %a;",
    "atom.shared::cta.add.u32 %a, [%b], 1;": "atom.shared.add.u32 %a, [%b], 1;",
    "red.shared::cta.add.u32 [%b], 1;": "red.shared.add.u32 [%b], 1;",
    "ld.global.L2::cache_hint.u32 %a, [%x], %y;": "ld.global.u32 %a, [%x];",
    "st.global.L2::cache_hint.u32 [%x], %a, %y;": "st.global.u32 [%x], %a;",
    "atom.global.add.L2::cache_hint.u32 %a, [%x], 1, %y;": "atom.global.add.u32 %a, [%x], 1;",
    "red.global.add.L2::cache_hint.u32 [%x], 1, %y;": "red.global.add.u32 [%x], 1;",
    "ldu.v2.u32 {%a, %b}, [%x];": "ld.v2.u32 {%a, %b}, [%x];",
    "ldu.v4.u32 {%a, %b, %c, %d}, [%x];": "ld.v4.u32 {%a, %b, %c, %d}, [%x];",
    "mad.rn.ftz.sat.f32 %a, %b, %c, %d;": "fma.rn.ftz.sat.f32 %a, %b, %c, %d;",
    "mad.rz.f64 %x, %y, %z, %x;": "fma.rz.f64 %x, %y, %z, %x;",
    "mad.rm.f32 %a, %b, %c, %d;": "fma.rm.f32 %a, %b, %c, %d;",
    "mad.rp.f32 %a, %b, %c, %d;": "fma.rp.f32 %a, %b, %c, %d;",
    **{f"set.{a}.u32.u32 %a, %b, %c;": f"set.{b}.u32.u32 %a, %b, %c;" for a, b in (("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge"))},
    "wmma.load.c.sync.aligned.row.m8n8k4.shared::cta.f64 {%x, %y}, [%a], 8;": "wmma.load.c.sync.aligned.row.m8n8k4.shared.f64 {%x, %y}, [%a], 8;",
    "wmma.store.d.sync.aligned.col.m8n8k4.shared::cta.f64 [%a], {%x, %y}, 8;": "wmma.store.d.sync.aligned.col.m8n8k4.shared.f64 [%a], {%x, %y}, 8;",
    "barrier.sync.aligned 1, 64;": "bar.sync 1, 64;",
    "barrier.red.aligned.and.pred %p, 0, %q;": "bar.red.and.pred %p, 0, %q;",
    "barrier.red.or.pred %p, 0, %q;": "bar.red.or.pred %p, 0, %q;",
    "ldmatrix.sync.aligned.m8n8.x1.shared::cta.b16 {%a}, [%c];": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%a}, [%c];",
    **{
        f"mbarrier.{what.replace('shared', 'shared::cta')}": f"mbarrier.{what}"
        for what in (
            "init.shared.b64 [%a], 1;", "inval.shared.b64 [%a];", "arrive.shared.b64 %x, [%a];",
            "arrive_drop.shared.b64 %x, [%a];", "expect_tx.shared.b64 [%a], 8;", "complete_tx.shared.b64 [%a], 8;",
            "test_wait.shared.b64 %p, [%a], %x;", "try_wait.shared.b64 %p, [%a], %x;",
        )
    },
}  # fmt: skip
# What an access says to threads that look on: the strength of its site, and which sides it orders for whom.
STRENGTHS = {
    "ld.relaxed.gpu.global.u32 %a, [%x];": "RELAXED",
    "ld.volatile.global.u32 %a, [%x];": "RELAXED",
    "ld.global.cg.u32 %a, [%x];": "RELAXED",
    "ld.global.cv.u32 %a, [%x];": "RELAXED",
    "ld.acquire.gpu.global.u32 %a, [%x];": "FENCED ACQUIRES",
    "ld.global.u32 %a, [%x];": "PLAIN",
    "st.relaxed.gpu.global.u32 [%x], %a;": "RELAXED",
    "st.global.cg.u32 [%x], %a;": "RELAXED",
    "st.release.gpu.global.u32 [%x], %a;": "FENCED RELEASES",
    "atom.acq_rel.gpu.global.add.u32 %a, [%x], 1;": "FENCED ACQUIRES | RELEASES",
    "atom.release.gpu.global.add.u32 %a, [%x], 1;": "FENCED RELEASES",
    "atom.relaxed.gpu.global.add.u32 %a, [%x], 1;": "RELAXED",
    "red.acq_rel.gpu.global.add.u32 [%x], 1;": "FENCED ACQUIRES | RELEASES",
    "red.acquire.gpu.global.add.u32 [%x], 1;": "FENCED ACQUIRES",
    "red.release.gpu.global.add.u32 [%x], 1;": "FENCED RELEASES",
    "ld.relaxed.cta.global.u32 %a, [%x];": "RELAXED OF_BLOCK",
    "atom.cta.global.add.u32 %a, [%x], 1;": "PLAIN OF_BLOCK",
    "ld.acquire.sys.global.u32 %a, [%x];": "FENCED ACQUIRES",
}
# What a fence orders.
FENCES = {
    "fence.gpu;": "ACQUIRES | RELEASES",
    "fence.acq_rel.cta;": "ACQUIRES | RELEASES | OF_BLOCK",
    "fence.acq_rel.cluster;": "ACQUIRES | RELEASES | OF_BLOCK",
    "fence.acquire.gpu;": "ACQUIRES",
    "fence.release.sys;": "RELEASES",
    "fence.sc.gpu;": "ACQUIRES | RELEASES | SEQUENTIAL",
    "membar.gl;": "ACQUIRES | RELEASES | SEQUENTIAL",
    "membar.cta;": "ACQUIRES | RELEASES | OF_BLOCK | SEQUENTIAL",
}
# Updates of so many elements, each by itself.
ELEMENTS = {
    2: "{op}.global.add.v2.f32 {old}[%x], {{%a, %b}};",
    4: "{op}.global.add.v4.f32 {old}[%x], {{%a, %b, %c, %d}};",
    8: "{op}.global.add.noftz.v8.f16 {old}[%x], {{%h, %i, %h, %i, %h, %i, %h, %i}};",
}
# Entries and modifiers without PTX of their own here, and why.
NOT_HERE: dict[tuple[str, str], str] = {}


def of_elements(op: str, count: int) -> str:
    old = "_, " if op == "atom" else ""
    return ELEMENTS[count].format(op=op, old=old)


def statement(ptx: str) -> str:
    return HEADER + test_lowering.DECLARED + ptx + " ret; }"


def words_in(template: str, words: str) -> Iterator[str]:
    yield from (template.format(f".{word}" if word else "") for word in words.split() or [""])


def inputs() -> Iterator[str]:
    """PTX of this folder's tests and its neighbours."""
    yield from (test_control_flow.module(), test_control_flow.FUNCTIONS, test_control_flow.WAITING)
    yield from (test_member_masks.MODULE, test_tensors.product_kernel(test_tensors.PRODUCTS))
    yield from (test_instructions.kernel(list(cases())) for cases in test_instructions.FAMILIES.values())
    yield from (test_memory.module(list(cases())) for cases in test_memory.FAMILIES.values())
    for case in test_async_copies.CASES.values():
        yield HEADER + test_async_copies.HEAD + case + test_async_copies.SHOW
    yield from (HEADER + test_counts._kernel("k", sample.body) for sample in test_counts.SAMPLES.values())
    yield test_calls.module(test_calls.BODIES)
    yield test_tensors.moves_kernel()
    yield test_tensors.fragments_kernel()
    said = [ptx for _, ptx, _ in test_lowering.CASES] + [*SAME, *SAME.values(), *STRENGTHS, *FENCES]
    said += itertools.starmap(of_elements, itertools.product(("atom", "red"), ELEMENTS))
    said += itertools.chain.from_iterable(words_in(*pair) for pair in CHANGE_NOTHING.items())
    yield from map(statement, said)


def test_every_entry_and_modifier_is_in_a_test():
    seen = set()
    for text in inputs():
        for function in parse_ptx(text).functions.values():
            for i in function.body:
                if isinstance(i, Instruction):
                    seen |= {(entry_of(i).name, word) for word in ("", *i.modifiers)}
    known = {(entry.name, word) for _, entry in known_instructions() for word in ("", *entry.modifiers)}
    assert sorted(known - seen) == sorted(NOT_HERE)


@pytest.mark.parametrize("template", CHANGE_NOTHING)
def test_a_word_that_changes_nothing(template):
    plain = template.format("")
    for ptx in words_in(template, CHANGE_NOTHING[template]):
        assert test_lowering.cpp_of(ptx) == test_lowering.cpp_of(plain), ptx


@pytest.mark.parametrize("ptx", SAME)
def test_two_ways_to_say_the_same(ptx):
    assert test_lowering.cpp_of(ptx) == test_lowering.cpp_of(SAME[ptx])


@pytest.mark.parametrize("ptx", STRENGTHS)
def test_the_strength_of_an_access(ptx):
    text = translate(parse_ptx(statement(ptx))).text
    sites = next(line for line in text.splitlines() if line.startswith("static Site S[]"))
    strength, _, semantics = STRENGTHS[ptx].partition(" ")
    said = f", {semantics}" if semantics else ""
    assert sites == f"static Site S[] = {{{{0, 0, 1, {strength}, 0, 0{said}}}}};"


@pytest.mark.parametrize("ptx", FENCES)
def test_what_a_fence_orders(ptx):
    assert test_lowering.cpp_of(ptx).strip() == f"point(w); fence(w, m, {FENCES[ptx]});"


@pytest.mark.parametrize("count", ELEMENTS)
def test_each_element_is_updated_by_itself(count):
    lines = test_lowering.cpp_of(of_elements("red", count)).splitlines()[1:-1]
    assert lines == test_lowering.cpp_of(of_elements("atom", count)).splitlines()[1:-1]
    element_bytes = 2 if count == 8 else 4
    assert len(lines) == count
    for n, line in enumerate(lines):
        place = f"add_b64(%x, all64((u64){n * element_bytes}ll))" if n else "%x"
        assert f"(w, m, {place}, S[{n}], " in line


@pytest.mark.parametrize("name", [entry.name for _, entry in known_instructions()])
def test_a_word_that_an_entry_does_not_list_is_named(name):
    ptx = f"{name}.frob;"
    with pytest.raises(UnsupportedError) as found:
        translate(
            parse_ptx(
                statement(ptx if name not in ("bra", "brx") else f"{name}.frob L; L: .branchtargets M; L: M: ;")
            )
        )
    assert found.value.feature.startswith(f"{name}.frob")


def test_an_entry_is_registered_once():
    with pytest.raises(AssertionError, match=r"wmma\.load is registered twice"):
        lowers("wmma.load")(lambda c, i: "")
    assert "wmma.load" in {form.name for form in FORMS["wmma"]}


def test_of_two_forms_the_longer_or_the_first_one_is_meant():
    def form(text: str) -> str:
        opcode, *modifiers = text.split(".")
        return entry_of(Instruction(opcode, tuple(modifiers), (), 0)).name

    assert form("mbarrier.arrive.expect_tx.shared.b64") == "mbarrier.arrive"
    assert form("cp.async.mbarrier.arrive.b64") == "cp.async.mbarrier.arrive"
    assert form("mad.hi.cc.u32") == "mad.cc"
    assert form("barrier.cta.red.popc.u32") == "barrier.red"
    assert form("frobnicate.u32") == ""


def test_the_list_shows_every_entry():
    heading, *rows = table_rows()
    assert len(rows) == len(list(known_instructions())) > 100
    assert all(len(row) == len(heading) for row in rows)
    by_name = {row[1]: dict(zip(heading, row, strict=True)) for row in rows}
    assert by_name["mbarrier.try_wait"] == {
        "family": "async_copies",
        "instruction": "mbarrier.try_wait",
        "types": "b64",
        "first types": "",
        "modifiers": "acquire cluster cta parity relaxed shared shared::cta",
        "operands": "",
        "guard": "skip",
        "counts as": "barrier",
        "flags": "destination waits",
    }
    assert all(set(row[2].split()) <= TYPE_BYTES.keys() | {"none"} for row in rows)
