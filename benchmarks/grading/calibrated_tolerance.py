"""The calibrated tolerance of problems of others, held against the derived one of our own: are verdicts the same?

    python benchmarks/grading/calibrated_tolerance.py [--problems NAME …] [--kernels 2] [--seconds 3600] [--afresh]

Each of our problems is stated as a definition of FlashInfer Trace, with its baseline as the reference, and calibrated
as a problem of anyone. *Kernels*: honest ones (`tests/kernels/`) and those of lower precision (`tests/adversarial/`)
are graded for our own problem and for the stated one. *Answers*: what the oracle says of inputs rounded to TF32,
bfloat16 or float16, rounded again, is held against both tolerances: against ours on typical inputs and probes,
against the calibrated one on the inputs of the stated problem. What is known is saved at once, and not done again.
"""

import argparse
import json
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks._support.record import RESULTS, save
from common.contract import Settings, Submission
from common.wire import DType
from evaluator.foreign.loading import foreign_problem
from evaluator.foreign.reference import ReferenceRefusedError
from evaluator.foreign.zygote import KEPT
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.arrays import Array, NumpyRng
from evaluator.problems.catalogue import problems
from evaluator.problems.linter import keep_bits, within
from evaluator.problems.problem import Arrays, Distribution, Problem, Sizes, Tolerance
from evaluator.settings import MachineSettings

_NAME: Final = "calibrated_tolerance"
_TESTS: Final = Path(__file__).parents[2] / "tests"
_LOWER_KERNELS: Final = re.compile(
    r".*_in_(tf32|float16|bfloat16)|tensor_core_tf32|f16_accumulator|f16_truncated_output"
)
_SEED: Final = 7

Row = dict[str, Any]


def _to_float16(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float64).astype(np.float16).astype(np.float64)


_ROUNDED: Final[Mapping[str, Callable[[Array], Array]]] = {
    "TF32": lambda values: keep_bits(values, 10),
    "bfloat16": lambda values: keep_bits(values, 7),
    "float16": _to_float16,
}
_LOWER: Final[Mapping[DType, tuple[str, ...]]] = {DType.FLOAT32: tuple(_ROUNDED), DType.FLOAT16: ("bfloat16",)}


def stated(problem: Problem) -> str:
    """The problem at its typical sizes, as the text of a definition with its workload."""
    sizes = problem.example_sizes[0]
    tensors = {tensor.name: tensor for tensor in (*problem.inputs, *problem.outputs)}
    shapes = {name: [_axis(extent) for extent in tensor.shape] for name, tensor in tensors.items()}
    axes: dict[str, Any] = {name: {"type": "var"} for name in problem.sizes}
    axes |= {
        axis: {"type": "const", "value": int(axis.removeprefix("extent_"))}
        for shape in shapes.values()
        for axis in shape
        if axis not in axes
    }
    specs = {name: {"shape": shapes[name], "dtype": tensor.dtype.value} for name, tensor in tensors.items()}
    given = [tensor.name for tensor in problem.inputs]
    whole = [tensor.name for tensor in problem.inputs if not tensor.dtype.is_float]
    known = [
        f"    {axis} = {name}.shape[{at}]"
        for name in given
        for at, axis in enumerate(shapes[name])
        if axis in problem.sizes
    ]
    made = [f'"{name}": torch.randint(0, 256, [axes[one] for one in {shapes[name]}]).int()' for name in whole]
    names = ", ".join([*given, *(scalar.name for scalar in problem.scalars)])
    reference = [
        "import torch",
        "import torch.nn.functional as F",
        "def made(axes, device):",
        f"    return {{{', '.join(made)}}}",
        f"def run({names}):",
        *known,
        f"    return {problem.baseline}",
    ]
    scalars = {scalar.name: scalar for scalar in problem.scalars}
    definition = {
        "name": problem.id,
        "op_type": "own",
        "axes": axes,
        "inputs": {name: specs[name] for name in given}
        | {name: {"shape": None, "dtype": scalar.dtype.value} for name, scalar in scalars.items()},
        "outputs": {tensor.name: specs[tensor.name] for tensor in problem.outputs},
        "custom_inputs_entrypoint": "made",
        "reference": "\n".join(reference),
    }
    inputs: dict[str, Any] = {name: {"type": "custom" if name in whole else "random"} for name in given}
    inputs |= {name: {"type": "scalar", "value": scalar.value} for name, scalar in scalars.items()}
    return json.dumps({"definition": definition, "workload": {"uuid": "own", "axes": sizes, "inputs": inputs}})


