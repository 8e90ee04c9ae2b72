# problem: relu
# attack: the answer of the first call for the same address and shape
# expect: incorrect
# because: contents are new each time
import torch

KEPT = {}


class ModelNew(torch.nn.Module):
    def forward(self, x):
        key = (x.data_ptr(), x.shape)
        if key not in KEPT:
            KEPT[key] = torch.relu(x)
        return KEPT[key]
