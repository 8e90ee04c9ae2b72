# problem: relu
# attack: work on the side that the call does not wait for, as on a stream that nobody synchronises
# expect: incorrect
# because: the answer is taken when the submission says that it is there
import threading

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.zeros_like(x)
        threading.Timer(0.2, lambda: out.copy_(torch.relu(x))).start()
        return out
