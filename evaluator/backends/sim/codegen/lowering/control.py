"""Branches, ends, barriers of blocks, fences and what does nothing here, as C++ (PTX ISA 9.0, 9.7.12 and 9.7.13)."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.codegen.context import Context
from evaluator.backends.sim.codegen.lowering.memory import semantics
from evaluator.backends.sim.codegen.table import lowers
from evaluator.backends.sim.ptx.model import Function, Instruction, Register, Symbol

_NO_TYPE = frozenset({""})
# What the other proxies do here is done at once, or not at all: memory under two addresses, TMA and `wgmma`.
_PROXIES = {"alias", "async", "global", "shared::cta"}
# What both spellings and all forms of a barrier of the block have in common.
_barrier = partial(lowers, guarding="own", counted="barrier", barrier=True)


def branch_labels(function: Function, instruction: Instruction) -> tuple[str, ...]:
    """The labels that a `bra` or `brx.idx` can go to."""
    target = instruction.operands[-1] if instruction.operands else None
    if not isinstance(target, Symbol):
        raise UnsupportedError(f"{instruction.text} through a register", instruction.line or None)
    if instruction.opcode == "brx":
        if target.name not in function.branch_targets:
            raise UnsupportedError("brx without a list of targets", instruction.line or None)
        return function.branch_targets[target.name]
    return (target.name,)


@lowers(
    "bra",
    modifiers={"uni"},
    types=_NO_TYPE,
    guarding="own",
    counted="control",
    destination=False,
    branches=True,
    ends=True,
)
def _bra(c: Context, i: Instruction) -> Iterator[str]:
    here, taken, otherwise = c.block.index, c.block.successors[0], c.block.successors[-1]
    c.place()  # a branch has a place of its own, also where none of its jumps goes back
    if i.guard is None:
        yield from c.paths.go(here, taken, i.line)
        return
    yield f"u32 taken = m & {c.guard(i)};"
    if taken > here and otherwise > here:
        # The lower block runs first; the lanes of the other wait there.
        first, second = min(taken, otherwise), max(taken, otherwise)
        waiting = "taken" if second == taken else "(m & ~taken)"
        yield f"u32 waiting = {waiting}; if (waiting != m) {{"
        yield f"if (waiting) {{ N[{c.block_number}].diverged++; {c.paths.wait(second, 'waiting')} m &= ~waiting; }}"
        yield from c.paths.go(here, first, i.line)
        yield "}"
        yield from c.paths.go(here, second, i.line)
    else:
        back, ahead = (taken, otherwise) if taken <= here else (otherwise, taken)
        looping = "taken" if back == taken else "(m & ~taken)"
        yield f"u32 looping = {looping}; if (looping) {{"
        yield f"if (looping != m) {{ N[{c.block_number}].diverged++;"
        yield f"{c.paths.wait(ahead, '(m & ~looping)')} m = looping; }}"
        yield from c.paths.go(here, back, i.line)
        yield "}"
        yield from c.paths.go(here, ahead, i.line)


@lowers(
    "brx",
    modifiers={"idx", "uni"},
    types=_NO_TYPE,
    guarding="own",
    counted="control",
    destination=False,
    branches=True,
    indexed=True,
    ends=True,
)
def _brx(c: Context, i: Instruction) -> Iterator[str]:
    labels = branch_labels(c.function, i)
    place = c.place()
    if i.guard is not None:
        raise c.unsupported("guarded")
    index = c.b32(i.operands[0])
    yield "u32 ways = 0;"
    for n, target in enumerate(c.block.successors[: len(labels)]):
        yield f"{{ u32 t = m & eq_b32({index}, all32({n})); if (t) {{ pending.add({target}, t); ways++; }} }}"
    yield f"N[{c.block_number}].diverged += ways > 1;"
    yield c.paths.burn_all(place)
    yield "goto dispatch;"


@lowers("ret", modifiers={"uni"}, types=_NO_TYPE, guarding="own", counted="control", destination=False, ends=True)
@lowers("exit", types=_NO_TYPE, guarding="own", counted="control", destination=False, ends=True)
def _end(c: Context, i: Instruction) -> Iterator[str]:
    leaving = "m" if i.guard is None else f"(m & {c.guard(i)})"
    if i.opcode == "exit" or c.function.is_entry:
        yield f"w.live &= ~{leaving};"
    else:
        yield f"returned |= {leaving};"
    if i.guard is None:
        yield "goto dispatch;"
    else:
        yield f"m &= ~{c.guard(i)}; if (!m) goto dispatch;"


@lowers("trap", types=_NO_TYPE, guarding="skip", counted="control", destination=False, ends=True)
def _trap(c: Context, i: Instruction) -> Iterator[str]:
    yield f'fault(w, {c.mask}, "trap", {c.place()}, "executed a trap");'


@_barrier("bar", modifiers={"sync", "cta"}, types=_NO_TYPE, destination=False)
@_barrier("barrier", modifiers={"sync", "cta", "aligned"}, types=_NO_TYPE, destination=False)
def _sync(c: Context, i: Instruction) -> Iterator[str]:
    """Lanes of a diverged warp wait for each other first."""
    following, place = _behind(c, i), c.place()
    number, threads = _who(c, i, place)
    if c.function.is_entry:
        yield f"if (m == w.live && pending.next == {len(c.flow.blocks)}) {{"
        aligned = str(i.opcode == "bar" or "aligned" in i.modifiers).lower()
        yield f"barrier(w, {number}, {threads}, NO_REDUCTION, 0, true, {place}, {aligned});"
        yield "} else {"
        if i.opcode == "bar" or "aligned" in i.modifiers:
            if later := sorted(_behind_and_beyond(c) & c.paths.waited_for):
                yield f"static const int later[] = {{{', '.join(map(str, later))}}};"
                yield "for (int at : later) missing |= pending.lanes[at] & ~w.leaving;"
            yield f"if (pending.parked & w.live) diverged(w, m, pending.parked & w.live, {place}, bar_line);"
        yield f"bar_number = {number}; bar_threads = {threads}; bar_line = {place};"
        yield f"pending.park({following if following is not None else 0}, m); goto dispatch; }}"
    else:
        yield f'if (m != w.live) fault(w, m, "divergent_barrier", {place}, '
        yield '"reached a barrier inside a device function with part of its warp");'
        yield f"barrier(w, {number}, {threads}, NO_REDUCTION, 0, true, {place});"
    yield from c.paths.go(c.block.index, following, i.line)


@_barrier("bar.arrive", modifiers={"cta"}, types=_NO_TYPE, destination=False)
@_barrier("barrier.arrive", modifiers={"cta", "aligned"}, types=_NO_TYPE, destination=False)
def _arrive(c: Context, i: Instruction) -> Iterator[str]:
    following, place = _behind(c, i), c.place()
    number, threads = _who(c, i, place)
    yield f"barrier(w, {number}, {threads}, NO_REDUCTION, 0, false, {place});"
    yield from c.paths.go(c.block.index, following, i.line)


@_barrier(
    "bar.red",
    modifiers={"cta", "popc", "and", "or"},
    types={"u32", "pred"},
)
@_barrier(
    "barrier.red",
    modifiers={"cta", "aligned", "popc", "and", "or"},
    types={"u32", "pred"},
)
def _reduce(c: Context, i: Instruction) -> Iterator[str]:
    following = _behind(c, i)
    destination, *_, voted = i.operands
    predicate = c.predicate(voted)
    place = c.place()
    number, threads = _who(c, replace(i, operands=i.operands[1:-1]), place)
    reduction = next((m.upper() for m in i.modifiers if m in ("popc", "and", "or")), "POPC")
    yield f"if (m != w.live || pending.next != {len(c.flow.blocks)})"
    yield f'fault(w, m, "divergent_barrier", {place}, '
    yield '"reached a reducing barrier with part of its warp");'
    yield f"u32 voted = barrier(w, {number}, {threads}, {reduction}, {predicate}, true, {place});"
    assert isinstance(destination, Register)
    yield c.set(destination, "all32(voted)" if reduction == "POPC" else "(voted ? ~0u : 0u)")
    yield from c.paths.go(c.block.index, following, i.line)


def _behind_and_beyond(c: Context) -> set[int]:
    """Blocks that lanes behind this barrier can come to. Who waits there now has gone past it, or comes to it yet."""
    found: set[int] = set()
    front = list(c.block.successors)
    while front:
        if (block := front.pop()) not in found:
            found.add(block)
            front += c.flow.blocks[block].successors
    return found


def _behind(c: Context, i: Instruction) -> int | None:
    """The block behind a barrier, which ends its own."""
    if i.guard is not None:
        raise c.unsupported()
    return c.block.successors[-1] if c.block.successors else None


def _who(c: Context, i: Instruction, place: int) -> tuple[str, str]:
    """A barrier's number and the count of its threads, of which the warp has one each."""
    number, threads = (
        f"of_warp(w, m, {c.b32(i.operands[n])}, {place})" if len(i.operands) > n else "0" for n in (0, 1)
    )
    return number, threads


