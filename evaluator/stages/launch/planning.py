"""Launching: from a plan (JSON, directives, or none) and the compiled kernels to launches with every number known.

`plan_launches` checks once all that does not depend on sizes: names, kernels, counts and types. `CheckedPlan.at` then
evaluates the plan at one size and checks the hardware's limits. Both answer with a Ruling where a plan is unusable.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from common.demangled import without_parameters
from common.launch_directives import PREFIX, argument_text, as_directives, parse_directives, unmarked_launch
from common.launch_plan import Copy, Extent, Fill, Launch, LaunchPlan, PlanError, RawArgument, RecordedLaunchPlan
from evaluator.backends.session import Entry, Packed, Parameter, Pointer, Program
from evaluator.errors import Ruling
from evaluator.problems.problem import C_TYPES, Problem
from evaluator.stages.compile.kernel_entries import launch_bounds, module_variables
from evaluator.stages.compile.kernel_names import listed, matching, nearest, shortest
from evaluator.stages.launch.arguments import pointer_misfit, takes_number
from evaluator.stages.launch.calls import Call
from evaluator.stages.launch.checked_plan import (
    BufferFacts,
    CheckedPlan,
    PlanRefusedError,
    PlanSource,
    SizedPlan,
    packed,
)
from evaluator.stages.launch.inference import (
    INFERRED_BLOCK,
    arguments_by_kind,
    arguments_in_order,
    const_output,
    count_of,
    launch_in_words,
    launch_to_try,
    shared_to_try,
)
from evaluator.stages.launch.recorded_plans import Point, RecordedPlan, RecordedPlans
from evaluator.stages.launch.scope import Scope
from evaluator.stages.launch.unread_scalars import unread_scalars
from evaluator.stages.screen.template_kernels import template_kernels

__all__ = ["BufferFacts", "CheckedPlan", "Planned", "SizedPlan", "plan_launches"]

_LIBRARY: Final = re.compile(r"(?:void )?(?:cub::CUB_|thrust::THRUST_)")
"""How the kernels of CUB and Thrust begin: both put all they have into a namespace that names version and target."""
_SHOWN: Final = 8
_MOST_SHOWN: Final = 80
"""Characters of a comment."""


@dataclass(frozen=True)
class _Needs:
    """What ptxas says of each kernel, by `Entry.name`, and its text of its blocks, by symbol."""

    static_shared_bytes: Mapping[str, int]
    registers: Mapping[str, int]
    most_threads: Mapping[str, int]
    variables: Mapping[str, int]
    """Bytes of each variable of the program."""


@dataclass(frozen=True)
class Planned:
    """What planning gave: exactly one of the two."""

    ruling: Ruling | None
    checked_plan: CheckedPlan | None


def plan_launches(
    problem: Problem,
    program: Program,
    json_plan: LaunchPlan | None,
    source: str,
    static_shared_bytes: Mapping[str, int] = MappingProxyType({}),
    registers: Mapping[str, int] = MappingProxyType({}),
) -> Planned:
    """The plan of a submission, checked against its problem and its compiled kernels.

    `static_shared_bytes` is each kernel's static shared memory, `registers` what each of its threads has, both by
    `Entry.name`; a kernel that is missing has none.
    """
    needs = _Needs(static_shared_bytes, registers, launch_bounds(program.ptx), module_variables(program.ptx))
    try:
        return Planned(None, _plan(problem, program, json_plan, source, needs))
    except PlanRefusedError as refused:
        return Planned(refused.ruling, None)


def plan_recorded(
    problem: Problem,
    program: Program,
    record: Callable[[Sequence[Point]], Sequence[RecordedLaunchPlan | Ruling]],
    binding: str,
    source: str,
    static_shared_bytes: Mapping[str, int],
    registers: Mapping[str, int],
) -> Planned:
    """As `plan_launches`, of plans that `record` gives anew for each set of sizes.

    `binding`: how the host code is called, in words. Raises InfrastructureError.
    """
    needs = _Needs(static_shared_bytes, registers, launch_bounds(program.ptx), module_variables(program.ptx))

    def checked(points: Sequence[Point]) -> list[RecordedPlan | Ruling]:
        return [
            plan if isinstance(plan, Ruling) else _checked_recording(problem, program, plan, source, needs)
            for plan in record(points)
        ]

    typical: Point = (problem.example_sizes[0], {})
    plans = RecordedPlans({}, checked)
    first = plans.at(*typical)
    if isinstance(first, Ruling):
        return Planned(first, None)
    try:
        _check_outputs(problem, first.plan, first.calls.values())
    except PlanRefusedError as refused:
        return Planned(refused.ruling, None)
    said = f"{binding}. {_describe(first.calls.values(), program.entries).replace('as the plan says', 'It launches')}"
    lines = source.count("\n") + 1
    return Planned(None, CheckedPlan(problem, first.plan, "recorded", said, program.arch, first.calls, lines, plans))


def _checked_recording(
    problem: Problem, program: Program, plan: RecordedLaunchPlan, source: str, needs: _Needs
) -> RecordedPlan | Ruling:
    try:
        return _recorded(problem, program, plan, source, needs)
    except PlanRefusedError as refused:
        return refused.ruling


def _recorded(
    problem: Problem, program: Program, plan: RecordedLaunchPlan, source: str, needs: _Needs
) -> RecordedPlan:
    calls = _checked_calls(problem, program, plan, source, needs)
    others = tuple(_recorded(problem, program, one, source, needs) for one in plan.others)
    bare = plan.model_copy(update={"orders": (), "prepared": 0, "call": "", "others": ()})
    return RecordedPlan(bare, calls, plan.orders, plan.prepared, plan.call, others)


def _checked_calls(
    problem: Problem, program: Program, plan: LaunchPlan, source: str, needs: _Needs
) -> Mapping[int, Call]:
    """The calls of a plan, by their steps; all that does not depend on sizes is checked. Raises PlanRefusedError."""
    # What host code gives to a kernel is what its compiler let through: a pointer of any type to any tensor.
    scope = Scope(problem, plan, needs.variables, typed=not isinstance(plan, RecordedLaunchPlan))
    calls = {
        index: _call(f"step {index + 1}", step, program.entries, scope, source, needs)
        for index, step in enumerate(plan.steps)
        if isinstance(step, Launch)
    }
    for index, step in enumerate(plan.steps):
        if isinstance(step, Fill | Copy):
            scope.check_move(f"step {index + 1}", step)
    return calls


def _plan(
    problem: Problem, program: Program, json_plan: LaunchPlan | None, source: str, needs: _Needs
) -> CheckedPlan:
    try:
        directives = parse_directives(source)
    except PlanError as error:
        raise PlanRefusedError(f"A launch directive cannot be read: {error}", _see_grammar) from None
    if directives is not None and json_plan is not None:
        raise PlanRefusedError(
            "The submission has a launch plan and also `// assay:` directives in its source.",
            "Keep one of the two: nothing says which should win.",
        )
    plan = json_plan or directives
    # A plan may name any kernel; without one a library's do not count, since headers alone bring them along.
    entries = program.entries if plan else _own(program.entries)
    if not entries:
        raise _no_kernel(source)
    plan_source: PlanSource = "json" if json_plan else "directives"
    binding = comment = ""
    if plan is None:
        comment = _unmarked(source)
        try:
            plan, binding = _infer(problem, entries)
        except PlanRefusedError as refused:
            raise PlanRefusedError(refused.ruling.message, f"{comment}{refused.ruling.hint}") from None
        plan_source = "inferred"
    try:
        calls = _checked_calls(problem, program, plan, source, needs)
    except PlanRefusedError as refused:
        if plan_source != "inferred":
            raise
        raise PlanRefusedError(
            f"No launch plan was given, and the inferred one does not fit ({binding}): {refused.ruling.message}",
            comment + (refused.ruling.hint or _another_line(problem, plan, entries)),
        ) from None
    _check_outputs(problem, plan, calls.values())
    if plan_source == "inferred":
        binding += "".join(f"; {launch_in_words(call.launch)}" for call in calls.values())
    binding = binding or _describe(calls.values(), program.entries)
    lines = source.count("\n") + 1
    binding += f". {comment.rstrip(' .')}" if comment else ""
    advice = _about_inferred(problem, plan, entries, program.ptx, source) if plan_source == "inferred" else ""
    unread = unread_scalars(problem, calls.values(), program.ptx)
    return CheckedPlan(problem, plan, plan_source, binding, program.arch, calls, lines, None, advice, unread)


_see_grammar = (
    "A directive is one of: `// assay: launch KERNEL grid=(…) block=(…) args=(…)`, `// assay: temp NAME DTYPE (…)`, "
    "`// assay: fill NAME value=V`, `// assay: copy SOURCE TARGET`."
)


def _unmarked(source: str) -> str:
    """What to say of a comment that was meant to be a directive; empty where there is none."""
    found = unmarked_launch(source)
    if found is None:
        return ""
    number, text = found
    shown = text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"
    return f"Line {number}, `{shown}`, is a comment and launches nothing: a directive begins with `{PREFIX} launch`. "


def _no_kernel(source: str) -> PlanRefusedError:
    template = next(template_kernels(source), None)
    if template is not None:
        return PlanRefusedError(
            "There is no `__global__` function in the compiled source: no kernel template was instantiated.",
            f"Instantiate what is launched, for example `{template.instantiation()}`.",
        )
    hint = "Write a kernel with `__global__ void name(…)`; a `static` one that nothing launches is dropped by nvcc."
    return PlanRefusedError("There is no `__global__` function in the source.", hint)


def _own(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Without the kernels of CUDA's libraries, such as the empty one that `#include <cub/cub.cuh>` brings along."""
    return tuple(entry for entry in entries if not _LIBRARY.match(entry.name))


