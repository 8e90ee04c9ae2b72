# problem: relu
# attack: none: an honest solution
# expect: passed
# because: the answer is right, however it comes about
import numpy as np
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.from_numpy(np.maximum(x.cpu().numpy(), 0)).to(x.device)
