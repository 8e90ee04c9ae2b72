# ruff: noqa: E501 - PTX reads best one statement after the other
"""Counts against what a person counts: each kernel's numbers were worked out by hand, from the CUDA documents' rules."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from duel import HEADER, POISON, entries_of
from hypothesis import given, settings
from hypothesis import strategies as st

from common.contract import Settings
from common.contract.counters import Counts, LaunchCounts
from evaluator.backends.session import Buffer, KernelLaunch, PlanRun, Pointer, Program
from evaluator.backends.sim.backend import Simulator
from evaluator.backends.sim.ptx import parser
from evaluator.backends.sim.session import SimulatorSession

# Every kernel begins with these 8 instructions: two parameters, five integers and moves, and one address of its own.
PROLOGUE = """
ld.param.u64 %from, [from]; ld.param.u64 %to, [to]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x;
mad.lo.u32 %i, %b, 32, %t; mul.wide.u32 %d, %i, 4; add.u64 %in, %from, %d; add.u64 %out, %to, %d;
"""
PROLOGUE_LENGTH = 8


@dataclass(frozen=True)
class Sample:
    body: str
    expected: dict[str, Any]
    grid: int = 1
    block: int = 32
    lines: dict[int, dict[str, Any]] = field(default_factory=dict)


SAMPLES = {
    # 2 blocks of 2 warps; a multiplication and addition in one, so 2 x 32 x 4 operations.
    "coalesced": Sample(
        "ld.global.f32 %f, [%in]; fma.rn.f32 %f, %f, %f, %f; st.global.f32 [%out], %f; ret;",
        {
            "warp_instructions": 4 * (PROLOGUE_LENGTH + 4),
            "thread_instructions": 128 * (PROLOGUE_LENGTH + 4),
            "by_class": {"constant": 8, "move": 8, "integer": 16, "global": 8, "fp32": 4, "control": 4},
            "flops": {"fp32": 256},
            # Blocks overlap by one warp: 4 requests of 4 sectors, on 3 x 4 different ones.
            "loads": {"requests": 4, "sectors": 16, "least_sectors": 16, "lines": 4, "useful_bytes": 512, "unique_sectors": 12},
            "stores": {"requests": 4, "sectors": 16, "least_sectors": 16, "lines": 4, "useful_bytes": 512, "unique_sectors": 12},
        },
        grid=2,
        block=64,
    ),
    # 4 bytes behind a sector's start: 128 bytes lie in 5 sectors and 2 lines.
    "shifted": Sample(
        "ld.global.f32 %f, [%in+4]; ret;",
        {"loads": {"requests": 1, "sectors": 5, "least_sectors": 4, "lines": 2, "useful_bytes": 128, "unique_sectors": 5}},
    ),
    # Every lane 128 bytes from the next.
    "strided": Sample(
        "mul.wide.u32 %d, %t, 128; add.u64 %d, %d, %from; ld.global.f32 %f, [%d]; ret;",
        {"loads": {"requests": 1, "sectors": 32, "least_sectors": 4, "lines": 32, "useful_bytes": 128, "unique_sectors": 32}},
    ),
    # All lanes read one element, three times.
    "uniform": Sample(
        "ld.global.f32 %f, [%from]; ld.global.f32 %f, [%from]; ld.global.f32 %f, [%from]; ret;",
        {"loads": {"requests": 3, "sectors": 3, "least_sectors": 3, "lines": 3, "useful_bytes": 12, "unique_sectors": 1}},
    ),
    # 16 bytes a lane: 512 bytes in 16 sectors.
    "vector": Sample(
        "mul.wide.u32 %d, %t, 16; add.u64 %d, %d, %from; ld.global.v4.f32 {%f, %g, %f, %g}, [%d]; ret;",
        {"loads": {"requests": 1, "sectors": 16, "least_sectors": 16, "lines": 4, "useful_bytes": 512, "unique_sectors": 16}},
    ),
    # 5 of 32 lanes go the other way; those 5 threads of the first warp alone store, 20 bytes in one sector.
    "diverged": Sample(
        "setp.lt.u32 %p, %t, 5; @%p bra A; ret; A: st.global.f32 [%out], 0f00000000; ret;",
        {
            "warp_instructions": 2 * (PROLOGUE_LENGTH + 2) + 2 + 2,
            "thread_instructions": 64 * (PROLOGUE_LENGTH + 2) + 59 + 5 * 2,
            "branches": 2,
            "divergent_branches": 1,
            "stores": {"requests": 1, "sectors": 1, "least_sectors": 1, "lines": 1, "useful_bytes": 20, "unique_sectors": 1},
            "idle_threads": 59,
        },
        block=64,
    ),
    # A loop of 10 turns: a branch each, which never diverges.
    "loop": Sample(
        "mov.u32 %i, 0; T: add.f32 %f, %f, %f; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 10; @%p bra T; ret;",
        {
            "warp_instructions": PROLOGUE_LENGTH + 1 + 4 * 10 + 1,
            "branches": 10,
            "divergent_branches": 0,
            "flops": {"fp32": 320},
            "idle_threads": 32,
        },
    ),
    # Column access of a tile with rows of 32 words: all lanes in one bank; then with rows of 33 words: each its own.
    "banks": Sample(
        """mul.lo.u32 %i, %t, 128; mov.u32 %s, tile; add.u32 %s, %s, %i; st.shared.f32 [%s], 0f00000000;
        mul.lo.u32 %i, %t, 132; mov.u32 %s, tile; add.u32 %s, %s, %i; ld.shared.f32 %f, [%s]; ret;""",
        {"shared": {"requests": 2, "wavefronts": 33, "least_wavefronts": 2}},
    ),
    # Two lanes a word are one access; a stride of two words meets every bank twice.
    "two ways": Sample(
        """shr.u32 %i, %t, 1; shl.b32 %i, %i, 2; mov.u32 %s, tile; add.u32 %s, %s, %i; ld.shared.f32 %f, [%s];
        shl.b32 %i, %t, 3; mov.u32 %s, tile; add.u32 %s, %s, %i; ld.shared.f32 %f, [%s]; ret;""",
        {"shared": {"requests": 2, "wavefronts": 3, "least_wavefronts": 2}},
    ),
    # 8 bytes a lane go in two halves, 16 in four quarters; 16 bytes that all lanes share, in two passes.
    "wide shared": Sample(
        """shl.b32 %i, %t, 3; mov.u32 %s, tile; add.u32 %s, %s, %i; ld.shared.v2.f32 {%f, %g}, [%s];
        shl.b32 %i, %t, 4; mov.u32 %s, tile; add.u32 %s, %s, %i; ld.shared.v4.f32 {%f, %g, %f, %g}, [%s];
        ld.shared.v4.f32 {%f, %g, %f, %g}, [tile]; ret;""",
        {"shared": {"requests": 3, "wavefronts": 8, "least_wavefronts": 8}},
    ),
    # Quarters of eight lanes, each 32 bytes from the next: every second group of four banks, twice each.
    "wide conflict": Sample(
        """shl.b32 %i, %t, 5; mov.u32 %s, tile; add.u32 %s, %s, %i; ld.shared.v4.f32 {%f, %g, %f, %g}, [%s]; ret;""",
        {"shared": {"requests": 1, "wavefronts": 8, "least_wavefronts": 4}},
    ),
    # 64 lanes add to 4 counters, 8 lanes of each warp to each; then all to the first.
    "atomics": Sample(
        """and.b32 %i, %t, 3; mul.wide.u32 %d, %i, 4; add.u64 %d, %d, %to; red.global.add.u32 [%d], 1;
        atom.global.add.u32 %i, [%to], 1; ret;""",
        {"atomics": {"requests": 4, "operations": 128, "turns": 2 * 8 + 2 * 32, "busiest": 16 + 64, "addresses": 4}, "loads": {}, "stores": {}},
        block=64,
    ),
    # Guarded lanes alone do operations and touch memory; the instruction itself is executed by all.
    "guarded": Sample(
        "setp.lt.u32 %p, %t, 8; @%p add.f32 %f, %f, %f; @%p ld.global.f32 %f, [%in]; ret;",
        {
            "thread_instructions": 32 * (PROLOGUE_LENGTH + 4),
            "flops": {"fp32": 8},
            "loads": {"requests": 1, "sectors": 1, "least_sectors": 1, "lines": 1, "useful_bytes": 32, "unique_sectors": 1},
            "idle_threads": 24,
        },
    ),
    # Local memory is interleaved by words: the same 8 bytes of 32 threads are 2 lines; lane-wise different words, 32.
    "local": Sample(
        """st.local.u64 [stack], %d; shl.b32 %i, %t, 2; cvt.u64.u32 %d, %i; mov.u64 %in, stack; add.u64 %in, %in, %d;
        ld.local.u32 %i, [%in]; ret;""",
        {
            "local": {"requests": 2, "sectors": 8 + 32, "least_sectors": 8 + 4, "lines": 2 + 32, "useful_bytes": 256 + 128},
            "loads": {},
            "idle_threads": 0,
        },
    ),
    "barriers": Sample(
        "bar.sync 0; shfl.sync.bfly.b32 %i, %t, 1, 31, -1; bar.warp.sync -1; membar.gl; ret;",
        {"barriers": 3, "by_class": {"constant": 6, "move": 6, "integer": 12, "barrier": 9, "shuffle": 3, "control": 3}},
        block=96,
    ),
    # Of half precision pairs, two operations a lane each; a double; a conversion; a square root is none.
    "kinds": Sample(
        """fma.rn.f16x2 %i, %i, %i, %i; add.f64 %e, %e, %e; cvt.f32.f64 %f, %e; sqrt.rn.f32 %f, %f; min.f32 %f, %f, %f;
        ret;""",
        {
            "flops": {"fp16": 128, "fp64": 32, "fp32": 0},
            "by_class": {"constant": 2, "move": 2, "integer": 4, "fp16": 1, "fp64": 1, "conversion": 1, "special": 1, "fp32": 1, "control": 1},
        },
    ),
    # A generic address is what it turns out to be.
    "generic": Sample(
        "cvta.shared.u64 %d, tile; ld.f32 %f, [%d]; ld.f32 %f, [%in]; ret;",
        {
            "by_class": {"constant": 2, "move": 3, "integer": 4, "shared": 1, "global": 1, "control": 1},
            "shared": {"requests": 1, "wavefronts": 1, "least_wavefronts": 1},
            "loads": {"requests": 1, "sectors": 4, "least_sectors": 4, "lines": 1, "useful_bytes": 128, "unique_sectors": 4},
        },
    ),
    "three ways": Sample(
        "and.b32 %i, %t, 3; LIST: .branchtargets A, B, C, C; brx.idx %i, LIST; A: ret; B: ret; C: ret;",
        {"branches": 1, "divergent_branches": 1, "thread_instructions": 32 * (PROLOGUE_LENGTH + 3)},
    ),
}  # fmt: skip


def _kernel(name: str, body: str) -> str:
    return f""".visible .entry {name}(.param .u64 from, .param .u64 to) {{
    .reg .pred %p; .reg .b32 %t, %b, %i, %s; .reg .b64 %from, %to, %d, %in, %out; .reg .f32 %f, %g; .reg .f64 %e;
    .shared .align 16 .b8 tile[8192]; .local .align 8 .b8 stack[128];
    {PROLOGUE} {body} }}
