"""Memory that referee and runner share, on the referee's side: what a run begins with, and what is left of it.

With device code of our own (`checks`) the next run's contents can be written by the same wait as a run is looked at:
the device does so only where the guards are whole and the inputs are what they were, so that nothing is overwritten
that somebody has to look at.
"""

import secrets
from typing import Any, Final

import numpy as np

from common.contract import Fault
from evaluator.backends.gpu import checks
from evaluator.backends.gpu.shared_memory import Layout, Memory, layout
from evaluator.backends.gpu.tensors import any_true, as_words, empty_like, on_device, synchronize
from evaluator.backends.session import Looked, PlanRun, Wanted
from evaluator.errors import GpuError
from evaluator.problems.arrays import as_elements

_EACH_BYTE: Final = 0x0101010101010101
"""Times a byte: a word of it."""


class RunMemory:
    """The memory of one program's runs."""

    def __init__(self, memory: Memory, own_checks: checks.DeviceChecks | None) -> None:
        self._memory, self._checks = memory, own_checks
        self._layouts: dict[object, Layout] = {}
        """By buffers: plans with the same ones find them where they were, and in them what an earlier plan left."""
        self._guarded: Layout | None = None
        """The layout whose guards are known to be whole: they need not be written again."""
        self._last: Layout | None = None
        """The layout of the run before, whose temporaries a run may find as they were left."""
        self._written: PlanRun | None = None
        """The run whose contents are there already."""
        # Guards repeat this word. Nobody outside the referee knows it, so nobody can write over it unseen.
        word = secrets.token_bytes(8)
        self._word_number = int.from_bytes(word, "little")
        self._word = on_device(np.frombuffer(word, np.uint8), memory.content)
        self._word_as_int = as_words(self._word)

    def layout(self, run: PlanRun) -> Layout:
        """Where the buffers of a run are. Raises GpuError where there is no room for them."""
        buffers = tuple((b.name, b.size_bytes) for b in run.buffers)
        where = self._layouts.setdefault(buffers, layout(run.buffers, self._memory.size_bytes))
        if where.size_bytes > self._memory.size_bytes:
            raise GpuError("The shared memory is smaller than the plan needs.", "Please report it.")
        return where

    def leave(self) -> None:
        """Before a plan that does nothing: memory stays as it is, and what earlier launches did to its guards too.

        But the referee does something on the GPU, as before every launch: then the runner waits for its turn.
        """
        self._word.clone()
        synchronize(self._word)

    def write(self, run: PlanRun, where: Layout) -> None:
        """Have memory hold what the run begins with, unless it does, and wait until it is there."""
        written, self._written = self._written, None
        if written is not None:
            if _begin_alike(written, run):
                return
            self._last = None  # what was written is not what a run has left
        self._write(run, where)

    def _write(self, run: PlanRun, where: Layout) -> None:
        content = self._memory.content
        if self._checks is not None:
            self._checks.write(self._stretches(run, where))
            self._guarded = self._last = where
            synchronize(content)
            return
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

    def _stretches(self, run: PlanRun, where: Layout) -> list[checks.Stretch]:
        """What `_write` does, for device code of ours."""
        content = self._memory.content
        wanted = []
        if where is not self._guarded:
            anew = where.guards_beyond(self._guarded)
            wanted += [checks.Stretch.fill(content[start:end], self._word_number) for start, end in anew]
        for buffer, place in zip(run.buffers, where.places, strict=True):
            target = content[place.offset : place.end]
            if buffer.content is not None:
                given = buffer.content.reshape(-1).view(target.dtype)
                wanted.append(checks.Stretch.copy(target, given.to(target.device)))
            elif buffer.role == "output" or run.poison_elsewhere is None:
                wanted.append(checks.Stretch.fill(target, run.poison * _EACH_BYTE))
            elif not (run.keeps and where is self._last):
                wanted.append(checks.Stretch.fill(target, run.poison_elsewhere * _EACH_BYTE))
        return wanted

    def look(
        self, run: PlanRun, where: Layout, wanted: Wanted | None, following: PlanRun | None
    ) -> tuple[dict[str, Any], Looked | None]:
        """What memory holds, and what device code of ours saw of it; nothing where others have to look.

        That is also where something was written outside of the buffers: array code says what. Where that is not so
        and the inputs are what they were, there is nothing left to be looked at, so `following` can be written.
        """
        content, guards = self._memory.content, where.guards()
        memory = {place.name: content[place.offset : place.end] for place in where.places}
        inputs = [buffer for buffer in run.buffers if buffer.role == "input"]
        outputs = [buffer for buffer in run.buffers if buffer.role == "output"]
        asked = len(guards) + len(inputs) + 3 * len(outputs)
        if self._checks is None or not self._checks.can_look(asked, len(outputs)):
            return {}, None
        contents = {buffer.name: memory[buffer.name] for buffer in inputs}
        contents |= {buffer.name: empty_like(memory[buffer.name]) for buffer in outputs}
        stretches = [checks.Stretch.holds(content[start:end], self._word_number) for start, end in guards]
        stretches += [
            checks.Stretch.same(memory[one.name], one.content.reshape(-1).view(content.dtype).to(content.device))
            for one in inputs
            if one.content is not None
        ]
        kept = len(stretches)
        stretches += [checks.Stretch.poisoned(memory[one.name], run.poison, one.item_bytes) for one in outputs]
        clean = len(stretches)
        if run.same_as is not None:
            earlier = {name: array.reshape(-1).view(content.dtype) for name, array in run.same_as.items()}
            stretches += [checks.Stretch.same(memory[one.name], earlier[one.name]) for one in outputs]
        alike = len(stretches)
        stretches += [checks.Stretch.copy(contents[one.name], memory[one.name]) for one in outputs]
        compared = {}
        if wanted is not None:
            compared = {
                name: checks.Compared(as_elements(contents[name], *wanted.shaped[name]), expected, wanted.tolerance)
                for name, expected in wanted.expected.items()
            }
        elsewhere = where if following is None else self.layout(following)
        then = [] if following is None else self._stretches(following, elsewhere)
        found, worst = self._checks.look(stretches, compared, then, kept)
        if following is not None and not any(found[:kept]):
            self._written, self._guarded, self._last = following, elsewhere, elsewhere
        if any(found[: len(guards)]):
            return {}, None
        return contents, Looked(
            inputs_kept=not any(found[len(guards) : kept]),
            poisoned=any(found[kept:clean]),
            worst=worst if wanted is not None else None,
            same=None if run.same_as is None else not any(found[clean:alike]),
        )

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

    def trespass(self, where: Layout) -> Fault | None:
        """What was written outside of the buffers, if anything."""
        content = self._memory.content
        guards = where.guards()
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
            offset = min((first, last), key=where.distance)
            place, element = where.nearest(offset)
            beyond = "before its start" if element < 0 else "past its end"
            return Fault(
                kind="out_of_bounds",
                message=f"{place.name}[{element}] was written, {beyond}",
                buffer=place.name,
                element=element,
            )
        return None


def _begin_alike(one: PlanRun, other: PlanRun) -> bool:
    """Whether both begin with the same memory."""

    def memory(run: PlanRun) -> list[object]:
        buffers = [(b.name, b.role, b.size_bytes, id(b.content)) for b in run.buffers]
        return [buffers, run.poison, run.poison_elsewhere, run.keeps]

    return memory(one) == memory(other)
