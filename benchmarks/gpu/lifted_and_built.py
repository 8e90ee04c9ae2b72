"""Files with host code on a GPU: lifted and replayed by us, and built and called as their authors mean them to be.

    python benchmarks/gpu/lifted_and_built.py [--seconds 300] [--rows ROWS.jsonl] [--only TEXT]

Each file of `tests/kernels/solve` and each one made wrong is (a) graded, quickly: its host code recorded without a
GPU, the recorded steps launched by our runner, and (b) compiled by nvcc into a shared library whose `solve` is called
with PyTorch's tensors. Both are held against the same oracle and tolerance, and both are timed at the problem's
timing sizes with a cold L2: (a) by the referee, (b) with CUDA events around the call, its own allocations and host
time in it. `--rows`: each part of a row is added to it as soon as it is known, and what it has already is not done
again.
"""

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "kernels" / "solve"))

from rich.console import Console
from rich.table import Table
from test_solve_files import FILES, WRONG, header

from benchmarks._support.built_solve import called_as, shared_library, symbol_of
from benchmarks._support.call_solve import c_argument, entry_of
from benchmarks._support.one_gpu import its_referee, the_gpu, with_one_referee
from benchmarks._support.record import save
from common.contract import Settings, Status, Submission
from evaluator.cancellation import CancelToken
from evaluator.pipeline.build import build
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.stage_values import SubmittedSource
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.catalogue import find_problem
from evaluator.stages.lift.binding import call_values

_QUICKLY = Settings(verification="quick", rehearse=False)
"""Of the recorded form: on the simulator a file takes ten seconds in which the GPU waits, and all are tried there by
tests."""
_TIMED, _WARM_UPS = 30, 5
_L2_BYTES = 256 << 20
"""More than any L2 holds: written between two timed calls."""
_ENDING_S = 5.0
"""Of the time, for the referee to end and for the report."""
_CALLS_S, _CALL_S = 15.0, 3.0
"""Kept for the built form: its process to start, and each file's calls."""
_PART_S = 30.0
"""With less nothing more is built: for as many files as there are processors it takes most of that."""
_HANGS_S = 40
"""After which a file's calls are given up, PyTorch's start and the answers in float64 included."""
_MAY_DIFFER = 0.25
"""Share by which the replayed and the built form's times may differ before a row is said to be unlike."""

Row = dict[str, Any]


def _cases() -> list[tuple[str, str, bool]]:
    """Name, source and whether it is right; what was made wrong of one follows it, so a part has some of both."""
    sources = {path.stem: path.read_text() for path in FILES}
    wrong = [(f"{name} (wrong)", sources[name].replace(*change), False) for name, change in WRONG.items()]
    return sorted([*((name, source, True) for name, source in sources.items()), *wrong])


def _prepare(case: tuple[str, str, bool], toolbox: Toolbox, arch: str, folder: Path) -> Row:
    """The shared library, and how its entry function is called; fills our compile cache on the way. `why`: why there
    is none.
    """
    name, source, right = case
    problem = find_problem(header(source)["problem"])
    task: Row = {"name": name, "problem": problem.id}
    try:
        build(SubmittedSource(problem, source.encode(), None, Settings(), arch, None), toolbox)
        call = called_as(source, problem, toolbox, arch)
        began_s = time.monotonic()
        library = shared_library(source, f"{name.split()[0]}_{right}", toolbox.toolchain, arch, folder)
        task["build_s"] = round(time.monotonic() - began_s, 2)
        task["entry"] = symbol_of(library, call.entry.name)
    except Exception as failed:  # one file that does not build is a row, and the others follow
        return {**task, "why": repr(failed)[:2000]}
    task["binding"], task["initial"] = call.binding.names, call.binding.initial
    task["parameters"] = [one.model_dump() for one in call.parameters]
    return {**task, "library": str(library)}


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
        for source_name, target in task["initial"]:
            outputs[target].copy_(inputs[source_name] if source_name else torch.zeros_like(outputs[target]))
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
        signal.alarm(_HANGS_S)  # which ends the process, and with it the task
        print(json.dumps({"name": task["name"], **_called(task)}), flush=True)


def _after(seconds: float, act: Callable[[], None]) -> threading.Timer:
    """Does it then, unless it is cancelled; a process that ends does not wait for it."""
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
    return timer


def _built_results(tasks: list[Row], folder: Path, until_s: float) -> Iterator[Row]:
    """Each as soon as it is known; a task that ends its process is a row, and the others go on in the next."""
    waiting = list(tasks)
    while waiting and (left_s := until_s - time.monotonic()) > 0:
        listed, errors = folder / "tasks", folder / "errors"
        listed.write_text("\n".join(json.dumps(task) for task in waiting))
        command = [sys.executable, __file__, "--call", str(listed)]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": the_gpu().uuid}
        with errors.open("w") as file:
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True, env=environment)
        ended = _after(left_s, child.kill)
        assert child.stdout is not None
        for line in child.stdout:
            try:
                row = json.loads(line)
            except ValueError:  # the library's own words
                continue
            waiting = [task for task in waiting if task["name"] != row["name"]]
            yield row
        child.wait()
        ended.cancel()
        if waiting and time.monotonic() < until_s:
            why = f"process ended ({child.returncode}): {errors.read_text()[-600:]}"
            yield {"name": waiting.pop(0)["name"], "right": False, "wrong_at": [why], "latency_us": None}


