"""Refuses problems that a wrong kernel could pass: degenerate answers, idle inputs, tolerances that are too wide.

The rules were written after graders in the field that called a softmax of zeros, a relu that returned its input and a
float16 matrix product correct.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from common.expressions import ExpressionError, names_in
from common.wire import DType
from evaluator.problems.arrays import Array, NumpyRng, largest, numpy_dtype, to_numpy
from evaluator.problems.problem import Arrays, Distribution, Expected, Problem, Sizes, Tensor, Tolerance

_REDRAWS = 4
_SAMPLED = 16
_SAME = Tolerance(2.0**-36, 0.0, "float64, added in another order")

# Fraction bits that the next lower precision keeps: TF32 and float16 have 10, bfloat16 has 7.
_LOWER_BITS: Mapping[DType, int] = {DType.FLOAT64: 23, DType.FLOAT32: 10, DType.FLOAT16: 7, DType.BFLOAT16: 4}


_LEAST_ELEMENTS: Final = 32
"""Fewer may well be equal: whether they change with the inputs is what the linter looks at."""
_LOOKED_AT: Final = 4096
"""Elements that are looked at: shares of a hundredth are met 41 times, in a tenth of a millisecond."""
HARDLY: Final = 0.01
"""An answer of which fewer elements differ hardly tells: of a tile of 16 by 16 that is wrong two or three show it."""


def lint(problem: Problem, seed: int = 0) -> tuple[str, ...]:
    """What is wrong with `problem`, one sentence each; empty when it can be graded.

    Draws inputs and calls the oracle at the first example sizes, the hidden sizes and the probes. A fault in the
    problem's own functions is a finding, never an exception.
    """
    found = tuple(_declarations(problem))
    if found:
        return found  # nothing can be drawn from declarations that contradict each other
    try:
        found = tuple(dict.fromkeys(_consistency(problem, seed)))
        further = (_degenerate, _precision, _sampling)
        return found or tuple(dict.fromkeys(finding for rule in further for finding in rule(problem, seed)))
    except Exception as error:  # foreign problems bring their own code
        return (f"drawing inputs or computing the answer failed: {type(error).__name__}: {error}",)


def within(actual: Array, expected: Expected, tolerance: Tolerance) -> bool:
    """Whether every element of `actual` is as close to the expected value as the tolerance asks."""
    error = np.abs(np.asarray(actual, np.float64) - expected.value)
    return bool(np.all(error <= tolerance.allowed(expected)))


def telling_share(expected: Expected, tolerance: Tolerance) -> float | None:
    """The share of the elements that one number for all would get wrong; None of fewer than 32 elements.

    Of more than half that are equal the median is one, so it stands for the most frequent number, roundings and
    all. At most 4,096 elements are looked at, always at the same places: no secret is drawn for them.
    """
    size = int(np.prod(tuple(expected.value.shape), dtype=np.int64))
    if size < _LEAST_ELEMENTS:
        return None
    if size > _LOOKED_AT:
        expected = expected.at(np.random.default_rng(0).integers(0, size, _LOOKED_AT))
    value = to_numpy(expected.value).reshape(-1)
    with np.errstate(all="ignore"):
        allowed = tolerance.allowed(expected)
        allowed = allowed if isinstance(allowed, float | int) else to_numpy(allowed)
        allowed = np.broadcast_to(allowed, tuple(expected.value.shape)).reshape(-1)
        middle = np.partition(value, value.size // 2)[value.size // 2]
        return float(np.mean(~(np.abs(value - middle) <= allowed)))


def keep_bits(values: Array, bits: int) -> Array:
    """`values` rounded to nearest with `bits` fraction bits and an unlimited exponent, in float64."""
    mantissa, exponent = np.frexp(np.asarray(values, np.float64))
    rounded: Array = np.ldexp(np.rint(np.ldexp(mantissa, bits + 1)), exponent - bits - 1)
    return rounded


def _declarations(problem: Problem) -> Iterator[str]:
    names = problem.parameter_names
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"the name '{name}' stands for more than one tensor, scalar or size"
    for name in names:
        if not name.isidentifier() or not name.isascii():
            yield f"'{name}' cannot be the name of a kernel parameter"
    if not problem.inputs or not problem.outputs or not problem.example_sizes or not problem.distributions:
        yield "a problem needs at least one input, one output, one set of example sizes and one distribution"
    used: set[str] = set()
    for tensor in (*problem.inputs, *problem.outputs):
        for extent in tensor.shape:
            try:
                used.update(names_in(extent))
            except ExpressionError as error:
                yield f"the extent '{extent}' of '{tensor.name}' is not an expression: {error.reason}"
    for name in sorted(used - set(problem.sizes)):
        yield f"a shape uses the size '{name}', which the problem does not declare"
    for name in problem.sizes:
        if name not in used:
            yield f"the size '{name}' does not appear in any shape"
    yield from _trial_names_clash(problem)
    if set(problem.serves.most) != set(problem.sizes):
        yield f"the range that a kernel must serve does not name exactly {', '.join(problem.sizes)}"
        return
    published = (*problem.example_sizes, problem.timing_sizes, *(probe.sizes for probe in problem.probes))
    yield from _sizes_match(problem, published)


def _trial_names_clash(problem: Problem) -> Iterator[str]:
    """A trial is reported by its distribution's name and its sizes; one distribution may serve as a probe too."""
    seen: dict[tuple[str, str], Distribution] = {}
    trials = [(distribution, "") for distribution in problem.distributions]
    for distribution, sizes in [*trials, *((probe.distribution, str(dict(probe.sizes))) for probe in problem.probes)]:
        published = seen.get((distribution.name, ""), distribution)
        if seen.setdefault((distribution.name, sizes), distribution) != distribution or published != distribution:
            yield f"different distributions or probes are called '{distribution.name}'"


