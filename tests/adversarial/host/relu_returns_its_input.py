# problem: relu
# attack: the input as the answer
# expect: incorrect
# because: inputs are negative too
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x
