"""Honest kernels and attacks on a GPU: every verdict, beside the simulator's, and the job right after each attack.

    python benchmarks/gpu/gpu_corpus.py [--seconds 240] [--sim-from FILE] [--rows ROWS.jsonl] [--out FILE]
    python benchmarks/gpu/gpu_corpus.py --sim-only FILE      (needs no GPU)

Honest kernels are compiled and graded by many processes over one referee, without timing but for the suspicious ones;
attacks one after another, each followed by a known good kernel. What is done when the time is up is saved. `--rows`:
each row is added to it as soon as it is known, and what it has already is not done again.
"""

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "gpu"))

import corpus
from rich.console import Console
from rich.table import Table

from benchmarks._support.one_gpu import its_referee, with_one_referee
from benchmarks._support.record import RESULTS, save
from common.contract import Status, Verdict
from common.file_replacement import replace_file
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings
from evaluator.stages.compile.nvcc import compile_source
from evaluator.stages.screen.cleaning import clean

_NAME = "gpu_corpus"
_LEFT_FOR_SAVING_S = 8.0
_HONEST_SHARE = 0.5
_toolboxs: dict[str, Toolbox] = {}
"""Of this worker process: one whose contexts are single-use, and one whose contexts serve many jobs."""

Row = dict[str, Any]


def _begin(settings: dict[str, MachineSettings]) -> None:
    _toolboxs.update({name: Toolbox(chosen) for name, chosen in settings.items()})


def _told(verdict: Verdict) -> Row:
    timing = verdict.timing
    return {
        "status": verdict.status.value,
        "phase": verdict.phase.value,
        "message": verdict.message,
        "latency_us": timing.latency_us if timing else None,
        "speedup": timing.speedup if timing else None,
        "launches": timing.launches if timing else None,
        "checked_launches": timing.checked_launches if timing else None,
    }


def _compiled(name: str, arch: str) -> None:
    """Fill the cache, so that nothing is compiled while the GPU is waited for."""
    case = corpus.attack(name)
    toolbox = _toolboxs["single"]
    source = clean(case.source.encode()).source
    compile_source(source, case.settings(), arch, toolbox.toolchain, toolbox.sandbox, toolbox.cache)


def _simulated(case: corpus.Case, arch: str) -> Row:
    began_s = time.monotonic()
    verdict = corpus.grade(case, _toolboxs["single"], "sim", arch=arch)
    return {**_told(verdict), "seconds": round(time.monotonic() - began_s, 3)}


def _honest(case: corpus.Case, arch: str, timed: bool, simulated: Row | None) -> Row:
    began_s = time.monotonic()
    found = _told(corpus.grade(case, _toolboxs["single"], rehearse=False, timing=timed))
    row = {"name": case.name, "problem": case.head["problem"], "seconds": round(time.monotonic() - began_s, 3)}
    simulated = simulated or _simulated(case, arch)
    return {**row, "gpu": found, "sim": simulated, "same": found["status"] == simulated["status"]}


def _attack(name: str, kind: str, twins_us: dict[str, float]) -> Row:
    """An attack, what it comes after, and what comes after it."""
    toolbox, case = _toolboxs[kind], corpus.attack(name)
    for before in case.head.get("after", "").split():
        corpus.grade(corpus.attack(before), toolbox)
    began_s = time.monotonic()
    verdict = corpus.grade(case, toolbox)
    took_s = time.monotonic() - began_s
    after = corpus.next_one(toolbox)
    twin_us = twins_us.get(case.head.get("sizes", "")) if "twin" in case.head else None
    return {
        "name": name,
        "contexts": kind,
        "attack": case.head["attack"],
        "expected": list(case.expected),
        **_told(verdict),
        "twin_us": twin_us,
        "complaints": corpus.complaints(case, verdict, twin_us),
        "seconds": round(took_s, 3),
        "next_status": after.status.value,
        "next_message": after.message,
        "next_seconds": round(time.monotonic() - began_s - took_s, 3),
    }


def _twins() -> dict[str, float]:
    """Latency of the honest twin at each sizes that an attack is timed at, µs."""
    found = {}
    for case in corpus.attacks():
        sizes = case.head.get("sizes", "")
        if "twin" in case.head and sizes not in found:
            verdict = corpus.grade(corpus.twin(), _toolboxs["single"], rehearse=False, sizes=case.settings().sizes)
            found[sizes] = verdict.timing.latency_us if verdict.timing else 0.0
    return found


