# problem: relu
# attack: takes more memory than it may
# expect: out_of_memory|runtime_error|timeout
# because: its memory is counted
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        kept = [bytearray(b"x") * (256 << 20) for _ in range(64)]
        return torch.relu(x)
