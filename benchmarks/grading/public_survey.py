"""What share of solutions that other people published can be graded, by form; and of the others, why not.

    python benchmarks/grading/public_solutions.py --folder FOLDER --mirrors MIRRORS
    python benchmarks/grading/public_survey.py --folder FOLDER [--only TEXT …] [--seconds N] [--lift-only]

Each pair is graded on the simulator, quickly, in a process that is ended after 120 s, and with the tolerance that
the longest sum explains: to calibrate each problem takes longer than all else. Where an answer is nearly one
number, as a ReLU's may be, inputs are drawn with values of both signs, as where a problem is learned. What was
graded is kept in `FOLDER/rows.jsonl` and not graded again. A pair is *lifted* where its host code was recorded, and
*judged* where a verdict is about its answers; with `--lift-only` none is judged, which takes less and is a result
of its own (`public_lifted`); what was so lifted is judged when it is run without. `--state`: the code's, as the
result names it, where it is not the one at hand. A verdict is *false* where reading the solution, or its
publisher's own tests on a GPU where nobody read it, says the opposite. Nothing of the solutions' texts is saved in
the results.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, get_args

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._support.record import save
from benchmarks._support.worker_process import WorkerLostError, WorkerProcess, served
from benchmarks.grading.public_causes import cause_of
from common.contract import Settings, Submission, Verdict, foreign_problem_id
from evaluator.foreign.calibration import Calibration, OutputTolerance, derived_relative
from evaluator.foreign.description import Description
from evaluator.foreign.learning import File, Known, stated_problem
from evaluator.foreign.redrawn import Redrawn, drawn_otherwise
from evaluator.foreign.reference import (
    ReferenceProcess,
    ReferenceRefusedError,
    ReferenceTooLargeError,
    usual_room,
)
from evaluator.foreign.sizes import VariedSizes, afforded, shapes_as_stated
from evaluator.foreign.zygote import ReferenceRoom
from evaluator.pipeline.grading_job import Preparation
from evaluator.pipeline.pipeline import evaluate, prepare
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.arrays import NumpyRng
from evaluator.problems.linter import HARDLY, telling_share
from evaluator.problems.problem import Problem, sizes_in_words
from evaluator.settings import MachineSettings

_NAME: Final = "public_survey"
_LIFTED: Final = "public_lifted"
_ROWS: Final = "rows.jsonl"
_LIMIT_S: Final = 120.0
"""Of one pair, what the problem's file has to be asked included."""
_MOST_WORK: Final = 1 << 30
"""Operators of a file above which it is described at smaller sizes, as where a problem is learned."""
_CANNOT: Final = ("theirs", "wrong", "problem", "machine")
"""Whose doing it is where a solution is not lifted through no fault of the recorder's."""

Row = dict[str, Any]


@dataclass(frozen=True)
class AsStated:
    """Up to what a problem is judged at the sizes that its file states, whatever the simulator affords."""

    work: int
    """Operations of one answer."""
    tensor_bytes: int
    """Of all inputs, and of all outputs."""

    @property
    def room(self) -> ReferenceRoom:
        """In which what is more is refused before it is carried out."""
        return replace(usual_room(), input_bytes=self.tensor_bytes, output_bytes=self.tensor_bytes, work=self.work)


@contextmanager
def problem_in(text: bytes, toolbox: Toolbox, as_stated: AsStated | None = None) -> Iterator[Problem]:
    """The problem that a file states, described and not calibrated, at sizes that the simulator affords.

    `as_stated`: for a GPU; the sizes count as the problem's own then, and of its distributions there are two, since
    an answer may take seconds. Raises ReferenceRefusedError.
    """
    file, described = _opened(text, toolbox, as_stated)
    try:
        file.remember(described)
        known = _known(described)
        if as_stated is None:
            known = replace(known, too_large=_too_large(file, described))
        known = _telling(file, known)
        problem = stated_problem(file, known, "reported")
        if as_stated is not None:
            left_out = tuple(one.name for one in problem.distributions[2:])
            problem = stated_problem(file, replace(known, left_out=left_out), "reported")
        yield problem
    finally:
        file.process.close()


def _opened(text: bytes, toolbox: Toolbox, as_stated: AsStated | None) -> tuple[File, Description]:
    """The file in its process, which the caller closes, and its description. Raises ReferenceRefusedError."""
    room = as_stated.room if as_stated else None
    process = ReferenceProcess(toolbox.sandbox, text, "problem.py", toolbox.cancel_token, room)
    process.grant(_LIMIT_S)
    file = File(process, text, foreign_problem_id("problem.py", text))
    try:
        if as_stated:
            with suppress(ReferenceTooLargeError):
                return file, file.described({})
        file.most_work = _MOST_WORK
        return file, afforded(file.described)
    except ReferenceTooLargeError:
        process.close()
        if as_stated is None:
            raise
    except BaseException:
        process.close()
        raise
    return _opened(text, toolbox, None)  # it cannot be made as small as that


