# ruff: noqa: E501 - PTX reads best one statement after the other
"""Buffers that stay in the process: pieces that repeat, elements that are asked for, what is unwritten or changed."""

import numpy as np
import pytest
from duel import HEADER, POISON, entries_of

from common.contract import Settings
from evaluator.backends.session import Buffer, KernelLaunch, PlanRun, Pointer, Program
from evaluator.backends.sim.ptx import parser

PIECE = np.arange(257 * 1024, dtype=np.uint32)
COUNT = 3 * PIECE.size + 77
COPY = """.visible .entry copy(.param .u64 from, .param .u64 to, .param .u32 least, .param .u32 spoils) {
    .reg .pred %p; .reg .b32 %t, %b, %i, %n, %x; .reg .b64 %from, %to, %d, %in, %out;
    ld.param.u64 %from, [from]; ld.param.u64 %to, [to]; ld.param.u32 %n, [least]; mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x;
    mad.lo.u32 %i, %b, 256, %t; setp.lt.u32 %p, %i, %n; @%p ret; setp.ge.u32 %p, %i, COUNT; @%p ret;
    mul.wide.u32 %d, %i, 4; add.u64 %in, %from, %d; add.u64 %out, %to, %d; ld.global.u32 %x, [%in]; st.global.u32 [%out], %x;
    ld.param.u32 %n, [spoils]; setp.ne.u32 %p, %i, %n; @%p ret; st.global.u32 [%in], 7; ret; }
""".replace("COUNT", str(COUNT))


@pytest.fixture(scope="module")
def session(simulator):
    text = HEADER + COPY
    with simulator.prepare(Program(text, entries_of(parser.parse_ptx(text)), "sm_80"), Settings()) as opened:
        yield opened


def run_of(least=0, spoils=0xFFFFFFFF, stretches=None, **options):
    buffers = (
        Buffer("from", "input", 4 * COUNT, 4, PIECE, repeats=True, stretches=stretches, sampled=True),
        Buffer("to", "output", 4 * COUNT, 4, None, sampled=True),
    )
    numbers = tuple(value.to_bytes(4, "little") for value in (least, spoils))
    arguments = (Pointer("from"), Pointer("to"), *numbers)
    launch = KernelLaunch("copy", (-(-COUNT // 256), 1, 1), (256, 1, 1), 0, False, arguments)
    return PlanRun(buffers, (launch,), POISON, 60.0, **options)


def test_a_piece_repeats_and_the_elements_come_in_the_order_they_are_asked_for(session):
    outcome = session.run(run_of())
    assert outcome.fault is None
    assert outcome.contents == {}
    assert outcome.samples["from"].changed is None
    assert outcome.samples["to"].unwritten is None
    chosen = np.array([COUNT - 1, 0, PIECE.size, PIECE.size - 1, 5, 5], np.int64)
    found = session.elements("to", chosen).reshape(-1).view(np.uint32)
    assert found.tolist() == (chosen % PIECE.size).tolist()
    assert session.elements("to", np.empty(0, np.int64)).shape == (0, 4)


def test_behind_a_piece_come_stretches_of_it_and_then_the_piece_again(session):
    pages = PIECE.size // 1024
    stretches = np.array([[pages - 1, 1], [0, pages], [pages // 2, 1]])
    assert session.run(run_of(stretches=stretches)).fault is None
    chosen = np.arange(0, COUNT, 97)
    parts = [PIECE, *(PIECE[first * 1024 : (first + many) * 1024] for first, many in stretches)]
    expected = np.resize(np.concatenate((*parts, *[PIECE] * (COUNT // PIECE.size))), COUNT)[chosen]
    assert session.elements("to", chosen).reshape(-1).view(np.uint32).tolist() == expected.tolist()


def test_what_nobody_wrote_is_known_element_by_element(session):
    unwritten = session.run(run_of(least=1003)).samples["to"].unwritten
    assert unwritten.shape == (COUNT,)
    assert np.flatnonzero(unwritten).tolist() == list(range(1003))


def test_an_input_that_changed_is_named_by_the_element_of_its_piece(session):
    assert session.run(run_of(spoils=2 * PIECE.size + 41)).samples["from"].changed == 41
    assert session.run(run_of()).samples["from"].changed is None  # the next run has it as it was


def test_a_few_blocks_write_their_part_and_a_session_begins_anew(session):
    unwritten = session.run(run_of(sample_blocks=5, sample_seed=3)).samples["to"].unwritten
    assert 5 * 256 - 256 < (~unwritten).sum() <= 5 * 256
    session.renew()
    assert session.run(run_of()).samples["to"].unwritten is None
