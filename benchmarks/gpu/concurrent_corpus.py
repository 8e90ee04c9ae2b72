"""The concurrent corpora on a GPU, a thousand times each, and under compute-sanitizer, beside Assay's verdicts.

    python benchmarks/gpu/concurrent_corpus.py [--times 1000] [--seconds 500] [--only TEXT …] [--workers 8]

Right kernels run first, then both corpora are put under memcheck, racecheck, synccheck and initcheck, then the wrong
ones run. Each file has a process of its own, which a hang ends: its plan is launched at the problem's published sizes
in turn, undefined memory holds another pattern each time, and every output is compared as the grader compares it.
There is no rehearsal. What is done when the time is up is saved. Assay's verdicts are those of `wrong_and_right.py`.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._support.one_gpu import one_gpu
from benchmarks._support.record import RESULTS, save
from common.contract import Settings, Submission
from evaluator.backends.gpu.device.health import gpus
from evaluator.backends.gpu.runner.runner import DeviceError
from evaluator.backends.gpu.runner.tool_target import placed
from evaluator.backends.gpu.shared_memory import BufferRegion, Layout, step_order
from evaluator.backends.gpu.tools.launch import ToolMissingError, ToolRunner
from evaluator.backends.gpu.tools.sanitizer import Sanitizer
from evaluator.backends.session import KernelLaunch, PlanRun
from evaluator.errors import Ruling
from evaluator.pipeline.build import build
from evaluator.pipeline.grading_job import GradingJob
from evaluator.pipeline.sim_referee import SimulatorReferee
from evaluator.pipeline.stage_values import Ending
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.arrays import NumpyRng
from evaluator.problems.catalogue import find_problem
from evaluator.problems.problem import Problem
from evaluator.settings import MachineSettings
from evaluator.stages.compile.line_table import with_lines

_TESTS: Final = Path(__file__).parents[2] / "tests"
_FOLDERS: Final = {
    "right": _TESTS / "kernels" / "right" / "concurrent",
    "wrong": _TESTS / "adversarial" / "wrong" / "concurrent",
}
_NAME: Final = "concurrent_corpus"
_PATTERNS: Final = (0x5B, 0xFF, 0x00)
"""Bytes of undefined memory, in turn."""
_FILE_S: Final = 60.0
"""A thousand runs took at most 25 s on an H200; what takes longer than this has no end."""
_LEFT_FOR_SAVING_S: Final = 8.0

Row = dict[str, Any]


@dataclass(frozen=True)
class _Case:
    path: Path
    problem: Problem
    planned: Any
    toolbox: Toolbox

    def plan(self, sizes: Mapping[str, int]) -> Any:
        found = self.planned.checked_plan.at(sizes, 64 << 30, {})
        if isinstance(found, Ruling):
            raise SystemExit(f"{found.status.value}: {found.message}")
        return found

    def inputs(self, sizes: Mapping[str, int], seed: int) -> dict[str, np.ndarray]:
        drawn = self.problem.distributions[0].draw(NumpyRng(np.random.default_rng(seed)), sizes)
        return {name: np.ascontiguousarray(values) for name, values in drawn.items()}


def _case(path: Path, data: Path) -> _Case:
    source = path.read_bytes()
    head = dict(re.findall(r"^// (problem|flags): (.*?)\r?$", source.decode(), re.MULTILINE))
    toolbox = Toolbox(MachineSettings(data, gpu=one_gpu()))
    settings = Settings(timing=False, estimate_for=None, arch="sm_90", flags=tuple(head.get("flags", "").split()))
    submission = Submission(problem=head["problem"], source=source.decode(), backend="sim", settings=settings)
    problem = find_problem(head["problem"])
    job = GradingJob(submission, problem, toolbox, SimulatorReferee(toolbox.simulator), source)
    planned = build(job.submitted, toolbox)
    if isinstance(planned, Ending):
        raise SystemExit(str(planned.ruling))
    return _Case(path, problem, planned, toolbox)


@dataclass(frozen=True)
class _Wanted:
    """An output: where it lies on the device, what it must be, and how far off it may be."""

    address: int
    host: np.ndarray
    value: np.ndarray
    allowed: np.ndarray


def _run(case: _Case, times: int) -> Row:
    """Launch the plan `times` times and count the runs whose answer is wrong."""
    import pycuda.driver as cuda

    from evaluator.backends.gpu.runner.cuda_device import LoneCudaDevice

    device = LoneCudaDevice()
    program = case.planned.program
    prepared = []
    for number, sizes in enumerate(case.problem.example_sizes):
        plan, inputs = case.plan(sizes), case.inputs(sizes, number)
        if number == 0:
            together = any(
                isinstance(step, KernelLaunch) and (step.cooperative or step.cluster) for step in plan.steps
            )
            device.load(program.cubin, together)
        buffers = plan.buffers_with(inputs)
        layout = Layout(tuple(BufferRegion(b.name, i, b.size_bytes, b.item_bytes) for i, b in enumerate(buffers)), 0)
        addresses = [
            device.allocate(b.size_bytes, None if b.content is None else b.content.tobytes(), _PATTERNS[0])
            for b in buffers
        ]
        entries = {entry.symbol: entry for entry in program.entries}
        go = device.prepare([placed(step_order(step, layout, entries), addresses) for step in plan.steps])
        undefined = [
            (address, b.size_bytes) for address, b in zip(addresses, buffers, strict=True) if b.role != "input"
        ]
        prepared.append((go, undefined, list(_outputs(case, plan, addresses, inputs, sizes))))
    done = wrong = 0
    fault = None
    try:
        for done in range(1, times + 1):
            go, undefined, outputs = prepared[done % len(prepared)]
            for address, size_bytes in undefined:
                cuda.memset_d8(address, _PATTERNS[done % len(_PATTERNS)], size_bytes)
            go()
            cuda.Context.synchronize()
            wrong += sum(_is_wrong(output, cuda.memcpy_dtoh) for output in outputs) > 0
    except (DeviceError, cuda.Error) as error:
        fault = str(error)[:200]
    return {"runs": done, "wrong_runs": wrong, "fault": fault}


def _outputs(
    case: _Case, plan: Any, addresses: Iterable[int], inputs: Mapping[str, np.ndarray], sizes: Mapping[str, int]
) -> Iterable[_Wanted]:
    expected = case.problem.oracle(inputs, sizes)
    types = {tensor.name: np.dtype(tensor.dtype.value) for tensor in case.problem.outputs}
    for buffer, address in zip(plan.buffers, addresses, strict=True):
        if buffer.name in types:
            answer = expected[buffer.name]
            value, allowed = (
                np.broadcast_to(np.asarray(numbers, np.float64), buffer.shape).reshape(-1)
                for numbers in (answer.value, case.problem.tolerance.allowed(answer))
            )
            yield _Wanted(address, np.empty(value.size, types[buffer.name]), value, allowed)


def _is_wrong(output: _Wanted, fetch: Callable[[np.ndarray, int], None]) -> bool:
    fetch(output.host, output.address)
    with np.errstate(invalid="ignore", over="ignore"):
        return bool((~(np.abs(output.host.astype(np.float64) - output.value) <= output.allowed)).any())


def _sanitize(case: _Case, _times: int) -> Row:
    """One run at the largest published size under each tool."""
    program = case.planned.program
    flags = case.planned.compiled.flags
    program = replace(program, cubin=with_lines(program, flags, case.toolbox.toolchain, case.toolbox.sandbox))
    sizes = case.problem.example_sizes[-1]
    plan = case.plan(sizes)
    run = PlanRun(plan.buffers_with(case.inputs(sizes, 3)), plan.steps, _PATTERNS[0], 10.0)
    try:
        checked = Sanitizer(ToolRunner(case.toolbox.sandbox, gpus()[0].uuid)).check(program, [run])
    except ToolMissingError as missing:
        return {"unchecked": str(missing)[:200]}
    found = Counter(f"{finding.tool}{'' if finding.certain else ' (a hint)'}" for finding in checked.findings)
    return {"findings": dict(found)}


_ACTS: Final = {"run": _run, "sanitize": _sanitize}


def _in_a_process(act: str, side: str, path: Path, times: int, data: Path, until_s: float) -> Row | None:
    """One file's row; None where the time is up before it has begun."""
    left_s = until_s - time.monotonic()
    if left_s <= 1.0:
        return None
    row: Row = {"act": act, "side": side, "name": path.stem}
    command = [sys.executable, "-m", "benchmarks.gpu.concurrent_corpus", "--act", act, "--file", str(path)]
    command += ["--times", str(times), "--data", str(data)]
    try:
        limit_s = min(_FILE_S, left_s)
        ended = subprocess.run(command, cwd=_TESTS.parent, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return row | {"hang": f"not done after {_FILE_S:g} s"} if limit_s == _FILE_S else None
    said = ended.stdout.strip().splitlines()
    if ended.returncode == 0 and said:
        told: Row = json.loads(said[-1])
        return row | told
    return row | {"error": (ended.stderr.strip() or ended.stdout.strip())[-300:]}


def _shows(row: Row) -> bool:
    """Whether a thousand runs or a tool show that something is wrong."""
    return any(bool(row.get(what)) for what in ("wrong_runs", "hang", "fault", "findings"))


def _verdicts(backend: str) -> dict[str, bool]:
    """Which kernels Assay named: passed with a warning, or neither passed nor left alone as unsupported."""
    record = RESULTS / f"wrong_and_right_{backend}.json"
    record = record if record.exists() else Path(__file__).parents[1] / "results" / record.name
    rows = json.loads(record.read_text())["verdicts"]
    return {row["name"]: row["status"] not in ("passed", "unsupported") or bool(row["hazards"]) for row in rows}


def _figures(rows: list[Row], planned: int) -> dict[str, float]:
    figures: dict[str, float] = {"not_done": planned - len(rows)}
    by_assay = {backend: _verdicts(backend) for backend in ("sim", "gpu")}
    for side in _FOLDERS:
        ran = [row for row in rows if row["side"] == side and row["act"] == "run"]
        checked = [row for row in rows if row["side"] == side and row["act"] == "sanitize"]
        figures |= {
            f"{side}_run": len(ran),
            f"{side}_runs": sum(row.get("runs", 0) for row in ran),
            f"{side}_with_a_wrong_answer": sum(bool(row.get("wrong_runs")) for row in ran),
            f"{side}_with_a_hang_or_fault": sum(bool(row.get("hang") or row.get("fault")) for row in ran),
            f"{side}_not_run": sum("error" in row for row in ran + checked),
            f"{side}_under_sanitizer": len(checked),
            f"{side}_named_by_sanitizer": sum(_shows(row) for row in checked),
            f"{side}_not_done_by_sanitizer": sum("unchecked" in row for row in checked),
        }
        for backend, verdicts in by_assay.items():
            figures[f"{side}_of_these_named_by_assay_{backend}"] = sum(verdicts[row["name"]] for row in checked)
    return figures


def _show(rows: list[Row]) -> None:
    table = Table("kernel", "corpus", "act", "what it showed")
    for row in rows:
        if row["side"] == "right" and (_shows(row) or "error" in row):
            told = {key: value for key, value in row.items() if key not in ("act", "side", "name")}
            table.add_row(row["name"], row["side"], row["act"], json.dumps(told)[:200])
    Console(width=160).print(table)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--only", nargs="*", default=(), metavar="TEXT", help="parts of names")
    parser.add_argument("--act", choices=tuple(_ACTS), help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.act:
        print(json.dumps(_ACTS[wanted.act](_case(wanted.file, wanted.data), wanted.times)), flush=True)
        os._exit(0)  # a context with a fault cannot be closed
    until_s = time.monotonic() + wanted.seconds - _LEFT_FOR_SAVING_S
    if not gpus():
        raise SystemExit("There is no GPU that can be used here: see `assay doctor`.")
    order = [("run", "right"), ("sanitize", "right"), ("sanitize", "wrong"), ("run", "wrong")]
    jobs = [
        (act, side, path)
        for act, side in order
        for path in sorted(_FOLDERS[side].glob("*.cu"))
        if not wanted.only or any(text in path.stem for text in wanted.only)
    ]
    rows = []
    with (
        tempfile.TemporaryDirectory(prefix="assay-", ignore_cleanup_errors=True) as folder,
        ThreadPoolExecutor(wanted.workers) as pool,
    ):
        futures = [pool.submit(_in_a_process, *job, wanted.times, Path(folder), until_s) for job in jobs]
        for future in as_completed(futures):
            if row := future.result():
                rows.append(row)
                print(json.dumps(row), flush=True)
    _show(rows)
    if not wanted.only:
        goals = {"right_with_a_wrong_answer": ("<=", 0.0), "right_with_a_hang_or_fault": ("<=", 0.0)}
        goals["right_of_these_named_by_assay_gpu"] = goals["right_of_these_named_by_assay_sim"] = ("<=", 0.0)
        rows.sort(key=lambda row: (row["act"], row["side"], row["name"]))
        save(_NAME, _figures(rows, len(jobs)), goals, device=gpus()[0].name, details={"rows": rows})


if __name__ == "__main__":
    main()
