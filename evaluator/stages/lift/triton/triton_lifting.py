"""Lifting Triton, as a whole: a Python text in; kernels as one program, and the plan at any sizes, out.

Which kernels there are follows from the arguments: Triton compiles one anew for other constants, for a size that 16
does not divide, and for one that is 1. So a program holds those that some sizes need, and there are plans at these.
At sizes that are not published nothing is assumed of 16: a product of matrices would have a kernel for each of dozens
of combinations.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from pydantic import TypeAdapter

from common.contract import Settings, Status
from common.launch_plan import RecordedLaunchPlan
from evaluator.backends.session import Entry
from evaluator.disk_cache import SPARED_S, Cache, key_of
from evaluator.errors import Ruling
from evaluator.problems.problem import Problem, Sizes
from evaluator.sandbox.sandbox import Sandbox
from evaluator.stages.compile.toolchain import Toolchain
from evaluator.stages.lift.binding import Binding, LiftRefusedError, adds_to_memory
from evaluator.stages.lift.calls.repeated_calls import RepeatedCalls
from evaluator.stages.lift.host_runs import RecordingSandbox
from evaluator.stages.lift.kernelbench.python_syntax import NotPythonError
from evaluator.stages.lift.kernelbench.solution import reference_of
from evaluator.stages.lift.lifting import Scalars, there
from evaluator.stages.lift.memory_uses import MemoryUses
from evaluator.stages.lift.recording import RecordedLaunch, Recording
from evaluator.stages.lift.triton.entry_points import MODEL, PythonEntry, bind_python, python_call
from evaluator.stages.lift.triton.inside.models import REFERENCE
from evaluator.stages.lift.triton.inside.record import SOURCE
from evaluator.stages.lift.triton.kernel_modules import KernelModule, TritonKernel
from evaluator.stages.lift.triton.python_runs import RecordedPair, launched, record_python
from evaluator.stages.lift.triton.triton_package import TritonPackage

_RULES: Final = "triton 3"
_KERNELS: Final = TypeAdapter(dict[str, TritonKernel])


@dataclass
class LiftedPython:
    """A Python text that can be recorded at any sizes of its problem, and the kernels that those so far need."""

    source: str
    entry: PythonEntry
    problem: Problem
    binding: Binding
    arch: str
    settings: Settings
    triton: TritonPackage
    toolchain: Toolchain
    sandbox: RecordingSandbox
    cache: Cache
    published: Sequence[Sizes]
    """At other sizes kernels are compiled without assuming that 16 divides one, so that there are few."""
    module: KernelModule = field(default_factory=KernelModule)
    entries: tuple[Entry, ...] = ()
    uses: MemoryUses = field(default_factory=lambda: MemoryUses(""))
    """Of all kernels so far."""
    cached: bool = True
    """Whether nothing had to be recorded or compiled."""
    others_s: float = 0.0
    """What another caller's compilation took, seconds, where it served here."""
    _recorded: dict[str, RecordedPair | LiftRefusedError] = field(default_factory=dict)
    _fresh: dict[str, RecordedPair | LiftRefusedError] = field(default_factory=dict)
    """What this recorded and has not yet been asked for."""

    def compile_for(self, points: Sequence[tuple[Sizes, Scalars]]) -> str:
        """The PTX of all kernels that these points need, beside those before. What cannot be recorded at a point is
        its ruling there. Raises LiftRefusedError where that is the first, InfrastructureError.
        """
        for number, one in enumerate(self._pairs(points)):
            if isinstance(one, LiftRefusedError):
                if isinstance(one, NotPythonError):
                    raise one
                if number == 0:
                    raise LiftRefusedError(*_parts(there(one.ruling, points[0][0])))
                break
            self.module.add(one.kernels, launched(one.first))
        ptx, self.entries = self.module.program()
        self.uses = MemoryUses(ptx)
        return ptx

    def plans_at(self, wanted: Sequence[tuple[Sizes, Scalars]]) -> list[RecordedLaunchPlan | Ruling]:
        """The plan at each of these, up to the first that cannot be had, whose ruling is the last.

        Raises InfrastructureError.
        """
        found: list[RecordedLaunchPlan | Ruling] = []
        for (sizes, _), one in zip(wanted, self._pairs(wanted), strict=False):
            try:
                if isinstance(one, LiftRefusedError):
                    raise one
                found.append(self._plan(one, sizes))
            except LiftRefusedError as refusal:
                return [*found, there(refusal.ruling, sizes)]
        return found

    def _plan(self, one: RecordedPair, sizes: Sizes) -> RecordedLaunchPlan:
        if missing := [kernel for kernel in launched(one.first) if kernel not in self.module.names]:
            name = one.kernels[missing[0]].name
            raise LiftRefusedError(
                Status.UNSUPPORTED,
                f"The Python launches {name} in a specialisation that no other size needs, and it was not compiled.",
                "Nothing is wrong with it. It was not judged there, so there is no reward.",
            )
        outputs = {tensor.name: tensor.shape_at(sizes) for tensor in self.problem.outputs}
        returned = None if outputs.keys() & {*self.binding.names, *self.binding.keywords} else outputs
        recordings = self._named(one.first), self._named(one.second)
        adds = adds_to_memory(self.source)
        initial = self.binding.initial
        calls = RepeatedCalls(self.problem, self.entries, self.uses, *recordings, initial, returned, adds)
        return calls.plan(again=sizes not in self.published)

    def _named(self, recording: Recording) -> Recording:
        """With the kernels' names in the program."""
        steps = tuple(
            step.model_copy(update={"kernel": self.module.names.get(step.kernel, step.kernel)})
            if isinstance(step, RecordedLaunch)
            else step
            for step in recording.steps
        )
        return recording.model_copy(update={"steps": steps})

    def _pairs(self, points: Sequence[tuple[Sizes, Scalars]]) -> list[RecordedPair | LiftRefusedError]:
        """What each call records, up to the first that cannot be recorded."""
        calls = [
            {
                **python_call(self.problem, self.binding, sizes, scalars, self.entry.name == MODEL),
                "specialised": sizes in self.published,
            }
            for sizes, scalars in points
        ]
        found: list[RecordedPair | LiftRefusedError] = []
        for number, call in enumerate(calls):
            key = json.dumps(call, sort_keys=True)
            if key not in self._recorded:
                self._recorded[key] = self._from_cache(key, calls[number:])
            found.append(self._recorded[key])
            if isinstance(found[-1], LiftRefusedError):
                break
        return found

    @cached_property
    def _files(self) -> Mapping[str, bytes]:
        """What lies beside the recorder: the text, and what states the problem where a model is made as there."""
        reference = reference_of(self.problem) if self.entry.name == MODEL else None
        return {SOURCE: self.source.encode(), **({REFERENCE: reference} if reference is not None else {})}

    def _from_cache(self, text: str, calls: Sequence[Mapping[str, Any]]) -> RecordedPair | LiftRefusedError:
        """The first of `calls`; where it has to be recorded, the others are with it, which costs less."""
        known = (self.triton.digest, self.toolchain.digest, self.arch)
        key = key_of(_RULES, *self._files.values(), self.entry.name, text, *known)

        def make() -> Mapping[str, bytes]:
            if text not in self._fresh:
                missing = {json.dumps(call, sort_keys=True): call for call in calls}
                wanted = [call for name, call in missing.items() if name not in self._fresh]
                pairs = record_python(
                    self._files, self.entry.name, wanted, self.arch, self.settings, self.toolchain, self.sandbox
                )
                self._fresh |= zip((json.dumps(call, sort_keys=True) for call in wanted), pairs, strict=False)
            made = self._fresh[text]
            if isinstance(made, LiftRefusedError):
                raise made
            return _packed(made)

        try:
            made, hit = self.cache.get_or_make(key, make)
        except LiftRefusedError as refusal:
            return refusal
        self.cached = self.cached and hit
        self.others_s += float(made.get(SPARED_S, b"0"))
        return _unpacked(made)


