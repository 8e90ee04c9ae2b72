"""The names that a plan can use, and what its arguments, fills and copies stand for."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from common.expressions import ExpressionError, caret, names_in
from common.launch_plan import Copy, Extent, Fill, LaunchPlan, RawArgument
from common.wire import DType
from evaluator.backends.session import Packed, Pointer
from evaluator.problems.problem import Problem
from evaluator.stages.launch.checked_plan import PlanRefusedError, Role, packed, rounded


class Scope:
    """The names that a plan can use, and what they stand for."""

    def __init__(self, problem: Problem, plan: LaunchPlan, variables: Mapping[str, int], typed: bool = True) -> None:
        """`variables`: those of the program, with their bytes. `typed`: pointers must fit the tensors' types."""
        self.variables, self.typed = variables, typed
        self.roles: dict[str, Role] = {}
        self.dtypes: dict[str, DType] = {}
        for temporary in plan.temporaries:
            if temporary.name in problem.parameter_names:
                raise PlanRefusedError(
                    f"The temporary '{temporary.name}' has the name of something that {problem.id} already has.",
                    f"Choose a name other than {', '.join(problem.parameter_names)}.",
                )
        groups: tuple[tuple[Role, Iterable[tuple[str, DType]]], ...] = (
            ("input", ((t.name, t.dtype) for t in problem.inputs)),
            ("output", ((t.name, t.dtype) for t in problem.outputs)),
            ("temporary", ((t.name, t.dtype) for t in plan.temporaries)),
        )
        for role, members in groups:
            for name, dtype in members:
                self.roles[name], self.dtypes[name] = role, dtype
        self.floats = {
            scalar.name: rounded(scalar.value, scalar.dtype) for scalar in problem.scalars if scalar.dtype.is_float
        }
        self.integers = {*problem.sizes, *(s.name for s in problem.scalars if not s.dtype.is_float)}
        for temporary in plan.temporaries:
            for extent in temporary.shape:
                self.check_expression(f"the shape of temporary '{temporary.name}'", extent)

    def check_expression(self, place: str, text: Extent) -> None:
        """Raise where `text` reads a name that is not a size or an integer scalar."""
        try:
            names = names_in(text)
        except ExpressionError as error:
            raise PlanRefusedError(f"{place}: {error}") from None
        for name in names:
            if name in self.integers:
                continue
            match = re.search(rf"(?<![\w]){name}(?![\w])", str(text))
            shown = caret(str(text), match.start() if match else 0)
            if name in self.dtypes:
                reason = f"'{name}' is a tensor, and an expression can only compute with sizes"
            elif name in self.floats:
                reason = f"'{name}' is not an integer, and an expression can only compute with integers"
            else:
                reason = f"unknown name '{name}'{self._nearest(name)}"
            known = ", ".join((*self.dtypes, *self.floats, *sorted(self.integers)))
            raise PlanRefusedError(f"{place}: {reason}\n{shown}", f"The names here are {known}.")

    def _nearest(self, name: str) -> str:
        known = {each.lower(): each for each in (*self.dtypes, *self.floats, *self.integers)}
        close = get_close_matches(name.lower(), known, n=1)
        return f": did you mean '{known[close[0]]}'?" if close else ""

    def value(self, place: str, argument: float | str | RawArgument) -> Pointer | Packed | int | float | str:
        """What an argument stands for: a buffer, a number, an expression over the sizes, or bytes."""
        if isinstance(argument, RawArgument):
            return self._raw(place, argument)
        if not isinstance(argument, str):
            return argument
        name = argument.strip()
        if name in self.dtypes:
            return Pointer(name)
        if name in self.floats:
            return self.floats[name]
        self.check_expression(place, argument)
        return argument

    def _raw(self, place: str, argument: RawArgument) -> Pointer | Packed:
        data = bytes.fromhex(argument.data)
        for address in argument.addresses:
            name = address.buffer
            if name not in self.roles:
                raise PlanRefusedError(
                    f"{place}: there is no tensor or temporary named '{name}'{self._nearest(name)}",
                    f"The tensors and temporaries are {', '.join(self.roles)}.",
                )
        to = tuple((address.at, Pointer(address.buffer, address.offset_bytes)) for address in argument.addresses)
        return to[0][1] if to and len(data) == 8 else Packed(data, to)

    def check_move(self, place: str, step: Fill | Copy) -> None:
        """Raise where a fill or a copy names no buffer, or would write to an input."""
        if step.variable:
            self._check_variable(place, step)
        targets = () if step.variable else (step.target,)
        for name in (*targets, step.source) if isinstance(step, Copy) else targets:
            if name not in self.roles:
                raise PlanRefusedError(
                    f"{place} ({step.kind}): there is no tensor or temporary named '{name}'{self._nearest(name)}",
                    f"The tensors and temporaries are {', '.join(self.roles)}.",
                )
        if step.variable:
            return
        if self.roles[step.target] == "input":
            raise PlanRefusedError(
                f"{place} ({step.kind}): '{step.target}' is an input, and inputs must come back unchanged.",
                f"Write to an output or a temporary ({', '.join(n for n, r in self.roles.items() if r != 'input')}).",
            )
        if isinstance(step, Copy) and step.source == step.target and step.size_bytes is None:
            raise PlanRefusedError(f"{place} (copy): '{step.source}' is copied to itself.", "Remove the step.")
        if isinstance(step, Fill) and step.data is None:
            packed(f"{place} (fill {step.target})", step.value, self.dtypes[step.target])

    def _check_variable(self, place: str, step: Fill | Copy) -> None:
        start = step.offset_bytes if isinstance(step, Fill) else step.target_offset_bytes
        room_bytes = self.variables.get(step.target)
        if room_bytes is None:
            raise PlanRefusedError(
                f"{place} ({step.kind}): the program has no `__device__` or `__constant__` variable {step.target}.",
                f"It has {', '.join(self.variables) or 'none'}; one that no kernel uses is left out by the compiler.",
            )
        if step.size_bytes is None or start + step.size_bytes > room_bytes:
            raise PlanRefusedError(
                f"{place} ({step.kind}): bytes {start} to {start + (step.size_bytes or 0)} of the variable "
                f"{step.target}, which has {room_bytes} bytes."
            )
