# problem: relu
# attack: none: PyTorch's own operator
# timed
# expect: passed
# because: the answer is right, and everything that it takes is in its time
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