def lifted_python(
    source: str,
    entry: PythonEntry,
    problem: Problem,
    arch: str,
    settings: Settings,
    triton: TritonPackage,
    toolchain: Toolchain,
    sandbox: Sandbox,
    cache: Cache,
    published: Sequence[Sizes],
) -> LiftedPython:
    """Bind the function of `source` to the problem. Raises LiftRefusedError."""
    binding = bind_python(problem, entry)
    # Kernels are compiled in the same sandboxes.
    held = RecordingSandbox(sandbox, more_s=settings.compile_timeout_s)
    return LiftedPython(source, entry, problem, binding, arch, settings, triton, toolchain, held, cache, published)


def _packed(pair: RecordedPair) -> dict[str, bytes]:
    return {
        "first": pair.first.model_dump_json().encode(),
        "second": pair.second.model_dump_json().encode(),
        "kernels": _KERNELS.dump_json(dict(pair.kernels)),
    }


def _unpacked(made: Mapping[str, bytes]) -> RecordedPair:
    first, second = (Recording.model_validate_json(made[name]) for name in ("first", "second"))
    return RecordedPair(first, second, _KERNELS.validate_json(made["kernels"]))


def _parts(ruling: Ruling) -> tuple[Status, str, str | None]:
    return ruling.status, ruling.message, ruling.hint
