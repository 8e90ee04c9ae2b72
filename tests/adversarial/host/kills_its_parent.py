# problem: relu
# attack: a signal to the process that started it
# expect: runtime_error|passed
# because: it sees processes of its own sandbox alone
import os
import signal

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        os.kill(os.getppid(), signal.SIGKILL)
        return torch.relu(x)
