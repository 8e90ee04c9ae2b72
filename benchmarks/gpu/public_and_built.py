"""Public solutions on a GPU: lifted and judged by us, and built and run as their authors mean them to be.

    python benchmarks/grading/public_solutions.py --folder FOLDER --mirrors MIRRORS
    python benchmarks/gpu/public_and_built.py --folder FOLDER --rows ROWS.jsonl [--skip EARLIER.jsonl …]
        [--seconds 480] [--workers N] [--referees N] [--limit 60] [--enough N] [--share 0/1] [--only TEXT …]
        [--data DATA] [--rehearse] [--report DEVICE] [--name NAME] [--stand-in]

Each pair is judged twice at the same problem, whose oracle and tolerance are ours. *Lifted*: its host code is
recorded without a GPU, and the recorded steps are launched. *Built*: its host code runs: Python and extensions in the
host tier, which compiles C++ against PyTorch's headers; a `solve` file by nvcc into a shared library, called with
memory that PyTorch allocated, at trials like those of a quick verification. Nothing is timed, so that many pairs are
judged at a time: each worker has one in hand, and all share the GPU's referees and a cache.

A pair is *judged* where its status is about its answers (`passed`, `incorrect`, `runtime_error`, `rejected`), and
*compared* where both forms are. They *agree* where both passed or neither did. A disagreement is *explained* where
reading the solution (`reviewed` in the list of pairs) says what the lifted form's verdict says.

Pairs of the forms that compile quickly come first, PyTorch's headers are prepared meanwhile for the others, and the
built form of what cannot be compared comes last, if there is time. A row is written as soon as it is known, and
again when more is. `--skip`: rows of earlier calls, which are copied and not done again, but for what was not done in
its time. `--enough`: begin no more once so many are compared. A problem is judged at the sizes that its file states,
up to what one core answers in seconds, at smaller ones beyond. `--stand-in` runs it without a GPU: lifted on the
simulator, host code on the processor, and `solve` files compiled and not called; that shows that the program works,
and no figure of it means anything.
"""

import argparse
import contextlib
import json
import math
import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, zip_longest
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks._support.both_forms import JUDGED, SIDES, Bench, Order, Row, ending, prepare_headers, serve
from benchmarks._support.one_gpu import the_gpu
from benchmarks._support.record import save
from benchmarks._support.worker_process import WorkerLostError, WorkerProcess
from benchmarks.grading.public_causes import cause_of
from benchmarks.grading.public_survey import hash_of, known_of
from evaluator.backends.gpu.device.health import why_not
from evaluator.pipeline.gpu.client import GpuReferee

_NAMES: Final = ("public_and_built", "own_and_built")
"""Of results: for the files of `own_solutions.py` the second."""
_GRACE_S: Final = 8.0
"""After a pair's time is up, until its worker is taken to be lost."""
_LAST_S: Final = 10.0
"""A pair that had less than this would not be done."""
_ENDING_S: Final = 20.0
"""Of the time, for what was begun to be let go, and for processes to end that do not hear of it."""
_LEFT: Final = {"lifted": ("not_tried", "not_done"), "built": ("not_tried", "not_done", "timeout")}
"""What another try may get further with: how long host code's Triton takes to compile is the machine's doing."""
_BUILT_SLOWLY: Final = ("kernelbench", "torch-extension")
"""Forms with C++ that is compiled against PyTorch's headers, which takes half a minute."""
_GOALS: Final = {"compared": (">=", 150.0), "unexplained": ("<=", 0.0)}
_OWN_GOALS: Final = {"compared": (">=", 100.0), "disagree": ("<=", 0.0), "false": ("<=", 0.0)}


def compared(row: Row) -> bool:
    """Whether both forms were judged."""
    return all(row[side]["status"] in JUDGED for side in SIDES)


def agrees(row: Row) -> bool:
    """Whether both passed, or neither did."""
    return (row["lifted"]["status"] == "passed") == (row["built"]["status"] == "passed")


