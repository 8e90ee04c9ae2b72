# problem: relu
# attack: right at the sizes that the problem publishes
# expect: incorrect
# because: hidden sizes are others
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) if x.numel() % 2 == 0 else torch.zeros_like(x)
