"""From a file of someone else to a `Problem` that the pipeline takes."""

import hashlib
import importlib.metadata
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from common.wire import Json
from evaluator.disk_cache import Cache, key_of
from evaluator.foreign.calibration import MARGIN, Calibration, Calibrator, absolute_of, in_roundings
from evaluator.foreign.contents import distributions_of
from evaluator.foreign.description import Description, TensorFacts
from evaluator.foreign.reference import ReferenceProcess, ReferenceRefusedError
from evaluator.problems.arrays import Array, NumpyRng
from evaluator.problems.linter import degeneracies, ignored_inputs
from evaluator.problems.problem import Arrays, Expected, Problem, SizeRange, Sizes, Tensor, Tolerance, Work
from evaluator.sandbox.sandbox import Sandbox

_RULES: Final = "kernelbench 1"
"""By which files are described and calibrated: part of a problem's version and of the key of what is cached."""
_SEED: Final = 20_000
"""Of the inputs that a problem is calibrated and linted with; those of an evaluation are secret."""
_LOOKS: Final = 3
"""At typical inputs: whether a lower precision is told must not hang on one draw."""
_WIDER: Final = 3.0
"""How far beyond a published range that begins at 0: beyond 1, where functions that clamp begin to."""
_HASH_CHARACTERS: Final = 10
_STEM_CHARACTERS: Final = 40
_NOT_FINITE: Final = "the answer is not finite, or does not fit in its type, for inputs as the file draws them"


@dataclass(frozen=True)
class _Known:
    """What is kept of a file whose text has been seen before."""

    description: Description
    calibration: Calibration
    left_out: tuple[str, ...]
    """Names of distributions for which the answer is not finite, or honest kernels are off by far more."""
    warnings: tuple[str, ...]


_known: Final = Json(_Known)


@contextmanager
def foreign_problem(text: bytes, name: str, sandbox: Sandbox, cache: Cache) -> Iterator[Problem]:
    """The problem that a KernelBench file states. Its oracle works as long as the context lasts.

    `name`: the file's, for messages and the problem's id. Raises ReferenceRefusedError, InfrastructureError.
    """
    process = ReferenceProcess(sandbox, text, name)
    process.start()  # what imports PyTorch meanwhile is needed in any case
    try:
        key = key_of("foreign problem", _RULES, importlib.metadata.version("torch"), _own_digest(), text)
        entry, _ = cache.get_or_make(key, lambda: {"known": _known.dump(_learn(process, text, name))})
        known = _known.load(entry["known"])
        yield _problem(process, text, name, known)
    finally:
        process.close()


