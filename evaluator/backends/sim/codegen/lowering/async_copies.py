"""Copies in the background and the barriers that wait for them, as C++ (PTX ISA 9.0, 9.7.9.25 and 9.7.13.15).

`runtime/asynchronous.cpp` says when a copy lands. TMA (`cp.async.bulk`) is unsupported by name.
"""

from collections.abc import Iterator

from evaluator.backends.sim.codegen.context import Context
from evaluator.backends.sim.codegen.lowering.memory import address
from evaluator.backends.sim.codegen.table import lowers
from evaluator.backends.sim.ptx.model import Address, Immediate, Instruction, Operand

_NO_TYPE = {""}
_CTA = {"shared", "shared::cta"}
_STRONG = _CTA | {"relaxed", "cta", "cluster"}


@lowers(
    "cp.async",
    modifiers={"ca", "cg", "global", "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B"} | _CTA,
    types=_NO_TYPE,
    guarding="skip",
    counted="global",
)
def _copy(c: Context, i: Instruction) -> Iterator[str]:
    """`cp.async.ca.shared.global [to], [from], 16{, source bytes | ignore}{, policy}`."""
    words = set(i.modifiers)
    if "global" not in words or not words & _CTA:
        raise c.unsupported()
    target, source, size, *more = i.operands
    if "L2::cache_hint" in words:
        more.pop()
    sizes = (16,) if "cg" in words else (4, 8, 16)
    if not isinstance(size, Immediate) or size.bits not in sizes or len(more) > 1:
        raise c.unsupported()
    taken = f"all32({size.bits})"
    if more and c.width(more[0]) == 1:
        taken = f"pick({c.predicate(more[0])}, all32(0), {taken})"
    elif more:
        taken = f"min_u32({c.b32(more[0])}, {taken})"
    to = address(c, i, target, "shared")
    origin = address(c, i, source, "global")
    sites = f"{c.site()}, {c.site()}"
    yield f"copy_later(w, {c.mask}, {size.bits}, {to}, {origin}, {taken}, {sites});"


@lowers("cp.async.commit_group", types=_NO_TYPE, guarding="skip", counted="barrier")
def _commit_group(c: Context, i: Instruction) -> Iterator[str]:
    yield f"commit_copies(w, {c.mask});"


@lowers("cp.async.wait_all", types=_NO_TYPE, guarding="skip", counted="barrier")
def _wait_all(c: Context, i: Instruction) -> Iterator[str]:
    yield f"await_copies(w, {c.mask}, -1);"


@lowers("cp.async.wait_group", types=_NO_TYPE, guarding="skip", counted="barrier")
def _wait_group(c: Context, i: Instruction) -> Iterator[str]:
    (count,) = i.operands
    if not isinstance(count, Immediate):
        raise c.unsupported("with a count that is no constant")
    yield f"await_copies(w, {c.mask}, {min(count.bits, 1 << 30)});"


@lowers("cp.async.mbarrier.arrive", modifiers={"noinc"} | _CTA, types={"b64"}, guarding="skip", counted="global")
def _arrive_after_copies(c: Context, i: Instruction) -> Iterator[str]:
    (target,) = i.operands
    counted = "false" if "noinc" in i.modifiers else "true"
    place, site = _barrier_address(c, i, target)
    yield f"arrive_after_copies(w, {c.mask}, {place}, {site}, {counted});"


# Barriers in shared memory


def _barrier_address(c: Context, i: Instruction, operand: Operand) -> tuple[str, str]:
    if not isinstance(operand, Address):
        raise c.unsupported("no address")
    return address(c, i, operand), c.site()


@lowers("mbarrier.init", modifiers=_CTA, types={"b64"}, guarding="skip", counted="barrier")
def _init(c: Context, i: Instruction) -> Iterator[str]:
    place, site = _barrier_address(c, i, i.operands[0])
    yield f"begin_barrier(w, {c.mask}, {place}, {site}, {c.b32(i.operands[1])});"


@lowers("mbarrier.inval", modifiers=_CTA, types={"b64"}, guarding="skip", counted="barrier")
def _inval(c: Context, i: Instruction) -> Iterator[str]:
    place, site = _barrier_address(c, i, i.operands[0])
    yield f"end_barrier(w, {c.mask}, {place}, {site});"


@lowers(
    "mbarrier.arrive",
    "mbarrier.arrive_drop",
    modifiers=_STRONG | {"release", "noComplete", "expect_tx"},
    types={"b64"},
    guarding="skip",
    counted="barrier",
)
def _arrive_there(c: Context, i: Instruction) -> Iterator[str]:
    stateless = isinstance(i.operands[0], Address)
    state, target, *counts = (None, *i.operands) if stateless else i.operands
    assert target is not None
    place, site = _barrier_address(c, i, target)
    count = "all32(1)" if not counts or counts[0] is None else c.b32(counts[0])
    awaited = "all32(0)"
    if "expect_tx" in i.modifiers:
        count, awaited = "all32(1)", count
    leaving = "true" if "arrive_drop" in i.modifiers else "false"
    yield "point(w); " + c.set(state, f"arrive(w, {c.mask}, {place}, {site}, {count}, {awaited}, {leaving})")


@lowers(
    "mbarrier.expect_tx",
    "mbarrier.complete_tx",
    modifiers=_STRONG,
    types={"b64"},
    guarding="skip",
    counted="barrier",
)
def _expect(c: Context, i: Instruction) -> Iterator[str]:
    place, site = _barrier_address(c, i, i.operands[0])
    sign = "1" if "expect_tx" in i.modifiers else "-1"
    yield f"expect_bytes(w, {c.mask}, {place}, {site}, {c.b32(i.operands[1])}, {sign});"


@lowers("mbarrier.pending_count", types={"b64"}, guarding="skip", counted="barrier")
def _pending_count(c: Context, i: Instruction) -> Iterator[str]:
    yield c.set(i.operands[0], f"pending_arrivals({c.b64(i.operands[1])})")


@lowers(
    "mbarrier.test_wait",
    "mbarrier.try_wait",
    modifiers=_STRONG | {"acquire", "parity"},
    types={"b64"},
    guarding="skip",
    counted="barrier",
    waits=True,
)
def _test_wait(c: Context, i: Instruction) -> Iterator[str]:
    done, target, phase, *_ = i.operands
    place, site = _barrier_address(c, i, target)
    parity = "parity" in i.modifiers
    state = f"widen_u({c.b32(phase)})" if parity else c.b64(phase)
    arguments = f"{c.mask}, {place}, {site}, {state}, {'true' if parity else 'false'}"
    yield "point(w); " + c.set(done, f"barrier_passed(w, {arguments})")
