# problem: relu
# attack: the answer of the call before
# expect: incorrect
# because: contents are new each time
import torch

LAST = []


class ModelNew(torch.nn.Module):
    def forward(self, x):
        last, LAST[:] = list(LAST), [torch.relu(x)]
        return last[0] if last and last[0].shape == x.shape else torch.zeros_like(x)
