# problem: relu
# attack: a second process that answers too
# expect: rejected|incorrect|runtime_error
# because: answers have numbers, and the second is one too many
import os

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        os.fork()
        return torch.relu(x)
