# problem: relu
# attack: a call that never ends
# expect: timeout
# because: its time is up
# run_timeout_s: 4
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        while True:
            pass