def _telling(file: File, known: Known) -> Known:
    """The file with inputs drawn otherwise, where its answer tells nothing for its own: as where it is learned."""
    for redrawn in get_args(Redrawn):
        file.redrawn = redrawn
        tried = replace(known, description=drawn_otherwise(known.description, redrawn), redrawn=redrawn)
        problem = stated_problem(file, tried, "reported")
        inputs = problem.distributions[0].draw(NumpyRng(np.random.default_rng(0)), problem.example_sizes[0])
        with suppress(ReferenceRefusedError):
            answer = problem.oracle(inputs, problem.example_sizes[0])
            shares = (telling_share(one, problem.tolerance) for one in answer.values())
            if all(share is None or share >= HARDLY for share in shares):
                return tried
    file.redrawn = "as stated"
    return known


def _known(described: Description) -> Known:
    allowed = [derived_relative(facts, described) for facts in described.outputs]
    calibration = Calibration(tuple(OutputTolerance(one, one, 0.0) for one in allowed), {})
    return Known(described, calibration, (), (), VariedSizes({}, shapes_as_stated(described)))


def _too_large(file: File, described: Description) -> str:
    """The file's own sizes in words, where it is described at others."""
    try:
        stated = file.described({}).sizes
    except ReferenceTooLargeError as refused:
        stated = {one: refused.constants.get(one, 0) for one in described.sizes}
    else:
        stated = {} if stated == described.sizes else stated
    return sizes_in_words(stated) if stated else ""


def graded(place: Path, toolbox: Toolbox, lift_only: bool) -> Row:
    """What became of the pair in this folder."""
    try:
        with problem_in((place / "problem.py").read_bytes(), toolbox) as problem:
            source = next(place.glob("solution.*")).read_text(errors="replace")
            settings = Settings(verification="quick", timing=False, estimate_for=None)
            submission = Submission(problem=problem.id, source=source, backend="sim", settings=settings)
            if not lift_only:
                return row_of(evaluate(submission, toolbox, problem=problem))
            found = prepare(submission, problem, toolbox, toolbox.referee(submission))
            done = {"status": "recorded", "phase": "launch", "lifted": True, "message": ""}
            return done if isinstance(found, Preparation) else row_of(found)
    except ReferenceRefusedError as refusal:
        return {"status": "no_problem", "phase": "problem", "lifted": False, "message": str(refusal)}


def row_of(verdict: Verdict) -> Row:
    """What a row says of a verdict."""
    compiled, seen = verdict.compile, verdict.correctness
    errors = [one.text[:200] for one in compiled.diagnostics if one.severity == "error"] if compiled else []
    return {
        "status": verdict.status.value,
        "phase": verdict.phase.value,
        "dialect": compiled.dialect if compiled else None,
        "lifted": bool(compiled and compiled.lifting),
        "message": verdict.message,
        "diagnostics": errors[:3],
        "warnings": [one[:200] for one in seen.warnings] if seen else [],
    }


def _worker(work: Connection, lift_only: bool) -> None:
    """Grade the folders that come through this pipe, one after another."""
    toolbox = Toolbox(MachineSettings.from_environment())
    served(work, lambda place: iter([_row_of(Path(place), toolbox, lift_only)]))


def _row_of(place: Path, toolbox: Toolbox, lift_only: bool) -> Row:
    try:
        return graded(place, toolbox, lift_only)
    except Exception as error:
        return {"status": "internal_error", "lifted": False, "phase": "?", "message": repr(error)}


def _graded_by(worker: WorkerProcess, place: Path) -> Row:
    """The row of the pair in this folder, as far as a worker gets."""
    began_s = time.monotonic()
    row = known_of(place)
    try:
        for part in worker.parts(str(place), _LIMIT_S):
            row |= part
    except WorkerLostError as lost:
        row |= {"status": "not_done", "phase": "?", "lifted": False, "message": str(lost)}
    return {**row, "seconds": round(time.monotonic() - began_s, 1)}


def known_of(place: Path) -> Row:
    """What the list says of the pair in this folder."""
    pair = json.loads((place / "pair.json").read_text())
    return {name: pair[name] for name in ("name", "form", "claimed", "reviewed")}


