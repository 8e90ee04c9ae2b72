"""Rewards: pure functions of measured facts, versioned, each explained term by term.

The terms are of three kinds. *Shares* divide the whole among them: where a share cannot be measured on this backend
or in this run, it is left out and the weights of the other shares grow so that their sum stays what it was. *Bonuses*
and *penalties* have a fixed price: one that cannot be measured is simply not counted. Where the submission failed
before something could be measured, its value is 0. Contributions (weight times value) sum to the reward.

    weighted    0.4 * min(speedup / target, 2) + 0.3 * correct + 0.2 * memory_efficiency * register_efficiency
                + 0.1 * compiled
    gated       0 unless it compiles and every test passes; then
                0.5 * pass_rate + 0.4 * speedup_norm + 0.05 * warp_shuffle + 0.05 * coalesced
                - 0.05 * register_pressure - 0.05 * shared_over - 0.1 * timeout
    components  0.30 * compiled + 0.30 * correct + 0.25 * speedup_norm
                + 0.10 * memory_efficiency * register_efficiency + 0.05 * code_quality
                + a bonus for improvement, - penalties (weights and thresholds: `ComponentSettings`)
    all three   - 0.1 * hazards, of a submission that passed
    speedup     0.3 * correct + speedup                      (Kevin)
    coverage    share of time in the submission's kernels    (Dr. Kernel; in the host tier, see below)
    sol         SOL score                                    (SOL-ExecBench, NVIDIA 2026)

with, each in [0, 1] unless said:

    speedup              lower end of the interval on a GPU, the estimate on the simulator; 0 and up; only of a
                         submission that passed
    speedup_norm         min(speedup / target, 2) / 2
    memory_efficiency    useful bytes over bytes of the sectors moved
    register_efficiency  warps that the registers allow over the most, halved by spills
    register_pressure    registers per thread / 255
    shared_over          shared memory above 48 KB over what the GPU has above 48 KB
    coalesced            1 where memory_efficiency is at least 0.8
    hazards              1 where verification warned of what no kernel may rely on, else 0
    code_quality         share of passed checks: no warnings, no spills, memory_efficiency at least 0.8, lane
                         efficiency at least 0.8, no bank conflicts above 1.1 ways; a check that could not be made
                         is left out

`hazards` is this grader's own term: the formulas that the three rewards come from do not have it, and a kernel
without such a warning earns what they say. It charges for a race that changed nothing, a mask that names lanes that
are not there, an access behind the end of its array into the next one, and what else docs/verification.md lists as a
warning. That is luck: it earns less than the same kernel without, and more than a wrong answer. `correct` is worth
three times as much at least, and 0.1 is what a quarter of the target speedup earns in `weighted`: more than leaving a
barrier away gains. One finding costs as much as ten, for they often have one cause. Version 1 of the rewards had no
such term.

A product with a factor that could not be measured is itself not measured. `coverage` and `sol` count only for a
submission that passed. A `rejected` submission earns 0 everywhere: nothing that it showed is to be trusted.

A reward of which no term could be measured (`sol` on the simulator, `coverage` in the device tier) has no value at
all, and says so: 0 would read as a failure.

`coverage` compares submissions that may call a library, such as a module of PyTorch, for a part of the work. In
the device tier a submission runs nothing but its own kernels and its launch plan's copies and fills, and no backend
measures the time of those apart, so there no reward of this name has a value. In the host tier it is the share that
a profiled call gives, by the submission's own process (docs/host_tier.md).

A reward is a function of the facts in a verdict and of nothing else: the same facts give the same bits, here, at a
service and in `assay verify`, which computes it again. On the simulator facts repeat with the seed, but for what a
time limit ends; estimates of time too, for they come from counts. On a GPU times vary; so the speedup's lower end
counts, samples of the same program are pooled over repeats, and `reward_stderr` says how far the value may be off.

Every reward states its own maximum in this run; thresholds (early stop at 0.8) are taken of value / maximum, see
`share_of_maximum`. `speedup` has no upper end: its maximum is stated for a speedup of twice the target, or for the
speedup itself beyond that.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from common.contract import Reward, RewardName, RewardTerm, Status
from common.facts import FACT_OF_MEASURE, STATIC_MEASURES, Facts, Measure, facts_of
from common.reward_settings import HAZARDS_PENALTY, ComponentSettings

__all__ = [
    "REWARD_VERSION",
    "STATIC_MEASURES",
    "ComponentSettings",
    "Facts",
    "Measure",
    "facts_of",
    "reward",
    "reward_if_right",
    "share_of_maximum",
    "warps_of_registers",
]

REWARD_VERSION = 2

_WITH_HAZARDS = 2
"""The first version that charges for hazards."""
_DECIMALS = 12
"""Of a reward and its maximum; a receipt's check allows for more than that is worth."""
SPEEDUP_CAP = 2.0
"""Speedup terms are full at this many times the target."""
COALESCED_AT_LEAST = 0.8
LANES_AT_LEAST = 0.8
BANK_CONFLICT_WAYS_AT_MOST = 1.1
FREE_SHARED_BYTES = 48 << 10
"""Shared memory per block that every GPU has without opting in."""


