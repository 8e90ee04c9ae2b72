"""The referee's own device code on tensors of the host: on Assay's simulator, and on a GPU with copies of them."""

import ctypes
import functools

import numpy as np
import torch

from common.contract import Settings
from evaluator.backends.gpu.checks import KERNELS, RESULT_BYTES, THREADS
from evaluator.backends.session import Buffer, Entry, KernelLaunch, Packed, Parameter, PlanRun, Pointer, Program
from evaluator.pipeline.gpu.own_code import own_image
from evaluator.stages.compile.toolchain import find_toolchain


@functools.cache
def own_program():
    entries = [
        Entry(name, name, (Parameter("all", "struct", "struct", size_bytes, 0),))
        for name, size_bytes in KERNELS.items()
    ]
    return Program(own_image(find_toolchain(), "sm_80", "ptx").decode(), tuple(entries), "sm_80")


class SimulatedDevice:
    """`checks.ChecksLauncher` on a session of the simulator."""

    def __init__(self, simulator):
        self._session = simulator.prepare(own_program(), Settings())
        self._results = torch.zeros(RESULT_BYTES, dtype=torch.uint8)
        self.launches = 0

    def launch(self, kernel, grid, parameters, pointers):
        self.launches += 1
        storages, addresses = {}, []
        for place, tensor in pointers:
            storage = tensor.untyped_storage()
            name = f"s{storage.data_ptr()}"
            storages[name] = storage
            addresses.append((place, Pointer(name, tensor.data_ptr() - storage.data_ptr())))
        held = {
            name: np.frombuffer((ctypes.c_uint8 * storage.nbytes()).from_address(storage.data_ptr()), np.uint8)
            for name, storage in storages.items()
        }
        buffers = tuple(Buffer(name, "input", memory.nbytes, 1, memory) for name, memory in held.items())
        step = KernelLaunch(
            kernel, (*grid, 1), (THREADS, 1, 1), 0, False, (Packed(bytes(parameters), tuple(addresses)),)
        )
        outcome = self._session.run(PlanRun(buffers, (step,), 0xFF, 60.0))
        assert outcome.fault is None, outcome.fault
        assert not outcome.warnings, outcome.warnings
        for name, memory in held.items():
            memory[:] = outcome.contents[name]

    def results(self):
        return self._results.zero_()

    def read(self):
        return self._results.numpy().tobytes()

    def renew(self):
        self._session.renew()

    def close(self):
        self._session.__exit__(None, None, None)


class RealDevice:
    """`checks.ChecksLauncher` on a GPU, which gets a copy of each storage for each launch."""

    def __init__(self):
        from evaluator.backends.gpu.device.health import gpus
        from evaluator.backends.gpu.tensors import ChecksDevice

        image = own_image(find_toolchain(), gpus()[0].arch, "cubin")
        self._device = ChecksDevice(image, KERNELS, THREADS, RESULT_BYTES)
        self._results = torch.zeros(RESULT_BYTES, dtype=torch.uint8)

    def launch(self, kernel, grid, parameters, pointers):
        storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for _, tensor in pointers}
        held = {
            start: torch.frombuffer((ctypes.c_uint8 * storage.nbytes()).from_address(start), dtype=torch.uint8)
            for start, storage in storages.items()
        }
        there = {start: memory.cuda() for start, memory in held.items()}
        moved = []
        for place, tensor in pointers:
            start = tensor.untyped_storage().data_ptr()
            moved.append((place, there[start][tensor.data_ptr() - start :]))
        self._device.launch(kernel, grid, parameters, moved)
        torch.cuda.synchronize()
        for start, memory in held.items():
            memory.copy_(there[start])

    def results(self):
        return self._results.zero_()

    def read(self):
        return self._results.numpy().tobytes()
