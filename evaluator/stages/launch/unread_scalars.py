"""Which scalars of a problem no kernel reads: their values are constants in the source or the plan, or left out."""

import re
from collections.abc import Iterable

from evaluator.problems.problem import Problem
from evaluator.stages.launch.calls import Call


def unread_scalars(problem: Problem, calls: Iterable[Call], ptx: str) -> tuple[str, ...]:
    """Those that trials vary and that no launch passes to a parameter which its kernel reads.

    The compiler leaves out each load of a parameter that nothing is made of.
    """
    known = list(calls)
    return tuple(s.name for s in problem.scalars if s.others and not any(_reads(call, s.name, ptx) for call in known))


def _reads(call: Call, name: str, ptx: str) -> bool:
    word, launch = re.compile(rf"\b{re.escape(name)}\b"), call.launch
    extents = (*launch.grid, *launch.block, *(launch.cluster or ()), launch.shared_bytes)
    if any(word.search(str(extent)) for extent in extents):
        return True
    given = (number for number, argument in enumerate(launch.args) if word.search(str(argument)))
    return any(_loaded(call.entry.symbol, number, ptx) for number in given)


def _loaded(symbol: str, number: int, ptx: str) -> bool:
    """Whether the PTX names this parameter anywhere but where it is declared."""
    return len(re.findall(rf"(?<![\w$]){re.escape(symbol)}_param_{number}(?![\w$])", ptx)) != 1
