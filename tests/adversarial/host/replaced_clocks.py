# problem: relu
# attack: Python's clocks stand still
# expect: passed
# because: the time is the referee's, and the answer is right
import time

import torch

time.perf_counter = time.monotonic = lambda: 0.0
time.perf_counter_ns = lambda: 0


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
