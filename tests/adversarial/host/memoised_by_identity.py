# problem: relu
# attack: the answer of the first call for the same tensor object
# expect: incorrect|invalid_submission
# because: contents are new each time
import torch

KEPT = {}


class ModelNew(torch.nn.Module):
    def forward(self, x):
        if id(x) not in KEPT:
            KEPT[id(x)] = torch.relu(x)
        return KEPT[id(x)]
