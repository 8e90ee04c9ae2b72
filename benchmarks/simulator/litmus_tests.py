"""Does weak memory on the simulator show what the PTX memory model allows, and nothing that it forbids?

Litmus tests after those of the literature (Alglave et al., "GPU Concurrency: Weak Behaviours and Programming
Assumptions", ASPLOS 2015; Lustig et al., ASPLOS 2019), by scope, fence and kind of access. Each asks for one outcome,
and `benchmarks/_support/litmus.py` asks the axioms whether it may be; then the test runs under many draws.

    python benchmarks/simulator/litmus_tests.py --draws 2000
"""

import argparse
import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from benchmarks._support.litmus import LitmusTest, allowed, observe, program
from benchmarks._support.record import save
from common.contract import Settings
from evaluator.backends.sim.backend import Simulator
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings

_FENCES = ("", "fence.acq_rel.cta", "fence.acq_rel.gpu", "fence.sc.gpu", "fence.sc.sys")
_DRAWS = 2000


@dataclass(frozen=True)
class LitmusResult:
    """What became of one test."""

    name: str
    asked: str
    allowed: bool
    seen: int
    """Of the draws, how many gave what is asked."""
    outcomes_seen: int
    outcomes_allowed: int
    forbidden: int
    """Of the draws, how many gave any outcome that the axioms forbid."""


def litmus_tests() -> tuple[LitmusTest, ...]:
    """All of them."""
    return tuple(
        itertools.chain(
            _message_passing(),
            _store_buffering(),
            _load_buffering(),
            _coherence(),
            _causality(),
            _atomics(),
            _barriers(),
        )
    )


def _then(*said: str) -> str:
    """Operations in program order; an empty one is left out."""
    return "; ".join(word for word in said if word)


def _named(family: str, *said: str) -> str:
    return "+".join((family, *(word.removeprefix("fence.") or "none" for word in said)))


def _message_passing() -> Iterator[LitmusTest]:
    for one, two in [*((f, f) for f in _FENCES), ("fence.sc.gpu", ""), ("", "fence.sc.gpu")]:
        writer = _then("st.weak x 1", one, "st.relaxed.gpu y 1")
        reader = _then("r0 = ld.relaxed.gpu y", two, "r1 = ld.weak x")
        yield LitmusTest(_named("MP", one, two), f"A: {writer}\nB: {reader}", "r0=1 r1=0")
        yield LitmusTest(_named("MP", one, two) + "+one block", f"A: {writer}\nA: {reader}", "r0=1 r1=0")
    for one, two in itertools.product(("", "fence.sc.gpu"), ("", "fence.acq_rel.cta", "fence.acq_rel.gpu")):
        # What the reader has loaded before may be in its cache.
        writer = _then("st.weak x 1", one, "st.relaxed.gpu y 1")
        reader = _then("r2 = ld.weak x", "r0 = ld.relaxed.gpu y", two, "r1 = ld.weak x")
        yield LitmusTest(_named("MP+loaded", one, two), f"A: {writer}\nB: {reader}", "r0=1 r1=0 r2=0")
    for kind in ("volatile", "relaxed.gpu"):
        text = f"A: st.{kind} x 1; st.{kind} y 1\nB: r0 = ld.{kind} y; r1 = ld.{kind} x"
        yield LitmusTest(f"MP+all {kind}", text, "r0=1 r1=0")
    for scope in ("cta", "gpu", "sys"):
        text = f"A: st.weak x 1; st.release.{scope} y 1\nB: r0 = ld.acquire.{scope} y; r1 = ld.weak x"
        yield LitmusTest(f"MP+release+acquire.{scope}", text, "r0=1 r1=0")
        text = (
            f"A: st.weak x 1; r2 = atom.release.{scope}.add y 1\nB: r0 = atom.acquire.{scope}.add y 0; r1 = ld.weak x"
        )
        yield LitmusTest(f"MP+atom.release+atom.acquire.{scope}", text, "r0=1 r1=0")
    reader = "B: r0 = ld.acquire.gpu y; r1 = ld.weak x"
    text = f"A: st.release.gpu y 1; st.weak x 1; st.release.gpu y 2\n{reader}"
    yield LitmusTest("MP+one flag twice", text, "r0=2 r1=0")
    text = f"A: st.weak x 1; st.release.gpu y 1; st.release.gpu z 1\n{reader}"
    yield LitmusTest("MP+two flags", text, "r0=1 r1=0")
    # Two `fence.sc` are in an order whatever stands between; others synchronise only by what is morally strong.
    for fence in ("fence.acq_rel.gpu", "fence.sc.gpu"):
        text = f"A: st.weak x 1; {fence}; st.relaxed.cta y 1\nB: r0 = ld.relaxed.gpu y; {fence}; r1 = ld.weak x"
        yield LitmusTest(_named("MP+flag.cta", fence), text, "r0=1 r1=0")
    text = "A: st.weak x 1; r2 = atom.relaxed.gpu.add y 1\nB: r0 = atom.relaxed.gpu.add y 0; r1 = ld.weak x"
    yield LitmusTest("MP+atom.relaxed", text, "r0=1 r1=0")
    text = "A: st.weak x 1; fence.sc.gpu; st.weak y 1\nB: r0 = ld.weak y; fence.sc.gpu; r1 = ld.weak x"
    yield LitmusTest("MP+weak flag", text, "r0=1 r1=0")


