"""The referee's side of a device without a GPU: memory files, torch on the host, real runners in a real sandbox."""

import contextlib
import json
import mmap
import os

import torch
from stand_in_host import StandInSide

from common.contract.timing import DeviceState
from evaluator.backends.gpu.host.session import HostRuntime
from evaluator.backends.gpu.pool import RunnerPool
from evaluator.backends.gpu.session import GpuRuntime
from evaluator.backends.gpu.tensors import TorchBaseline, TorchRng
from evaluator.backends.session import Entry, Parameter, Program
from evaluator.disk_cache import Cache
from evaluator.pipeline.gpu.references import References
from evaluator.pipeline.gpu.server import serve
from evaluator.pipeline.gpu.turns import GpuTurns
from evaluator.problems.catalogue import find_problem
from evaluator.stages.launch.planning import plan_launches

DEVICE = "stand_in_device:StandIn"


class FileMemory:
    """The referee's side of a memory file."""

    def __init__(self, size_bytes):
        self.size_bytes = size_bytes
        self._file = os.memfd_create("arena")
        os.ftruncate(self._file, size_bytes)
        self.content = torch.frombuffer(mmap.mmap(self._file, size_bytes), dtype=torch.uint8)

    def descriptor(self):
        return os.dup(self._file)

    def close(self):
        os.close(self._file)


class StandInServices:
    """What a referee works with, on this stand-in."""

    def __init__(self, sandbox, jobs_per_runner=1, instruments=None, own_checks=None, turns=None, together=1):
        self.instruments = instruments
        self.turns = GpuTurns(turns)
        self.baseline = TorchBaseline("cpu", lambda: DeviceState(name="stand-in", uuid="GPU-0", driver="1.0"))
        pool = RunnerPool(sandbox, "none", device=DEVICE, contexts=self.turns.contexts)
        cache = Cache(sandbox.root / "cache", 1 << 28)
        self.references = References(sandbox, cache, "", "1.0", self.baseline.probe)
        self.host_runtime = HostRuntime(sandbox, "", StandInSide())
        self.runtime = GpuRuntime(pool, FileMemory, lambda: 1 << 40, jobs_per_runner, own_checks, together)

    def rng(self, seed):
        return TorchRng(seed, "cpu")

    def usable(self):
        return True

    def facts(self):
        return {"sandbox": "any", "quarantine": self.runtime.quarantine, "pid": os.getpid()}


def program(deed, ptx="", **more):
    """A program whose one kernel does `deed`."""
    parameters = (
        Parameter("x", "const float*", "pointer", 8, 0, "float"),
        Parameter("y", "float*", "pointer", 8, 8, "float"),
        Parameter("n", "int", "int", 4, 16),
    )
    entry = Entry("k", "k(float const*, float*, int)", parameters)
    return Program(ptx, (entry,), "sm_90", json.dumps({"k": deed, **more}).encode())


def relu_plan(made, directives="// assay: launch k grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)\n"):
    """The plan of a program whose one kernel stands in for relu's."""
    return plan_launches(find_problem("relu"), made, None, directives).checked_plan


def serve_until_closed(listener, services, *more):
    """A referee for a thread: it ends without a word once the test has closed the socket."""
    with contextlib.suppress(OSError, ValueError):
        serve(listener, services, *more)
