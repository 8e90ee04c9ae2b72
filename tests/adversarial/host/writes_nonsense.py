# problem: relu
# attack: nonsense on the grader's channel
# expect: rejected|runtime_error|incorrect
# because: what is no message ends its process
import os

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        for fd in range(3, 128):
            try:
                os.write(fd, b"\xff" * 64)
            except OSError:
                pass
        return torch.relu(x)
