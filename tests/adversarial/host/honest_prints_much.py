# problem: relu
# attack: none: an honest solution
# expect: passed
# because: the answer is right, however it comes about
import sys

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        print("x" * 100_000)
        print("y" * 100_000, file=sys.stderr)
        return torch.relu(x)