def reward(
    name: RewardName, facts: Facts, components: ComponentSettings | None = None, version: int = REWARD_VERSION
) -> Reward:
    """The reward `name` of a submission. `components` matters to the reward of that name only.

    `version`, from 1 to `REWARD_VERSION`: what an older verdict says is computed as it was then.
    Raises ValueError for a status that carries no reward (`unsupported`, `cancelled`, `internal_error`).
    """
    if not facts.status.carries_reward:
        raise ValueError(f"a submission that ended as {facts.status} was not judged and has no reward")
    if facts.status is Status.REJECTED:
        facts = _distrusted(facts)
    weighed = _rescaled(_terms_of(name, facts, components or ComponentSettings(), version))
    terms = tuple(_wire(term) for term in weighed)
    reached = [term.weight * term.maximum for term in weighed if term.kind != "penalty" and term.value is not None]
    slope = sum(term.weight * term.slope for term in weighed if term.value is not None)
    unmeasured = all(term.value is None for term in weighed)
    return Reward(
        name=name,
        version=version,
        value=None if unmeasured else _total(term.contribution for term in terms),
        maximum=_total(reached),
        terms=terms,
        reason=_NOTHING.format(name=name, terms=", ".join(term.name for term in terms)) if unmeasured else None,
        reward_stderr=None if facts.speedup_stderr is None or not facts.passed else slope * facts.speedup_stderr,
    )


def reward_if_right(name: RewardName, speedup: float, target_speedup: float) -> Reward:
    """What a right submission of this speedup would earn if nothing else of it were measured.

    What was not measured leaves its weight to the speedup: so between two speedups the real reward changes at most as
    much as this.
    """
    facts = Facts(Status.PASSED, True, True, pass_rate=1.0, target_speedup=target_speedup, speedup=speedup)
    return reward(name, facts)


def _terms_of(
    name: RewardName, facts: Facts, components: ComponentSettings, version: int = REWARD_VERSION
) -> "tuple[_Term, ...]":
    """The terms of a reward, as that version had them, before their weights are final."""
    charged = {RewardName.WEIGHTED: HAZARDS_PENALTY, RewardName.GATED: HAZARDS_PENALTY}
    charged[RewardName.COMPONENTS] = components.hazards_penalty
    terms = _TERMS[name](facts, components)
    return (*terms, _hazards(facts, charged[name])) if name in charged and version >= _WITH_HAZARDS else terms


def _total(parts: Iterable[float]) -> float:
    """The sum without what adding binary fractions leaves behind it: 1.4, not 1.4000000000000001."""
    return round(sum(parts), _DECIMALS)


def share_of_maximum(reward: Reward) -> float | None:
    """Value over maximum, in [0, 1]: what thresholds such as the early stop at 0.8 compare with.

    None where nothing could be measured.
    """
    if reward.value is None:
        return None
    return max(0.0, reward.value / reward.maximum) if reward.maximum > 0 else 0.0