def _infer(problem: Problem, entries: Sequence[Entry]) -> tuple[LaunchPlan, str]:
    """The plan for a source with one kernel and no plan, and how its parameters were bound, in words."""
    if len(entries) > 1:
        lines = "".join(as_directives(_guess(problem, entry, entries)) for entry in entries[:_SHOWN])
        raise PlanRefusedError(
            f"The source has {len(entries)} kernels ({listed(entries)}) and no launch plan says which to launch.",
            f"Add a line for each launch, in order, for example\n{lines}{_to_replace(problem, entries[:_SHOWN])}",
        )
    entry = entries[0]
    names = [parameter.name for parameter in entry.parameters]
    offered = problem.parameter_names
    if set(names) <= set(offered):
        return _guess(problem, entry, entries, tuple(names)), f"{', '.join(names) or 'no parameters'} bound by name"
    if len(names) != len(offered):
        raise PlanRefusedError(
            f"No launch plan was given, and `{_signature(entry)}` cannot be matched with {problem.id}: it has "
            f"{len(names)} parameters, and in order there are {len(offered)} to pass ({', '.join(offered)}).",
            "Name every parameter as the problem does, or say how to launch with a line such as\n"
            f"{as_directives(_guess(problem, entry, entries))}{_to_replace(problem, (entry,))}",
        )
    mismatch = const_output(problem, entry)
    if mismatch is not None:
        parameter, output = mismatch
        raise PlanRefusedError(
            f"No launch plan was given, and in order `{parameter.type} {parameter.name}` would be the output "
            f"'{output}' of {problem.id}, which a pointer to const cannot write (the order is {', '.join(offered)}).",
            "Name every parameter as the problem does, or say how to launch with a line such as\n"
            f"{as_directives(_guess(problem, entry, entries))}{_to_replace(problem, (entry,))}",
        )
    pairs = ", ".join(f"{name} = {what}" for name, what in zip(names, offered, strict=True))
    return _guess(problem, entry, entries, offered), f"bound by order: {pairs}"