def _axis(extent: str) -> str:
    return f"extent_{extent}" if extent.isdigit() else extent


def _kernels(problem: Problem, most: int) -> Iterator[tuple[Path, str]]:
    """Honest kernels, `most` of them, and those of lower precision, each with its kind."""
    for folder, kind in ((_TESTS / "kernels", "honest"), (_TESTS / "adversarial", "lower")):
        found = [
            path
            for path in sorted(folder.glob("*.cu"))
            if f"// problem: {problem.id}\n" in (text := path.read_text())
            and (kind == "honest" or _LOWER_KERNELS.fullmatch(path.stem))
            # A plan that is inferred binds the scalars too, which the stated problem holds as numbers.
            and ("// assay: launch" in text or not problem.scalars)
        ]
        yield from ((path, kind) for path in (found[:most] if kind == "honest" else found))


def _for_stated(source: str, problem: Problem) -> str:
    """With numbers for the scalars in its launch plan."""

    def numbers(directive: re.Match[str]) -> str:
        line = directive.group()
        for scalar in problem.scalars:
            line = re.sub(rf"\b{scalar.name}\b", repr(float(np.float32(scalar.value))), line)
        return line

    return re.sub(r"^// assay: launch .*$", numbers, source, flags=re.MULTILINE)


def _status(problem: Problem, source: str, toolbox: Toolbox, own: bool) -> str:
    settings = Settings(timing=False, estimate_for=None)
    submission = Submission(problem=problem.id, source=source, backend="sim", settings=settings)
    verdict = evaluate(submission, toolbox) if own else evaluate(submission, toolbox, problem=problem)
    return verdict.status.value


def _caught(problem: Problem, lower: str, trials: Sequence[tuple[Distribution, Sizes, Tolerance]]) -> bool:
    """Whether an answer from rounded inputs, rounded too, is wrong in any trial."""
    rounded = _ROUNDED[lower]
    for turn, (distribution, sizes, tolerance) in enumerate(trials):
        inputs = distribution.draw(NumpyRng(np.random.default_rng(_SEED + turn)), sizes)
        moved: Arrays = {
            name: rounded(one.astype(np.float64)).astype(one.dtype) if one.dtype.kind == "f" else one
            for name, one in inputs.items()
        }
        with np.errstate(all="ignore"):
            wanted, found = problem.oracle(inputs, sizes), problem.oracle(moved, sizes)
            answers = {name: rounded(one.value) for name, one in found.items()}
        if not all(within(answers[name], one, tolerance) for name, one in wanted.items()):
            return True
    return False


def _rows(problem: Problem, most: int, toolbox: Toolbox, done: set[tuple[str, str]]) -> Iterator[Row]:
    """What is not among those done. Raises ReferenceRefusedError where the stated problem cannot be calibrated."""
    with foreign_problem(stated(problem).encode(), f"{problem.id}.json", toolbox.sandbox, toolbox.cache) as theirs:
        untold = [one for one in _ROUNDED if any(f"cannot tell {one} " in caveat for caveat in theirs.caveats)]
        for lower in _LOWER.get(problem.outputs[0].dtype, ()):
            if (problem.id, lower) in done:
                continue
            begun_s = time.monotonic()
            ours = [(problem.distributions[0], problem.example_sizes[0], problem.tolerance)]
            ours += [(probe.distribution, probe.sizes or problem.example_sizes[0], probe.tolerance)
                     for probe in problem.probes]  # fmt: skip
            others = [(one, theirs.example_sizes[0], theirs.tolerance) for one in theirs.distributions]
            derived, calibrated = (
                "incorrect" if _caught(one, lower, trials) else "passed"
                for one, trials in ((problem, ours), (theirs, others))
            )
            yield _row(problem, lower, "answer", derived, calibrated, lower in untold, begun_s)
        for path, kind in _kernels(problem, most):
            if (problem.id, path.stem) in done:
                continue
            begun_s, source = time.monotonic(), path.read_text()
            derived = _status(problem, source, toolbox, own=True)
            calibrated = _status(theirs, _for_stated(source, problem), toolbox, own=False)
            said = any(one.lower() in path.stem for one in untold)
            yield _row(problem, path.stem, kind, derived, calibrated, said, begun_s)


