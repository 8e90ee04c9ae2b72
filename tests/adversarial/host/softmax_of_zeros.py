# problem: softmax
# attack: a constant, which many checks take for right where inputs are small
# expect: incorrect
# because: inputs have spread
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(torch.zeros_like(x), -1)
