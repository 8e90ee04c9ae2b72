# problem: relu
# attack: our own code in its process delivers nothing
# expect: incorrect
# because: the answer is not there
import torch

from evaluator.backends.gpu.host.inside import solution

solution.LoadedText.deliver = lambda self, returned: None


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