@dataclass(frozen=True)
class _Term:
    """A term before its weight is final. `value` None: not measured in this run."""

    name: str
    weight: float
    value: float | None
    explanation: str
    kind: Literal["share", "bonus", "penalty"] = "share"
    maximum: float = 1.0
    slope: float = 0.0
    """d value / d speedup, which carries the speedup's standard error over to the reward."""


def _rescaled(terms: tuple[_Term, ...]) -> tuple[_Term, ...]:
    """Give the weight of shares that could not be measured to the other shares."""
    whole = sum(term.weight for term in terms if term.kind == "share")
    left = sum(term.weight for term in terms if term.kind == "share" and term.value is not None)
    if left in (0.0, whole):
        return terms
    missing = ", ".join(term.name for term in terms if term.kind == "share" and term.value is None)
    return tuple(
        replace(
            term,
            weight=term.weight * whole / left,
            explanation=f"{term.explanation} Weight {term.weight:g} became {term.weight * whole / left:.3g}, "
            f"because {missing} could not be measured.",
        )
        if term.kind == "share" and term.value is not None
        else term
        for term in terms
    )


def _wire(term: _Term) -> RewardTerm:
    weight = -term.weight if term.kind == "penalty" else term.weight
    if term.value is None:
        return RewardTerm(name=term.name, value=None, weight=0.0, contribution=0.0, explanation=term.explanation)
    # Adding 0.0 turns the -0.0 of a penalty that was not charged into 0.0.
    contribution = weight * term.value + 0.0
    return RewardTerm(
        name=term.name, value=term.value, weight=weight, contribution=contribution, explanation=term.explanation
    )


def _distrusted(facts: Facts) -> Facts:
    """What is left of the facts of a submission that broke a rule: only which measures exist."""
    known = {measure for measure, field in FACT_OF_MEASURE.items() if getattr(facts, field) is not None}
    return Facts(
        status=Status.REJECTED,
        compiled=False,
        correct=False,
        target_speedup=facts.target_speedup,
        measurable=facts.measurable | known,
    )


_NOTHING = (
    "The reward {name} has no value here: {terms} cannot be measured on this backend or was not asked for in this "
    "run. Choose another reward, such as weighted, or grade on a GPU."
)
_LEFT_OUT = "Left out: {what} cannot be measured on this backend or was not asked for in this run."
_FAILED_FIRST = "0: the submission {how} before {what} could be measured."


def _measured(facts: Facts, measure: Measure, *, needs_pass: bool = False) -> tuple[float | None, str]:
    """A measured value and, where there is none, the sentence that says why. None: not measured in this run."""
    what = measure.value.replace("_", " ").replace("sol", "the SOL score")
    value = getattr(facts, FACT_OF_MEASURE[measure])
    if not facts.compiled or (needs_pass and not facts.passed):
        if value is None and measure not in facts.measurable:
            return None, _LEFT_OUT.format(what=what)
        return 0.0, _FAILED_FIRST.format(how=_how_it_failed(facts), what=what)
    if value is not None:
        return float(value), ""
    if facts.passed or measure not in facts.measurable:
        return None, _LEFT_OUT.format(what=what)
    return 0.0, _FAILED_FIRST.format(how=_how_it_failed(facts), what=what)


def _how_it_failed(facts: Facts) -> str:
    if facts.status is Status.REJECTED:
        return "broke a rule"
    if facts.timed_out:
        return "ran out of time"
    if not facts.compiled:
        return "failed to compile" if facts.status is Status.COMPILE_ERROR else f"ended as {facts.status}"
    return "failed its tests" if not facts.correct else f"ended as {facts.status}"


def _compiled(facts: Facts, weight: float) -> _Term:
    if facts.status is Status.REJECTED:
        return _Term("compiled", weight, 0.0, "0: the submission broke a rule, so nothing of it counts.")
    said = "It compiles." if facts.compiled else "It did not compile."
    return _Term("compiled", weight, float(facts.compiled), said)


