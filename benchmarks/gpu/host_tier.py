"""The host tier on a GPU: whether its corpus ends as it must, what its clock shows, and where its time goes.

    python benchmarks/gpu/host_tier.py OUT.json [--only PART] [--after NAME] [--seconds 300] [--repeats N]
        [--stand-in]
    python benchmarks/gpu/host_tier.py OUT.json --report DEVICE

corpus: each file of `tests/adversarial/host`, and whether it ended as its header says. agreement: each Triton
solution of `tests/kernels/triton` in both tiers: the same status, both times, and how they repeat (of the device tier
those of all repetitions so far, which it pools). clock: PyTorch's own operator as a submission, at growing sizes, by
the referee's clock and by CUDA events. stages: where an evaluation's seconds go. builds: each solution of
`tests/kernels/kernelbench`, whose C++ is compiled for it, recorded and run.

Each row is written as soon as it is known. Rows that OUT.json has already are kept and not made again, so another
call makes what a time limit left out. `--stand-in` runs it without a GPU, on the processor: that shows that the
program works, and no figure of it means anything. `--report` runs nothing and needs no GPU: it saves
`results/host_tier.json` of the rows in OUT.json, which DEVICE gave.
"""

import argparse
import contextlib
import json
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks._support.one_gpu import its_referee, with_one_referee
from benchmarks._support.record import save
from common.contract import Settings, Status, Submission, Verdict
from common.file_replacement import replace_file
from evaluator.cancellation import CancelledError, CancelToken
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox

_TESTS: Final = Path(__file__).parents[2] / "tests"
_HEADER: Final = r"^# (problem|dialect|expect|run_timeout_s): (.*)$"
_SIZES: Final = (1 << 12, 1 << 16, 1 << 20, 1 << 24)
_REPEATS: Final = 10
_IDLE_S: Final = 60.0
_QUICKLY: Final = {"verification": "quick", "rehearse": False}
"""Where it is about both tiers' times: a full verification compiles Triton's kernels again for each set of sizes."""
_ENDING_S: Final = 3.0
"""Of the time, for an evaluation that is let go, and for what was started to end."""
PLAIN: Final = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
"""

Row = dict[str, Any]


class Bench:
    """One toolbox, the time that is left, and what need not be done."""

    def __init__(self, toolbox: Toolbox, seconds: float, stand_in: bool, after: str = "", repeats: int = 1) -> None:
        self.stand_in, self.after, self.repeats = stand_in, after, repeats
        self.known: set[str] = set()
        """Names of the part's rows that are there already."""
        self._token = CancelToken()
        self._toolbox = toolbox.bound_to(self._token)
        self._timer = threading.Timer(seconds, self._token.cancel)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """No more."""
        self._timer.cancel()

    def left(self, names: Iterable[str]) -> list[str]:
        """Those that are to be done, in their order. Raises CancelledError when the time is up."""
        self._token.check()
        return [name for name in names if name > self.after and name not in self.known]

    def graded(self, problem: str, source: str, dialect: str, **settings: Any) -> tuple[Verdict, float]:
        """A verdict, and how long it took, seconds. Raises CancelledError when the time is up."""
        began_s = time.monotonic()
        submission = Submission.model_validate(
            {"problem": problem, "source": source, "dialect": dialect, "settings": Settings(**settings)}
        )
        verdict = evaluate(submission, self._toolbox)
        self._token.check()
        return verdict, time.monotonic() - began_s

    def in_both_tiers(self, name: str, source: str, dialect: str) -> Row:
        """A solution recorded and run: the same status, and the times of all repetitions."""
        found = re.search(r"^# problem: (.*)$", source, re.MULTILINE)
        assert found is not None
        row: Row = {"name": name, "problem": found[1]}
        for tier, asked in (("device", "off"), ("host", "always")):
            times: list[dict[str, float]] = []
            for number in range(self.repeats):
                verdict, took_s = self.graded(found[1], source, dialect, host_tier=asked, **_QUICKLY)
                if not number:
                    row[tier] = {"status": verdict.status.value, "seconds": round(took_s, 2)}
                    row[tier]["message"] = verdict.message
                    if verdict.receipt is not None:
                        row[tier]["phases_s"] = dict(verdict.receipt.phases_s)
                if verdict.timing is None:
                    row[tier]["untimed"] = _warnings(verdict)
                    break
                times.append({"latency_us": verdict.timing.latency_us, "speedup": verdict.timing.speedup})
                if tier == "host":
                    row[tier]["null_us"] = verdict.timing.null_us
            if times:
                row[tier] |= times[0] | {"times": times}
            for what in ("latency_us", "speedup") if len(times) > 1 else ():
                row[tier][f"{what}_spread"] = _spread([one[what] for one in times])
        row["right"] = row["device"]["status"] == row["host"]["status"]
        return row


