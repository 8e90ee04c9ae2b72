"""The part of docs/gpu.md that says how many evaluations a minute one GPU gives, and what one costs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks._support.markdown import bullets, goal_in_words, table

Record = Mapping[str, Any]

REMARKS: dict[str, str] = {}
"""Verdicts that were not as they should have been, and what is known about them."""


_PASSES = (
    ("default", "`default`"),
    ("coarse_cold", "`coarse`, programs that are new"),
    ("coarse_warm", "`coarse`, the same again"),
    ("coarse-rehearsed_cold", "`coarse-rehearsed`, programs that are new"),
    ("coarse-rehearsed_warm", "`coarse-rehearsed`, the same again"),
    ("kernelbench_cold", "KernelBench's way, new"),
    ("kernelbench_warm", "KernelBench's way, built before"),
)
_PHASES = (
    *("compile", "rehearsal", "referee_turn", "referee_context", "referee_verify", "referee_before_time"),
    *("referee_time", "referee_after_time"),
)


def wrong_verdicts(records: Mapping[str, Record]) -> Iterator[str]:
    """The names of the kernels that the results call wrongly judged."""
    yield from (_name(text) for text in records["throughput"]["details"]["wrong"])


def section(records: Mapping[str, Record]) -> str:
    """From `throughput.json` and `several_gpus.json`."""
    record = records["throughput"]
    figures = record["figures"]
    named = [(name, said) for name, said in _PASSES if f"{name}_per_minute" in figures]
    ours = [(name, said) for name, said in named if f"{name}_referee_s_each" in figures]
    rows = [_rate(record, name, said) for name, said in named]
    spent = [_spent(figures, name, said) for name, said in ours]
    wrong = [_wrong(text) for text in record["details"]["wrong"]]
    head = ("", "a minute", "goal", "evaluations", "p50, s", "core, s each", "GPU, s each", "USD a thousand")
    return f"""## Evaluations a minute

Asked for by {figures["clients"]:.0f} clients of a service with {figures["workers"]:.0f} workers on \
{figures["cores"]:.0f} cores and {figures["gpus"]:.0f} GPU(s), with {figures["referees_per_gpu"]:.0f} referee(s) on
each: kernels such as a policy writes, half of them far slower than PyTorch, a third bad. What a verdict costs is \
reckoned at {figures["gpu_usd_an_hour"]:g} USD
an hour of a GPU, busy or not, and {figures["core_usd_an_hour"]:g} USD an hour of a core that is used.

{table(head, rows)}
`default`: nothing is set, neither by the service's owner nor by its callers. `coarse`: contexts that serve 100
programs (`ASSAY_JOBS_PER_RUNNER=100`), `reward_precision` 0.02, `rehearse` false, `run_timeout_s` 10; *new* is
what nobody has compiled before. *Evaluations* were done in the seconds beside them, which begin once the first
verdicts are there.
{_other_goals(record)}

Where the time of an evaluation goes, milliseconds each:

{table(("", *(phase.replace("_", ", ", 1).replace("_", " ") for phase in _PHASES), "referees busy"), spent)}
*Referees busy*: the share of the time in which a referee has a job, summed over the GPU's referees.

What bounds the rate:
{bullets(_bound(record, name, said) for name, said in ours)}
No other referee runs anything while one has the GPU alone, and what the submissions themselves take on the GPU is the
least that any grader has to wait for.

{_several(records["several_gpus"])}

{f"Wrong verdicts: {len(wrong)} (goal: 0, missed)." if wrong else "No verdict was wrong."}
{bullets(wrong) if wrong else ""}"""


def _bound(record: Record, name: str, said: str) -> str:
    """Of one pass: for how much of it the GPU was one referee's alone, and whose kernels took the most."""
    figures = record["figures"]
    alone = figures[f"{name}_referee_time_s_each"] * figures[f"{name}_per_minute"] / 60
    took_s: Counter[str] = Counter()
    for row in record["details"]["costliest"][name]:
        took_s[row["name"].partition("#")[0]] += row["referee_s"]
    most, most_s = took_s.most_common(1)[0]
    share = most_s / (figures[f"{name}_referee_s_each"] * figures[f"{name}_evaluations"])
    return (
        f"{said}: one referee had the GPU alone for {100 * alone:.0f} % of the time and kernels ran on it for "
        f"{100 * figures[f'{name}_gpu_busy_share']:.0f} %, with `{most}` alone taking {100 * share:.0f} % of the "
        "referees' time."
    )


def _other_goals(record: Record) -> str:
    """What a referee may take for a verdict: goals that have no column."""
    figures, goals = record["figures"], record["goals"]
    said = [
        f"A referee has the job of a verdict for {figures[goal]:.2f} s in {words}; the goal is "
        f"{goal_in_words(figures[goal], goals[goal])}."
        for name, words in _PASSES
        if (goal := f"{name}_referee_s_each") in goals
    ]
    return "\n".join(said)


def _several(record: Record) -> str:
    """What more GPUs of one machine give, and what the death of referees takes."""
    figures = record["figures"]
    rows = [
        (
            said,
            *(f"{figures[f'{way}_{each}_per_minute']:.0f}" for way in ("one", "all", "failing")),
            f"{figures[f'{each}_over_one']:.2f}",
            goal_in_words(figures[f"{each}_over_one"], goal),
        )
        for each, said in _PASSES
        if f"{each}_over_one" in figures
        for goal in [record["goals"].get(f"{each}_over_one")]
    ]
    head = ("", "one GPU", f"{figures['gpus']:.0f} GPUs", "the same, referees killed", "of one", "goal")
    judged = sum(figures[name] for name in figures if name.endswith("_evaluations"))
    return f"""On one machine with {figures["gpus"]:.0f} GPUs and {figures["cores"]:.0f} cores, evaluations a minute \
by one of them, by all, and by all while a referee of the first
is killed every few seconds ({judged:.0f} evaluations, {figures["wrong_verdicts"]:.0f} of them wrong):

{table(head, rows)}"""


def _rate(record: Record, name: str, said: str) -> tuple[str, ...]:
    figures = record["figures"]
    each = figures[f"{name}_per_minute"]
    seconds = (f"{figures[f'{name}_{what}_s_each']:.3g}" for what in ("cpu", "gpu"))
    goal = goal_in_words(each, record["goals"].get(f"{name}_per_minute"))
    usd = f"{figures[f'{name}_usd_a_thousand']:.2f}"
    done = f"{figures[f'{name}_evaluations']:.0f} in {figures[f'{name}_seconds']:.0f} s"
    return said, f"**{each:.0f}**", goal, done, f"{figures[f'{name}_p50_s']:.3g}", *seconds, usd


def _spent(figures: Mapping[str, float], name: str, said: str) -> tuple[str, ...]:
    shares = (f"{1e3 * figures.get(f'{name}_{phase}_s_each', 0.0):.0f}" for phase in _PHASES)
    return said, *shares, f"{100 * figures[f'{name}_referee_busy_share']:.0f} %"


def _wrong(text: str) -> str:
    """A wrong verdict with what is known about it."""
    return f"`{_name(text)}`: {text.partition(' was ')[2]} {REMARKS[_name(text)]}"


def _name(text: str) -> str:
    return text.partition(": ")[2].split(" ")[0]
