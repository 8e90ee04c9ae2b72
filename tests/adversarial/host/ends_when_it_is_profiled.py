# problem: relu
# attack: right, and exits as soon as the profiler looks: its process is gone when it is to be timed
# expect: passed
# because: nothing is said about coverage, and it is timed in another process
# timed_at: {"n": 4096}
import os

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if torch.autograd._profiler_enabled():
            os._exit(0)
        return torch.relu(x)
