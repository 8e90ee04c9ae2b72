"""How many of the files of host code in tests/kernels are lifted, how many of these pass, and why the others do not.

    python benchmarks/grading/share_lifted.py [--seconds N] [--list NAME …]

Each file is graded on the simulator with quick verification, as its own list of tests does; `--seconds` stops there,
and what was not reached is not counted. Files are taken in turns from all lists, so that a part is of each of them.
"""

import argparse
import itertools
import re
import tempfile
import time
from collections import Counter
from pathlib import Path

from rich.console import Console

from benchmarks._support.record import save
from common.contract import Phase, Settings, Status, Submission, Verdict
from evaluator.foreign.loading import foreign_problem
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.settings import MachineSettings

KERNELS = Path(__file__).parents[2] / "tests" / "kernels"
LISTS = {"torch-extension": "extension", "kernelbench": "kernelbench", "solve": "solve", "triton": "triton"}
_PROBLEM = re.compile(r"^(?://|#) problem: (.*)$", re.MULTILINE)


def files_of(dialect: str) -> list[Path]:
    """The files of one list."""
    folder = KERNELS / LISTS[dialect]
    return sorted(path for path in folder.iterdir() if path.suffix in (".cu", ".py") and "test_" not in path.name)


def problem_named(source: str) -> str:
    """What the header of a file names: a problem of ours, or a file beside it that states one."""
    found = _PROBLEM.search(source)
    assert found is not None, source[:200]
    return found[1]


def graded(path: Path, dialect: str, toolbox: Toolbox) -> Verdict:
    """Its verdict, for the problem that its header names."""
    source = path.read_text()
    named = problem_named(source)
    settings = Settings(verification="quick", estimate_for=None)

    def submission(problem: str) -> Submission:
        return Submission.model_validate(
            {"problem": problem, "source": source, "dialect": dialect, "settings": settings}
        )

    if not named.endswith(".py"):
        return evaluate(submission(named), toolbox)
    text = (path.parent / named).read_bytes()
    with foreign_problem(text, Path(named).name, toolbox.sandbox, toolbox.cache) as problem:
        return evaluate(submission(problem.id), toolbox, problem=problem)


def main() -> None:
    """Grade what there is time for, and save what came of it."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--seconds", type=float, default=float("inf"), help="when to stop")
    asked.add_argument("--list", nargs="+", choices=LISTS, default=[*LISTS], help="which lists")
    given = asked.parse_args()
    until_s = time.monotonic() + given.seconds
    turns = itertools.zip_longest(*([(name, path) for path in files_of(name)] for name in given.list))
    seen, lifted, passed = Counter[str](), Counter[str](), Counter[str]()
    reasons: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        toolbox = Toolbox(MachineSettings(Path(folder)))
        for dialect, path in filter(None, itertools.chain.from_iterable(turns)):
            if time.monotonic() > until_s:
                break
            verdict = graded(path, dialect, toolbox)
            if verdict.status is Status.INTERNAL_ERROR:
                continue  # ours, or the machine's, and nothing about the file
            seen[dialect] += 1
            lifted[dialect] += verdict.compile is not None and verdict.compile.lifting is not None
            passed[dialect] += verdict.status is Status.PASSED
            if verdict.status is not Status.PASSED:
                at = "" if verdict.phase is Phase.VERIFY else f" in {verdict.phase}"
                reasons[f"{dialect}/{path.stem}"] = f"{verdict.status}{at}: {verdict.message}"
    figures = {
        f"{dialect}_{what}": float(counts[dialect])
        for dialect in seen
        for what, counts in (("files", seen), ("lifted", lifted), ("passed", passed))
    }
    whole = sum(seen.values())
    figures |= {
        "share_lifted": sum(lifted.values()) / max(1, whole),
        "share_passed": sum(passed.values()) / max(1, whole),
    }
    goals = {"share_lifted": (">=", 1.0), "share_passed": (">=", 1.0)}
    for name, reason in reasons.items():
        Console().print(f"{name}: {reason}", markup=False)
    save("share_lifted", figures, goals, details={"not_passed": reasons, "all_files": whole == _count(given.list)})


def _count(names: list[str]) -> int:
    return sum(len(files_of(name)) for name in names)


if __name__ == "__main__":
    main()