def explained(row: Row) -> bool:
    """Whether reading the solution says what its lifted form's verdict says."""
    known = str(row["reviewed"]).split(" ")[0].rstrip(":,.")
    return bool(known) and (known == "right") == (row["lifted"]["status"] == "passed")


class Pairs:
    """The pairs that are left to be judged, and the rows of those that were."""

    def __init__(self, places: Sequence[Path], rows: Path, earlier: Sequence[Row], enough: float = math.inf) -> None:
        """`rows`: the file that rows are added to; those of `earlier` calls are copied. `enough`: begin no more once
        so many are compared.
        """
        self._enough = enough
        self.rows = {row["name"]: row for row in earlier}
        self._file, self._lock = rows, threading.Lock()
        rows.write_text("".join(json.dumps(row) + "\n" for row in self.rows.values()))
        left = [one for one in places if self._sides(one)]
        # What one side is missing of is compared soonest.
        half = [one for one in left if self.rows.get(one.name, {}).get("lifted", {}).get("status") in JUDGED]
        new = [one for one in left if one.name not in self.rows]
        late = [one for one in left if one.name in self.rows and "lifted" in self._sides(one)]
        asked = sorted((*half, *new, *late), key=lambda one: known_of(one)["form"] in _BUILT_SLOWLY)
        self._left = deque([*asked, *(one for one in left if one not in asked)])

    def _sides(self, place: Path) -> tuple[str, ...]:
        """What is to be done with a pair."""
        row = self.rows.get(place.name, {})
        return tuple(side for side in SIDES if row.get(side, {}).get("status", "not_tried") in _LEFT[side])

    def judge(self, bench: Bench, until_s: float) -> None:
        """Have one worker judge one pair after another, until none is left or the time is up."""
        worker = WorkerProcess(serve, bench)
        try:
            while until_s - time.monotonic() > _LAST_S and not self._are_enough():
                try:
                    place = self._left.popleft()
                except IndexError:
                    break
                self._add(place, Order(place, self._sides(place), bench.limit_s, until_s), worker)
        finally:
            worker.end()

    def _are_enough(self) -> bool:
        with self._lock:
            return sum(map(compared, self.rows.values())) >= self._enough

    def _add(self, place: Path, order: Order, worker: WorkerProcess) -> None:
        began_s = time.monotonic()
        row = self.rows.get(place.name, {}) | known_of(place)
        row |= _found(worker, order)
        row["cause"] = cause_of(row["lifted"])
        row["seconds"] = round(row.get("seconds", 0.0) + time.monotonic() - began_s, 1)
        with self._lock:
            self.rows[row["name"]] = row
            with self._file.open("a") as file:
                file.write(json.dumps(row) + "\n")
        if row["built"]["status"] == "not_tried":
            self._left.append(place)  # it cannot be compared, so it waits for those that can
        sides = "  ".join(f"{row[side]['status']:18}" for side in SIDES)
        said = "" if agrees(row) or not compared(row) else "DISAGREE "
        messages = " | ".join(row[side]["message"][:90] for side in SIDES)
        print(f"{row['seconds']:6.1f} s  {row['name'][:40]:40} {sides} {said}{messages!r}", flush=True)


def _found(worker: WorkerProcess, order: Order) -> Row:
    """What a worker says of a pair; both sides of it, as far as they were asked for."""
    found: Row = {}
    limit_s = min(len(order.sides) * order.limit_s, order.until_s - time.monotonic())
    message = f"not done in {limit_s:.0f} s"
    try:
        for part in worker.parts(order, limit_s + _GRACE_S):
            found |= part
    except WorkerLostError as lost:
        message = f"the worker is lost: {lost}"
    for side in order.sides:
        left = side == "built" and found.get("lifted", {}).get("status", "not_done") not in (*JUDGED, "not_done")
        side_ending = ending("not_tried" if left else "not_done", "?", "" if left else found.get("fault", message))
        found.setdefault(side, {**side_ending, "seconds": 0.0})
    return found


def _late(row: Row) -> bool:
    return "not_done" in (row["lifted"]["status"], row["built"]["status"])