def _guess(
    problem: Problem, entry: Entry, entries: Sequence[Entry], arguments: tuple[str, ...] | None = None
) -> LaunchPlan:
    """One launch of `entry` with `arguments`, or likely ones; a thread for each element of the largest output."""
    counts = dict.fromkeys(map(count_of, problem.outputs))
    largest = f"max({', '.join(counts)})" if len(counts) > 1 else next(iter(counts))
    grid = (f"ceil_div({largest}, {INFERRED_BLOCK})",)
    return _one_launch(
        entry, entries, arguments or arguments_in_order(problem, entry, entries), grid, (str(INFERRED_BLOCK),)
    )


def _one_launch(
    entry: Entry,
    entries: Sequence[Entry],
    arguments: tuple[str, ...],
    grid: tuple[str, ...],
    block: tuple[str, ...],
    shared: str = "0",
) -> LaunchPlan:
    launch = {"kind": "launch", "kernel": shortest(entry, entries), "grid": grid, "block": block, "args": arguments}
    if shared != "0":
        launch["shared_bytes"] = shared
    try:
        return LaunchPlan.model_validate({"steps": (launch,)})
    except ValueError:
        raise PlanRefusedError(
            "No launch plan was given, and none can be inferred for this problem.", _see_grammar
        ) from None