def _row(problem: Problem, name: str, kind: str, derived: str, calibrated: str, said: bool, begun_s: float) -> Row:
    return {
        "problem": problem.id,
        "name": name,
        "kind": kind,
        "derived": derived,
        "calibrated": calibrated,
        "said": said,
        "seconds": round(time.monotonic() - begun_s, 2),
    }


def _figures(rows: Sequence[Row], refused: Mapping[str, str], asked: int) -> dict[str, float]:
    def count(kind: str, derived: bool | None = None, calibrated: bool | None = None, said: bool = False) -> int:
        return sum(
            row["kind"] == kind
            and derived in (None, row["derived"] == "passed")
            and calibrated in (None, row["calibrated"] == "passed")
            and (row["said"] or not said)
            for row in rows
        )

    return {
        "problems": len({row["problem"] for row in rows} | refused.keys()),
        "problems_left": asked - len({row["problem"] for row in rows} | refused.keys()),
        "problems_not_calibrated": len(refused),
        "honest_kernels": count("honest"),
        "honest_refused_by_derived": count("honest", derived=False),
        "honest_refused_by_calibrated": count("honest", calibrated=False),
        "lower_kernels": count("lower"),
        "lower_accepted_by_derived": count("lower", derived=True),
        "lower_accepted_by_calibrated": count("lower", calibrated=True),
        "lower_accepted_and_said": count("lower", calibrated=True, said=True),
        "lower_answers": count("answer"),
        "answers_accepted_by_derived": count("answer", derived=True),
        "answers_accepted_by_calibrated": count("answer", calibrated=True),
        "answers_accepted_and_said": count("answer", calibrated=True, said=True),
        "verdicts_that_differ": sum((row["derived"] == "passed") != (row["calibrated"] == "passed") for row in rows),
    }


_GOALS: Final = {
    "problems_left": ("<=", 0.0),
    "problems_not_calibrated": ("<=", 0.0),
    "verdicts_that_differ": ("<=", 0.0),
}


def _kept(rows: Sequence[Row], refused: Mapping[str, str], asked: int, quiet: bool) -> None:
    details = {"rows": list(rows), "refused": dict(refused)}
    versions = {"torch": torch.__version__}
    save(_NAME, _figures(rows, refused, asked), _GOALS, versions, device="simulator", details=details, quiet=quiet)


def _show(rows: Sequence[Row], refused: Mapping[str, str]) -> None:
    table = Table("problem", "kernel or precision", "kind", "derived", "calibrated", "said to be untold")
    for row in rows:
        if (row["derived"] == "passed") != (row["calibrated"] == "passed"):
            table.add_row(*(str(row[key]) for key in ("problem", "name", "kind", "derived", "calibrated", "said")))
    Console(width=140).print(table)
    for name, why in refused.items():
        print(f"{name} cannot be calibrated: {why}")


def main() -> None:
    """Grade, and save each row when it is known."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", nargs="*", default=list(problems()), choices=list(problems()))
    parser.add_argument("--kernels", type=int, default=2, help="honest ones of each problem")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--afresh", action="store_true", help="forget what is saved of these problems")
    wanted = parser.parse_args()
    until_s, saved = time.monotonic() + wanted.seconds, RESULTS / f"{_NAME}.json"
    before = json.loads(saved.read_text())["details"] if saved.exists() else {}
    forgotten = set(wanted.problems) if wanted.afresh else set()
    rows: list[Row] = [row for row in before.get("rows", []) if row["problem"] not in forgotten]
    refused = {name: why for name, why in before.get("refused", {}).items() if name not in wanted.problems}
    with tempfile.TemporaryDirectory() as folder:
        toolbox = Toolbox(MachineSettings(Path(folder)))
        toolbox.simulator.warm_up()
        for name in wanted.problems:
            if time.monotonic() > until_s:
                break
            try:
                done = {(row["problem"], row["name"]) for row in rows}
                for row in _rows(problems()[name], wanted.kernels, toolbox, done):
                    rows.append(row)
                    told = " ".join(f"{row[key]:>12}" for key in ("derived", "calibrated", "seconds"))
                    print(f"{name:16}{row['name']:44}{row['kind']:8}{told}", flush=True)
                    _kept(rows, refused, len(problems()), quiet=True)
                    if time.monotonic() > until_s:
                        break
            except ReferenceRefusedError as error:
                refused[name] = str(error)
                print(f"{name:16}{error}", flush=True)
        KEPT.end_all()
    _show(rows, refused)
    _kept(rows, refused, len(problems()), quiet=False)


if __name__ == "__main__":
    main()
