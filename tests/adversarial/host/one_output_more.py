# problem: relu
# attack: a second output
# expect: invalid_submission
# because: the problem has one
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x), x
