"""What is learned of a file of someone else, and the `Problem` that is made of it."""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, get_args

import numpy as np
from numpy.typing import NDArray

from common.contract import OtherSizes, form_of
from common.wire import BYTES_AS_BASE64, Json
from evaluator.foreign.answers import NOT_FINITE, ReferenceAnswers, is_finite
from evaluator.foreign.calibration import (
    Calibration,
    Calibrator,
    absolute_of,
    caveats_of_contents,
    reason_of,
)
from evaluator.foreign.contents import (
    caveats_of_changed,
    distributions_of,
    in_described_shapes,
    where_answered,
)
from evaluator.foreign.description import Description, TensorFacts
from evaluator.foreign.redrawn import Redrawn, Telling, Wider, drawn_otherwise, scaled, wider_distribution
from evaluator.foreign.reference import (
    EXPRESSION,
    MOST_WORK,
    NO_MOST_WORK,
    ReferenceEndedError,
    ReferenceProcess,
    ReferenceRefusedError,
    ReferenceTooLargeError,
)
from evaluator.foreign.sizes import (
    VariedSizes,
    afforded,
    constants_of,
    drawn_sizes,
    follows,
    learned_sizes,
    shapes_as_stated,
)
from evaluator.foreign.torch_text import expression_of
from evaluator.problems.arrays import Array, NumpyRng
from evaluator.problems.linter import degeneracies
from evaluator.problems.problem import (
    Arrays,
    Distribution,
    Expected,
    Problem,
    SizeRange,
    Sizes,
    Tensor,
    Tolerance,
    Work,
    sizes_in_words,
)

RULES: Final = "kernelbench 8"
"""By which files are described and calibrated: part of a problem's version and of the key of what is cached."""
_SEED: Final = 20_000
"""Of the inputs that a problem is calibrated and linted with; those of an evaluation are secret."""
_LOOKS: Final = 3
"""At typical inputs: whether a lower precision is told must not hang on one draw."""
_SOON: Final = 1 << 30
"""Operations that a core computes in a second, which twenty sizes may take while those are looked for that can be
judged. Only of what cannot be made smaller are more carried out."""
_LARGER: Final = (8.0, 64.0)
"""How many times as large inputs are that may make a problem of a file whose answer says nothing."""
_FORWARD: Final = "Model.forward"
_CALLED: Final = {"leetgpu": "reference_impl", "tensara": "reference_solution", "trace": "run"}
"""What gives the answer in a file of another form."""


@dataclass(frozen=True)
class Known:
    """What is kept of a file whose text has been seen before."""

    description: Description
    """At the sizes that the file states or, where those are too much for here, at smaller ones."""
    calibration: Calibration
    left_out: tuple[str, ...]
    """Names of distributions for which the answer is not finite, or honest kernels are off by far more."""
    warnings: tuple[str, ...]
    varied: VariedSizes
    redrawn: Redrawn = "as stated"
    """Which of the file's inputs are drawn otherwise than it does."""
    wider: Wider | None = None
    """In which range inputs are drawn beside the file's own, where the answer hardly tells there."""
    too_large: str = ""
    """What the file states itself, in words, where the description is at smaller sizes."""


class File:
    """A file in its process, described at whatever sizes are asked for, each once."""

    def __init__(self, process: ReferenceProcess, text: bytes, problem_id: str) -> None:
        self.process, self.text, self.name, self.problem_id = process, text, process.name, problem_id
        self.redrawn: Redrawn = "as stated"
        self.most_work = NO_MOST_WORK
        """Operations above which it is not described."""
        self._seen: dict[tuple[tuple[str, int], ...], Description] = {}

    def described(self, sizes: Sizes) -> Description:
        """With these values of its constants; those that are left out have the file's. Raises as the process."""
        key = tuple(sorted(sizes.items()))
        if key not in self._seen:
            self._seen[key] = self.process.describe(dict(sizes), self.most_work)
        return drawn_otherwise(self._seen[key], self.redrawn)

    def remember(self, found: Description) -> None:
        """What was described before."""
        self._seen[tuple(sorted(constants_of(found, found.sizes).items()))] = found


