"""Memory that referee and runner share, on the referee's side: what a run begins with, and what is left of it.

With device code of our own (`checks`) the next run's contents can be written by the same wait as a run is looked at:
the device does so only where the guards are whole and the inputs are what they were, so that nothing is overwritten
that somebody has to look at.

What is said of runs here holds for one run, and for several that are launched one after another with nobody looking
in between: then one look is for all of them. Several there are only where device code of ours looks.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from common.contract import Fault
from evaluator.backends.gpu import checks
from evaluator.backends.gpu.shared_memory import Layout, Memory, Placement, placed_together
from evaluator.backends.gpu.tensors import any_true, as_words, empty_pieces, on_device, synchronize
from evaluator.backends.session import Looked, PlanRun, Wanted
from evaluator.errors import GpuError
from evaluator.problems.arrays import as_elements

_EACH_BYTE: Final = 0x0101010101010101
"""Times a byte: a word of it."""
_NEAR_BYTES: Final = 1 << 16
"""What lies so near to a buffer was written by its own run: a sixteenth of what lies between those of two runs."""


@dataclass(frozen=True)
class RunsSeen:
    """What device code of ours saw after runs."""

    contents: tuple[dict[str, Any], ...]
    """Of each run, the bytes of its inputs, where they lie, and of its outputs."""
    looked: tuple[Looked, ...]
    """Of each run."""
    within: bool
    """Whether nothing was written outside of the buffers, nor into an output before the run that it is of."""


class RunMemory:
    """The memory of one program's runs."""

    def __init__(self, memory: Memory, own_checks: checks.DeviceChecks | None) -> None:
        self._memory, self._checks = memory, own_checks
        self._pieces: dict[tuple[int, int], Any] = {}
        """Of the memory, by where they begin and end: to slice one takes as long as all else that is done with it."""
        self._placements: dict[object, Placement] = {}
        """By buffers: plans with the same ones find them where they were, and in them what an earlier plan left."""
        self._guarded: Layout | None = None
        """The layout whose guards are known to be whole: they need not be written again."""
        self._last: Layout | None = None
        """The layout of the run before, whose temporaries a run may find as they were left."""
        self._written: tuple[PlanRun, ...] = ()
        """The runs whose contents are there already."""
        # Guards repeat this word. Nobody outside the referee knows it, so nobody can write over it unseen.
        word = secrets.token_bytes(8)
        self._word_number = int.from_bytes(word, "little")
        self._word = on_device(np.frombuffer(word, np.uint8), memory.content)
        self._word_as_int = as_words(self._word)

    def placement(self, runs: Sequence[PlanRun]) -> Placement:
        """Where the buffers of runs are. Raises GpuError where there is no room for them."""
        buffers = tuple(tuple((b.name, b.size_bytes) for b in run.buffers) for run in runs)
        if buffers not in self._placements:
            self._placements[buffers] = placed_together(runs, self._memory.size_bytes)
        placement = self._placements[buffers]
        if placement.whole.size_bytes > self._memory.size_bytes:
            raise GpuError("The shared memory is smaller than the plan needs.", "Please report it.")
        return placement

    def can_look(self, runs: Sequence[PlanRun]) -> bool:
        """Whether device code of ours looks at all of these at once."""
        roles = [buffer.role for run in runs for buffer in run.buffers]
        outputs = roles.count("output")
        compared = outputs if any(run.same_as is not None or run.same_as_before for run in runs) else 0
        early = len(runs) + 1 if len(runs) > 1 else 0  # their room, and the guard behind it
        asked = len(roles) + 1 + early + roles.count("input") + 2 * outputs + compared
        return self._checks is not None and self._checks.can_look(asked, outputs)

    def has_room(self, runs: Sequence[PlanRun]) -> bool:
        """Whether the buffers of all these go beside each other."""
        return placed_together(runs, 0).whole.size_bytes <= self._memory.size_bytes

    def leave(self) -> None:
        """Before a plan that does nothing: memory stays as it is, and what earlier launches did to its guards too.

        But the referee does something on the GPU, as before every launch: then the runner waits for its turn.
        """
        self._word.clone()
        synchronize(self._word)

    def write(self, runs: tuple[PlanRun, ...], placement: Placement) -> None:
        """Have memory hold what the runs begin with, unless it does, and wait until it is there."""
        written, self._written = self._written, ()
        if written:
            if _begin_alike(written, runs):
                return
            self._last = None  # what was written is not what a run has left
        self._write(runs, placement)

    def _write(self, runs: tuple[PlanRun, ...], placement: Placement) -> None:
        content, where = self._memory.content, placement.whole
        if self._checks is not None:
            self._checks.write(self._stretches(runs, placement))
            self._guarded = self._last = where
            synchronize(content)
            return
        (run,) = runs
        if where is not self._guarded:
            for start, end in where.guards():
                odd = min(-start % 8, end - start)
                if odd:
                    content[start : start + odd] = self._word[start % 8 : start % 8 + odd]
                as_words(content[start + odd : end]).copy_(self._word_as_int)
            self._guarded = where
        for buffer, place in zip(run.buffers, where.places, strict=True):
            target = content[place.offset : place.end]
            if buffer.content is not None:
                target.copy_(buffer.content.reshape(-1).view(target.dtype))
            elif buffer.role == "output" or run.poison_elsewhere is None:
                target.fill_(run.poison)
            elif not (run.keeps and where is self._last):
                target.fill_(run.poison_elsewhere)
        self._last = where
        synchronize(content)

    def _stretches(self, runs: Sequence[PlanRun], placement: Placement) -> list[checks.Stretch]:
        """What `_write` does, for device code of ours."""
        where = placement.whole
        wanted = []
        if where is not self._guarded:
            anew = where.guards_beyond(self._guarded)
            wanted += [checks.Stretch.fill(self._piece(start, end), self._word_number) for start, end in anew]
        for run, own in zip(runs, placement.runs, strict=True):
            for buffer, place in zip(run.buffers, own.places, strict=True):
                target = self._piece(place.offset, place.end)
                if buffer.content is not None:
                    wanted.append(checks.Stretch.copy(target, self._there(buffer.content)))
                elif buffer.role == "output" or run.poison_elsewhere is None:
                    wanted.append(checks.Stretch.fill(target, run.poison * _EACH_BYTE))
                elif not (run.keeps and where is self._last):
                    wanted.append(checks.Stretch.fill(target, run.poison_elsewhere * _EACH_BYTE))
        early = placement.early_parts([run.poison for run in runs])
        wanted += [checks.Stretch.fill(self._piece(start, end), poison * _EACH_BYTE) for start, end, poison in early]
        return wanted

    def _piece(self, start: int, end: int) -> Any:
        """The memory from one byte to before another."""
        if (start, end) not in self._pieces:
            self._pieces[start, end] = self._memory.content[start:end]
        return self._pieces[start, end]

    def _there(self, array: Any) -> Any:
        """An array on the device of the memory, in one piece."""
        array = array if array.is_contiguous() else array.contiguous()
        return array if array.device == self._memory.content.device else array.to(self._memory.content.device)

    def look(
        self,
        runs: Sequence[PlanRun],
        placement: Placement,
        wanted: Sequence[Wanted | None],
        following: tuple[PlanRun, ...] = (),
    ) -> RunsSeen | None:
        """What memory holds, and what device code of ours saw of it; None where others have to look.

        That is also where something was written outside of the buffers of a single run: array code says what. Where
        nothing was and the inputs are what they were, there is nothing left to be looked at, so `following` can be
        written.
        """
        if self._checks is None or not self.can_look(runs):
            return None
        guards = placement.whole.guards()
        memory = [
            {place.name: self._piece(place.offset, place.end) for place in own.places} for own in placement.runs
        ]
        inputs = [[buffer for buffer in run.buffers if buffer.role == "input"] for run in runs]
        outputs = [[buffer for buffer in run.buffers if buffer.role == "output"] for run in runs]
        of_each = list(zip(runs, memory, inputs, outputs, strict=True))
        room = iter(
            empty_pieces(
                self._memory.content, [there[one.name].numel() for _, there, _, made in of_each for one in made]
            )
        )
        contents = tuple(
            {one.name: there[one.name] for one in given} | {one.name: next(room) for one in made}
            for _, there, given, made in of_each
        )
        stretches = [checks.Stretch.holds(self._piece(start, end), self._word_number) for start, end in guards]
        early = placement.early_parts([run.poison for run in runs])
        stretches += [
            checks.Stretch.holds(self._piece(start, end), poison * _EACH_BYTE) for start, end, poison in early
        ]
        outside = len(stretches)

        def asked(of: list[list[checks.Stretch]]) -> list[slice]:
            """Where the answers to these will be, of each run."""
            found = []
            for each in of:
                found.append(slice(len(stretches), len(stretches) + len(each)))
                stretches.extend(each)
            return found

        given_at = asked(
            [
                [checks.Stretch.same(there[b.name], self._there(b.content)) for b in given if b.content is not None]
                for _, there, given, _ in of_each
            ]
        )
        kept = len(stretches)
        poison_at = asked(
            [
                [checks.Stretch.poisoned(there[b.name], run.poison, b.item_bytes) for b in made]
                for run, there, _, made in of_each
            ]
        )
        others = [
            before if run.same_as_before else run.same_as for run, before in zip(runs, [{}, *memory], strict=False)
        ]
        same_at = asked(
            [
                [checks.Stretch.same(there[b.name], self._there(other[b.name])) for b in made if other is not None]
                for other, (_, there, _, made) in zip(others, of_each, strict=True)
            ]
        )
        stretches += [
            checks.Stretch.copy(taken[b.name], there[b.name])
            for taken, (_, there, _, made) in zip(contents, of_each, strict=True)
            for b in made
        ]
        compared = {
            (number, name): checks.Compared(as_elements(taken[name], *want.shaped[name]), expected, want.tolerance)
            for number, (taken, want) in enumerate(zip(contents, wanted, strict=True))
            if want is not None
            for name, expected in want.expected.items()
        }
        elsewhere = self.placement(following) if following else placement
        then = self._stretches(following, elsewhere) if following else []
        found, worst = self._checks.look(stretches, compared, then, kept)
        if following and not any(found[:kept]):
            self._written, self._guarded, self._last = following, elsewhere.whole, elsewhere.whole
        looked = tuple(
            Looked(
                inputs_kept=not any(found[given_at[number]]),
                poisoned=any(found[poison_at[number]]),
                worst=None
                if worst is None or want is None
                else {name: worst[number, name] for name in want.expected},
                same=None if other is None else not any(found[same_at[number]]),
            )
            for number, (other, want) in enumerate(zip(others, wanted, strict=True))
        )
        within = not any(found[:outside])
        return RunsSeen(contents, looked, within) if within or len(runs) > 1 else None

    def taken_over(self, run: PlanRun, where: Layout) -> dict[str, Any]:
        """The bytes of inputs and outputs after a run, where nothing was looked at yet."""
        content = self._memory.content
        memory = {place.name: content[place.offset : place.end] for place in where.places}
        return {
            # Inputs stay where they are: they are looked at before the next run, and a baseline reads them there.
            buffer.name: memory[buffer.name].clone() if buffer.role == "output" else memory[buffer.name]
            for buffer in run.buffers
            if buffer.role != "temporary"
        }

    def trespass(self, placement: Placement) -> tuple[int, Fault] | None:
        """What was written outside of the buffers, if anything, and the first run that may have done so: whose buffer
        is near, or any of them.
        """
        content = self._memory.content
        guards = placement.whole.guards()
        changed, owners = [], []
        for guard in guards:
            start, end = guard
            odd = min(-start % 8, end - start)
            if odd:
                changed.append(content[start : start + odd] != self._word[start % 8 : start % 8 + odd])
                owners.append(guard)
            changed.append(as_words(content[start + odd : end]) != self._word_as_int)
            owners.append(guard)
        hit = {guard for guard, flag in zip(owners, any_true(changed), strict=True) if flag}
        for start, end in guards:
            if (start, end) not in hit:
                continue
            self._guarded = None
            whole = self._word.repeat((end - start) // 8 + 2)[start % 8 : start % 8 + end - start]
            bytes_hit = (content[start:end] != whole).nonzero()
            first, last = start + int(bytes_hit[0]), start + int(bytes_hit[-1])
            # The guard lies between two buffers: whichever is nearer to what was hit was probably meant.
            offset = min((first, last), key=lambda at: placement.runs[placement.run_nearest(at)].distance(at))
            number = placement.run_nearest(offset)
            place, element = placement.runs[number].nearest(offset)
            beyond = "before its start" if element < 0 else "past its end"
            near = placement.runs[number].distance(offset) <= _NEAR_BYTES
            return number if near else 0, _written_at(place.name, element, beyond)
        return None

    def written_early(self, runs: Sequence[PlanRun], placement: Placement) -> tuple[int, Fault] | None:
        """The output, if any, that a run before its own has written into, and the first that may have done so."""
        for number, (run, kept) in enumerate(zip(runs, placement.early, strict=True)):
            for place, end in zip(kept, placement.early_ends(number), strict=True):
                hit = (self._memory.content[place.offset : end] != run.poison).nonzero()
                if len(hit):
                    element = int(hit[0]) // place.item_bytes
                    return 0, _written_at(place.name, element, "by the launch of another trial")
        return None


def _written_at(name: str, element: int, how: str) -> Fault:
    message = f"{name}[{element}] was written, {how}"
    return Fault(kind="out_of_bounds", message=message, buffer=name, element=element)


def _begin_alike(some: Sequence[PlanRun], others: Sequence[PlanRun]) -> bool:
    """Whether both begin with the same memory."""

    def memory(run: PlanRun) -> list[object]:
        buffers = [(b.name, b.role, b.size_bytes, id(b.content)) for b in run.buffers]
        return [buffers, run.poison, run.poison_elsewhere, run.keeps]

    return [memory(run) for run in some] == [memory(run) for run in others]