def _store_buffering() -> Iterator[LitmusTest]:
    for fence in _FENCES:
        for kind in ("weak", "relaxed.gpu"):
            one = _then(f"st.{kind} x 1", fence, f"r0 = ld.{kind} y")
            two = _then(f"st.{kind} y 1", fence, f"r1 = ld.{kind} x")
            yield LitmusTest(_named("SB", fence) + f"+{kind}", f"A: {one}\nB: {two}", "r0=0 r1=0")
    text = "A: st.release.gpu x 1; r0 = ld.acquire.gpu y\nB: st.release.gpu y 1; r1 = ld.acquire.gpu x"
    yield LitmusTest("SB+release+acquire", text, "r0=0 r1=0")
    one = "A: st.relaxed.gpu x 1; fence.sc.cta; r0 = ld.relaxed.gpu y"
    two = "B: st.relaxed.gpu y 1; fence.sc.gpu; r1 = ld.relaxed.gpu x"
    yield LitmusTest("SB+sc.cta+sc.gpu", f"{one}\n{two}", "r0=0 r1=0")


def _load_buffering() -> Iterator[LitmusTest]:
    for fence in _FENCES:
        one = _then("r0 = ld.relaxed.gpu x", fence, "st.relaxed.gpu y 1")
        two = _then("r1 = ld.relaxed.gpu y", fence, "st.relaxed.gpu x 1")
        yield LitmusTest(_named("LB", fence), f"A: {one}\nB: {two}", "r0=1 r1=1")
    text = "A: r0 = ld.acquire.gpu x; st.relaxed.gpu y 1\nB: r1 = ld.relaxed.gpu y; st.release.gpu x 1"
    yield LitmusTest("LB+acquire+release", text, "r0=1 r1=1")


def _coherence() -> Iterator[LitmusTest]:
    for kind in ("weak", "relaxed.gpu", "volatile"):
        text = f"A: st.{kind} x 1; st.{kind} x 2\nB: r0 = ld.{kind} x; r1 = ld.{kind} x"
        yield LitmusTest(f"CoRR+{kind}", text, "r0=2 r1=1")
        yield LitmusTest(f"CoRW+{kind}", f"A: r0 = ld.{kind} x; st.{kind} x 1\nB: r1 = ld.{kind} x", "r0=1")
        yield LitmusTest(f"CoWW+{kind}", f"A: st.{kind} x 1; st.{kind} x 2\nB: r0 = ld.{kind} x", "x=1")
        yield LitmusTest(f"CoWR+{kind}", f"A: st.{kind} x 1; r0 = ld.{kind} x\nB: st.{kind} x 2", "r0=0")
        two = f"A: st.{kind} x 1; st.{kind} y 2\nB: st.{kind} y 1; st.{kind} x 2"
        yield LitmusTest(f"2+2W+{kind}", two, "x=1 y=1")
    one = "A: st.relaxed.gpu x 1; fence.sc.gpu; st.relaxed.gpu y 2"
    two = "B: st.relaxed.gpu y 1; fence.sc.gpu; st.relaxed.gpu x 2"
    yield LitmusTest("2+2W+sc.gpu", f"{one}\n{two}", "x=1 y=1")
    text = "A: st.relaxed.gpu x 1\nB: r0 = ld.relaxed.gpu x; r1 = ld.weak x; r2 = ld.relaxed.gpu x"
    yield LitmusTest("CoRR+mixed", text, "r0=1 r2=0")


def _causality() -> Iterator[LitmusTest]:
    for fence in _FENCES:
        middle = _then("r0 = ld.relaxed.gpu x", fence, "st.relaxed.gpu y 1")
        last = _then("r1 = ld.relaxed.gpu y", fence, "r2 = ld.relaxed.gpu x")
        yield LitmusTest(_named("WRC", fence), f"A: st.relaxed.gpu x 1\nB: {middle}\nC: {last}", "r0=1 r1=1 r2=0")
        one = _then("r0 = ld.relaxed.gpu x", fence, "r1 = ld.relaxed.gpu y")
        two = _then("r2 = ld.relaxed.gpu y", fence, "r3 = ld.relaxed.gpu x")
        writers = "A: st.relaxed.gpu x 1\nB: st.relaxed.gpu y 1"
        yield LitmusTest(_named("IRIW", fence), f"{writers}\nC: {one}\nD: {two}", "r0=1 r1=0 r2=1 r3=0")
        writer = _then("st.weak x 1", fence, "st.relaxed.gpu y 1")
        chain = _then("r0 = ld.relaxed.gpu y", fence, "st.relaxed.gpu z 1")
        end = _then("r1 = ld.relaxed.gpu z", fence, "r2 = ld.weak x")
        yield LitmusTest(_named("ISA2", fence), f"A: {writer}\nB: {chain}\nC: {end}", "r0=1 r1=1 r2=0")
        writer = _then("st.weak x 1", fence, "st.relaxed.gpu y 1")
        other = _then("st.relaxed.gpu y 2", fence, "r0 = ld.weak x")
        yield LitmusTest(_named("R", fence), f"A: {writer}\nB: {other}", "r0=0 y=2")
        other = _then("r0 = ld.relaxed.gpu y", fence, "st.weak x 2")
        yield LitmusTest(_named("S", fence), f"A: {writer}\nB: {other}", "r0=1 x=1")


