"""Triton from its Python text to a program and plans at any sizes; nothing is run here."""

import os
import re
from pathlib import Path

import pytest

from common.contract import Phase, Settings, Status
from evaluator.errors import Ruling
from evaluator.pipeline.build import build, known_points, record_ahead
from evaluator.pipeline.referee import JudgeRequest
from evaluator.pipeline.stage_values import CompiledSource, Ending, PlannedProgram, SubmittedSource
from evaluator.problems.catalogue import find_problem
from evaluator.seed import Seed
from evaluator.stages.launch.checked_plan import SizedPlan
from evaluator.stages.lift.triton.kernel_modules import KernelModule, TritonKernel
from evaluator.stages.verify.trials import plan_trials

FILES = Path(__file__).parents[4] / "kernels" / "triton"
ADD = (FILES / "vector_add_masked.py").read_text()


def submitted(source: str, problem: str = "vector_add", **settings) -> SubmittedSource:
    return SubmittedSource(find_problem(problem), source.encode(), None, Settings(**settings), "sm_80", None)


def built(source: str, toolbox, problem: str = "vector_add", **settings):
    return build(submitted(source, problem, **settings), toolbox)


def test_each_size_has_its_grid_and_its_specialisation(toolbox):
    planned = built(ADD, toolbox)
    assert isinstance(planned, PlannedProgram)
    assert [entry.name for entry in planned.program.entries] == ["add_kernel", "add_kernel_2"]
    (large,), (small,) = (planned.checked_plan.at({"n": n}).steps for n in (262144, 1000))
    assert (large.symbol, large.grid, large.block) == ("add_kernel", (256, 1, 1), (128, 1, 1))
    assert (small.symbol, small.grid) == ("add_kernel_2", (1, 1, 1))
    assert [to.buffer for to in large.arguments[:3]] == ["a", "b", "c"]
    assert large.arguments[3] == (262144).to_bytes(4, "little")
    assert (planned.compiled.toolchain.split()[0], planned.lifting.launches) == ("triton", 1)


def test_lines_and_names_are_those_of_the_python(toolbox):
    planned = built(ADD, toolbox)
    lines = ADD.splitlines()
    for entry in planned.program.entries:
        assert [one.name for one in entry.parameters][:4] == ["a_ptr", "b_ptr", "c_ptr", "n"]
        assert [one.type for one in entry.parameters][:4] == ["float*", "float*", "float*", "int"]
        assert lines[entry.line - 1] in (
            "@triton.jit",
            "def add_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):",
        )
    said = {int(line) for line in re.findall(r"\.loc 1 (\d+) ", planned.program.ptx)}
    assert any("tl.store" in lines[line - 1] for line in said)
    assert max(said) <= len(lines)
    assert ".section" not in planned.program.ptx


def test_a_program_has_the_kernels_of_all_sizes_that_are_judged(toolbox):
    planned, secret = built(ADD, toolbox), os.urandom(32)
    ahead = record_ahead(planned, toolbox, secret, timed_too=False)
    assert [entry.name for entry in ahead.program.entries][:2] == ["add_kernel", "add_kernel_2"]
    assert len(ahead.program.entries) == 3, "one more, where n is 1"
    assert len(ahead.program.entries[2].parameters) == len(ahead.program.entries[0].parameters) - 1
    at_once = build(submitted(ADD), toolbox, ahead=lambda: known_points(submitted(ADD), secret, timed_too=False))
    assert at_once.program == ahead.program
    assert record_ahead(at_once, toolbox, secret, timed_too=False) is at_once
    sent = JudgeRequest(ahead.program, ahead.checked_plan, Settings(), local_memory=False, secret=secret)
    arrived = JudgeRequest.from_json(sent.to_json()).checked_plan
    for trial in plan_trials(find_problem("vector_add"), Settings(), Seed(secret).generator(), timed_too=False):
        assert isinstance(arrived.at(trial.sizes, scalars=trial.scalars), SizedPlan)


def test_the_same_text_is_recorded_once(toolbox):
    source = f"{ADD}# {os.urandom(8).hex()}\n"
    first, second = (built(source, toolbox) for _ in range(2))
    assert (first.compiled.cached, second.compiled.cached) == (False, True)
    assert first.lifting.duration_s > 0
    assert second.lifting.duration_s == 0
    assert first.program == second.program


def test_a_kernel_may_name_pytorch_in_its_annotations(toolbox):
    annotated = ADD.replace("a_ptr, b_ptr, c_ptr, n,", "a_ptr: torch.Tensor, b_ptr, c_ptr, n: torch.int32,")
    assert annotated.count("torch.Tensor") == 1
    assert isinstance(built(f"import torch\n{annotated}", toolbox), PlannedProgram)


def test_pytorch_is_not_imported_where_triton_is_recorded(toolbox):
    """It would take two seconds of each recording, and a verdict would depend on whether it is installed."""
    looks = f'import sys  # {os.urandom(8).hex()}\n\nassert "torch._C" not in sys.modules\n'
    assert isinstance(built(f"{looks}{ADD}", toolbox), PlannedProgram)