def _another_line(problem: Problem, plan: LaunchPlan, entries: Sequence[Entry]) -> str:
    """What to write where parameters in the problem's order do not fit: that line again would not fit either."""
    likely = _one_launch(entries[0], entries, arguments_by_kind(problem, entries[0]), *_shape(plan))
    if likely == plan:
        return f"Say how to launch with another line than\n{as_directives(plan)}"
    return f"Say how to launch with a line such as\n{as_directives(likely)}{_to_replace(problem, entries)}"


def _shape(plan: LaunchPlan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    (launch,) = (step for step in plan.steps if isinstance(step, Launch))
    return tuple(map(str, launch.grid)), tuple(map(str, launch.block))


def _about_inferred(problem: Problem, plan: LaunchPlan, entries: Sequence[Entry], ptx: str, source: str) -> str:
    """What to say of an inferred plan where an answer was wrong, if the kernel may need another; else nothing."""
    (entry,) = entries
    (given,) = (step for step in plan.steps if isinstance(step, Launch))
    # By kind, which is by order or by name where that fits, and has sizes by their names.
    arguments = arguments_by_kind(problem, entry)
    was, of = _shape(plan)
    found = launch_to_try(problem, ptx, source)
    if found is None and arguments == given.args:
        return ""
    why, grid, block = found or ("", was, of)
    shared = shared_to_try(ptx)
    likely = as_directives(_one_launch(entry, entries, arguments, grid, block, shared))
    if found is None:
        return f"There is no launch plan: parameters were bound by order. To go by their names, add\n{likely}"
    launched = f"There is no launch plan, so it was launched with grid=({', '.join(was)}) block=({', '.join(of)})"
    if why:
        return f"The kernel reads {why}. {launched}, where they are 0. Say how to launch it, for example\n{likely}"
    return f"{launched}. If it needs another grid or block, say so in a line such as\n{likely}"


def _to_replace(problem: Problem, entries: Sequence[Entry]) -> str:
    """What to do with the names in a guessed plan that the problem does not have."""
    names = [name for entry in entries for name in arguments_in_order(problem, entry, entries)]
    known = (*problem.parameter_names, *map(count_of, problem.outputs))
    unknown = [name for name in dict.fromkeys(names) if name not in known]
    if unknown:
        own = ", ".join(unknown)
        return f"with a tensor, size or scalar of {problem.id}, a temporary, or a number in place of {own}."
    missing = [output.name for output in problem.outputs if output.name not in names]
    if missing:
        given = ", ".join(missing)
        return (
            f"with the output {given} in place of what the kernel writes. One that works in place changes an input: "
            f"begin with a line `{PREFIX} copy INPUT {missing[0]}` then, and pass {given} for that input."
        )
    return ""


def _call(step: str, launch: Launch, entries: Sequence[Entry], scope: Scope, source: str, needs: _Needs) -> Call:
    entry = _entry(step, launch.kernel, entries, source)
    place = f"{step} (launch {launch.kernel})"
    parameters = entry.parameters
    if len(launch.args) != len(parameters):
        given = ", ".join(argument_text(argument) for argument in launch.args)
        raise PlanRefusedError(
            f"{place}: args has {len(launch.args)} values ({given}), and the kernel takes {len(parameters)}: "
            f"`{_signature(entry)}`.",
            "Give one value for each parameter, in order.",
        )
    for key, extents in _extents(launch):
        for extent in extents:
            scope.check_expression(f"{place}, {key}", extent)
    values = []
    for number, (argument, parameter) in enumerate(zip(launch.args, parameters, strict=True), 1):
        here = f"{place}, argument {number} for `{parameter.type} {parameter.name}`"
        value = scope.value(here, argument)
        _check_type(here, argument, value, parameter, scope)
        values.append(value)
    return Call(
        launch,
        entry,
        tuple(values),
        needs.static_shared_bytes.get(entry.name, 0),
        place,
        needs.registers.get(entry.name, 0),
        needs.most_threads.get(entry.symbol),
    )


def _extents(launch: Launch) -> tuple[tuple[str, tuple[Extent, ...]], ...]:
    return (
        ("grid", launch.grid),
        ("block", launch.block),
        ("shared", (launch.shared_bytes,)),
        ("cluster", launch.cluster or ()),
    )


def _entry(step: str, wanted: str, entries: Sequence[Entry], source: str) -> Entry:
    found = matching(wanted, entries)
    if len(found) == 1:
        return found[0]
    if found:
        names = "\n".join(f"    {entry.name}" for entry in found[:_SHOWN])
        names += f"\n    and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise PlanRefusedError(
            f"{step}: the kernel name '{wanted}' is ambiguous. It can mean\n{names}",
            f"Write one of: {'; '.join(shortest(entry, entries) for entry in found[:_SHOWN])}.",
        )
    close = nearest(wanted, entries)
    hint = f"Did you mean {' or '.join(close)}?" if close else None
    last = re.split(r"[<(]", wanted)[0].split("::")[-1].strip()
    template = next((one for one in template_kernels(source) if one.name == last), None)
    if template is not None:
        given = re.search(r"<(.*)>", wanted)
        hint = (
            "A kernel template is compiled only where it is instantiated: add a line such as "
            f"`{template.instantiation(given[1] if given else '')}`."
        )
    compiled = listed(entries)
    raise PlanRefusedError(f"{step}: there is no kernel named '{wanted}'. The compiled kernels are {compiled}.", hint)


