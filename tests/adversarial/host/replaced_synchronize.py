# problem: relu
# attack: a wait of PyTorch's that does not
# expect: passed
# because: the referee takes the answer itself, and it is right
import torch

torch.cuda.synchronize = lambda *_: None


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