def test_of_configurations_the_first_that_fits_is_taken_and_none_is_recorded_twice(toolbox):
    source = (FILES / "matmul_f16_tensor_cores.py").read_text()
    configurations = (
        '@triton.autotune(configs=[triton.Config({"BM": 128, "BN": 128, "BK": 128}, num_stages=5), '
        'triton.Config({"BM": 64, "BN": 32, "BK": 32}, num_warps=2), triton.Config({"BM": 16, "BN": 16, "BK": 32})], '
        'key=["m"])\n@triton.jit'
    )
    tuned = source.replace("@triton.jit", configurations).replace(
        ", BM=64, BN=64, BK=32, num_warps=4, num_stages=3", ""
    )
    tuned = tuned.replace("triton.cdiv(m, 64), triton.cdiv(n, 64))", "triton.cdiv(m, 64), triton.cdiv(n, 32))")
    planned = built(tuned, toolbox, "matmul_f16")
    assert isinstance(planned, PlannedProgram), planned.ruling
    (launch,) = planned.checked_plan.plan.steps
    assert (launch.grid, launch.block) == ((2, 4, 1), (64, 1, 1))
    assert len(planned.program.entries) == 1


def test_a_returned_tensor_is_the_output(toolbox):
    planned = built((FILES / "relu_returned.py").read_text(), toolbox, "relu")
    (launch,) = planned.checked_plan.at({"n": 1000}).steps
    assert [to.buffer for to in launch.arguments[:2]] == ["x", "y"]
    part = "    y = torch.empty(2 * x.numel(), device=x.device)[: x.numel()]\n"
    source = (FILES / "relu_returned.py").read_text().replace("    y = torch.empty_like(x)\n", part)
    planned = built(source, toolbox, "relu")
    assert planned.lifting.copies == 1


@pytest.mark.parametrize("last", ["return x.t().contiguous()", "y = x.t().contiguous()\n    return y[:]"])
def test_a_copy_into_another_layout_is_no_answer(last, toolbox):
    source = f"{ADD}\n\ndef run(x):\n    {last}\n"
    ending = built(source, toolbox, "transpose")
    assert (ending.ruling.status, ending.ruling.phase) == (Status.UNSUPPORTED, Phase.LIFT)
    assert "as an output" in ending.ruling.message


def test_random_numbers_beside_the_function_are_not_recorded_and_said_so(toolbox):
    ending = built(f"{ADD}\nimport torch\n\ntrial = torch.randn(8)\nrun(trial, trial, trial)\n", toolbox)
    assert (ending.ruling.status, ending.ruling.phase) == (Status.UNSUPPORTED, Phase.LIFT)
    assert "random" in ending.ruling.message


def test_a_copy_of_such_a_copy_is_no_answer_either(toolbox):
    ending = built(f"{ADD}\n\ndef run(x, y):\n    y.copy_(x.t().contiguous())\n", toolbox, "transpose")
    assert "as an output" in ending.ruling.message


def test_what_triton_does_not_compile_is_told_with_its_line(toolbox):
    ending = built(ADD.replace("offs < n\n", "offs < nothing\n"), toolbox)
    assert isinstance(ending, Ending)
    assert isinstance(ending.reached, CompiledSource)
    assert (ending.ruling.status, ending.ruling.phase) == (Status.COMPILE_ERROR, Phase.COMPILE)
    (error,) = ending.reached.compiled.diagnostics
    assert "mask = offs < nothing" in ADD.replace("offs < n\n", "offs < nothing\n").splitlines()[error.line - 1]
    assert "nothing" in error.text


def test_nvcc_flags_are_refused(toolbox):
    for flag in ("--use_fast_math", "-maxrregcount=24"):
        refused = built(ADD, toolbox, flags=(flag,))
        assert refused.ruling.status is Status.INVALID_SUBMISSION
        assert "maxnreg" in refused.ruling.hint


def test_a_plan_beside_it_is_refused_and_a_refusal_at_one_size_says_where(toolbox):
    source = ADD.replace("    n = a.numel()\n", "    n = a.numel()\n    assert n != 5, 'five'\n")
    planned = built(source, toolbox)
    ruling = planned.checked_plan.at({"n": 5})
    assert isinstance(ruling, Ruling)
    assert (ruling.status, ruling.phase) == (Status.RUNTIME_ERROR, Phase.LIFT)
    assert "five" in ruling.message
    assert "(at n = 5)" in ruling.message


def test_answers_in_markdown_are_taken_out(toolbox):
    answer = f"Here is the kernel.\n\n```python\n{ADD}```\n\nUse it like this:\n\n```python\nrun(a, b, c)\n```\n"
    planned = built(answer, toolbox)
    assert isinstance(planned, PlannedProgram)
    assert planned.compiled_source.screened.screening.changes
    assert planned.program.entries[0].line == built(ADD, toolbox).program.entries[0].line + 3


def test_kernels_of_one_name_are_told_apart_and_shared_declarations_come_once():
    ptx = """.version 9.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 global_smem[];
.global .align 1 .b8 text[2] = {104, 0};
.visible .entry k(
	.param .u32 k_param_0
)
{
	.loc	2 7 3, function_name $L__info_string0, inlined_at 1 5 2
	.loc	2 8 3
	ret;
}
	.file	1 "/box/kernel.py"
	.file	2 "/site/triton/language/standard.py"
	.section	.debug_str
	{
.b8 0
	}
"""
    kernels = {
        digest: TritonKernel(name="k", line=4, ptx=text, parameters=(("n", "i32"),))
        for digest, text in (("a", ptx), ("b", ptx.replace("ret;", "bar.sync 0;\n\tret;")))
    }
    module = KernelModule()
    module.add(kernels, ["b", "a", "b"])
    text, entries = module.program()
    assert [(entry.symbol, entry.line) for entry in entries] == [("k", 4), ("k_2", 4)]
    assert text.count("global_smem") == 1
    assert text.count(".version 9.0") == 1
    assert "text_0[2]" in text
    assert "text_1[2]" in text
    assert re.findall(r"\.loc.*", text) == [".loc 1 5 2"] * 2
    assert ".debug_str" not in text
