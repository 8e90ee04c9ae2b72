"""Challenges in LeetGPU's form: judged at smaller sizes than they state, and refused in words."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from common.contract import OtherSizes, Reference, Status, Submission, Verdict, form_of
from evaluator.foreign.loading import foreign_problem
from evaluator.foreign.reference import ReferenceRefusedError
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.problem import Problem

FOLDER = Path(__file__).parent / "references" / "leetgpu"
TEXT, KERNEL = (FOLDER / "challenge.py").read_text(), (FOLDER / "gains.cu").read_text()


def graded(source: str, toolbox: Toolbox, other_sizes: OtherSizes = "reported") -> Verdict:
    with foreign_problem(TEXT.encode(), "challenge.py", toolbox.sandbox, toolbox.cache, other_sizes) as problem:
        names = ("signal", "weights", "gains", "rows", "columns")
        assert (problem.parameter_names, problem.id[:18]) == (names, "leetgpu_challenge_")
        assert [tensor.shape for tensor in problem.inputs] == [("rows", "columns"), ("columns",)]
        assert problem.too_large == ("" if other_sizes == "required" else "rows=32768, columns=4096")
        return evaluate(Submission(problem=problem.id, source=source, backend="sim"), toolbox, problem=problem)


def test_a_challenge_is_judged_by_what_its_reference_writes(toolbox: Toolbox) -> None:
    right = graded(KERNEL, toolbox)
    assert right.status is Status.PASSED, right.message
    assert right.correctness is not None
    assert right.correctness.generalisation is not None
    assert right.correctness.generalisation.passed
    wrong = graded(KERNEL.replace("0.25f * sum", "0.2501f * sum"), toolbox, "required")
    assert wrong.status is Status.INCORRECT, wrong.message


def test_its_form_is_known_by_what_it_imports() -> None:
    assert form_of(TEXT.encode()) == "leetgpu"
    assert form_of(b"# from core.challenge_base import ChallengeBase") == "kernelbench"
    assert Reference(name="challenge.py", text=TEXT).problem_id.startswith("leetgpu_challenge_")


@pytest.mark.parametrize(
    ("changed", "into", "told"),
    [
        ("class Challenge(", "class Other(", "it has no class `Challenge` that extends ChallengeBase"),
        ("def reference_impl", "def another", "its Challenge has no method `reference_impl`"),
        (
            'c_float), "in"',
            'c_float), "to"',
            "'signal' is 'to': a tensor is read (in), written (out) or both (inout)",
        ),
        ('c_float), "in"', 'c_float), "inout"', "the output 'signal_out' equals the input 'signal'"),
        ("gains.mul_(factor)", "gains.mul_(factors)", "challenge.py:17: forward fails: NameError"),
    ],
)
def test_what_is_no_challenge_is_refused(changed: str, into: str, told: str, toolbox: Toolbox) -> None:
    assert changed in TEXT
    text = TEXT.replace(changed, into, 1).encode()
    with (
        pytest.raises(ReferenceRefusedError, match=re.escape(told)),
        foreign_problem(text, "challenge.py", toolbox.sandbox, toolbox.cache),
    ):
        pass


CHALLENGE = """
import ctypes
import torch
from core.challenge_base import ChallengeBase, FullTensor, RandTensor, OutTensor

class Challenge(ChallengeBase):
    def reference_impl(self, {arguments}):
        {body}

    def get_solve_signature(self):
        return {signature}

    def generate_performance_test(self):
        {made}