def learn(file: File) -> Known:
    """Describe, calibrate and lint a file. Raises ReferenceRefusedError.

    One whose answer says nothing for the values that it draws from 0 up is tried with values of both signs, and one
    that makes inputs the same under every seed with others.
    """
    try:
        return _learned(file)
    finally:
        file.most_work = NO_MOST_WORK


def _learned(file: File) -> Known:
    described = _afforded(file)
    try:
        known = _calibrated(file, described)
    except ReferenceRefusedError as as_published:
        if not isinstance(as_published, _DegenerateError):
            as_published.at = "calibrating"
            raise
        known = _repaired(file, described, as_published)
    varied = learned_sizes(described, file.described)
    assumed = _assumed(described)
    return replace(known, varied=varied, too_large=_too_large(described, file), warnings=(*assumed, *known.warnings))


def _afforded(file: File) -> Description:
    """At sizes that can be judged here. Raises ReferenceRefusedError."""
    try:
        file.most_work = _SOON
        return afforded(file.described)
    except ReferenceTooLargeError:
        file.most_work = MOST_WORK
        return afforded(file.described)


def _repaired(file: File, described: Description, as_published: "_DegenerateError") -> Known:
    """The file with inputs drawn otherwise, where its answer then says something. Raises ReferenceRefusedError."""
    tried = described
    for redrawn in get_args(Redrawn)[1:]:
        other = drawn_otherwise(described, redrawn)
        if other == tried:
            continue
        tried, file.redrawn = other, redrawn
        try:
            known = _calibrated(file, other)
        except ReferenceRefusedError:
            continue
        pairs = zip(other.inputs, described.inputs, strict=True)
        moved = ", ".join(facts.drawn_in_words for facts, before in pairs if facts != before)
        fault = f"as published, {as_published.fault}: so it draws {moved}"
        return replace(known, warnings=(fault, *known.warnings), description=described, redrawn=redrawn)
    file.redrawn = "as stated" if tried == described else file.redrawn
    raise _DegenerateError(file.name, as_published.fault, _repair(file, tried)) from None


def _assumed(described: Description) -> Iterator[str]:
    if described.assumed:
        extents = sizes_in_words(described.assumed)
        yield f"no workload gives its extents and contents: it stands at {extents}, and is random"


def _too_large(described: Description, file: File) -> str:
    """The file's own constants, where it is described at smaller ones."""
    try:
        published = file.described({}).sizes
    except ReferenceTooLargeError as refused:
        own: Sizes = {name: value for name, value in refused.constants.items() if name in described.sizes}
    else:
        own = {} if published == described.sizes else published
    return sizes_in_words(own) if own else ""


def _repair(file: File, described: Description) -> str:
    """What makes a problem of a file whose answer says nothing, tried, in words; empty where nothing simple does."""
    for times in _LARGER:
        larger = replace(described, inputs=tuple(scaled(facts, times) for facts in described.inputs))
        changed = [facts for facts in larger.inputs if facts not in described.inputs]
        if not changed:
            break
        try:
            _calibrated(file, larger)
        except ReferenceRefusedError:
            continue
        drawn = ", ".join(one.drawn_in_words for one in changed)
        return f" It would be one with larger inputs: let get_inputs draw {drawn}."
    return ""


class _DegenerateError(ReferenceRefusedError):
    """The answer says nothing about a kernel."""

    def __init__(self, name: str, fault: str, repair: str = "") -> None:
        """`repair`: a sentence with a blank in front of it."""
        super().__init__(f"{name} is no problem that a verdict could say anything about: {fault}.{repair}")
        self.fault = fault
        self.at = "judging"


