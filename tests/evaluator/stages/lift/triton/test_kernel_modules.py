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
