"""When a program for host code sees its inputs."""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3]))

import torch
from stand_in_host import StandInSide

from evaluator.backends.gpu.host.process import RunnableText
from evaluator.backends.gpu.host.session import Stand
from evaluator.problems.catalogue import find_problem
from evaluator.stages.host.host_plan import host_plan


class Process:
    """Says what the shared memory holds at each order."""

    alive = True

    def __init__(self):
        self.seen = {}
        self.memory = None

    def load(self, name, program, time_s):
        pass

    def share(self, name, memory):
        self.memory = memory

    def prepare(self, name, order, time_s):
        _, _, _, _, self.at, self.size_bytes = next(one for one in order["tensors"] if one[1] == "input")
        return "ModelNew.forward"

    def look(self, name):
        content = self.memory.content[self.at : self.at + self.size_bytes]
        self.seen[name] = content.clone().view(torch.float32).numpy()

    def arm(self, name, time_s):
        self.look("armed")

    def go(self, time_s):
        self.look("go")


def test_inputs_appear_when_the_clock_has_started():
    problem = find_problem("relu")
    call = host_plan(problem, "sm_90a", 1).at({"n": 8}, 1 << 20).host_call
    process = Process()
    stand = Stand("submission", process, StandInSide(), RunnableText("kernelbench", ""))
    stand.prepare(call, 1.0)
    given = torch.arange(8, dtype=torch.float32)
    stand.run({"x": given}, 0x55, 1.0, lambda: process.look("flushed"))
    assert np.array_equal(process.seen["go"], given.numpy())
    for early in ("armed", "flushed"):
        assert process.seen[early].tobytes() == bytes([0x55]) * 32
