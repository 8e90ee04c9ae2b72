"""Problems in Tensara's form: judged at their first test case, and refused in words."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from common.contract import OtherSizes, Reference, Status, Submission, Verdict, form_of, is_foreign_problem
from evaluator.cli.console import EXIT_PASSED
from evaluator.cli.main import main
from evaluator.foreign.inside.forms.tensara import TensaraFile
from evaluator.foreign.loading import foreign_problem
from evaluator.foreign.reference import ReferenceRefusedError
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.arrays import NumpyRng

FOLDER = Path(__file__).parent / "references" / "tensara"
TEXT, KERNEL = (FOLDER / "def.py").read_text(), (FOLDER / "damped_product.cu").read_text()


def graded(source: str, toolbox: Toolbox, other_sizes: OtherSizes = "reported") -> Verdict:
    with foreign_problem(TEXT.encode(), "def.py", toolbox.sandbox, toolbox.cache, other_sizes) as problem:
        names = ("matrix", "vector", "result", "rows", "columns")
        assert (problem.parameter_names, problem.id[:12]) == (names, "tensara_def_")
        assert problem.example_sizes == ({"rows": 48, "columns": 96},)
        assert [tensor.shape for tensor in problem.inputs] == [("rows", "columns"), ("columns",)]
        return evaluate(Submission(problem=problem.id, source=source, backend="sim"), toolbox, problem=problem)


def test_a_problem_is_judged_by_what_its_reference_returns(toolbox: Toolbox) -> None:
    right = graded(KERNEL, toolbox)
    assert right.status is Status.PASSED, right.message
    assert right.correctness is not None
    assert right.correctness.generalisation is not None
    assert right.correctness.generalisation.passed
    wrong = graded(KERNEL.replace("0.5f * sum", "0.5001f * sum"), toolbox, "required")
    assert wrong.status is Status.INCORRECT, wrong.message


def test_its_form_is_known_by_what_it_imports() -> None:
    assert form_of(TEXT.encode()) == "tensara"
    assert form_of(b"# from problem import Problem\nimport torch") == "kernelbench"
    assert is_foreign_problem(Reference(name="def.py", text=TEXT).problem_id)


@pytest.mark.parametrize(
    ("loop", "sizes"),
    [
        ("sizes = [((3, 4), 1)]\n        for shape, axis in sizes: pass", {"shape_0": 3, "shape_1": 4, "axis": 1}),
        ("for name, n in [('few', 1 << 4)]: pass", {"n": 16}),
        ("of = [(64, 32, 'a')]\n        return [self.of(m, n, name) for m, n, name in of]", {"m": 64, "n": 32}),
        ("for n in [8, 9]:\n            for bins in [2]: pass", {"n": 8, "bins": 2}),
        ("sizes = [3]\n        sizes = [4]\n        for n in sizes: pass", {}),
        ("for n in range(3): pass", {}),
    ],
)  # fmt: skip
def test_sizes_are_the_first_of_each_list(loop: str, sizes: dict[str, int]) -> None:
    text = f"class one:\n    def generate_test_cases(self):\n        {loop}\n"
    assert {name: place.value for name, place in TensaraFile.parsed(text)[1].items()} == sizes


@pytest.mark.parametrize(
    ("changed", "into", "told"),
    [
        ("class damped_product(Problem)", "class damped_product", "def.py: it has 0 classes that extend Problem"),
        ("def reference_solution", "def another", "def.py:7: its class damped_product has no method `reference_"),
        ("return cases", "return []", "def.py: generate_test_cases gives no test case"),
        ("return torch.mv(matrix", "return torch.mv(matrices", "def.py:25: forward fails: NameError"),
        ("* damping", "* damping + torch.rand(1)", "def.py:25: forward draws random numbers"),
        ('device="cuda", dtype=dtype, generator=g) * 2.0', 'device="meta")', "contents in memory: it is on meta"),
    ],
)  # fmt: skip
def test_what_is_no_problem_is_refused(changed: str, into: str, told: str, toolbox: Toolbox) -> None:
    assert changed in TEXT
    text = TEXT.replace(changed, into, 1).encode()
    with (
        pytest.raises(ReferenceRefusedError, match=re.escape(told)),
        foreign_problem(text, "def.py", toolbox.sandbox, toolbox.cache),
    ):
        pass


def test_a_problem_whose_solutions_get_a_shape_as_a_tensor_is_judged_all_the_same(toolbox: Toolbox) -> None:
    pointers = POINTER[:-1] + ", {'name': 'shape', 'type': 'size_t', 'pointer': True, 'const': True}]"
    text = CASES.format(parameters=pointers, answer="values.cumsum(1)", more="", made="torch.rand(8, 4)")
    with foreign_problem(text.encode(), "def.py", toolbox.sandbox, toolbox.cache) as problem:
        assert [one.name for one in problem.inputs] == ["values"]
        assert [(one.name, one.tensor) for one in problem.entry] == [("values", "values"), ("shape", "")]


def test_the_commands_take_it(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_DATA_DIR", str(toolbox.settings.data_dir))
    kernel = str(FOLDER / "damped_product.cu")
    graded = CliRunner().invoke(main, ("grade", kernel, "--problem", f"tensara:{FOLDER}", "--quick"))
    assert graded.exit_code == EXIT_PASSED, graded.output
    told = CliRunner().invoke(main, ("problems", "--tensara", str(FOLDER)))
    assert told.exit_code == EXIT_PASSED
    assert "varies rows, columns" in told.stdout


CASES = """
import torch
from problem import Problem