def _atomics() -> Iterator[LitmusTest]:
    for scope in ("cta", "gpu", "sys"):
        add = f"atom.relaxed.{scope}.add x 1"
        yield LitmusTest(f"adds.{scope}", f"A: r0 = {add}\nB: r1 = {add}", "x=1")
        yield LitmusTest(f"adds.{scope}+one block", f"A: r0 = {add}\nA: r1 = {add}", "x=1")
        exchange = f"atom.relaxed.{scope}.exch x"
        yield LitmusTest(f"exchanges.{scope}", f"A: r0 = {exchange} 1\nB: r1 = {exchange} 2", "r0=0 r1=0")
    # A read and a write are no update, however strong: one of two is lost.
    text = "A: r0 = ld.relaxed.gpu x; st.relaxed.gpu x 1\nB: r1 = atom.relaxed.gpu.add x 2"
    yield LitmusTest("lost update", text, "r0=0 r1=0 x=1")
    one = "A: r0 = atom.relaxed.gpu.exch x 1; r1 = ld.relaxed.gpu y"
    two = "B: r2 = atom.relaxed.gpu.exch y 1; r3 = ld.relaxed.gpu x"
    yield LitmusTest("SB+atom", f"{one}\n{two}", "r1=0 r3=0")
    one = "A: st.weak x 1; fence.sc.gpu; r2 = atom.relaxed.gpu.add y 1"
    two = "B: r3 = atom.relaxed.gpu.add y 1"
    three = "C: r0 = ld.relaxed.gpu y; fence.sc.gpu; r1 = ld.weak x"
    yield LitmusTest("MP through an atomic", f"{one}\n{two}\n{three}", "r0=2 r1=0 r2=0 r3=1")


def _barriers() -> Iterator[LitmusTest]:
    yield LitmusTest("barrier", "A: st.weak x 1; bar\nA: bar; r0 = ld.weak x", "r0=0")
    for fence in ("", "fence.sc.cta", "fence.sc.gpu"):
        second = _then("bar", fence, "st.relaxed.gpu y 1")
        reader = "B: r0 = ld.relaxed.gpu y; fence.sc.gpu; r1 = ld.weak x"
        yield LitmusTest(_named("MP+barrier", fence), f"A: st.weak x 1; bar\nA: {second}\n{reader}", "r0=1 r1=0")
        first = _then("r0 = ld.relaxed.gpu y", fence, "bar")
        writer = "A: st.weak x 1; fence.sc.gpu; st.relaxed.gpu y 1"
        yield LitmusTest(
            _named("MP+read barrier", fence),
            f"{writer}\nB: {first}\nB: r2 = ld.weak x; bar; r1 = ld.weak x",
            "r0=1 r1=0 r2=0",
        )


def results(simulator: Simulator, chosen: Sequence[LitmusTest], draws: int) -> list[LitmusResult]:
    """Run each test under draws 1 to `draws`."""
    found = []
    with simulator.prepare(program(chosen), Settings()) as session:
        for number, test in enumerate(chosen):
            may_be, seen = allowed(test), observe(session, number, test, range(1, draws + 1))
            found.append(
                LitmusResult(
                    test.name,
                    test.asked,
                    any(test.of_interest(outcome) == test.question for outcome in may_be),
                    sum(count for outcome, count in seen.items() if test.of_interest(outcome) == test.question),
                    len(seen.keys() & may_be),
                    len(may_be),
                    sum(count for outcome, count in seen.items() if outcome not in may_be),
                )
            )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=_DRAWS, help="runs of each test")
    draws = parser.parse_args().draws
    found = results(Toolbox(MachineSettings.from_environment()).simulator, litmus_tests(), draws)
    table = Table("test", "asked", "by the axioms", f"seen in {draws}", "outcomes seen", "forbidden ones")
    for result in found:
        table.add_row(
            result.name,
            result.asked,
            "allowed" if result.allowed else "forbidden",
            str(result.seen),
            f"{result.outcomes_seen} of {result.outcomes_allowed}",
            str(result.forbidden),
        )
    Console().print(table)
    weak = [result for result in found if result.allowed]
    figures = {
        "tests": len(found),
        "allowed": len(weak),
        "allowed_and_seen": sum(result.seen > 0 for result in weak),
        "forbidden": len(found) - len(weak),
        "forbidden_outcomes_seen": sum(result.forbidden for result in found),
    }
    goals = {"forbidden_outcomes_seen": ("<=", 0.0)}
    rows = [asdict(result) for result in found]
    return 0 if save("litmus_tests", figures, goals, details={"draws": draws, "tests": rows}) else 1


if __name__ == "__main__":
    sys.exit(main())
