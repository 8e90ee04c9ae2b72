"""Definitions of FlashInfer Trace with a workload: judged, found in folders, and refused by file and field."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from common.contract import OtherSizes, Reference, Status, Submission, Verdict, form_of, is_foreign_problem
from evaluator.cli.console import EXIT_PASSED, EXIT_USAGE
from evaluator.cli.main import main
from evaluator.errors import UsageError
from evaluator.foreign.inside.forms.axes import completed, extents, holds, left_open
from evaluator.foreign.inside.forms.trace import TraceFile
from evaluator.foreign.inside.refusals import RefusedError
from evaluator.foreign.loading import foreign_problem
from evaluator.foreign.reference import ReferenceRefusedError
from evaluator.foreign.sources import definitions_in, trace_text
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox

FOLDER = Path(__file__).parent / "references" / "trace"
KERNEL = (FOLDER / "weighted_rows.cu").read_text()
TEXT = trace_text(FOLDER / "definition.json")


def graded(source: str, toolbox: Toolbox, other_sizes: OtherSizes = "reported") -> Verdict:
    with foreign_problem(TEXT, "definition.json", toolbox.sandbox, toolbox.cache, other_sizes) as problem:
        assert problem.id.startswith("trace_definition_")
        assert problem.parameter_names[:4] == ("x", "weights", "total", "most")
        assert problem.example_sizes == ({"rows": 40, "width": 24, "parts": 4, "columns": 96},)
        assert [tensor.shape for tensor in problem.outputs] == [("rows",), ("rows",)]
        return evaluate(Submission(problem=problem.id, source=source, backend="sim"), toolbox, problem=problem)


def test_a_definition_is_judged_by_what_its_reference_returns(toolbox: Toolbox) -> None:
    right = graded(KERNEL, toolbox)
    assert right.status is Status.PASSED, right.message
    assert right.correctness is not None
    assert right.correctness.generalisation is not None
    assert right.correctness.generalisation.passed, right.correctness.generalisation.message
    wrong = graded(KERNEL.replace("* 0.25f", "* 0.2501f"), toolbox, "required")
    assert wrong.status is Status.INCORRECT, wrong.message


def test_its_form_is_known_by_being_json() -> None:
    assert form_of(TEXT) == "trace"
    problem_id = Reference(name="definition.json", text=TEXT.decode()).problem_id
    assert problem_id.startswith("trace_definition_")
    assert is_foreign_problem(problem_id)


def test_workloads_are_found_where_both_datasets_have_them(tmp_path: Path) -> None:
    assert json.loads(trace_text(FOLDER / "definition.json"))["workload"]["uuid"] == "first"
    assert json.loads(trace_text(FOLDER / "definition.json", "second"))["workload"]["axes"]["rows"] == 7
    with pytest.raises(UsageError, match="has the uuid third"):
        trace_text(FOLDER / "definition.json", "third")
    definition = tmp_path / "definitions" / "sums" / "weighted_rows_p4.json"
    workloads = tmp_path / "workloads" / "sums" / "weighted_rows_p4.jsonl"
    for file in (definition, workloads):
        file.parent.mkdir(parents=True)
    shutil.copy(FOLDER / "definition.json", definition)
    line = (FOLDER / "workload.jsonl").read_text().splitlines()[1]
    workloads.write_text(json.dumps({"definition": "another", "workload": {"uuid": "x", "axes": {}}}) + "\n")
    assert "workload" not in json.loads(trace_text(definition))
    with workloads.open("a") as file:
        file.write(json.dumps({"definition": "weighted_rows_p4", "workload": json.loads(line), "solution": None}))
    assert json.loads(trace_text(definition))["workload"]["uuid"] == "second"
    assert definitions_in(tmp_path) == [definition]
    workloads.unlink()
    older = tmp_path / "traces" / "workloads" / "sums" / "weighted_rows_p4.workload.jsonl"
    older.parent.mkdir(parents=True)
    older.write_text(json.dumps({"definition": "weighted_rows_p4", "workload": json.loads(line)}))
    assert json.loads(trace_text(definition))["workload"]["uuid"] == "second"
    workloads.write_text("{}\n{")
    with pytest.raises(UsageError, match=r"weighted_rows_p4\.jsonl:2: it is not JSON"):
        trace_text(definition)


def changed(path: str, value: Any) -> str:
    """The text with another value at `definition.axes.rows`; `...` takes it away."""
    whole: Any = json.loads(TEXT)
    *above, last = path.split("/")
    place = whole
    for name in above:
        place = place[name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(whole)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("definition/axes/columns/expression", "rows +", "axes.columns.expression: 'rows +' cannot be computed"),
        ("definition/axes/columns/expression", "2 * columns", "it depends on itself: columns -> columns"),
        ("definition/axes/columns/expression", "height", "axes.columns.expression: height is no axis"),
        ("definition/axes/columns/expression", "9 ** 60", "cannot be computed: it is too large"),
        ("definition/axes/columns/expression", "width / 7", "24 / 7 is no whole number"),
        ("definition/axes/columns/expression", "__import__('os')", "is no arithmetic of axes"),
        ("definition/axes/columns/expression", "width - 24", "axes.columns.expression: it is 0, and an extent"),
        ("definition/axes/parts/value", "4", "axes.parts.value: it is 4, and an extent"),
        ("definition/axes/parts/type", "fixed", "axes.parts.type: it is 'fixed'"),
        ("definition/axes", [], "workload.axes.rows: the definition has no var axis of this name"),
        ("definition/constraints", ["columns < parts"], "constraints[0]: columns < parts does not hold"),
        ("definition/inputs/x/dtype", "float8_e4m3fn", "inputs.x.dtype: float8_e4m3fn cannot be an input"),
        ("definition/inputs/x/shape", ["rows", "height"], "inputs.x.shape: 'height' is no axis"),
        ("definition/inputs/x", 3, "inputs.x: it is no object"),
        ("definition/outputs", {}, "outputs: there is none"),
        ("definition/outputs/most/shape", None, "outputs.most.shape: an output is a tensor"),
        ("definition/reference", 3, "reference: it is no text"),
        ("definition/reference", "import torch", "reference: it has no function `run`"),
        ("definition/custom_inputs_entrypoint", "other", "custom_inputs_entrypoint: the reference has no function"),
        ("workload/axes/rows", ..., "axes.rows: it is var, and no workload gives its extent"),
        ("workload/axes/parts", 3, "workload.axes.parts: the definition has no var axis of this name"),
        ("workload/axes/rows", 0, "workload.axes.rows: it is 0, and an extent"),
        ("workload/inputs/x", {"type": "safetensors", "path": "x"}, "workload.inputs.x: its contents lie"),
        ("workload/inputs/x", {"type": "zeros"}, "workload.inputs.x.type: it is 'zeros'"),
        ("workload/inputs/x", {"type": "custom"}, "workload.inputs.x: it is a NoneType where a tensor should be"),
        ("workload/inputs/factor", {"type": "random"}, "workload.inputs.factor: a number is needed here"),
        ("workload/tolerance/max_atol", -1, "workload.tolerance.max_atol: it cannot be -1"),
        ("workload/tolerance/required_matched_ratio", 2, "workload.tolerance.required_matched_ratio: it cannot be 2"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_refused_by_its_name(path: str, value: Any, told: str) -> None:
    def read() -> None:
        file = TraceFile(changed(path, value))
        file.arguments(file.model(1), 1)

    with pytest.raises(RefusedError, match=re.escape(told)):
        read()


def test_circles_of_axes_are_named_whole() -> None:
    axes = {name: {"type": "expr", "expression": other} for name, other in zip("abc", "bca", strict=True)}
    with pytest.raises(RefusedError, match=re.escape("axes.a.expression: it depends on itself: a -> b -> c -> a")):
        extents({"d": {"type": "expr", "expression": "a"}, **axes}, {})
    assert extents({"n": {"type": "var"}, "m": {"type": "expr", "expression": "-(-n // 4) ** 1 * 2 % 9"}}, {"n": 20})
    assert holds("n == 2 * m", {"n": 4, "m": 2}) is True
    assert holds("2 < m <= n", {"n": 4, "m": 2}) is False
    assert holds("n == offsets[-1].item()", {"n": 4}) is None


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("return total * factor, x.abs().amax(-1)", "return total", "run returns 1 values for the 2 outputs"),
        ("return total * factor", "return x", "its shape is (40, 96), and outputs.total.shape says (40,)"),
        ("return total * factor", "return total.half()", "what run returns as total: it is torch.float16"),
        ("total = (x", "total = (y", "definition.json: line 13 of its reference: forward fails: NameError"),
        ("def run(x, weights, factor)", "def run(x, weights)", "run fails: TypeError: too many positional arguments"),
        ('{"weights": weights}', "[weights]", "generate_inputs returns a list, and not a dict"),
    ],
)  # fmt: skip
def test_what_the_reference_does_otherwise_is_refused(old: str, new: str, told: str, toolbox: Toolbox) -> None:
    reference = json.loads(TEXT)["definition"]["reference"]
    assert old in reference
    text = changed("definition/reference", reference.replace(old, new, 1)).encode()
    with (
        pytest.raises(ReferenceRefusedError, match=re.escape(told)) as refused,
        foreign_problem(text, "definition.json", toolbox.sandbox, toolbox.cache),
    ):
        pass
    assert str(refused.value).startswith("definition.json: ")


def test_the_commands_take_it(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_DATA_DIR", str(toolbox.settings.data_dir))
    kernel, folder = str(FOLDER / "weighted_rows.cu"), str(FOLDER)
    for problem in (f"trace:{folder}", f"trace:{folder}/definition.json#second"):
        passed = CliRunner().invoke(main, ("grade", kernel, "--problem", problem, "--quick", "--json"))
        assert passed.exit_code == EXIT_PASSED, passed.output
        assert json.loads(passed.stdout)["problem"].startswith("trace_trace_")  # its folder's name
    told = CliRunner().invoke(main, ("problems", "--trace", folder))
    assert told.exit_code == EXIT_PASSED
    assert told.stdout.startswith("ok    definition.json: loads, calibrates; tells TF32")
    assert "1 file: 1 load, 1 calibrate" in told.stdout
    other = CliRunner().invoke(main, ("grade", kernel, "--problem", f"tensara:{folder}/definition.json"))
    assert (other.exit_code, "is in the form trace, and not tensara" in other.output) == (EXIT_USAGE, True)


def stated(axes: dict[str, Any], inputs: dict[str, Any], reference: str, **more: Any) -> str:
    """A definition without a workload, whose output is as its first input."""
    first = next(iter(inputs.values()))
    told = {"axes": axes, "inputs": inputs, "outputs": {"out": first}, "reference": reference, **more}
    return json.dumps({"name": "scaled", "op_type": "scale", **told})


VAR: dict[str, Any] = {"type": "var"}
ROWS = {"shape": ["rows", "width"], "dtype": "float32"}
SCALED = "import torch\ndef run(x, factor=2.0, mask=None):\n    return x * factor * (1 if mask is None else mask)\n"


def test_a_definition_without_a_workload_stands_at_default_extents(toolbox: Toolbox) -> None:
    text = stated(
        {"rows": VAR, "half": VAR, "width": {"type": "const", "value": 48}},
        {
            "x": ROWS,
            "factor": {"shape": None, "dtype": "float32"},
            "mask": {"shape": ["half"], "dtype": "unknown", "optional": True},
        },
        SCALED,
        constraints=["width == 2 * half", "rows <= total.sum()"],
    )
    with foreign_problem(text.encode(), "definition.json", toolbox.sandbox, toolbox.cache) as problem:
        assert problem.example_sizes == ({"rows": 64, "half": 24, "width": 48},)
        assert [tensor.name for tensor in problem.inputs] == ["x"]
        assert problem.caveats[0] == "no workload gives its extents and contents: it stands at rows=64, and is random"
        kernel = """
        __global__ void doubled(const float* x, float* out, int rows, int width)
        {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < rows * width) out[i] = 2.0f * x[i];
        }
        """
        submission = Submission(problem=problem.id, source=kernel, backend="sim")
        verdict = evaluate(submission, toolbox, problem=problem)
        assert verdict.status is Status.PASSED, verdict.message


@pytest.mark.parametrize(
    ("inputs", "more", "told"),
    [
        ({"x": ROWS, "places": {"shape": ["rows"], "dtype": "int32"}}, {},
         "inputs.places: it holds whole numbers (int32), such as indices or lengths, and random ones say nothing"),
        ({"x": ROWS, "power": {"shape": None, "dtype": "float32"}}, {},
         "inputs.power: it is a number that only a workload gives: a workload is needed"),
        ({"x": ROWS}, {"constraints": ["rows > 100"]},
         "constraints[0]: rows > 100 does not hold for rows=64: a workload is needed"),
    ],
)  # fmt: skip
def test_what_only_a_workload_gives_is_named(inputs: dict[str, Any], more: dict[str, Any], told: str) -> None:
    names = ", ".join(inputs)
    axes = {"rows": VAR, "width": {"type": "const", "value": 48}}
    text = stated(axes, inputs, f"def run({names}):\n    return x * 2\n", **more)

    def read() -> None:
        file = TraceFile(text)
        file.arguments(file.model(1), 1)

    with pytest.raises(RefusedError, match=re.escape(told)):
        read()


def test_a_reference_that_random_inputs_do_not_fit_needs_a_workload(toolbox: Toolbox) -> None:
    text = stated(
        {"rows": VAR, "width": VAR}, {"x": ROWS}, "import torch\ndef run(x):\n    return torch.bernoulli(x)\n"
    )
    with (
        pytest.raises(ReferenceRefusedError, match=r"may not fit it: a workload is needed\)"),
        foreign_problem(text.encode(), "definition.json", toolbox.sandbox, toolbox.cache),
    ):
        pass


def test_a_number_that_bears_the_name_of_an_axis_is_its_extent() -> None:
    text = stated(
        {"rows": VAR, "width": {"type": "const", "value": 48}},
        {"x": ROWS, "width": {"shape": None, "dtype": "int32"}},
        "def run(x, width):\n    return x * width\n",
    )
    model: Any = TraceFile(text).model(1)
    assert model.scalars == {"width": 48}


def test_a_reference_of_another_name_is_called_by_names(toolbox: Toolbox) -> None:
    """As in the definitions that FlashInfer makes of its own tests, whose inputs may be in another order."""
    text = stated(
        {"rows": VAR, "width": {"type": "const", "value": 48}},
        {"x": ROWS, "bias": {"shape": ["width"], "dtype": "float32"}},
        "def _scaled_reference(bias, x, **_unused):\n    return x * 3 + bias\n",
    )
    with foreign_problem(text.encode(), "definition.json", toolbox.sandbox, toolbox.cache) as problem:
        assert [tensor.shape for tensor in problem.inputs] == [("rows", "48"), ("48",)]
    ordered = text.replace("bias, x, **_unused", "matrix, row").replace("x * 3 + bias", "matrix * 3 + row")
    model: Any = TraceFile(ordered).model(1)
    assert not model.by_name


def test_constant_axes_are_made_smaller_where_nothing_else_is_enough(toolbox: Toolbox) -> None:
    text = stated(
        {"rows": VAR, "width": {"type": "const", "value": 4096}},
        {"x": ROWS, "weight": {"shape": ["width", "width"], "dtype": "float32"}},
        "def run(x, weight):\n    return x @ weight\n",
    )
    with foreign_problem(text.encode(), "definition.json", toolbox.sandbox, toolbox.cache) as problem:
        (sizes,) = problem.example_sizes
        assert sizes["width"] < 4096
        assert problem.too_large == "rows=64, width=4096"
        assert "too large for the simulator: it is judged at" in problem.caveats[-1]
    kept = text.replace("4096", "2048")
    with foreign_problem(kept.encode(), "definition.json", toolbox.sandbox, toolbox.cache) as problem:
        assert problem.example_sizes[0]["width"] == 2048


def test_extents_that_follow_from_others_are_found() -> None:
    axes = dict.fromkeys(("rows", "rows_plus_one", "half", "odd"), VAR) | {"n": {"type": "const", "value": 9}}
    constraints = ["rows_plus_one == rows + 1", "n == 3 * half", "n == 2 * odd", "rows == table[-1].item()", "rows <"]
    assert left_open(axes, constraints) == {"rows": 64, "odd": 64}
    assert completed(axes, constraints, {"rows": 5}) == {"rows": 5, "rows_plus_one": 6, "half": 3}
