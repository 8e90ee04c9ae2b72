"""Sessions of a program on a device that needs no GPU, and runs of it: one input, one output of `N` elements."""

import struct
from dataclasses import replace

import torch
from stand_in import program

from common.wire import DType
from evaluator.backends.gpu.shared_memory import room_for
from evaluator.backends.session import (
    Buffer,
    KernelLaunch,
    PlanRun,
    Pointer,
    Wanted,
)
from evaluator.problems.problem import Expected, Tolerance

N = 1000
TOGETHER = 12
"""Runs that are launched together where the referee has device code of its own."""
ALLOWED = Tolerance(0.0, 1e-6, "")


def opened(runtime, deed, **more):
    return runtime.open(program(deed, **more), False, room_for([4 * N, 4 * N]))


def relu_run(x, time_limit_s=5.0, poison=0xFF, steps=None):
    buffers = (Buffer("x", "input", 4 * N, 4, x), Buffer("y", "output", 4 * N, 4, None))
    launch = KernelLaunch("k", (4, 1, 1), (256, 1, 1), 0, False, (Pointer("x"), Pointer("y"), struct.pack("<i", N)))
    return PlanRun(buffers, steps or (launch,), poison, time_limit_s)


def contents(seed=0):
    return torch.randn(N, generator=torch.Generator().manual_seed(seed))


def wanting(x, y, **more):
    """A run of relu that should give `y`."""

    def wanted():
        expected = Expected(y.double(), torch.ones(N, dtype=torch.float64))
        return Wanted({"y": expected}, ALLOWED, {"y": (DType.FLOAT32, (N,))})

    return replace(relu_run(x), wanted=wanted, **more)
