"""What the comparison of lifted and built public solutions says of its rows, and its parts without a GPU."""

import contextlib
import json
import os
import time
from collections import Counter

import numpy as np
import pytest

from benchmarks._support import built_solve
from benchmarks._support.built_solve import called_as, judged_as_built, shared_library
from benchmarks._support.worker_process import WorkerLostError, WorkerProcess, served
from benchmarks.gpu import public_and_built
from benchmarks.grading import own_solutions
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.catalogue import find_problem
from evaluator.settings import MachineSettings


def row(name, lifted, built, reviewed="", form="solve"):
    sides = {"lifted": (lifted, True), "built": (built, False)}
    told = {side: {"status": status, "lifted": way} for side, (status, way) in sides.items()}
    return {"name": name, "form": form, "reviewed": reviewed, **told}


def test_what_disagrees_is_counted_and_a_review_that_says_as_we_do_explains_it():
    rows = [
        row("alike", "passed", "passed"),
        row("both_wrong", "incorrect", "runtime_error"),
        row("read_and_wrong", "rejected", "passed", "wrong: it changes its input"),
        row("read_and_right", "incorrect", "passed", "right: its tolerance is"),
        row("not_lifted", "unsupported", "passed", form="triton"),
        row("late", "passed", "not_done", form="triton"),
    ]
    figures = public_and_built.figures_of(rows)
    assert (figures["compared"], figures["agree"], figures["disagree"], figures["unexplained"]) == (4, 2, 2, 1)
    assert (figures["solve_compared"], figures["triton_compared"], figures["late"]) == (4, 0, 1)


def test_pairs_come_in_turns_of_their_forms_and_what_was_late_comes_again(tmp_path):
    forms = {"a": "solve", "b": "solve", "c": "kernelbench", "d": "triton"}
    for name, form in forms.items():
        (tmp_path / name).mkdir()
        pair = {"name": name, "form": form, "claimed": "", "reviewed": ""}
        (tmp_path / name / "pair.json").write_text(json.dumps(pair))
    places = public_and_built.in_turns([tmp_path / name for name in forms], lambda place: forms[place.name])
    assert [forms[place.name] for place in places] == ["kernelbench", "solve", "triton", "solve"]
    # Of what is new and what lacks one side, that which compiles quickly; then what can hardly be compared.
    earlier = [row("a", "passed", "passed"), row("b", "unsupported", "not_tried"), row("c", "passed", "not_done")]
    pairs = public_and_built.Pairs(places, tmp_path / "rows", earlier)
    left = [(place.name, pairs._sides(place)) for place in pairs._left]
    assert left == [("d", ("lifted", "built")), ("c", ("built",)), ("b", ("built",))]
    assert not pairs._are_enough()
    assert public_and_built.Pairs(places, tmp_path / "rows", earlier, enough=1)._are_enough()
    assert len((tmp_path / "rows").read_text().splitlines()) == 3


def test_what_one_of_two_calls_judged_stays_judged(tmp_path):
    files = {
        "one": [row("a", "passed", "not_tried"), row("a", "passed", "passed"), row("b", "passed", "not_done")],
        "two": [row("a", "passed", "not_tried"), row("b", "passed", "not_done"), row("b", "passed", "incorrect")],
    }
    for name, rows in files.items():
        (tmp_path / name).write_text("\n".join(map(json.dumps, rows)) + '\n{"name": "cut o')
    found = public_and_built.read_rows([tmp_path / name for name in (*files, "none")])
    assert {one["name"]: one["built"]["status"] for one in found} == {"a": "passed", "b": "incorrect"}


def _works(pipe):
    def work(order):
        yield os.getpid()
        if order == "die":
            os._exit(3)
        time.sleep(60 if order == "hang" else 0)
        yield order

    served(pipe, work)


def test_a_worker_that_dies_or_hangs_is_made_anew():
    worker = WorkerProcess(_works)
    try:
        first, said = worker.parts("one", 60)
        for order, limit_s in (("die", 60), ("hang", 3)):
            with pytest.raises(WorkerLostError):
                list(worker.parts(order, limit_s))
        second, again = worker.parts("two", 60)
        assert (said, again) == ("one", "two")
        assert first != second
    finally:
        worker.end()


_SOLVE = """\
#include <cuda_runtime.h>
__global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
extern "C" void solve(const float* a, const float* b, float* c, int n) { add<<<(n + 255) / 256, 256>>>(a, b, c, n); }
"""


def test_a_library_is_built_and_its_answers_are_held_against_the_oracle(tmp_path, monkeypatch):
    toolbox, problem = Toolbox(MachineSettings(tmp_path / "data")), find_problem("vector_add")
    call = called_as(_SOLVE, problem, toolbox, "sm_80")
    library = shared_library(_SOLVE, "solution", toolbox.toolchain, "sm_80", tmp_path)
    assert b"solve" in library.read_bytes()

    def called(folder, gpu, wrong=0.0):
        task = json.loads((folder / "task.json").read_text())
        for number, one in enumerate(task["calls"]):
            assert [value.partition(" ")[0] for value in one["values"]] == ["p", "p", "p", "i"]
            a, b = (np.fromfile(folder / f"{number}.{at}.in", np.float32) for at in range(task["inputs"]))
            assert one["bytes"] == [a.nbytes] * 3
            (a + b + np.float32(wrong)).tofile(folder / f"{number}.2.out")
        return []

    def judged(child):
        monkeypatch.setattr(built_solve, "_called", child)
        return judged_as_built(call, library, problem, tmp_path, 5, contextlib.nullcontext(), "")

    assert judged(called) == ("passed", "")
    assert judged(lambda folder, gpu: called(folder, gpu, 1.0))[0] == "incorrect"
    assert judged(lambda folder, gpu: [1]) == ("rejected", "it changed its input b")


def test_a_library_without_a_gpu_is_no_answer(tmp_path):
    task = {"library": "/none.so", "entry": "solve", "limit_s": 60, "inputs": 0, "initial": [], "calls": []}
    (tmp_path / "task.json").write_text(json.dumps({**task, "parameters": []}))
    with pytest.raises(built_solve.BuiltError) as failed:
        built_solve._called(tmp_path, "")
    assert failed.value.status == "not_done"
    assert "none.so" in str(failed.value)


def test_our_own_files_are_laid_out_with_those_made_wrong(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["own_solutions.py", "--folder", str(tmp_path)])
    own_solutions.main()
    pairs = {path.parent.name: json.loads(path.read_text()) for path in tmp_path.glob("*/pair.json")}
    forms = Counter(pair["form"] for pair in pairs.values() if pair["reviewed"] == "right")
    assert (forms["torch-extension"] >= 40, forms["kernelbench"] >= 30, forms["triton"] >= 30) == (True, True, True)
    wrong = [name for name, pair in pairs.items() if pair["reviewed"] == "wrong"]
    assert len(wrong) >= 25
    for name in wrong:
        texts = [next((tmp_path / one).glob("solution.*")).read_text() for one in (name, name.removesuffix("_wrong"))]
        assert texts[0] != texts[1], name
    assert all(pair["problem"] or (tmp_path / name / "problem.py").exists() for name, pair in pairs.items())
