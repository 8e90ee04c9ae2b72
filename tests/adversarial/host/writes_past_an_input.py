# problem: relu
# attack: a write past the end of an input
# expect: runtime_error
# because: what lies there must stay as it is
import ctypes

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        ctypes.memset(x.data_ptr() + x.nbytes, 0, 64)
        ctypes.memset(x.data_ptr() + x.nbytes, 255, 64)
        return torch.relu(x)