def _false(row: Row) -> bool:
    """Whether the verdict contradicts what is known of the solution."""
    known = (row["reviewed"] or row["claimed"]).split(" ")[0].rstrip(":,.")
    if not known or cause_of(row)[0] != "judged":
        return False
    return (known == "right") != (row["status"] == "passed")


def _kept(folder: Path) -> dict[str, Row]:
    """What was graded before; the reviews are those of the list as it is now."""
    file = folder / _ROWS
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    for row in rows:
        place = folder / row["name"] / "pair.json"
        if place.exists():
            row["reviewed"] = json.loads(place.read_text())["reviewed"]
    return {row["name"]: row for row in rows}


def _report(rows: Sequence[Row], pairs: int, lift_only: bool, state: str) -> bool:
    by_form: dict[str, Counter[str]] = {}
    causes: dict[str, Counter[str]] = {}
    for row in rows:
        which, cause = cause_of(row)
        counted = by_form.setdefault(row["form"], Counter())
        counted.update({"pairs": 1, "lifted": int(row["lifted"]), "judged": int(which == "judged"), row["status"]: 1})
        if which != "judged":
            causes.setdefault(which, Counter())[cause] += 1
    table = Table("form", "pairs", "lifted", "judged", "passed", "other statuses")
    for form, counted in sorted(by_form.items()):
        others = ", ".join(
            f"{status} {many}"
            for status, many in counted.most_common()
            if many and status not in ("pairs", "lifted", "judged", "passed")
        )
        table.add_row(form, *(str(counted[name]) for name in ("pairs", "lifted", "judged", "passed")), others)
    Console().print(table)
    for which, counted in causes.items():
        for cause, many in counted.most_common():
            print(f"{which:8} {many:4}  {cause}")
    false = [row["name"] for row in rows if _false(row)]
    print("against what is known:", ", ".join(false) or "none")
    total = sum(by_form.values(), Counter[str]())
    cannot = sum(many for which in _CANNOT for many in causes.get(which, {}).values())
    told = ("pairs", "lifted") if lift_only else ("pairs", "lifted", "judged", "passed")
    judged = {
        "judged": total["judged"],
        "passed": total["passed"],
        "false_verdicts": len(false),
    }
    return save(
        _LIFTED if lift_only else _NAME,
        {
            "pairs": len(rows),
            "not_done": pairs - len(rows),
            "lifted": total["lifted"],
            "share_lifted": total["lifted"] / max(len(rows), 1),
            "share_lifted_of_what_can_be": total["lifted"] / max(len(rows) - cannot, 1),
            **({} if lift_only else judged),
            **{
                f"{form.replace('-', '_')}_{name}": counted[name]
                for form, counted in sorted(by_form.items())
                for name in told
            },
        },
        {"pairs": (">=", 200)} if lift_only else {"pairs": (">=", 200), "false_verdicts": ("<=", 0)},
        details={
            **({"state": state} if state else {}),
            "by_form": {form: dict(counted) for form, counted in sorted(by_form.items())},
            "causes": {which: dict(counted.most_common()) for which, counted in causes.items()},
        },
    )


def main() -> None:
    """Grade what was not graded yet, and save what is known; exit 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--seconds", type=float, default=14400.0)
    parser.add_argument("--lift-only", action="store_true")
    parser.add_argument("--state", default="")
    asked = parser.parse_args()
    sys.argv[1:] = ["--folder", "FOLDER", *(["--lift-only"] if asked.lift_only else [])]  # as it is saved
    places = sorted(path.parent for path in asked.folder.glob("*/pair.json"))
    # In an order that follows from the names, so that what is known early is of all forms.
    places.sort(key=lambda place: (hash_of(place.name), place.name))
    places = [one for one in places if not asked.only or any(text in one.name for text in asked.only)]
    rows = _kept(asked.folder)
    until_s = time.monotonic() + asked.seconds
    worker = WorkerProcess(_worker, asked.lift_only)
    try:
        for place in places:
            known = rows.get(place.name, {}).get("status", "")
            if (known and (asked.lift_only or known != "recorded")) or time.monotonic() > until_s:
                continue
            row = rows[place.name] = _graded_by(worker, place)
            with (asked.folder / _ROWS).open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(
                f"{row['seconds']:6.1f} s  {row['name']:44} {row['status']:18} {row['message'][:150]!r}", flush=True
            )
    finally:
        worker.end()
    chosen = [rows[place.name] for place in places if place.name in rows]
    raise SystemExit(not _report(chosen, len(places), asked.lift_only, asked.state))


def hash_of(name: str) -> int:
    """A number that follows from the name, and not from its order."""
    return int.from_bytes(name.encode()[::-1], "big") % 7919


if __name__ == "__main__":
    main()