@contextmanager
def _pool(workers: int, settings: dict[str, MachineSettings]) -> Iterator[ProcessPoolExecutor]:
    """Worker processes that are ended whatever they wait for."""
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _begin, (settings,))
    try:
        yield pool
    finally:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()


def _gathered(futures: Iterable[Future[Any]], until_s: float, keep: Callable[[Any], None]) -> int:
    """Keep each result as it comes; how many had not come when the time was up, or failed."""
    waiting, lost = set(futures), 0
    while waiting and time.monotonic() < until_s:
        done, waiting = wait(waiting, max(0.0, until_s - time.monotonic()), FIRST_COMPLETED)
        for future in done:
            try:
                keep(future.result())
            except Exception as error:
                lost += 1
                print(f"lost: {type(error).__name__}: {error}", flush=True)
    return lost + len(waiting)


def _said(row: Row) -> Row:
    status = row["gpu"]["status"] if "gpu" in row else row["status"]
    bad = row.get("complaints") or ([] if row.get("same", True) else [row["gpu"]["message"]])
    after = f", next {row['next_status']}" if "next_status" in row else ""
    if row.get("next_status", "passed") != "passed":
        bad = [*bad, f"the next one: {row['next_message']}"]
    print(f"{row['seconds']:7.2f} s  {row['name']:36} {status}{after} {' '.join(bad)}", flush=True)
    return row


def _simulations(file: Path, workers: int) -> None:
    """The simulator's verdicts on all honest kernels, as `--sim-from` takes them; what the file has is kept."""
    found = _simulated_before(file) if file.exists() else {}
    cases = [case for case in (*corpus.honest(), *corpus.suspicious()) if case.name not in found]
    with (
        tempfile.TemporaryDirectory(prefix="assay-") as folder,
        _pool(workers, {"single": MachineSettings(Path(folder))}) as pool,
    ):
        futures = {pool.submit(_simulated, case, "sm_90a"): case.name for case in cases}
        for future, name in futures.items():
            found[name] = future.result()
            print(f"{found[name]['seconds']:7.2f} s  {name:36} {found[name]['status']}", flush=True)
            replace_file(file, json.dumps(found, indent=1) + "\n")


def _simulated_before(file: Path) -> dict[str, Row]:
    """The verdicts that it has, without those of a machine that had too little time or memory for them."""
    found: dict[str, Row] = json.loads(file.read_text())
    return {name: row for name, row in found.items() if row["status"] != Status.INTERNAL_ERROR.value}


def _earlier(file: Path | None) -> Iterator[Row]:
    """The rows that earlier calls kept; a line that was cut off is none."""
    for line in file.read_text().splitlines() if file and file.exists() else ():
        with suppress(ValueError):
            yield json.loads(line)


def _kept(row: Row, among: list[Row], file: Path | None) -> None:
    """Say it and keep it."""
    among.append(_said(row))
    if file is not None:
        with file.open("a") as rows:
            rows.write(json.dumps(row) + "\n")


def _run(until_s: float, workers: int, simulated: dict[str, Row], rows: Path | None) -> dict[str, Any]:
    earlier = list(_earlier(rows))
    found: dict[str, Any] = {
        "honest": [row for row in earlier if "gpu" in row],
        "attacks": [row for row in earlier if "contexts" in row],
        "twins_us": {},
        "not_done": 0,
    }
    with tempfile.TemporaryDirectory(prefix="assay-", ignore_cleanup_errors=True) as folder:
        single, reusing = Path(folder) / "1", Path(folder) / "2"
        for data_dir in (single, reusing):
            data_dir.mkdir()
        (single / "cache").mkdir()
        (reusing / "cache").symlink_to(single / "cache")
        settings = {
            "single": with_one_referee(single, referee_idle_s=300),
            "reused": with_one_referee(reusing, referee_idle_s=300, jobs_per_runner=32),
        }
        here = {name: Toolbox(chosen) for name, chosen in settings.items()}
        if None in (toolbox.gpu for toolbox in here.values()):
            raise SystemExit("There is no GPU that can be used here: see `assay doctor`.")
        began_s = time.monotonic()
        with its_referee(here["single"]) as referee, its_referee(here["reused"]):
            found["device"], found["referees_start_s"] = referee.device, round(time.monotonic() - began_s, 2)
            _grade_all(found, settings, referee.arch, until_s, workers, simulated, rows)
    return found


