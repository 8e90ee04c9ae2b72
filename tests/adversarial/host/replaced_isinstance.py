# problem: relu
# attack: Python's own names replaced
# expect: incorrect|runtime_error|rejected
# because: nothing that decides is in its process
import builtins

import torch

builtins.isinstance = lambda *_: True
builtins.len = lambda *_: 1


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