def _own_digest() -> str:
    """Of the code that describes and calibrates: what another version of it said is not believed."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _learn(process: ReferenceProcess, text: bytes, name: str) -> _Known:
    """Describe, calibrate and lint a file. Raises ReferenceRefusedError.

    One whose answer says nothing for the values that it draws from 0 up is tried with values of both signs.
    """
    described = process.describe()
    try:
        return _calibrated(process, text, name, described)
    except _DegenerateError as as_published:
        wider = _of_both_signs(described)
        if wider is None:
            raise
        try:
            known = _calibrated(process, text, name, wider)
        except ReferenceRefusedError:
            raise as_published from None
        moved = [
            f"'{facts.name}' from {facts.draw.low:g} to {facts.draw.high:g}"
            for facts, before in zip(wider.inputs, described.inputs, strict=True)
            if facts != before
        ]
        return replace(
            known, warnings=(f"as published, {as_published.fault}: so it draws {', '.join(moved)}", *known.warnings)
        )


def _of_both_signs(described: Description) -> Description | None:
    """The same with uniform arguments from 0 up drawn from both sides of it; None where there are none."""

    def moved(facts: TensorFacts) -> TensorFacts:
        draw = facts.draw
        if facts.kind != "argument" or draw.kind != "uniform" or draw.low != 0.0:
            return facts
        return replace(facts, draw=replace(draw, low=-_WIDER * draw.high, high=_WIDER * draw.high))

    inputs = tuple(moved(facts) for facts in described.inputs)
    return None if inputs == described.inputs else replace(described, inputs=inputs)


class _DegenerateError(ReferenceRefusedError):
    """The answer says nothing about a kernel."""

    def __init__(self, name: str, fault: str) -> None:
        super().__init__(f"{name} is no problem that a verdict could say anything about: {fault}.")
        self.fault = fault


def _calibrated(process: ReferenceProcess, text: bytes, name: str, described: Description) -> _Known:
    """Calibrate and lint a file that is described. Raises ReferenceRefusedError."""
    calibrator = Calibrator(described, process.computed)
    left_out: list[str] = []
    distributions = distributions_of(described.inputs, process.drawn)
    typical = distributions[0]
    for turn, distribution in enumerate((*(typical,) * _LOOKS, *distributions[1:])):
        inputs = distribution.draw(NumpyRng(np.random.default_rng(_SEED + turn)), described.sizes)
        exact = _checked(process, described, process.answered(inputs))
        finite = _finite(described, exact)
        if distribution is typical and not finite:
            raise ReferenceRefusedError(f"{name}: {_NOT_FINITE}.")
        if distribution is typical:
            calibrator.measure(inputs, exact)
        elif not finite or not calibrator.admits(inputs, exact):
            left_out.append(distribution.name)
    calibration = calibrator.calibration()
    for facts, one in zip(described.outputs, calibration.outputs, strict=True):
        if math.isinf(one.honest):
            raise ReferenceRefusedError(
                f"{name}: float32 gives another '{facts.name}' with its sums in another order, or none that is "
                "finite: no tolerance tells right from wrong."
            )
    known = _Known(described, calibration, tuple(left_out), ())
    problem = _problem(process, text, name, known)
    faults = degeneracies(problem, _SEED)
    ignored = ignored_inputs(problem, _SEED)
    arguments = {facts.name for facts in described.inputs if facts.kind == "argument"}
    faults += tuple(f"no output depends on the input '{one}'" for one in ignored if one in arguments)
    if faults:
        raise _DegenerateError(name, faults[0])
    warnings = tuple(f"no output depends on the parameter '{one}'" for one in ignored if one not in arguments)
    return replace(known, warnings=(*warnings, *_untold(calibration)))


def _untold(calibration: Calibration) -> Iterator[str]:
    for precision in calibration.untold:
        yield (
            f"this problem cannot tell {precision} from its own precision: with operands and results rounded to it "
            f"the answer is off by {calibration.told[precision]:.2g} times what is allowed"
        )


def _checked(
    process: ReferenceProcess, described: Description, answer: Mapping[str, NDArray[Any]]
) -> Mapping[str, NDArray[Any]]:
    """`answer` in the shapes that were described. Raises ReferenceRefusedError where it has others."""
    found: dict[str, NDArray[Any]] = {}
    for at, facts in enumerate(described.outputs):
        for part in ("value", "scale"):
            array = answer.get(f"{part}_{at}")
            if array is None or array.size != math.prod(facts.shape):
                raise ReferenceRefusedError(f"{process.name}: its process gives an answer of another shape.")
            found[f"{part}_{at}"] = array.reshape(facts.shape)
    return found


def _finite(described: Description, answer: Mapping[str, NDArray[Any]]) -> bool:
    for at, facts in enumerate(described.outputs):
        most = float(np.finfo(facts.dtype.value).max) if facts.dtype.is_float else math.inf
        for part in ("value", "scale"):
            if not bool((np.abs(answer[f"{part}_{at}"]) <= most).all()):
                return False
    return True


def _problem(process: ReferenceProcess, text: bytes, name: str, known: _Known) -> Problem:
    described, calibration = known.description, known.calibration
    digest = hashlib.sha256(text).hexdigest()
    base = max(one.relative for one in calibration.outputs)
    inputs, outputs = _tensors(described.inputs), _tensors(described.outputs)
    sizes = dict(described.sizes)
    moved = sum(facts.size_bytes for facts in described.inputs), sum(f.size_bytes for f in described.outputs)

    def oracle(given: Arrays, at: Sizes) -> dict[str, Expected]:
        answer = _checked(process, described, process.answered(given))
        return {
            facts.name: Expected(
                _as_compared(answer[f"value_{number}"], facts),
                answer[f"scale_{number}"],
                longer=one.relative / base if base else 1.0,
            )
            for number, (facts, one) in enumerate(zip(described.outputs, calibration.outputs, strict=True))
        }

    stem = re.sub(r"\W+", "_", Path(name).stem, flags=re.ASCII).strip("_").lower()[:_STEM_CHARACTERS]
    distributions = distributions_of(described.inputs, process.drawn)
    return Problem(
        id=f"kernelbench_{stem}_{digest[:_HASH_CHARACTERS]}",
        version=f"{_RULES.split()[1]}-{digest[:32]}",
        tier=1,
        title=f"Model.forward of {name}",
        statement=_statement(name, described),
        inputs=inputs,
        outputs=outputs,
        sizes=tuple(sizes),
        example_sizes=(sizes,),
        hidden_sizes=lambda generator: (sizes,),
        serves=SizeRange(sizes, least=sizes),
        edge_sizes=lambda generator: (),
        distributions=tuple(one for one in distributions if one.name not in known.left_out),
        probes=(),
        tolerance=Tolerance(base, max(map(absolute_of, described.outputs)), _reason(described, calibration)),
        oracle=oracle,
        work=lambda at: Work(*moved, described.flops),
        naive=None,
        fast=None,
        timing_sizes=sizes,
        baseline=f"Model(*get_init_inputs()) of {name} in eager PyTorch",
        caveats=known.warnings,
    )


def _tensors(listed: Sequence[TensorFacts]) -> tuple[Tensor, ...]:
    return tuple(Tensor(facts.name, tuple(map(str, facts.shape)), facts.dtype) for facts in listed)


def _as_compared(values: NDArray[Any], facts: TensorFacts) -> Array:
    return values.astype(np.float64 if facts.dtype.is_float else np.int64)


def _statement(name: str, described: Description) -> str:
    kinds = {
        kind: ", ".join(facts.name for facts in described.inputs if facts.kind == kind)
        for kind in ("argument", "parameter", "buffer")
    }
    told = [f"{kind}s {names}" for kind, names in kinds.items() if names]
    outputs = ", ".join(f"{facts.name} {list(facts.shape)}" for facts in described.outputs)
    return f"What Model.forward of {name} returns ({outputs}), of {'; '.join(told)}; at the file's own shapes."


def _reason(described: Description, calibration: Calibration) -> str:
    said = []
    for facts, one in zip(described.outputs, calibration.outputs, strict=True):
        if one.relative == 0.0:
            said.append(f"'{facts.name}' is whole numbers, which are exact")
            continue
        why = (
            f"{MARGIN:g} times what PyTorch's float32 was off at most"
            if one.relative > one.derived
            else f"sums of {described.longest_sum} terms in any order; PyTorch's float32 was off by "
            f"{in_roundings(one.honest)} at most"
        )
        said.append(f"'{facts.name}': {in_roundings(one.relative)} roundings of float32 of the scale, {why}")
    lower = ", ".join(f"{name} {times:.3g}" for name, times in calibration.told.items())
    told = f" Lower precisions are off by so many times of it: {lower}." if lower else ""
    return (
        "The scale is how far an element moves when every operand and result moves by one rounding of float32. "
        f"{'; '.join(said)}.{told}"
    )
