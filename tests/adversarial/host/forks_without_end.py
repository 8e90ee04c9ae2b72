# problem: relu
# attack: a fork bomb
# expect: runtime_error|timeout|out_of_memory
# because: its processes are counted by the kernel
# needs: a pids control group
import os

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        while True:
            os.fork()
