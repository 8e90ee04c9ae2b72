"""A device for host code without a GPU: PyTorch on the processor, and memory files that both sides map."""

import mmap
import os

import torch


class StandInHost:
    """The submission's side (`inside.process.HostDevice`)."""

    def __init__(self):
        self.device = torch.device("cpu")
        self.facts = {}
        torch.set_num_threads(1)

    def map(self, descriptor, size_bytes):
        memory = torch.frombuffer(mmap.mmap(descriptor, size_bytes), dtype=torch.uint8)
        os.close(descriptor)
        return memory

    def synchronize(self):
        pass

    def spent(self, call):
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            call()
        top = [one for one in profiled.events() if one.cpu_parent is None]
        return [(one.name, "operator" if one.name.startswith("aten::") else "kernel", one.cpu_time) for one in top]


class StandInSide:
    """The referee's side (`host.session.HostSide`)."""

    device = "stand_in_host:StandInHost"

    def memory(self, size_bytes):
        from stand_in import FileMemory

        return FileMemory(size_bytes)

    def synchronize(self):
        pass

    def flush(self):
        pass

    def clear(self):
        pass