def _sizes_match(problem: Problem, sets: tuple[Sizes, ...]) -> Iterator[str]:
    for sizes in sets:
        if set(sizes) != set(problem.sizes):
            yield f"the sizes {dict(sizes)} do not name exactly {', '.join(problem.sizes)}"
        elif any(value < 1 for value in sizes.values()):
            yield f"the sizes {dict(sizes)} are not all at least 1"
        elif not problem.serves.admits(sizes):
            yield f"the sizes {dict(sizes)} are outside what a kernel must serve: {problem.serves.text}"


def _edges(problem: Problem, generator: np.random.Generator) -> Iterator[str]:
    """A kernel that is right at the published sizes alone must meet one that it does not expect, in each name."""
    edges = problem.edge_sizes(generator)
    mismatched = tuple(_sizes_match(problem, edges))
    if mismatched:
        yield from mismatched
        return
    for name in problem.sizes:
        published = max(sizes[name] for sizes in (*problem.example_sizes, problem.timing_sizes))
        if published < problem.serves.most[name] and max(sizes[name] for sizes in edges) <= published:
            yield f"no edge size has '{name}' above the published ones, of which the largest is {published}"


@dataclass(frozen=True)
class _Draw:
    inputs: dict[str, Array]
    expected: dict[str, Expected]


def _draw(problem: Problem, distribution: Distribution, sizes: Sizes, seed: int) -> _Draw:
    inputs = distribution.draw(NumpyRng(np.random.default_rng(seed)), sizes)
    return _Draw(inputs, _answer(problem, inputs, sizes))


def _answer(problem: Problem, inputs: Arrays, sizes: Sizes) -> dict[str, Expected]:
    with np.errstate(all="ignore"):
        return dict(problem.oracle(inputs, sizes))


def _consistency(problem: Problem, seed: int) -> Iterator[str]:
    hidden = problem.hidden_sizes(np.random.default_rng(seed))
    mismatched = tuple(_sizes_match(problem, hidden))
    if mismatched:
        yield from mismatched
        return
    yield from _edges(problem, np.random.default_rng(seed))
    if not any(1 in sizes.values() for sizes in hidden):
        yield "no hidden size is 1"
    typical = problem.distributions[0]
    trials = [(typical, sizes) for sizes in (*problem.example_sizes, *hidden)]
    trials += [(d, hidden[at % len(hidden)]) for at, d in enumerate(problem.distributions)]
    trials += [(d, hidden[-1]) for d in problem.distributions]
    trials += [(probe.distribution, probe.sizes) for probe in problem.probes]
    for distribution, sizes in trials:
        yield from _drawn_well(problem, distribution, sizes, seed)


def _drawn_well(problem: Problem, distribution: Distribution, sizes: Sizes, seed: int) -> Iterator[str]:
    where = f"with '{distribution.name}' at {dict(sizes)}"
    inputs = distribution.draw(NumpyRng(np.random.default_rng(seed)), sizes)
    if set(inputs) != {tensor.name for tensor in problem.inputs}:
        yield f"{where} the inputs drawn are {', '.join(sorted(inputs))}, not the declared ones"
        return
    for tensor in problem.inputs:
        yield from _input_fits(tensor, inputs[tensor.name], sizes, where, distribution.squares_fit)
    for array in inputs.values():
        array.setflags(write=False)
    expected = _answer(problem, inputs, sizes)
    if set(expected) != {tensor.name for tensor in problem.outputs}:
        yield f"{where} the oracle gives {', '.join(sorted(expected))}, not the declared outputs"
        return
    for tensor in problem.outputs:
        yield from _output_fits(tensor, expected[tensor.name], sizes, where)


