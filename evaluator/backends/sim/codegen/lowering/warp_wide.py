"""What the lanes of a warp do together, as C++ (PTX ISA 9.0, sections 9.7.9 and 9.7.14)."""

from collections.abc import Iterator

from evaluator.backends.sim.codegen.context import Context, pair
from evaluator.backends.sim.codegen.lowering.formats import bits_of
from evaluator.backends.sim.codegen.lowering.memory import ATOMICS
from evaluator.backends.sim.codegen.table import lowers
from evaluator.backends.sim.ptx.model import Immediate, Instruction

_SHUFFLES = {"up": "UP_", "down": "DOWN_", "bfly": "BFLY", "idx": "IDX"}
_VOTES = {"all", "any", "uni", "ballot"}
_REDUCTIONS = {"add", "min", "max", "and", "or", "xor"}


@lowers("shfl", modifiers=_SHUFFLES.keys() | {"sync"}, types={"b32"}, guarding="skip", counted="shuffle")
def _shfl(c: Context, i: Instruction) -> Iterator[str]:
    if i.modifiers[0] != "sync" or i.modifiers[1] not in _SHUFFLES:
        raise c.unsupported("a shuffle without .sync" if i.modifiers[0] != "sync" else "")
    first, second = pair(i.operands[0])
    value, lane, clamp, members = (c.b32(operand) for operand in i.operands[1:5])
    mode = _SHUFFLES[i.modifiers[1]]
    arguments = f"{c.mask}, {mode}, {value}, {lane}, {clamp}, {members}, &valid, {c.place()}"
    yield f"u32 valid; U32 r = shuffle(w, {arguments});"
    yield c.set(first, "r")
    if second is not None:
        yield c.set(second, "valid")


@lowers("vote", modifiers=_VOTES | {"sync"}, types={"pred", "b32"}, guarding="skip", counted="shuffle")
def _vote(c: Context, i: Instruction) -> Iterator[str]:
    if i.modifiers[0] != "sync" or i.modifiers[1] not in _VOTES:
        raise c.unsupported("a vote without .sync" if i.modifiers[0] != "sync" else "")
    mode = i.modifiers[1].upper()
    predicate, members = c.predicate(i.operands[1]), c.b32(i.operands[2])
    place = c.place()
    if mode == "BALLOT":
        yield c.set(i.operands[0], f"ballot(w, {c.mask}, {predicate}, {members}, {place})")
    else:
        yield c.set(i.operands[0], f"vote(w, {c.mask}, {mode}, {predicate}, {members}, {place})")


@lowers("match", modifiers={"sync", "any", "all"}, types={"b32", "b64"}, guarding="skip", counted="shuffle")
def _match(c: Context, i: Instruction) -> Iterator[str]:
    first, second = pair(i.operands[0])
    value, members = c.any(i.operands[1], bits_of(i.type)), c.b32(i.operands[2])
    place = c.place()
    if "any" in i.modifiers:
        yield c.set(first, f"match_any(w, {c.mask}, {value}, {members}, {place})")
        return
    yield f"u32 same; U32 r = match_all(w, {c.mask}, {value}, {members}, &same, {place});"
    yield c.set(first, "r")
    if second is not None:
        yield c.set(second, "same")


@lowers("redux", modifiers=_REDUCTIONS | {"sync"}, types={"u32", "s32", "b32"}, guarding="skip", counted="shuffle")
def _redux(c: Context, i: Instruction) -> Iterator[str]:
    operation = next((m for m in i.modifiers if m in _REDUCTIONS), "")
    if not operation:
        raise c.unsupported()
    name = ATOMICS[operation]
    if i.type == "s32" and operation in ("min", "max"):
        name = f"A_S{operation.upper()}"
    value, members = (c.b32(operand) for operand in i.operands[1:3])
    yield c.set(i.operands[0], f"reduce(w, {c.mask}, {name}, {value}, {members}, {c.place()})")


@lowers("elect", modifiers={"sync"}, types={""}, guarding="skip", counted="shuffle")
def _elect(c: Context, i: Instruction) -> Iterator[str]:
    first, second = pair(i.operands[0])
    members = c.b32(i.operands[1])
    yield f"u32 leads; U32 r = elect(w, {c.mask}, {members}, &leads, {c.place()});"
    yield c.set(first, "r")
    if second is not None:
        yield c.set(second, "leads")


@lowers("bar.warp", modifiers={"sync"}, types={""}, counted="barrier", destination=False)
def _sync_warp(c: Context, i: Instruction) -> Iterator[str]:
    members = f"{c.mask}, {c.b32(i.operands[0])}"
    if isinstance(i.operands[0], Immediate) and i.operands[0].bits & 0xFFFFFFFF == 0xFFFFFFFF:
        yield f"warp_sync(w, {members}, true);"  # which names every lane
    else:
        yield f"sync_members(w, {members}, {c.place()});"