def _correct(facts: Facts, weight: float) -> _Term:
    if facts.status is Status.REJECTED:
        return _Term("correct", weight, 0.0, "0: the submission broke a rule, so nothing of it counts.")
    good = facts.compiled and facts.correct
    return _Term("correct", weight, float(good), "Every test passed." if good else "Not every test passed.")


def _speed(facts: Facts, weight: float, *, scale: float | None, name: str) -> _Term:
    """`scale` None: the speedup itself; else min(speedup / target, 2) * scale."""
    maximum = SPEEDUP_CAP * scale if scale is not None else SPEEDUP_CAP * facts.target_speedup
    speedup, missing = _measured(facts, Measure.SPEEDUP, needs_pass=True)
    if speedup is None or missing:
        return _Term(name, weight, speedup, missing, maximum=maximum)
    what = "Estimated speedup" if facts.estimated else "Speedup (lower end of its interval)"
    said = f"{what} {speedup:.3g} of the target {facts.target_speedup:g}."
    if scale is None:
        return _Term(name, weight, speedup, said, maximum=max(maximum, speedup), slope=1.0)
    capped = speedup >= SPEEDUP_CAP * facts.target_speedup
    value = SPEEDUP_CAP if capped else speedup / facts.target_speedup
    said += f" Full at {SPEEDUP_CAP:g} times the target."
    slope = 0.0 if capped else scale / facts.target_speedup
    return _Term(name, weight, value * scale, said, maximum=maximum, slope=slope)