def in_turns(places: Sequence[Path], form_of: Callable[[Path], str]) -> list[Path]:
    """One of each form after another, each form's in an order that follows from the names."""
    by_form: dict[str, list[Path]] = {}
    for place in sorted(places, key=lambda one: (hash_of(one.name), one.name)):
        by_form.setdefault(form_of(place), []).append(place)
    turns = chain.from_iterable(zip_longest(*(by_form[form] for form in sorted(by_form))))
    return [place for place in turns if place is not None]


def figures_of(rows: Sequence[Row]) -> dict[str, float]:
    """Counts, and shares of all rows."""
    both = [row for row in rows if compared(row)]
    differ = [row for row in both if not agrees(row)]
    figures: dict[str, float] = {
        "pairs": len(rows),
        "lifted": sum(row["lifted"]["lifted"] for row in rows),
        "share_lifted": sum(row["lifted"]["lifted"] for row in rows) / max(1, len(rows)),
        "judged_lifted": sum(row["lifted"]["status"] in JUDGED for row in rows),
        "judged_built": sum(row["built"]["status"] in JUDGED for row in rows),
        "compared": len(both),
        "agree": len(both) - len(differ),
        "both_passed": sum(row["lifted"]["status"] == row["built"]["status"] == "passed" for row in both),
        "disagree": len(differ),
        "unexplained": sum(not explained(row) for row in differ),
        "false": sum(row["lifted"]["status"] in JUDGED and not explained(row) for row in rows if row["reviewed"]),
        "late": sum(map(_late, rows)),
        "built_not_tried": sum(row["built"]["status"] == "not_tried" for row in rows),
    }
    for form in sorted({row["form"] for row in rows}):
        name, own = form.replace("-", "_"), [row for row in rows if row["form"] == form]
        figures |= {
            f"{name}_pairs": len(own),
            f"{name}_lifted": sum(row["lifted"]["lifted"] for row in own),
            f"{name}_compared": sum(map(compared, own)),
            f"{name}_agree": sum(compared(row) and agrees(row) for row in own),
        }
    return figures


def _report(rows: Sequence[Row], device: str, judged_here: bool, name: str) -> bool:
    table = Table("pair", "form", "lifted", "built", "known", "explained", title="disagreements", show_lines=True)
    differ = [row for row in rows if compared(row) and not agrees(row)]
    for row in differ:
        sides = [f"{row[side]['status']}: {row[side]['message'][:200]}" for side in ("lifted", "built")]
        known = row["reviewed"] or row["claimed"]
        table.add_row(row["name"], row["form"], *sides, known[:80], "yes" if explained(row) else "NO")
    Console(width=200, markup=False).print(table)
    alone: dict[str, Counter[str]] = {}
    for row in rows:
        if not compared(row):
            said = f"lifted {row['lifted']['status']} ({': '.join(filter(None, row['cause']))})"
            alone.setdefault(row["form"], Counter())[f"{said}, built {row['built']['status']}"] += 1
    for form, counted in sorted(alone.items()):
        for said, many in counted.most_common(12):
            print(f"{form:20} {many:4}  {said}")
    if not rows:
        return False
    details = {
        "disagreements": [
            {
                "name": row["name"],
                "form": row["form"],
                "lifted": row["lifted"]["status"],
                "built": row["built"]["status"],
                "explained": explained(row),
                "reviewed": row["reviewed"],
            }
            for row in differ
        ],
        "not_compared": {form: dict(counted.most_common()) for form, counted in sorted(alone.items())},
    }
    goals = _GOALS if name == _NAMES[0] else _OWN_GOALS
    return save(name, figures_of(rows), goals, device=device, measured_here=judged_here, details=details)


@contextlib.contextmanager
def _referees(bench: Bench) -> Iterator[str]:
    """All referees of the GPU, started; their device, in words."""
    if (absence := why_not()) is not None:
        raise SystemExit(f"no GPU can be used here: {absence.message}")
    settings = bench.settings
    found = [GpuReferee(the_gpu(), settings, number=number) for number in range(settings.referees_per_gpu)]
    began_s = time.monotonic()
    with ThreadPoolExecutor(len(found)) as pool:
        told = list(pool.map(lambda one: one.facts(), found))
    sandboxes = ", ".join({one["sandbox"] for one in told})
    print(f"{len(found)} referees ({sandboxes}) in {time.monotonic() - began_s:.1f} s", flush=True)
    try:
        yield found[0].device
    finally:
        for one in told:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one["pid"], signal.SIGTERM)