def _lifted_verdict(source: str, toolbox: Toolbox) -> Row:
    began_s = time.monotonic()
    submission = Submission(problem=header(source)["problem"], source=source, backend="gpu", settings=_QUICKLY)
    verdict = evaluate(submission, toolbox)
    timing = verdict.timing
    return {
        "status": verdict.status.value,
        "message": verdict.message,
        "latency_us": timing.latency_us if timing else None,
        "seconds": round(time.monotonic() - began_s, 2),
    }


class Rows:
    """The rows so far, by name, and the file that keeps each part of one."""

    def __init__(self, file: Path | None) -> None:
        self.rows: dict[str, Row] = {}
        self._file = file
        for line in file.read_text().splitlines() if file and file.exists() else ():
            with contextlib.suppress(ValueError):  # one that was cut off
                part = json.loads(line)
                self.rows.setdefault(part["name"], {}).update(part)

    def add(self, name: str, **part: Any) -> None:
        """Keep it, and say it."""
        self.rows.setdefault(name, {"name": name}).update(part)
        if self._file is not None:
            with self._file.open("a") as file:
                file.write(json.dumps({"name": name, **part}) + "\n")
        print(name, json.dumps(part)[:300], flush=True)

    def lacking(self, names: Iterable[str], part: str) -> list[str]:
        """Those that have no such part yet."""
        return [name for name in names if part not in self.rows.get(name, {})]


def main() -> None:
    """Measure what is left, and save what is known; exit 1 if a goal is missed."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--seconds", type=float, default=300, help="until all is over; what is done by then is saved")
    asked.add_argument("--rows", type=Path, help="rows of earlier calls, and where those of this one are added")
    asked.add_argument("--call", type=Path, help=argparse.SUPPRESS)
    asked.add_argument("--only", default="", help="files with this in their names alone; nothing is saved")
    options = asked.parse_args()
    if options.call:
        _call_all(options.call)
        return
    until_s = time.monotonic() + options.seconds - _ENDING_S
    rows = Rows(options.rows)
    with tempfile.TemporaryDirectory(prefix="assay-", ignore_cleanup_errors=True) as named:
        folder = Path(named)
        settings = with_one_referee(folder / "data", jobs_per_runner=1, referee_idle_s=60)
        toolbox = Toolbox(settings)
        with its_referee(toolbox) as referee:
            device = referee.device
            cases = [case for case in _cases() if options.only in case[0]]
            _measure(cases, rows, toolbox, referee.arch, folder, until_s)
    _report([row for row in rows.rows.values() if "lifted" in row], device, keep=not options.only)


def _measure(
    cases: list[tuple[str, str, bool]], rows: Rows, toolbox: Toolbox, arch: str, folder: Path, until_s: float
) -> None:
    names = [name for name, _, _ in cases]
    wanted = {*rows.lacking(names, "lifted"), *rows.lacking(names, "built")}
    cases = [case for case in cases if case[0] in wanted]
    tasks: dict[str, Row] = {}
    token = CancelToken()
    bound = toolbox.bound_to(token)
    at_once = max(2, (os.cpu_count() or 2) - 2)
    for first in range(0, len(cases), at_once):
        part = cases[first : first + at_once]
        if until_s - time.monotonic() < _PART_S + _CALLS_S + (first + 1) * _CALL_S:
            break
        # All of a part first: a time that is taken beside compilers is none. Not all there is, which for a short time
        # would be for nothing.
        with ThreadPoolExecutor(at_once) as pool:
            tasks |= {
                task["name"]: task for task in pool.map(lambda case: _prepare(case, toolbox, arch, folder), part)
            }
        print(f"{len(tasks)} built, {until_s - time.monotonic():.0f} s are left", flush=True)
        for number, case in enumerate(part, first + 1):
            if not _lifted_by(until_s - _CALLS_S - number * _CALL_S, case, rows, bound, token):
                break
        if token.cancelled:
            break
    for name in rows.lacking([name for name in tasks if "lifted" in rows.rows.get(name, {})], "built"):
        if why := tasks[name].get("why"):
            rows.add(name, built={"right": None, "why": why}, build_s=None)
    left = rows.lacking([name for name in tasks if "lifted" in rows.rows.get(name, {})], "built")
    for found in _built_results([tasks[name] for name in left], folder, until_s):
        name = found.pop("name")
        rows.add(name, built=found, build_s=tasks[name]["build_s"])


def _lifted_by(until_s: float, case: tuple[str, str, bool], rows: Rows, toolbox: Toolbox, token: CancelToken) -> bool:
    """Have its verdict, if there is none yet; whether it came in time. `token`: the toolbox's, cancelled if not."""
    name, source, right = case
    if not rows.lacking([name], "lifted"):
        return True
    timer = _after(max(0.0, until_s - time.monotonic()), token.cancel)
    verdict = _lifted_verdict(source, toolbox)
    timer.cancel()
    if token.cancelled:  # then the verdict says no more than that
        return False
    rows.add(name, right=right, lifted=verdict)
    return True


def _report(rows: list[Row], device: str, keep: bool) -> None:
    table = Table("file", "lifted", "µs", "built", "µs", "lifted / built", title="lifted and built")
    agree, ratios = 0, []
    rows = [{"built": {"right": None, "why": "out of time"}, "build_s": None, **row} for row in rows]
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
