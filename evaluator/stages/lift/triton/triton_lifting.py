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
from evaluator.stages.lift.calls.process_calls import Point, ProcessCalls, calls_behind, refused_behind
from evaluator.stages.lift.calls.repeated_calls import CallForm, RepeatedCalls
from evaluator.stages.lift.host_runs import RecordingSandbox, bytes_of_tensors
from evaluator.stages.lift.kernelbench.python_syntax import NotPythonError
from evaluator.stages.lift.kernelbench.solution import reference_of
from evaluator.stages.lift.lifting import there
from evaluator.stages.lift.memory_uses import MemoryUses
from evaluator.stages.lift.recording import RecordedLaunch, Recording
from evaluator.stages.lift.triton.entry_points import MODEL, PythonEntry, bind_python, python_call
from evaluator.stages.lift.triton.inside.models import REFERENCE
from evaluator.stages.lift.triton.inside.record import SOURCE
from evaluator.stages.lift.triton.kernel_modules import KernelModule, TritonKernel
from evaluator.stages.lift.triton.python_runs import RecordedPair, launched, record_python
from evaluator.stages.lift.triton.triton_package import TritonPackage

_RULES: Final = "triton 5"
_MAX_BEHIND: Final = 2
"""Calls behind one at other sizes: each takes a process some tens of milliseconds, twice."""
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
    _behind: dict[str, ProcessCalls] = field(default_factory=dict)
    """By the call that they are beside, as it is asked for: those that come behind one at other sizes."""
    _recorded: dict[str, RecordedPair | LiftRefusedError] = field(default_factory=dict)
    _fresh: dict[str, RecordedPair | LiftRefusedError] = field(default_factory=dict)
    """What this recorded and has not yet been asked for."""

    def compile_for(self, points: Sequence[Point]) -> str:
        """The PTX of all kernels that these points need, beside those before. What cannot be recorded at a point is
        its ruling there. Raises LiftRefusedError where that is the first, InfrastructureError.
        """
        processes = [ProcessCalls(*point) for point in points]
        hidden = [point for point in points if point[0] not in self.published]
        behind = calls_behind(hidden, lambda sizes: sum(bytes_of_tensors(self.problem, sizes)), (), _MAX_BEHIND)
        self._behind = {self._asked(ProcessCalls(one.sizes, one.scalars)): one for one in behind.values()}
        for number, one in enumerate(self._pairs([*processes, *behind.values()])[: len(points)]):
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

    def plans_at(self, wanted: Sequence[Point]) -> list[RecordedLaunchPlan | Ruling]:
        """The plan at each of these, up to the first that cannot be had, whose ruling is the last.

        Raises InfrastructureError.
        """
        found: list[RecordedLaunchPlan | Ruling] = []
        processes = [ProcessCalls(*point) for point in wanted]
        for process, one in zip(processes, self._pairs(processes), strict=False):
            try:
                found.append(self._plan(one, process))
            except LiftRefusedError as refusal:
                return [*found, there(refusal.ruling, process.sizes)]
        return found

    def _plan(self, recorded: RecordedPair | LiftRefusedError, process: ProcessCalls) -> RecordedLaunchPlan:
        outputs = {tensor.name: tensor.shape_at(process.sizes) for tensor in self.problem.outputs}
        returned = None if outputs.keys() & {*self.binding.names, *self.binding.keywords} else outputs
        adds = adds_to_memory(self.source)
        form = CallForm(self.problem, self.entries, self.uses, self.binding.initial, returned, adds)
        calls = RepeatedCalls(form, *self._recordings(recorded))
        plan = calls.plan(again=process.sizes not in self.published)
        behind = self._behind.get(self._asked(process))
        if behind is None:
            return plan
        (later,) = self._pairs([behind])
        with refused_behind(behind):
            return calls.with_call_behind(plan, behind, *self._recordings(later))

    def _recordings(self, one: RecordedPair | LiftRefusedError) -> tuple[Recording, Recording]:
        """Both, with the kernels' names in the program. Raises LiftRefusedError."""
        if isinstance(one, LiftRefusedError):
            raise one
        if missing := [kernel for kernel in launched(one.first) if kernel not in self.module.names]:
            name = one.kernels[missing[0]].name
            raise LiftRefusedError(
                Status.UNSUPPORTED,
                f"The Python launches {name} in a specialisation that no other size needs, and it was not compiled.",
                "Nothing is wrong with it. It was not judged there, so there is no reward.",
            )
        return self._named(one.first), self._named(one.second)

    def _named(self, recording: Recording) -> Recording:
        """With the kernels' names in the program."""
        steps = tuple(
            step.model_copy(update={"kernel": self.module.names.get(step.kernel, step.kernel)})
            if isinstance(step, RecordedLaunch)
            else step
            for step in recording.steps
        )
        return recording.model_copy(update={"steps": steps})

    def _asked(self, process: ProcessCalls) -> str:
        return json.dumps(self._call(process), sort_keys=True)

    def _call(self, process: ProcessCalls) -> dict[str, Any]:
        """A process as it is asked for."""
        is_model = self.entry.name == MODEL
        return {
            "calls": [
                {**python_call(self.problem, self.binding, sizes, scalars, is_model), "sets": list(sets)}
                for sizes, scalars, sets in process.of_each_sizes
            ],
            "specialised": process.sizes in self.published,
        }

    def _pairs(self, processes: Sequence[ProcessCalls]) -> list[RecordedPair | LiftRefusedError]:
        """What each process records, up to the first that cannot be recorded."""
        calls = [self._call(process) for process in processes]
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