def warps_of_registers(registers: int, max_warps: int) -> int:
    """Warps that a multiprocessor's 65,536 registers allow, at most `max_warps`.

    Each of the four partitions has 16,384 registers and hands them to warps in units of 256 (CUDA's occupancy
    calculator, compute capability 7.0 and later).
    """
    units_a_warp = -(-max(registers, 1) * 32 // 256)
    return min(4 * (16384 // (units_a_warp * 256)), max_warps)


def _efficiency(facts: Facts, weight: float) -> _Term:
    memory, memory_missing = _measured(facts, Measure.MEMORY_EFFICIENCY)
    registers, registers_missing = _measured(facts, Measure.REGISTERS)
    if memory is None or registers is None:
        missing = memory_missing if memory is None else registers_missing
        return _Term("efficiency", weight, None, missing)
    if memory_missing or registers_missing:
        return _Term("efficiency", weight, 0.0, memory_missing or registers_missing)
    warps = warps_of_registers(int(registers), facts.max_warps)
    of_registers = warps / facts.max_warps / (2 if facts.spill_bytes else 1)
    said = (
        f"Memory efficiency {memory:.2f} times register efficiency {of_registers:.2f}: {int(registers)} registers a "
        f"thread allow {warps} of {facts.max_warps} warps"
        + (f", halved for {facts.spill_bytes} bytes of spills." if facts.spill_bytes else ".")
    )
    return _Term("efficiency", weight, memory * of_registers, said)


def _weighted(facts: Facts, components: ComponentSettings) -> tuple[_Term, ...]:
    return (
        _speed(facts, 0.4, scale=1.0, name="speedup"),
        _correct(facts, 0.3),
        _efficiency(facts, 0.2),
        _compiled(facts, 0.1),
    )


def _gated(facts: Facts, components: ComponentSettings) -> tuple[_Term, ...]:
    tests = f"{facts.pass_rate:.0%} of the tests passed."
    pressure, pressure_missing = _measured(facts, Measure.REGISTERS)
    shared, shared_missing = _measured(facts, Measure.SHARED_MEMORY)
    shuffle, shuffle_missing = _measured(facts, Measure.WARP_SHUFFLE)
    memory, memory_missing = _measured(facts, Measure.MEMORY_EFFICIENCY)
    above = None if shared is None else max(shared - FREE_SHARED_BYTES, 0)
    room = max(facts.shared_limit_bytes - FREE_SHARED_BYTES, 1)
    terms = (
        _Term("pass_rate", 0.5, facts.pass_rate, tests),
        _speed(facts, 0.4, scale=0.5, name="speedup_norm"),
        _Term(
            "register_pressure",
            0.05,
            None if pressure is None else min(pressure / 255, 1.0),
            pressure_missing or f"{pressure:g} of 255 registers per thread.",
            "penalty",
        ),
        _Term(
            "shared_over",
            0.05,
            None if above is None else min(above / room, 1.0),
            shared_missing or f"{above:g} bytes of shared memory above 48 KB, of {room} that the GPU has.",
            "penalty",
        ),
        _Term(
            "timeout",
            0.1,
            float(facts.timed_out),
            "It ran out of time." if facts.timed_out else "It finished in time.",
            "penalty",
        ),
        _Term(
            "warp_shuffle",
            0.05,
            shuffle,
            shuffle_missing or ("A warp shuffle was executed." if shuffle else "No warp shuffle was executed."),
        ),
        _Term(
            "coalesced",
            0.05,
            None if memory is None else float(memory >= COALESCED_AT_LEAST),
            memory_missing or f"Memory efficiency {memory:.2f}; coalesced from {COALESCED_AT_LEAST} up.",
        ),
    )
    if facts.compiled and facts.correct:
        return terms
    closed = "0: counts only if it compiles and every test passes."
    return tuple(
        term if term.value is None else replace(term, value=0.0, slope=0.0, explanation=closed) for term in terms
    )


def _components(facts: Facts, components: ComponentSettings) -> tuple[_Term, ...]:
    c = components
    return (
        replace(_compiled(facts, c.compilation), name="compilation"),
        replace(_correct(facts, c.correctness), name="correctness"),
        _speed(facts, c.performance, scale=0.5, name="performance"),
        _efficiency(facts, c.efficiency),
        _code_quality(facts, c.code_quality),
        _improvement(facts, c),
        _warnings(facts, c),
        _spills(facts, c),
        _shortfall(facts, Measure.OCCUPANCY, c.occupancy_penalty, c.occupancy_threshold, "low_occupancy"),
        _shortfall(
            facts, Measure.LANE_EFFICIENCY, c.warp_efficiency_penalty, c.warp_efficiency_threshold, "idle_lanes"
        ),
        _shortfall(facts, Measure.BANDWIDTH, c.bandwidth_penalty, c.bandwidth_threshold, "low_bandwidth"),
    )


def _code_quality(facts: Facts, weight: float) -> _Term:
    if not facts.compiled:
        return _Term("code_quality", weight, 0.0, _FAILED_FIRST.format(how=_how_it_failed(facts), what="this"))
    checks: list[tuple[str, bool | None]] = [
        ("no compiler warnings", facts.warnings == 0),
        ("no spills", None if _measured(facts, Measure.REGISTERS)[0] is None else facts.spill_bytes == 0),
    ]
    measured: tuple[tuple[str, Measure, Callable[[float], bool]], ...] = (
        ("coalesced accesses", Measure.MEMORY_EFFICIENCY, lambda value: value >= COALESCED_AT_LEAST),
        ("few idle lanes", Measure.LANE_EFFICIENCY, lambda value: value >= LANES_AT_LEAST),
        # 0 is what a submission that failed first gets; a measured one has at least 1 way.
        ("no bank conflicts", Measure.BANK_CONFLICTS, lambda value: 0 < value <= BANK_CONFLICT_WAYS_AT_MOST),
    )
    for name, measure, good in measured:
        value, _ = _measured(facts, measure)
        checks.append((name, None if value is None else good(value)))
    made = [(name, good) for name, good in checks if good is not None]
    failed = [name for name, good in made if not good]
    said = f"{len(made) - len(failed)} of {len(made)} checks passed" + (
        f"; failed: {', '.join(failed)}." if failed else "."
    )
    return _Term("code_quality", weight, (len(made) - len(failed)) / len(made), said)


def _improvement(facts: Facts, c: ComponentSettings) -> _Term:
    term = partial(_Term, "improvement", c.improvement_bonus, kind="bonus")
    speedup, missing = _measured(facts, Measure.SPEEDUP, needs_pass=True)
    if not facts.previous_best_speedup:
        return term(value=None, explanation="Left out: there is no earlier speedup to improve on.")
    if speedup is None or missing:
        return term(value=speedup, explanation=missing)
    gain = speedup / facts.previous_best_speedup - 1
    inside = 0 < gain < c.improvement_full
    return term(
        value=min(max(gain / c.improvement_full, 0.0), 1.0),
        explanation=f"Speedup {speedup:.3g} after a best of {facts.previous_best_speedup:.3g}; "
        f"full at {c.improvement_full:.0%} more.",
        slope=1 / (facts.previous_best_speedup * c.improvement_full) if inside else 0.0,
    )


def _warnings(facts: Facts, c: ComponentSettings) -> _Term:
    count = facts.warnings if facts.compiled else 0
    said = f"{count} compiler warnings; full at {c.warnings_full}."
    return _Term("warnings", c.warnings_penalty, min(count / c.warnings_full, 1.0), said, "penalty")


def _hazards(facts: Facts, weight: float) -> _Term:
    """Charged where nothing worse was found: a submission that failed has lost more than this already."""
    if facts.status is Status.REJECTED:
        return _Term("hazards", weight, 0.0, "0: the submission broke a rule, so nothing of it counts.", "penalty")
    count = facts.hazard_warnings if facts.passed else 0
    plural = "" if count == 1 else "s"
    said = f"{count} warning{plural} of what no kernel may rely on; full at one." if count else "Nothing was found."
    return _Term("hazards", weight, float(count > 0), said, "penalty")


def _spills(facts: Facts, c: ComponentSettings) -> _Term:
    registers, missing = _measured(facts, Measure.REGISTERS)
    if registers is None or missing:
        return _Term("spills", c.spills_penalty, registers, missing, "penalty")
    said = f"{facts.spill_bytes} bytes are spilled to local memory."
    return _Term("spills", c.spills_penalty, float(facts.spill_bytes > 0), said, "penalty")


def _shortfall(facts: Facts, measure: Measure, weight: float, threshold: float, name: str) -> _Term:
    """A penalty that grows from 0 at `threshold` to 1 at nothing; not charged to what failed too early."""
    value, missing = _measured(facts, measure)
    if value is None or missing:
        return _Term(name, weight, value, missing, "penalty")
    what = measure.value.replace("_", " ").capitalize()
    said = f"{what} {value:.2f}; charged below {threshold:g}."
    return _Term(name, weight, max(0.0, 1 - value / threshold), said, "penalty")


def _speedup(facts: Facts, components: ComponentSettings) -> tuple[_Term, ...]:
    return (_correct(facts, 0.3), _speed(facts, 1.0, scale=None, name="speedup"))


def _one(facts: Facts, components: ComponentSettings, *, measure: Measure, name: str, said: str) -> tuple[_Term, ...]:
    value, missing = _measured(facts, measure, needs_pass=True)
    return (_Term(name, 1.0, value, missing or said.format(value=value)),)


_TERMS: dict[RewardName, Callable[[Facts, ComponentSettings], tuple[_Term, ...]]] = {
    RewardName.WEIGHTED: _weighted,
    RewardName.GATED: _gated,
    RewardName.COMPONENTS: _components,
    RewardName.SPEEDUP: _speedup,
    RewardName.COVERAGE: partial(
        _one,
        measure=Measure.COVERAGE,
        name="coverage",
        said="{value:.0%} of the measured time was spent in the submission's own kernels.",
    ),
    RewardName.SOL: partial(
        _one,
        measure=Measure.SOL,
        name="sol_score",
        said="SOL score {value:.3f}: 0.5 is the baseline's speed, 1 the speed of light.",
    ),
}
