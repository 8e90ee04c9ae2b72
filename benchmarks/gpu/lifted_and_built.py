"""Files with host code on a GPU: lifted and replayed by us, and built and called as their authors mean them to be.

    python benchmarks/gpu/lifted_and_built.py [--seconds 300]

Each file of `tests/kernels/solve` and each one made wrong is (a) graded: its host code recorded without a GPU, the
recorded steps launched by our runner, and (b) compiled by nvcc into a shared library whose `solve` is called with
PyTorch's tensors. Both are held against the same oracle and tolerance, and both are timed at the problem's timing
sizes with a cold L2: (a) by the referee, (b) with CUDA events around the call, its own allocations and host time in
it.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "kernels" / "solve"))

from rich.console import Console
from rich.table import Table
from test_solve_files import FILES, WRONG, header

from benchmarks._support.built_solve import BuiltError, called_as, shared_library
from benchmarks._support.call_solve import c_argument, entry_of
from benchmarks._support.one_gpu import one_gpu
from benchmarks._support.record import save
from common.contract import Settings, Status, Submission
from evaluator.pipeline.build import build
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.stage_values import SubmittedSource
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.catalogue import find_problem
from evaluator.settings import MachineSettings
from evaluator.stages.lift.binding import call_values

_TIMED, _WARM_UPS = 30, 5
_L2_BYTES = 256 << 20
"""More than any L2 holds: written between two timed calls."""
_MAY_DIFFER = 0.25
"""Share by which the replayed and the built form's times may differ before a row is said to be unlike."""

Row = dict[str, Any]


def _cases() -> list[tuple[str, str, bool]]:
    """Name, source and whether it is right."""
    sources = {path.stem: path.read_text() for path in FILES}
    wrong = [(f"{name} (wrong)", sources[name].replace(*change), False) for name, change in WRONG.items()]
    return [*((name, source, True) for name, source in sources.items()), *wrong]


def _prepare(case: tuple[str, str, bool], toolbox: Toolbox, arch: str, folder: Path) -> Row:
    """The shared library, and how its entry function is called; fills our compile cache on the way."""
    name, source, right = case
    problem = find_problem(header(source)["problem"])
    task: Row = {"name": name, "problem": problem.id, "right": right}
    build(SubmittedSource(problem, source.encode(), None, Settings(), arch, None), toolbox)
    call = called_as(source, problem, toolbox, arch)
    task["entry"] = call.entry.name
    task["binding"] = call.binding.names
    task["parameters"] = [one.model_dump() for one in call.parameters]
    began_s = time.monotonic()
    try:
        library = shared_library(source, f"{name.split()[0]}_{right}", toolbox.toolchain, arch, folder)
    except BuiltError as failed:
        return {**task, "why": str(failed)}
    return {**task, "library": str(library), "build_s": round(time.monotonic() - began_s, 2)}


def _called(task: Row) -> Row:
    """The built form, in this process: right or not, and its time, µs."""
    import numpy as np
    import torch

    from evaluator.backends.gpu.tensors import TorchRng
    from evaluator.stages.lift.binding import HostParameter
    from evaluator.stages.verify.comparison import compare_output

    problem = find_problem(task["problem"])
    function = entry_of(task["library"], task["entry"])
    parameters = [HostParameter.model_validate(one) for one in task["parameters"]]
    rng = TorchRng(1234, "cuda")

    def prepared(sizes: Any) -> tuple[dict[str, Any], dict[str, Any], list[Any]]:
        inputs = problem.distributions[0].draw(rng, sizes)
        outputs = {
            one.name: torch.full(one.shape_at(sizes), 77, dtype=getattr(torch, one.dtype.value), device="cuda")
            for one in problem.outputs
        }
        ordered = [{**inputs, **outputs}[one.name] for one in (*problem.inputs, *problem.outputs)]
        addresses = [tensor.data_ptr() for tensor in ordered]
        values = call_values(problem, task["binding"], parameters, sizes, {})
        pairs = zip(values, parameters, strict=True)
        arguments = [c_argument(value, one.kind, one.bytes, addresses) for value, one in pairs]
        torch.cuda.synchronize()
        return inputs, outputs, arguments

    wrong = []
    hidden = problem.hidden_sizes(np.random.default_rng(5))[:4]
    for sizes in (problem.example_sizes[0], *hidden, problem.timing_sizes):
        inputs, outputs, arguments = prepared(sizes)
        function(*arguments)
        torch.cuda.synchronize()
        for name, expected in problem.oracle(inputs, sizes).items():
            mismatch = compare_output(name, outputs[name], expected, problem.tolerance, 0xFF).mismatch
            if mismatch is not None:
                wrong.append(str(sizes))
    inputs, outputs, arguments = prepared(problem.timing_sizes)
    flush = torch.empty(_L2_BYTES, dtype=torch.int8, device="cuda")
    times_us = []
    for number in range(_WARM_UPS + _TIMED):
        flush.fill_(number % 100)
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        function(*arguments)
        end.record()
        torch.cuda.synchronize()
        times_us.append(begin.elapsed_time(end) * 1000)
    return {"right": not wrong, "wrong_at": wrong, "latency_us": round(statistics.median(times_us[_WARM_UPS:]), 3)}