"""


def assert_ends(problem: Problem, toolbox: Toolbox, kernels: Mapping[str, Status]) -> None:
    for source, status in kernels.items():
        submission = Submission(problem=problem.id, source=source, backend="sim")
        verdict = evaluate(submission, toolbox, problem=problem)
        assert verdict.status is status, verdict.message


def challenge(arguments: str, body: str, made: str, **directions: str) -> bytes:
    told = ", ".join(f"'{name}': (ctypes.c_float, '{way}')" for name, way in directions.items())
    signature = "{" + told + "}"
    return CHALLENGE.format(arguments=arguments, body=body, made=made, signature=signature).encode()


def test_what_is_changed_in_place_is_an_input_and_an_output(toolbox: Toolbox) -> None:
    text = challenge(
        "values, steps, N",
        "values += steps.flip(0)\n        values.mul_(2.0)",
        "return {'values': RandTensor((N := 3000,)), 'steps': RandTensor((N,), -1.0), 'N': N}",
        values="inout",
        steps="in",
        N="in",
    )
    kernel = """
    __global__ void stepped(const float* values, const float* steps, float* values_out, int N)
    {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < N) values_out[i] = 2.0f * (values[i] + steps[N - 1 - i]);
    }
    """
    with foreign_problem(text, "challenge.py", toolbox.sandbox, toolbox.cache) as problem:
        assert [tensor.name for tensor in problem.inputs] == ["values", "steps"]
        assert [tensor.name for tensor in problem.outputs] == ["values_out"]
        assert_ends(problem, toolbox, {kernel: Status.PASSED, kernel.replace("2.0f *", ""): Status.INCORRECT})


def test_numbers_without_a_name_are_made_smaller(toolbox: Toolbox) -> None:
    """Beside the largest, with the index that lies below it: `last` is always within the tensor."""
    text = challenge(
        "values, total, N, last, modulus",
        "total.copy_(values[: last + 1].sum().unsqueeze(0) * (modulus % 5))",
        "return {'values': RandTensor((100_000_000,), -1.0), 'total': OutTensor((1,)), 'N': 100_000_000, "
        "'last': 99_999_990, 'modulus': 1_000_000_007}",
        values="in",
        total="out",
    )
    with foreign_problem(text, "challenge.py", toolbox.sandbox, toolbox.cache) as problem:
        (sizes,) = problem.example_sizes
        assert sizes == {"N": 195312, "last": 195311, "modulus": 1_000_000_007}
        assert problem.inputs[0].shape == ("N",)
        assert problem.too_large == "N=100000000, modulus=1000000007"


def test_numbers_that_belong_together_are_made_smaller_together(toolbox: Toolbox) -> None:
    text = challenge(
        "x, y, out, rows, width",
        "out.copy_(x.view(rows, width) @ y.view(width, 2048))",
        "sides = (8192, 4096)\n        x = torch.randn(sides[0] * sides[1])\n"
        "        y = torch.randn(4096 * 2048)\n        rows = 8192\n        width = 4096\n"
        "        return {'x': x, 'y': y, 'out': OutTensor((rows, 2048)), 'rows': rows, 'width': width}",
        x="in",
        y="in",
        out="out",
    )
    with foreign_problem(text, "challenge.py", toolbox.sandbox, toolbox.cache) as problem:
        (sizes,) = problem.example_sizes
        assert sizes["rows"] == sizes["number_8192"] < 8192
        assert sizes["width"] == sizes.get("number_4096", 4096)
        assert problem.inputs[0].shape == (str(sizes["rows"] * sizes["width"]),)


def test_inputs_that_are_always_the_same_are_drawn_where_the_answer_says_nothing(toolbox: Toolbox) -> None:
    """As in an adapter whose second factor begins as zeros: nothing hangs on the first."""
    text = challenge(
        "x, down, up, out",
        "out.copy_(x + x @ down @ up)",
        "return {'x': torch.randn(32, 24), 'down': torch.randn(24, 4), 'up': FullTensor((4, 24), 0.0), "
        "'out': OutTensor((32, 24))}",
        x="in",
        down="in",
        up="in",
        out="out",
    )
    with foreign_problem(text, "challenge.py", toolbox.sandbox, toolbox.cache) as problem:
        told = problem.caveats[0]
        assert told == "the file fills the input 'up' with one value: here it draws 'up' from -0.5 to 0.5"


def test_whole_numbers_that_are_always_the_same_are_told(toolbox: Toolbox) -> None:
    """A kernel may hold them in its text; where nothing hangs on them the problem is refused."""
    made = (
        "starts = torch.arange(0, 640, 20, dtype=torch.int32)\n"
        "        return {'x': torch.randn(640), 'starts': starts, 'out': OutTensor((32,))}"
    )
    directions = {"x": "in", "starts": "in", "out": "out"}
    text = challenge("x, starts, out", "out.copy_(x[starts.long()] * 2)", made, **directions)
    with foreign_problem(text, "challenge.py", toolbox.sandbox, toolbox.cache) as problem:
        assert problem.caveats[0] == "the file makes the input 'starts' the same each time: a kernel may know it"
    idle = challenge("x, starts, out", "out.copy_(x[:32] * 2)", made, **directions)
    with (
        pytest.raises(ReferenceRefusedError, match="no output depends on the input 'starts'"),
        foreign_problem(idle, "challenge.py", toolbox.sandbox, toolbox.cache),
    ):
        pass


def test_a_seed_that_the_file_states_does_not_make_all_draws_the_same(toolbox: Toolbox) -> None:
    text = challenge(
        "x, out",
        "out.copy_(x * 2)",
        "torch.manual_seed(42)\n        x = torch.where(torch.rand(640) < 0.5, 1.5, torch.rand(640))\n"
        "        return {'x': x, 'out': OutTensor((640,))}",
        x="in",
        out="out",
    )
    with foreign_problem(text, "challenge.py", toolbox.sandbox, toolbox.cache) as problem:
        assert not [told for told in problem.caveats if "as published" in told]
    drawn = text.replace(b"x * 2", b"x * torch.rand(640, generator=torch.Generator().manual_seed(7))")
    with (
        pytest.raises(ReferenceRefusedError, match="forward draws random numbers"),
        foreign_problem(drawn, "challenge.py", toolbox.sandbox, toolbox.cache),
    ):
        pass


def test_whole_numbers_without_a_sign_are_inputs_and_outputs(toolbox: Toolbox) -> None:
    text = challenge(
        "x, out, N",
        "out.copy_(((x.to(torch.int64) * 3 + 1) % 4294967291).to(torch.uint32))",
        "return {'x': torch.randint(0, 4294967296, (3000,), dtype=torch.uint32), "
        "'out': OutTensor((3000,), dtype='uint32'), 'N': 3000}",
        x="in",
        out="out",
    )
    kernel = """
    __global__ void hashed(const unsigned* x, unsigned* out, int N)
    {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < N) out[i] = (unsigned)((x[i] * 3ull + 1ull) % 4294967291ull);
    }
    """
    with foreign_problem(text, "challenge.py", toolbox.sandbox, toolbox.cache) as problem:
        assert [tensor.dtype for tensor in (*problem.inputs, *problem.outputs)] == ["uint32", "uint32"]
        assert_ends(problem, toolbox, {kernel: Status.PASSED, kernel.replace("3ull", "3u"): Status.INCORRECT})


def test_inputs_that_only_go_together_may_fail_apart(toolbox: Toolbox) -> None:
    """Places of what is not zero, of another draw, are none."""
    text = challenge(
        "x, places, out",
        "bool((x[places.long()] == 0).any()) and 1 / 0\n        out.copy_(1 / x[places.long()])",
        "x = torch.where(torch.rand(64) < 0.5, 0.0, torch.rand(64) + 0.5)\n"
        "        places = torch.argsort(-x)[:8].to(torch.int32)\n"
        "        return {'x': x, 'places': places, 'out': OutTensor((8,))}",
        x="in",
        places="in",
        out="out",
    )
    with foreign_problem(text, "challenge.py", toolbox.sandbox, toolbox.cache) as problem:
        assert [tensor.name for tensor in problem.inputs] == ["x", "places"]