def _calibrated(file: File, described: Description) -> Known:
    """Calibrate and lint a file that is described. Raises ReferenceRefusedError."""
    process, name, sizes = file.process, file.name, described.sizes
    known = Known(described, Calibration((), {}), (), (), VariedSizes({}, shapes_as_stated(described)))
    file.remember(described)
    constants = constants_of(described, sizes)
    calibrator = Calibrator(described, lambda inputs, how: process.computed(inputs, how, constants))
    distributions = _distributions(file, described)

    def tried(turn: int, distribution: Distribution) -> tuple[Arrays, Mapping[str, NDArray[Any]], bool]:
        inputs = distribution.draw(NumpyRng(np.random.default_rng(_SEED + turn)), sizes)
        exact = in_described_shapes(process.name, described, process.answered(inputs, constants))
        return inputs, exact, is_finite(described, exact)

    def admitted(turn: int, distribution: Distribution) -> Mapping[str, NDArray[Any]] | None:
        """The answer; None where it is not finite, or honest ways are off by far more than typically."""
        try:
            inputs, exact, finite = tried(turn, distribution)
            return exact if finite and calibrator.admits(inputs, exact) else None
        except ReferenceEndedError:
            raise
        except ReferenceRefusedError:  # such as a matrix that has no inverse, where its rows are alike
            return None

    for turn in range(_LOOKS):
        inputs, exact, finite = tried(turn, distributions[0])
        if not finite:
            raise ReferenceRefusedError(f"{name}: {NOT_FINITE}.")
        calibrator.measure(inputs, exact)
    calibration = calibrator.calibration()
    for facts, one in zip(described.outputs, calibration.outputs, strict=True):
        if math.isinf(one.honest):
            raise ReferenceRefusedError(
                f"{name}: {facts.dtype} gives another '{facts.name}' with its sums in another order, or none that is "
                "finite: no tolerance tells right from wrong."
            )
    known = replace(known, calibration=calibration)
    faults, ignored = degeneracies(_that_may_fail(stated_problem(file, known, "reported")), _SEED)
    arguments = {facts.name for facts in described.inputs if facts.kind == "argument"}
    faults += tuple(f"no output depends on the input '{one}'" for one in ignored if one in arguments)
    if faults:
        raise _DegenerateError(name, faults[0])
    telling = Telling(described, calibration)
    telling.saw(exact)
    left_out: list[str] = []
    for turn, distribution in enumerate(distributions[1:], _LOOKS):
        answer = admitted(turn, distribution)
        if answer is None:
            left_out.append(distribution.name)
        else:
            telling.saw(answer)
    wider = telling.wider(lambda way: admitted(_LOOKS + len(distributions), _distributions(file, described, way)[-1]))
    warnings = tuple(f"no output depends on the parameter '{one}'" for one in ignored if one not in arguments)
    return replace(
        known,
        left_out=tuple(left_out),
        warnings=(*warnings, *telling.caveats, *caveats_of_contents(described, calibration)),
        wider=wider,
    )


def _that_may_fail(problem: Problem) -> Problem:
    """The same whose answer is no number where the file fails: with inputs of two draws that only go together."""

    def oracle(inputs: Arrays, sizes: Sizes) -> dict[str, Expected]:
        try:
            return problem.oracle(inputs, sizes)
        except ReferenceEndedError:
            raise
        except ReferenceRefusedError:
            shapes = {tensor.name: tensor.shape_at(sizes) for tensor in problem.outputs}
            return {name: Expected(np.full(shape, np.nan), np.zeros(shape)) for name, shape in shapes.items()}

    return replace(problem, oracle=oracle)


def _distributions(file: File, base: Description, wider: Wider | None = None) -> tuple[Distribution, ...]:
    """Those within the file's range, and behind them the one in a wider range."""

    def described_at(at: Sizes) -> Description:
        return file.described(constants_of(base, at))

    def called(seed: int, names: Sequence[str], at: Sizes) -> dict[str, Array]:
        return file.process.drawn(seed, names, constants_of(base, at))

    own = distributions_of(base.inputs, lambda at: described_at(at).inputs, called, with_ties=not base.unordered)
    return own if wider is None else (*own, wider_distribution(wider, base, described_at, called))


