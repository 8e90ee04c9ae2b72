# problem: relu
# attack: an argument that the problem does not have
# expect: invalid_submission
# because: nothing can be passed for it
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x, temperature):
        return torch.relu(x)
