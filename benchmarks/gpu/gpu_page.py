"""Writes docs/gpu.md: what was measured on a GPU, as the files in `results/` have it.

    python benchmarks/gpu/gpu_page.py

Run it after a benchmark on a GPU. Figures and missed goals come from the results; what cannot be measured (why two
verdicts differ, what has been fixed since) stands below under the name of what it explains, and is refused where the
results no longer hold anything of that name.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks._support.markdown import bullets, goal_in_words, table
from benchmarks.gpu import throughput_page
from benchmarks.gpu.throughput_page import REMARKS
from benchmarks.gpu.timing_repeatability import SHORT_US

RESULTS = Path(__file__).parents[1] / "results"
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "gpu.md"
NAMES = (
    "throughput",
    "several_gpus",
    "timing_repeatability",
    "gpu_corpus",
    "example_kernels_speed",
    "counters_vs_ncu",
)

DIFFERENCES: dict[str, str] = {
    "relu_bulk_copy": "it copies in bulk, asynchronously (TMA), and waits at a barrier in shared memory",
    "row_sum_cluster": "its blocks form clusters",
}
"""Honest kernels whose verdict on the simulator is another one than on the GPU, and what of them it cannot run."""

REASONS: dict[str, str] = {
    "warp_instructions": "the simulator counts PTX, ncu what ptxas made of it",
    "thread_instructions": "likewise; ncu counts a warp's lanes where a predicate turns them off, too",
    "branches": "ptxas guards short branches by predicates, returns by `@P EXIT`, and unrolls loops",
    "divergent_branches": "likewise: what is guarded diverges no more",
    "flops.fp32": (
        "a division or `expf` is multiplications and additions in machine code and one operation in PTX; and ptxas "
        "moves a sum that only one lane needs behind that lane's branch"
    ),
    "shared.requests": "ptxas makes one wide access of neighbouring ones; beside that ncu counts up to 4 % too many",
    "shared.wavefronts": "ptxas makes one wide access of neighbouring ones",
    "shared.least_wavefronts": "likewise",
}
"""Counters in which the simulator and ncu differ somewhere, and why."""

Record = Mapping[str, Any]

_DEVICE_WAITS_SINCE = "2026-11-29"
"""Times that were measured before hold what the host was late by."""


def page(records: Mapping[str, Record]) -> str:
    """The page, as Markdown. `records`: what each of NAMES saved. Raises ValueError for an explanation of nothing."""
    corpus = records["gpu_corpus"]
    odd = [row["name"] for row in corpus["attacks"] if row["complaints"]]
    _same("REMARKS", REMARKS, (*odd, *throughput_page.wrong_verdicts(records)))
    return "\n".join(
        [
            _introduction(records),
            throughput_page.section(records),
            _repeatability(records["timing_repeatability"]),
            _honest(corpus),
            _attacks(corpus),
            _examples(records["example_kernels_speed"]),
            _counters(records["counters_vs_ncu"]),
        ]
    )


def load() -> dict[str, Record]:
    """The results of all these benchmarks, by name."""
    return {name: json.loads((RESULTS / f"{name}.json").read_text()) for name in NAMES}


def missed(record: Record) -> list[tuple[str, float, str, float]]:
    """Goals that a record did not reach: figure, what was measured, `>=` or `<=`, the goal."""
    return [
        (name, record["figures"][name], sign, goal)
        for name, (sign, goal) in record["goals"].items()
        if not (record["figures"][name] >= goal if sign == ">=" else record["figures"][name] <= goal)
    ]


def _introduction(records: Mapping[str, Record]) -> str:
    first = records["throughput"]
    machine = ", ".join(_machine(first))
    versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
    rows = [
        (f"`{_command(record)}`", _gpus(record), record["date"], _otherwise(record, first))
        for record in records.values()
    ]
    return f"""# What was measured on a GPU

With {machine}; {versions}; the last column says what was otherwise.
This page is written by `benchmarks/gpu/gpu_page.py` from the files in `benchmarks/results`, which hold every figure.
`make bench-gpu` measures again. Goals that were missed are said where they belong.

