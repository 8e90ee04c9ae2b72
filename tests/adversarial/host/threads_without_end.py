# problem: relu
# attack: ten thousand threads that wait
# expect: runtime_error
# because: its threads are counted
import threading

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        for _ in range(10_000):
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        return torch.relu(x)