def _grade_all(
    found: dict[str, Any],
    settings: dict[str, MachineSettings],
    arch: str,
    until_s: float,
    workers: int,
    simulated: dict[str, Row],
    rows: Path | None,
) -> None:
    attacks = corpus.attacks()
    done = {row["name"] for row in found["honest"]}, {(row["name"], row["contexts"]) for row in found["attacks"]}
    began_s = time.monotonic()
    with _pool(workers, settings) as pool:
        compiled = [pool.submit(_compiled, case.name, arch) for case in attacks]
        graded = [
            pool.submit(_honest, case, arch, timed, simulated.get(case.name))
            for timed, cases in ((True, corpus.suspicious()), (False, corpus.honest()))
            for case in cases
            if case.name not in done[0]
        ]
        # The attacks come one after another, and are to have their share of what is left.
        honest_until_s = time.monotonic() + _HONEST_SHARE * (until_s - time.monotonic())
        found["not_done"] += _gathered(graded, honest_until_s, lambda row: _kept(row, found["honest"], rows))
        _gathered(compiled, until_s, lambda nothing: None)
    found["honest_s"] = round(time.monotonic() - began_s, 2)

    began_s = time.monotonic()
    with _pool(1, settings) as pool:  # one after another: so the next job is the next job
        _gathered([pool.submit(_twins)], until_s, found["twins_us"].update)
        jobs = [(case.name, "single") for case in attacks]
        jobs += [(case.name, "reused") for case in attacks if "after" in case.head]
        graded = [pool.submit(_attack, *job, found["twins_us"]) for job in jobs if job not in done[1]]
        found["not_done"] += _gathered(graded, until_s, lambda row: _kept(row, found["attacks"], rows))
    found["attacks_s"] = round(time.monotonic() - began_s, 2)


def _show(found: dict[str, Any]) -> None:
    console = Console(width=160)
    table = Table("honest kernel", "GPU", "simulator", "why they differ", title="Verdicts that differ")
    for row in found["honest"]:
        if not row["same"]:
            other = row["gpu"] if row["gpu"]["status"] != Status.PASSED else row["sim"]
            table.add_row(row["name"], row["gpu"]["status"], row["sim"]["status"], other["message"])
    console.print(table)
    table = Table("attack", "contexts", "ended", "expected", "s", "next", "not as it must be", title="Attacks")
    for row in sorted(found["attacks"], key=lambda row: row["name"]):
        table.add_row(
            row["name"],
            row["contexts"],
            f"{row['status']} ({row['phase']})",
            " ".join(row["expected"]),
            f"{row['seconds']:.2f}",
            row["next_status"],
            "\n".join(row["complaints"]),
        )
    console.print(table)


def _figures(found: dict[str, Any]) -> dict[str, float]:
    honest, attacks = found["honest"], found["attacks"]
    passed = Status.PASSED.value
    return {
        "honest_kernels": len(honest),
        "honest_passed_on_gpu": sum(row["gpu"]["status"] == passed for row in honest),
        "honest_passed_on_simulator": sum(row["sim"]["status"] == passed for row in honest),
        "honest_not_passed_on_gpu": sum(row["gpu"]["status"] != passed for row in honest),
        "honest_differences": sum(not row["same"] for row in honest),
        "attacks": len(attacks),
        "attacks_not_as_expected": sum(bool(row["complaints"]) for row in attacks),
        "next_jobs_not_right": sum(row["next_status"] != passed for row in attacks),
        "not_done": found["not_done"],
        "honest_s": found["honest_s"],
        "attacks_s": found["attacks_s"],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--workers", type=int, default=max(2, min(14, (os.cpu_count() or 2) - 2)))
    parser.add_argument("--sim-from", type=Path)
    parser.add_argument("--rows", type=Path, help="rows of earlier calls, and where those of this one are added")
    parser.add_argument("--sim-only", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS / f"{_NAME}.json")
    wanted = parser.parse_args()
    if wanted.sim_only:
        _simulations(wanted.sim_only, wanted.workers)
        return
    until_s = time.monotonic() + wanted.seconds - _LEFT_FOR_SAVING_S
    simulated = _simulated_before(wanted.sim_from) if wanted.sim_from else {}
    found = _run(until_s, wanted.workers, simulated, wanted.rows)
    _show(found)
    goals = {
        "honest_not_passed_on_gpu": ("<=", 0),
        "attacks": (">=", 20),
        "attacks_not_as_expected": ("<=", 0),
        "next_jobs_not_right": ("<=", 0),
        "not_done": ("<=", 0),
    }
    save(_NAME, _figures(found), goals, device=found["device"])
    record = RESULTS / f"{_NAME}.json"
    whole = json.loads(record.read_text()) | {"twins_us": found["twins_us"]}
    whole |= {"honest": found["honest"], "attacks": found["attacks"]}
    wanted.out.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