{table(("measured by", "on", "date", "otherwise"), rows)}"""


def _device(record: Record) -> list[str]:
    return re.sub(r" \(GPU-[^)]*\)", "", record["device"]).split(", ")


def _gpus(record: Record) -> str:
    found = [part for part in _device(record) if part.startswith("NVIDIA")]
    return found[0] if len(found) == 1 else f"{len(found)} × {found[0]}"


def _machine(record: Record) -> list[str]:
    """All of the device but its GPUs, each part once: driver, processor, system."""
    return [part for part in dict.fromkeys(_device(record)) if not part.startswith("NVIDIA")]


def _otherwise(record: Record, first: Record) -> str:
    """What of machine and versions is not as in `first`."""
    versions, usual = record["versions"], first["versions"]
    differing = [f"{name} {version}" for name, version in versions.items() if usual.get(name, version) != version]
    return ", ".join([part for part in _machine(record) if part not in _machine(first)] + differing)


def _command(record: Record) -> str:
    """The command, with the path that the script has now."""
    script = re.search(r"benchmarks/\S+\.py", record["command"])
    if script is None or (ROOT / script[0]).exists():
        return str(record["command"])
    (now,) = (ROOT / "benchmarks").rglob(Path(script[0]).name)
    return str(record["command"]).replace(script[0], now.relative_to(ROOT).as_posix())


def _repeatability(record: Record) -> str:
    figures = record["figures"]
    rows = []
    for name in _kernels(figures):
        for condition in ("idle", "busy"):
            one = {key: figures[f"{condition}_{name}_{key}"] for key in ("latency_us", "speedup", "launches")}
            shares = [figures[f"{condition}_{name}_{key}"] for key in ("latency_cv", "speedup_cv", "half_width")]
            rows.append(
                (
                    f"`{name}`" if condition == "idle" else "",
                    condition,
                    f"{one['latency_us']:.1f}",
                    f"{one['speedup']:.3f}",
                    *(f"{100 * share:.2f} %" for share in shares[:2]),
                    f"{100 * figures[f'{condition}_{name}_coverage']:.0f} %",
                    f"± {100 * shares[2]:.2f} %",
                    f"{one['launches']:.0f}",
                )
            )
    head = (
        *("kernel", "machine", "latency, µs", "speedup", "CV of latency", "CV of speedup"),
        *("intervals that hold", "half interval", "launches, median"),
    )
    return f"""## How well a timing repeats

{figures["idle_evaluations"]:.0f} fresh evaluations of six kernels on the idle machine, then \
{figures["busy_evaluations"]:.0f} beside
{record["details"]["compilers"]} copies of nvcc that never stop; none pooled, with a speedup asked for to 0.4 %.
CV: standard deviation of the evaluations' results \
over their mean. *Intervals
that hold*: how many of the stated 95 % intervals hold the speedup of all samples together; 95 % would be right.

