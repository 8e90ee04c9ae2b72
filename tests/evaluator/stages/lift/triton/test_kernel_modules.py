"""The PTX of a Triton file is a text of the submission's: reading it takes time in proportion to its length."""

import contextlib
import time

import pytest

from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.triton.kernel_modules import KernelModule, TritonKernel


@pytest.mark.parametrize("filler", ["\n", " ", "\t\n", ".extern ", "//", ".version 8.0 ,"], ids=repr)
def test_filler_is_read_once(filler):
    head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    ptx = f"{head}{filler * (400_000 // len(filler))}\n.visible .entry k("
    module = KernelModule()
    module.add({"id": TritonKernel(name="k", line=1, ptx=ptx, parameters=())}, ["id"])
    began_s = time.process_time()
    with contextlib.suppress(LiftRefusedError):
        module.program()
    assert time.process_time() - began_s < 5


def test_a_kernel_may_be_called_as_an_instruction():
    """Its second specialisation has another name, and the instruction has not."""
    head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    ptx = f"{head}.visible .entry add(\n\t.param .u32 add_param_0\n)\n{{\n\tadd.s32 %r1, %r2, %r3;\n\tret;\n}}\n"
    kernel = TritonKernel(name="add", line=1, ptx=ptx, parameters=(("n", "i32"),))
    module = KernelModule()
    module.add({"one": kernel, "other": kernel.model_copy(update={"line": 2})}, ["one", "other"])
    text, entries = module.program()
    assert [entry.symbol for entry in entries] == ["add", "add_2"]
    assert text.count("\tadd.s32 ") == 2