@lowers("membar", modifiers={"cta", "gl", "sys"}, types=_NO_TYPE, counted="barrier", destination=False)
@lowers(
    "fence",
    modifiers={"sc", "acq_rel", "acquire", "release", "cta", "cluster", "gpu", "sys"},
    types=_NO_TYPE,
    counted="barrier",
    destination=False,
)
def _fence(c: Context, i: Instruction) -> Iterator[str]:
    # `membar` is `fence.sc` since sm_70, and a fence that says nothing is `fence.acq_rel`.
    named = {"acquire", "release", "acq_rel", "sc"} & set(i.modifiers)
    meant = "sc" if i.opcode == "membar" else "acq_rel"
    full = i if named else replace(i, modifiers=(meant, *i.modifiers))
    yield f"point(w); fence(w, {c.mask}, {semantics(full)});"


@lowers("membar.proxy", modifiers={"alias"}, types=_NO_TYPE, counted="barrier", destination=False)
@lowers("fence.proxy", modifiers=_PROXIES, types=_NO_TYPE, counted="barrier", destination=False)
@lowers("fence.mbarrier_init", modifiers={"release", "cluster"}, types=_NO_TYPE, counted="barrier", destination=False)
@lowers("brkpt", types=_NO_TYPE, counted="control", destination=False)
@lowers("nanosleep", types={"u32"}, counted="control", destination=False)
@lowers("pmevent", modifiers={"mask"}, types=_NO_TYPE, counted="other", destination=False)
@lowers("griddepcontrol", modifiers={"launch_dependents", "wait"}, types=_NO_TYPE, destination=False)
def _nothing(c: Context, i: Instruction) -> Iterator[str]:
    yield ";"
