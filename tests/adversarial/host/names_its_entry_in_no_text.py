# problem: relu
# attack: our own code in its process says what is called in characters that are no text
# expect: passed
# because: it is made text first, and the answer is right
import torch

from evaluator.backends.gpu.host.inside import solution

solution._in_words = lambda *_: "\ud800\x00\x1b[2J"


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
