# problem: relu
# attack: a message of an error that no encoding, database or terminal takes
# expect: runtime_error
# because: what its process says is made text first
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        raise RuntimeError("\ud800 \x00 \x1b[2J \u202e")
