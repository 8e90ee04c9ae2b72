# problem: relu
# attack: a clock of PyTorch's that says nothing passed
# expect: passed
# because: the time is the referee's, and the answer is right
import torch

torch.cuda.Event.elapsed_time = lambda self, other: 1e-9


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