"""


@pytest.fixture(scope="module")
def session(simulator: Simulator) -> Iterator[SimulatorSession]:
    """All kernels in one program, because that is what the host compiler takes its time for."""
    text = HEADER + "".join(_kernel(_symbol(name), sample.body) for name, sample in SAMPLES.items())
    with simulator.prepare(Program(text, entries_of(parser.parse_ptx(text)), "sm_80"), Settings()) as session:
        yield session


def _symbol(name: str) -> str:
    return name.replace(" ", "_")


BUFFERS = (
    Buffer("from", "input", 1 << 16, 4, np.zeros(1 << 14, np.float32)),
    Buffer("to", "output", 1 << 16, 4, np.zeros(1 << 14, np.float32)),
)


BUFFER_POINTERS = (Pointer("from"), Pointer("to"))


def _launch(name: str, grid: int, block: int) -> KernelLaunch:
    return KernelLaunch(_symbol(name), (grid, 1, 1), (block, 1, 1), 0, False, (Pointer("from"), Pointer("to")))


def _counted(session: SimulatorSession, *launches: KernelLaunch, sample_blocks: int = 0) -> tuple[LaunchCounts, ...]:
    outcome = session.run(PlanRun(BUFFERS, launches, POISON, 10.0, count=True, sample_blocks=sample_blocks))
    assert outcome.fault is None, outcome.fault
    return outcome.counts


@pytest.mark.parametrize("name", SAMPLES)
def test_counts_are_those_of_a_person(session: SimulatorSession, name: str) -> None:
    sample = SAMPLES[name]
    (counts,) = _counted(session, _launch(name, sample.grid, sample.block))
    found = counts.model_dump()
    for quantity, expected in sample.expected.items():
        seen = found.get(quantity, {} if isinstance(expected, dict) else 0)
        if quantity == "flops":
            expected = {kind: count for kind, count in expected.items() if count}
        if quantity in ("loads", "stores"):  # all blocks were counted
            assert seen.pop("block_sectors", 0) == seen.get("unique_sectors", 0)
        assert seen == expected, quantity
    assert sum(counts.by_class.values()) == counts.warp_instructions
    assert counts.counted_blocks == sample.grid


def test_what_a_line_did_is_its_own_and_the_lines_sum_up_to_the_launch(simulator: Simulator) -> None:
    body = """.loc 1 5 0
    ld.global.f32 %f, [%in];
    .loc 1 7 0
    add.f32 %f, %f, %f; st.global.f32 [%out], %f;
    .loc 1 9 0
    ret;"""
    text = HEADER + '.file 1 "kernel.cu"\n' + _kernel("k", ".loc 1 3 0\n" + body)
    with simulator.prepare(Program(text, entries_of(parser.parse_ptx(text)), "sm_80"), Settings()) as session:
        (counts,) = _counted(session, _launch("k", 3, 64))
    lines = {line.line: line for line in counts.lines}
    assert set(lines) == {5, 7, 9}  # the prologue stands before any line is named
    assert lines[5].loads.sectors == 6 * 4
    assert lines[5].flops == {}
    assert lines[7].flops == {"fp32": 6 * 32}
    assert lines[7].stores.useful_bytes == 6 * 128
    assert lines[9].by_class == {"control": 6}
    assert sum(line.warp_instructions for line in counts.lines) == counts.warp_instructions - 6 * PROLOGUE_LENGTH


def test_the_most_expensive_requests_keep_their_addresses(simulator: Simulator) -> None:
    body = """.loc 1 5 0
    ld.global.f32 %f, [%in+4]; mul.wide.u32 %d, %t, 128; add.u64 %d, %d, %from; ld.global.f32 %f, [%d];
    .loc 1 6 0
    mul.lo.u32 %i, %t, 128; mov.u32 %s, tile; add.u32 %s, %s, %i; st.shared.f32 [%s], %f;
    .loc 1 7 0
    setp.lt.u32 %p, %t, 3; @%p st.global.f32 [%out+64], %f;
    .loc 1 8 0
    sub.u64 %d, %from, %d; add.u64 %d, %d, %from; add.u64 %d, %d, 4096; ld.global.v2.f32 {%f, %g}, [%d];
    .loc 1 9 0
    atom.global.add.f32 %f, [%to], %f; ret;"""
    text = HEADER + '.file 1 "kernel.cu"\n' + _kernel("k", ".loc 1 3 0\n" + body)
    with simulator.prepare(Program(text, entries_of(parser.parse_ptx(text)), "sm_80"), Settings()) as session:
        (counts,) = _counted(session, _launch("k", 1, 32))
    patterns = {line.line: line.patterns for line in counts.lines}
    (column,), (bank,), (tail,), (downwards,) = (patterns[line] for line in (5, 6, 7, 8))
    assert (column.space, column.act, column.lane_bytes) == ("global", "load", 4)
    assert column.offsets == tuple(range(0, 4096, 128))
    assert (bank.space, bank.act, bank.offsets) == ("shared", "store", tuple(range(0, 4096, 128)))
    assert (tail.space, tail.act, tail.offsets) == ("global", "store", (64, 68, 72, *(None,) * 29))
    assert (downwards.lane_bytes, downwards.offsets) == (8, tuple(range(31 * 128, -1, -128)))
    assert patterns[9] == ()


def test_each_launch_has_counts_of_its_own(session: SimulatorSession) -> None:
    first, second, third = _counted(
        session, _launch("coalesced", 2, 64), _launch("banks", 1, 32), _launch("coalesced", 2, 64)
    )
    assert first == third
    assert second.kernel == "banks"
    assert second.loads.requests == 0
    assert second.shared_bytes == 8192


def test_a_run_that_does_not_ask_counts_nothing_and_gives_the_same(session: SimulatorSession) -> None:
    steps = (_launch("coalesced", 2, 64),)
    silent = session.run(PlanRun(BUFFERS, steps, POISON, 10.0))
    counting = session.run(PlanRun(BUFFERS, steps, POISON, 10.0, count=True))
    assert silent.counts == ()
    assert silent.thread_instructions == counting.thread_instructions == counting.counts[0].thread_instructions
    assert bytes(silent.contents["to"]) == bytes(counting.contents["to"])


def test_a_sample_of_the_blocks_is_scaled_up_to_all_of_them(session: SimulatorSession) -> None:
    (whole,) = _counted(session, _launch("coalesced", 100, 32))
    (sampled,) = _counted(session, _launch("coalesced", 100, 32), sample_blocks=8)
    assert sampled.counted_blocks == 8
    assert whole.counted_blocks == 100
    # Every block does the same here, and none twice what another does.
    assert sampled.model_copy(update={"counted_blocks": 100}) == whole


def test_what_blocks_share_is_not_scaled_beyond_the_buffer(session: SimulatorSession) -> None:
    (sampled,) = _counted(session, _launch("uniform", 100_000, 32), sample_blocks=4)
    assert sampled.loads.requests == 300_000
    assert sampled.loads.unique_sectors == (1 << 16) // 32


def test_addresses_that_one_block_has_for_itself_are_told_from_those_that_all_share(simulator: Simulator) -> None:
    body = """mul.wide.u32 %d, %b, 4; add.u64 %d, %d, %to; red.global.add.u32 [TARGET], 1; ret;"""
    text = HEADER + _kernel("own", body.replace("TARGET", "%d")) + _kernel("one", body.replace("TARGET", "%to"))
    with simulator.prepare(Program(text, entries_of(parser.parse_ptx(text)), "sm_80"), Settings()) as session:
        for blocks in (0, 8):
            own, one = _counted(session, _launch("own", 1000, 32), _launch("one", 1000, 32), sample_blocks=blocks)
            assert (own.atomics.busiest, own.atomics.addresses) == (32, 1000)
            assert (one.atomics.busiest, one.atomics.addresses) == (32_000, 1)


def test_memory_that_repeats_is_as_large_as_it_says_and_holds_its_piece_everywhere(simulator: Simulator) -> None:
    """256 MB of pieces of 64 KB, read at both ends and written in the middle; then the same process has whole ones."""
    last = (255 << 20) + 20
    body = f"""ld.global.u32 %i, [%from+20]; mov.u64 %d, {last}; add.u64 %d, %d, %from; ld.global.u32 %t, [%d];
    add.u32 %i, %i, %t; st.global.u32 [%to], %i; ret;"""
    text = (
        HEADER + _kernel("ends", body) + _kernel("copies", "ld.global.u32 %i, [%in]; st.global.u32 [%out], %i; ret;")
    )
    piece = np.arange(1 << 14, dtype=np.uint32)
    huge = Buffer("from", "temporary", 256 << 20, 4, piece, repeats=True)
    zeros = Buffer("to", "temporary", 256 << 20, 4, None, repeats=True)
    whole = Buffer("from", "input", 8192, 4, np.arange(2048, dtype=np.uint32))
    with simulator.prepare(Program(text, entries_of(parser.parse_ptx(text)), "sm_80"), Settings()) as session:
        ends, copies = (KernelLaunch(n, (1, 1, 1), (32, 1, 1), 0, False, BUFFER_POINTERS) for n in ("ends", "copies"))
        answer = Buffer("to", "output", 8192, 4, None)
        first = session.run(PlanRun((huge, answer), (ends,), POISON, 10.0))
        assert first.fault is None, first.fault
        assert np.frombuffer(first.contents["to"], np.uint32)[0] == 5 + 5
        second = session.run(PlanRun((huge, zeros), (copies,), POISON, 10.0, count=True))
        assert second.fault is None
        assert second.contents == {}
        assert second.counts[0].loads.unique_sectors == 4
        third = session.run(PlanRun((whole, answer), (copies,), POISON, 10.0))
        assert np.array_equal(np.frombuffer(third.contents["to"], np.uint32)[:32], np.arange(32))
        assert (third.contents["to"][128:] == POISON).all()


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_addresses_are_counted_as_sets_count_them(scattered: SimulatorSession, data: st.DataObject) -> None:
    mask = data.draw(st.integers(0, (1 << 32) - 1), label="lanes")
    spread = data.draw(st.sampled_from([8, 64, 4096]), label="elements")
    elements = data.draw(st.lists(st.integers(0, spread - 1), min_size=32, max_size=32), label="element of each lane")
    table = np.array([e * 4 if mask >> lane & 1 else 0xFFFFFFFF for lane, e in enumerate(elements)], np.uint32)
    taken = [e for lane, e in enumerate(elements) if mask >> lane & 1]
    buffers = (Buffer("from", "input", 128, 4, table), BUFFERS[1])
    launch = KernelLaunch("scatter", (1, 1, 1), (32, 1, 1), 0, False, (Pointer("from"), Pointer("to")))
    # Twice in one run: the second time the pattern is remembered.
    counted = scattered.run(PlanRun(buffers, (launch, launch), POISON, 10.0, count=True)).counts
    words = {e % 32: len({f for f in taken if f % 32 == e % 32}) for e in taken}
    for counts in counted:
        assert counts.stores.sectors == len({e // 8 for e in taken})
        assert counts.stores.unique_sectors == counts.stores.sectors
        assert counts.stores.lines == len({e // 32 for e in taken})
        assert counts.stores.useful_bytes == 4 * len(set(taken))
        if spread <= 64:
            assert counts.shared.wavefronts == max(words.values(), default=0)
        assert counts.atomics.turns == max((taken.count(e) for e in taken), default=0)
        assert counts.atomics.operations == len(taken)


@pytest.fixture(scope="module")
def scattered(simulator: Simulator) -> Iterator[SimulatorSession]:
    body = """ld.global.u32 %i, [%in]; setp.ne.u32 %p, %i, 0xffffffff; cvt.u64.u32 %d, %i; add.u64 %d, %d, %to;
    @%p st.global.u32 [%d], 1; @%p red.global.add.u32 [%d], 1; and.b32 %i, %i, 255; mov.u32 %s, tile; add.u32 %s, %s, %i;
    @%p ld.shared.u32 %i, [%s]; ret;"""
    text = HEADER + _kernel("scatter", body)
    with simulator.prepare(Program(text, entries_of(parser.parse_ptx(text)), "sm_80"), Settings()) as session:
        yield session


def test_efficiencies_are_shares(session: SimulatorSession) -> None:
    (strided, banks, diverged) = _counted(
        session, _launch("strided", 1, 32), _launch("banks", 1, 32), _launch("diverged", 1, 32)
    )
    assert strided.memory_efficiency == pytest.approx(4 / 32)
    assert banks.memory_efficiency is None
    assert banks.bank_conflict_ways == pytest.approx(33 / 2)
    assert diverged.lane_efficiency == pytest.approx((32 * 10 + 27 + 5 * 2) / (32 * 13))
    assert Counts().lane_efficiency is None


def test_counts_survive_the_wire_and_leave_zeros_out(session: SimulatorSession) -> None:
    (counts,) = _counted(session, _launch("coalesced", 2, 64))
    assert counts.shared_bytes == 8192
    without = counts.model_copy(update={"shared_bytes": 0})
    assert LaunchCounts.model_validate_json(without.model_dump_json()) == without
    assert "atomics" not in counts.model_dump_json()
