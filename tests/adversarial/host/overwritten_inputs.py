# problem: relu
# attack: inputs are made easy, for a reference that is computed from them later
# expect: rejected
# because: an input came back changed
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x.zero_()
        return torch.zeros_like(x)
