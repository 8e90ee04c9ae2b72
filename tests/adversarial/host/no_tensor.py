# problem: relu
# attack: an object that only looks like a tensor
# expect: invalid_submission
# because: it is none
import torch


class Like:
    def __init__(self, x):
        self.shape, self.dtype = x.shape, x.dtype

    def reshape(self, *_):
        return self


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return Like(x)
