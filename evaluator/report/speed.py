"""A verdict's speed in words for a terminal, and what ran where host code did."""

from common.contract import Timing, Verdict


def host_code(verdict: Verdict) -> list[str]:
    """What ran of a submission's host code, and what its time was spent on."""
    ran = verdict.compile.host if verdict.compile else None
    if ran is None:
        return []
    said = [f"ran: {ran.entry or 'nothing'}, because {in_short(ran.why)}"]
    coverage = verdict.profile.coverage if verdict.profile else None
    if coverage is not None:
        others = f"; others: {', '.join(ran.libraries)}" if ran.libraries else ""
        said.append(f"{coverage:.0%} of the time in the submission's own kernels{others}")
    return said


def speed(timing: Timing) -> list[str]:
    """How fast it is, over what, and how that is known."""
    said = [
        f"{timing.speedup:.3g}x ({timing.confidence:.0%} interval {timing.speedup_low:.3g} to "
        f"{timing.speedup_high:.3g}): {timing.latency_us:.4g} us, against {timing.baseline_us:.4g} us of "
        f"{in_short(timing.compared_with)}"
    ]
    launches = f"{timing.launches} launches"
    if timing.pooled_evaluations > 1:
        launches += f", pooled over {timing.pooled_evaluations} evaluations"
    if timing.sol_share is not None:
        launches = f"{timing.sol_share:.0%} of the speed of light; {launches}"
    said.append(launches)
    if timing.null_us is not None:
        said.append(
            f"by the referee's clock, less the {timing.null_us:.4g} us of a null submission; it cannot tell "
            f"{timing.resolution_us or 0:.3g} us from nothing"
        )
    others = [one for one in timing.baselines if one.latency_us is not None]
    if len(others) > 1:
        said.append("; ".join(f"{one.words} {one.latency_us:.4g} us" for one in others))
    said += [f"no baseline {one.words}: {in_short(one.why_not)}" for one in timing.baselines if one.why_not]
    if timing.device.throttle_reasons:
        said.append(f"clocks held down: {', '.join(timing.device.throttle_reasons)}")
    return said


def in_short(text: str, width: int = 160) -> str:
    """One line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"
