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
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "gpu.md"
NAMES = ("gpu_throughput", "timing_repeatability", "gpu_corpus", "example_kernels_speed", "counters_vs_ncu")

DIFFERENCES: dict[str, str] = {
    "relu_bulk_copy": "it copies in bulk, asynchronously (TMA), and waits at a barrier in shared memory",
    "row_sum_cluster": "its blocks form clusters",
}
"""Honest kernels whose verdict on the simulator is another one than on the GPU, and what of them it cannot run."""

REMARKS: dict[str, str] = {
    "matmul_t64_d16_u4": (
        "The tolerance of a sum was too narrow: among four million elements, one is that far off by chance. It "
        "counts the sum itself since then; this figure was not taken again."
    ),
}
"""Verdicts that were not as they should have been, and what is known about them."""

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

_THROUGHPUT = (
    ("single_cold", "each its own", "1 %", "empty"),
    ("single_warm", "each its own", "1 %", "full"),
    ("reused_cold", "one for many", "1 %", "empty"),
    ("reused_warm", "one for many", "1 %", "full"),
    ("reused_coarse_cold", "one for many", "3 %, not rehearsed", "empty"),
    ("reused_coarse_warm", "one for many", "3 %, not rehearsed", "full"),
    ("reused_mixed_cold", "one for many; one in five is bad", "1 %", "empty"),
)
_SHARES = {
    "compile": "compiling",
    "rehearsal": "the rehearsal on the simulator",
    "context": "getting a context",
    "verify": "verifying",
    "time": "timing",
    "waiting": "waiting for the referee, and the rest",
}

Record = Mapping[str, Any]


