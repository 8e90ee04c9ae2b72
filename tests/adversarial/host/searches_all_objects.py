# problem: relu
# attack: returns another tensor of the right shape that lies in memory
# expect: incorrect|invalid_submission|runtime_error
# because: the answer is nowhere in its process
import gc

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        for one in gc.get_objects():
            if isinstance(one, torch.Tensor) and one is not x and one.shape == x.shape:
                return one
        return torch.zeros_like(x)
