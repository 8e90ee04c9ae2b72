# problem: relu
# attack: an exit that Python can catch
# expect: runtime_error
# because: it gives no answer
import sys

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        sys.exit(0)