def _call_all(path: Path) -> None:
    """The child: one line of JSON for each task of the file."""
    for line in path.read_text().splitlines():
        task = json.loads(line)
        print(json.dumps({"name": task["name"], **_called(task)}), flush=True)


def _built_results(tasks: list[Row], folder: Path, until_s: float) -> dict[str, Row]:
    """By name; a task that ends its process is left out, and the others go on in the next."""
    found: dict[str, Row] = {}
    waiting = list(tasks)
    while waiting and time.monotonic() < until_s:
        listed = folder / "tasks"
        listed.write_text("\n".join(json.dumps(task) for task in waiting))
        child = [sys.executable, __file__, "--call", str(listed)]
        try:
            run = subprocess.run(child, capture_output=True, text=True, timeout=max(1, until_s - time.monotonic()))
            said, why = run.stdout, run.stderr[-600:]
        except subprocess.TimeoutExpired as late:
            said, why = (late.stdout or b"").decode(), "out of time"
        for line in said.splitlines():
            row = json.loads(line)
            found[row.pop("name")] = row
        waiting = [task for task in waiting if task["name"] not in found]
        if waiting:
            found[waiting[0]["name"]] = {"right": False, "wrong_at": [f"process ended: {why}"], "latency_us": None}
            del waiting[0]
    return found


def _lifted_verdict(source: str, toolbox: Toolbox) -> Row:
    began_s = time.monotonic()
    submission = Submission(problem=header(source)["problem"], source=source, backend="gpu")
    verdict = evaluate(submission, toolbox)
    timing = verdict.timing
    return {
        "status": verdict.status.value,
        "message": verdict.message,
        "latency_us": timing.latency_us if timing else None,
        "seconds": round(time.monotonic() - began_s, 2),
    }


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--seconds", type=float, default=300, help="what is done by then is saved")
    asked.add_argument("--call", type=Path, help=argparse.SUPPRESS)
    asked.add_argument("--only", default="", help="files with this in their names alone; nothing is saved")
    options = asked.parse_args()
    if options.call:
        _call_all(options.call)
        return
    until_s = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory(prefix="assay-") as named:
        folder = Path(named)
        toolbox = Toolbox(MachineSettings(folder / "data", gpu=one_gpu(), jobs_per_runner=1, referee_idle_s=300))
        try:
            rows, device = _measured(toolbox, folder, until_s, options.only)
        finally:
            os.kill(toolbox.gpu.facts()["pid"], signal.SIGTERM)
    _report(rows, device, keep=not options.only)


def _measured(toolbox: Toolbox, folder: Path, until_s: float, only: str) -> tuple[list[Row], str]:
    arch, device = toolbox.gpu.arch, str(toolbox.gpu.facts().get("name", "GPU"))
    cases = [case for case in _cases() if only in case[0]]
    with ThreadPoolExecutor(max(2, (os.cpu_count() or 2) - 2)) as pool:
        tasks = list(pool.map(lambda case: _prepare(case, toolbox, arch, folder), cases))
    rows = []
    for (name, source, right), task in zip(cases, tasks, strict=True):
        if time.monotonic() > until_s - 60:
            break
        rows.append({"name": name, "right": right, "lifted": _lifted_verdict(source, toolbox), "task": task})
    built = _built_results([row["task"] for row in rows if "library" in row["task"]], folder, until_s)
    for row in rows:
        task = row.pop("task")
        row["built"] = built.get(row["name"]) or {"right": None, "why": task.get("why", "out of time")}
        row["build_s"] = task.get("build_s")
    return rows, device


def _report(rows: list[Row], device: str, keep: bool) -> None:
    table = Table("file", "lifted", "µs", "built", "µs", "lifted / built", title="lifted and built")
    agree, ratios = 0, []
    both = [row for row in rows if row["built"]["right"] is not None]
    for row in rows:
        lifted, built = row["lifted"], row["built"]
        agree += built["right"] is not None and built["right"] is (lifted["status"] == Status.PASSED)
        ratio = None
        if lifted["latency_us"] and built.get("latency_us") and built["right"]:
            ratio = lifted["latency_us"] / built["latency_us"]
            ratios.append(ratio)
        said = {True: "right", False: "wrong", None: "-"}[built["right"]]
        table.add_row(
            row["name"],
            lifted["status"],
            f"{lifted['latency_us'] or 0:.2f}",
            said,
            f"{built.get('latency_us') or 0:.2f}",
            f"{ratio:.2f}" if ratio else "",
        )
    Console(width=130).print(table)
    figures = {
        "files": len(rows),
        "right_passed": sum(row["right"] and row["lifted"]["status"] == Status.PASSED for row in rows),
        "right": sum(row["right"] for row in rows),
        "wrong_passed": sum(not row["right"] and row["lifted"]["status"] == Status.PASSED for row in rows),
        "compared": len(both),
        "mismatches": len(both) - agree,
        "time_ratio_median": statistics.median(ratios) if ratios else 0.0,
        "times_unlike": sum(abs(ratio - 1) > _MAY_DIFFER for ratio in ratios),
    }
    goals = {"wrong_passed": ("<=", 0.0), "mismatches": ("<=", 0.0)}
    if not keep:
        return
    sys.exit(0 if save("lifted_and_built", figures, goals, device=device, details={"files": rows}) else 1)


if __name__ == "__main__":
    main()
