"""The host tier on a GPU: whether its corpus ends as it must, what its clock shows, and where its time goes.

    python benchmarks/gpu/host_tier.py OUT.json [--only PART] [--after NAME] [--seconds 300] [--stand-in]

corpus: each file of `tests/adversarial/host`, and whether it ended as its header says. agreement: each Triton
solution of `tests/kernels/triton` in both tiers: the same status, and both times. clock: PyTorch's own operator as a
submission, at growing sizes, by the referee's clock and by CUDA events. stages: where an evaluation's seconds go.
builds: each solution of `tests/kernels/kernelbench`, whose C++ is compiled for it, recorded and run.
`--stand-in` runs it without a GPU, on the processor: that shows that the program works, and no figure of it means
anything.
"""

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks._support.one_gpu import one_gpu
from common.contract import Settings, Status, Submission, Verdict
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings

_TESTS: Final = Path(__file__).parents[2] / "tests"
_HEADER: Final = r"^# (problem|dialect|expect|run_timeout_s): (.*)$"
_SIZES: Final = (1 << 12, 1 << 16, 1 << 20, 1 << 24)
_REPEATS: Final = 10
PLAIN: Final = """import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
"""

Row = dict[str, Any]


class Bench:
    """One toolbox, and the time that is left."""

    def __init__(self, toolbox: Toolbox, seconds: float, stand_in: bool, after: str = "") -> None:
        self.toolbox, self.stand_in, self.after = toolbox, stand_in, after
        self._until_s = time.monotonic() + seconds

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self._until_s

    def graded(self, problem: str, source: str, dialect: str, **settings: Any) -> tuple[Verdict, float]:
        """A verdict, and how long it took, seconds."""
        began_s = time.monotonic()
        submission = Submission.model_validate(
            {"problem": problem, "source": source, "dialect": dialect, "settings": Settings(**settings)}
        )
        return evaluate(submission, self.toolbox), time.monotonic() - began_s


def corpus(bench: Bench) -> Iterator[Row]:
    """Each file, how it ended, and whether it should have."""
    for path in sorted((_TESTS / "adversarial" / "host").glob("*.py")):
        if path.stem <= bench.after:
            continue
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
    for path in sorted((_TESTS / "kernels" / "triton").glob("*.py")):
        found = re.search(r"^# problem: (.*)$", path.read_text(), re.MULTILINE)
        if found is None:
            continue
        row: Row = {"name": path.stem, "problem": found[1]}
        for tier, asked in (("device", "off"), ("host", "always")):
            verdict, took_s = bench.graded(found[1], path.read_text(), "triton", host_tier=asked)
            row[tier] = {"status": verdict.status.value, "seconds": round(took_s, 2), "message": verdict.message}
            if verdict.timing is not None:
                row[tier] |= {"latency_us": verdict.timing.latency_us, "speedup": verdict.timing.speedup}
        row["right"] = row["device"]["status"] == row["host"]["status"]
        yield row


def builds(bench: Bench) -> Iterator[Row]:
    """Each solution with `load_inline`, recorded, and compiled and run: the same status, and both times."""
    for path in sorted((_TESTS / "kernels" / "kernelbench").glob("*.py")):
        found = re.search(r"^# problem: (.*)$", path.read_text(), re.MULTILINE)
        if found is None or "load_inline" not in path.read_text():
            continue
        row: Row = {"name": path.stem, "problem": found[1]}
        for tier, asked in (("device", "off"), ("host", "always")):
            verdict, took_s = bench.graded(found[1], path.read_text(), "kernelbench", host_tier=asked)
            row[tier] = {"status": verdict.status.value, "seconds": round(took_s, 2), "message": verdict.message}
            if verdict.receipt is not None:
                row[tier]["phases_s"] = dict(verdict.receipt.phases_s)
            if verdict.timing is not None:
                row[tier] |= {"latency_us": verdict.timing.latency_us, "speedup": verdict.timing.speedup}
        row["right"] = row["device"]["status"] == row["host"]["status"]
        yield row


def clock(bench: Bench) -> Iterator[Row]:
    """One operator at growing sizes, by both clocks."""
    for size in _SIZES:
        verdict, _ = bench.graded(
            "relu", PLAIN, "kernelbench", host_tier="always", verification="quick", sizes={"n": size}
        )
        row: Row = {
            "name": f"relu n={size}",
            "status": verdict.status.value,
            "right": verdict.status is Status.PASSED,
        }
        timing = verdict.timing
        if timing is not None:
            row |= {
                "latency_us": timing.latency_us,
                "null_us": timing.null_us,
                "resolution_us": timing.resolution_us,
                "speedup": [timing.speedup_low, timing.speedup, timing.speedup_high],
            }
        elif verdict.correctness is not None:
            row["warnings"] = list(verdict.correctness.warnings)
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
    for number in range(_REPEATS):
        verdict, took_s = bench.graded("relu", PLAIN, "kernelbench", host_tier="always")
        phases_s = dict(verdict.receipt.phases_s) if verdict.receipt else {}
        right = verdict.status is Status.PASSED
        yield {"name": f"evaluation {number + 1}", "right": right, "seconds": round(took_s, 2), "phases_s": phases_s}


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
    parser.add_argument("--after", default="", help="a file of the corpus: those before it and itself are left out")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--stand-in", action="store_true")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="assay-host-") as folder:
        if wanted.stand_in:
            sys.path.insert(0, str(_TESTS / "evaluator"))
            from host_tier import host_toolbox

            toolbox: Toolbox = host_toolbox(Path(folder))
        else:
            toolbox = Toolbox(MachineSettings(Path(folder), gpu=one_gpu(), host_tier="on"))
        bench = Bench(toolbox, wanted.seconds, wanted.stand_in, wanted.after)
        found: dict[str, list[Row]] = {}
        for name in [wanted.only] if wanted.only else list(_PARTS):
            found[name] = []
            for row in _PARTS[name](bench):
                found[name].append(row)
                # After each: a machine may be taken back in the middle.
                wanted.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
                print(name, json.dumps({key: value for key, value in row.items() if key != "message"}), flush=True)
                if bench.over:
                    break
        if wanted.stand_in:
            toolbox.gpu.runtime.close()  # type: ignore[union-attr]
    wrong = [row["name"] for rows in found.values() for row in rows if not row["right"]]
    print(f"{sum(map(len, found.values()))} rows, {len(wrong)} of them not as they should be: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
