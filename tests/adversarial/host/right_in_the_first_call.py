# problem: relu
# attack: right once, then zeros
# expect: incorrect
# because: every call is looked at
import torch

CALLS = []


class ModelNew(torch.nn.Module):
    def forward(self, x):
        CALLS.append(1)
        return torch.relu(x) if len(CALLS) == 1 else torch.zeros_like(x)