class ranked(Problem):
    parameters = {parameters}

    def __init__(self):
        super().__init__(name="ranked")

    def reference_solution(self, values):
        return {answer}

    def generate_test_cases(self{more}):
        cases = [{{"name": "first", "dims": (8192, 4096)}}, {{"name": "second", "dims": (4, 8192)}}]
        return [
            {{"create_inputs": lambda dims=case["dims"]: ({made},)}}
            for case in cases
        ]
"""
POINTER = "[{'name': 'values', 'type': 'float', 'pointer': True, 'const': True}]"


def test_numbers_of_cases_that_are_dicts_are_made_smaller(toolbox: Toolbox) -> None:
    """From shapes alone, though a generator of the file draws on the device that it names."""
    made = "torch.rand(*dims, device='cuda', generator=torch.Generator(device='cuda').manual_seed(3)) * 2 - 1"
    text = CASES.format(parameters=POINTER, answer="values.cumsum(1) @ values.T", more="", made=made)
    with foreign_problem(text.encode(), "def.py", toolbox.sandbox, toolbox.cache) as problem:
        (sizes,) = problem.example_sizes
        assert list(sizes) == ["dims_0", "dims_1"]
        assert problem.too_large == "dims_0=8192, dims_1=4096"
        assert problem.inputs[0].shape == ("dims_0", "dims_1")
        assert sizes["dims_0"] < 8192


def test_older_problems_are_given_a_type_and_name_no_parameters(toolbox: Toolbox) -> None:
    made = "torch.rand(dims[0] // 128, 3, dtype=dtype) - 0.5"
    text = CASES.format(parameters="()", answer="values * 3", more=", dtype", made=made)
    with foreign_problem(text.encode(), "def.py", toolbox.sandbox, toolbox.cache) as problem:
        assert [tensor.name for tensor in (*problem.inputs, *problem.outputs)] == ["values", "out"]


def test_whole_numbers_in_float32_are_cut_where_they_stand(toolbox: Toolbox) -> None:
    """Moved by a rounding, as operands are for the scale, half of them would be counted elsewhere."""
    made = "torch.randint(0, 64, (dims[0] // 32,), dtype=torch.float32)"
    answer = "torch.bincount(values.clamp(0, 63).long(), minlength=64).float()"
    text = CASES.format(parameters=POINTER, answer=answer, more="", made=made)
    with foreign_problem(text.encode(), "def.py", toolbox.sandbox, toolbox.cache) as problem:
        inputs = problem.distributions[0].draw(NumpyRng(np.random.default_rng(1)), problem.example_sizes[0])
        (found,) = problem.oracle(inputs, problem.example_sizes[0]).values()
        assert np.array_equal(found.value, np.bincount(inputs["values"].astype(int), minlength=64))
        assert np.array_equal(found.scale, found.value)
