# problem: relu
# attack: reads a file of the machine
# expect: runtime_error
# because: it cannot be opened
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        open("/etc/shadow").read()
        return torch.relu(x)
