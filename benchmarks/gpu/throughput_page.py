"""The part of docs/gpu.md that says how many evaluations a minute one GPU gives, and what one costs."""

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks._support.markdown import bullets, goal_in_words, table

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

REMARKS: dict[str, str] = {
    "matmul_t64_d16_u4": (
        "The tolerance of a sum was too narrow: among four million elements, one is that far off by chance. It "
        "counts the sum itself since then; this figure was not taken again."
    ),
}
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
_PHASES = ("compile", "rehearsal", "referee_turn", "referee_context", "referee_verify", "referee_time")


def section(records: Mapping[str, Record]) -> str:
    """From `throughput.json` where there is one, else from what the benchmark before it saved."""
    new = records.get("throughput")
    return _from_outside(new) if new else _by_graders(records["gpu_throughput"])


def wrong_verdicts(records: Mapping[str, Record]) -> Iterator[str]:
    """The names of the kernels that the results call wrongly judged."""
    record = records.get("throughput") or records["gpu_throughput"]
    yield from (_name(text) for text in record["details"]["wrong"])


def _from_outside(record: Record) -> str:
    figures, goals = record["figures"], record["goals"]
    rows, spent = [], []
    for name, said in _PASSES:
        each = figures.get(f"{name}_per_minute")
        if each is None:
            continue
        seconds = (f"{figures[f'{name}_{what}_s_each']:.3g}" for what in ("cpu", "gpu"))
        usd = f"{figures[f'{name}_usd_a_thousand']:.2f}"
        goal = goal_in_words(each, goals.get(f"{name}_per_minute"))
        rows.append((said, f"**{each:.0f}**", goal, f"{figures[f'{name}_p50_s']:.3g}", *seconds, usd))
        if f"{name}_referee_s_each" in figures:
            shares = (f"{1e3 * figures.get(f'{name}_{phase}_s_each', 0.0):.0f}" for phase in _PHASES)
            spent.append((said, *shares, f"{100 * figures[f'{name}_referee_busy_share']:.0f} %"))
    wrong = [_wrong(text) for text in record["details"]["wrong"]]
    head = ("", "a minute", "goal", "p50, s", "core, s each", "GPU, s each", "USD a thousand")
    return f"""## Evaluations a minute

Asked for by {figures["clients"]:.0f} clients of a service with {figures["workers"]:.0f} workers on \
{figures["cores"]:.0f} cores and {figures["gpus"]:.0f} GPU(s), with {figures["referees_per_gpu"]:.0f} referee(s) on
each: kernels such as a policy writes, half of them far slower than PyTorch, a third bad. What a verdict costs is \
reckoned at {figures["gpu_usd_an_hour"]:g} USD
an hour of a GPU, busy or not, and {figures["core_usd_an_hour"]:g} USD an hour of a core that is used.

{table(head, rows)}
Where the time of an evaluation goes, milliseconds each:

{table(("", *(phase.replace("_", ", ") for phase in _PHASES), "referees busy"), spent)}
{f"Wrong verdicts: {len(wrong)} (goal: 0, missed)." if wrong else "No verdict was wrong."}
{bullets(wrong) if wrong else ""}"""


def _by_graders(record: Record) -> str:
    figures, goals = record["figures"], record["goals"]
    rows = []
    for name, contexts, precision, cache in _THROUGHPUT:
        each = figures.get(f"{name}_per_minute")
        if each is not None:
            goal = goals.get(f"{name}_per_minute")
            launches = f"{figures[f'{name}_launches_p50']:.0f}"
            rows.append((contexts, precision, cache, f"**{each:.0f}**", goal_in_words(each, goal), launches))
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
evaluation compiles, verifies all trials and times against PyTorch. The benchmark that gave these figures has been
replaced since by `benchmarks/gpu/throughput.py`, which measures a service from outside and has no results yet.

{table(head, rows)}
**{least:g} a minute {verdict}**: {figures["reused_warm_per_minute"]:.0f} with reused contexts at a precision of \
1 %, {figures["reused_coarse_warm_per_minute"]:.0f} at 3 %.
With a context for each, {figures["single_cold_per_minute"]:.0f} (cold) and {figures["single_warm_per_minute"]:.0f} \
(warm), against a goal of {goals["single_cold_per_minute"][1]:g}.
The GPU's referee is what there is not enough of: it was busy {100 * busy[0]:.0f} to {100 * busy[-1]:.0f} % of the \
warm passes, {each_ms[0]:.0f} ms an
evaluation with single-use contexts, {each_ms[1]:.0f} ms with reused ones, {each_ms[2]:.0f} ms at 3 %. Where the \
time of an evaluation went,
with single-use contexts:

{table(("share of an evaluation's time", "cold", "warm"), spent)}
KernelBench's way is a process of its own for each kernel, which is built with `load_inline`, compared with PyTorch on
5 inputs and timed in 100 launches (`benchmarks/gpu/kernelbench_way.py`, written from its published description):
{figures["kernelbench_cold_evaluations"]:.0f} of the same kernels, all at once, \
{figures["kernelbench_cold_seconds_each"]:.0f} s each cold and {figures["kernelbench_warm_seconds_each"]:.0f} s with
its build cache. Cold and with single-use contexts, Assay does {figures["times_kernelbench_cold"]:.0f} times as many.

{f"Wrong verdicts: {len(wrong)} (goal: 0, missed)." if wrong else "No verdict was wrong."}
{bullets(wrong)}"""


def _wrong(text: str) -> str:
    """A wrong verdict with what is known about it."""
    return f"`{_name(text)}`: {text.partition(' was ')[2]} {REMARKS[_name(text)]}"


def _name(text: str) -> str:
    return text.partition(": ")[2].split(" ")[0]