def stated_problem(
    file: File, known: Known, other_sizes: OtherSizes, published: Description | None = None
) -> Problem:
    """The problem that a file states, whose process gives the oracle's answers; see `foreign_problem`.

    `published`: what the file states itself, where it is to be judged there whatever its size, as `file` describes
    it; by default it is judged at the sizes of `known`.
    """
    process, name, calibration = file.process, file.name, known.calibration
    described, shapes = published or known.description, known.varied
    if published is not None and not follows(published, known.description, shapes):
        shapes = VariedSizes({}, shapes_as_stated(published))
    digest = hashlib.sha256(file.text).hexdigest()
    base = max(one.relative for one in calibration.outputs)
    inputs, outputs = _tensors(described.inputs, shapes), _tensors(described.outputs, shapes)
    sizes = dict(described.sizes)

    answers = ReferenceAnswers(process, file.described, described, known.description, calibration)

    def work(at: Sizes) -> Work:
        moved = [sum(_bytes_at(tensor, at) for tensor in tensors) for tensors in (inputs, outputs)]
        larger = math.prod(at[one] / sizes[one] for one in shapes.steps)
        return Work(moved[0], moved[1], round(described.flops * larger))

    def varied(generator: np.random.Generator) -> tuple[Sizes, ...]:
        return drawn_sizes(generator, known.description, known.varied, file.described)

    required = other_sizes == "required"
    form = form_of(file.text)
    called = f"{_CALLED.get(form, _FORWARD)} of {name}"
    if name == EXPRESSION:
        called = expression_of(file.text.decode())
    return Problem(
        id=file.problem_id,
        version=f"{RULES.split()[1]}-{digest[:32]}",
        tier=described.tier,
        title=called,
        statement=_statement(called, described),
        inputs=inputs,
        outputs=outputs,
        sizes=tuple(sizes),
        example_sizes=(sizes,),
        hidden_sizes=lambda generator: (varied(generator) if required else ()) or (sizes,),
        serves=SizeRange(sizes, least=sizes),
        edge_sizes=lambda generator: (),
        distributions=where_answered(
            [one for one in _distributions(file, described, known.wider) if one.name not in known.left_out],
            answers.has_answer,
        ),
        probes=(),
        tolerance=Tolerance(base, max(map(absolute_of, described.outputs)), reason_of(described, calibration)),
        oracle=answers.oracle,
        work=work,
        naive=None,
        fast=None,
        timing_sizes=sizes,
        baseline=f"{_CALLED.get(form, 'Model(*get_init_inputs())')} of {name}",
        caveats=(
            *known.warnings,
            *caveats_of_changed(described.inputs),
            *caveats_of_sizes(known, other_sizes, published is not None),
        ),
        varied_sizes=None if required or not known.varied.steps else varied,
        work_is_least=False,
        origin=origin_of(file, known, other_sizes, published),
        entry=described.entry,
        too_large="" if required or published is not None else known.too_large,
    )


@dataclass(frozen=True)
class Origin:
    """All that another process of ours needs to state the same problem."""

    text: bytes
    name: str
    problem_id: str
    known: Known
    other_sizes: OtherSizes
    published: Description | None
    __pydantic_config__: ClassVar = BYTES_AS_BASE64


origins: Final = Json(Origin)


def origin_of(file: File, known: Known, other_sizes: OtherSizes, published: Description | None) -> bytes:
    """As it travels."""
    return origins.dump(Origin(file.text, file.name, file.problem_id, known, other_sizes, published))


def caveats_of_sizes(known: Known, other_sizes: OtherSizes, as_published: bool = False) -> Iterator[str]:
    """What is to be said of the sizes at which a problem is judged."""
    smaller = bool(known.too_large) and not as_published
    if smaller:
        yield (
            f"at its own sizes ({known.too_large}) this problem is too large for the simulator: it is judged at "
            f"{sizes_in_words(known.description.sizes)}"
        )
    if not known.varied.steps:
        where = "these smaller sizes" if smaller else "its own shapes"
        why = "and is judged there alone" if other_sizes == "required" else "so nothing is said about others"
        yield f"this problem is known at {where} only, {why}: none of its constants could be varied"


def _tensors(listed: Sequence[TensorFacts], varied: VariedSizes) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(facts.name, varied.shapes[facts.name], facts.dtype, facts.is_bool, facts.changed) for facts in listed
    )


def _bytes_at(tensor: Tensor, sizes: Sizes) -> int:
    return math.prod(tensor.shape_at(sizes)) * tensor.dtype.size_bytes


def _statement(called: str, described: Description) -> str:
    kinds = {
        kind: ", ".join(facts.name for facts in described.inputs if facts.kind == kind)
        for kind in ("argument", "parameter", "buffer")
    }
    told = [f"{kind}s {names}" for kind, names in kinds.items() if names]
    outputs = ", ".join(f"{facts.name} {list(facts.shape)}" for facts in described.outputs)
    return f"What {called} gives ({outputs}), of {'; '.join(told)}."
