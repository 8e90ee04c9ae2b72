"""Writes docs/rewards.md from `common/reward.py`: its own words, and tables of what its functions return.

`python -m scripts.rewards_page` writes it; a test says whether that would change it.
"""

import dataclasses
import re
from pathlib import Path

import common.reward
from common.contract import Profile, RewardName, Settings, Status
from common.contract.counters import Evidence
from common.facts import FACT_OF_MEASURE, Facts, Measure, measures_of
from common.reward import ComponentSettings, reward, share_of_maximum

PAGE = Path(__file__).parents[1] / "docs" / "rewards.md"

# What a run can measure of a submission that passes, by where it runs.
_COUNTED = Profile.model_construct(evidence=Evidence.model_construct())
VENUES = {
    "GPU": measures_of("gpu", Settings(), Status.PASSED, _COUNTED),
    "simulator": measures_of("sim", Settings(), Status.PASSED, _COUNTED),
    "simulator, no estimate": measures_of("sim", Settings(estimate_for=None), Status.PASSED, _COUNTED),
}
BEST: dict[Measure, float | int | bool] = {
    Measure.SPEEDUP: 4.0,
    Measure.MEMORY_EFFICIENCY: 1.0,
    Measure.REGISTERS: 16,
    Measure.SHARED_MEMORY: 0,
    Measure.OCCUPANCY: 1.0,
    Measure.LANE_EFFICIENCY: 1.0,
    Measure.BANK_CONFLICTS: 1.0,
    Measure.WARP_SHUFFLE: True,
    Measure.BANDWIDTH: 1.0,
    Measure.COVERAGE: 1.0,
    Measure.SOL: 1.0,
}
"""A kernel that nothing can be said against, at twice the target speedup."""


def best(venue: str) -> Facts:
    """The facts of that kernel, as far as they are measured at a venue."""
    measured = {FACT_OF_MEASURE[measure]: BEST[measure] for measure in VENUES[venue]}
    return dataclasses.replace(
        Facts(Status.PASSED, compiled=True, correct=True, pass_rate=1.0, measurable=VENUES[venue]),
        **measured,  # type: ignore[arg-type]
    )


def failed(status: Status) -> Facts:
    """The facts of a submission of which nothing passed and nothing was counted, on the simulator."""
    return Facts(
        status,
        compiled=status not in (Status.COMPILE_ERROR, Status.INVALID_SUBMISSION),
        correct=False,
        timed_out=status is Status.TIMEOUT,
        measurable=VENUES["simulator"],
    )


def page() -> str:
    """The whole page."""
    first, _, rest = (common.reward.__doc__ or "").partition("\n\n")
    parts = [
        "# Rewards",
        "<!-- Written by scripts/rewards_page.py from common/reward.py: change that, and run `make docs`. -->",
        first,
        "`assay grade --reward NAME`, or `settings.reward`, chooses which one a verdict carries. The version of the "
        f"functions below is {common.reward.REWARD_VERSION}, and a reward names it.",
        *_paragraphs(rest),
        "## Terms and maxima",
        "What each term weighs, and where it is measured: of a kernel that passes, with the settings as they are by "
        "default. A weight with a minus is a penalty's. Maxima are those of the value there; speed terms are full at "
        f"{common.reward.SPEEDUP_CAP:g} times the target.",
        _terms(),
        "## What a failure earns",
        "The value, and in brackets its share of the maximum, of a submission that ended so on the simulator, with "
        "no trial passed and nothing counted; one that got further earns more. `null` is no value at all. "
        + ", ".join(f"`{status}`" for status in Status if not status.carries_reward)
        + " carry no reward: the submission was not judged.",
        _failures(),
        "## Weights and thresholds of `components`",
        "By default; the service grades with these.",
        _component_settings(),
    ]
    return "\n\n".join(parts) + "\n"


def _paragraphs(text: str) -> list[str]:
    """Paragraphs of a docstring as Markdown: what is indented becomes a block of code."""
    return [
        f"```text\n{re.sub(r'(?m)^    ', '', part)}\n```" if part.startswith("    ") else part
        for part in text.strip().split("\n\n")
    ]


def _terms() -> str:
    lines = [f"| reward | term | weight | {' | '.join(VENUES)} |", f"| --- | --- | --- |{' --- |' * len(VENUES)}"]
    for name in RewardName:
        by_venue = {venue: common.reward._terms_of(name, best(venue), ComponentSettings()) for venue in VENUES}
        for index, term in enumerate(by_venue["GPU"]):
            sign = "-" if term.kind == "penalty" else ""
            marks = [("yes" if terms[index].value is not None else "left out") for terms in by_venue.values()]
            shown = f"`{name}`" if index == 0 else ""
            lines.append(f"| {shown} | `{term.name}` | {sign}{term.weight:g} | {' | '.join(marks)} |")
        rewards = [reward(name, best(venue)) for venue in VENUES]
        maxima = [f"**{one.maximum:.3g}**" if one.value is not None else "**null**" for one in rewards]
        lines.append(f"| | *maximum* | | {' | '.join(maxima)} |")
    return "\n".join(lines)


def _failures() -> str:
    names = list(RewardName)
    lines = [f"| status | {' | '.join(f'`{name}`' for name in names)} |", f"| --- |{' --- |' * len(names)}"]
    for status in Status:
        if status.carries_reward and status is not Status.PASSED:
            rewards = [reward(name, failed(status)) for name in names]
            shown = [
                "null" if (share := share_of_maximum(one)) is None else f"{one.value:.3g} ({share:.0%})"
                for one in rewards
            ]
            lines.append(f"| `{status}` | {' | '.join(shown)} |")
    return "\n".join(lines)


def _component_settings() -> str:
    lines = ["| setting | default |", "| --- | --- |"]
    lines += [f"| `{field.name}` | {field.default} |" for field in dataclasses.fields(ComponentSettings)]
    return "\n".join(lines)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
