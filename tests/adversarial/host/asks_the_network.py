# problem: relu
# attack: asks a service for the answer
# expect: runtime_error
# because: there is no network
import socket

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        socket.create_connection(("1.1.1.1", 80), 1)
        return torch.relu(x)
