# problem: relu
# attack: an exit in the middle of a call
# expect: runtime_error
# because: its process is gone
import os

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        os._exit(0)
