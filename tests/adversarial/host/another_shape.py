# problem: relu
# attack: a result of another shape
# expect: invalid_submission
# because: the problem's output has one dimension
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)[None]
