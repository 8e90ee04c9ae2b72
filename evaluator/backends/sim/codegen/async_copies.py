"""Copies in the background and the barriers that wait for them, as C++ (PTX ISA 9.0, 9.7.9.25 and 9.7.13.15).

`runtime/asynchronous.cpp` says when a copy lands. TMA (`cp.async.bulk`) is unsupported by name.
"""

from collections.abc import Iterator

from evaluator.backends.sim.codegen.memory import Effects
from evaluator.backends.sim.ptx.model import Address, Immediate, Instruction, Operand

_HINTS = {"L2::cache_hint", "L2::64B", "L2::128B", "L2::256B"}
_CTA = {"shared", "shared::cta"}
_SCOPES = {"b64", "cta", "cluster", "relaxed", "acquire", "release"} | _CTA


class Copies(Effects):
    """`cp.async` and `mbarrier`."""

    def _do_cp(self, i: Instruction) -> Iterator[str]:
        words = list(i.modifiers)
        if words[:1] != ["async"] or "bulk" in words:
            raise self.emitter.unsupported("TMA" if "bulk" in words else "")
        rest = words[1:]
        if rest == ["commit_group"]:
            yield f"commit_copies(w, {self.mask});"
        elif rest == ["wait_all"]:
            yield f"await_copies(w, {self.mask}, -1);"
        elif rest == ["wait_group"]:
            (count,) = i.operands
            if not isinstance(count, Immediate):
                raise self.emitter.unsupported("with a count that is no constant")
            yield f"await_copies(w, {self.mask}, {min(count.bits, 1 << 30)});"
        elif rest[:2] == ["mbarrier", "arrive"]:
            left = set(rest[2:])
            if not left <= {"noinc", "b64"} | _CTA:
                raise self.emitter.unsupported()
            (target,) = i.operands
            counted = "false" if "noinc" in left else "true"
            address, site = self._barrier_address(i, target)
            yield f"arrive_after_copies(w, {self.mask}, {address}, {site}, {counted});"
        else:
            yield from self._copy(i, set(rest))

    def _copy(self, i: Instruction, words: set[str]) -> Iterator[str]:
        """`cp.async.ca.shared.global [to], [from], 16{, source bytes | ignore}{, policy}`."""
        if not words <= {"ca", "cg", "global"} | _CTA | _HINTS or "global" not in words or not words & _CTA:
            raise self.emitter.unsupported()
        target, source, size, *more = i.operands
        if "L2::cache_hint" in words:
            more.pop()
        sizes = (16,) if "cg" in words else (4, 8, 16)
        if not isinstance(size, Immediate) or size.bits not in sizes or len(more) > 1:
            raise self.emitter.unsupported()
        taken = f"all32({size.bits})"
        if more and self.emitter.width(more[0]) == 1:
            taken = f"pick({self.emitter.predicate(more[0])}, all32(0), {taken})"
        elif more:
            taken = f"min_u32({self.emitter.b32(more[0])}, {taken})"
        to = self._address(i, target, "shared")
        origin = self._address(i, source, "global")
        sites = f"{self.module.site(i.line)}, {self.module.site(i.line)}"
        yield f"copy_later(w, {self.mask}, {size.bits}, {to}, {origin}, {taken}, {sites});"

    # Barriers in shared memory

    def _barrier_address(self, i: Instruction, operand: Operand) -> tuple[str, str]:
        if not isinstance(operand, Address):
            raise self.emitter.unsupported("no address")
        return self._address(i, operand), self.module.site(i.line)

    def _do_mbarrier(self, i: Instruction) -> Iterator[str]:
        what, *words = i.modifiers
        left = set(words) - _SCOPES
        method = getattr(self, f"_mbarrier_{what}", None)
        if method is None or "shared::cluster" in words:
            raise self.emitter.unsupported()
        yield from method(i, left)

    def _only(self, left: set[str], allowed: set[str]) -> None:
        if not left <= allowed:
            raise self.emitter.unsupported()

    def _mbarrier_init(self, i: Instruction, left: set[str]) -> Iterator[str]:
        self._only(left, set())
        address, site = self._barrier_address(i, i.operands[0])
        yield f"begin_barrier(w, {self.mask}, {address}, {site}, {self.emitter.b32(i.operands[1])});"

    def _mbarrier_inval(self, i: Instruction, left: set[str]) -> Iterator[str]:
        self._only(left, set())
        address, site = self._barrier_address(i, i.operands[0])
        yield f"end_barrier(w, {self.mask}, {address}, {site});"

    def _arrives(self, i: Instruction, left: set[str], leaves: bool) -> Iterator[str]:
        self._only(left, {"noComplete", "expect_tx"})
        stateless = isinstance(i.operands[0], Address)
        state, target, *counts = (None, *i.operands) if stateless else i.operands
        assert target is not None
        address, site = self._barrier_address(i, target)
        count = "all32(1)" if not counts or counts[0] is None else self.emitter.b32(counts[0])
        awaited = "all32(0)"
        if "expect_tx" in left:
            count, awaited = "all32(1)", count
        leaving = "true" if leaves else "false"
        call = f"arrive(w, {self.mask}, {address}, {site}, {count}, {awaited}, {leaving})"
        yield self._set(state, call)

    def _mbarrier_arrive(self, i: Instruction, left: set[str]) -> Iterator[str]:
        yield from self._arrives(i, left, leaves=False)

    def _mbarrier_arrive_drop(self, i: Instruction, left: set[str]) -> Iterator[str]:
        yield from self._arrives(i, left, leaves=True)

    def _transfers(self, i: Instruction, left: set[str], sign: str) -> Iterator[str]:
        self._only(left, set())
        address, site = self._barrier_address(i, i.operands[0])
        yield f"expect_bytes(w, {self.mask}, {address}, {site}, {self.emitter.b32(i.operands[1])}, {sign});"

    def _mbarrier_expect_tx(self, i: Instruction, left: set[str]) -> Iterator[str]:
        yield from self._transfers(i, left, "1")

    def _mbarrier_complete_tx(self, i: Instruction, left: set[str]) -> Iterator[str]:
        yield from self._transfers(i, left, "-1")

    def _mbarrier_pending_count(self, i: Instruction, left: set[str]) -> Iterator[str]:
        self._only(left, set())
        yield self._set(i.operands[0], f"pending_arrivals({self.emitter.b64(i.operands[1])})")

    def _mbarrier_test_wait(self, i: Instruction, left: set[str]) -> Iterator[str]:
        self._only(left, {"parity"})
        done, target, phase, *_ = i.operands
        address, site = self._barrier_address(i, target)
        parity = "parity" in left
        state = f"widen_u({self.emitter.b32(phase)})" if parity else self.emitter.b64(phase)
        arguments = f"{self.mask}, {address}, {site}, {state}, {'true' if parity else 'false'}"
        yield self._set(done, f"barrier_passed(w, {arguments})")

    _mbarrier_try_wait = _mbarrier_test_wait