{table(head, rows)}
{_goals(record)}
{_missed_here(record)}
The times of kernels that are bound by memory fall on **two humps about 1.4 µs apart**, about 40 % of them on the
upper one, whatever is done before a launch (idling, flushing the L2, spinning, other contexts at work). So the median
of few launches moves by up to 1 %, from one hump towards the other, and an interval that was measured within one
evaluation can miss it. The caller chooses: a smaller `timing_precision` (0.001 to 0.1; 0.01 by default) takes more
launches, and samples of the same program are pooled when it is graded again.
The stated interval can be wider than what was asked for ([why](on-a-gpu.md#how-precisely)).
A kernel of less than {SHORT_US:g} µs, here `short_vector_add`, moves more, because the clock of CUDA's events has \
steps. Its CV has no
goal, but it counts for the coverage: without it the intervals of {100 * _coverage(figures, "idle"):.0f} % of the \
evaluations hold on the idle
machine, and of {100 * _coverage(figures, "busy"):.0f} % on the busy one. **The interval of so short a kernel is too \
narrow**: compare such kernels at larger
sizes. The latency of a kernel was at most {100 * figures["worst_shift_when_busy"]:.1f} % longer or shorter on the \
busy machine, without the short one {100 * _shift(figures):.1f} %.
"""


def _kernels(figures: Mapping[str, float]) -> list[str]:
    """Names of all that were timed again and again."""
    return [key[5:-11] for key in figures if key.startswith("idle_") and key.endswith("_latency_us")]


def _long_enough(figures: Mapping[str, float]) -> list[str]:
    return [name for name in _kernels(figures) if figures[f"idle_{name}_latency_us"] >= SHORT_US]


def _coverage(figures: Mapping[str, float], condition: str) -> float:
    """Of the kernels that are not short, each with the same weight: they have as many evaluations."""
    return fmean(figures[f"{condition}_{name}_coverage"] for name in _long_enough(figures))


def _shift(figures: Mapping[str, float]) -> float:
    pairs = [
        (figures[f"busy_{name}_latency_us"], figures[f"idle_{name}_latency_us"]) for name in _long_enough(figures)
    ]
    return max(abs(busy / idle - 1) for busy, idle in pairs)


def _missed_here(record: Record) -> str:
    names = [f"{name.replace('_', ' ')} ({_number(value)})" for name, value, _, _ in missed(record)]
    return f"Missed: {', '.join(names)}." if names else "No goal was missed."


def _honest(record: Record) -> str:
    figures = record["figures"]
    by_problem: dict[str, list[Record]] = defaultdict(list)
    for row in record["honest"]:
        by_problem[row["problem"]].append(row)
    rows = [
        (
            f"`{problem}`",
            str(len(found)),
            str(sum(row["gpu"]["status"] == "passed" for row in found)),
            str(sum(row["sim"]["status"] == "passed" for row in found)),
        )
        for problem, found in sorted(by_problem.items())
    ]
    differing = [row for row in record["honest"] if not row["same"]]
    _same("DIFFERENCES", DIFFERENCES, (row["name"] for row in differing))
    differences = [
        (f"`{row['name']}`", row["gpu"]["status"], row["sim"]["status"], f"{DIFFERENCES[row['name']]}: {_said(row)}")
        for row in sorted(differing, key=lambda row: row["name"])
    ]
    return f"""## Honest kernels, on the GPU and on the simulator

{figures["honest_kernels"]} kernels (`tests/kernels`, `tests/gpu/kernels`): \
{figures["honest_passed_on_gpu"]} pass on the GPU, {figures["honest_passed_on_simulator"]} on the simulator.
No verdict of the simulator says that one of them is wrong; the others it cannot run, and says so by name.

{table(("problem", "kernels", "passed on the GPU", "passed on the simulator"), rows)}
Every difference:

{table(("kernel", "GPU", "simulator", "why"), differences)}"""


def _said(row: Record) -> str:
    return str(row["sim"]["message"])


def _attacks(record: Record) -> str:
    figures = record["figures"]
    odd = [row for row in record["attacks"] if row["complaints"]]
    rows = []
    for row in sorted(record["attacks"], key=lambda row: (row["name"], row["contexts"] != "single")):
        ended = f"{row['status']} ({row['phase']})" + (" **!**" if row["complaints"] else "")
        rows.append(
            (
                f"`{row['name']}`" + (", reused context" if row["contexts"] == "reused" else ""),
                row["attack"],
                ended,
                _because(row["name"]) + _speed(row),
            )
        )
    count = figures["next_jobs_not_right"]
    return f"""## Attacks

{figures["attacks"]} attacks (`tests/gpu/attacks`; those that look for what others left behind run in reused contexts
as well). After each of them the next job was graded: {"all were" if not count else f"{count} were not"} right. \
*passed* is the right end where an attack
computes the right answer and gains nothing: what it takes is charged, or the secrets that it looks for are not there.

{table(("attack", "what it tries", "how it ended", "why so"), rows)}
{f"**!** Not as it should be: {len(odd)} (goal: 0, missed)." if odd else "All ended as they should."}
{bullets(f"`{row['name']}`: {' '.join(row['complaints'])} {REMARKS[row['name']]}" for row in odd)}"""


def _speed(row: Record) -> str:
    """How fast a passed attack was beside what does the same honestly."""
    if row["status"] != "passed" or not row["latency_us"] or not row["twin_us"]:
        return ""
    return f" ({row['latency_us']:.1f} µs; honestly {row['twin_us']:.1f} µs)"


def _because(name: str) -> str:
    source = (ROOT / "tests" / "gpu" / "attacks" / f"{name}.cu").read_text()
    found = re.search(r"^// because: (.*)$", source, re.MULTILINE)
    if found is None:
        raise ValueError(f"tests/gpu/attacks/{name}.cu does not say `// because:`.")
    return found[1]


def _examples(record: Record) -> str:
    figures = record["figures"]
    problems = [key.removesuffix("_fast_latency_us") for key in figures if key.endswith("_fast_latency_us")]
    rows = [
        (
            f"`{problem}`",
            f"{figures[f'{problem}_fast_latency_us']:.1f}",
            f"**{figures[f'{problem}_fast_speedup']:.3g}**",
            f"{figures[f'{problem}_fast_speedup_low']:.3g} to {figures[f'{problem}_fast_speedup_high']:.3g}",
            f"{100 * figures[f'{problem}_fast_sol_share']:.0f} %",
            f"{figures[f'{problem}_naive_speedup']:.2g}",
        )
        for problem in problems
    ]
    head = ("problem", "fast, µs", "times PyTorch", "95 % interval", "of the speed of light", "naive, times PyTorch")
    return f"""## Our own example kernels against PyTorch

The kernels that come with each problem, as a measure of the grader and not of anyone's skill: the fast ones are
{figures["fast_geometric_mean_speedup"]:.2f} times as fast as PyTorch eager (geometric mean), \
{figures["fast_at_least_pytorch"]:.0f} of {len(problems)} at least as fast.
{_before_the_device_waited(record)}
![Example kernels against PyTorch](../benchmarks/results/example_kernels_speed.svg)

{table(head, rows)}"""


def _before_the_device_waited(record: Record) -> str:
    if record["date"] >= _DEVICE_WAITS_SINCE:
        return ""
    return f"""
Measured on {record["date"]}, before the device waited until all of a launch or of the baseline was queued
([timing](on-a-gpu.md)): PyTorch could look slower than it is, and a speedup be too high. The speedups of `softmax`
here and [above](#how-well-a-timing-repeats) differ by more than their intervals.
"""


def _counters(record: Record) -> str:
    figures, details = record["figures"], record["details"]
    names = [key.removesuffix("_exact") for key in figures if key.endswith("_exact")]
    _same("REASONS", REASONS, (name for name in names if figures[f"{name}_error_most"] > 0))
    same = [f"{name} ({figures[f'{name}_launches']})" for name in names if name not in REASONS]
    rows = []
    for name, reason in REASONS.items():
        exact, launches = (str(figures[f"{name}_{which}"]) for which in ("exact", "launches"))
        errors = (f"{100 * figures[f'{name}_error_{which}']:.0f} %" for which in ("p50", "most"))
        rows.append((name, launches, exact, *errors, reason))
    waiting = ", ".join(f"`{name}`" for name in details["waiting"])
    unsupported = [f"`{name}` ({feature})" for name, feature in details["unsupported"].items()]
    return f"""## The simulator's counters against Nsight Compute's

{figures["kernels"]} kernels, each launch whole at its problem's first published size, on the same inputs
(`benchmarks/simulator/counters_vs_ncu.py`). The same to the last one in every launch (how many have the counter):
{", ".join(same)}.
Not the same, for what ptxas rewrites (the difference is that of the two counts over the larger one):

{table(("counter", "launches", "the same", "difference, median", "largest", "why"), rows)}
Not compared, as the simulator cannot run them: {", ".join(unsupported) or "none"}; as they
look again and again whether others are done, and how often is chance: {waiting}.
{_lacking(details["lacking"])}"""


def _lacking(metrics: Sequence[str]) -> str:
    if not metrics:
        return ""
    named = ", ".join(f"`{metric}`" for metric in metrics)
    return f"Accesses to shared memory were not compared: ncu had not been asked for {named}.\n"


def _goals(record: Record) -> str:
    """The goals of a record and what became of them, as a table."""
    rows = [
        (
            name.replace("_", " "),
            _number(record["figures"][name]),
            goal_in_words(record["figures"][name], (sign, goal)),
        )
        for name, (sign, goal) in record["goals"].items()
    ]
    return table(("goal", "measured", ""), rows)


def _same(which: str, explained: Iterable[str], found: Iterable[str]) -> None:
    stale, open_ = set(explained) - set(found := set(found)), set(found) - set(explained)
    if stale or open_:
        raise ValueError(f"{which} must be brought up to date: {sorted(stale)} are no more, {sorted(open_)} are new.")


def _number(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(load()), encoding="utf-8")