def page(records: Mapping[str, Record]) -> str:
    """The page, as Markdown. `records`: what each of NAMES saved. Raises ValueError for an explanation of nothing."""
    throughput, corpus = records["gpu_throughput"], records["gpu_corpus"]
    odd = [row["name"] for row in corpus["attacks"] if row["complaints"]]
    _same("REMARKS", REMARKS, (*odd, *map(_name, throughput["details"]["wrong"])))
    return "\n".join(
        [
            _introduction(records),
            _throughput(throughput),
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
    first = records["gpu_throughput"]
    device = re.sub(r" \(GPU-[^)]*\)", "", first["device"])
    versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
    rows = [(f"`{record['command']}`", record["date"]) for record in records.values()]
    return f"""# What was measured on a GPU

On one {device}; {versions}.
This page is written by `benchmarks/gpu/gpu_page.py` from the files in `benchmarks/results`, which hold every figure.
`make bench-gpu` measures again. Goals that were missed are said where they belong.

{_table(("measured by", "on"), rows)}"""


def _throughput(record: Record) -> str:
    figures, goals = record["figures"], record["goals"]
    rows = []
    for name, contexts, precision, cache in _THROUGHPUT:
        each = figures.get(f"{name}_per_minute")
        if each is not None:
            goal = goals.get(f"{name}_per_minute")
            launches = f"{figures[f'{name}_launches_p50']:.0f}"
            rows.append((contexts, precision, cache, f"**{each:.0f}**", _goal(each, goal), launches))
    for heat, cache in (("cold", "empty"), ("warm", "full")):
        each = figures.get(f"kernelbench_{heat}_per_minute")
        if each is not None:
            at_once = f"{figures['kernelbench_at_once']:.0f} at once"
            rows.append((f"KernelBench's way, {at_once}", "", cache, f"**{each:.0f}**", "", "100"))
    head = ("CUDA context", "precision of the speedup", "compile cache", "a minute", "goal", "launches, median")
    best = max((figures[f"{name}_per_minute"], name) for name, *_ in _THROUGHPUT if f"{name}_per_minute" in figures)
    least = min(goal for name, (sign, goal) in goals.items() if name.startswith("reused") and sign == ">=")
    verdict = "was reached" if best[0] >= least else "was not reached"
    busy = sorted(
        figures[f"{name}_referee_busy_share"] for name in ("single_warm", "reused_warm", "reused_coarse_warm")
    )
    each_ms = [
        1e3 * figures[f"{name}_referee_s_each"] for name in ("single_warm", "reused_warm", "reused_coarse_warm")
    ]
    spent = [
        (said, *(f"{100 * figures[f'{name}_share_{share}']:.1f} %" for name in ("single_cold", "single_warm")))
        for share, said in _SHARES.items()
    ]
    wrong = [_wrong(text) for text in record["details"]["wrong"]]
    return f"""## Evaluations a minute

{figures["single_cold_evaluations"]:.0f} variants of honest kernels a pass, of \
{len(record["details"]["timing_sizes"])} problems at the published timing sizes
({figures["different_kernels"]:.0f} different programs, the bad ones included); one grader for each core, up to 16, \
before one GPU. Each
evaluation compiles, verifies all trials and times against PyTorch.

{_table(head, rows)}
**{least:g} a minute {verdict}**: {figures["reused_warm_per_minute"]:.0f} with reused contexts at a precision of \
1 %, {figures["reused_coarse_warm_per_minute"]:.0f} at 3 %.
With a context for each, {figures["single_cold_per_minute"]:.0f} (cold) and {figures["single_warm_per_minute"]:.0f} \
(warm), against a goal of {goals["single_cold_per_minute"][1]:g}.
The GPU's referee is what there is not enough of: it was busy {100 * busy[0]:.0f} to {100 * busy[-1]:.0f} % of the \
warm passes, {each_ms[0]:.0f} ms an
evaluation with single-use contexts, {each_ms[1]:.0f} ms with reused ones, {each_ms[2]:.0f} ms at 3 %. Where the \
time of an evaluation went,
with single-use contexts:

{_table(("share of an evaluation's time", "cold", "warm"), spent)}
KernelBench's way is a process of its own for each kernel, which is built with `load_inline`, compared with PyTorch on
5 inputs and timed in 100 launches (`benchmarks/gpu/kernelbench_way.py`, written from its published description):
{figures["kernelbench_cold_evaluations"]:.0f} of the same kernels, all at once, \
{figures["kernelbench_cold_seconds_each"]:.0f} s each cold and {figures["kernelbench_warm_seconds_each"]:.0f} s with
its build cache. Cold and with single-use contexts, Assay does {figures["times_kernelbench_cold"]:.0f} times as many.

{f"Wrong verdicts: {len(wrong)} (goal: 0, missed)." if wrong else "No verdict was wrong."}
{_bullets(wrong)}"""


def _wrong(text: str) -> str:
    """A wrong verdict with what is known about it."""
    return f"`{_name(text)}`: {text.partition(' was ')[2]} {REMARKS[_name(text)]}"


def _repeatability(record: Record) -> str:
    figures = record["figures"]
    names = [key[5:-11] for key in figures if key.startswith("idle_") and key.endswith("_latency_us")]
    rows = []
    for name in names:
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

{record["details"]["rounds"]} fresh evaluations of six kernels, none pooled, with a speedup asked for to 0.4 %: on \
the idle machine, then beside
{record["details"]["compilers"]} copies of nvcc that never stop. CV: standard deviation of the evaluations' results \
over their mean. *Intervals
that hold*: how many of the stated 95 % intervals hold the speedup of all samples together; 95 % would be right.

{_table(head, rows)}
{_goals(record)}
{_missed_here(record)}
What is behind it for kernels that are bound by memory: their times fall on **two humps about 1.4 µs apart**, about
40 % of them on the upper one, whatever is done before a launch (idling, flushing the L2, spinning, other contexts at
work). So the median of few launches moves by up to 1 %, from one hump towards the other, and an interval that was
measured within one evaluation can miss it. It does not explain `long_matmul`, which is bound by arithmetic, nor why
the busy machine repeats better than the idle one. The caller chooses: a smaller `timing_precision` (0.001 to 0.1;
0.01 by default) takes more launches, and samples of the same program are pooled when it is graded again.
A kernel of a few µs, such as `short_vector_add`, moves more, because the clock of CUDA's events has steps; it has no
goal. The largest shift of a median between the two conditions was {100 * figures["worst_shift_when_busy"]:.1f} %.
"""


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

{_table(("problem", "kernels", "passed on the GPU", "passed on the simulator"), rows)}
Every difference:

{_table(("kernel", "GPU", "simulator", "why"), differences)}"""


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

{_table(("attack", "what it tries", "how it ended", "why so"), rows)}
{f"**!** Not as it should be: {len(odd)} (goal: 0, missed)." if odd else "All ended as they should."}
{_bullets(f"`{row['name']}`: {' '.join(row['complaints'])} {REMARKS[row['name']]}" for row in odd)}"""


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

![Example kernels against PyTorch](../benchmarks/results/example_kernels_speed.svg)

{_table(head, rows)}"""


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

{_table(("counter", "launches", "the same", "difference, median", "largest", "why"), rows)}
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
        (name.replace("_", " "), _number(record["figures"][name]), _goal(record["figures"][name], (sign, goal)))
        for name, (sign, goal) in record["goals"].items()
    ]
    return _table(("goal", "measured", ""), rows)


def _goal(measured: float, goal: Sequence[Any] | None) -> str:
    if goal is None:
        return ""
    sign, value = goal
    reached = measured >= value if sign == ">=" else measured <= value
    return (
        f"{sign.replace('>=', 'at least').replace('<=', 'at most')} {value:g}: {'met' if reached else '**missed**'}"
    )


def _name(text: str) -> str:
    return text.partition(": ")[2].split(" ")[0]


def _same(which: str, explained: Iterable[str], found: Iterable[str]) -> None:
    stale, open_ = set(explained) - set(found := set(found)), set(found) - set(explained)
    if stale or open_:
        raise ValueError(f"{which} must be brought up to date: {sorted(stale)} are no more, {sorted(open_)} are new.")


def _number(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _bullets(lines: Iterable[str]) -> str:
    return "".join(f"\n- {line}" for line in lines) + "\n"


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(load()), encoding="utf-8")