def _check_type(
    place: str,
    argument: float | str | RawArgument,
    value: Pointer | Packed | float | str,
    parameter: Parameter,
    scope: Scope,
) -> None:
    if isinstance(argument, RawArgument):
        if len(argument.data) != 2 * parameter.size_bytes:
            raise PlanRefusedError(
                f"{place}: {len(argument.data) // 2} bytes for a parameter of {parameter.size_bytes} bytes."
            )
        return
    assert not isinstance(value, Packed)
    if isinstance(value, Pointer) and parameter.kind == "pointer":
        dtype = scope.dtypes[value.buffer]
        reason = pointer_misfit(parameter.pointee, dtype)
        if reason is not None and scope.typed:
            kind = C_TYPES[dtype]
            raise PlanRefusedError(
                f"{place}: '{value.buffer}' is a {dtype} tensor: {reason}.",
                f"Declare that parameter as `{kind}*`; for an input, `const {kind}*`.",
            )
        return
    if parameter.kind == "pointer":
        if isinstance(value, int) and value == 0:
            return
        raise PlanRefusedError(
            f"{place}: a pointer takes a tensor or a temporary by name, or 0 for null, and '{argument}' is neither."
        )
    taken = takes_number(parameter)
    if taken is None:
        raise PlanRefusedError(
            f"{place}: a struct ({parameter.size_bytes} bytes) cannot be given as '{argument}'.",
            "Make its members parameters of their own, or give it as bytes in a plan in JSON.",
        )
    if isinstance(value, Pointer):
        raise PlanRefusedError(f"{place}: '{argument}' is a tensor, and the parameter takes a number ({taken}).")
    if isinstance(value, float) and not taken.is_float:
        raise PlanRefusedError(
            f"{place}: '{argument}' is a floating-point number, and the parameter takes an integer."
        )
    if not isinstance(value, str):
        packed(place, value, taken)


def _check_outputs(problem: Problem, plan: LaunchPlan, calls: Iterable[Call]) -> None:
    named = {buffer for call in calls for buffer in call.buffers}
    named |= {step.target for step in plan.steps if isinstance(step, Fill | Copy) and not step.variable}
    missing = [output.name for output in problem.outputs if output.name not in named]
    if missing:
        names, what = " and ".join(missing), "output" if len(missing) == 1 else "outputs"
        raise PlanRefusedError(
            f"No step of the launch plan writes the {what} {names}.",
            f"Pass {names} to a kernel, or name {names} as the target of a fill or a copy.",
        )


def _describe(calls: Iterable[Call], entries: Sequence[Entry]) -> str:
    """Each kernel once, with its first launch's arguments."""
    seen: dict[str, str] = {}
    for call in calls:
        pairs = zip(call.entry.parameters, call.launch.args, strict=True)
        bound = ", ".join(
            p.name if p.name == argument else f"{p.name} = {argument_text(argument)}" for p, argument in pairs
        )
        seen.setdefault(call.entry.symbol, f"{shortest(call.entry, entries)}({bound})")
    shown = list(seen.values())
    return "as the plan says: " + "; ".join(shown[:8]) + (f"; and {len(shown) - 8} more" if shown[8:] else "")


def _signature(entry: Entry) -> str:
    head = without_parameters(entry.name.replace("(anonymous namespace)::", ""))
    return f"{head}({', '.join(f'{parameter.type} {parameter.name}' for parameter in entry.parameters)})"