def _spread(values: list[float]) -> float:
    """Of the same evaluation again and again: by what share of their middle the values differ."""
    return round((max(values) - min(values)) / statistics.median(values), 4)


def _warnings(verdict: Verdict) -> list[str]:
    return list(verdict.correctness.warnings) if verdict.correctness else []


def corpus(bench: Bench) -> Iterator[Row]:
    """Each file, how it ended, and whether it should have."""
    folder = _TESTS / "adversarial" / "host"
    for name in bench.left(path.stem for path in sorted(folder.glob("*.py"))):
        path = folder / f"{name}.py"
        head = dict(re.findall(_HEADER, path.read_text(), re.MULTILINE))
        verdict, took_s = bench.graded(
            head["problem"],
            path.read_text(),
            head.get("dialect", "kernelbench"),
            host_tier="always",
            verification="quick",
            timing=False,
            run_timeout_s=float(head.get("run_timeout_s", 30)),
        )
        right = verdict.status.value in head["expect"].split("|")
        yield {
            "name": path.stem,
            "status": verdict.status.value,
            "expect": head["expect"],
            "right": right,
            "seconds": round(took_s, 2),
            "message": verdict.message,
        }


def agreement(bench: Bench) -> Iterator[Row]:
    """Each Triton solution, recorded and run."""
    folder = _TESTS / "kernels" / "triton"
    texts = {path.stem: path.read_text() for path in sorted(folder.glob("*.py"))}
    for name in bench.left(name for name, text in texts.items() if "# problem: " in text):
        yield bench.in_both_tiers(name, texts[name], "triton")


def builds(bench: Bench) -> Iterator[Row]:
    """Each solution with `load_inline`, recorded, and compiled and run."""
    folder = _TESTS / "kernels" / "kernelbench"
    texts = {path.stem: path.read_text() for path in sorted(folder.glob("*.py"))}
    for name in bench.left(name for name, text in texts.items() if "# problem: " in text and "load_inline" in text):
        yield bench.in_both_tiers(name, texts[name], "kernelbench")


def clock(bench: Bench) -> Iterator[Row]:
    """One operator at growing sizes, by both clocks."""
    sizes = {f"relu n={size}": size for size in _SIZES}
    for name in bench.left(sizes):
        size = sizes[name]
        verdict, took_s = bench.graded(
            "relu", PLAIN, "kernelbench", host_tier="always", verification="quick", sizes={"n": size}
        )
        row: Row = {
            "name": name,
            "status": verdict.status.value,
            "seconds": round(took_s, 2),
            "right": verdict.status is Status.PASSED,
        }
        timing = verdict.timing
        if timing is not None:
            row |= {
                "latency_us": timing.latency_us,
                "null_us": timing.null_us,
                "resolution_us": timing.resolution_us,
                "launches": timing.launches,
                "speedup": [timing.speedup_low, timing.speedup, timing.speedup_high],
            }
        else:
            row["warnings"] = _warnings(verdict)
        if not bench.stand_in:
            row["events_us"] = _by_events(size)
        yield row


def _by_events(size: int) -> float:
    """The same operator in this process, by CUDA events, µs."""
    import torch

    x = torch.randn(size, device="cuda")
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    times_us = []
    for _ in range(50):
        begin.record()
        torch.relu(x)
        end.record()
        end.synchronize()
        times_us.append(begin.elapsed_time(end) * 1000)
    return statistics.median(times_us)


def stages(bench: Bench) -> Iterator[Row]:
    """Where the seconds of one evaluation go, again and again."""
    for name in bench.left(f"evaluation {number}" for number in range(1, _REPEATS + 1)):
        verdict, took_s = bench.graded("relu", PLAIN, "kernelbench", host_tier="always")
        phases_s = dict(verdict.receipt.phases_s) if verdict.receipt else {}
        right = verdict.status is Status.PASSED
        yield {"name": name, "right": right, "seconds": round(took_s, 2), "phases_s": phases_s}


