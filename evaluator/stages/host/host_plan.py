"""What stands for a launch plan where host code runs: one call at each set of sizes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal

from common.contract import Phase, Status
from common.launch_plan import LaunchPlan
from evaluator.backends.session import CallTensor, SubmissionCall
from evaluator.errors import Ruling
from evaluator.foreign.inside.numbers_in_text import text_at
from evaluator.problems.problem import Problem, Sizes, Tensor
from evaluator.stages.launch.checked_plan import BufferFacts, CheckedPlan, SizedPlan
from evaluator.stages.lift.binding import initial_contents
from evaluator.stages.lift.extension.model_numbers import text_of


@dataclass(frozen=True)
class HostPlan(CheckedPlan):
    """A plan without steps: what the session is asked for is a call."""

    @cached_property
    def stated(self) -> str:
        """The file that states the problem, where it says how a model is made; else nothing."""
        return text_of(self.problem)

    @property
    def _groups(self) -> tuple[tuple[Literal["input", "output"], tuple[Tensor, ...]], ...]:
        return ("input", self.problem.inputs), ("output", self.problem.outputs)

    def at(
        self, sizes: Sizes, memory_bytes: int = 8 << 30, scalars: Mapping[str, float] = MappingProxyType({})
    ) -> SizedPlan | Ruling:
        problem = self.problem
        buffers = tuple(
            BufferFacts(tensor.name, role, tensor.dtype, tensor.shape_at(sizes))
            for role, group in self._groups
            for tensor in group
        )
        needed = sum(buffer.size_bytes for buffer in buffers)
        if needed > memory_bytes:
            return Ruling(
                Status.INVALID_SUBMISSION,
                Phase.LAUNCH,
                f"The problem's own tensors take {needed} bytes, and the memory limit is {memory_bytes}.",
                "Ask for smaller sizes.",
            )
        tensors = tuple(
            CallTensor(tensor.name, role, tensor.dtype, tensor.shape_at(sizes), tensor.is_bool)
            for role, group in self._groups
            for tensor in group
        )
        numbers = {one.name: scalars.get(one.name, one.value) for one in problem.scalars}
        reference = text_at(self.stated, sizes) if self.stated else ""
        changed = tuple(one.name for one in problem.inputs if one.changed)
        call = SubmissionCall(dict(sizes), numbers, tensors, initial_contents(problem.entry), reference, changed)
        return SizedPlan(buffers, (), call)


def host_plan(problem: Problem, arch: str, source_lines: int) -> HostPlan:
    """The plan for a problem, before it is known what will be called."""
    nothing = LaunchPlan.model_construct(temporaries=(), steps=())
    return HostPlan(problem, nothing, "host", "by name, else in order", arch, {}, source_lines)