def _input_fits(tensor: Tensor, array: Array, sizes: Sizes, where: str, squares_fit: bool) -> Iterator[str]:
    if array.shape != tensor.shape_at(sizes):
        yield f"{where} the input '{tensor.name}' has shape {array.shape}, declared is {tensor.shape_at(sizes)}"
    if array.dtype != numpy_dtype(tensor.dtype):
        yield f"{where} the input '{tensor.name}' is {array.dtype}, declared is {tensor.dtype}"
    if not array.flags.c_contiguous:
        yield f"{where} the input '{tensor.name}' is not contiguous"
    if tensor.dtype.is_float:
        # Products of float16 are accumulated in float32, so that is where squares must fit.
        with np.errstate(over="ignore"):
            told = np.square(array, dtype=np.promote_types(array.dtype, np.float32)) if squares_fit else array
            if not np.isfinite(told).all():
                yield f"{where} the input '{tensor.name}' has values that are not finite or whose squares overflow"


def _output_fits(tensor: Tensor, expected: Expected, sizes: Sizes, where: str) -> Iterator[str]:
    shape = tensor.shape_at(sizes)
    if expected.value.shape != shape:
        yield f"{where} the oracle gives '{tensor.name}' shape {expected.value.shape}, declared is {shape}"
        return
    wanted = np.float64 if tensor.dtype.is_float else np.int64
    if expected.value.dtype != wanted:
        yield f"{where} the oracle gives '{tensor.name}' as {expected.value.dtype} instead of {np.dtype(wanted)}"
    try:
        scale = np.broadcast_to(expected.scale, shape)
    except ValueError:
        yield f"{where} the scale of '{tensor.name}' has shape {expected.scale.shape}, which does not fit {shape}"
        return
    if not np.isfinite(expected.value).all():
        yield f"{where} the oracle's '{tensor.name}' is not finite everywhere"
    elif tensor.dtype.is_float and np.abs(expected.value).max() > largest(tensor.dtype):
        yield f"{where} the oracle's '{tensor.name}' does not fit in {tensor.dtype}"
    if not (np.isfinite(scale).all() and (scale >= 0).all()):
        yield f"{where} the scale of '{tensor.name}' is negative or not finite"


def _degenerate(problem: Problem, seed: int) -> Iterator[str]:
    faults, ignored = degeneracies(problem, seed)
    yield from faults
    yield from (f"no output depends on the input '{name}'" for name in ignored)