def _short(row: Row) -> Row:
    """What is printed of it: all but repetitions, and more of the tiers where they do not end alike."""
    left_out = {"times", "message"} if row["right"] else {"times"}
    tiers = {
        tier: {key: value for key, value in row[tier].items() if key not in left_out | {"phases_s"}}
        for tier in ("device", "host")
        if tier in row
    }
    return {key: value for key, value in row.items() if key not in left_out} | tiers


def figures(rows: Mapping[str, Sequence[Row]]) -> dict[str, float]:
    """What the rows of all parts say together; of a part without rows, nothing."""
    found: dict[str, float] = {"wrong": sum(not row["right"] for part in rows.values() for row in part)}
    if of_corpus := rows.get("corpus"):
        found["corpus_files"] = len(of_corpus)
    both = [row for part in ("agreement", "builds") for row in rows.get(part, ())]
    timed = [
        (row["device"], row["host"]) for row in both if all("latency_us" in row[one] for one in ("device", "host"))
    ]
    if timed:
        longer = [host["latency_us"] - device["latency_us"] for device, host in timed]
        found |= {
            "in_both_tiers": len(both),
            "timed_in_both": len(timed),
            "host_longer_us_median": statistics.median(longer),
            "host_longer_us_least": min(longer),
            "host_longer_us_most": max(longer),
        }
    for at, tier in enumerate(("device", "host")):
        for what in ("latency_us", "speedup"):
            spreads = [pair[at][f"{what}_spread"] for pair in timed if f"{what}_spread" in pair[at]]
            if spreads:
                found[f"{tier}_{what.removesuffix('_us')}_spread_median"] = statistics.median(spreads)
    if of_clock := [row for row in rows.get("clock", ()) if "resolution_us" in row]:
        found["resolution_us_median"] = statistics.median(row["resolution_us"] for row in of_clock)
        found["null_us_median"] = statistics.median(row["null_us"] for row in of_clock)
    if of_stages := rows.get("stages"):
        found["evaluation_s_median"] = statistics.median(row["seconds"] for row in of_stages)
    return found


_PARTS: Final[dict[str, Callable[[Bench], Iterator[Row]]]] = {
    "corpus": corpus,
    "agreement": agreement,
    "clock": clock,
    "stages": stages,
    "builds": builds,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", choices=tuple(_PARTS))
    parser.add_argument("--after", default="", help="a file of a part: those before it and itself are left out")
    parser.add_argument("--repeats", type=int, default=1, help="of what `agreement` and `builds` time")
    parser.add_argument("--seconds", type=float, default=300.0, help="until all is over, an evaluation that runs too")
    parser.add_argument("--stand-in", action="store_true")
    parser.add_argument("--report", default="", metavar="DEVICE", help="judge nothing more; on what it was measured")
    wanted = parser.parse_args()
    if wanted.report:
        rows = json.loads(wanted.out.read_text())
        goals = {"wrong": ("<=", 0.0)}
        save("host_tier", figures(rows), goals, device=wanted.report, measured_here=False, details=rows)
        return
    until_s = time.monotonic() + wanted.seconds
    found: dict[str, list[Row]] = json.loads(wanted.out.read_text()) if wanted.out.exists() else {}
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-host-", ignore_cleanup_errors=True))
        )
        if wanted.stand_in:
            sys.path.insert(0, str(_TESTS / "evaluator"))
            from host_tier import host_toolbox

            toolbox: Toolbox = host_toolbox(folder)
            stack.callback(toolbox.gpu.runtime.close)  # type: ignore[union-attr]
        else:
            toolbox = Toolbox(with_one_referee(folder, host_tier="on", referee_idle_s=_IDLE_S))
            stack.enter_context(its_referee(toolbox))
        left_s = until_s - time.monotonic() - _ENDING_S
        bench = Bench(toolbox, left_s, wanted.stand_in, wanted.after, wanted.repeats)
        stack.callback(bench.end)
        try:
            for name in [wanted.only] if wanted.only else list(_PARTS):
                rows = found.setdefault(name, [])
                bench.known = {row["name"] for row in rows}
                for row in _PARTS[name](bench):
                    rows.append(row)
                    # After each: a machine may be taken back in the middle.
                    replace_file(wanted.out, json.dumps(found, indent=1) + "\n")
                    print(name, json.dumps(_short(row)), flush=True)
        except CancelledError:
            print("the time is up", flush=True)
    wrong = [row["name"] for rows in found.values() for row in rows if not row["right"]]
    print(f"{sum(map(len, found.values()))} rows, {len(wrong)} of them not as they should be: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
