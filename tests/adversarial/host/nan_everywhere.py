# problem: relu
# attack: an answer that compares as neither wrong nor right
# expect: incorrect
# because: NaN is wrong where the reference has none
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.full_like(x, float("nan"))