def degeneracies(problem: Problem, seed: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Guesses that need no kernel and pass on the typical distribution, all outputs taken together; and the inputs
    whose contents may be others there without any output telling it.
    """
    typical, sizes = problem.distributions[0], problem.example_sizes[0]
    draw, *others = (_draw(problem, typical, sizes, seed + more) for more in range(1 + _REDRAWS))
    return tuple(_passing_guesses(problem, draw, others)), _ignored_inputs(problem, draw, others)


def _passing_guesses(problem: Problem, draw: _Draw, others: Sequence[_Draw]) -> Iterator[str]:
    draws = (draw, *others)

    def passes(guess: Callable[[_Draw, Sequence[_Draw], Tensor], Array]) -> bool:
        def is_right(at: int) -> bool:
            one, *rest = (*draws[at:], *draws[:at])
            return all(within(guess(one, rest, t), one.expected[t.name], problem.tolerance) for t in problem.outputs)

        return _are_most(map(is_right, range(len(draws))))

    def mean_of(rest: Sequence[_Draw], name: str) -> Array:
        mean: Array = np.mean([other.expected[name].value for other in rest], axis=0)
        return mean

    if passes(lambda one, rest, tensor: np.zeros_like(one.expected[tensor.name].value)):
        yield "zeros would pass, since the answer is within the tolerance of zero"
    elif passes(lambda one, rest, tensor: rest[0].expected[tensor.name].value):
        yield "the right answer to other inputs would pass, since the answer hardly changes with the inputs"
    elif passes(lambda one, rest, tensor: mean_of(rest, tensor.name)):
        yield ("the mean of the right answers to other inputs would pass, since the answer hardly changes with them")
    if all(draw.expected[tensor.name].value.size > 1 for tensor in problem.outputs):
        if passes(lambda one, rest, tensor: _mean(one.expected[tensor.name].value)):
            yield "one number would pass for every element, since the elements of the answer are nearly the same"
        elif all(draw.expected[tensor.name].value.shape[-1] > 1 for tensor in problem.outputs) and passes(
            lambda one, rest, tensor: _mean(one.expected[tensor.name].value, axis=-1)
        ):
            yield ("one number for each row would pass, since the answer is nearly the same along the last axis")
    for output, name in product((tensor.name for tensor in problem.outputs), draw.inputs):
        if _are_most(_copies(one.inputs[name], one.expected[output], problem.tolerance) for one in draws):
            yield f"the output '{output}' equals the input '{name}' on the typical distribution"


def _are_most(draws: Iterable[bool]) -> bool:
    """Whether a guess is right on most draws: on one, one of a single number may be by chance."""
    told = list(draws)
    return 2 * sum(told) > len(told)


def _mean(values: Array, axis: int | None = None) -> Array:
    mean: Array = np.broadcast_to(values.mean(axis=axis, keepdims=True), values.shape)
    return mean


def _copies(values: Array, expected: Expected, tolerance: Tolerance) -> bool:
    same_count = values.size == expected.value.size
    return same_count and within(values.reshape(expected.value.shape), expected, tolerance)


def _ignored_inputs(problem: Problem, draw: _Draw, others: Sequence[_Draw]) -> tuple[str, ...]:
    sizes = problem.example_sizes[0]

    def tells(name: str, values: Array) -> bool:
        answer = _answer(problem, draw.inputs | {name: values}, sizes)
        return not all(
            within(answer[t.name].value, draw.expected[t.name], problem.tolerance) for t in problem.outputs
        )

    def ignored(name: str) -> bool:
        drawn = [other.inputs[name] for other in others]
        # Several: a mean of signs, for example, may be the same by chance.
        if not all(np.array_equal(values, draw.inputs[name]) for values in drawn):
            return not any(tells(name, values) for values in drawn)
        # A problem of someone else may make the same each time: a mask, a table.
        return not any(tells(name, values) for values in _rearranged(draw.inputs[name]))

    return tuple(tensor.name for tensor in problem.inputs if ignored(tensor.name))


def _rearranged(values: Array) -> Iterator[Array]:
    """The same values at other places, which are indices or a mask as before; of one value everywhere, another."""
    flat = values.reshape(-1)
    yield flat[::-1].reshape(values.shape)
    yield np.roll(flat, 1).reshape(values.shape)
    if np.issubdtype(values.dtype, np.floating):
        yield values * values.dtype.type(1.5) + values.dtype.type(0.5)
    elif np.isin(values, (0, 1)).all():
        yield 1 - values


def _sampling(problem: Problem, seed: int) -> Iterator[str]:
    """The oracle that is asked for some elements must say what it says of all."""
    generator = np.random.default_rng(seed)
    for sizes in problem.hidden_sizes(generator):
        inputs = problem.distributions[0].draw(NumpyRng(generator), sizes)
        whole = _answer(problem, inputs, sizes)
        some = {name: generator.integers(0, expected.value.size, _SAMPLED) for name, expected in whole.items()}
        try:
            with np.errstate(all="ignore"):
                sampled = problem.oracle_at(inputs, sizes, some)
        except Exception as error:  # a foreign problem's own code, beside findings that need none of it
            yield f"the oracle fails where it is asked for some elements: {type(error).__name__}: {error}"
            return
        for name, expected in whole.items():
            here = expected.at(some[name])
            if not within(sampled[name].value, here, _SAME) or not within(
                sampled[name].scale, Expected(here.scale, here.scale), _SAME
            ):
                yield f"the oracle that is asked for some elements of '{name}' says otherwise than of all of them"
                return


def _precision(problem: Problem, seed: int) -> Iterator[str]:
    """The answer, rounded to the next lower precision, must fail a probe or the typical input."""
    trials = [(problem.distributions[0], problem.example_sizes[0], problem.tolerance)]
    trials += [(probe.distribution, probe.sizes, probe.tolerance) for probe in problem.probes]
    draws = [(_draw(problem, distribution, sizes, seed), tolerance) for distribution, sizes, tolerance in trials]
    for output in problem.outputs:
        bits = _LOWER_BITS.get(output.dtype)
        if bits is None:
            continue
        if all(
            within(keep_bits(draw.expected[output.name].value, bits), draw.expected[output.name], tolerance)
            for draw, tolerance in draws
        ):
            yield (
                f"'{output.name}' rounded to {bits} fraction bits passes the typical input and every probe: the "
                "tolerance is too wide to tell a lower precision, or the answers are too round"
            )
