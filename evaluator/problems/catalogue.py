"""The built-in problems by id."""

import difflib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import MappingProxyType
from typing import Annotated, Final, TypeAlias

from common.contract import is_foreign_problem
from common.wire import SentByName
from evaluator.errors import UnknownProblemError
from evaluator.problems.problem import Problem


@cache
def problems() -> Mapping[str, Problem]:
    """Every built-in problem by its id, in order of tier. Built at the first call."""
    from evaluator.problems.families.activation import GELU, RELU, SWIGLU
    from evaluator.problems.families.attention import ATTENTION
    from evaluator.problems.families.convolution import CONV2D
    from evaluator.problems.families.elementwise import SAXPY, SCALAR_MULTIPLY, VECTOR_ADD
    from evaluator.problems.families.linear_algebra import LINEAR_GELU, MATMUL, MATMUL_F16, MATVEC
    from evaluator.problems.families.normalization import LAYER_NORM, RMS_NORM
    from evaluator.problems.families.reduction import HISTOGRAM, REDUCE_SUM, ROW_SUM
    from evaluator.problems.families.scan import PREFIX_SUM
    from evaluator.problems.families.softmax import SOFTMAX
    from evaluator.problems.families.transpose import TRANSPOSE

    ordered = (
        *(VECTOR_ADD, SCALAR_MULTIPLY, SAXPY, RELU, GELU),
        *(REDUCE_SUM, ROW_SUM, TRANSPOSE, PREFIX_SUM, HISTOGRAM),
        *(MATVEC, MATMUL, SOFTMAX, LAYER_NORM, RMS_NORM, CONV2D),
        *(LINEAR_GELU, SWIGLU, ATTENTION, MATMUL_F16),
    )
    return MappingProxyType({problem.id: problem for problem in ordered})


def find_problem(problem_id: str) -> Problem:
    """The problem with this id. Raises UnknownProblemError, whose remedy names the nearest ids."""
    known = problems()
    if problem_id in known:
        return known[problem_id]
    wanted = problem_id.strip().lower().replace("-", "_").replace(" ", "_")
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
    remedy = (
        f"did you mean {' or '.join(repr(name) for name in near)}?"
        if near
        else f"the problems are: {', '.join(known)}"
    )
    if is_foreign_problem(problem_id):
        remedy = (
            "it is one of others, known by its file alone: `assay grade` and `assay verify` take it as --reference; "
            "with --server URL the id is enough where you have sent the file to that service before"
        )
    elif ":" in problem_id:
        remedy = "problems of others are named FORM:PATH, where FORM is kernelbench, leetgpu, tensara or trace"
    raise UnknownProblemError(f"there is no problem '{problem_id}'", remedy)


_stated: Final[ContextVar[Problem | None]] = ContextVar("_stated", default=None)


@contextmanager
def known_as_well(problem: Problem) -> Iterator[None]:
    """While it lasts, what travels by the id of `problem`, which is none of ours, arrives as this one."""
    before = _stated.set(problem)
    try:
        yield
    finally:
        _stated.reset(before)


def _by_id(problem_id: str) -> Problem:
    stated = _stated.get()
    found = stated if stated is not None and stated.id == problem_id else problems().get(problem_id)
    if found is None:
        raise ValueError(f"there is no problem '{problem_id}'")
    return found


ProblemById: TypeAlias = Annotated[Problem, SentByName(lambda problem: problem.id, _by_id)]
"""A built-in problem that travels between processes of ours as its id."""