def read_rows(files: Sequence[Path]) -> list[Row]:
    """The rows of earlier calls, of each pair the last one with most sides judged: calls side by side each begin with
    the rows of those before them. A line that was cut off is none.
    """
    found: dict[str, Row] = {}
    for file in files:
        for line in file.read_text().splitlines() if file.exists() else ():
            with contextlib.suppress(ValueError):
                row = json.loads(line)
                before = found.get(row["name"])
                if before is None or _known_sides(row) >= _known_sides(before):
                    found[row["name"]] = row
    return list(found.values())


def _known_sides(row: Row) -> tuple[int, int]:
    ends = {side: row.get(side, {}).get("status", "not_tried") for side in SIDES}
    return sum(end in JUDGED for end in ends.values()), sum(end not in _LEFT[side] for side, end in ends.items())


def main() -> None:
    """Judge what is left, and save what is known; exit 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rows", type=Path, required=True, help="where rows are written")
    parser.add_argument("--skip", type=Path, nargs="*", default=(), help="rows of earlier calls")
    parser.add_argument("--seconds", type=float, default=480.0, help="until all are ended, but for the report")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each form of a pair")
    parser.add_argument("--workers", type=int, default=max(1, cores // 2))
    parser.add_argument("--referees", type=int, default=max(2, cores // 2))
    parser.add_argument("--enough", type=int, default=10**6, help="pairs compared, after which none is begun")
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--share", default="0/1", help="1/4: the second of four parts, for GPUs side by side")
    parser.add_argument("--data", type=Path, help="a folder for caches, to be used again")
    parser.add_argument("--rehearse", action="store_true", help="try each lifted form on the simulator first")
    parser.add_argument("--report", metavar="DEVICE", help="judge nothing more; on what the rows were judged")
    parser.add_argument("--name", choices=_NAMES, default=_NAMES[0], help="of the results")
    parser.add_argument("--stand-in", action="store_true")
    asked = parser.parse_args()
    until_s = time.monotonic() + asked.seconds - _ENDING_S
    named = ["--name", asked.name] if asked.name != _NAMES[0] else []
    sys.argv[1:] = ["--folder", "FOLDER", "--rows", "ROWS", *named]  # as it is saved
    places = [path.parent for path in asked.folder.glob("*/pair.json")]
    places = [one for one in places if not asked.only or any(text in one.name for text in asked.only)]
    forms = {place: str(known_of(place)["form"]) for place in places}
    part, _, parts = asked.share.partition("/")
    places = in_turns(sorted(places), forms.__getitem__)[int(part) :: int(parts)]
    earlier = read_rows(asked.skip)
    with contextlib.ExitStack() as stack:
        data = asked.data or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-public-", ignore_cleanup_errors=True))
        )
        bench = Bench(data.absolute(), asked.referees, asked.limit, asked.rehearse, asked.stand_in)
        pairs = Pairs(in_turns(places, forms.__getitem__), asked.rows, earlier, asked.enough)
        device = asked.report or "stand-in"
        if not asked.report:
            if not asked.stand_in:
                # A daemon's: who ends does not wait for it.
                threading.Thread(target=prepare_headers, args=(bench,), daemon=True).start()
                device = stack.enter_context(_referees(bench))
            with ThreadPoolExecutor(asked.workers) as pool:
                list(pool.map(lambda _: pairs.judge(bench, until_s), range(asked.workers)))
    # The reviews are those of the list as it is now.
    known = {place.name: known_of(place) for place in places}
    rows = [row | known.get(name, {}) for name, row in sorted(pairs.rows.items())]
    raise SystemExit(not _report(rows, device, not asked.report, asked.name))


if __name__ == "__main__":
    main()
